// Contents of dense<…>: lists, splats, bits, bytes, words.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s
// (CHECK lines written by scripts/dtc-update-tests)
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

// CHECK:      func @main() -> () {
// CHECK-NEXT:   %list = constant {value = {{\[\[}}1.0, -2.5], [inf, 4.0]]} : f32[2, 2]
// CHECK-NEXT:   %splat = constant {value = 7} : i32[3]
// CHECK-NEXT:   %bytes = constant {value = [1.0, 2.0]} : f32[2]
// CHECK-NEXT:   %nan = constant {value = "0x0000c07f"} : f32[2]
// CHECK-NEXT:   %bools = constant {value = [true, false]} : bool[2]
// CHECK-NEXT:   %bits = constant {value = [true, false, true]} : bool[3]
// CHECK-NEXT:   %half = constant {value = -inf} : bf16[]
// CHECK-NEXT:   %big = constant {value = 18446744073709551615} : u64[]
// CHECK-NEXT:   %none = constant {value = 0.0} : f32[0, 2]
// CHECK-NEXT:   %file = constant {value = [1.0, 2.0]} : f32[2]
// CHECK-NEXT:   expect_eq %bytes, %file
// CHECK-NEXT:   %0 = constant {value = [1.0, 2.0]} : f32[2]
// CHECK-NEXT:   expect_eq %bytes, %0
// CHECK-NEXT:   %1 = constant {value = [1.0, 2.0001]} : f32[2]
// CHECK-NEXT:   expect_close %bytes, %1 {rtol = 0.001, atol = 0.001}
// CHECK-NEXT:   expect_close %bytes, %file {rtol = 2.384185791015625e-07, atol = 2.802596928649634e-45}
// CHECK-NEXT:   return
// CHECK-NEXT: }
