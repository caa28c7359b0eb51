// StableHLO collectives in per-device code, with groups along one axis, both axes, and strided.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=iota' --print y --print z --print i | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x4xf32> {jax.result_info = "y"}, tensor<4x4xf32> {jax.result_info = "z"}, tensor<4xui32> {jax.result_info = "i"}) {
  %0:3 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a", "b"}, {}]>] out_shardings=[<@m, [{"a", "b"}, {}]>, <@m, [{"a"}, {"b"}]>, <@m, [{"a", "b"}]>] manual_axes={"a", "b"} (%p: tensor<2x4xf32>) {
    %1 = "stablehlo.all_gather"(%p) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> : (tensor<2x4xf32>) -> tensor<4x4xf32>
    %2 = "stablehlo.reduce_scatter"(%1) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %3 = stablehlo.maximum %l, %r : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<1x4xf32>
    %4 = "stablehlo.all_to_all"(%p) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %5 = stablehlo.slice %4 [0:2, 0:2] : (tensor<4x2xf32>) -> tensor<2x2xf32>
    %6 = "stablehlo.collective_permute"(%p) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %7 = "stablehlo.collective_broadcast"(%2) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<2x4xf32>
    %9 = stablehlo.add %6, %8 : tensor<2x4xf32>
    %10 = stablehlo.partition_id : tensor<ui32>
    %11 = stablehlo.reshape %10 : (tensor<ui32>) -> tensor<1xui32>
    sdy.return %9, %5, %11 : tensor<2x4xf32>, tensor<2x2xf32>, tensor<1xui32>
  } : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>, tensor<4xui32>)
  return %0#0, %0#1, %0#2 : tensor<8x4xf32>, tensor<4x4xf32>, tensor<4xui32>
}

// CHECK:      mesh @m = [a=2, b=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[8, 4])
// CHECK-NEXT:     -> (%y: f32[8, 4] {name = "y"}, %z: f32[4, 4] {name = "z"}, %i: u32[4] {name = "i"}) {
// CHECK-NEXT:   %0_0, %0_1, %0_2 = local (%p = %x : f32[8, 4] @m{(a, b), _}) {
// CHECK-NEXT:     %1 = all_gather %p {axes = [a], dim = 0} : f32[4, 4]
// CHECK-NEXT:     %2 = reduce_scatter %1 {axes = [a, b], dim = 0, op = "max"} : f32[1, 4]
// CHECK-NEXT:     %4 = all_to_all %p {axes = [b], split_dim = 1, concat_dim = 0} : f32[4, 2]
// CHECK-NEXT:     %5 = slice %4 {start = [0, 0], limit = [2, 2]} : f32[2, 2]
// CHECK-NEXT:     %6 = permute %p {axes = [a, b], pairs = {{\[\[}}0, 1], [1, 2], [2, 3], [3, 0]]} : f32[2, 4]
// CHECK-NEXT:     %7 = broadcast_from %2 {axes = [b]} : f32[1, 4]
// CHECK-NEXT:     %8 = broadcast %7 {shape = [2, 4]} : f32[2, 4]
// CHECK-NEXT:     %9 = add %6, %8 : f32[2, 4]
// CHECK-NEXT:     %0 = axis_index {axes = [a, b]} : i32[]
// CHECK-NEXT:     %10 = convert %0 {dtype = u32} : u32[]
// CHECK-NEXT:     %11 = reshape %10 {shape = [1]} : u32[1]
// CHECK-NEXT:     yield %9, %5, %11
// CHECK-NEXT:   } : f32[8, 4] @m{(a, b), _}, f32[4, 4] @m{a, b}, u32[4] @m{(a, b)}
// CHECK-NEXT:   return %0_0, %0_1, %0_2
// CHECK-NEXT: }

// CHECK-RESULT:      y =
// CHECK-RESULT-NEXT: {{\[\[}}32, 34, 36, 38],
// CHECK-RESULT-NEXT:  [36, 38, 40, 42],
// CHECK-RESULT-NEXT:  [ 8, 10, 12, 14],
// CHECK-RESULT-NEXT:  [12, 14, 16, 18],
// CHECK-RESULT-NEXT:  [32, 34, 36, 38],
// CHECK-RESULT-NEXT:  [36, 38, 40, 42],
// CHECK-RESULT-NEXT:  [40, 42, 44, 46],
// CHECK-RESULT-NEXT:  [44, 46, 48, 50]]
// CHECK-RESULT-NEXT: z =
// CHECK-RESULT-NEXT: {{\[\[}} 0,  1,  2,  3],
// CHECK-RESULT-NEXT:  [ 4,  5,  6,  7],
// CHECK-RESULT-NEXT:  [16, 17, 18, 19],
// CHECK-RESULT-NEXT:  [20, 21, 22, 23]]
// CHECK-RESULT-NEXT: i = [0, 1, 2, 3]
