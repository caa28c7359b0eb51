// reduce_window: cumulative, strided, dilated, padded, with any region; and select_and_scatter.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %c1 = stablehlo.constant dense<[[5.0, 3.0, 4.0, -2.0, 3.0, 3.0], [-5.0, 0.0, -2.0, 5.0, 4.0, 4.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 0.0]]> : tensor<5x6xf32>
  %c2 = stablehlo.constant dense<[[13, 9, 4, -13, 13, -5], [17, 0, 10, 1, -6, 8], [-20, -20, -2, 17, -13, 17], [13, -19, 1, -10, 16, 15], [7, -4, -4, 12, -4, -2]]> : tensor<5x6xi32>
  %c3 = stablehlo.constant dense<0.0> : tensor<f32>
  %c4 = stablehlo.constant dense<0> : tensor<i32>
  %c5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %c6 = stablehlo.constant dense<1> : tensor<i32>
  %w1 = "stablehlo.reduce_window"(%c1, %c3) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 6>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<f32>) -> tensor<5x6xf32>
  %c7 = stablehlo.constant dense<[[5.0, 8.0, 12.0, 10.0, 13.0, 16.0], [-5.0, -5.0, -7.0, -2.0, 2.0, 6.0], [5.0, 5.0, 7.0, 8.0, 3.0, 2.0], [2.0, 5.0, 10.0, 6.0, 11.0, 12.0], [-3.0, -6.0, -10.0, -12.0, -7.0, -7.0]]> : tensor<5x6xf32>
  check.expect_eq %w1, %c7 : tensor<5x6xf32>
  %w2 = "stablehlo.reduce_window"(%c1, %c5) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 4], [0, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 5, 1>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<f32>) -> tensor<5x6xf32>
  %c8 = stablehlo.constant dense<[[5.0, 3.0, 5.0, 5.0, 5.0, 4.0], [5.0, 3.0, 5.0, 5.0, 5.0, 4.0], [5.0, 3.0, 5.0, 1.0, 5.0, 1.0], [2.0, 3.0, 5.0, -2.0, 5.0, 1.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 0.0]]> : tensor<5x6xf32>
  check.expect_eq %w2, %c8 : tensor<5x6xf32>
  %w3 = "stablehlo.reduce_window"(%c1, %c3) <{base_dilations = array<i64: 1, 2>, padding = dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 2>, window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<f32>) -> tensor<3x11xf32>
  %c9 = stablehlo.constant dense<[[3.0, 0.0, 5.0, 0.0, 5.0, 0.0, 10.0, 0.0, 14.0, 0.0, 7.0], [5.0, 0.0, 8.0, 0.0, 7.0, 0.0, 6.0, 0.0, 8.0, 0.0, 4.0], [-1.0, 0.0, 1.0, 0.0, -5.0, 0.0, 4.0, 0.0, 11.0, 0.0, 1.0]]> : tensor<3x11xf32>
  check.expect_eq %w3, %c9 : tensor<3x11xf32>
  %w4 = "stablehlo.reduce_window"(%c2, %c4) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, window_dilations = array<i64: 2, 1>, window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 1, 2>}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %m = stablehlo.multiply %a, %b : tensor<i32>
      %s = stablehlo.add %a, %b : tensor<i32>
      %r = stablehlo.add %m, %s : tensor<i32>
      stablehlo.return %r : tensor<i32>
    }) : (tensor<5x6xi32>, tensor<i32>) -> tensor<3x3xi32>
  %c10 = stablehlo.constant dense<[[50539, -205201, -2612737], [-4537, 7127, 220319], [-8665, 40013, -151633]]> : tensor<3x3xi32>
  check.expect_eq %w4, %c10 : tensor<3x3xi32>
  %c11 = stablehlo.constant dense<[[4.0, 8.0, 1.0, 8.0], [6.0, 6.0, 7.0, 1.0], [6.0, 2.0, 5.0, 2.0]]> : tensor<3x4xf32>
  %s1 = "stablehlo.select_and_scatter"(%c1, %c11, %c3) <{padding = dense<[[1, 1], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %g = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %g : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<3x4xf32>, tensor<f32>) -> tensor<5x6xf32>
  %c12 = stablehlo.constant dense<[[4.0, 0.0, 8.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 8.0, 0.0, 9.0], [6.0, 0.0, 0.0, 0.0, 0.0, 0.0], [6.0, 0.0, 8.0, 0.0, 5.0, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]> : tensor<5x6xf32>
  check.expect_eq %s1, %c12 : tensor<5x6xf32>
  %s2 = "stablehlo.select_and_scatter"(%c1, %c11, %c3) <{padding = dense<[[1, 1], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %g = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %g : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %n = stablehlo.negate %b : tensor<f32>
      %s = stablehlo.subtract %a, %n : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<3x4xf32>, tensor<f32>) -> tensor<5x6xf32>
  %c13 = stablehlo.constant dense<[[4.0, 0.0, 8.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 8.0, 0.0, 9.0], [6.0, 0.0, 0.0, 0.0, 0.0, 0.0], [6.0, 0.0, 8.0, 0.0, 5.0, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]> : tensor<5x6xf32>
  check.expect_eq %s2, %c13 : tensor<5x6xf32>
  %m = "stablehlo.map"(%c2, %c2) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %m = stablehlo.multiply %a, %b : tensor<i32>
      %s = stablehlo.add %a, %b : tensor<i32>
      %r = stablehlo.add %m, %s : tensor<i32>
      stablehlo.return %r : tensor<i32>
    }) : (tensor<5x6xi32>, tensor<5x6xi32>) -> tensor<5x6xi32>
  %c14 = stablehlo.constant dense<[[195, 99, 24, 143, 195, 15], [323, 0, 120, 3, 24, 80], [360, 360, 0, 323, 143, 323], [195, 323, 3, 80, 288, 255], [63, 8, 8, 168, 8, 0]]> : tensor<5x6xi32>
  check.expect_eq %m, %c14 : tensor<5x6xi32>
  return
}
