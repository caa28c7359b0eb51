// Sorts: one key, several keys, JAX's canonicalized floats, and a comparator that does not compare keys.
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
// RUN: %dtc import %s | FileCheck %s
// The key of the last sort is the operand itself.
// CHECK: expect_eq %o9
// CHECK-NOT: bitcast
// CHECK: argsort %w {
// CHECK-NOT: argsort
func.func @main() {
  %c1 = stablehlo.constant dense<[[3.0, 1.0, 0x7FC00000, -1.0, 0.0, 2.0, 1.0], [5.0, -5.0, 5.0, 0.0, -0.0, 0x7F800000, 0xFF800000]]> : tensor<2x7xf32>
  %c2 = stablehlo.constant dense<[[0, 1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13]]> : tensor<2x7xi32>
  %c3 = stablehlo.constant dense<[[0, 2, 2, 0, 0, 2, 0], [0, 0, 2, 2, 0, 0, 1]]> : tensor<2x7xi32>
  %o1:2 = "stablehlo.sort"(%c1, %c2) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %q = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %e1 = stablehlo.compare EQ, %a, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s1 = stablehlo.select %e1, %z, %a : tensor<i1>, tensor<f32>
      %n1 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %k1 = stablehlo.select %n1, %q, %s1 : tensor<i1>, tensor<f32>
      %e2 = stablehlo.compare EQ, %b, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s2 = stablehlo.select %e2, %z, %b : tensor<i1>, tensor<f32>
      %n2 = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %k2 = stablehlo.select %n2, %q, %s2 : tensor<i1>, tensor<f32>
      %l = stablehlo.compare LT, %k1, %k2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    }) : (tensor<2x7xf32>, tensor<2x7xi32>) -> (tensor<2x7xf32>, tensor<2x7xi32>)
  %c4 = stablehlo.constant dense<[[3, 4, 1, 6, 5, 0, 2], [13, 8, 10, 11, 7, 9, 12]]> : tensor<2x7xi32>
  check.expect_eq %o1#1, %c4 : tensor<2x7xi32>
  %o2:2 = "stablehlo.sort"(%c3, %c2) <{dimension = 1 : i64}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
      %g = stablehlo.compare GT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %l = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %e = stablehlo.compare EQ, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %n = stablehlo.and %e, %g : tensor<i1>
      %o = stablehlo.or %l, %n : tensor<i1>
      stablehlo.return %o : tensor<i1>
    }) : (tensor<2x7xi32>, tensor<2x7xi32>) -> (tensor<2x7xi32>, tensor<2x7xi32>)
  %c5 = stablehlo.constant dense<[[0, 0, 0, 0, 2, 2, 2], [0, 0, 0, 0, 1, 2, 2]]> : tensor<2x7xi32>
  check.expect_eq %o2#0, %c5 : tensor<2x7xi32>
  %c6 = stablehlo.constant dense<[[6, 4, 3, 0, 5, 2, 1], [12, 11, 8, 7, 13, 10, 9]]> : tensor<2x7xi32>
  check.expect_eq %o2#1, %c6 : tensor<2x7xi32>
  %o3 = "stablehlo.sort"(%c2) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %h = stablehlo.constant dense<3> : tensor<i32>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %x = stablehlo.remainder %a, %h : tensor<i32>
      %y = stablehlo.remainder %b, %h : tensor<i32>
      %p = stablehlo.compare NE, %x, %z, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %q = stablehlo.compare EQ, %y, %z, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %o = stablehlo.and %p, %q : tensor<i1>
      stablehlo.return %o : tensor<i1>
    }) : (tensor<2x7xi32>) -> tensor<2x7xi32>
  %c7 = stablehlo.constant dense<[[1, 2, 4, 5, 0, 3, 6], [7, 8, 10, 11, 13, 9, 12]]> : tensor<2x7xi32>
  check.expect_eq %o3, %c7 : tensor<2x7xi32>
  %t:2 = chlo.top_k(%c2, k = 2) : tensor<2x7xi32> -> (tensor<2x2xi32>, tensor<2x2xi32>)
  %c8 = stablehlo.constant dense<[[6, 5], [13, 12]]> : tensor<2x2xi32>
  check.expect_eq %t#0, %c8 : tensor<2x2xi32>
  %c9 = stablehlo.constant dense<[[6, 5], [6, 5]]> : tensor<2x2xi32>
  check.expect_eq %t#1, %c9 : tensor<2x2xi32>
  %o4:2 = "stablehlo.sort"(%c1, %c2) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %o = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %o : tensor<i1>
    }) : (tensor<2x7xf32>, tensor<2x7xi32>) -> (tensor<2x7xf32>, tensor<2x7xi32>)
  %c10 = stablehlo.constant dense<[[2, 0, 5, 1, 6, 4, 3], [12, 7, 9, 10, 11, 8, 13]]> : tensor<2x7xi32>
  check.expect_eq %o4#1, %c10 : tensor<2x7xi32>
  // Of the same form, but 2 is ordered as 9; the constants within the region, and outside of it.
  %w = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 0.0, 2.0, 5.0, 6.0]> : tensor<8xf32>
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %nine = stablehlo.constant dense<9.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
  %w1 = stablehlo.constant dense<[0.0, 1.0, 3.0, 4.0, 5.0, 6.0, 2.0, 2.0]> : tensor<8xf32>
  %o8 = "stablehlo.sort"(%w) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %z = stablehlo.constant dense<2.0> : tensor<f32>
      %y = stablehlo.constant dense<9.0> : tensor<f32>
      %e1 = stablehlo.compare EQ, %a, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s1 = stablehlo.select %e1, %y, %a : tensor<i1>, tensor<f32>
      %n1 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %k1 = stablehlo.select %n1, %y, %s1 : tensor<i1>, tensor<f32>
      %e2 = stablehlo.compare EQ, %b, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s2 = stablehlo.select %e2, %y, %b : tensor<i1>, tensor<f32>
      %n2 = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %k2 = stablehlo.select %n2, %y, %s2 : tensor<i1>, tensor<f32>
      %l = stablehlo.compare LT, %k1, %k2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    }) : (tensor<8xf32>) -> tensor<8xf32>
  check.expect_eq %o8, %w1 : tensor<8xf32>
  %o9 = "stablehlo.sort"(%w) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %e1 = stablehlo.compare EQ, %a, %two, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s1 = stablehlo.select %e1, %nine, %a : tensor<i1>, tensor<f32>
      %n1 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %k1 = stablehlo.select %n1, %nine, %s1 : tensor<i1>, tensor<f32>
      %e2 = stablehlo.compare EQ, %b, %two, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s2 = stablehlo.select %e2, %nine, %b : tensor<i1>, tensor<f32>
      %n2 = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %k2 = stablehlo.select %n2, %nine, %s2 : tensor<i1>, tensor<f32>
      %l = stablehlo.compare LT, %k1, %k2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    }) : (tensor<8xf32>) -> tensor<8xf32>
  check.expect_eq %o9, %w1 : tensor<8xf32>
  // JAX's own form, with the constants outside: one argsort.
  %w2 = stablehlo.constant dense<[0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<8xf32>
  %o10 = "stablehlo.sort"(%w) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %e1 = stablehlo.compare EQ, %a, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s1 = stablehlo.select %e1, %zero, %a : tensor<i1>, tensor<f32>
      %n1 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %k1 = stablehlo.select %n1, %nan, %s1 : tensor<i1>, tensor<f32>
      %e2 = stablehlo.compare EQ, %b, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s2 = stablehlo.select %e2, %zero, %b : tensor<i1>, tensor<f32>
      %n2 = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %k2 = stablehlo.select %n2, %nan, %s2 : tensor<i1>, tensor<f32>
      %l = stablehlo.compare LT, %k1, %k2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    }) : (tensor<8xf32>) -> tensor<8xf32>
  check.expect_eq %o10, %w2 : tensor<8xf32>
  return
}
