// A counting `while` becomes a `for`: any start, step and bound, additional counters, invariant values.
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

// CHECK:      func @main() -> () {
// CHECK-NEXT:   %x = constant {value = 2.0} : f32[]
// CHECK-NEXT:   %a_0, %a_1, %a_2 = call @up(%x) : i32[], i32[], f32[]
// CHECK-NEXT:   %0 = constant {value = 8} : i32[]
// CHECK-NEXT:   expect_eq %a_0, %0
// CHECK-NEXT:   %1 = constant {value = 10} : i32[]
// CHECK-NEXT:   expect_eq %a_1, %1
// CHECK-NEXT:   %2 = constant {value = 54.0} : f32[]
// CHECK-NEXT:   expect_eq %a_2, %2
// CHECK-NEXT:   %b_0, %b_1 = call @down(%x) : i64[], f32[]
// CHECK-NEXT:   %3 = constant {value = -1} : i64[]
// CHECK-NEXT:   expect_eq %b_0, %3
// CHECK-NEXT:   %4 = constant {value = 27.0} : f32[]
// CHECK-NEXT:   expect_eq %b_1, %4
// CHECK-NEXT:   %c_0, %c_1 = call @unsigned(%x) : u32[], f32[]
// CHECK-NEXT:   %5 = constant {value = 0} : u32[]
// CHECK-NEXT:   expect_eq %c_0, %5
// CHECK-NEXT:   %6 = constant {value = 30.0} : f32[]
// CHECK-NEXT:   expect_eq %c_1, %6
// CHECK-NEXT:   %d = call @narrow(%x) : f32[]
// CHECK-NEXT:   %7 = constant {value = -31.5} : f32[]
// CHECK-NEXT:   expect_eq %d, %7
// CHECK-NEXT:   %n = constant {value = 5} : i32[]
// CHECK-NEXT:   %e_0, %e_1 = call @until(%x, %n) : i32[], f32[]
// CHECK-NEXT:   %8 = constant {value = 5} : i32[]
// CHECK-NEXT:   expect_eq %e_0, %8
// CHECK-NEXT:   %9 = constant {value = 11.0} : f32[]
// CHECK-NEXT:   expect_eq %e_1, %9
// CHECK-NEXT:   %m = constant {value = 1} : i32[]
// CHECK-NEXT:   %f_0, %f_1 = call @until(%x, %m) : i32[], f32[]
// CHECK-NEXT:   %10 = constant {value = 2} : i32[]
// CHECK-NEXT:   expect_eq %f_0, %10
// CHECK-NEXT:   %11 = constant {value = 2.0} : f32[]
// CHECK-NEXT:   expect_eq %f_1, %11
// CHECK-NEXT:   %g = call @wraps(%x) : f32[]
// CHECK-NEXT:   %12 = constant {value = 5.0} : f32[]
// CHECK-NEXT:   expect_eq %g, %12
// CHECK-NEXT:   %h = call @bounded(%x) : f32[]
// CHECK-NEXT:   %13 = constant {value = 128.0} : f32[]
// CHECK-NEXT:   expect_eq %h, %13
// CHECK-NEXT:   return
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @up(%x: f32[]) -> (i32[], i32[], f32[]) {
// CHECK-NEXT:   %0_2 = for %i in 2..10 (%s = %x) {
// CHECK-NEXT:     %0 = convert %i {dtype = f32} : f32[]
// CHECK-NEXT:     %1 = constant {value = 1.0} : f32[]
// CHECK-NEXT:     %2 = add %0, %1 : f32[]
// CHECK-NEXT:     %1_1 = add %s, %2 : f32[]
// CHECK-NEXT:     yield %1_1
// CHECK-NEXT:   } : f32[]
// CHECK-NEXT:   %0_0 = constant {value = 8} : i32[]
// CHECK-NEXT:   %0_1 = constant {value = 10} : i32[]
// CHECK-NEXT:   return %0_0, %0_1, %0_2
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @down(%x: f32[]) -> (i64[], f32[]) {
// CHECK-NEXT:   %0_1 = for %i in 0..5 (%s = %x) {
// CHECK-NEXT:     %0 = convert %i {dtype = i64} : i64[]
// CHECK-NEXT:     %1 = mul %0, 2 : i64[]
// CHECK-NEXT:     %4 = sub 9, %1 : i64[]
// CHECK-NEXT:     %2 = convert %4 {dtype = f32} : f32[]
// CHECK-NEXT:     %3 = add %s, %2 : f32[]
// CHECK-NEXT:     yield %3
// CHECK-NEXT:   } : f32[]
// CHECK-NEXT:   %0_0 = constant {value = -1} : i64[]
// CHECK-NEXT:   return %0_0, %0_1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @unsigned(%x: f32[]) -> (u32[], f32[]) {
// CHECK-NEXT:   %0_1 = for %i in 0..7 (%s = %x) {
// CHECK-NEXT:     %0 = convert %i {dtype = u32} : u32[]
// CHECK-NEXT:     %1 = sub 7, %0 : u32[]
// CHECK-NEXT:     %2 = convert %1 {dtype = f32} : f32[]
// CHECK-NEXT:     %3 = add %s, %2 : f32[]
// CHECK-NEXT:     yield %3
// CHECK-NEXT:   } : f32[]
// CHECK-NEXT:   %0_0 = constant {value = 0} : u32[]
// CHECK-NEXT:   return %0_0, %0_1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @narrow(%x: f32[]) -> (f32[]) {
// CHECK-NEXT:   %0_1 = for %i in 0..67 (%s = %x) {
// CHECK-NEXT:     %0 = mul %i, 3 : i32[]
// CHECK-NEXT:     %1 = add %0, -100 : i32[]
// CHECK-NEXT:     %5 = convert %1 {dtype = i8} : i8[]
// CHECK-NEXT:     %2 = convert %5 {dtype = f32} : f32[]
// CHECK-NEXT:     %half = constant {value = 0.5} : f32[]
// CHECK-NEXT:     %3 = mul %2, %half : f32[]
// CHECK-NEXT:     %4 = add %s, %3 : f32[]
// CHECK-NEXT:     yield %4
// CHECK-NEXT:   } : f32[]
// CHECK-NEXT:   return %0_1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @until(%x: f32[], %n: i32[]) -> (i32[], f32[]) {
// CHECK-NEXT:   %two = constant {value = 2} : i32[]
// CHECK-NEXT:   %0_2 = for %i in 2..%n (%s = %x) {
// CHECK-NEXT:     %2 = convert %i {dtype = f32} : f32[]
// CHECK-NEXT:     %3 = add %s, %2 : f32[]
// CHECK-NEXT:     yield %3
// CHECK-NEXT:   } : f32[]
// CHECK-NEXT:   %0_0 = max %n, %two : i32[]
// CHECK-NEXT:   return %0_0, %0_2
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @wraps(%x: f32[]) -> (f32[]) {
// CHECK-NEXT:   %start = constant {value = 3} : i8[]
// CHECK-NEXT:   %0_0, %0_1 = while (%i = %start, %s = %x) {
// CHECK-NEXT:     %c = constant {value = 0} : i8[]
// CHECK-NEXT:     %1 = ge %i, %c : bool[]
// CHECK-NEXT:     yield %1
// CHECK-NEXT:   } {
// CHECK-NEXT:     %by = constant {value = 50} : i8[]
// CHECK-NEXT:     %1 = add %i, %by : i8[]
// CHECK-NEXT:     %one = constant {value = 1.0} : f32[]
// CHECK-NEXT:     %2 = add %s, %one : f32[]
// CHECK-NEXT:     yield %1, %2
// CHECK-NEXT:   } : i8[], f32[]
// CHECK-NEXT:   return %0_1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @bounded(%x: f32[]) -> (f32[]) {
// CHECK-NEXT:   %zero = constant {value = 0} : i32[]
// CHECK-NEXT:   %0_0, %0_1 = while (%i = %zero, %s = %x) {max_trips = 20} {
// CHECK-NEXT:     %c = constant {value = 20} : i32[]
// CHECK-NEXT:     %most = constant {value = 100.0} : f32[]
// CHECK-NEXT:     %1 = lt %i, %c : bool[]
// CHECK-NEXT:     %2 = lt %s, %most : bool[]
// CHECK-NEXT:     %3 = and %1, %2 : bool[]
// CHECK-NEXT:     yield %3
// CHECK-NEXT:   } {
// CHECK-NEXT:     %one = constant {value = 1} : i32[]
// CHECK-NEXT:     %1 = add %i, %one : i32[]
// CHECK-NEXT:     %2 = add %s, %s : f32[]
// CHECK-NEXT:     yield %1, %2
// CHECK-NEXT:   } : i32[], f32[]
// CHECK-NEXT:   return %0_1
// CHECK-NEXT: }
