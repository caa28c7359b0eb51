// Ops that StableHLO inherited from MHLO, and ops of its newest versions.
// RUN: %dtc run %s --check
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %at = stablehlo.constant dense<[[2, 0], [1, 1]]> : tensor<2x2xi32>
  // Row by row; and the same indices for each row.
  %a = "stablehlo.torch_index_select"(%x, %at) <{dim = 1 : i64, batch_dims = 1 : i64}> : (tensor<2x3xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %a, dense<[[3, 1], [5, 5]]> : tensor<2x2xi32>
  %b = "stablehlo.torch_index_select"(%x, %at) <{dim = 1 : i64, batch_dims = 0 : i64}> : (tensor<2x3xi32>, tensor<2x2xi32>) -> tensor<2x2x2xi32>
  check.expect_eq_const %b, dense<[[[3, 1], [2, 2]], [[6, 4], [5, 5]]]> : tensor<2x2x2xi32>
  %c = "stablehlo.einsum"(%x, %x) <{einsum_config = "ab,cb->ac"}> : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %c, dense<[[14, 32], [32, 77]]> : tensor<2x2xi32>

  %s8 = stablehlo.constant dense<[100, -128, -128, -1]> : tensor<4xi8>
  %t8 = stablehlo.constant dense<[3, 127, -128, 1]> : tensor<4xi8>
  %h8 = "chlo.mulhi"(%s8, %t8) : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
  check.expect_eq_const %h8, dense<[1, -64, 64, -1]> : tensor<4xi8>
  %s64 = stablehlo.constant dense<[-9223372036854775808, -9223372036854775808, -1, 9223372036854775807, 4294967296]> : tensor<5xi64>
  %t64 = stablehlo.constant dense<[-9223372036854775808, 3, -1, 9223372036854775807, -4294967297]> : tensor<5xi64>
  %h64 = "chlo.mulhi"(%s64, %t64) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
  check.expect_eq_const %h64, dense<[4611686018427387904, -2, 0, 4611686018427387903, -2]> : tensor<5xi64>
  %u64 = stablehlo.constant dense<[18446744073709551615, 4294967296]> : tensor<2xui64>
  %g64 = "chlo.mulhi"(%u64, %u64) : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xui64>
  check.expect_eq_const %g64, dense<[18446744073709551614, 1]> : tensor<2xui64>

  // In the weak order NaN is one and the greatest, and 0 is one.
  %p = stablehlo.constant dense<[0xFFC00000, 0x7F800000, -0.0, 1.0]> : tensor<4xf32>
  %q = stablehlo.constant dense<[0x7FC00000, 0xFFC00000, 0.0, 2.0]> : tensor<4xf32>
  %eq = stablehlo.compare EQ, %p, %q, WEAKORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  check.expect_eq_const %eq, dense<[true, false, true, false]> : tensor<4xi1>
  %lt = stablehlo.compare LT, %p, %q, WEAKORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  check.expect_eq_const %lt, dense<[false, true, false, true]> : tensor<4xi1>
  check.expect_almost_eq_const %q, dense<[0x7FC00000, 0x7FC00000, 0.0, 2.05]> : tensor<4xf32>, tolerance = 0.1

  // top_k orders totally: -NaN is the least.
  %v, %i = chlo.top_k(%p, k = 4) : tensor<4xf32> -> (tensor<4xf32>, tensor<4xi32>)
  check.expect_eq_const %i, dense<[1, 3, 2, 0]> : tensor<4xi32>
  %w, %j = chlo.top_k(%q, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
  check.expect_eq_const %j, dense<[0, 3]> : tensor<2xi32>
  %bits = stablehlo.constant dense<[[false, true, true], [false, false, true]]> : tensor<2x3xi1>
  %t, %k = chlo.top_k(%bits, k = 2) : tensor<2x3xi1> -> (tensor<2x2xi1>, tensor<2x2xi32>)
  check.expect_eq_const %t, dense<[[true, true], [true, false]]> : tensor<2x2xi1>
  check.expect_eq_const %k, dense<[[1, 2], [2, 0]]> : tensor<2x2xi32>
  return
}
