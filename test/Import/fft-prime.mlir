// A transform of a prime length is a circular convolution of a length that is a power of 2.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s
// (hand-written CHECK lines)
// CHECK-NOT: [1031, 1031]
// CHECK:     pad {{.*}} : f64[3, 2, 4096]
func.func @main() {
  // Row r is 1 at element r and 0 elsewhere, so that element k of its transform is exp(-2πi r k / 2062).
  %n = stablehlo.iota dim = 1 : tensor<3x2062xi32>
  %r = stablehlo.iota dim = 0 : tensor<3x2062xi32>
  %hit = stablehlo.compare EQ, %n, %r : (tensor<3x2062xi32>, tensor<3x2062xi32>) -> tensor<3x2062xi1>
  %x = stablehlo.convert %hit : (tensor<3x2062xi1>) -> tensor<3x2062xf64>
  %z = stablehlo.complex %x, %x : tensor<3x2062xcomplex<f64>>
  %y = stablehlo.fft %z, type = FFT, length = [2062] : (tensor<3x2062xcomplex<f64>>) -> tensor<3x2062xcomplex<f64>>
  %k = stablehlo.multiply %n, %r : tensor<3x2062xi32>
  %kf = stablehlo.convert %k : (tensor<3x2062xi32>) -> tensor<3x2062xf64>
  %unit = stablehlo.constant dense<-0.0030471315747718653> : tensor<3x2062xf64>
  %angle = stablehlo.multiply %kf, %unit : tensor<3x2062xf64>
  %c = stablehlo.cosine %angle : tensor<3x2062xf64>
  %s = stablehlo.sine %angle : tensor<3x2062xf64>
  %re = stablehlo.subtract %c, %s : tensor<3x2062xf64>
  %im = stablehlo.add %c, %s : tensor<3x2062xf64>
  %e = stablehlo.complex %re, %im : tensor<3x2062xcomplex<f64>>
  check.expect_almost_eq %y, %e : tensor<3x2062xcomplex<f64>>
  %back = stablehlo.fft %y, type = IFFT, length = [2062] : (tensor<3x2062xcomplex<f64>>) -> tensor<3x2062xcomplex<f64>>
  check.expect_almost_eq %back, %z : tensor<3x2062xcomplex<f64>>
  %half = stablehlo.fft %x, type = RFFT, length = [2062] : (tensor<3x2062xf64>) -> tensor<3x1032xcomplex<f64>>
  %real = stablehlo.fft %half, type = IRFFT, length = [2062] : (tensor<3x1032xcomplex<f64>>) -> tensor<3x2062xf64>
  check.expect_almost_eq %real, %x : tensor<3x2062xf64>
  return
}
