// Unsupported custom calls suggest an alternative, as do unsupported attributes.
// RUN: not --exit 1 %dtc import %s --report | FileCheck %s
// (hand-written CHECK lines)
func.func @main(%a: tensor<3x3xf32>, %w: tensor<3x3xf32>) {
  %0:2 = stablehlo.custom_call @lapack_sgeev_ffi(%a) {mhlo.backend_config = {}} : (tensor<3x3xf32>) -> (tensor<3xf32>, tensor<i32>)
  %1 = stablehlo.convolution(%a, %w) dim_numbers = [b, f]x[o, o]->[b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = stablehlo.convolution(%a, %w) dim_numbers = [b, f]x[o, i]->[b, f], window = {} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// CHECK: math-errors.mlir:5:10: 'stablehlo.custom_call' does not import: it calls a LAPACK routine that dtc has no op for: compute it outside of the program and pass the result as an argument
// CHECK: 'dimension_numbers', which do not name each of 2 dims once
// CHECK: 'batch_group_count', which does not divide the batch
// CHECK: 3 ops cannot be imported
