func.func @main(%a: tensor<2xi4>) -> tensor<i8> {
  %0 = stablehlo.bitcast_convert %a : (tensor<2xi4>) -> tensor<i8>
  return %0 : tensor<i8>
}
