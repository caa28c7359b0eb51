// Complex numbers: constants as pairs and bytes, parts, products, a reduction, the conjugate.
// RUN: %dtc import %s -o %t.dt
// RUN: %dtc run %t.dt --check | FileCheck %s
// CHECK: = [(-5, 10), (1, 1)]
// CHECK: = [ 5, 1.41421]
// CHECK: = (-4.0, 11.0)
func.func @main() -> (tensor<2xcomplex<f32>>, tensor<2xf32>, tensor<complex<f32>>) {
  %a = stablehlo.constant dense<[(1.0, 2.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
  %b = stablehlo.constant dense<"0x0000404000008040000080BF0000803F"> : tensor<2xcomplex<f32>>
  %p = stablehlo.multiply %a, %b : tensor<2xcomplex<f32>>
  %s = stablehlo.abs %b : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %re = stablehlo.real %p : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %im = stablehlo.imag %p : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %q = stablehlo.complex %re, %im : tensor<2xcomplex<f32>>
  %d = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<complex<f32>>
  %c = chlo.conj %d : tensor<complex<f32>> -> tensor<complex<f32>>
  %n = stablehlo.negate %c : tensor<complex<f32>>
  %z = chlo.conj %n : tensor<complex<f32>> -> tensor<complex<f32>>
  %m = stablehlo.negate %z : tensor<complex<f32>>
  return %q, %s, %m : tensor<2xcomplex<f32>>, tensor<2xf32>, tensor<complex<f32>>
}
