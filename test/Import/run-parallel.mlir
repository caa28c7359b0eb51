// A sharded function run by handing each device its pieces (interpreter.run_parallel): the pieces are put together, and the results
// are taken apart; pieces of uneven dims are as long as the longest. Devices stand in the mesh's own order; what the text calls
// @sequential_… and has no body for is @parallel_… unsharded.
// RUN: %dtc run %s --check
// RUN: %dtc import %s | FileCheck %s
// (CHECK lines written by scripts/dtc-update-tests)
//--- part1.mlir
sdy.mesh @m = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
sdy.mesh @other = <["x"=2, "y"=2]>

func.func @parallel_reverse(%a: tensor<5x4xi32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}, %b: tensor<4xi32>) -> (tensor<5x4xi32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>}) {
  %0 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xi32>) -> tensor<5x4xi32>
  %1 = stablehlo.subtract %a, %0 : tensor<5x4xi32>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<5x4xi32>
  return %2 : tensor<5x4xi32>
}

func.func @shift(%a: tensor<4xi32> {sdy.sharding = #sdy.sharding<@other, [{"x", "y"}]>}) -> (tensor<4xi32> {sdy.sharding = #sdy.sharding<@m, [{"x", "y"}]>}) {
  %0 = sdy.collective_permute %a out_sharding=<@m, [{"x", "y"}]> : tensor<4xi32>
  return %0 : tensor<4xi32>
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
  %v = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %v0 = stablehlo.slice %v [0:1] : (tensor<4xi32>) -> tensor<1xi32>
  %v1 = stablehlo.slice %v [1:2] : (tensor<4xi32>) -> tensor<1xi32>
  %v2 = stablehlo.slice %v [2:3] : (tensor<4xi32>) -> tensor<1xi32>
  %v3 = stablehlo.slice %v [3:4] : (tensor<4xi32>) -> tensor<1xi32>
  %q:4 = "interpreter.run_parallel"(%v0, %v1, %v2, %v3) {
    programs = [[@shift], [@shift], [@shift], [@shift]]
  } : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>)
  check.expect_eq %q#0, %v3 : tensor<1xi32>
  check.expect_eq %q#2, %v1 : tensor<1xi32>
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
// CHECK-NEXT: func @shift(%a: i32[4] @m{(x, y)}) -> (i32[4] @m{(x, y)}) {
// CHECK-NEXT:   %0 = reshard %a : i32[4] @m{(x, y)}
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
// CHECK-NEXT:   %v = constant {value = [1, 2, 3, 4]} : i32[4]
// CHECK-NEXT:   %v0 = slice %v {start = [0], limit = [1]} : i32[1]
// CHECK-NEXT:   %v1 = slice %v {start = [1], limit = [2]} : i32[1]
// CHECK-NEXT:   %v2 = slice %v {start = [2], limit = [3]} : i32[1]
// CHECK-NEXT:   %v3 = slice %v {start = [3], limit = [4]} : i32[1]
// CHECK-NEXT:   %9 = concat %v0, %v1, %v2, %v3 {dim = 0} : i32[4]
// CHECK-NEXT:   %10 = call @shift(%9) : i32[4]
// CHECK-NEXT:   %q_3 = slice %10 {start = [0], limit = [1]} : i32[1]
// CHECK-NEXT:   %q_2 = slice %10 {start = [1], limit = [2]} : i32[1]
// CHECK-NEXT:   %q_1 = slice %10 {start = [2], limit = [3]} : i32[1]
// CHECK-NEXT:   %q_0 = slice %10 {start = [3], limit = [4]} : i32[1]
// CHECK-NEXT:   expect_eq %q_0, %v3
// CHECK-NEXT:   expect_eq %q_2, %v1
// CHECK-NEXT:   return
// CHECK-NEXT: }
