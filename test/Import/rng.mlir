// Random bits equal XLA's: the values were drawn by JAX 0.10 on a CPU.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %s0 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n0, %b0 = stablehlo.rng_bit_generator %s0, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5xui32>)
  check.expect_eq_const %n0, dense<"0xEFCDAB89674523010700000000000000"> : tensor<2xui64>
  check.expect_eq_const %b0, dense<"0x5B21F4B0B4609AE194743D0BDCC4F8AC89D8A4AA0729A5751386DDD3F1E5D035E47FD18ED8192F7CBDBB79DE18FD13179E029DB041F4847D32E7A36C"> : tensor<3x5xui32>
  %s1 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n1, %b1 = stablehlo.rng_bit_generator %s1, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x3xui32>)
  check.expect_eq_const %n1, dense<"0xEFCDAB89674523010400000000000000"> : tensor<2xui64>
  check.expect_eq_const %b1, dense<"0x5B21F4B094743D0B89D8A4AAB4609AE1DCC4F8ACF4C4356B0729A575F1E5D035D8192F7C1386DDD3E47FD18EE3DB8402"> : tensor<4x3xui32>
  %s2 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n2, %b2 = stablehlo.rng_bit_generator %s2, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3x3xui32>)
  check.expect_eq_const %n2, dense<"0xEFCDAB89674523010700000000000000"> : tensor<2xui64>
  check.expect_eq_const %b2, dense<"0x5B21F4B094743D0B89D8A4AA0729A575F1E5D035D8192F7CBDBB79DE9E029DB032E7A36CB4609AE1DCC4F8ACF4C4356B1386DDD3E47FD18EE3DB840218FD131741F4847D396B3BA4"> : tensor<2x3x3xui32>
  %s3 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n3, %b3 = stablehlo.rng_bit_generator %s3, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<ui32>)
  check.expect_eq_const %n3, dense<"0xEFCDAB8967452301FFFFFFFFFFFFFFFF"> : tensor<2xui64>
  check.expect_eq_const %b3, dense<"0x5B21F4B0"> : tensor<ui32>
  %s4 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n4, %b4 = stablehlo.rng_bit_generator %s4, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui64>)
  check.expect_eq_const %n4, dense<"0xEFCDAB89674523010300000000000000"> : tensor<2xui64>
  check.expect_eq_const %b4, dense<"0x5B21F4B0B4609AE194743D0BDCC4F8AC89D8A4AAF4C4356B0729A5751386DDD3F1E5D035E47FD18E"> : tensor<5xui64>
  %s5 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n5, %b5 = stablehlo.rng_bit_generator %s5, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui16>)
  check.expect_eq_const %n5, dense<"0xEFCDAB89674523010000000000000000"> : tensor<2xui64>
  check.expect_eq_const %b5, dense<"0x5B21B4609474"> : tensor<3xui16>
  %s6 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n6, %b6 = stablehlo.rng_bit_generator %s6, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3xui8>)
  check.expect_eq_const %n6, dense<"0xEFCDAB89674523010100000000000000"> : tensor<2xui64>
  check.expect_eq_const %b6, dense<"0x5B9489B4DCF4"> : tensor<2x3xui8>
  %s7 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n7, %b7 = stablehlo.rng_bit_generator %s7, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5xui32>)
  check.expect_eq_const %n7, dense<"0xEFCDAB89674523010200000000000000"> : tensor<2xui64>
  check.expect_eq_const %b7, dense<"0x9451480A06F8C541EE2F82D6D4A38538F359EB41E085733089338B5B7CF662A264D20670DED41FD78E46FF3A68F7B540115DDA3457E8A4A2F9D581FC"> : tensor<3x5xui32>
  %s8 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n8, %b8 = stablehlo.rng_bit_generator %s8, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x3xui32>)
  check.expect_eq_const %n8, dense<"0xEFCDAB89674523010100000000000000"> : tensor<2xui64>
  check.expect_eq_const %b8, dense<"0x9451480A06F8C541EE2F82D6D4A38538F359EB41E085733089338B5B7CF662A264D20670DED41FD78E46FF3A68F7B540"> : tensor<4x3xui32>
  %s9 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n9, %b9 = stablehlo.rng_bit_generator %s9, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3x3xui32>)
  check.expect_eq_const %n9, dense<"0xEFCDAB89674523010300000000000000"> : tensor<2xui64>
  check.expect_eq_const %b9, dense<"0x9451480A06F8C541EE2F82D6D4A38538F359EB41E085733089338B5B7CF662A264D20670DED41FD78E46FF3A68F7B540115DDA3457E8A4A2F9D581FC87CD8578260A0BDF331FA954"> : tensor<2x3x3xui32>
  %s10 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n10, %b10 = stablehlo.rng_bit_generator %s10, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<ui32>)
  check.expect_eq_const %n10, dense<"0xEFCDAB8967452301FFFFFFFFFFFFFFFF"> : tensor<2xui64>
  check.expect_eq_const %b10, dense<"0x9451480A"> : tensor<ui32>
  %s11 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n11, %b11 = stablehlo.rng_bit_generator %s11, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui64>)
  check.expect_eq_const %n11, dense<"0xEFCDAB89674523010100000000000000"> : tensor<2xui64>
  check.expect_eq_const %b11, dense<"0x9451480A06F8C541EE2F82D6D4A38538F359EB41E085733089338B5B7CF662A264D20670DED41FD7"> : tensor<5xui64>
  %s12 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n12, %b12 = stablehlo.rng_bit_generator %s12, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui16>)
  check.expect_eq_const %n12, dense<"0xEFCDAB8967452301FFFFFFFFFFFFFFFF"> : tensor<2xui64>
  check.expect_eq_const %b12, dense<"0x945106F8EE2F"> : tensor<3xui16>
  %s13 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n13, %b13 = stablehlo.rng_bit_generator %s13, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3xui8>)
  check.expect_eq_const %n13, dense<"0xEFCDAB89674523010000000000000000"> : tensor<2xui64>
  check.expect_eq_const %b13, dense<"0x9406EED4F3E0"> : tensor<2x3xui8>
  %s14 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n14, %b14 = stablehlo.rng_bit_generator %s14, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5xui32>)
  check.expect_eq_const %n14, dense<"0xEFCDAB89674523010200000000000000"> : tensor<2xui64>
  check.expect_eq_const %b14, dense<"0x9451480A06F8C541EE2F82D6D4A38538F359EB41E085733089338B5B7CF662A264D20670DED41FD78E46FF3A68F7B540115DDA3457E8A4A2F9D581FC"> : tensor<3x5xui32>
  %s15 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n15, %b15 = stablehlo.rng_bit_generator %s15, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x3xui32>)
  check.expect_eq_const %n15, dense<"0xEFCDAB89674523010100000000000000"> : tensor<2xui64>
  check.expect_eq_const %b15, dense<"0x9451480A06F8C541EE2F82D6D4A38538F359EB41E085733089338B5B7CF662A264D20670DED41FD78E46FF3A68F7B540"> : tensor<4x3xui32>
  %s16 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n16, %b16 = stablehlo.rng_bit_generator %s16, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3x3xui32>)
  check.expect_eq_const %n16, dense<"0xEFCDAB89674523010300000000000000"> : tensor<2xui64>
  check.expect_eq_const %b16, dense<"0x9451480A06F8C541EE2F82D6D4A38538F359EB41E085733089338B5B7CF662A264D20670DED41FD78E46FF3A68F7B540115DDA3457E8A4A2F9D581FC87CD8578260A0BDF331FA954"> : tensor<2x3x3xui32>
  %s17 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n17, %b17 = stablehlo.rng_bit_generator %s17, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<ui32>)
  check.expect_eq_const %n17, dense<"0xEFCDAB8967452301FFFFFFFFFFFFFFFF"> : tensor<2xui64>
  check.expect_eq_const %b17, dense<"0x9451480A"> : tensor<ui32>
  %s18 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n18, %b18 = stablehlo.rng_bit_generator %s18, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui64>)
  check.expect_eq_const %n18, dense<"0xEFCDAB89674523010100000000000000"> : tensor<2xui64>
  check.expect_eq_const %b18, dense<"0x9451480A06F8C541EE2F82D6D4A38538F359EB41E085733089338B5B7CF662A264D20670DED41FD7"> : tensor<5xui64>
  %s19 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n19, %b19 = stablehlo.rng_bit_generator %s19, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui16>)
  check.expect_eq_const %n19, dense<"0xEFCDAB8967452301FFFFFFFFFFFFFFFF"> : tensor<2xui64>
  check.expect_eq_const %b19, dense<"0x945106F8EE2F"> : tensor<3xui16>
  %s20 = stablehlo.constant dense<"0xEFCDAB8967452301FEFFFFFFFFFFFFFF"> : tensor<2xui64>
  %n20, %b20 = stablehlo.rng_bit_generator %s20, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3xui8>)
  check.expect_eq_const %n20, dense<"0xEFCDAB89674523010000000000000000"> : tensor<2xui64>
  check.expect_eq_const %b20, dense<"0x9406EED4F3E0"> : tensor<2x3xui8>
  return
}
