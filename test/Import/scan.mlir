// JAX's scan: sliced rows become index_select, rows written in order become stacked results.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --entry forwards --input 'x=const(1)' --input 'v=iota' --check | FileCheck %s --check-prefix=FORWARDS
// RUN: %dtc run %s --entry backwards --input 'x=const(1)' --input 'v=iota' --backend cuda-emu | FileCheck %s --check-prefix=BACKWARDS
// RUN: %dtc run %s --entry kept --input 'x=const(1)' --input 'v=iota' --check | FileCheck %s --check-prefix=KEPT
// RUN: %dtc export %s --entry backwards | %dtc run - --input 'x=const(1)' --input 'v=iota' | FileCheck %s --check-prefix=BACKWARDS
// (CHECK lines written by scripts/dtc-update-tests)
func.func public @forwards(%x: tensor<2xf32>, %v: tensor<3x2xf32>) -> (tensor<2xf32> {jax.result_info = "result[0]"}, tensor<3x2xf32> {jax.result_info = "result[1]"}) {
  %cst = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %1:4 = stablehlo.while(%iterArg = %v, %iterArg_0 = %c, %iterArg_1 = %x, %iterArg_2 = %0) : tensor<3x2xf32>, tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
  cond {
    %c_3 = stablehlo.constant dense<3> : tensor<i32>
    %2 = stablehlo.compare LT, %iterArg_0, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %2 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_0) : (tensor<3x2xf32>, tensor<i32>) -> tensor<2xf32>
    %3:2 = func.call @closed_call(%iterArg_1, %2) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %4 = func.call @dynamic_update_index_in_dim(%iterArg_2, %3#1, %iterArg_0) : (tensor<3x2xf32>, tensor<2xf32>, tensor<i32>) -> tensor<3x2xf32>
    %c_3 = stablehlo.constant dense<1> : tensor<i32>
    %5 = stablehlo.add %iterArg_0, %c_3 : tensor<i32>
    stablehlo.return %iterArg, %5, %3#0, %4 : tensor<3x2xf32>, tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
  }
  return %1#2, %1#3 : tensor<2xf32>, tensor<3x2xf32>
}
func.func public @backwards(%x: tensor<2xf32>, %v: tensor<3x2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>) {
  %cst = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %1:4 = stablehlo.while(%iterArg = %v, %iterArg_0 = %c, %iterArg_1 = %x, %iterArg_2 = %0) : tensor<3x2xf32>, tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
  cond {
    %c_3 = stablehlo.constant dense<3> : tensor<i32>
    %2 = stablehlo.compare LT, %iterArg_0, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %c_3 = stablehlo.constant dense<3> : tensor<i32>
    %2 = stablehlo.subtract %c_3, %iterArg_0 : tensor<i32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %3 = stablehlo.subtract %2, %c_4 : tensor<i32>
    %4 = func.call @dynamic_index_in_dim(%iterArg, %3) : (tensor<3x2xf32>, tensor<i32>) -> tensor<2xf32>
    %5:2 = func.call @closed_call(%iterArg_1, %4) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %6 = func.call @dynamic_update_index_in_dim(%iterArg_2, %5#1, %3) : (tensor<3x2xf32>, tensor<2xf32>, tensor<i32>) -> tensor<3x2xf32>
    %7 = stablehlo.add %iterArg_0, %c_4 : tensor<i32>
    stablehlo.return %iterArg, %7, %5#0, %6 : tensor<3x2xf32>, tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
  }
  return %1#2, %1#3 : tensor<2xf32>, tensor<3x2xf32>
}
// Two rows of three are written, one is read where another was written, and the index may pass the end: none of it is stacked or
// selected.
func.func public @kept(%x: tensor<2xf32>, %v: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<2xf32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %1:4 = stablehlo.while(%i = %c, %part = %v, %running = %v, %sum = %x) : tensor<i32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<2xf32>
  cond {
    %c_3 = stablehlo.constant dense<2> : tensor<i32>
    %2 = stablehlo.compare LT, %i, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %two = stablehlo.add %next, %one : tensor<i32>
    %a = func.call @dynamic_index_in_dim(%running, %i) : (tensor<3x2xf32>, tensor<i32>) -> tensor<2xf32>
    %b = func.call @dynamic_index_in_dim(%v, %two) : (tensor<3x2xf32>, tensor<i32>) -> tensor<2xf32>
    %p = func.call @dynamic_update_index_in_dim(%part, %sum, %i) : (tensor<3x2xf32>, tensor<2xf32>, tensor<i32>) -> tensor<3x2xf32>
    %r = func.call @dynamic_update_index_in_dim(%running, %a, %next) : (tensor<3x2xf32>, tensor<2xf32>, tensor<i32>) -> tensor<3x2xf32>
    %s = stablehlo.add %sum, %b : tensor<2xf32>
    stablehlo.return %next, %p, %r, %s : tensor<i32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<2xf32>
  }
  return %1#1, %1#2, %1#3 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<2xf32>
}
func.func private @dynamic_index_in_dim(%arg0: tensor<3x2xf32>, %arg1: tensor<i32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 2] : (tensor<3x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<i32>) -> tensor<3x2xf32> {
  %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}
func.func private @closed_call(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
  return %0, %arg0 : tensor<2xf32>, tensor<2xf32>
}

// CHECK:      func @forwards(%x: f32[2],
// CHECK-NEXT:                %v: f32[3, 2])
// CHECK-NEXT:     -> (%result_0: f32[2] {name = "result[0]"}, %result_1: f32[3, 2] {name = "result[1]"}) {
// CHECK-NEXT:   %1_2, %1_3 = for %i in 0..3 (%iterArg_1 = %x) {
// CHECK-NEXT:     %2 = index_select %v, %i {dim = 0} : f32[2]
// CHECK-NEXT:     %3_0, %3_1 = call @closed_call(%iterArg_1, %2) : f32[2], f32[2]
// CHECK-NEXT:     yield %3_0, %3_1
// CHECK-NEXT:   } : f32[2], f32[3, 2]
// CHECK-NEXT:   return %1_2, %1_3
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @backwards(%x: f32[2], %v: f32[3, 2]) -> (f32[2], f32[3, 2]) {
// CHECK-NEXT:   %1_2, %0 = for %i in 0..3 (%iterArg_1 = %x) {
// CHECK-NEXT:     %c_3 = constant {value = 3} : i32[]
// CHECK-NEXT:     %2 = sub %c_3, %i : i32[]
// CHECK-NEXT:     %c_4 = constant {value = 1} : i32[]
// CHECK-NEXT:     %3 = sub %2, %c_4 : i32[]
// CHECK-NEXT:     %4 = index_select %v, %3 {dim = 0} : f32[2]
// CHECK-NEXT:     %5_0, %5_1 = call @closed_call(%iterArg_1, %4) : f32[2], f32[2]
// CHECK-NEXT:     yield %5_0, %5_1
// CHECK-NEXT:   } : f32[2], f32[3, 2]
// CHECK-NEXT:   %1_3 = flip %0 {dims = [0]} : f32[3, 2]
// CHECK-NEXT:   return %1_2, %1_3
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @kept(%x: f32[2], %v: f32[3, 2]) -> (f32[3, 2], f32[3, 2], f32[2]) {
// CHECK-NEXT:   %1_1, %1_2, %1_3 = for %i in 0..2 (%part = %v, %running = %v, %sum = %x) {
// CHECK-NEXT:     %one = constant {value = 1} : i32[]
// CHECK-NEXT:     %next = add %i, %one : i32[]
// CHECK-NEXT:     %two = add %next, %one : i32[]
// CHECK-NEXT:     %a = index_select %running, %i {dim = 0} : f32[2]
// CHECK-NEXT:     %0 = constant {value = 0} : i32[]
// CHECK-NEXT:     %1 = dynamic_slice %v, %two, %0 {sizes = [1, 2]} : f32[1, 2]
// CHECK-NEXT:     %b = reshape %1 {shape = [2]} : f32[2]
// CHECK-NEXT:     %2 = broadcast %sum {shape = [1, 2]} : f32[1, 2]
// CHECK-NEXT:     %3 = constant {value = 0} : i32[]
// CHECK-NEXT:     %p = dynamic_update_slice %part, %2, %i, %3 : f32[3, 2]
// CHECK-NEXT:     %4 = broadcast %a {shape = [1, 2]} : f32[1, 2]
// CHECK-NEXT:     %5 = constant {value = 0} : i32[]
// CHECK-NEXT:     %r = dynamic_update_slice %running, %4, %next, %5 : f32[3, 2]
// CHECK-NEXT:     %s = add %sum, %b : f32[2]
// CHECK-NEXT:     yield %p, %r, %s
// CHECK-NEXT:   } : f32[3, 2], f32[3, 2], f32[2]
// CHECK-NEXT:   return %1_1, %1_2, %1_3
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @closed_call(%arg0: f32[2], %arg1: f32[2]) -> (f32[2], f32[2]) {
// CHECK-NEXT:   %0 = add %arg0, %arg1 : f32[2]
// CHECK-NEXT:   return %0, %arg0
// CHECK-NEXT: }

// FORWARDS:      result_0 = [ 7, 10]
// FORWARDS-NEXT: result_1 =
// FORWARDS-NEXT: {{\[\[}}1, 1],
// FORWARDS-NEXT:  [1, 2],
// FORWARDS-NEXT:  [3, 5]]
// FORWARDS-NEXT: check result_0: ok, equal in all 2 elements
// FORWARDS-NEXT: check result_1: ok, equal in all 6 elements

// BACKWARDS:      0 = [ 7, 10]
// BACKWARDS-NEXT: 1 =
// BACKWARDS-NEXT: {{\[\[}}7, 9],
// BACKWARDS-NEXT:  [5, 6],
// BACKWARDS-NEXT:  [1, 1]]

// KEPT:      0 =
// KEPT-NEXT: {{\[\[}}1, 1],
// KEPT-NEXT:  [5, 6],
// KEPT-NEXT:  [4, 5]]
// KEPT-NEXT: 1 =
// KEPT-NEXT: {{\[\[}}0, 1],
// KEPT-NEXT:  [0, 1],
// KEPT-NEXT:  [0, 1]]
// KEPT-NEXT: 2 = [ 9, 11]
// KEPT-NEXT: check 0: ok, equal in all 6 elements
// KEPT-NEXT: check 1: ok, equal in all 6 elements
// KEPT-NEXT: check 2: ok, equal in all 2 elements
