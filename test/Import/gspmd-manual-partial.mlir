// GSPMD custom calls over a subset of axes: last_tile_dims lists manual axes, others are free; unspecified dims of
// arguments and results may be sharded along free axes. The partition id inside, and an unsharded argument.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%arg0: tensor<6x4xf32> {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dims={replicated}}"}, %arg1: tensor<3x4xf32>) -> tensor<6x4xf32> {
    %0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}"} : (tensor<6x4xf32>) -> tensor<3x4xf32>
    %sine:2 = call @both(%arg1) : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.maximum %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.partition_id : tensor<ui32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %i = stablehlo.divide %n, %two : tensor<ui32>
    %j = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
    %k = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %3 = stablehlo.add %2, %k : tensor<3x4xf32>
    %4 = stablehlo.multiply %3, %sine#1 : tensor<3x4xf32>
    %5 = stablehlo.custom_call @Sharding(%4) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={replicated, manual}}"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {backend_config = "unspecified_dims=[1]", mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : (tensor<3x4xf32>) -> tensor<6x4xf32>
    %7 = stablehlo.add %6, %arg0 : tensor<6x4xf32>
    return %7 : tensor<6x4xf32>
  }
  func.func private @both(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
    %0 = stablehlo.sine %x : tensor<3x4xf32>
    return %x, %0 : tensor<3x4xf32>, tensor<3x4xf32>
  }
}

// CHECK:      mesh @mesh = [x=2, y=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%arg0: f32[6, 4] @mesh{x, _}, %arg1: f32[3, 4]) -> (f32[6, 4]) {
// CHECK-NEXT:   %sine_0, %sine_1 = call @both(%arg1) : f32[3, 4], f32[3, 4]
// CHECK-NEXT:   %0 = shard %arg0 : f32[6, 4] @mesh{x?, ?}
// CHECK-NEXT:   %9 = local (%1 = %0 : f32[6, 4] @mesh{x, _}, %sine_1 = %sine_1 : f32[3, 4] @mesh{_, _}) {free = [y]} {
// CHECK-NEXT:     %2 = all_reduce %1 {axes = [x], op = "max"} : f32[3, 4]
// CHECK-NEXT:     %5 = axis_index {axes = [x, y]} : i32[]
// CHECK-NEXT:     %n = convert %5 {dtype = u32} : u32[]
// CHECK-NEXT:     %two = constant {value = 2} : u32[]
// CHECK-NEXT:     %8 = axis_index {axes = [x]} : i32[]
// CHECK-NEXT:     %i = convert %8 {dtype = u32} : u32[]
// CHECK-NEXT:     %j = convert %i {dtype = f32} : f32[]
// CHECK-NEXT:     %k = broadcast %j {shape = [3, 4]} : f32[3, 4]
// CHECK-NEXT:     %3 = add %2, %k : f32[3, 4]
// CHECK-NEXT:     %4 = mul %3, %sine_1 : f32[3, 4]
// CHECK-NEXT:     yield %4
// CHECK-NEXT:   } : f32[6, 4] @mesh{x, _}
// CHECK-NEXT:   %6 = shard %9 : f32[6, 4] @mesh{x, ?}
// CHECK-NEXT:   %7 = add %6, %arg0 : f32[6, 4]
// CHECK-NEXT:   return %7
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @both(%x: f32[3, 4]) -> (f32[3, 4], f32[3, 4]) {
// CHECK-NEXT:   %0 = sin %x : f32[3, 4]
// CHECK-NEXT:   return %x, %0
// CHECK-NEXT: }

// CHECK-RESULT: check 0: ok
