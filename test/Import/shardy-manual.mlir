// A manual computation is a `local` region; groups of its collectives are mesh axes.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=3]>
func.func @main(%x: tensor<4x6xf32>, %w: tensor<6x5xf32>) -> (tensor<4x5xf32>) {
  %0 = sdy.manual_computation(%x, %w) in_shardings=[<@m, [{"a"}, {"b"}]>, <@m, [{"b"}, {}]>] out_shardings=[<@m, [{"a"}, {}]>] manual_axes={"a", "b"} (%p: tensor<2x2xf32>, %q: tensor<2x5xf32>) {
    %1 = stablehlo.dot_general %p, %q, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %3 = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<2x5xf32>) -> tensor<2x5xf32>
    sdy.return %2 : tensor<2x5xf32>
  } : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// CHECK:      mesh @m = [a=2, b=3]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[4, 6], %w: f32[6, 5]) -> (f32[4, 5]) {
// CHECK-NEXT:   %0 = local (%p = %x : f32[4, 6] @m{a, b}, %q = %w : f32[6, 5] @m{b, _}) {
// CHECK-NEXT:     %1 = matmul %p, %q : f32[2, 5]
// CHECK-NEXT:     %2 = all_reduce %1 {axes = [b]} : f32[2, 5]
// CHECK-NEXT:     yield %2
// CHECK-NEXT:   } : f32[4, 5] @m{a, _}
// CHECK-NEXT:   return %0
// CHECK-NEXT: }

// CHECK-RESULT: check 0: ok
