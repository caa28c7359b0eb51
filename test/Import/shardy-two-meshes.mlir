// The shardings of several meshes with the same devices are on the mesh of the entry; an argument without a sharding,
// too.
// RUN: %dtc-opt %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check
// (hand-written CHECK lines)
module @jit_f {
  sdy.mesh @other = <["a"=4]>
  sdy.mesh @one = <["i"=1]>
  sdy.mesh @main = <["x"=2, "y"=2]>
  // CHECK: func @main(%x: f32[8, 4] @main{x, _}, %w: f32[8, 4]) -> (f32[8, 4] @main{_, (x, y)}) {mesh = @main}
  func.func public @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@main, [{"x"}, {}]>}, %w: tensor<8x4xf32>)
      -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@other, [{}, {"a"}]>}) {
    // CHECK: shard %x : f32[8, 4] @main{(x, y), _}
    %0 = sdy.sharding_constraint %x <@other, [{"a"}, {}]> : tensor<8x4xf32>
    // CHECK: shard %0 : f32[8, 4] @main{_, _}
    %1 = sdy.sharding_constraint %0 <@one, [{"i"}, {}]> : tensor<8x4xf32>
    %2 = func.call @f(%1, %w) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    // The axes of per-device code are those of its mesh.
    // CHECK: reshard %2 : f32[8, 4] @other{a, _}
    // CHECK-NEXT: local
    // CHECK: all_reduce %l {axes = [a]}
    // CHECK: reshard %7 : f32[2, 4] @main{_, _}
    %3 = sdy.manual_computation(%2) in_shardings=[<@other, [{"a"}, {}]>] out_shardings=[<@other, [{}, {}]>]
        manual_axes={"a"} (%l: tensor<2x4xf32>) {
      %s = "stablehlo.all_reduce"(%l) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %r = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %r : tensor<f32>
        }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
      sdy.return %s : tensor<2x4xf32>
    } : (tensor<8x4xf32>) -> tensor<2x4xf32>
    %4 = stablehlo.concatenate %3, %3, %3, %3, dim = 0
        : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
    %5 = stablehlo.add %4, %x : tensor<8x4xf32>
    return %5 : tensor<8x4xf32>
  }
  // CHECK: func @f(%a: f32[8, 4], %b: f32[8, 4]) -> (f32[8, 4]) {mesh = @main}
  func.func private @f(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) -> tensor<8x4xf32> {
    // CHECK: shard %a : f32[8, 4] @main{(x, y), _}
    %0 = sdy.sharding_constraint %a <@other, [{"a"}, {}]> : tensor<8x4xf32>
    %1 = stablehlo.multiply %0, %b : tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
