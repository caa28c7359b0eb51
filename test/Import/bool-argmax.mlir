// The index of the first true, as JAX prints argmax of bools.
// RUN: %dtc run %s
// RUN: %dtc import %s | FileCheck %s
// CHECK: argmax
func.func @main() {
  %x = stablehlo.constant dense<[false, true, false, true]> : tensor<4xi1>
  %n = stablehlo.iota dim = 0 : tensor<4xi32>
  %f = stablehlo.constant dense<false> : tensor<i1>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %y:2 = stablehlo.reduce(%x init: %f), (%n init: %z) across dimensions = [0] : (tensor<4xi1>, tensor<4xi32>, tensor<i1>, tensor<i32>) -> (tensor<i1>, tensor<i32>)
    reducer(%a: tensor<i1>, %c: tensor<i1>) (%b: tensor<i32>, %d: tensor<i32>) {
    %0 = stablehlo.compare GT, %a, %c, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %1 = stablehlo.compare NE, %a, %a, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %2 = stablehlo.or %0, %1 : tensor<i1>
    %3 = stablehlo.compare EQ, %a, %c, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %4 = stablehlo.compare LT, %b, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %5 = stablehlo.and %3, %4 : tensor<i1>
    %6 = stablehlo.or %2, %5 : tensor<i1>
    %7 = stablehlo.select %2, %a, %c : tensor<i1>, tensor<i1>
    %8 = stablehlo.select %6, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %7, %8 : tensor<i1>, tensor<i32>
  }
  check.expect_eq_const %y#0, dense<true> : tensor<i1>
  check.expect_eq_const %y#1, dense<1> : tensor<i32>
  return
}
