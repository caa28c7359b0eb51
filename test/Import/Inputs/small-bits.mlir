func.func @main(%a: tensor<2xf8E4M3>) -> tensor<2xi8> {
  %0 = stablehlo.bitcast_convert %a : (tensor<2xf8E4M3>) -> tensor<2xi8>
  return %0 : tensor<2xi8>
}
