// The generic form, which every producer can print: properties or attributes, regions in parentheses.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check
// (CHECK lines written by scripts/dtc-update-tests)
"builtin.module"() <{sym_name = "jit_f"}> ({
  "func.func"() <{arg_attrs = [{jax.buffer_donor}, {}], function_type = (tensor<2x3xf32>, tensor<3xbf16>) -> tensor<2xf32>, sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%x: tensor<2x3xf32>, %arg1: tensor<3xbf16>):
    %0 = "stablehlo.convert"(%arg1) : (tensor<3xbf16>) -> tensor<3xf32>
    %1 = "stablehlo.dot_general"(%x, %0) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
    %2 = "stablehlo.compare"(%1, %1) {compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    %3 = "stablehlo.transpose"(%x) {permutation = dense<[1, 0]> : tensor<2xi64>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %4 = "stablehlo.slice"(%3) <{limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 1>}> : (tensor<3x2xf32>) -> tensor<1x2xf32>
    %5 = "mhlo.reshape"(%4) : (tensor<1x2xf32>) -> tensor<2xf32>
    %6:2 = "stablehlo.optimization_barrier"(%1, %5) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %7 = "stablehlo.select"(%2, %6#0, %6#1) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%7) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()

// CHECK:      func @main(%x: f32[2, 3] {donate = true}, %arg1: bf16[3]) -> (f32[2]) {
// CHECK-NEXT:   %0 = convert %arg1 {dtype = f32} : f32[3]
// CHECK-NEXT:   %1 = einsum %x, %0 {equation = "ba,a->b"} : f32[2]
// CHECK-NEXT:   %6 = bitcast %1 {dtype = i32} : i32[2]
// CHECK-NEXT:   %8 = shr %6, 31 : i32[2]
// CHECK-NEXT:   %9 = and %8, 2147483647 : i32[2]
// CHECK-NEXT:   %10 = xor %6, %9 : i32[2]
// CHECK-NEXT:   %11 = bitcast %1 {dtype = i32} : i32[2]
// CHECK-NEXT:   %12 = shr %11, 31 : i32[2]
// CHECK-NEXT:   %13 = and %12, 2147483647 : i32[2]
// CHECK-NEXT:   %14 = xor %11, %13 : i32[2]
// CHECK-NEXT:   %2 = le %10, %14 : bool[2]
// CHECK-NEXT:   %3 = transpose %x {perm = [1, 0]} : f32[3, 2]
// CHECK-NEXT:   %4 = slice %3 {start = [1, 0], limit = [2, 2]} : f32[1, 2]
// CHECK-NEXT:   %5 = reshape %4 {shape = [2]} : f32[2]
// CHECK-NEXT:   %7 = select %2, %1, %5 : f32[2]
// CHECK-NEXT:   return %7
// CHECK-NEXT: }
