// StableHLO of one device: collectives with their groups, bytes and times.
// RUN: %dtc audit %s | FileCheck %s
// RUN: %dtc audit %s --json | FileCheck %s --check-prefix=JSON
// (hand-written CHECK lines)
module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<32x4xf32>) {
    %0 = "stablehlo.all_reduce"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<8x4xf32>) -> tensor<32x4xf32>
    return %0, %1 : tensor<8x4xf32>, tensor<32x4xf32>
  }
}

// CHECK: all_reduce {{.*}}, 1 of 4: {0,1,2,3}
// CHECK-NEXT: 192 B received per device, 1 time
// CHECK: all_gather {{.*}}, 1 of 4: {0,1,2,3}
// CHECK-NEXT: 384 B received per device, 1 time
// JSON: "format": "stablehlo"
