// Checks of older test data return i1[]; a failing one fails the run.
// RUN: not %dtc run %s 2>&1 | FileCheck %s
// (CHECK lines written by scripts/dtc-update-tests)
module @jit_testcase {
  func.func public @main() -> tensor<i1> {
    %0 = call @inputs() : () -> tensor<2xf32>
    %1 = call @expected() : () -> tensor<2xf32>
    %2 = stablehlo.custom_call @check.eq(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<i1>
    return %2 : tensor<i1>
  }
  func.func private @inputs() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @expected() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[1.0, 3.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}

// CHECK:      {{.*}}old-check.mlir:8:10: error: 'expect_close': element [1] is 2 where 3 is expected
