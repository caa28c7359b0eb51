// The values of a sharding group have one sharding from there on, also if only one of them is used later.
// RUN: %dtc import %s | %dtc-opt - -p canonicalize,propagate | FileCheck %s
// RUN: %dtc import %s | %dtc run - --input '*=randn(1)' --check
sdy.mesh @mesh = <["x"=2]>
// CHECK: -> (f32[8] @mesh{x}, f32[8] @mesh{x})
// CHECK: %n = iota : f32[8] @mesh{x}
// CHECK: reshard %b : f32[8] @mesh{x}
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %n = stablehlo.iota dim = 0 : tensor<8xf32>
  sdy.sharding_group %a group_id=0 : tensor<8xf32>
  sdy.sharding_group %b group_id=0 : tensor<8xf32>
  sdy.sharding_group %n group_id=0 : tensor<8xf32>
  return %b, %n : tensor<8xf32>, tensor<8xf32>
}
