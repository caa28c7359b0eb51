// Per-device text outside of a manual computation: an spmd function on a mesh of that many devices, whose arguments
// and results are shards.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input 'x=iota' --check | FileCheck %s --check-prefix=RAN
// (CHECK lines written by scripts/dtc-update-tests)
module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32> {jax.result_info = "sum"}, tensor<3xf32> {jax.result_info = "half"}, tensor<1xi32> {jax.result_info = "place"}) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2x3xf32>) -> tensor<1x3xf32>
    %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
    %4 = stablehlo.partition_id : tensor<ui32>
    %5 = stablehlo.convert %4 : (tensor<ui32>) -> tensor<i32>
    %6 = stablehlo.reshape %5 : (tensor<i32>) -> tensor<1xi32>
    return %1, %3, %6 : tensor<2x3xf32>, tensor<3xf32>, tensor<1xi32>
  }
}

// CHECK:      mesh @devices = [device=4]
// CHECK-EMPTY:
// CHECK-NEXT: spmd func @main(%x: f32[2, 3] of f32[8, 3] @devices{device, _})
// CHECK-NEXT:     -> (%sum:   f32[2, 3] of f32[8, 3] @devices{device, _} {name = "sum"},
// CHECK-NEXT:         %half:  f32[3] of f32[12]      @devices{device} {name = "half"},
// CHECK-NEXT:         %place: i32[1] of i32[4]       @devices{device} {name = "place"}) {
// CHECK-NEXT:   %0 = all_reduce %x {axes = [device]} : f32[2, 3]
// CHECK-NEXT:   %1 = permute %0 {axes = [device], pairs = {{\[\[}}0, 1], [1, 0], [2, 3], [3, 2]]} : f32[2, 3]
// CHECK-NEXT:   %2 = reduce_scatter %x {axes = [device:(1)2], dim = 0, op = "max"} : f32[1, 3]
// CHECK-NEXT:   %3 = reshape %2 {shape = [3]} : f32[3]
// CHECK-NEXT:   %7 = axis_index {axes = [device]} : i32[]
// CHECK-NEXT:   %4 = convert %7 {dtype = u32} : u32[]
// CHECK-NEXT:   %5 = convert %4 {dtype = i32} : i32[]
// CHECK-NEXT:   %6 = reshape %5 {shape = [1]} : i32[1]
// CHECK-NEXT:   return %1, %3, %6
// CHECK-NEXT: }

// RAN:      sum =
// RAN-NEXT: {{\[\[}}36, 40, 44],
// RAN-NEXT:  [48, 52, 56],
// RAN-NEXT:  [36, 40, 44],
// RAN-NEXT:  [48, 52, 56],
// RAN-NEXT:  [36, 40, 44],
// RAN-NEXT:  [48, 52, 56],
// RAN-NEXT:  [36, 40, 44],
// RAN-NEXT:  [48, 52, 56]]
// RAN-NEXT: half = [12, 13, 14, 18, 19, 20, 15, 16, 17, 21, 22, 23]
// RAN-NEXT: place = [0, 1, 2, 3]
// RAN-NEXT: check sum: ok, equal in all 24 elements
// RAN-NEXT: check half: ok, equal in all 12 elements
// RAN-NEXT: check place: ok, equal in all 4 elements
// RAN-NEXT: check: local text has no unsharded form; the reference is the same text on the many-device evaluator
