// ragged_dot: rows in groups, each multiplied by its group's matrix; rows of no group give 0.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %a = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %b = stablehlo.constant dense<[[[1.0], [0.0]], [[0.0], [10.0]]]> : tensor<2x2x1xf32>
  %sizes = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %y = "chlo.ragged_dot"(%a, %b, %sizes) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x2xf32>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<4x1xf32>
  check.expect_eq_const %y, dense<[[1.0], [40.0], [60.0], [0.0]]> : tensor<4x1xf32>
  // The ragged dim contracted: one product per group.
  %c = stablehlo.constant dense<[[1.0], [1.0], [2.0], [9.0]]> : tensor<4x1xf32>
  %z = "chlo.ragged_dot"(%a, %c, %sizes) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>} : (tensor<4x2xf32>, tensor<4x1xf32>, tensor<2xi32>) -> tensor<2x2x1xf32>
  check.expect_eq_const %z, dense<[[[1.0], [2.0]], [[13.0], [16.0]]]> : tensor<2x2x1xf32>
  // Batches with groups of their own, and dims in another order.
  %d = stablehlo.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf32>
  %e = stablehlo.constant dense<[[[1.0], [2.0]], [[10.0], [20.0]]]> : tensor<2x2x1xf32>
  %each = stablehlo.constant dense<[[1, 1], [0, 2]]> : tensor<2x2xi32>
  %w = "chlo.ragged_dot"(%d, %e, %each) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [2], rhs_group_dimensions = [0]>} : (tensor<2x1x2xf32>, tensor<2x2x1xf32>, tensor<2x2xi32>) -> tensor<2x2xf32>
  check.expect_eq_const %w, dense<[[1.0, 20.0], [60.0, 80.0]]> : tensor<2x2xf32>
  return
}
