// Syntax of older producers: dense attributes, no properties, results of checks, double spaces.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s
// (CHECK lines written by scripts/dtc-update-tests)
module @jit_testcase {
  func.func public @main() -> tensor<i1> {
    %0:2 = call @inputs() : () -> (tensor<2x3xf32>, tensor<3x2xf32>)
    %1 = call @expected() : () -> tensor<2x2xf32>
    %2 = "stablehlo.dot_general"(%0#0, %0#1) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %3 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = dense<[1, 0]> : tensor<2xi64>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %4 = "stablehlo.transpose"(%3) {permutation = dense<[1, 0]> : tensor<2xi64>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %5 = stablehlo.compare  GE, %4, %1,  FLOAT : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
    %6 = "stablehlo.slice"(%4) {limit_indices = dense<[2, 2]> : tensor<2xi64>, start_indices = dense<0> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %7 = stablehlo.reduce_precision %6, format = e8m23 : tensor<2x2xf32>
    %8 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<2x2xi32>
    %9 = stablehlo.shift_right_logical %8, %8 : tensor<2x2xi32>
    stablehlo.custom_call @check.expect_close(%7, %1) {has_side_effect = true} : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
    %10 = stablehlo.custom_call @check.eq(%7, %1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<i1>
    return %10 : tensor<i1>
  }
  func.func private @inputs() -> (tensor<2x3xf32>, tensor<3x2xf32>) {
    %0 = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %1 = stablehlo.constant dense<1.000000e+00> : tensor<3x2xf32>
    return %0, %1 : tensor<2x3xf32>, tensor<3x2xf32>
  }
  func.func private @expected() -> tensor<2x2xf32> {
    %0 = stablehlo.constant dense<"0x0000C0400000C0400000704100007041"> : tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}

// CHECK:      func @main() -> (bool[]) {
// CHECK-NEXT:   %0_0, %0_1 = call @inputs() : f32[2, 3], f32[3, 2]
// CHECK-NEXT:   %1 = call @expected() : f32[2, 2]
// CHECK-NEXT:   %2 = matmul %0_0, %0_1 : f32[2, 2]
// CHECK-NEXT:   %3 = transpose %2 {perm = [1, 0]} : f32[2, 2]
// CHECK-NEXT:   %4 = transpose %3 {perm = [1, 0]} : f32[2, 2]
// CHECK-NEXT:   %5 = ge %4, %1 : bool[2, 2]
// CHECK-NEXT:   %6 = slice %4 {start = [0, 0], limit = [2, 2]} : f32[2, 2]
// CHECK-NEXT:   %7 = reduce_precision %6 {exponent_bits = 8, mantissa_bits = 23} : f32[2, 2]
// CHECK-NEXT:   %8 = iota {dim = 1} : i32[2, 2]
// CHECK-NEXT:   %0 = bitcast %8 {dtype = u32} : u32[2, 2]
// CHECK-NEXT:   %11 = bitcast %8 {dtype = u32} : u32[2, 2]
// CHECK-NEXT:   %12 = shr %0, %11 : u32[2, 2]
// CHECK-NEXT:   %9 = bitcast %12 {dtype = i32} : i32[2, 2]
// CHECK-NEXT:   expect_close %7, %1
// CHECK-NEXT:   expect_close %7, %1 {rtol = 0.001, atol = 0.001}
// CHECK-NEXT:   %10 = constant {value = true} : bool[]
// CHECK-NEXT:   return %10
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @inputs() -> (f32[2, 3], f32[3, 2]) {
// CHECK-NEXT:   %0 = constant {value = {{\[\[}}1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]} : f32[2, 3]
// CHECK-NEXT:   %1 = constant {value = 1.0} : f32[3, 2]
// CHECK-NEXT:   return %0, %1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @expected() -> (f32[2, 2]) {
// CHECK-NEXT:   %0 = constant {value = {{\[\[}}6.0, 6.0], [15.0, 15.0]]} : f32[2, 2]
// CHECK-NEXT:   return %0
// CHECK-NEXT: }
