// Ops with sizes as operands whose types are static: the result of refining a dynamic program.
// RUN: %dtc run %s --input row=iota --input from=zeros
// RUN: %dtc import %s | FileCheck %s
// CHECK-NOT: dynamic_reshape
func.func @main(%row: tensor<3xi32>, %from: tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2x2xi32>) {
  %two = stablehlo.constant dense<2> : tensor<i32>
  %wide = stablehlo.reshape %two : (tensor<i32>) -> tensor<1xi32>
  %three = stablehlo.constant dense<3> : tensor<1xi64>
  %narrow = stablehlo.convert %three : (tensor<1xi64>) -> tensor<1xi32>
  %shape = stablehlo.concatenate %wide, %narrow, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %a = stablehlo.dynamic_broadcast_in_dim %row, %shape, dims = [1] {known_expanding_dimensions = dense<> : tensor<0xi64>} : (tensor<3xi32>, tensor<2xi32>) -> tensor<2x3xi32>
  %i = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<2xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %i, dense<[[0, 0, 0], [1, 1, 1]]> : tensor<2x3xi32>
  %sum = stablehlo.add %a, %i : tensor<2x3xi32>
  %flat = stablehlo.constant dense<[3, 2]> : tensor<2xi32>
  %turned = stablehlo.dynamic_reshape %i, %flat : (tensor<2x3xi32>, tensor<2xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %turned, dense<[[0, 0], [0, 1], [1, 1]]> : tensor<3x2xi32>
  %low = stablehlo.constant dense<[1, -1]> : tensor<2xi64>
  %none = stablehlo.constant dense<0> : tensor<2xi64>
  %nine = stablehlo.constant dense<9> : tensor<i32>
  // The padding has to be a constant, whatever it is made of.
  %padded = stablehlo.dynamic_pad %turned, %nine, %low, %none, %none : (tensor<3x2xi32>, tensor<i32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4x1xi32>
  check.expect_eq_const %padded, dense<[[9], [0], [1], [1]]> : tensor<4x1xi32>
  %begin = stablehlo.constant dense<[0, 2]> : tensor<2xi32>
  %end = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %ones = stablehlo.constant dense<1> : tensor<2xi32>
  %part = stablehlo.real_dynamic_slice %i, %begin, %end, %ones : (tensor<2x3xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  check.expect_eq_const %part, dense<[[0], [1]]> : tensor<2x1xi32>
  %x = stablehlo.constant dense<[[[1.0, 2.0, 3.0]]]> : tensor<1x1x3xf32>
  %w = stablehlo.constant dense<[[[1.0, 1.0]]]> : tensor<1x1x2xf32>
  %edges = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>
  %conv = "stablehlo.dynamic_conv"(%x, %w, %edges) {dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x3xf32>, tensor<1x1x2xf32>, tensor<1x2xi32>) -> tensor<1x1x3xf32>
  check.expect_eq_const %conv, dense<[[[1.0, 3.0, 5.0]]]> : tensor<1x1x3xf32>
  // Where a slice begins may be data.
  // CHECK: dynamic_slice
  %moved = stablehlo.real_dynamic_slice %i, %from, %end, %ones : (tensor<2x3xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x2xi32>
  return %sum, %moved : tensor<2x3xi32>, tensor<2x2xi32>
}
