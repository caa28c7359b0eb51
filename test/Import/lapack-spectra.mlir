// Eigenvalues and singular values by LAPACK custom calls; vectors, whose signs are arbitrary, by reconstruction.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
// Only the lower triangle is read; A V = V diag(w), the least first.
func.func private @eigh() {
  %a = stablehlo.constant dense<[[(2.0, 5.0), (9.0, 9.0), (9.0, 9.0)], [(0.0, 1.0), (2.0, 0.0), (9.0, 9.0)], [(0.0, 0.0), (0.0, 0.0), (-7.0, 0.0)]]> : tensor<3x3xcomplex<f64>>
  %v, %w, %info = stablehlo.custom_call @lapack_zheevd_ffi(%a) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3xf64>, tensor<i32>)
  check.expect_almost_eq_const %w, dense<[-7.0, 1.0, 3.0]> : tensor<3xf64>, tolerance = 1.0e-13
  %h = stablehlo.constant dense<[[(2.0, 0.0), (0.0, -1.0), (0.0, 0.0)], [(0.0, 1.0), (2.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0), (-7.0, 0.0)]]> : tensor<3x3xcomplex<f64>>
  %av = stablehlo.dot_general %h, %v, contracting_dims = [1] x [0] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
  %wc = stablehlo.convert %w : (tensor<3xf64>) -> tensor<3xcomplex<f64>>
  %ww = stablehlo.broadcast_in_dim %wc, dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
  %vw = stablehlo.multiply %v, %ww : tensor<3x3xcomplex<f64>>
  check.expect_almost_eq %av, %vw, tolerance = 1.0e-13 : tensor<3x3xcomplex<f64>>
  return
}

// Wide, of rank 1: U and Vᴴ are whole all the same, and A = U diag(s) Vᴴ.
func.func private @svd() {
  %a = stablehlo.constant dense<[[[1.0, 2.0, 2.0], [2.0, 4.0, 4.0]]]> : tensor<1x2x3xf32>
  %x, %s, %u, %v, %info = stablehlo.custom_call @lapack_sgesdd_ffi(%a) {mhlo.backend_config = {mode = 65 : ui8}} : (tensor<1x2x3xf32>) -> (tensor<1x2x3xf32>, tensor<1x2xf32>, tensor<1x2x2xf32>, tensor<1x3x3xf32>, tensor<1xi32>)
  check.expect_almost_eq_const %s, dense<[[6.70820393, 0.0]]> : tensor<1x2xf32>, tolerance = 1.0e-6
  %uu = stablehlo.dot_general %u, %u, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  check.expect_almost_eq_const %uu, dense<[[[1.0, 0.0], [0.0, 1.0]]]> : tensor<1x2x2xf32>, tolerance = 1.0e-6
  %vv = stablehlo.dot_general %v, %v, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  check.expect_almost_eq_const %vv, dense<[[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]> : tensor<1x3x3xf32>, tolerance = 1.0e-6
  %ss = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<1x2xf32>) -> tensor<1x2x2xf32>
  %us = stablehlo.multiply %u, %ss : tensor<1x2x2xf32>
  %v2 = stablehlo.slice %v [0:1, 0:2, 0:3] : (tensor<1x3x3xf32>) -> tensor<1x2x3xf32>
  %usv = stablehlo.dot_general %us, %v2, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<1x2x2xf32>, tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  check.expect_almost_eq %usv, %a, tolerance = 1.0e-5 : tensor<1x2x3xf32>
  %c = stablehlo.constant dense<[[(0.0, 3.0), (0.0, 0.0)], [(0.0, 0.0), (-1.0, 0.0)], [(4.0, 0.0), (0.0, 0.0)]]> : tensor<3x2xcomplex<f32>>
  %y, %t, %l, %r, %i = stablehlo.custom_call @lapack_cgesdd_ffi(%c) {mhlo.backend_config = {mode = 83 : ui8}} : (tensor<3x2xcomplex<f32>>) -> (tensor<3x2xcomplex<f32>>, tensor<2xf32>, tensor<3x2xcomplex<f32>>, tensor<2x2xcomplex<f32>>, tensor<i32>)
  check.expect_almost_eq_const %t, dense<[5.0, 1.0]> : tensor<2xf32>, tolerance = 1.0e-6
  %tc = stablehlo.convert %t : (tensor<2xf32>) -> tensor<2xcomplex<f32>>
  %tt = stablehlo.broadcast_in_dim %tc, dims = [1] : (tensor<2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
  %lt = stablehlo.multiply %l, %tt : tensor<3x2xcomplex<f32>>
  %ltr = stablehlo.dot_general %lt, %r, contracting_dims = [1] x [0] : (tensor<3x2xcomplex<f32>>, tensor<2x2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
  check.expect_almost_eq %ltr, %c, tolerance = 1.0e-5 : tensor<3x2xcomplex<f32>>
  // By QR iteration, values only.
  %z, %only, %o, %p, %j = stablehlo.custom_call @lapack_sgesvd_ffi(%a) {mhlo.backend_config = {mode = 78 : ui8}} : (tensor<1x2x3xf32>) -> (tensor<1x2x3xf32>, tensor<1x2xf32>, tensor<1x2x2xf32>, tensor<1x2x3xf32>, tensor<1xi32>)
  check.expect_almost_eq %only, %s, tolerance = 1.0e-6 : tensor<1x2xf32>
  return
}

func.func @main() {
  call @eigh() : () -> ()
  call @svd() : () -> ()
  return
}
