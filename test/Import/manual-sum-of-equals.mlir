// A manual computation may declare a value that all devices have as a pending sum, to which each of them adds it.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s
// (hand-written CHECK lines)
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main() {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK:      %[[ALL:.*]] = broadcast {{.*}} {shape = [2, 2]} : f32[2, 2]
  // CHECK-NEXT: %[[OWN:.*]] = all_slice %[[ALL]] {axes = [b], dim = 0} : f32[1, 2]
  // CHECK-NEXT: %[[ADDEND:.*]] = reshape %[[OWN]] {shape = [2]} : f32[2]
  // CHECK-NEXT: yield %[[ADDEND]]
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{}]>] out_shardings=[<@m, [{}], unreduced={"b"}>] manual_axes={"a", "b"} (%p: tensor<2xf32>) {
    %1 = stablehlo.add %p, %p : tensor<2xf32>
    sdy.return %1 : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const %0, dense<[4.0, 8.0]> : tensor<2xf32>
  return
}
