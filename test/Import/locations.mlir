// Names and source locations of the user are imported and used in reports.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=iota' --stats 2>&1 | FileCheck %s --check-prefix=CHECK-STATS
// (hand-written CHECK lines)
#loc = loc(unknown)
#loc1 = loc("params['w']")
module @jit_step attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32> loc("params['w']"), %arg1: tensor<3xf32> loc(#loc2)) -> (tensor<3xf32> {jax.result_info = "result['loss']"}) {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<3xf32> loc(#loc7)
    %1 = stablehlo.exponential %0 : tensor<3xf32> loc(callsite("inner.py":5:2 at #loc4))
    return %1 : tensor<3xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("x")
#loc4 = loc("train.py":33:14)
#loc6 = loc(fused["train.py":12:9, "other.py":1:1])
#loc7 = loc("jit(step)/mul"(#loc6))

// CHECK:      func @main(%params_w: f32[3] {name = "params['w']"},
// CHECK-NEXT:            %x:        f32[3] {name = "x"}) -> (%loss: f32[3] {name = "result['loss']"}) {
// CHECK-NEXT:   %0 = mul %params_w, %x {name = "jit(step)/mul", loc = "train.py:12:9"} : f32[3]
// CHECK-NEXT:   %1 = exp %0 {loc = "inner.py:5:2"} : f32[3]
// CHECK-NEXT:   return %1
// CHECK-NEXT: }
// CHECK-STATS: k_mul_exp {{.*}} train.py:12:9 (jit(step)/mul)

