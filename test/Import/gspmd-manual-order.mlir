// Where GSPMD regions and other ops are interleaved, each region becomes contiguous and other ops keep their order.
// A region without operands; a region in a loop.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --entry @mixed --input '*=randn(1)' --check | FileCheck %s --check-prefix=CHECK-RESULT
// RUN: %dtc run %s --entry @loop --input '*=randn(1)' --check
// RUN: %dtc run %s --entry @none --check
// (CHECK lines written by scripts/dtc-update-tests)
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @mixed(%x: tensor<4xf32>, %y: tensor<6xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<4xf32>, tensor<6xf32>, tensor<3xf32>) {
    %c = stablehlo.constant dense<3.0> : tensor<3xf32>
    %xs = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[2]<=[2]}"} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.custom_call @SPMDFullToShardShape(%xs) {mhlo.sharding = "{manual}"} : (tensor<4xf32>) -> tensor<2xf32>
    %b = stablehlo.custom_call @SPMDFullToShardShape(%y) {mhlo.sharding = "{manual}"} : (tensor<6xf32>) -> tensor<3xf32>
    %a1 = stablehlo.sine %a : tensor<2xf32>
    %b1 = stablehlo.add %b, %c : tensor<3xf32>
    %x1 = stablehlo.cosine %xs : tensor<4xf32>
    %a2 = stablehlo.custom_call @SPMDShardToFullShape(%a1) {mhlo.sharding = "{devices=[2]<=[2]}"} : (tensor<2xf32>) -> tensor<4xf32>
    %x2 = stablehlo.add %a2, %x1 : tensor<4xf32>
    %b2 = stablehlo.custom_call @SPMDShardToFullShape(%b1) {mhlo.sharding = "{devices=[2]<=[2]}"} : (tensor<3xf32>) -> tensor<6xf32>
    return %x2, %b2, %c : tensor<4xf32>, tensor<6xf32>, tensor<3xf32>
  }
  func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.custom_call @Sharding(%v) {mhlo.sharding = "{devices=[2]<=[2]}"} : (tensor<4xf32>) -> tensor<4xf32>
      %3 = stablehlo.custom_call @SPMDFullToShardShape(%2) {mhlo.sharding = "{manual}"} : (tensor<4xf32>) -> tensor<2xf32>
      %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %g = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %4 = "stablehlo.collective_permute"(%3) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
      %5 = stablehlo.add %4, %g : tensor<2xf32>
      %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {mhlo.sharding = "{devices=[2]<=[2]}"} : (tensor<2xf32>) -> tensor<4xf32>
      stablehlo.return %1, %6 : tensor<i32>, tensor<4xf32>
    }
    return %0#1 : tensor<4xf32>
  }
  func.func @none() -> tensor<2xui32> {
    %0 = call @number() : () -> tensor<1xui32>
    %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{manual}"} : (tensor<1xui32>) -> tensor<1xui32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {mhlo.sharding = "{devices=[2]<=[2]}"} : (tensor<1xui32>) -> tensor<2xui32>
    return %2 : tensor<2xui32>
  }
  func.func private @number() -> tensor<1xui32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.reshape %0 : (tensor<ui32>) -> tensor<1xui32>
    return %1 : tensor<1xui32>
  }
}

// CHECK:      mesh @mesh = [x=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @mixed(%x: f32[4], %y: f32[6] @mesh{x}) -> (f32[4], f32[6], f32[3]) {
// CHECK-NEXT:   %c = constant {value = 3.0} : f32[3]
// CHECK-NEXT:   %xs = shard %x : f32[4] @mesh{x}
// CHECK-NEXT:   %x1 = cos %xs : f32[4]
// CHECK-NEXT:   %a2 = local (%a = %xs : f32[4] @mesh{x}) {
// CHECK-NEXT:     %a1 = sin %a : f32[2]
// CHECK-NEXT:     yield %a1
// CHECK-NEXT:   } : f32[4] @mesh{x}
// CHECK-NEXT:   %x2 = add %a2, %x1 : f32[4]
// CHECK-NEXT:   %b2 = local (%b = %y : f32[6] @mesh{x}) {
// CHECK-NEXT:     %c = constant {value = 3.0} : f32[3]
// CHECK-NEXT:     %b1 = add %b, %c : f32[3]
// CHECK-NEXT:     yield %b1
// CHECK-NEXT:   } : f32[6] @mesh{x}
// CHECK-NEXT:   return %x2, %b2, %c
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @loop(%x: f32[4]) -> (f32[4]) {
// CHECK-NEXT:   %0_1 = for %i in 0..3 (%v = %x) {
// CHECK-NEXT:     %f = convert %i {dtype = f32} : f32[]
// CHECK-NEXT:     %g = broadcast %f {shape = [2]} : f32[2]
// CHECK-NEXT:     %6 = local (%3 = %v : f32[4] @mesh{x}, %g = %g : f32[2] @mesh{_}) {
// CHECK-NEXT:       %4 = permute %3 {axes = [x], pairs = {{\[\[}}0, 1], [1, 0]]} : f32[2]
// CHECK-NEXT:       %5 = add %4, %g : f32[2]
// CHECK-NEXT:       yield %5
// CHECK-NEXT:     } : f32[4] @mesh{x}
// CHECK-NEXT:     yield %6
// CHECK-NEXT:   } : f32[4]
// CHECK-NEXT:   return %0_1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @none() -> (u32[2]) {
// CHECK-NEXT:   %2 = local () {
// CHECK-NEXT:     %3 = axis_index {axes = [x]} : i32[]
// CHECK-NEXT:     %0 = convert %3 {dtype = u32} : u32[]
// CHECK-NEXT:     %1 = reshape %0 {shape = [1]} : u32[1]
// CHECK-NEXT:     yield %1
// CHECK-NEXT:   } : u32[2] @mesh{x}
// CHECK-NEXT:   return %2
// CHECK-NEXT: }

// CHECK-RESULT: check 0: ok
// CHECK-RESULT: check 1: ok
// CHECK-RESULT: check 2: ok
