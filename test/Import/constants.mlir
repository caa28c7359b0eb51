// What stands in dense<…>: lists, splats, bits, bytes, words.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s
func.func @main() {
  %list = stablehlo.constant dense<[[1.0, -2.5], [0x7F800000, 4]]> : tensor<2x2xf32>
  %splat = stablehlo.constant dense<7> : tensor<3xi32>
  %bytes = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
  %nan = stablehlo.constant dense<0x7FC00000> : tensor<2xf32>
  %bools = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %bits = stablehlo.constant dense<"0x05"> : tensor<3xi1>
  %half = stablehlo.constant dense<0xFF80> : tensor<bf16>
  %big = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
  %none = stablehlo.constant dense<> : tensor<0x2xf32>
  %file = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  check.expect_eq %bytes, %file : tensor<2xf32>
  check.expect_eq_const %bytes, dense<[1.0, 2.0]> : tensor<2xf32>
  check.expect_almost_eq_const %bytes, dense<[1.0, 2.0001]> : tensor<2xf32>
  check.expect_close %bytes, %file, max_ulp_difference = 2 : tensor<2xf32>, tensor<2xf32>
  return
}
{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F00000040"
    }
  }
#-}
