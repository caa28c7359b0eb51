// Factorizations, triangular solves, and LAPACK custom calls for them.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %a = stablehlo.constant dense<[[4.0, 9.0], [2.0, 10.0]]> : tensor<2x2xf32>
  %l = "stablehlo.cholesky"(%a) {lower = true} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %l, dense<[[2.0, 0.0], [1.0, 3.0]]> : tensor<2x2xf32>
  %f, %info = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
  check.expect_eq_const %f, dense<[[2.0, 9.0], [1.0, 3.0]]> : tensor<2x2xf32>
  check.expect_eq_const %info, dense<0> : tensor<i32>
  %n = stablehlo.negate %a : tensor<2x2xf32>
  %g, %failed = stablehlo.custom_call @lapack_spotrf_ffi(%n) {mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
  check.expect_eq_const %failed, dense<1> : tensor<i32>
  %b = stablehlo.constant dense<[[2.0], [7.0]]> : tensor<2x1xf32>
  %x = "stablehlo.triangular_solve"(%l, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  check.expect_eq_const %x, dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %y = stablehlo.custom_call @lapack_strsm_ffi(%l, %b) {mhlo.backend_config = {diag = 85 : ui8, side = 76 : ui8, trans_x = 84 : ui8, uplo = 76 : ui8}} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  check.expect_eq_const %y, dense<[[-5.0], [7.0]]> : tensor<2x1xf32>
  return
}
