// Data-flow edges of loops and branches, copies of constants and named computations, propagated as in Shardy.
// RUN: %dtc import %s | %dtc opt - -p propagate | FileCheck %s
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {?}]>}, %y: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@m, [{?}, {"b"}]>}, %p: tensor<i32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2.0> : tensor<4x6xf32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4x6xf32>
   cond {
    %1 = stablehlo.compare LT, %i, %p : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %2 = stablehlo.add %i, %one : tensor<i32>
    %3 = stablehlo.multiply %v, %two : tensor<4x6xf32>
    stablehlo.return %2, %3 : tensor<i32>, tensor<4x6xf32>
  }
  %4 = sdy.named_computation<"half">(%y) (%h: tensor<4x6xf32>) {
    %5 = stablehlo.divide %h, %two : tensor<4x6xf32>
    sdy.return %5 : tensor<4x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0#1, %4 : tensor<4x6xf32>, tensor<4x6xf32>
}

// CHECK:      mesh @m = [a=2, b=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[4, 6] @m{a, _},
// CHECK-NEXT:            %y: f32[4, 6] @m{_, b},
// CHECK-NEXT:            %p: i32[]     @m{}) -> (f32[4, 6] @m{a, _}, f32[4, 6] @m{_, b}) {
// CHECK-NEXT:   %two = constant {value = 2.0} : f32[4, 6] @m{a, _}
// CHECK-NEXT:   %0 = constant {value = 2.0} : f32[4, 6] @m{_, b}
// CHECK-NEXT:   %0_1 = for %i in 0..%p (%v = %x : f32[4, 6] @m{a, _}) {
// CHECK-NEXT:     %3 = mul %v, %two : f32[4, 6] @m{a, _}
// CHECK-NEXT:     yield %3
// CHECK-NEXT:   } : f32[4, 6] @m{a, _}
// CHECK-NEXT:   %5 = div %y, %0 : f32[4, 6] @m{_, b}
// CHECK-NEXT:   return %0_1, %5
// CHECK-NEXT: }
