// reduce as `applies`, a named reducer and a region; an unknown reducer becomes a tree of its region.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s
// (CHECK lines written by scripts/dtc-update-tests)
func.func @main() {
  %x = stablehlo.constant dense<[[3.0, -1.0, 7.0, 2.0, 7.0], [0.5, 4.0, -2.0, 4.0, 1.0]]> : tensor<2x5xf32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %ten = stablehlo.constant dense<1.000000e+01> : tensor<f32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
  check.expect_eq_const %sum, dense<[18.0, 7.5]> : tensor<2xf32>
  %more = stablehlo.reduce(%x init: %ten) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<f32>
  check.expect_eq_const %more, dense<35.5> : tensor<f32>
  %i = stablehlo.iota dim = 1 : tensor<2x5xi32>
  %0:2 = stablehlo.reduce(%x init: %least), (%i init: %c) across dimensions = [1] : (tensor<2x5xf32>, tensor<2x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%ai: tensor<i32>, %bi: tensor<i32>)  {
    %1 = stablehlo.compare  GT, %a, %b,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.compare  EQ, %a, %b,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.compare  LT, %ai, %bi,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %4 = stablehlo.and %2, %3 : tensor<i1>
    %5 = stablehlo.or %1, %4 : tensor<i1>
    %6 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<f32>
    %7 = stablehlo.select %5, %ai, %bi : tensor<i1>, tensor<i32>
    stablehlo.return %6, %7 : tensor<f32>, tensor<i32>
  }
  check.expect_eq_const %0#0, dense<[7.0, 4.0]> : tensor<2xf32>
  check.expect_eq_const %0#1, dense<[2, 1]> : tensor<2xi32>
  %8 = "stablehlo.reduce"(%x, %zero) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %9 = "stablehlo.subtract"(%b, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%9) : (tensor<f32>) -> ()
  }) {dimensions = dense<0> : tensor<1xi64>} : (tensor<2x5xf32>, tensor<f32>) -> tensor<5xf32>
  check.expect_eq_const %8, dense<[-2.5, 5.0, -9.0, 2.0, -6.0]> : tensor<5xf32>
  %10 = "stablehlo.map"(%x) ({
  ^bb0(%a: tensor<f32>):
    %11 = stablehlo.multiply %a, %ten : tensor<f32>
    stablehlo.return %11 : tensor<f32>
  }) {dimensions = dense<[0, 1]> : tensor<2xi64>} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %12 = stablehlo.slice %10 [1:2, 0:2] : (tensor<2x5xf32>) -> tensor<1x2xf32>
  check.expect_eq_const %12, dense<[[5.0, 40.0]]> : tensor<1x2xf32>
  return
}

// CHECK:      func @main() -> () {
// CHECK-NEXT:   %x = constant {value = {{\[\[}}3.0, -1.0, 7.0, 2.0, 7.0], [0.5, 4.0, -2.0, 4.0, 1.0]]} : f32[2, 5]
// CHECK-NEXT:   %zero = constant {value = 0.0} : f32[]
// CHECK-NEXT:   %ten = constant {value = 10.0} : f32[]
// CHECK-NEXT:   %least = constant {value = -inf} : f32[]
// CHECK-NEXT:   %c = constant {value = 0} : i32[]
// CHECK-NEXT:   %sum = sum %x {dims = [1]} : f32[2]
// CHECK-NEXT:   %0 = constant {value = [18.0, 7.5]} : f32[2]
// CHECK-NEXT:   expect_eq %sum, %0
// CHECK-NEXT:   %8 = sum %x {dims = [0, 1]} : f32[]
// CHECK-NEXT:   %more = add %8, %ten : f32[]
// CHECK-NEXT:   %10 = constant {value = 35.5} : f32[]
// CHECK-NEXT:   expect_eq %more, %10
// CHECK-NEXT:   %i = iota {dim = 1} : i32[2, 5]
// CHECK-NEXT:   %13 = transpose %x {perm = [1, 0]} : f32[5, 2]
// CHECK-NEXT:   %14 = transpose %i {perm = [1, 0]} : i32[5, 2]
// CHECK-NEXT:   %15 = slice %13 {start = [0, 0], limit = [4, 2], stride = [2, 1]} : f32[2, 2]
// CHECK-NEXT:   %16 = slice %14 {start = [0, 0], limit = [4, 2], stride = [2, 1]} : i32[2, 2]
// CHECK-NEXT:   %17 = slice %13 {start = [1, 0], limit = [4, 2], stride = [2, 1]} : f32[2, 2]
// CHECK-NEXT:   %18 = slice %14 {start = [1, 0], limit = [4, 2], stride = [2, 1]} : i32[2, 2]
// CHECK-NEXT:   %1 = gt %15, %17 : bool[2, 2]
// CHECK-NEXT:   %2 = eq %15, %17 : bool[2, 2]
// CHECK-NEXT:   %3 = lt %16, %18 : bool[2, 2]
// CHECK-NEXT:   %4 = and %2, %3 : bool[2, 2]
// CHECK-NEXT:   %5 = or %1, %4 : bool[2, 2]
// CHECK-NEXT:   %6 = select %1, %15, %17 : f32[2, 2]
// CHECK-NEXT:   %7 = select %5, %16, %18 : i32[2, 2]
// CHECK-NEXT:   %19 = slice %13 {start = [4, 0], limit = [5, 2], stride = [1, 1]} : f32[1, 2]
// CHECK-NEXT:   %20 = concat %6, %19 {dim = 0} : f32[3, 2]
// CHECK-NEXT:   %21 = slice %14 {start = [4, 0], limit = [5, 2], stride = [1, 1]} : i32[1, 2]
// CHECK-NEXT:   %22 = concat %7, %21 {dim = 0} : i32[3, 2]
// CHECK-NEXT:   %23 = slice %20 {start = [0, 0], limit = [2, 2], stride = [2, 1]} : f32[1, 2]
// CHECK-NEXT:   %24 = slice %22 {start = [0, 0], limit = [2, 2], stride = [2, 1]} : i32[1, 2]
// CHECK-NEXT:   %25 = slice %20 {start = [1, 0], limit = [2, 2], stride = [2, 1]} : f32[1, 2]
// CHECK-NEXT:   %26 = slice %22 {start = [1, 0], limit = [2, 2], stride = [2, 1]} : i32[1, 2]
// CHECK-NEXT:   %27 = gt %23, %25 : bool[1, 2]
// CHECK-NEXT:   %28 = eq %23, %25 : bool[1, 2]
// CHECK-NEXT:   %29 = lt %24, %26 : bool[1, 2]
// CHECK-NEXT:   %30 = and %28, %29 : bool[1, 2]
// CHECK-NEXT:   %31 = or %27, %30 : bool[1, 2]
// CHECK-NEXT:   %32 = select %27, %23, %25 : f32[1, 2]
// CHECK-NEXT:   %33 = select %31, %24, %26 : i32[1, 2]
// CHECK-NEXT:   %34 = slice %20 {start = [2, 0], limit = [3, 2], stride = [1, 1]} : f32[1, 2]
// CHECK-NEXT:   %35 = concat %32, %34 {dim = 0} : f32[2, 2]
// CHECK-NEXT:   %36 = slice %22 {start = [2, 0], limit = [3, 2], stride = [1, 1]} : i32[1, 2]
// CHECK-NEXT:   %37 = concat %33, %36 {dim = 0} : i32[2, 2]
// CHECK-NEXT:   %38 = slice %35 {start = [0, 0], limit = [2, 2], stride = [2, 1]} : f32[1, 2]
// CHECK-NEXT:   %39 = slice %37 {start = [0, 0], limit = [2, 2], stride = [2, 1]} : i32[1, 2]
// CHECK-NEXT:   %40 = slice %35 {start = [1, 0], limit = [2, 2], stride = [2, 1]} : f32[1, 2]
// CHECK-NEXT:   %41 = slice %37 {start = [1, 0], limit = [2, 2], stride = [2, 1]} : i32[1, 2]
// CHECK-NEXT:   %42 = gt %38, %40 : bool[1, 2]
// CHECK-NEXT:   %43 = eq %38, %40 : bool[1, 2]
// CHECK-NEXT:   %44 = lt %39, %41 : bool[1, 2]
// CHECK-NEXT:   %45 = and %43, %44 : bool[1, 2]
// CHECK-NEXT:   %46 = or %42, %45 : bool[1, 2]
// CHECK-NEXT:   %47 = select %42, %38, %40 : f32[1, 2]
// CHECK-NEXT:   %48 = select %46, %39, %41 : i32[1, 2]
// CHECK-NEXT:   %49 = reshape %47 {shape = [2]} : f32[2]
// CHECK-NEXT:   %50 = reshape %48 {shape = [2]} : i32[2]
// CHECK-NEXT:   %51 = gt %least, %49 : bool[2]
// CHECK-NEXT:   %52 = eq %least, %49 : bool[2]
// CHECK-NEXT:   %53 = lt %c, %50 : bool[2]
// CHECK-NEXT:   %54 = and %52, %53 : bool[2]
// CHECK-NEXT:   %55 = or %51, %54 : bool[2]
// CHECK-NEXT:   %56 = select %51, %least, %49 : f32[2]
// CHECK-NEXT:   %57 = select %55, %c, %50 : i32[2]
// CHECK-NEXT:   %58 = constant {value = [7.0, 4.0]} : f32[2]
// CHECK-NEXT:   expect_eq %56, %58
// CHECK-NEXT:   %59 = constant {value = [2, 1]} : i32[2]
// CHECK-NEXT:   expect_eq %57, %59
// CHECK-NEXT:   %60 = slice %x {start = [0, 0], limit = [2, 5], stride = [2, 1]} : f32[1, 5]
// CHECK-NEXT:   %61 = slice %x {start = [1, 0], limit = [2, 5], stride = [2, 1]} : f32[1, 5]
// CHECK-NEXT:   %9 = sub %61, %60 : f32[1, 5]
// CHECK-NEXT:   %62 = reshape %9 {shape = [5]} : f32[5]
// CHECK-NEXT:   %63 = sub %62, %zero : f32[5]
// CHECK-NEXT:   %64 = constant {value = [-2.5, 5.0, -9.0, 2.0, -6.0]} : f32[5]
// CHECK-NEXT:   expect_eq %63, %64
// CHECK-NEXT:   %11 = mul %x, %ten : f32[2, 5]
// CHECK-NEXT:   %12 = slice %11 {start = [1, 0], limit = [2, 2]} : f32[1, 2]
// CHECK-NEXT:   %65 = constant {value = {{\[\[}}5.0, 40.0]]} : f32[1, 2]
// CHECK-NEXT:   expect_eq %12, %65
// CHECK-NEXT:   return
// CHECK-NEXT: }
