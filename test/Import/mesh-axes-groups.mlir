// Replica groups given by mesh axes and sub-axes.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=iota' | FileCheck %s --check-prefix=RAN
// RUN: not %dtc import %S/Inputs/mesh-axes-unknown.mlir 2>&1 | FileCheck %s --check-prefix=BAD
// CHECK: mesh @devices = [device=8]
func.func public @main(%a: tensor<1xi32>) -> (tensor<1xi32>, tensor<4xi32>) {
  // Of y = 4 the more major half, along each x.
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>, #stablehlo.mesh_axis<name = "y", size = 4>]>, axes = [#stablehlo.axis_ref<name = "y", sub_axis_info = (1)2>]>}> ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %s = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<1xi32>) -> tensor<1xi32>
  %1 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>, #stablehlo.mesh_axis<name = "y", size = 4>]>, axes = [#stablehlo.axis_ref<name = "x">, #stablehlo.axis_ref<name = "y", sub_axis_info = (2)2>]>}> : (tensor<1xi32>) -> tensor<4xi32>
  return %0, %1 : tensor<1xi32>, tensor<4xi32>
}
// RAN:      0 = [ 2,  4,  2,  4, 10, 12, 10, 12]
// RAN-NEXT: 1 = [0, 1, 4, 5, 0, 1, 4, 5, 2, 3, 6, 7, 2, 3, 6, 7, 0, 1, 4, 5, 0, 1, 4, 5, 2, 3, 6, 7, 2, 3, 6, 7]
// BAD: which names axes that its mesh does not have
