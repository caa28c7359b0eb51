// cuSOLVER's calls, as JAX prints them for GPUs.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %a = stablehlo.constant dense<[[0.0, 2.0], [4.0, 0.0]]> : tensor<2x2xf64>
  %lu, %pivots, %info = stablehlo.custom_call @cusolver_getrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xi32>, tensor<i32>)
  check.expect_eq_const %lu, dense<[[4.0, 0.0], [0.0, 2.0]]> : tensor<2x2xf64>
  check.expect_eq_const %pivots, dense<[2, 2]> : tensor<2xi32>
  %r, %tau = stablehlo.custom_call @cusolver_geqrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>)
  %q = stablehlo.custom_call @cusolver_orgqr_ffi(%r, %tau) {mhlo.backend_config = {}} : (tensor<2x2xf64>, tensor<2xf64>) -> tensor<2x2xf64>
  check.expect_almost_eq_const %q, dense<[[0.0, -1.0], [-1.0, 0.0]]> : tensor<2x2xf64>, tolerance = 1.0e-14
  %h = stablehlo.constant dense<[[1.0, 9.0], [2.0, 1.0]]> : tensor<2x2xf64>
  %v, %w, %i = stablehlo.custom_call @cusolver_syevd_ffi(%h) {mhlo.backend_config = {algorithm = 0 : ui8, lower = true}} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>, tensor<i32>)
  check.expect_almost_eq_const %w, dense<[-1.0, 3.0]> : tensor<2xf64>, tolerance = 1.0e-13
  // Wide matrices are passed transposed, and the vectors returned exchanged; Jacobi's variant returns V.
  %wide = stablehlo.constant dense<[[0.0, 3.0, 0.0], [0.0, 0.0, -2.0]]> : tensor<2x3xf64>
  %x, %s, %vt, %u, %j = stablehlo.custom_call @cusolver_gesvd_ffi(%wide) {mhlo.backend_config = {compute_uv = true, full_matrices = false, transposed = true}} : (tensor<2x3xf64>) -> (tensor<2x3xf64>, tensor<2xf64>, tensor<2x3xf64>, tensor<2x2xf64>, tensor<i32>)
  check.expect_almost_eq_const %s, dense<[3.0, 2.0]> : tensor<2xf64>, tolerance = 1.0e-13
  check.expect_almost_eq_const %u, dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf64>, tolerance = 1.0e-13
  check.expect_almost_eq_const %vt, dense<[[0.0, 1.0, 0.0], [0.0, 0.0, -1.0]]> : tensor<2x3xf64>, tolerance = 1.0e-13
  %y, %t, %l, %vv, %k = stablehlo.custom_call @cusolver_gesvdj_ffi(%a) {mhlo.backend_config = {compute_uv = true, full_matrices = true}} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<i32>)
  check.expect_almost_eq_const %vv, dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf64>, tolerance = 1.0e-13
  return
}
