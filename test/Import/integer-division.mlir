// Integers divided by 0: the quotient is -1 and the remainder the dividend. Divisors that are never 0 cost nothing.
// RUN: %dtc run %s --check
// RUN: %dtc run %s --backend cuda-emu
// RUN: %dtc import %s | FileCheck %s
// CHECK: func @main
// CHECK: eq %d8
func.func @main() {
  %n8 = stablehlo.constant dense<[7, -128, -128, 0, -7]> : tensor<5xi8>
  %d8 = stablehlo.constant dense<[0, -1, 0, 0, 2]> : tensor<5xi8>
  %q8 = stablehlo.divide %n8, %d8 : tensor<5xi8>
  check.expect_eq_const %q8, dense<[-1, -128, -1, -1, -3]> : tensor<5xi8>
  %r8 = stablehlo.remainder %n8, %d8 : tensor<5xi8>
  check.expect_eq_const %r8, dense<[7, 0, -128, 0, -1]> : tensor<5xi8>

  %n64 = stablehlo.constant dense<[-9223372036854775808, -9223372036854775808, 5]> : tensor<3xi64>
  %d64 = stablehlo.constant dense<[-1, 0, 0]> : tensor<3xi64>
  %q64 = stablehlo.divide %n64, %d64 : tensor<3xi64>
  check.expect_eq_const %q64, dense<[-9223372036854775808, -1, -1]> : tensor<3xi64>
  %r64 = stablehlo.remainder %n64, %d64 : tensor<3xi64>
  check.expect_eq_const %r64, dense<[0, -9223372036854775808, 5]> : tensor<3xi64>

  %nu = stablehlo.constant dense<[9, 18446744073709551615]> : tensor<2xui64>
  %du = stablehlo.constant dense<[0, 10]> : tensor<2xui64>
  %qu = stablehlo.divide %nu, %du : tensor<2xui64>
  check.expect_eq_const %qu, dense<[18446744073709551615, 1844674407370955161]> : tensor<2xui64>
  %ru = stablehlo.remainder %nu, %du : tensor<2xui64>
  check.expect_eq_const %ru, dense<[9, 5]> : tensor<2xui64>

  %n4 = stablehlo.constant dense<[7, 9]> : tensor<2xui4>
  %d4 = stablehlo.constant dense<[0, 4]> : tensor<2xui4>
  %q4 = stablehlo.divide %n4, %d4 : tensor<2xui4>
  check.expect_eq_const %q4, dense<[15, 2]> : tensor<2xui4>
  func.return
}

// CHECK: func @nonzero
// CHECK-NOT: eq
// CHECK: div
// CHECK-NOT: eq
// CHECK: rem
// CHECK-NOT: eq
func.func @nonzero(%x: tensor<4xi32>, %u: tensor<4xui32>) -> (tensor<4xi32>, tensor<4xui32>) {
  %three = stablehlo.constant dense<3> : tensor<i32>
  %b = stablehlo.broadcast_in_dim %three, dims = [] : (tensor<i32>) -> tensor<4xi32>
  %q = stablehlo.divide %x, %b : tensor<4xi32>
  %d = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xui32>
  %r = stablehlo.remainder %u, %d : tensor<4xui32>
  return %q, %r : tensor<4xi32>, tensor<4xui32>
}
