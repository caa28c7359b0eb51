// Integers of 2 and 4 bits and floats of 8 and 4 bits, stored in wider dtypes with their own values.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
// RUN: not %dtc import %S/Inputs/small-bits.mlir 2>&1 | FileCheck %s
// CHECK: it converts the bits of a dtype that dtc stores in a wider one
func.func @main() {
  %a = stablehlo.constant dense<[7, -8, 3, -1]> : tensor<4xi4>
  %b = stablehlo.constant dense<[1, -1, 5, 2]> : tensor<4xi4>
  %bytes = stablehlo.constant dense<"0x0708030F"> : tensor<4xi4>
  check.expect_eq %a, %bytes : tensor<4xi4>
  %s = stablehlo.add %a, %b : tensor<4xi4>
  check.expect_eq_const %s, dense<[-8, 7, -8, 1]> : tensor<4xi4>
  %p = stablehlo.multiply %a, %b : tensor<4xi4>
  check.expect_eq_const %p, dense<[7, -8, -1, -2]> : tensor<4xi4>
  %q = stablehlo.divide %a, %b : tensor<4xi4>
  check.expect_eq_const %q, dense<[7, -8, 0, 0]> : tensor<4xi4>
  %two = stablehlo.constant dense<2> : tensor<4xi4>
  %r = stablehlo.shift_right_logical %a, %two : tensor<4xi4>
  check.expect_eq_const %r, dense<[1, 2, 0, 3]> : tensor<4xi4>
  %l = stablehlo.shift_left %a, %two : tensor<4xi4>
  check.expect_eq_const %l, dense<[-4, 0, -4, -4]> : tensor<4xi4>
  %n = stablehlo.popcnt %a : tensor<4xi4>
  check.expect_eq_const %n, dense<[3, 1, 2, 4]> : tensor<4xi4>
  %z = stablehlo.count_leading_zeros %a : tensor<4xi4>
  check.expect_eq_const %z, dense<[1, 0, 2, 0]> : tensor<4xi4>
  %pairs = stablehlo.reshape %a : (tensor<4xi4>) -> tensor<2x2xi4>
  %joined = stablehlo.bitcast_convert %pairs : (tensor<2x2xi4>) -> tensor<2xi8>
  check.expect_eq_const %joined, dense<[-121, -13]> : tensor<2xi8>
  %split = stablehlo.bitcast_convert %joined : (tensor<2xi8>) -> tensor<2x2xi4>
  check.expect_eq %split, %pairs : tensor<2x2xi4>
  %same = stablehlo.bitcast_convert %a : (tensor<4xi4>) -> tensor<4xui4>
  check.expect_eq_const %same, dense<[7, 8, 3, 15]> : tensor<4xui4>
  %half = stablehlo.bitcast_convert %a : (tensor<4xi4>) -> tensor<f16>
  check.expect_eq_const %half, dense<-1.541600e+04> : tensor<f16>
  %zero = stablehlo.constant dense<0> : tensor<i4>
  %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xi4>, tensor<i4>) -> tensor<i4>
  check.expect_eq_const %sum, dense<1> : tensor<i4>
  %wide = stablehlo.constant dense<[100, -9, 8, 3]> : tensor<4xi32>
  %cut = stablehlo.convert %wide : (tensor<4xi32>) -> tensor<4xi4>
  check.expect_eq_const %cut, dense<[4, 7, -8, 3]> : tensor<4xi4>
  %real = stablehlo.constant dense<[100.0, -9.5, 1.9, 0x7FC00000]> : tensor<4xf32>
  %near = stablehlo.convert %real : (tensor<4xf32>) -> tensor<4xi2>
  check.expect_eq_const %near, dense<[1, -2, 1, 0]> : tensor<4xi2>
  %u = stablehlo.constant dense<[15, 9, 3, 0]> : tensor<4xui4>
  %not = stablehlo.not %u : tensor<4xui4>
  check.expect_eq_const %not, dense<[0, 6, 12, 15]> : tensor<4xui4>
  %low = stablehlo.subtract %not, %u : tensor<4xui4>
  check.expect_eq_const %low, dense<[1, 13, 9, 15]> : tensor<4xui4>
  %d = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<4xi4>, tensor<4xi4>) -> tensor<i32>
  check.expect_eq_const %d, dense<28> : tensor<i32>

  // To nearest, of two the even one; subnormal numbers; beyond the greatest.
  %x = stablehlo.constant dense<[1.0625, 1.1875, 0.0012, -0.0, 240.0, 247.0, 249.0, 0xFF800000, 0x7FC00000]> : tensor<9xf32>
  %ieee = stablehlo.convert %x : (tensor<9xf32>) -> tensor<9xf8E4M3>
  %ieeew = stablehlo.convert %ieee : (tensor<9xf8E4M3>) -> tensor<9xf32>
  check.expect_eq_const %ieeew, dense<[1.0, 1.25, 0.001953125, -0.0, 240.0, 240.0, 0x7F800000, 0xFF800000, 0x7FC00000]> : tensor<9xf32>
  %fnuz = stablehlo.convert %x : (tensor<9xf32>) -> tensor<9xf8E4M3FNUZ>
  %fnuzw = stablehlo.convert %fnuz : (tensor<9xf8E4M3FNUZ>) -> tensor<9xf32>
  check.expect_eq_const %fnuzw, dense<[1.0, 1.25, 0.0009765625, 0.0, 240.0, 240.0, 0x7FC00000, 0x7FC00000, 0x7FC00000]> : tensor<9xf32>
  %y = stablehlo.constant dense<[2.4, 2.6, 100.0, -0.3]> : tensor<4xf32>
  %four = stablehlo.convert %y : (tensor<4xf32>) -> tensor<4xf4E2M1FN>
  %fourw = stablehlo.convert %four : (tensor<4xf4E2M1FN>) -> tensor<4xf32>
  check.expect_eq_const %fourw, dense<[2.0, 3.0, 6.0, -0.5]> : tensor<4xf32>
  // There is no NaN: XLA's is -0.
  %nan = stablehlo.constant dense<[0x7FC00000, 0xFFC00000]> : tensor<2xf32>
  %none = stablehlo.convert %nan : (tensor<2xf32>) -> tensor<2xf4E2M1FN>
  %nonew = stablehlo.convert %none : (tensor<2xf4E2M1FN>) -> tensor<2xf32>
  %ones = stablehlo.constant dense<1.0> : tensor<2xf32>
  %inverse = stablehlo.divide %ones, %nonew : tensor<2xf32>
  check.expect_eq_const %inverse, dense<[0xFF800000, 0xFF800000]> : tensor<2xf32>
  // Patterns, alone and as bytes; sums are rounded each.
  %patterns = stablehlo.constant dense<[0x38, 0x01, 0x7F, 0xFF]> : tensor<4xf8E3M4>
  %patternsw = stablehlo.convert %patterns : (tensor<4xf8E3M4>) -> tensor<4xf32>
  check.expect_eq_const %patternsw, dense<[1.5, 0.015625, 0x7FC00000, 0x7FC00000]> : tensor<4xf32>
  %text = stablehlo.constant dense<"0x40803CFF"> : tensor<4xf8E5M2FNUZ>
  %textw = stablehlo.convert %text : (tensor<4xf8E5M2FNUZ>) -> tensor<4xf32>
  check.expect_eq_const %textw, dense<[1.0, 0x7FC00000, 0.5, -57344.0]> : tensor<4xf32>
  %one = stablehlo.constant dense<[16.0, 1.0]> : tensor<2xf8E4M3B11FNUZ>
  %tiny = stablehlo.constant dense<[0.5, 0.0625]> : tensor<2xf8E4M3B11FNUZ>
  %total = stablehlo.add %one, %tiny : tensor<2xf8E4M3B11FNUZ>
  %totalw = stablehlo.convert %total : (tensor<2xf8E4M3B11FNUZ>) -> tensor<2xf32>
  check.expect_eq_const %totalw, dense<[16.0, 1.0]> : tensor<2xf32>
  // Powers of two: the greater one of two, no zero, no sign.
  %p = stablehlo.constant dense<[1.5, 2.99, 0.0, -1.0, 1.0e-45, 0x00600000, 2.5e38, 2.6e38, 0x7F800000]> : tensor<9xf32>
  %powers = stablehlo.convert %p : (tensor<9xf32>) -> tensor<9xf8E8M0FNU>
  %powersw = stablehlo.convert %powers : (tensor<9xf8E8M0FNU>) -> tensor<9xf32>
  check.expect_eq_const %powersw, dense<[2.0, 2.0, 0x7FC00000, 0x7FC00000, 0x00400000, 0x00800000, 0x7F000000, 0x7FC00000, 0x7FC00000]> : tensor<9xf32>
  // A product of complex numbers is scattered one after the other.
  %c = stablehlo.constant dense<[(1.0, 1.0), (2.0, 0.0)]> : tensor<2xcomplex<f32>>
  %at = stablehlo.constant dense<[[0], [0], [5]]> : tensor<3x1xi32>
  %by = stablehlo.constant dense<(0.0, 2.0)> : tensor<3xcomplex<f32>>
  %scattered = "stablehlo.scatter"(%c, %at, %by) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%e: tensor<complex<f32>>, %f: tensor<complex<f32>>):
      %g = stablehlo.multiply %e, %f : tensor<complex<f32>>
      stablehlo.return %g : tensor<complex<f32>>
    }) : (tensor<2xcomplex<f32>>, tensor<3x1xi32>, tensor<3xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  check.expect_eq_const %scattered, dense<[(-4.0, -4.0), (2.0, 0.0)]> : tensor<2xcomplex<f32>>
  return
}
