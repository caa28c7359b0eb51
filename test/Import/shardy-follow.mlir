// Ops that are imported as several ops are sharded by Shardy's rule of the op: sorts, FFTs, windows, scatters.
// RUN: %dtc import %s | %dtc opt - -p propagate | grep -e func -e ' -> ' -e barrier | FileCheck %s
// RUN: %dtc import %s | %dtc run - --entry @sort --input '*=iota' --check
// RUN: %dtc import %s | %dtc run - --entry @windows --input '*=randn(1)' --check
// (CHECK lines written by scripts/dtc-update-tests)
sdy.mesh @m = <["a"=2, "b"=2]>

func.func @sort(%k: tensor<5x4xi32> {sdy.sharding = #sdy.sharding<@m, [{"a", ?}, {"b", ?}]>}, %x: tensor<5x4xf32>) -> (tensor<5x4xi32>, tensor<5x4xf32>) {
  %0:2 = "stablehlo.sort"(%k, %x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<f32>):
    %1 = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<5x4xi32>, tensor<5x4xf32>) -> (tensor<5x4xi32>, tensor<5x4xf32>)
  return %0#0, %0#1 : tensor<5x4xi32>, tensor<5x4xf32>
}

// Where all other dims are 1, the sorted one is not followed.
func.func @row(%k: tensor<1x8xi32> {sdy.sharding = #sdy.sharding<@m, [{?}, {"a", ?}]>}) -> tensor<1x8xi32> {
  %0 = "stablehlo.sort"(%k) <{dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<1x8xi32>) -> tensor<1x8xi32>
  return %0 : tensor<1x8xi32>
}

func.func @windows(%x: tensor<3x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"b", ?}, {"a", ?}]>}, %u: tensor<3x4xf32>, %i: tensor<f32>) -> (tensor<3x8xf32>, tensor<3x8xcomplex<f32>>) {
  %0 = "stablehlo.select_and_scatter"(%x, %u, %i) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<3x8xf32>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x8xf32>
  %c = stablehlo.complex %x, %x : tensor<3x8xcomplex<f32>>
  %2 = stablehlo.fft %c, type = FFT, length = [8] : (tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>>
  return %0, %2 : tensor<3x8xf32>, tensor<3x8xcomplex<f32>>
}

// What is known of a call but how it is computed.
func.func @calls(%x: tensor<4x6x3xf32> {sdy.sharding = #sdy.sharding<@m, [{"a", ?}, {?}, {"b", ?}]>}, %l: tensor<4x6xui32> {sdy.sharding = #sdy.sharding<@m, [{"b", ?}, {?}]>}, %h: tensor<4x6xui32>) -> (tensor<4x6x3xf32>, tensor<4x3xf32>, tensor<4x6xui64>) {
  %0:2 = stablehlo.custom_call @Qr(%x) : (tensor<4x6x3xf32>) -> (tensor<4x6x3xf32>, tensor<4x3xf32>)
  %1 = stablehlo.custom_call @X64Combine(%l, %h) : (tensor<4x6xui32>, tensor<4x6xui32>) -> tensor<4x6xui64>
  return %0#0, %0#1, %1 : tensor<4x6x3xf32>, tensor<4x3xf32>, tensor<4x6xui64>
}

// CHECK:      func @sort(%k: i32[5, 4] @m{a, b}, %x: f32[5, 4] @m{a, b}) -> (i32[5, 4] @m{a, b}, f32[5, 4] @m{a, b}) {
// CHECK-NEXT:   %0_0 = barrier %1, %k, %x {rule = "([z_3, z_4], [z_1, z_2], [z_1, z_2])->([z_1, z_2]) {z_1=5, z_2=4, z_3=5, z_4=4} need_replication={z_1}"} : i32[5, 4] @m{a, b}
// CHECK-NEXT:   %0_1 = barrier %2, %k, %x {rule = "([z_3, z_4], [z_1, z_2], [z_1, z_2])->([z_1, z_2]) {z_1=5, z_2=4, z_3=5, z_4=4} need_replication={z_1}"} : f32[5, 4] @m{a, b}
// CHECK-NEXT: func @row(%k: i32[1, 8] @m{_, a}) -> (i32[1, 8] @m{_, _}) {
// CHECK-NEXT:   %0 = barrier %5, %k {rule = "([z_3, z_4], [z_1, z_5])->([z_1, z_6]) {z_1=1, z_3=1, z_4=8, z_5=8, z_6=8}"} : i32[1, 8] @m{_, _}
// CHECK-NEXT: func @windows(%x: f32[3, 8] @m{b, a},
// CHECK-NEXT:               %i: f32[]     @m{}) -> (f32[3, 8] @m{b, a}, c64[3, 8] @m{b, a}) {
// CHECK-NEXT:   %0 = barrier %67, %x, %u, %i {rule = "([z_3, z_4], [z_1, z_2], [z_1, z_5], [])->([z_1, z_2]) {z_1=3, z_2=8, z_3=3, z_4=8, z_5=4}"} : f32[3, 8] @m{b, a}
// CHECK-NEXT:   %2 = barrier %74, %c {rule = "([z_3, z_4], [z_1, z_2])->([z_1, z_2]) {z_1=3, z_2=8, z_3=3, z_4=8} need_replication={z_2}"} : c64[3, 8] @m{b, a}
// CHECK-NEXT: func @calls(%x: f32[4, 6, 3] @m{a, _, b},
// CHECK-NEXT:             %h: u32[4, 6]    @m{b, _}) -> (f32[4, 6, 3] @m{a, _, b}, f32[4, 3] @m{a, _}, u64[4, 6] @m{b, _}) {
