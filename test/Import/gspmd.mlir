// GSPMD sharding strings imply the mesh: iota, transposed and listed tiles; replicated; one device; @Sharding.
// RUN: %dtc import %s | FileCheck %s
// (CHECK lines written by scripts/dtc-update-tests)
module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,4]<=[8]}"},
                         %arg1: tensor<16x8xf32> {mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"},
                         %arg2: tensor<8x8xf32> {mhlo.sharding = "{replicated}"},
                         %arg3: tensor<8xf32> {mhlo.sharding = "{maximal device=3}"})
      -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dims={replicated}}"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.custom_call @Sharding(%0) {backend_config = "unspecified_dims=[1]", mhlo.sharding = "{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = stablehlo.add %1, %arg2 {mhlo.sharding = "{devices=[8,1]<=[8]}"} : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// CHECK:      mesh @mesh = [x=2, y=4]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%arg0: f32[8, 16] @mesh{x, y},
// CHECK-NEXT:            %arg1: f32[16, 8] @mesh{y, _},
// CHECK-NEXT:            %arg2: f32[8, 8]  @mesh{_, _},
// CHECK-NEXT:            %arg3: f32[8]     @mesh{_}) -> (f32[8, 8] @mesh{x, _}) {
// CHECK-NEXT:   %0 = matmul %arg0, %arg1 : f32[8, 8]
// CHECK-NEXT:   %1 = shard %0 : f32[8, 8] @mesh{y, ?}
// CHECK-NEXT:   %2 = add %1, %arg2 : f32[8, 8] @mesh{(x, y), _}
// CHECK-NEXT:   return %2
// CHECK-NEXT: }
