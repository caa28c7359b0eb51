// Calls of functions of the process (callbacks of JAX through the plugin) are kept, without a mesh too. A file can
// be shown but not run: this process has no such function.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc import %s > %t.dt && not --exit 1 %dtc run %t.dt --input '*=zeros' 2>&1 | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
func.func @main(%t: !stablehlo.token, %x: tensor<4xf32>) -> (!stablehlo.token, tensor<2xi32>) {
  %0:2 = stablehlo.custom_call @dtc.host.process.0(%x) {api_version = 2 : i32, has_side_effect = true} : (tensor<4xf32>) -> (tensor<2xi32>, tensor<f32>)
  %1 = stablehlo.custom_call @dtc.host_per_device.process.1(%0#0) {api_version = 2 : i32} : (tensor<2xi32>) -> tensor<2xi32>
  return %t, %1 : !stablehlo.token, tensor<2xi32>
}

// CHECK:      func @main(%x: f32[4]) -> (i32[2]) {
// CHECK-NEXT:   %0_0, %0_1 = custom %x {target = "dtc.host.process.0"} : i32[2], f32[]
// CHECK-NEXT:   %1 = custom %0_0 {target = "dtc.host_per_device.process.1", per_device = true} : i32[2]
// CHECK-NEXT:   return %1
// CHECK-NEXT: }

// CHECK-RESULT: :2:16: error: 'custom': the custom call @dtc.host.process.0 cannot be executed: dtc does not implement it
