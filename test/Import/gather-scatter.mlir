// All forms of gather and scatter, with indices out of range and with any region.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %c1 = stablehlo.constant dense<[[5.0, 3.0, 4.0, -2.0, 3.0, 3.0], [-5.0, 0.0, -2.0, 5.0, 4.0, 4.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 0.0]]> : tensor<5x6xf32>
  %c2 = stablehlo.constant dense<[[1], [7], [-2], [4]]> : tensor<4x1xi32>
  %g1 = "stablehlo.gather"(%c1, %c2) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<5x6xf32>, tensor<4x1xi32>) -> tensor<4x6xf32>
  %c3 = stablehlo.constant dense<[[-5.0, 0.0, -2.0, 5.0, 4.0, 4.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 0.0], [5.0, 3.0, 4.0, -2.0, 3.0, 3.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 0.0]]> : tensor<4x6xf32>
  check.expect_eq %g1, %c3 : tensor<4x6xf32>
  %c4 = stablehlo.constant dense<[[0, 1], [4, 5], [-1, 3]]> : tensor<3x2xi32>
  %g2 = "stablehlo.gather"(%c1, %c4) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 3>}> : (tensor<5x6xf32>, tensor<3x2xi32>) -> tensor<3x2x3xf32>
  %c5 = stablehlo.constant dense<[[[3.0, 4.0, -2.0], [0.0, -2.0, 5.0]], [[-4.0, 5.0, 1.0], [-2.0, 5.0, 0.0]], [[-2.0, 3.0, 3.0], [5.0, 4.0, 4.0]]]> : tensor<3x2x3xf32>
  check.expect_eq %g2, %c5 : tensor<3x2x3xf32>
  %c6 = stablehlo.constant dense<[[[4], [0]], [[-1], [-1]], [[6], [4]], [[-1], [-1]], [[0], [0]]]> : tensor<5x2x1xi32>
  %g3 = "stablehlo.gather"(%c1, %c6) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<5x6xf32>, tensor<5x2x1xi32>) -> tensor<5x2xf32>
  %c7 = stablehlo.constant dense<[[3.0, 5.0], [-5.0, -5.0], [-1.0, -5.0], [2.0, 2.0], [-3.0, -3.0]]> : tensor<5x2xf32>
  check.expect_eq %g3, %c7 : tensor<5x2xf32>
  %c8 = stablehlo.constant dense<[3, 2]> : tensor<2xi32>
  %g4 = "stablehlo.gather"(%c1, %c8) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 0>, slice_sizes = array<i64: 1, 3>}> : (tensor<5x6xf32>, tensor<2xi32>) -> tensor<3xf32>
  %c9 = stablehlo.constant dense<[5.0, -4.0, 5.0]> : tensor<3xf32>
  check.expect_eq %g4, %c9 : tensor<3xf32>
  %c10 = stablehlo.constant dense<4> : tensor<i32>
  %c11 = stablehlo.constant dense<-1> : tensor<i32>
  %d1 = stablehlo.dynamic_slice %c1, %c10, %c11, sizes = [2, 3] : (tensor<5x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  %c12 = stablehlo.constant dense<[[2.0, 3.0, 5.0], [-3.0, -3.0, -4.0]]> : tensor<2x3xf32>
  check.expect_eq %d1, %c12 : tensor<2x3xf32>
  %d2 = stablehlo.dynamic_update_slice %c1, %d1, %c11, %c10 : (tensor<5x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x6xf32>
  %c13 = stablehlo.constant dense<[[5.0, 3.0, 4.0, 2.0, 3.0, 5.0], [-5.0, 0.0, -2.0, -3.0, -3.0, -4.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 0.0]]> : tensor<5x6xf32>
  check.expect_eq %d2, %c13 : tensor<5x6xf32>
  %c14 = stablehlo.constant dense<[[8.0, 8.0, 5.0, 1.0, 8.0, 4.0], [5.0, 3.0, 1.0, 1.0, 5.0, 5.0], [5.0, 5.0, 4.0, 4.0, 1.0, 1.0], [3.0, 8.0, 3.0, 2.0, 4.0, 6.0]]> : tensor<4x6xf32>
  %c15 = stablehlo.constant dense<[[1], [7], [1], [4]]> : tensor<4x1xi32>
  %s1 = "stablehlo.scatter"(%c1, %c15, %c14) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<4x1xi32>, tensor<4x6xf32>) -> tensor<5x6xf32>
  %c16 = stablehlo.constant dense<[[5.0, 3.0, 4.0, -2.0, 3.0, 3.0], [8.0, 13.0, 7.0, 10.0, 13.0, 9.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [0.0, 5.0, -1.0, 0.0, 9.0, 6.0]]> : tensor<5x6xf32>
  check.expect_eq %s1, %c16 : tensor<5x6xf32>
  %s2 = "stablehlo.scatter"(%c1, %c15, %c14) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<4x1xi32>, tensor<4x6xf32>) -> tensor<5x6xf32>
  %c17 = stablehlo.constant dense<[[5.0, 3.0, 4.0, -2.0, 3.0, 3.0], [5.0, 5.0, 4.0, 4.0, 1.0, 1.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [3.0, 8.0, 3.0, 2.0, 4.0, 6.0]]> : tensor<5x6xf32>
  check.expect_eq %s2, %c17 : tensor<5x6xf32>
  %s3 = "stablehlo.scatter"(%c1, %c15, %c14) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.subtract %b, %a : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<4x1xi32>, tensor<4x6xf32>) -> tensor<5x6xf32>
  %c18 = stablehlo.constant dense<[[5.0, 3.0, 4.0, -2.0, 3.0, 3.0], [-8.0, -3.0, -3.0, 8.0, -3.0, 1.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [6.0, 11.0, 7.0, 4.0, -1.0, 6.0]]> : tensor<5x6xf32>
  check.expect_eq %s3, %c18 : tensor<5x6xf32>
  %c19 = stablehlo.constant dense<[[[3.0, 5.0, 2.0], [3.0, 8.0, 3.0]], [[8.0, 4.0, 5.0], [7.0, 2.0, 7.0]], [[5.0, 4.0, 8.0], [2.0, 2.0, 4.0]]]> : tensor<3x2x3xf32>
  %c20 = stablehlo.constant dense<[[0, 1], [4, 5], [-1, 3]]> : tensor<3x2xi32>
  %s4 = "stablehlo.scatter"(%c1, %c20, %c19) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<3x2xi32>, tensor<3x2x3xf32>) -> tensor<5x6xf32>
  %c21 = stablehlo.constant dense<[[5.0, 3.0, 5.0, 2.0, 3.0, 4.0], [-5.0, 3.0, 8.0, 5.0, 4.0, 4.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 8.0]]> : tensor<5x6xf32>
  check.expect_eq %s4, %c21 : tensor<5x6xf32>
  %s5 = "stablehlo.scatter"(%c1, %c20, %c19) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.subtract %b, %a : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<3x2xi32>, tensor<3x2x3xf32>) -> tensor<5x6xf32>
  %c22 = stablehlo.constant dense<[[5.0, 0.0, 1.0, -2.0, -1.0, 1.0], [-5.0, 3.0, 10.0, -2.0, 4.0, 4.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 8.0]]> : tensor<5x6xf32>
  check.expect_eq %s5, %c22 : tensor<5x6xf32>
  // Into an operand without elements: all indices are out of range.
  %none = stablehlo.constant dense<> : tensor<0xf32>
  %at = stablehlo.constant dense<[[0], [1]]> : tensor<2x1xi32>
  %two = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s6 = "stablehlo.scatter"(%none, %at, %two) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<0xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<0xf32>
  check.expect_eq %s6, %none : tensor<0xf32>
  return
}
