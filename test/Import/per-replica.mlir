// Per-replica code with calls: replicas are devices, as partitions are ("per-device" is an error for both).
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=iota' --check | FileCheck %s --check-prefix=RAN
// (CHECK lines written by scripts/dtc-update-tests)
// RAN:      0 = [2, 4, 2, 4]
// RAN-NEXT: 1 = [0, 1]
// RAN-NEXT: check 0: ok, equal in all 4 elements
// RAN-NEXT: check 1: ok, equal in all 2 elements
// RAN-NEXT: check: local text has no unsharded form; the reference is the same text on the many-device evaluator
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func private @f(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @main(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<1xui32>) {
    %0 = call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = stablehlo.replica_id : tensor<ui32>
    %2 = stablehlo.reshape %1 : (tensor<ui32>) -> tensor<1xui32>
    return %0, %2 : tensor<2xf32>, tensor<1xui32>
  }
}

// CHECK:      mesh @devices = [device=2]
// CHECK-EMPTY:
// CHECK-NEXT: spmd func @f(%a: f32[2] of f32[4] @devices{device}) -> (f32[2] of f32[4] @devices{device}) {
// CHECK-NEXT:   %0 = all_reduce %a {axes = [device]} : f32[2]
// CHECK-NEXT:   return %0
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: spmd func @main(%a: f32[2] of f32[4] @devices{device})
// CHECK-NEXT:     -> (f32[2] of f32[4] @devices{device}, u32[1] of u32[2] @devices{device}) {
// CHECK-NEXT:   %0 = call @f(%a) : f32[2]
// CHECK-NEXT:   %3 = axis_index {axes = [device]} : i32[]
// CHECK-NEXT:   %1 = convert %3 {dtype = u32} : u32[]
// CHECK-NEXT:   %2 = reshape %1 {shape = [1]} : u32[1]
// CHECK-NEXT:   return %0, %2
// CHECK-NEXT: }
