// GSPMD custom calls in a function called by per-device code, as JAX prints axis_index with free axes, and a nested
// shard_map: each device slices its shard along the inner axes. JAX's annotations of shards have no effect here.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%arg0: tensor<6x4xf32>) -> tensor<6x4xf32> {
    %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}"} : (tensor<6x4xf32>) -> tensor<3x4xf32>
    %2 = call @body(%1) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %3 = stablehlo.custom_call @SPMDShardToFullShape(%2) {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : (tensor<3x4xf32>) -> tensor<6x4xf32>
    return %3 : tensor<6x4xf32>
  }
  func.func private @body(%arg0: tensor<3x4xf32>) -> tensor<3x4xf32> {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      %t = stablehlo.custom_call @Sharding(%s) {mhlo.sharding = "{devices=[2,2]<=[4] last_tile_dims={manual, replicated}}"} : (tensor<f32>) -> tensor<f32>
      stablehlo.return %t : tensor<f32>
    }) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %2 = call @number() : () -> tensor<f32>
    %3 = stablehlo.custom_call @Sharding(%2) {mhlo.sharding = "{manual}"} : (tensor<f32>) -> tensor<f32>
    %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[2,2]<=[4] last_tile_dims={manual, replicated}}"} : (tensor<f32>) -> tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %6 = stablehlo.subtract %1, %5 : tensor<3x4xf32>
    %7 = stablehlo.custom_call @Sharding(%6) {mhlo.sharding = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %8 = stablehlo.custom_call @SPMDFullToShardShape(%7) {mhlo.sharding = "{manual}"} : (tensor<3x4xf32>) -> tensor<3x2xf32>
    %9 = call @inner(%8) : (tensor<3x2xf32>) -> tensor<3x2xf32>
    %10 = stablehlo.custom_call @Sharding(%9) {mhlo.sharding = "{manual}"} : (tensor<3x2xf32>) -> tensor<3x2xf32>
    %11 = stablehlo.custom_call @SPMDShardToFullShape(%10) {mhlo.sharding = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}"} : (tensor<3x2xf32>) -> tensor<3x4xf32>
    return %11 : tensor<3x4xf32>
  }
  func.func private @number() -> tensor<f32> {
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.divide %0, %two : tensor<ui32>
    %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
  func.func private @inner(%arg0: tensor<3x2xf32>) -> tensor<3x2xf32> {
    %0 = stablehlo.sine %arg0 : tensor<3x2xf32>
    return %0 : tensor<3x2xf32>
  }
}

// CHECK:      mesh @mesh = [x=2, y=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%arg0: f32[6, 4]) -> (f32[6, 4]) {
// CHECK-NEXT:   %3 = local (%1 = %arg0 : f32[6, 4] @mesh{x, _}) {free = [y]} {
// CHECK-NEXT:     %0 = all_reduce %1 {axes = [x]} : f32[3, 4]
// CHECK-NEXT:     %two = constant {value = 2} : u32[]
// CHECK-NEXT:     %4 = axis_index {axes = [x, y]} : i32[]
// CHECK-NEXT:     %7 = convert %4 {dtype = u32} : u32[]
// CHECK-NEXT:     %8 = axis_index {axes = [x]} : i32[]
// CHECK-NEXT:     %9 = convert %8 {dtype = u32} : u32[]
// CHECK-NEXT:     %2 = convert %9 {dtype = f32} : f32[]
// CHECK-NEXT:     %5 = broadcast %2 {shape = [3, 4]} : f32[3, 4]
// CHECK-NEXT:     %6 = sub %0, %5 : f32[3, 4]
// CHECK-NEXT:     %10 = all_slice %6 {axes = [y], dim = 1} : f32[3, 2]
// CHECK-NEXT:     %12 = sin %10 : f32[3, 2]
// CHECK-NEXT:     %11 = all_gather %12 {axes = [y], dim = 1} : f32[3, 4]
// CHECK-NEXT:     yield %11
// CHECK-NEXT:   } : f32[6, 4] @mesh{x, _}
// CHECK-NEXT:   return %3
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @inner(%arg0: f32[3, 2]) -> (f32[3, 2]) {
// CHECK-NEXT:   %0 = sin %arg0 : f32[3, 2]
// CHECK-NEXT:   return %0
// CHECK-NEXT: }

// CHECK-RESULT: check 0: ok
