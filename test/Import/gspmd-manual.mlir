// The older form of shard_map: per-device code between GSPMD custom calls is a `local` region, with its callees and
// constants inside; several regions in one function with an op between them; tuples of arguments and results.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
module @jit_f attributes {mhlo.num_partitions = 6 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<6x5xf32>) -> (tensor<4x5xf32>, tensor<3xf32>) {
    %cst = stablehlo.constant dense<2.0> : tensor<2x5xf32>
    %0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "", mhlo.sharding = "{devices=[2,3]<=[6]}"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x6xf32>) -> tensor<2x2xf32>
    %2 = stablehlo.custom_call @Sharding(%arg1) {backend_config = "", mhlo.sharding = "{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}"} : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %3 = stablehlo.custom_call @SPMDFullToShardShape(%2) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<6x5xf32>) -> tensor<2x5xf32>
    %4:2 = call @shmap_body(%1, %3) : (tensor<2x2xf32>, tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x2xf32>)
    %whole = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %scaled = stablehlo.multiply %4#0, %cst : tensor<2x5xf32>
    %5 = stablehlo.custom_call @Sharding(%scaled) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x5xf32>) -> tensor<2x5xf32>
    %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {backend_config = "", mhlo.sharding = "{devices=[2,1,3]<=[6] last_tile_dim_replicate}"} : (tensor<2x5xf32>) -> tensor<4x5xf32>
    %7 = stablehlo.custom_call @Sharding(%4#1) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %8 = stablehlo.custom_call @SPMDShardToFullShape(%7) {backend_config = "", mhlo.sharding = "{devices=[2,3]<=[6]}"} : (tensor<2x2xf32>) -> tensor<4x6xf32>
    %9 = stablehlo.tanh %8 : tensor<4x6xf32>
    %10 = stablehlo.custom_call @Sharding(%9) {backend_config = "", mhlo.sharding = "{devices=[1,6]<=[6]}"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %11 = stablehlo.custom_call @SPMDFullToShardShape(%10) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x6xf32>) -> tensor<4x1xf32>
    %12 = call @shmap_body_0(%11, %whole) : (tensor<4x1xf32>, tensor<3xf32>) -> tensor<3xf32>
    %13 = stablehlo.custom_call @Sharding(%12) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<3xf32>) -> tensor<3xf32>
    %14 = stablehlo.custom_call @SPMDShardToFullShape(%13) {backend_config = "", mhlo.sharding = "{replicated}"} : (tensor<3xf32>) -> tensor<3xf32>
    return %6, %14 : tensor<4x5xf32>, tensor<3xf32>
  }
  func.func private @shmap_body(%arg0: tensor<2x2xf32>, %arg1: tensor<2x5xf32>) -> (tensor<2x5xf32> {jax.result_info = "[('a', None)]"}, tensor<2x2xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %3 = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<2x5xf32>) -> tensor<2x5xf32>
    %2 = "stablehlo.collective_permute"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 3], [3, 0], [1, 4], [4, 1], [2, 5], [5, 2]]> : tensor<6x2xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %1, %2 : tensor<2x5xf32>, tensor<2x2xf32>
  }
  func.func private @shmap_body_0(%arg0: tensor<4x1xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x1xf32>, tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5]]> : tensor<1x6xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %3 = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<f32>) -> tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.multiply %2, %arg1 : tensor<3xf32>
    return %3 : tensor<3xf32>
  }
}

// CHECK:      mesh @mesh = [x=2, y=3]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%arg0: f32[4, 6], %arg1: f32[6, 5]) -> (f32[4, 5], f32[3]) {
// CHECK-NEXT:   %6, %8 = local (%1 = %arg0 : f32[4, 6] @mesh{x, y}, %3 = %arg1 : f32[6, 5] @mesh{y, _}) {
// CHECK-NEXT:     %cst = constant {value = 2.0} : f32[2, 5]
// CHECK-NEXT:     %0 = matmul %1, %3 : f32[2, 5]
// CHECK-NEXT:     %4 = all_reduce %0 {axes = [y]} : f32[2, 5]
// CHECK-NEXT:     %2 = permute %1 {axes = [x], pairs = {{\[\[}}0, 1], [1, 0]]} : f32[2, 2]
// CHECK-NEXT:     %scaled = mul %4, %cst : f32[2, 5]
// CHECK-NEXT:     yield %scaled, %2
// CHECK-NEXT:   } : f32[4, 5] @mesh{x, _}, f32[4, 6] @mesh{x, y}
// CHECK-NEXT:   %9 = tanh %8 : f32[4, 6]
// CHECK-NEXT:   %14 = local (%11 = %9 : f32[4, 6] @mesh{_, (x, y)}) {
// CHECK-NEXT:     %whole = constant {value = [1.0, 2.0, 3.0]} : f32[3]
// CHECK-NEXT:     %zero = constant {value = 0.0} : f32[]
// CHECK-NEXT:     %0 = sum %11 {dims = [0, 1]} : f32[]
// CHECK-NEXT:     %1 = all_reduce %0 {axes = [x, y]} : f32[]
// CHECK-NEXT:     %2 = broadcast %1 {shape = [3]} : f32[3]
// CHECK-NEXT:     %3 = mul %2, %whole : f32[3]
// CHECK-NEXT:     yield %3
// CHECK-NEXT:   } : f32[3] @mesh{_}
// CHECK-NEXT:   return %6, %14
// CHECK-NEXT: }

// CHECK-RESULT: check 0: ok
// CHECK-RESULT: check 1: ok
