// An asynchronous op imports as the synchronous one: a future is its values.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc import %S/Inputs/async.mlirbc | FileCheck %s --check-prefix=BYTECODE
// RUN: %dtc run %s --input '*=iota' --check
// (CHECK lines written by scripts/dtc-update-tests)
module @async attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["i"=2]>
  func.func public @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"i"}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"i"}]>}, tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"i"}]>}) {
    %0:2 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"i"}]>] out_shardings=[<@mesh, [{"i"}]>, <@mesh, [{"i"}]>] manual_axes={"i"} (%arg1: tensor<2xf32>) {
      %1 = "stablehlo.async_start"(%arg1) ({
      ^bb0(%arg2: tensor<2xf32>):
        %5 = "stablehlo.collective_permute"(%arg2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
        stablehlo.return %5 : tensor<2xf32>
      }) : (tensor<2xf32>) -> !stablehlo.future<tensor<2xf32>>
      %2 = stablehlo.negate %arg1 : tensor<2xf32>
      %3 = "stablehlo.async_done"(%1) : (!stablehlo.future<tensor<2xf32>>) -> tensor<2xf32>
      sdy.return %2, %3 : tensor<2xf32>, tensor<2xf32>
    } : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
  }
}

// BYTECODE:      mesh @mesh = [i=2]
// BYTECODE-EMPTY:
// BYTECODE-NEXT: func @main(%arg0: f32[4] @mesh{i} {loc = "-:7:26"}) -> (f32[4] @mesh{i}, f32[4] @mesh{i}) {
// BYTECODE-NEXT:   %0_0, %0_1 = local (%arg1 = %arg0 : f32[4] @mesh{i}) {loc = "-:8:12"} {
// BYTECODE-NEXT:     %2 = permute %arg1 {axes = [i], pairs = {{\[\[}}0, 1], [1, 0]], loc = "-:11:14"} : f32[2]
// BYTECODE-NEXT:     %3 = neg %arg1 {loc = "-:14:12"} : f32[2]
// BYTECODE-NEXT:     yield %3, %2
// BYTECODE-NEXT:   } : f32[4] @mesh{i}, f32[4] @mesh{i}
// BYTECODE-NEXT:   return %0_0, %0_1
// BYTECODE-NEXT: }

// CHECK:      mesh @mesh = [i=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%arg0: f32[4] @mesh{i}) -> (f32[4] @mesh{i}, f32[4] @mesh{i}) {
// CHECK-NEXT:   %0_0, %0_1 = local (%arg1 = %arg0 : f32[4] @mesh{i}) {
// CHECK-NEXT:     %5 = permute %arg1 {axes = [i], pairs = {{\[\[}}0, 1], [1, 0]]} : f32[2]
// CHECK-NEXT:     %2 = neg %arg1 : f32[2]
// CHECK-NEXT:     yield %2, %5
// CHECK-NEXT:   } : f32[4] @mesh{i}, f32[4] @mesh{i}
// CHECK-NEXT:   return %0_0, %0_1
// CHECK-NEXT: }
