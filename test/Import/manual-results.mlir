// A manual computation may declare a result to be the same on devices that hold different values: the first device's value is taken.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s
// (hand-written CHECK lines)
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main() {
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a", "b"}]>] out_shardings=[<@m, [{"a"}]>] manual_axes={"a", "b"} (%p: tensor<1xf32>) {
    %1 = stablehlo.add %p, %p : tensor<1xf32>
    sdy.return %1 : tensor<1xf32>
  } : (tensor<4xf32>) -> tensor<2xf32>
  // CHECK:      %[[SUM:.*]] = add
  // CHECK-NEXT: %[[FIRST:.*]] = broadcast_from %[[SUM]] {axes = [b]} : f32[1]
  // CHECK-NEXT: yield %[[FIRST]]
  check.expect_eq_const %0, dense<[2.0, 6.0]> : tensor<2xf32>
  // Parts of one dim change places.
  // CHECK:      reshape {{.*}} {shape = [1, 2, 1]}
  // CHECK-NEXT: all_to_all {{.*}} {axes = [a], split_dim = 1, concat_dim = 0} : f32[2, 1, 1]
  %2 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a"}]>] out_shardings=[<@m, [{"a"}]>] manual_axes={"a", "b"} (%p: tensor<2xf32>) {
    %3 = "stablehlo.all_to_all"(%p) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %3 : tensor<2xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  check.expect_eq_const %2, dense<[1.0, 3.0, 2.0, 4.0]> : tensor<4xf32>
  return
}
