// If all arguments of per-device code are unsharded, the module's attribute gives the number of devices.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check
// (CHECK lines written by scripts/dtc-update-tests)
module attributes {mhlo.num_partitions = 3 : i32} {
  func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
    %0 = stablehlo.custom_call @SPMDFullToShardShape(%x) {mhlo.sharding = "{manual}"} : (tensor<5xf32>) -> tensor<5xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5xf32>) -> tensor<5xf32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {mhlo.sharding = "{replicated}"} : (tensor<5xf32>) -> tensor<5xf32>
    return %2 : tensor<5xf32>
  }
}

// CHECK:      mesh @mesh = [x=3]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[5]) -> (f32[5]) {
// CHECK-NEXT:   %2 = local (%0 = %x : f32[5] @mesh{_}) {
// CHECK-NEXT:     %1 = all_reduce %0 {axes = [x]} : f32[5]
// CHECK-NEXT:     yield %1
// CHECK-NEXT:   } : f32[5] @mesh{_}
// CHECK-NEXT:   return %2
// CHECK-NEXT: }
