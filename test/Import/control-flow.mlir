// Loops, branches, calls, tuples.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input 'k=const(1)' --input 'v=iota' --print 0 | FileCheck %s --check-prefix=OUT
// RUN: %dtc opt %s -p propagate,partition,split,fuse --split-input > %t
// RUN: %dtc run %s --input 'k=const(7)' --input 'v=iota' --check
// (CHECK lines written by scripts/dtc-update-tests)
func.func @main(%k: tensor<i32>, %v: tensor<2xf32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<3> : tensor<i32>
  %0:2 = stablehlo.while(%iterArg = %k, %iterArg_0 = %v) : tensor<i32>, tensor<2xf32>
   cond {
    %1 = stablehlo.compare  LT, %iterArg, %c,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %iterArg, %one : tensor<i32>
    %2 = func.call @double(%iterArg_0) : (tensor<2xf32>) -> tensor<2xf32>
    stablehlo.return %1, %2 : tensor<i32>, tensor<2xf32>
  }
  %3 = "stablehlo.case"(%0#0) ({
    stablehlo.return %v : tensor<2xf32>
  }, {
    %4 = stablehlo.negate %v : tensor<2xf32>
    stablehlo.return %4 : tensor<2xf32>
  }, {
    stablehlo.return %0#1 : tensor<2xf32>
  }) : (tensor<i32>) -> tensor<2xf32>
  %5 = stablehlo.tuple %3, %0#0 : tuple<tensor<2xf32>, tensor<i32>>
  %6 = stablehlo.get_tuple_element %5[0] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<2xf32>
  return %6 : tensor<2xf32>
}
func.func private @double(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK:      func @main(%k: i32[], %v: f32[2]) -> (f32[2]) {
// CHECK-NEXT:   %c = constant {value = 3} : i32[]
// CHECK-NEXT:   %0_1 = for %i in %k..%c (%iterArg_0 = %v) {
// CHECK-NEXT:     %2 = call @double(%iterArg_0) : f32[2]
// CHECK-NEXT:     yield %2
// CHECK-NEXT:   } : f32[2]
// CHECK-NEXT:   %0_0 = max %c, %k : i32[]
// CHECK-NEXT:   %0 = eq %0_0, 0 : bool[]
// CHECK-NEXT:   %3 = cond %0 {
// CHECK-NEXT:     yield %v
// CHECK-NEXT:   } {
// CHECK-NEXT:     %1 = eq %0_0, 1 : bool[]
// CHECK-NEXT:     %5 = cond %1 {
// CHECK-NEXT:       %4 = neg %v : f32[2]
// CHECK-NEXT:       yield %4
// CHECK-NEXT:     } {
// CHECK-NEXT:       yield %0_1
// CHECK-NEXT:     } : f32[2]
// CHECK-NEXT:     yield %5
// CHECK-NEXT:   } : f32[2]
// CHECK-NEXT:   return %3
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @double(%x: f32[2]) -> (f32[2]) {
// CHECK-NEXT:   %0 = add %x, %x : f32[2]
// CHECK-NEXT:   return %0
// CHECK-NEXT: }

// OUT:      0 = [0, 4]
