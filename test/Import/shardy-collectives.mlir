// Shardy's collectives are reshards of the global tensor.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a", "b"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.all_gather [{"b"}, {}] %x out_sharding=<@m, [{"a"}, {}]> : tensor<8x8xf32>
  %1 = sdy.all_slice [{}, {"b"}] %0 out_sharding=<@m, [{"a"}, {"b"}]> : tensor<8x8xf32>
  %2 = sdy.all_to_all [{"b"}: 1->0] %1 out_sharding=<@m, [{"a", "b"}, {}]> : tensor<8x8xf32>
  %3 = sdy.collective_permute %2 out_sharding=<@m, [{"b", "a"}, {}]> : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// CHECK:      mesh @m = [a=2, b=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[8, 8] @m{(a, b), _}) -> (f32[8, 8]) {
// CHECK-NEXT:   %0 = reshard %x : f32[8, 8] @m{a, _}
// CHECK-NEXT:   %1 = reshard %0 : f32[8, 8] @m{a, b}
// CHECK-NEXT:   %2 = reshard %1 : f32[8, 8] @m{(a, b), _}
// CHECK-NEXT:   %3 = reshard %2 : f32[8, 8] @m{(b, a), _}
// CHECK-NEXT:   return %3
// CHECK-NEXT: }

// CHECK-RESULT: check 0: ok
