// Donated arguments carry: paired by the names of the pytree, else as JAX aliases buffers; --loop steps them.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --entry aliased --loop 3 --input 'arg0=const(1)' --input 'arg1=const(2)' --check 2>&1 | FileCheck %s --check-prefix=ALIASED
// RUN: %dtc run %s --entry main --loop 3 --input "state['w']=const(1)" --input "state['m']=zeros" --input 'x=const(1)' --print "result[1]['w']" --print 'result[0]' --check 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: %dtc run %s --entry swapped --loop 2 --backend cuda-emu --input 'a=const(2)' --input 'b=const(3)' 2>&1 | FileCheck %s --check-prefix=SWAPPED
// RUN: not %dtc run %s --entry nothing --loop 5 --input '*=const(1)' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: %dtc run %s --entry nothing --loop 1 --input '*=const(1)' --print result_1 --print 'result[1]' | FileCheck %s --check-prefix=ONCE
// RUN: %dtc export %s --entry main | %dtc import - | FileCheck %s --check-prefix=AGAIN
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
