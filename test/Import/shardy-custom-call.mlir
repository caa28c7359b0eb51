// An unknown custom call is kept: shardings propagate by its rule, and running it is an error.
// RUN: %dtc import %s | %dtc opt - -p propagate | FileCheck %s
// RUN: %dtc import %s > %t.dt && not --exit 1 %dtc run %t.dt --input '*=zeros' 2>&1 | FileCheck %s --check-prefix=CHECK-RESULT
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {"b"}]>}, %w: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8x4xf32>) {
  %0 = stablehlo.custom_call @product(%x, %w) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=8, k=4} reduction={k}, custom>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.custom_call @unknown(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x4xf32>
}

// CHECK:      mesh @m = [a=2, b=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[8, 4] @m{a, b}, %w: f32[4, 8] @m{b, _}) -> (f32[8, 8] @m{a, _}, f32[8, 4] @m{_, _}) {
// CHECK-NEXT:   %2 = reshard %x : f32[8, 4] @m{_, _}
// CHECK-NEXT:   %3 = reshard %w : f32[4, 8] @m{_, _}
// CHECK-NEXT:   %4 = custom %2, %3 {target = "product", rule = "([i, k], [k, j])->([i, j]) {i=8, j=8, k=4} reduction={k}, custom"} : f32[8, 8] @m{_, _}
// CHECK-NEXT:   %0 = reshard %4 : f32[8, 8] @m{a, _}
// CHECK-NEXT:   %1 = custom %2 {target = "unknown"} : f32[8, 4] @m{_, _}
// CHECK-NEXT:   return %0, %1
// CHECK-NEXT: }

// CHECK-RESULT: :4:8: error: 'custom': the custom call @product cannot be executed: dtc does not implement it
