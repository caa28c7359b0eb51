// Callees of a manual computation are inlined if they have collectives; reducers may have scalar constraints.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '%x=randn(1)' --check
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"x"}, {}]>] out_shardings=[<@m, [{"x"}, {}]>] manual_axes={"x"} (%p: tensor<2x6xf32>) {
    %1 = func.call @step(%p, %p) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
    %2 = func.call @step(%1, %p) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
    sdy.return %2 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

func.func private @step(%a: tensor<2x6xf32>, %b: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %0 = "stablehlo.collective_permute"(%b) <{source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>}> : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %1 = func.call @total(%0) : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %2 = stablehlo.subtract %1, %a : tensor<2x6xf32>
  return %2 : tensor<2x6xf32>
}

func.func private @total(%a: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
  ^bb0(%u: tensor<f32>, %v: tensor<f32>):
    %1 = stablehlo.add %u, %v : tensor<f32>
    %2 = sdy.sharding_constraint %1 <@m, []> : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// CHECK:      mesh @m = [x=2, y=2]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%x: f32[4, 6]) -> (f32[4, 6]) {
// CHECK-NEXT:   %0 = local (%p = %x : f32[4, 6] @m{x, _}) {free = [y]} {
// CHECK-NEXT:     %0 = permute %p {axes = [x], pairs = {{\[\[}}0, 1], [1, 0]]} : f32[2, 6]
// CHECK-NEXT:     %1 = all_reduce %0 {axes = [x]} : f32[2, 6]
// CHECK-NEXT:     %2 = sub %1, %p : f32[2, 6]
// CHECK-NEXT:     %3 = permute %p {axes = [x], pairs = {{\[\[}}0, 1], [1, 0]]} : f32[2, 6]
// CHECK-NEXT:     %4 = all_reduce %3 {axes = [x]} : f32[2, 6]
// CHECK-NEXT:     %5 = sub %4, %2 : f32[2, 6]
// CHECK-NEXT:     yield %5
// CHECK-NEXT:   } : f32[4, 6] @m{x, _}
// CHECK-NEXT:   return %0
// CHECK-NEXT: }
