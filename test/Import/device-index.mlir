// Quotient and remainder of partition_id are axis indices; a permutation that is equal in all rows uses one axis.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=iota' --print 0 | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=3]>
func.func @main(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"b"}, {}]>] out_shardings=[<@m, [{"b"}, {}]>] manual_axes={"a", "b"} (%p: tensor<1x2xf32>) {
    %one = stablehlo.constant dense<1> : tensor<ui32>
    %three = stablehlo.constant dense<3> : tensor<ui32>
    %1 = stablehlo.partition_id : tensor<ui32>
    %2 = stablehlo.divide %1, %one : tensor<ui32>
    %3 = stablehlo.remainder %2, %three : tensor<ui32>
    %4 = stablehlo.convert %3 : (tensor<ui32>) -> tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<1x2xf32>
    %6 = "stablehlo.collective_permute"(%p) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 3]]> : tensor<6x2xi64>}> : (tensor<1x2xf32>) -> tensor<1x2xf32>
    %7 = stablehlo.multiply %5, %6 : tensor<1x2xf32>
    sdy.return %7 : tensor<1x2xf32>
  } : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK:      mesh @m = [a=2, b=3]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[3, 2]) -> (f32[3, 2]) {
// CHECK-NEXT:   %0 = local (%p = %x : f32[3, 2] @m{b, _}) {
// CHECK-NEXT:     %one = constant {value = 1} : u32[]
// CHECK-NEXT:     %three = constant {value = 3} : u32[]
// CHECK-NEXT:     %8 = axis_index {axes = [a, b]} : i32[]
// CHECK-NEXT:     %1 = convert %8 {dtype = u32} : u32[]
// CHECK-NEXT:     %9 = axis_index {axes = [a, b]} : i32[]
// CHECK-NEXT:     %2 = convert %9 {dtype = u32} : u32[]
// CHECK-NEXT:     %10 = axis_index {axes = [b]} : i32[]
// CHECK-NEXT:     %3 = convert %10 {dtype = u32} : u32[]
// CHECK-NEXT:     %4 = convert %3 {dtype = f32} : f32[]
// CHECK-NEXT:     %5 = broadcast %4 {shape = [1, 2]} : f32[1, 2]
// CHECK-NEXT:     %6 = permute %p {axes = [b], pairs = {{\[\[}}0, 1], [1, 2], [2, 0]]} : f32[1, 2]
// CHECK-NEXT:     %7 = mul %5, %6 : f32[1, 2]
// CHECK-NEXT:     yield %7
// CHECK-NEXT:   } : f32[3, 2] @m{b, _}
// CHECK-NEXT:   return %0
// CHECK-NEXT: }

// CHECK-RESULT:      0 =
// CHECK-RESULT-NEXT: {{\[\[}}0, 0],
// CHECK-RESULT-NEXT:  [0, 1],
// CHECK-RESULT-NEXT:  [4, 6]]
