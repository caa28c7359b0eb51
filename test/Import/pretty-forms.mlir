// The pretty forms of several years: long and short reduce, and each op as JAX prints it.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc import %s | %dtc opt - | FileCheck %s
// RUN: %dtc run %s --input '*=randn(1)' --check
// (CHECK lines written by scripts/dtc-update-tests)
#loc = loc(unknown)
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32> {mhlo.layout_mode = "default", tf.aliasing_output = 0 : i32} loc("x"), %arg1: tensor<4xf32> {jax.buffer_donor = true}) -> (tensor<3x4xf32> {jax.result_info = "result['y']"}, tensor<5x8xf32> {jax.result_info = "[1]"}) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<3x4xf32> loc(#loc7)
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.compare  GT, %1, %arg0,  FLOAT : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
    %3 = stablehlo.select %2, %1, %arg0 : tensor<3x4xi1>, tensor<3x4xf32>
    %4 = stablehlo.slice %3 [0:2, 1:4:2] : (tensor<3x4xf32>) -> tensor<2x2xf32>
    %5 = stablehlo.pad %4, %cst, low = [0, -1], high = [1, 5], interior = [1, 1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<4x7xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<4x7xf32>) -> tensor<7x4xf32>
    %7 = stablehlo.dot_general %arg0, %6, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<7x4xf32>) -> tensor<3x7xf32>
    %8 = stablehlo.reshape %7 : (tensor<3x7xf32>) -> tensor<21xf32>
    %9 = stablehlo.iota dim = 0 : tensor<19xf32>
    %10 = stablehlo.concatenate %8, %9, dim = 0 : (tensor<21xf32>, tensor<19xf32>) -> tensor<40xf32>
    %11 = stablehlo.reverse %10, dims = [0] : tensor<40xf32>
    %12 = stablehlo.reshape %11 : (tensor<40xf32>) -> tensor<5x8xf32>
    %13 = stablehlo.clamp %cst, %12, %cst : (tensor<f32>, tensor<5x8xf32>, tensor<f32>) -> tensor<5x8xf32>
    return %3, %13 : tensor<3x4xf32>, tensor<5x8xf32>
  }
}
#loc5 = loc("model.py":12:9 to :17)
#loc7 = loc("jit(f)/add"(#loc5))

// CHECK:      func @main(%x:    f32[3, 4] {name = "x", donate = true},
// CHECK-NEXT:            %arg1: f32[4]    {donate = true})
// CHECK-NEXT:     -> (%x: f32[3, 4] {carry = true, name = "result['y']"}, %result_1: f32[5, 8] {name = "[1]"}) {
// CHECK-NEXT:   %0 = broadcast %arg1 {shape = [3, 4]} : f32[3, 4]
// CHECK-NEXT:   %1 = add %x, %0 {name = "jit(f)/add", loc = "model.py:12:9"} : f32[3, 4]
// CHECK-NEXT:   %cst = constant {value = 0.0} : f32[]
// CHECK-NEXT:   %2 = gt %1, %x : bool[3, 4]
// CHECK-NEXT:   %3 = select %2, %1, %x : f32[3, 4]
// CHECK-NEXT:   %4 = slice %3 {start = [0, 1], limit = [2, 4], stride = [1, 2]} : f32[2, 2]
// CHECK-NEXT:   %5 = pad %4, %cst {low = [0, -1], high = [1, 5], interior = [1, 1]} : f32[4, 7]
// CHECK-NEXT:   %6 = transpose %5 {perm = [1, 0]} : f32[7, 4]
// CHECK-NEXT:   %7 = matmul %x, %6 {transpose_b = true} : f32[3, 7]
// CHECK-NEXT:   %8 = reshape %7 {shape = [21]} : f32[21]
// CHECK-NEXT:   %9 = iota : f32[19]
// CHECK-NEXT:   %10 = concat %8, %9 {dim = 0} : f32[40]
// CHECK-NEXT:   %11 = flip %10 {dims = [0]} : f32[40]
// CHECK-NEXT:   %12 = reshape %11 {shape = [5, 8]} : f32[5, 8]
// CHECK-NEXT:   %13 = clamp %12, %cst, %cst : f32[5, 8]
// CHECK-NEXT:   return %3, %13
// CHECK-NEXT: }
