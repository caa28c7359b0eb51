// A result that is sharded along the same axes in another device order: the same shards on other devices.
// RUN: %dtc run %s --check
// RUN: %dtc import %s | FileCheck %s
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @other = <["x"=2, "y"=2]>
sdy.mesh @m = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>

func.func @shift(%a: tensor<4xi32> {sdy.sharding = #sdy.sharding<@other, [{"x", "y"}]>}) -> (tensor<4xi32> {sdy.sharding = #sdy.sharding<@m, [{"x", "y"}]>}) {
  %0 = sdy.collective_permute %a out_sharding=<@m, [{"x", "y"}]> : tensor<4xi32>
  return %0 : tensor<4xi32>
}

func.func @main() {
  %v = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %v0 = stablehlo.slice %v [0:1] : (tensor<4xi32>) -> tensor<1xi32>
  %v1 = stablehlo.slice %v [1:2] : (tensor<4xi32>) -> tensor<1xi32>
  %v2 = stablehlo.slice %v [2:3] : (tensor<4xi32>) -> tensor<1xi32>
  %v3 = stablehlo.slice %v [3:4] : (tensor<4xi32>) -> tensor<1xi32>
  %q:4 = "interpreter.run_parallel"(%v0, %v1, %v2, %v3) {
    programs = [[@shift], [@shift], [@shift], [@shift]]
  } : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>)
  check.expect_eq %q#0, %v3 : tensor<1xi32>
  check.expect_eq %q#2, %v1 : tensor<1xi32>
  return
}

// CHECK:      mesh @other = [x=2, y=2]
// CHECK-NEXT: mesh @m = [x=2, y=2] {devices = [3, 2, 1, 0]}
// CHECK-EMPTY:
// CHECK-NEXT: func @shift(%a: i32[4] @other{(x, y)}) -> (i32[4] @other{(x, y)}) {mesh = @other} {
// CHECK-NEXT:   %0 = reshard %a : i32[4] @other{(x, y)}
// CHECK-NEXT:   return %0
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @main() -> () {mesh = @other} {
// CHECK-NEXT:   %v = constant {value = [1, 2, 3, 4]} : i32[4]
// CHECK-NEXT:   %v0 = slice %v {start = [0], limit = [1]} : i32[1]
// CHECK-NEXT:   %v1 = slice %v {start = [1], limit = [2]} : i32[1]
// CHECK-NEXT:   %v2 = slice %v {start = [2], limit = [3]} : i32[1]
// CHECK-NEXT:   %v3 = slice %v {start = [3], limit = [4]} : i32[1]
// CHECK-NEXT:   %0 = concat %v0, %v1, %v2, %v3 {dim = 0} : i32[4]
// CHECK-NEXT:   %1 = call @shift(%0) : i32[4]
// CHECK-NEXT:   %q_3 = slice %1 {start = [0], limit = [1]} : i32[1]
// CHECK-NEXT:   %q_2 = slice %1 {start = [1], limit = [2]} : i32[1]
// CHECK-NEXT:   %q_1 = slice %1 {start = [2], limit = [3]} : i32[1]
// CHECK-NEXT:   %q_0 = slice %1 {start = [3], limit = [4]} : i32[1]
// CHECK-NEXT:   expect_eq %q_0, %v3
// CHECK-NEXT:   expect_eq %q_2, %v1
// CHECK-NEXT:   return
// CHECK-NEXT: }
