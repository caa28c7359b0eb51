// LU and QR by LAPACK custom calls, as JAX prints them, with LAPACK's signs.
// RUN: %dtc run %s
// RUN: %dtc run %s --check
// RUN: %dtc run %s --backend cuda-emu

// Rows are swapped for the greatest element, the first of equals; a column without a pivot is counted from 1.
func.func private @lu() {
  %a = stablehlo.constant dense<[[[1.0, 2.0, 4.0], [2.0, -2.0, 0.0]], [[0.0, 0.0, 1.0], [0.0, 3.0, 5.0]]]> : tensor<2x2x3xf32>
  %lu, %pivots, %info = stablehlo.custom_call @lapack_sgetrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<2x2x3xf32>) -> (tensor<2x2x3xf32>, tensor<2x2xi32>, tensor<2xi32>)
  check.expect_eq_const %lu, dense<[[[2.0, -2.0, 0.0], [0.5, 3.0, 4.0]], [[0.0, 0.0, 1.0], [0.0, 3.0, 5.0]]]> : tensor<2x2x3xf32>
  check.expect_eq_const %pivots, dense<[[2, 2], [1, 2]]> : tensor<2x2xi32>
  check.expect_eq_const %info, dense<[0, 1]> : tensor<2xi32>
  // Older calls name sizes first. |re| + |im| is the size of a complex number here.
  %n = stablehlo.constant dense<2> : tensor<i32>
  %c = stablehlo.constant dense<[[(2.0, 2.0), (1.0, 0.0)], [(0.0, 3.0), (0.0, 6.0)]]> : tensor<2x2xcomplex<f64>>
  %d, %p, %i = stablehlo.custom_call @lapack_zgetrf(%n, %n, %n, %c) : (tensor<i32>, tensor<i32>, tensor<i32>, tensor<2x2xcomplex<f64>>) -> (tensor<2x2xcomplex<f64>>, tensor<2xi32>, tensor<i32>)
  check.expect_almost_eq_const %d, dense<[[(2.0, 2.0), (1.0, 0.0)], [(0.75, 0.75), (-0.75, 5.25)]]> : tensor<2x2xcomplex<f64>>
  check.expect_eq_const %p, dense<[1, 2]> : tensor<2xi32>
  return
}

// The first element of a column becomes minus its sign times the column's length; a last row is left as it is.
func.func private @qr() {
  %a = stablehlo.constant dense<[[3.0, 5.0], [0.0, 2.0], [4.0, 0.0]]> : tensor<3x2xf64>
  %r, %tau = stablehlo.custom_call @lapack_dgeqrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<3x2xf64>) -> (tensor<3x2xf64>, tensor<2xf64>)
  check.expect_almost_eq_const %r, dense<[[-5.0, -3.0], [0.0, -4.472135955], [0.5, -0.6180339887]]> : tensor<3x2xf64>, tolerance = 1.0e-9
  check.expect_almost_eq_const %tau, dense<[1.6, 1.4472135955]> : tensor<2xf64>, tolerance = 1.0e-9
  %q = stablehlo.custom_call @lapack_dorgqr_ffi(%r, %tau) {mhlo.backend_config = {}} : (tensor<3x2xf64>, tensor<2xf64>) -> tensor<3x2xf64>
  %qq = stablehlo.dot_general %q, %q, contracting_dims = [0] x [0] : (tensor<3x2xf64>, tensor<3x2xf64>) -> tensor<2x2xf64>
  check.expect_almost_eq_const %qq, dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf64>, tolerance = 1.0e-14
  check.expect_almost_eq_const %q, dense<[[-0.6, -0.7155417528], [0.0, -0.4472135955], [-0.8, 0.5366563146]]> : tensor<3x2xf64>, tolerance = 1.0e-9
  // Of complex numbers the diagonal becomes real, and one element is a reflection of its own.
  %c = stablehlo.constant dense<(3.0, 4.0)> : tensor<2x1x1xcomplex<f32>>
  %s, %sigma = stablehlo.custom_call @lapack_cgeqrf_ffi(%c) {mhlo.backend_config = {}} : (tensor<2x1x1xcomplex<f32>>) -> (tensor<2x1x1xcomplex<f32>>, tensor<2x1xcomplex<f32>>)
  check.expect_almost_eq_const %s, dense<(-5.0, 0.0)> : tensor<2x1x1xcomplex<f32>>, tolerance = 1.0e-6
  %u = stablehlo.custom_call @lapack_cungqr_ffi(%s, %sigma) {mhlo.backend_config = {}} : (tensor<2x1x1xcomplex<f32>>, tensor<2x1xcomplex<f32>>) -> tensor<2x1x1xcomplex<f32>>
  check.expect_almost_eq_const %u, dense<(-0.6, -0.8)> : tensor<2x1x1xcomplex<f32>>, tolerance = 1.0e-6
  return
}

func.func @main() {
  call @lu() : () -> ()
  call @qr() : () -> ()
  return
}
