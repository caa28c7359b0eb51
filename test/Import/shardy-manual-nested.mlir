// Nested manual computations: each device slices its shard along the inner axes, and results are gathered.
// Tokens are ignored.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --entry @main --input '%x=randn(1)' --check
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=2, "c"=2]>
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a"}, {}]>] out_shardings=[<@m, [{"a"}, {}]>] manual_axes={"a"} (%p: tensor<2x6xf32>) {
    %1 = stablehlo.sine %p : tensor<2x6xf32>
    %2 = sdy.manual_computation(%1) in_shardings=[<@m, [{}, {"b"}]>] out_shardings=[<@m, [{}, {"b"}]>] manual_axes={"b"} (%q: tensor<2x3xf32>) {
      %3 = "stablehlo.all_reduce"(%q) <{replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>}> ({
      ^bb0(%u: tensor<f32>, %v: tensor<f32>):
        %4 = stablehlo.add %u, %v : tensor<f32>
        stablehlo.return %4 : tensor<f32>
      }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %5 = stablehlo.multiply %q, %3 : tensor<2x3xf32>
      sdy.return %5 : tensor<2x3xf32>
    } : (tensor<2x6xf32>) -> tensor<2x6xf32>
    sdy.return %2 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

func.func @tokens(%t: !stablehlo.token, %x: tensor<4x4xi32>) -> (!stablehlo.token, tensor<4x4xi32>) {
  %0:2 = sdy.manual_computation(%t, %x) in_shardings=[<@m, []>, <@m, [{}, {"b"}]>] out_shardings=[<@m, []>, <@m, [{}, {"b"}]>] manual_axes={"b"} (%p: !stablehlo.token, %q: tensor<4x2xi32>) {
    %1 = stablehlo.negate %q : tensor<4x2xi32>
    sdy.return %p, %1 : !stablehlo.token, tensor<4x2xi32>
  } : (!stablehlo.token, tensor<4x4xi32>) -> (!stablehlo.token, tensor<4x4xi32>)
  %2:2 = sdy.named_computation<"f">(%0#0, %0#1) (%p: !stablehlo.token, %q: tensor<4x4xi32>) {
    sdy.return %p, %q : !stablehlo.token, tensor<4x4xi32>
  } : (!stablehlo.token, tensor<4x4xi32>) -> (!stablehlo.token, tensor<4x4xi32>)
  return %2#0, %2#1 : !stablehlo.token, tensor<4x4xi32>
}

// CHECK:      mesh @m = [a=2, b=2, c=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[4, 6]) -> (f32[4, 6]) {
// CHECK-NEXT:   %0 = local (%p = %x : f32[4, 6] @m{a, _}) {free = [b, c]} {
// CHECK-NEXT:     %1 = sin %p : f32[2, 6]
// CHECK-NEXT:     %4 = all_slice %1 {axes = [b], dim = 1} : f32[2, 3]
// CHECK-NEXT:     %3 = all_reduce %4 {axes = [b]} : f32[2, 3]
// CHECK-NEXT:     %5 = mul %4, %3 : f32[2, 3]
// CHECK-NEXT:     %2 = all_gather %5 {axes = [b], dim = 1} : f32[2, 6]
// CHECK-NEXT:     yield %2
// CHECK-NEXT:   } : f32[4, 6] @m{a, _}
// CHECK-NEXT:   return %0
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @tokens(%x: i32[4, 4]) -> (i32[4, 4]) {
// CHECK-NEXT:   %0_1 = local (%q = %x : i32[4, 4] @m{_, b}) {free = [a, c]} {
// CHECK-NEXT:     %1 = neg %q : i32[4, 2]
// CHECK-NEXT:     yield %1
// CHECK-NEXT:   } : i32[4, 4] @m{_, b}
// CHECK-NEXT:   return %0_1
// CHECK-NEXT: }
