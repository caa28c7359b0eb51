// A `while` that counts is a `for`: any start and step, both ends, further counters, values that do not change.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s
// RUN: %dtc run %s --backend cuda-emu
// RUN: %dtc export %s --entry main | %dtc run -
// (CHECK lines written by scripts/dtc-update-tests)
func.func @main() {
  %x = stablehlo.constant dense<2.0> : tensor<f32>
  %a:3 = func.call @up(%x) : (tensor<f32>) -> (tensor<i32>, tensor<i32>, tensor<f32>)
  check.expect_eq_const %a#0, dense<8> : tensor<i32>
  check.expect_eq_const %a#1, dense<10> : tensor<i32>
  check.expect_eq_const %a#2, dense<54.0> : tensor<f32>
  %b:2 = func.call @down(%x) : (tensor<f32>) -> (tensor<i64>, tensor<f32>)
  check.expect_eq_const %b#0, dense<-1> : tensor<i64>
  check.expect_eq_const %b#1, dense<27.0> : tensor<f32>
  %c:2 = func.call @unsigned(%x) : (tensor<f32>) -> (tensor<ui32>, tensor<f32>)
  check.expect_eq_const %c#0, dense<0> : tensor<ui32>
  check.expect_eq_const %c#1, dense<30.0> : tensor<f32>
  %d = func.call @narrow(%x) : (tensor<f32>) -> tensor<f32>
  check.expect_eq_const %d, dense<-31.5> : tensor<f32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %e:2 = func.call @until(%x, %n) : (tensor<f32>, tensor<i32>) -> (tensor<i32>, tensor<f32>)
  check.expect_eq_const %e#0, dense<5> : tensor<i32>
  check.expect_eq_const %e#1, dense<11.0> : tensor<f32>
  %m = stablehlo.constant dense<1> : tensor<i32>
  %f:2 = func.call @until(%x, %m) : (tensor<f32>, tensor<i32>) -> (tensor<i32>, tensor<f32>)
  check.expect_eq_const %f#0, dense<2> : tensor<i32>
  check.expect_eq_const %f#1, dense<2.0> : tensor<f32>
  %g = func.call @wraps(%x) : (tensor<f32>) -> tensor<f32>
  check.expect_eq_const %g, dense<5.0> : tensor<f32>
  %h = func.call @bounded(%x) : (tensor<f32>) -> tensor<f32>
  check.expect_eq_const %h, dense<128.0> : tensor<f32>
  return
}
// fori_loop(2, 10): JAX counts the trips, and the index beside them.
func.func private @up(%x: tensor<f32>) -> (tensor<i32>, tensor<i32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %0:3 = stablehlo.while(%t = %zero, %i = %two, %s = %x) : tensor<i32>, tensor<i32>, tensor<f32>
  cond {
    %c = stablehlo.constant dense<8> : tensor<i32>
    %1 = stablehlo.compare LT, %t, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1:2 = func.call @body(%i, %s) : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>)
    %one = stablehlo.constant dense<1> : tensor<i32>
    %2 = stablehlo.add %t, %one : tensor<i32>
    stablehlo.return %2, %1#0, %1#1 : tensor<i32>, tensor<i32>, tensor<f32>
  }
  return %0#0, %0#1, %0#2 : tensor<i32>, tensor<i32>, tensor<f32>
}
func.func private @body(%i: tensor<i32>, %s: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.add %i, %one : tensor<i32>
  %1 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
  %two = stablehlo.constant dense<1.0> : tensor<f32>
  %2 = stablehlo.add %1, %two : tensor<f32>
  %3 = stablehlo.add %s, %2 : tensor<f32>
  return %0, %3 : tensor<i32>, tensor<f32>
}
// 9, 7, 5, 3, 1: `0 <= i`, i -= 2, in 64 bits.
func.func private @down(%x: tensor<f32>) -> (tensor<i64>, tensor<f32>) {
  %nine = stablehlo.constant dense<9> : tensor<i64>
  %0:2 = stablehlo.while(%i = %nine, %s = %x) : tensor<i64>, tensor<f32>
  cond {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %1 = stablehlo.compare LE, %c, %i : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %two = stablehlo.constant dense<2> : tensor<i64>
    %1 = stablehlo.subtract %i, %two : tensor<i64>
    %2 = stablehlo.convert %i : (tensor<i64>) -> tensor<f32>
    %3 = stablehlo.add %s, %2 : tensor<f32>
    stablehlo.return %1, %3 : tensor<i64>, tensor<f32>
  }
  return %0#0, %0#1 : tensor<i64>, tensor<f32>
}
func.func private @unsigned(%x: tensor<f32>) -> (tensor<ui32>, tensor<f32>) {
  %seven = stablehlo.constant dense<7> : tensor<ui32>
  %0:2 = stablehlo.while(%i = %seven, %s = %x) : tensor<ui32>, tensor<f32>
  cond {
    %c = stablehlo.constant dense<0> : tensor<ui32>
    %1 = stablehlo.compare NE, %i, %c : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<ui32>
    %1 = stablehlo.subtract %i, %one : tensor<ui32>
    %2 = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
    %3 = stablehlo.add %s, %2 : tensor<f32>
    stablehlo.return %1, %3 : tensor<ui32>, tensor<f32>
  }
  return %0#0, %0#1 : tensor<ui32>, tensor<f32>
}
// -100, -97, … 98: the trips pass what 8 bits count, the counter does not.
func.func private @narrow(%x: tensor<f32>) -> tensor<f32> {
  %start = stablehlo.constant dense<-100> : tensor<i8>
  %0:2 = stablehlo.while(%i = %start, %s = %x) : tensor<i8>, tensor<f32>
  cond {
    %c = stablehlo.constant dense<98> : tensor<i8>
    %1 = stablehlo.compare LE, %i, %c : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %three = stablehlo.constant dense<3> : tensor<i8>
    %1 = stablehlo.add %i, %three : tensor<i8>
    %2 = stablehlo.convert %i : (tensor<i8>) -> tensor<f32>
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %3 = stablehlo.multiply %2, %half : tensor<f32>
    %4 = stablehlo.add %s, %3 : tensor<f32>
    stablehlo.return %1, %4 : tensor<i8>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
// A limit that is a value, which the loop carries unchanged.
func.func private @until(%x: tensor<f32>, %n: tensor<i32>) -> (tensor<i32>, tensor<f32>) {
  %two = stablehlo.constant dense<2> : tensor<i32>
  %0:3 = stablehlo.while(%i = %two, %limit = %n, %s = %x) : tensor<i32>, tensor<i32>, tensor<f32>
  cond {
    %1 = stablehlo.compare GT, %limit, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %one, %i : tensor<i32>
    %2 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %3 = stablehlo.add %s, %2 : tensor<f32>
    stablehlo.return %1, %limit, %3 : tensor<i32>, tensor<i32>, tensor<f32>
  }
  return %0#0, %0#2 : tensor<i32>, tensor<f32>
}
// 3, 53, 103, then -103: a counter that wraps around before it ends stays what it is.
func.func private @wraps(%x: tensor<f32>) -> tensor<f32> {
  %start = stablehlo.constant dense<3> : tensor<i8>
  %0:2 = stablehlo.while(%i = %start, %s = %x) : tensor<i8>, tensor<f32>
  cond {
    %c = stablehlo.constant dense<0> : tensor<i8>
    %1 = stablehlo.compare GE, %i, %c : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %by = stablehlo.constant dense<50> : tensor<i8>
    %1 = stablehlo.add %i, %by : tensor<i8>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %2 = stablehlo.add %s, %one : tensor<f32>
    stablehlo.return %1, %2 : tensor<i8>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
// `i < 20 and s < 100`: at most 20 trips.
func.func private @bounded(%x: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<f32>
  cond {
    %c = stablehlo.constant dense<20> : tensor<i32>
    %most = stablehlo.constant dense<100.0> : tensor<f32>
    %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %2 = stablehlo.compare LT, %s, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.and %1, %2 : tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.add %s, %s : tensor<f32>
    stablehlo.return %1, %2 : tensor<i32>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
