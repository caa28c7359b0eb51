// CHLO functions, their broadcasting forms and equivalent custom calls; values by SciPy.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %x = stablehlo.constant dense<[0.25, 1.5, 2.5]> : tensor<3xf64>
  %q = stablehlo.constant dense<[1.0, 0.25, 20.0]> : tensor<3xf64>
  %s = stablehlo.constant dense<[1.5, 2.0, 3.0]> : tensor<3xf64>
  %small = stablehlo.constant dense<[0.25, 0.9990234375, 0.001]> : tensor<3xf64>
  %0 = chlo.erf_inv %small : tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %0, dense<[0.2253120550121781, 2.3314677736219473, 0.00088622715746655202]> : tensor<3xf64>
  %1 = chlo.zeta %s, %q : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %1, dense<[2.6123753486854882, 17.197329154507113, 0.0013140612011573272]> : tensor<3xf64>
  %2 = chlo.erf %x : tensor<3xf64> -> tensor<3xf64>
  %3 = stablehlo.custom_call @mhlo.erf(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<3xf64>) -> tensor<3xf64>
  check.expect_eq %2, %3 : tensor<3xf64>
  %4 = chlo.lgamma %x : tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %4, dense<[1.2880225246980775, -0.12078223763524522, 0.28468287047291918]> : tensor<3xf64>
  %5 = chlo.asinh %x : tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %5, dense<[0.24746646154726346, 1.1947632172871094, 1.6472311463710958]> : tensor<3xf64>
  %row = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %rows = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>
  %6 = chlo.broadcast_add %rows, %row : (tensor<3x2xi32>, tensor<2xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %6, dense<[[2, 4], [4, 6], [6, 8]]> : tensor<3x2xi32>
  %7 = chlo.broadcast_compare %rows, %row {comparison_direction = #chlo<comparison_direction GT>} : (tensor<3x2xi32>, tensor<2xi32>) -> tensor<3x2xi1>
  check.expect_eq_const %7, dense<[[false, false], [true, true], [true, true]]> : tensor<3x2xi1>
  %8 = "chlo.constant_like"(%rows) {value = 7 : i32} : (tensor<3x2xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %8, dense<7> : tensor<3x2xi32>
  %inf = stablehlo.constant dense<[0x7F800000, 0xFF800000, 1.0]> : tensor<3xf32>
  %9 = chlo.is_neg_inf %inf : tensor<3xf32> -> tensor<3xi1>
  check.expect_eq_const %9, dense<[false, true, false]> : tensor<3xi1>
  %10 = chlo.next_after %inf, %inf : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  check.expect_eq %10, %inf : tensor<3xf32>
  // The forms of functions without rows of their own.
  %11 = "mhlo.asinh"(%x) : (tensor<3xf64>) -> tensor<3xf64>
  check.expect_eq %11, %5 : tensor<3xf64>
  %12 = stablehlo.custom_call @mhlo.lgamma(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<3xf64>) -> tensor<3xf64>
  check.expect_eq %12, %4 : tensor<3xf64>
  %13 = chlo.broadcast_zeta %s, %q : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  check.expect_eq %13, %1 : tensor<3xf64>
  %14 = chlo.tan %x : tensor<3xf64> -> tensor<3xf64>
  %15 = stablehlo.tan %x : tensor<3xf64>
  %16 = stablehlo.custom_call @mhlo.tan(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<3xf64>) -> tensor<3xf64>
  check.expect_eq %14, %15 : tensor<3xf64>
  check.expect_eq %14, %16 : tensor<3xf64>
  %17 = chlo.broadcast_divide %rows, %row : (tensor<3x2xi32>, tensor<2xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %17, dense<[[1, 1], [3, 2], [5, 3]]> : tensor<3x2xi32>
  return
}
