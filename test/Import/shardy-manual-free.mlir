// Free axes of a manual computation: devices agree along them, and the result is resharded as requested.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>) {
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a", ?}, {"b", ?}]>] out_shardings=[<@m, [{"a", "b"}, {?}]>] manual_axes={"a"} (%p: tensor<2x6xf32>) {
    %1 = stablehlo.add %p, %p : tensor<2x6xf32>
    sdy.return %1 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK:      mesh @m = [a=2, b=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[4, 6]) -> (f32[4, 6]) {
// CHECK-NEXT:   %2 = shard %x : f32[4, 6] @m{a?, b?}
// CHECK-NEXT:   %3 = local (%p = %2 : f32[4, 6] @m{a, _}) {free = [b]} {
// CHECK-NEXT:     %1 = add %p, %p : f32[2, 6]
// CHECK-NEXT:     yield %1
// CHECK-NEXT:   } : f32[4, 6] @m{a, _}
// CHECK-NEXT:   %0 = shard %3 : f32[4, 6] @m{(a, b), ?}
// CHECK-NEXT:   return %0
// CHECK-NEXT: }

// CHECK-RESULT: check 0: ok
