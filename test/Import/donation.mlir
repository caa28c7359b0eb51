// Donated arguments become carried: paired by pytree names, else by JAX's buffer aliases; --loop steps them.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --entry aliased --loop 3 --input 'arg0=const(1)' --input 'arg1=const(2)' --check | FileCheck %s --check-prefix=ALIASED
// RUN: %dtc run %s --entry main --loop 3 --input "state['w']=const(1)" --input "state['m']=zeros" --input 'x=const(1)' --print "result[1]['w']" --print 'result[0]' --check | FileCheck %s --check-prefix=NAMED
// RUN: %dtc run %s --entry swapped --loop 2 --backend cuda-emu --input 'a=const(2)' --input 'b=const(3)' | FileCheck %s --check-prefix=SWAPPED
// RUN: %dtc run %s --entry nothing --loop 1 --input '*=const(1)' --print result_1 --print 'result[1]' | FileCheck %s --check-prefix=ONCE
// RUN: %dtc export %s --entry main | %dtc import - | FileCheck %s --check-prefix=AGAIN
// RUN: not --exit 2 %dtc run %s --entry nothing --loop 5 --input '*=const(1)' 2>&1 | FileCheck %s --check-prefix=NOTHING
// (CHECK lines written by scripts/dtc-update-tests)
module @jit_step {
  // JAX aliases the first donated buffer with the first result of its type: the gradient. The names of the tree say otherwise.
  func.func public @main(%arg0: tensor<2xf32> {tf.aliasing_output = 0 : i32} loc("state['m']"), %arg1: tensor<2xf32> {tf.aliasing_output = 1 : i32} loc("state['w']"), %arg2: tensor<2xf32> loc("x")) -> (tensor<2xf32> {jax.result_info = "result[0]"}, tensor<2xf32> {jax.result_info = "result[1]['m']"}, tensor<2xf32> {jax.result_info = "result[1]['w']"}) {
    %0 = stablehlo.add %arg0, %arg2 : tensor<2xf32>
    %1 = stablehlo.subtract %arg1, %0 : tensor<2xf32>
    return %arg2, %0, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  // Without names the aliases count, and what is donated and not aliased is paired in order.
  func.func public @aliased(%arg0: tensor<f32> {tf.aliasing_output = 1 : i32}, %arg1: tensor<f32> {jax.buffer_donor = true}) -> (tensor<f32>, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.multiply %arg1, %arg1 : tensor<f32>
    %1 = stablehlo.add %arg0, %arg1 : tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  }
  // Results that have the names of arguments: the one goes to the other.
  func.func public @swapped(%arg0: tensor<f32> {tf.aliasing_output = 0 : i32} loc("a"), %arg1: tensor<f32> {tf.aliasing_output = 1 : i32} loc("b")) -> (tensor<f32> {jax.result_info = "result['b']"}, tensor<f32> {jax.result_info = "result['a']"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<f32>
    return %arg0, %0 : tensor<f32>, tensor<f32>
  }
  // A result that does not carry gives its name up to one that does; other types are no pair.
  func.func public @taken(%arg0: tensor<3xf32> {tf.aliasing_output = 0 : i32} loc("w"), %arg1: tensor<4xf32> {tf.aliasing_output = 1 : i32} loc("v")) -> (tensor<3xf32> {jax.result_info = "result[0]"}, tensor<3xf32> {jax.result_info = "result['w']['old']['w']"}, tensor<f32> {jax.result_info = "result.w"}) {
    %0 = stablehlo.constant dense<1.0> : tensor<f32>
    return %arg0, %arg0, %0 : tensor<3xf32>, tensor<3xf32>, tensor<f32>
  }
  func.func public @nothing(%arg0: tensor<f32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<f32>
    return %arg0, %0 : tensor<f32>, tensor<f32>
  }
}

// CHECK:      func @main(%state_m: f32[2] {name = "state['m']", donate = true},
// CHECK-NEXT:            %state_w: f32[2] {name = "state['w']", donate = true},
// CHECK-NEXT:            %x:       f32[2] {name = "x"})
// CHECK-NEXT:     -> (%result_0: f32[2] {name = "result[0]"},
// CHECK-NEXT:         %state_m:  f32[2] {carry = true, name = "result[1]['m']"},
// CHECK-NEXT:         %state_w:  f32[2] {carry = true, name = "result[1]['w']"}) {
// CHECK-NEXT:   %0 = add %state_m, %x : f32[2]
// CHECK-NEXT:   %1 = sub %state_w, %0 : f32[2]
// CHECK-NEXT:   return %x, %0, %1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @aliased(%arg0: f32[] {donate = true},
// CHECK-NEXT:               %arg1: f32[] {donate = true})
// CHECK-NEXT:     -> (%arg1: f32[] {carry = true}, %arg0: f32[] {carry = true, name = "result[1]"}) {
// CHECK-NEXT:   %0 = mul %arg1, %arg1 : f32[]
// CHECK-NEXT:   %1 = add %arg0, %arg1 : f32[]
// CHECK-NEXT:   return %0, %1
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @swapped(%a: f32[] {name = "a", donate = true},
// CHECK-NEXT:               %b: f32[] {name = "b", donate = true})
// CHECK-NEXT:     -> (%b: f32[] {carry = true, name = "result['b']"}, %a: f32[] {carry = true, name = "result['a']"}) {
// CHECK-NEXT:   %0 = add %a, %b : f32[]
// CHECK-NEXT:   return %a, %0
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @taken(%w: f32[3] {name = "w", donate = true},
// CHECK-NEXT:             %v: f32[4] {name = "v", donate = true})
// CHECK-NEXT:     -> (%result_0: f32[3] {name = "result[0]"},
// CHECK-NEXT:         %w:        f32[3] {carry = true, name = "result['w']['old']['w']"},
// CHECK-NEXT:         %w_1:      f32[]  {name = "result.w"}) {
// CHECK-NEXT:   %0 = constant {value = 1.0} : f32[]
// CHECK-NEXT:   return %w, %w, %0
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: func @nothing(%arg0: f32[])
// CHECK-NEXT:     -> (%result_0: f32[] {name = "result[0]"}, %result_1: f32[] {name = "result[1]"}) {
// CHECK-NEXT:   %0 = add %arg0, %arg0 : f32[]
// CHECK-NEXT:   return %arg0, %0
// CHECK-NEXT: }

// ALIASED:      arg1 = 256.0
// ALIASED-NEXT: arg0 = 23.0
// ALIASED-NEXT: check arg1: ok, equal in all 1 element
// ALIASED-NEXT: check arg0: ok, equal in all 1 element

// NAMED:      result_0 = [1, 1]
// NAMED-NEXT: state_w = [-5, -5]
// NAMED-NEXT: check result_0: ok, equal in all 2 elements
// NAMED-NEXT: check state_m: ok, equal in all 2 elements
// NAMED-NEXT: check state_w: ok, equal in all 2 elements

// SWAPPED:      b = 5.0
// SWAPPED-NEXT: a = 7.0

// ONCE:      result_1 = 2.0

// AGAIN:      func @main(%state_m: f32[2] {name = "state['m']", donate = true},
// AGAIN-NEXT:            %state_w: f32[2] {name = "state['w']", donate = true},
// AGAIN-NEXT:            %x:       f32[2] {name = "x"})
// AGAIN-NEXT:     -> (%result_0: f32[2] {name = "result[0]"},
// AGAIN-NEXT:         %state_m:  f32[2] {carry = true, name = "result[1]['m']"},
// AGAIN-NEXT:         %state_w:  f32[2] {carry = true, name = "result[1]['w']"}) {
// AGAIN-NEXT:   %0 = add %state_m, %x : f32[2]
// AGAIN-NEXT:   %1 = sub %state_w, %0 : f32[2]
// AGAIN-NEXT:   return %x, %0, %1
// AGAIN-NEXT: }

// NOTHING:      error: --loop 5 would repeat the same step 5 times: no result of @nothing is carried into an argument
// NOTHING-NEXT:   in .dt, add {carry = true} to each result that is the next step's argument of the same name
// NOTHING-NEXT:   in JAX, donate the state: jax.jit(step, donate_argnums=...)
// NOTHING-NEXT:   to time the same step, use --repeat 5
