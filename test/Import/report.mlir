// --report lists all unsupported ops, and continues after each.
// (hand-written CHECK lines)
// RUN: not %dtc import %s --report | FileCheck %s
// RUN: not %dtc import %s --report --json | FileCheck %s --check-prefix=JSON
// RUN: not %dtc import - --format stablehlo < %s 2>&1 | FileCheck %s --check-prefix=STOP
func.func @main(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %0 = stablehlo.tranpose %x, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %1 = stablehlo.transpose %x, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %2 = "stablehlo.slice"(%0) {start_indices = array<i64: 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = stablehlo.convert %x : (tensor<3x4xf32>) -> tensor<3x4xf6E2M3FN>
  %4 = stablehlo.abs %nowhere : tensor<4x3xf32>
  %5 = vhlo.abs_v1 %x : tensor<4x3xf32>
  %6 = stablehlo.convert %x : (tensor<3x4xf32>) -> tensor<3x?xf32>
  return %0 : tensor<4x3xf32>
}
// CHECK: report.mlir:7:8: unsupported op 'stablehlo.tranpose'; did you mean 'stablehlo.transpose'?
// CHECK-NEXT: report.mlir:8:8: 'stablehlo.transpose' does not import: it computes f32[3, 4], but its declared type is f32[4, 3]
// CHECK-NEXT: report.mlir:9:31: 'stablehlo.slice' does not import: it has the attribute 'start_indices', which has 1 elements, but expected 2
// CHECK-NEXT: report.mlir:10:{{[0-9]+}}: 'stablehlo.convert' has the unsupported type tensor<3x4xf6E2M3FN>: expected i1 to i64
// CHECK-NEXT: report.mlir:11:22: %nowhere is not defined here
// CHECK-NEXT: report.mlir:12:8: unsupported op 'vhlo.abs_v1': it belongs to StableHLO's storage form
// CHECK-NEXT: report.mlir:13:{{[0-9]+}}: 'stablehlo.convert' has the unsupported type tensor<3x?xf32>: only static shapes are imported
// CHECK-NEXT: 7 ops cannot be imported
// JSON: {"problems": [
// JSON-NEXT: {"line": 7, "column": 8, "op": "stablehlo.tranpose", "message": "unsupported op 'stablehlo.tranpose'
// STOP: <stdin>:7:8: error: unsupported op 'stablehlo.tranpose'; did you mean 'stablehlo.transpose'?
// STOP-NEXT: %0 = stablehlo.tranpose %x
// STOP-NEXT: {{^ +\^~~}}
