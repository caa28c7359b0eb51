// Reductions with a known op, with any region, with several operands, and with an initial value.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
func.func @main() {
  %c1 = stablehlo.constant dense<[[5.0, 3.0, 4.0, -2.0, 3.0, 3.0], [-5.0, 0.0, -2.0, 5.0, 4.0, 4.0], [5.0, 0.0, 2.0, 1.0, -5.0, -1.0], [2.0, 3.0, 5.0, -4.0, 5.0, 1.0], [-3.0, -3.0, -4.0, -2.0, 5.0, 0.0]]> : tensor<5x6xf32>
  %c2 = stablehlo.constant dense<[[13, 9, 4, -13, 13, -5], [17, 0, 10, 1, -6, 8], [-20, -20, -2, 17, -13, 17], [13, -19, 1, -10, 16, 15], [7, -4, -4, 12, -4, -2]]> : tensor<5x6xi32>
  %c3 = stablehlo.constant dense<0.0> : tensor<f32>
  %c4 = stablehlo.constant dense<2.0> : tensor<f32>
  %c5 = stablehlo.constant dense<0> : tensor<i32>
  %c6 = stablehlo.constant dense<-1> : tensor<i32>
  %r1 = stablehlo.reduce(%c1 init: %c4) applies stablehlo.add across dimensions = [1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<5xf32>
  %c7 = stablehlo.constant dense<[18.0, 8.0, 4.0, 14.0, -5.0]> : tensor<5xf32>
  check.expect_eq %r1, %c7 : tensor<5xf32>
  %r2 = stablehlo.reduce(%c2 init: %c6) applies stablehlo.and across dimensions = [0, 1] : (tensor<5x6xi32>, tensor<i32>) -> tensor<i32>
  %c8 = stablehlo.constant dense<0> : tensor<i32>
  check.expect_eq %r2, %c8 : tensor<i32>
  %r3 = stablehlo.reduce(%c2 init: %c5) applies stablehlo.xor across dimensions = [0] : (tensor<5x6xi32>, tensor<i32>) -> tensor<6xi32>
  %c9 = stablehlo.constant dense<[-6, -12, 13, 25, -24, 19]> : tensor<6xi32>
  check.expect_eq %r3, %c9 : tensor<6xi32>
  %r4 = stablehlo.reduce(%c1 init: %c3) across dimensions = [1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<5xf32>
   reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %s = stablehlo.abs %b : tensor<f32>
    %m = stablehlo.abs %a : tensor<f32>
    %o = stablehlo.maximum %m, %s : tensor<f32>
    stablehlo.return %o : tensor<f32>
  }
  %c10 = stablehlo.constant dense<[5.0, 5.0, 5.0, 5.0, 5.0]> : tensor<5xf32>
  check.expect_eq %r4, %c10 : tensor<5xf32>
  %it = stablehlo.iota dim = 1 : tensor<5x6xi32>
  %c11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r5:2 = stablehlo.reduce(%c1 init: %c11), (%it init: %c5) across dimensions = [1] : (tensor<5x6xf32>, tensor<5x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<5xf32>, tensor<5xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %g = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %g, %a, %b : tensor<i1>, tensor<f32>
    %k = stablehlo.select %g, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %v, %k : tensor<f32>, tensor<i32>
  }
  %c12 = stablehlo.constant dense<[5.0, 5.0, 5.0, 5.0, 5.0]> : tensor<5xf32>
  check.expect_eq %r5#0, %c12 : tensor<5xf32>
  %c13 = stablehlo.constant dense<[0, 3, 0, 4, 4]> : tensor<5xi32>
  check.expect_eq %r5#1, %c13 : tensor<5xi32>
  %r6:2 = stablehlo.reduce(%c1 init: %c11), (%it init: %c5) across dimensions = [1] : (tensor<5x6xf32>, tensor<5x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<5xf32>, tensor<5xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %g = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %ne = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %o = stablehlo.or %g, %ne : tensor<i1>
    %e = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %l = stablehlo.compare LT, %i, %j, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %t = stablehlo.and %e, %l : tensor<i1>
    %p = stablehlo.or %o, %t : tensor<i1>
    %v = stablehlo.select %o, %a, %b : tensor<i1>, tensor<f32>
    %k = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %v, %k : tensor<f32>, tensor<i32>
  }
  %c14 = stablehlo.constant dense<[5.0, 5.0, 5.0, 5.0, 5.0]> : tensor<5xf32>
  check.expect_eq %r6#0, %c14 : tensor<5xf32>
  %c15 = stablehlo.constant dense<[0, 3, 0, 2, 4]> : tensor<5xi32>
  check.expect_eq %r6#1, %c15 : tensor<5xi32>
  return
}
