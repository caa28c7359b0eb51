// interpreter.run_parallel gives each device its shards: imported as concatenation of arguments and slicing of results;
// uneven shards are padded to the longest. Devices are in mesh order; @sequential_…, which is called without a body, is
// @parallel_… unsharded. Different shards of a value that is only reduced are partial sums.
// RUN: %dtc run %s --check
// RUN: %dtc import %s | FileCheck %s
// (CHECK lines written by scripts/dtc-update-tests)
//--- part1.mlir
sdy.mesh @m = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>

func.func @parallel_reverse(%a: tensor<5x4xi32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}, %b: tensor<4xi32>) -> (tensor<5x4xi32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>}) {
  %0 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xi32>) -> tensor<5x4xi32>
  %1 = stablehlo.subtract %a, %0 : tensor<5x4xi32>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<5x4xi32>
  return %2 : tensor<5x4xi32>
}

func.func @parallel_greatest(%a: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}, %i: tensor<2xi64>) -> tensor<2x2xf32> {
  %0 = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>, sdy.sharding = #sdy.sharding_per_value<[#sdy.sharding<@m, [{}, {}], unreduced=max{"x"}>]>} : (tensor<4x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
  %1 = sdy.all_reduce max {"x"} %0 out_sharding=<@m, [{}, {}]> : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

func.func @sum(%a: tensor<2xi32> {sdy.sharding = #sdy.sharding<@m, [{}]>}) -> (tensor<2xi32> {sdy.sharding = #sdy.sharding<@m, [{"y"}]>}) {
  %0 = sdy.manual_computation(%a) in_shardings=[<@m, [{}]>] out_shardings=[<@m, [{"y"}]>] manual_axes={"x", "y"} (%p: tensor<2xi32>) {
    %1 = "stablehlo.reduce_scatter"(%p) ({
    ^bb0(%u: tensor<i32>, %v: tensor<i32>):
      %2 = stablehlo.add %u, %v : tensor<i32>
      stablehlo.return %2 : tensor<i32>
    }) {scatter_dimension = 0 : i64, replica_groups = dense<[[1, 0], [3, 2]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids} : (tensor<2xi32>) -> tensor<1xi32>
    sdy.return %1 : tensor<1xi32>
  } : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

//--- part2.mlir
func.func @main() {
  %a = sdy.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], [17, 18, 19, 20]]> : tensor<5x4xi32>
  %b = stablehlo.iota dim = 0 : tensor<4xi32>
  %c = stablehlo.constant dense<-1> : tensor<i32>
  %p = stablehlo.pad %a, %c, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<5x4xi32>, tensor<i32>) -> tensor<6x4xi32>
  %s0 = stablehlo.slice %p [0:3, 0:2] : (tensor<6x4xi32>) -> tensor<3x2xi32>
  %s1 = stablehlo.slice %p [0:3, 2:4] : (tensor<6x4xi32>) -> tensor<3x2xi32>
  %s2 = stablehlo.slice %p [3:6, 0:2] : (tensor<6x4xi32>) -> tensor<3x2xi32>
  %s3 = stablehlo.slice %p [3:6, 2:4] : (tensor<6x4xi32>) -> tensor<3x2xi32>
  %r:4 = "interpreter.run_parallel"(%s3, %b, %s2, %b, %s1, %b, %s0, %b) {
    programs = [[@parallel_reverse, @parallel_reverse, @parallel_reverse, @parallel_reverse]]
  } : (tensor<3x2xi32>, tensor<4xi32>, tensor<3x2xi32>, tensor<4xi32>, tensor<3x2xi32>, tensor<4xi32>, tensor<3x2xi32>, tensor<4xi32>) -> (tensor<3x4xi32>, tensor<3x4xi32>, tensor<3x4xi32>, tensor<3x4xi32>)
  %w = func.call @sequential_reverse(%a, %b) : (tensor<5x4xi32>, tensor<4xi32>) -> tensor<5x4xi32>
  %top = stablehlo.slice %w [0:3, 0:4] : (tensor<5x4xi32>) -> tensor<3x4xi32>
  "check.expect_eq"(%r#3, %top) : (tensor<3x4xi32>, tensor<3x4xi32>) -> ()
  %known = stablehlo.constant dense<[[17, 17, 17, 17], [13, 13, 13, 13], [9, 9, 9, 9]]> : tensor<3x4xi32>
  check.expect_eq %r#1, %known : tensor<3x4xi32>
  %f = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [-7.0, 8.0]]> : tensor<4x2xf32>
  %i = stablehlo.constant dense<[1, 3]> : tensor<2xi64>
  %f0 = stablehlo.slice %f [0:2, 0:2] : (tensor<4x2xf32>) -> tensor<2x2xf32>
  %f1 = stablehlo.slice %f [2:4, 0:2] : (tensor<4x2xf32>) -> tensor<2x2xf32>
  %g:4 = "interpreter.run_parallel"(%f1, %i, %f1, %i, %f0, %i, %f0, %i) {
    programs = [[@parallel_greatest, @parallel_greatest, @parallel_greatest, @parallel_greatest]]
  } : (tensor<2x2xf32>, tensor<2xi64>, tensor<2x2xf32>, tensor<2xi64>, tensor<2x2xf32>, tensor<2xi64>, tensor<2x2xf32>, tensor<2xi64>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %rows = stablehlo.constant dense<[[3.0, 4.0], [-7.0, 8.0]]> : tensor<2x2xf32>
  check.expect_eq %g#2, %rows : tensor<2x2xf32>
  %t0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %t1 = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
  %h:4 = "interpreter.run_parallel"(%t0, %t1, %t0, %t1) {
    programs = [[@sum, @sum, @sum, @sum]]
  } : (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>)
  %added = stablehlo.constant dense<22> : tensor<1xi32>
  check.expect_eq %h#2, %added : tensor<1xi32>
  return
}

// CHECK:      mesh @m = [x=2, y=2] {devices = [3, 2, 1, 0]}
// CHECK-EMPTY:
// CHECK-NEXT: func @parallel_reverse(%a: i32[5, 4] @m{x, y}, %b: i32[4]) -> (i32[5, 4] @m{y, _}) {
// CHECK-NEXT:   %0 = broadcast %b {shape = [5, 4]} : i32[5, 4]
// CHECK-NEXT:   %1 = sub %a, %0 : i32[5, 4]
// CHECK-NEXT:   %2 = flip %1 {dims = [0]} : i32[5, 4]
// CHECK-NEXT:   return %2
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @parallel_greatest(%a: f32[4, 2] @m{x, _}, %i: i64[2]) -> (f32[2, 2]) {
// CHECK-NEXT:   %2 = clamp %i, 0, 3 : i64[2]
// CHECK-NEXT:   %0 = index_select %a, %2 {dim = 0} : f32[2, 2] @m{_, _ | max(x)}
// CHECK-NEXT:   %1 = reshard %0 : f32[2, 2] @m{_, _}
// CHECK-NEXT:   return %1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @sum(%a: i32[2] @m{_ | sum(y)}) -> (i32[2] @m{y}) {
// CHECK-NEXT:   %0 = local (%p = %a : i32[2] @m{_ | sum(y)}) {
// CHECK-NEXT:     %1 = reduce_scatter %p {axes = [y], dim = 0} : i32[1]
// CHECK-NEXT:     yield %1
// CHECK-NEXT:   } : i32[2] @m{y}
// CHECK-NEXT:   return %0
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @main() -> () {
// CHECK-NEXT:   %a = constant {value = {{\[\[}}1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], [17, 18, 19, 20]]} : i32[5, 4]
// CHECK-NEXT:   %b = iota : i32[4]
// CHECK-NEXT:   %c = constant {value = -1} : i32[]
// CHECK-NEXT:   %p = pad %a, %c {low = [0, 0], high = [1, 0]} : i32[6, 4]
// CHECK-NEXT:   %s0 = slice %p {start = [0, 0], limit = [3, 2]} : i32[3, 2]
// CHECK-NEXT:   %s1 = slice %p {start = [0, 2], limit = [3, 4]} : i32[3, 2]
// CHECK-NEXT:   %s2 = slice %p {start = [3, 0], limit = [6, 2]} : i32[3, 2]
// CHECK-NEXT:   %s3 = slice %p {start = [3, 2], limit = [6, 4]} : i32[3, 2]
// CHECK-NEXT:   %0 = concat %s0, %s1 {dim = 1} : i32[3, 4]
// CHECK-NEXT:   %1 = concat %s2, %s3 {dim = 1} : i32[3, 4]
// CHECK-NEXT:   %2 = concat %0, %1 {dim = 0} : i32[6, 4]
// CHECK-NEXT:   %3 = slice %2 {start = [0, 0], limit = [5, 4]} : i32[5, 4]
// CHECK-NEXT:   %4 = call @parallel_reverse(%3, %b) : i32[5, 4]
// CHECK-NEXT:   %r_3 = slice %4 {start = [0, 0], limit = [3, 4]} : i32[3, 4]
// CHECK-NEXT:   %5 = constant {value = 0} : i32[]
// CHECK-NEXT:   %6 = pad %4, %5 {low = [0, 0], high = [1, 0], interior = [0, 0]} : i32[6, 4]
// CHECK-NEXT:   %r_2 = slice %6 {start = [3, 0], limit = [6, 4]} : i32[3, 4]
// CHECK-NEXT:   %r_1 = slice %4 {start = [0, 0], limit = [3, 4]} : i32[3, 4]
// CHECK-NEXT:   %7 = constant {value = 0} : i32[]
// CHECK-NEXT:   %8 = pad %4, %7 {low = [0, 0], high = [1, 0], interior = [0, 0]} : i32[6, 4]
// CHECK-NEXT:   %r_0 = slice %8 {start = [3, 0], limit = [6, 4]} : i32[3, 4]
// CHECK-NEXT:   %w = call @parallel_reverse(%a, %b) : i32[5, 4]
// CHECK-NEXT:   %top = slice %w {start = [0, 0], limit = [3, 4]} : i32[3, 4]
// CHECK-NEXT:   expect_eq %r_3, %top
// CHECK-NEXT:   %known = constant {value = {{\[\[}}17, 17, 17, 17], [13, 13, 13, 13], [9, 9, 9, 9]]} : i32[3, 4]
// CHECK-NEXT:   expect_eq %r_1, %known
// CHECK-NEXT:   %f = constant {value = {{\[\[}}1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [-7.0, 8.0]]} : f32[4, 2]
// CHECK-NEXT:   %i = constant {value = [1, 3]} : i64[2]
// CHECK-NEXT:   %f0 = slice %f {start = [0, 0], limit = [2, 2]} : f32[2, 2]
// CHECK-NEXT:   %f1 = slice %f {start = [2, 0], limit = [4, 2]} : f32[2, 2]
// CHECK-NEXT:   %9 = concat %f0, %f1 {dim = 0} : f32[4, 2]
// CHECK-NEXT:   %g_0 = call @parallel_greatest(%9, %i) : f32[2, 2]
// CHECK-NEXT:   %rows = constant {value = {{\[\[}}3.0, 4.0], [-7.0, 8.0]]} : f32[2, 2]
// CHECK-NEXT:   expect_eq %g_0, %rows
// CHECK-NEXT:   %t0 = constant {value = [1, 2]} : i32[2]
// CHECK-NEXT:   %t1 = constant {value = [10, 20]} : i32[2]
// CHECK-NEXT:   %10 = add %t1, %t0 : i32[2]
// CHECK-NEXT:   %11 = add %t1, %t0 : i32[2]
// CHECK-NEXT:   %12 = add %t1, %t0 : i32[2]
// CHECK-NEXT:   %13 = add %t1, %t0 : i32[2]
// CHECK-NEXT:   %14 = call @sum(%10) : i32[2]
// CHECK-NEXT:   %h_3 = slice %14 {start = [0], limit = [1]} : i32[1]
// CHECK-NEXT:   %h_2 = slice %14 {start = [1], limit = [2]} : i32[1]
// CHECK-NEXT:   %h_1 = slice %14 {start = [0], limit = [1]} : i32[1]
// CHECK-NEXT:   %h_0 = slice %14 {start = [1], limit = [2]} : i32[1]
// CHECK-NEXT:   %added = constant {value = 22} : i32[1]
// CHECK-NEXT:   expect_eq %h_2, %added
// CHECK-NEXT:   return
// CHECK-NEXT: }
