func.func public @main(%a: tensor<1xi32>) -> tensor<2xi32> {
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>]>, axes = [#stablehlo.axis_ref<name = "z">]>}> : (tensor<1xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
