// Convolutions with a reversed window, as gradients are written, are transposed convolutions: the results equal
// those with an explicitly spread input and reversed window.
// RUN: %dtc run %s --entry @case0 --input '%x=iota' --input '%w=iota' | FileCheck %s --check-prefix=SAME
// RUN: %dtc run %s --entry @case1 --input '%x=iota' --input '%w=iota' | FileCheck %s --check-prefix=SAME
// RUN: %dtc run %s --entry @case2 --input '%x=iota' --input '%w=iota' | FileCheck %s --check-prefix=SAME
// RUN: %dtc run %s --entry @case3 --input '%x=iota' --input '%w=iota' | FileCheck %s --check-prefix=SAME
// SAME: difference = 0.0{{$}}
// RUN: %dtc import %s | FileCheck %s --check-prefix=TEXT
// TEXT-COUNT-8: transposed = true
// TEXT-NOT: transposed = true
module {
func.func public @case0(%x: tensor<2x4x5x4xf32>, %w: tensor<6x4x3x2xf32>) -> (tensor<f32> {jax.result_info = "difference"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0.0> : tensor<6x4x3x2xf32>
  %attribute = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[2, 1], [0, 2]], lhs_dilate = [2, 3], rhs_dilate = [1, 2], reverse = [true, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x5x4xf32>, tensor<6x4x3x2xf32>) -> tensor<2x6x10x10xf32>
  %r = stablehlo.reverse %w, dims = [2, 3] : tensor<6x4x3x2xf32>
  %op = stablehlo.convolution(%x, %r) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[2, 1], [0, 2]], lhs_dilate = [2, 3], rhs_dilate = [1, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x5x4xf32>, tensor<6x4x3x2xf32>) -> tensor<2x6x10x10xf32>
  %plain = stablehlo.add %r, %low : tensor<6x4x3x2xf32>
  %spread = stablehlo.pad %x, %zero, low = [0, 0, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 1, 2] : (tensor<2x4x5x4xf32>, tensor<f32>) -> tensor<2x4x9x10xf32>
  %expected = stablehlo.convolution(%spread, %plain) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[2, 1], [0, 2]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x9x10xf32>, tensor<6x4x3x2xf32>) -> tensor<2x6x10x10xf32>
  %d0 = stablehlo.subtract %attribute, %expected : tensor<2x6x10x10xf32>
  %d1 = stablehlo.subtract %op, %expected : tensor<2x6x10x10xf32>
  %a0 = stablehlo.abs %d0 : tensor<2x6x10x10xf32>
  %a1 = stablehlo.abs %d1 : tensor<2x6x10x10xf32>
  %s = stablehlo.add %a0, %a1 : tensor<2x6x10x10xf32>
  %t = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x6x10x10xf32>, tensor<f32>) -> tensor<f32>
  return %t : tensor<f32>
}
func.func public @case1(%x: tensor<2x4x5xf32>, %w: tensor<6x2x1xf32>) -> (tensor<f32> {jax.result_info = "difference"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0.0> : tensor<6x2x1xf32>
  %attribute = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 1]], lhs_dilate = [2], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x5xf32>, tensor<6x2x1xf32>) -> tensor<2x6x10xf32>
  %r = stablehlo.reverse %w, dims = [2] : tensor<6x2x1xf32>
  %op = stablehlo.convolution(%x, %r) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 1]], lhs_dilate = [2], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x5xf32>, tensor<6x2x1xf32>) -> tensor<2x6x10xf32>
  %plain = stablehlo.add %r, %low : tensor<6x2x1xf32>
  %spread = stablehlo.pad %x, %zero, low = [0, 0, 0], high = [0, 0, 0], interior = [0, 0, 1] : (tensor<2x4x5xf32>, tensor<f32>) -> tensor<2x4x9xf32>
  %expected = stablehlo.convolution(%spread, %plain) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 1]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x9xf32>, tensor<6x2x1xf32>) -> tensor<2x6x10xf32>
  %d0 = stablehlo.subtract %attribute, %expected : tensor<2x6x10xf32>
  %d1 = stablehlo.subtract %op, %expected : tensor<2x6x10xf32>
  %a0 = stablehlo.abs %d0 : tensor<2x6x10xf32>
  %a1 = stablehlo.abs %d1 : tensor<2x6x10xf32>
  %s = stablehlo.add %a0, %a1 : tensor<2x6x10xf32>
  %t = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x6x10xf32>, tensor<f32>) -> tensor<f32>
  return %t : tensor<f32>
}
func.func public @case2(%x: tensor<1x3x7xf32>, %w: tensor<2x3x3xf32>) -> (tensor<f32> {jax.result_info = "difference"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0.0> : tensor<2x3x3xf32>
  %attribute = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[-1, 4]], lhs_dilate = [1], rhs_dilate = [2], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x7xf32>, tensor<2x3x3xf32>) -> tensor<1x2x6xf32>
  %r = stablehlo.reverse %w, dims = [2] : tensor<2x3x3xf32>
  %op = stablehlo.convolution(%x, %r) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[-1, 4]], lhs_dilate = [1], rhs_dilate = [2], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x7xf32>, tensor<2x3x3xf32>) -> tensor<1x2x6xf32>
  %plain = stablehlo.add %r, %low : tensor<2x3x3xf32>
  %spread = stablehlo.pad %x, %zero, low = [0, 0, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<1x3x7xf32>, tensor<f32>) -> tensor<1x3x7xf32>
  %expected = stablehlo.convolution(%spread, %plain) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[-1, 4]], lhs_dilate = [1], rhs_dilate = [2], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x7xf32>, tensor<2x3x3xf32>) -> tensor<1x2x6xf32>
  %d0 = stablehlo.subtract %attribute, %expected : tensor<1x2x6xf32>
  %d1 = stablehlo.subtract %op, %expected : tensor<1x2x6xf32>
  %a0 = stablehlo.abs %d0 : tensor<1x2x6xf32>
  %a1 = stablehlo.abs %d1 : tensor<1x2x6xf32>
  %s = stablehlo.add %a0, %a1 : tensor<1x2x6xf32>
  %t = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x2x6xf32>, tensor<f32>) -> tensor<f32>
  return %t : tensor<f32>
}
func.func public @case3(%x: tensor<2x4x4xf32>, %w: tensor<4x2x3xf32>) -> (tensor<f32> {jax.result_info = "difference"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0.0> : tensor<4x2x3xf32>
  %attribute = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[1, 1]], lhs_dilate = [1], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x4xf32>, tensor<4x2x3xf32>) -> tensor<2x4x4xf32>
  %r = stablehlo.reverse %w, dims = [2] : tensor<4x2x3xf32>
  %op = stablehlo.convolution(%x, %r) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[1, 1]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x4xf32>, tensor<4x2x3xf32>) -> tensor<2x4x4xf32>
  %plain = stablehlo.add %r, %low : tensor<4x2x3xf32>
  %spread = stablehlo.pad %x, %zero, low = [0, 0, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4x4xf32>
  %expected = stablehlo.convolution(%spread, %plain) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[1, 1]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x4xf32>, tensor<4x2x3xf32>) -> tensor<2x4x4xf32>
  %d0 = stablehlo.subtract %attribute, %expected : tensor<2x4x4xf32>
  %d1 = stablehlo.subtract %op, %expected : tensor<2x4x4xf32>
  %a0 = stablehlo.abs %d0 : tensor<2x4x4xf32>
  %a1 = stablehlo.abs %d1 : tensor<2x4x4xf32>
  %s = stablehlo.add %a0, %a1 : tensor<2x4x4xf32>
  %t = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<f32>
  return %t : tensor<f32>
}
}
