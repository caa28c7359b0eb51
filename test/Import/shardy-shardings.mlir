// Meshes with an order of devices, open and closed dims, sub-axes, priorities, replicated and unreduced axes; aliases; the generic form.
// RUN: %dtc import %s | FileCheck %s
// (CHECK lines written by scripts/dtc-update-tests)
#by_rows = #sdy.sharding<@grid, [{"x"}, {}]>
sdy.mesh @grid = <["x"=2, "y"=4], device_ids=[0, 2, 4, 6, 1, 3, 5, 7]>
"sdy.mesh"() <{mesh = #sdy.mesh<["z"=3]>, sym_name = "line"}> : () -> ()
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #by_rows},
                %b: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y":(1)2, ?}p1, {"x"}p0], replicated={"y":(2)2}>},
                %c: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}], unreduced={"y"}>})
    -> (tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}, {?}]>}) {
  %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"y"}]>]>} : tensor<8x12xf32>
  %1 = sdy.sharding_constraint %0 <@grid, [{"x"}, {?}]> : tensor<8x12xf32>
  %2 = sdy.reshard %1 <@grid, [{}, {"x"}]> : tensor<8x12xf32>
  sdy.sharding_group %2 group_id=7 : tensor<8x12xf32>
  %3 = sdy.propagation_barrier %2 allowed_direction=FORWARD : tensor<8x12xf32>
  return %3 : tensor<8x12xf32>
}

// CHECK:      mesh @grid = [x=2, y=4] {devices = [0, 2, 4, 6, 1, 3, 5, 7]}
// CHECK-NEXT: mesh @line = [z=3]
// CHECK-EMPTY:
// CHECK-NEXT: func @main(%a: f32[8, 12] @grid{x, _},
// CHECK-NEXT:            %b: f32[8, 12] @grid{y:(1)2? p1, x p0 | rep(y:(2)2)},
// CHECK-NEXT:            %c: f32[8]     @grid{_ | sum(y)}) -> (f32[8, 12] @grid{(x, y), ?}) {mesh = @grid} {
// CHECK-NEXT:   %0 = add %a, %b : f32[8, 12] @grid{?, y}
// CHECK-NEXT:   %1 = shard %0 : f32[8, 12] @grid{x, ?}
// CHECK-NEXT:   %2 = reshard %1 : f32[8, 12] @grid{_, x}
// CHECK-NEXT:   %4 = shard %2 {group = 7} : f32[8, 12]
// CHECK-NEXT:   %3 = barrier %4 {direction = "backward"} : f32[8, 12]
// CHECK-NEXT:   return %3
// CHECK-NEXT: }
