// Python callbacks are imported but cannot run; text that does not parse still gives a report.
// (hand-written CHECK lines)
// RUN: %dtc import %s --report | FileCheck %s
// RUN: %dtc import %s --report --json | FileCheck %s --check-prefix=JSON
// RUN: sed -e '/sdy.mesh/d' %s | not --exit 1 %dtc import - 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: sed -e 's/stablehlo.negate/stablehlo.negate (/' %s | not --exit 1 %dtc import - --report --json | FileCheck %s --check-prefix=SYNTAX
module @jit_f {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0) {backend_config = "", has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}} : (tensor<4xf32>) -> ()
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// CHECK: callbacks.mlir:10:5: @xla_ffi_python_cpu_callback is kept as 'custom', which `dtc run` cannot run: it calls a Python function (jax.debug.print, jax.pure_callback, io_callback), of which the text has only a number
// CHECK-NEXT: 1 op is kept as 'custom': `dtc explain` and `dtc opt` accept the program, `dtc run` does not
// JSON: {"problems": [], "kept": [
// JSON-NEXT: {"line": 10, "column": 5, "op": "stablehlo.custom_call", "message": "@xla_ffi_python_cpu_callback is kept
// JSON-NEXT: ]}
// PLAIN: error: unsupported op 'custom_call @xla_ffi_python_cpu_callback': it calls a Python function
// SYNTAX: {"problems": [
// SYNTAX-NEXT: "op": null, "message":
// SYNTAX: "kept": []}
