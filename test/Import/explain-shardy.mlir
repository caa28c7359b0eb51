// Changes are written as Shardy writes them, arguments have the user's names, and an op of a function that is
// called, without a location of its own, is at the line of the call.
// RUN: %dtc explain %s | FileCheck %s
// (hand-written CHECK lines)
module @jit_f {
  sdy.mesh @mesh = <["data"=2]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>} loc("params['w']")) -> (tensor<4xf32> {jax.result_info = "result"}) {
    %0 = call @total(%arg0) : (tensor<8x4xf32>) -> tensor<4xf32> loc(#call)
    return %0 : tensor<4xf32>
  }
  func.func private @total(%arg0: tensor<8x4xf32>) -> tensor<4xf32> {
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32> loc("reduce_sum")
    return %0 : tensor<4xf32>
  }
}
#file = loc("train.py":7:3)
#call = loc("jit(f)/total"(#file))

// CHECK: 'sum' train.py:7:3 (reduce_sum)
// CHECK: %arg0 (params['w']) dim 0 over data: annotated
// CHECK: removed by writing #sdy.sharding<@mesh, [{}, {}]> for #sdy.sharding<@mesh, [{"data"}, {}]> on %arg0 (params['w'])
