// Ops that become many of ours are cut as Shardy's rule of the whole op says: sorts of several, transforms, windows, scatters.
// RUN: %dtc import %s | %dtc opt - -p propagate | grep '@m' | FileCheck %s
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

// CHECK:      mesh @m = [a=2, b=2]
// CHECK-NEXT: func @sort(%k: i32[5, 4] @m{a, b}, %x: f32[5, 4] @m{a, b}) -> (i32[5, 4] @m{a, b}, f32[5, 4] @m{a, b}) {
// CHECK-NEXT:   %3 = reshard %k : i32[5, 4] @m{_, b}
// CHECK-NEXT:   %0 = argsort %3 {dim = 0, descending = true} : i32[5, 4] @m{_, b}
// CHECK-NEXT:   %4 = gather %k, %0 {dim = 0} : i32[5, 4] @m{_, b | sum(a)}
// CHECK-NEXT:   %1 = reshard %4 : i32[5, 4] @m{_, b}
// CHECK-NEXT:   %5 = gather %x, %0 {dim = 0} : f32[5, 4] @m{_, b | sum(a)}
// CHECK-NEXT:   %2 = reshard %5 : f32[5, 4] @m{_, b}
// CHECK-NEXT:   %6 = reshard %1 : i32[5, 4] @m{a, b}
// CHECK-NEXT:   %0_0 = barrier %6, %k, %x {rule = "([z_3, z_4], [z_1, z_2], [z_1, z_2])->([z_1, z_2]) {z_1=5, z_2=4, z_3=5, z_4=4} need_replication={z_1}"} : i32[5, 4] @m{a, b}
// CHECK-NEXT:   %7 = reshard %2 : f32[5, 4] @m{a, b}
// CHECK-NEXT:   %0_1 = barrier %7, %k, %x {rule = "([z_3, z_4], [z_1, z_2], [z_1, z_2])->([z_1, z_2]) {z_1=5, z_2=4, z_3=5, z_4=4} need_replication={z_1}"} : f32[5, 4] @m{a, b}
// CHECK-NEXT: func @row(%k: i32[1, 8] @m{_, a}) -> (i32[1, 8] @m{_, _}) {
// CHECK-NEXT:   %3 = reshard %k : i32[1, 8] @m{_, _}
// CHECK-NEXT:   %1 = argsort %3 {dim = 1} : i32[1, 8] @m{_, _}
// CHECK-NEXT:   %4 = gather %k, %1 {dim = 1} : i32[1, 8] @m{_, _ | sum(a)}
// CHECK-NEXT:   %2 = reshard %4 : i32[1, 8] @m{_, _}
// CHECK-NEXT:   %0 = barrier %2, %k {rule = "([z_3, z_4], [z_1, z_5])->([z_1, z_6]) {z_1=1, z_3=1, z_4=8, z_5=8, z_6=8}"} : i32[1, 8] @m{_, _}
// CHECK-NEXT: func @windows(%x: f32[3, 8] @m{b, a},
// CHECK-NEXT:               %u: f32[3, 4] @m{b, _},
// CHECK-NEXT:               %i: f32[]     @m{}) -> (f32[3, 8] @m{b, a}, c64[3, 8] @m{b, a}) {
// CHECK-NEXT:   %3 = broadcast %i {shape = [3, 8]} : f32[3, 8] @m{_, _}
// CHECK-NEXT:   %66 = reshard %x : f32[3, 8] @m{_, a}
// CHECK-NEXT:   %4 = reshape %66 {shape = [24]} : f32[24] @m{(3, a)}
// CHECK-NEXT:   %5 = iota {dim = 1} : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %6 = mul %5, 2 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %7 = add %6, 0 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %8 = ge %7, 0 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %9 = lt %7, 8 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %10 = and %8, %9 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %11 = mul %7, 1 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %12 = iota : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %13 = mul %12, 1 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %14 = add %13, 0 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %15 = ge %14, 0 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %16 = lt %14, 3 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %17 = and %15, %16 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %18 = mul %14, 8 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %19 = add %11, %18 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %20 = and %10, %17 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %21 = select %20, %19, 0 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %67 = reshard %4 : f32[24] @m{_}
// CHECK-NEXT:   %22 = index_select %67, %21 {dim = 0} : f32[3, 4] @m{_, _}
// CHECK-NEXT:   %23 = select %20, %21, -1 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %24 = iota {dim = 1} : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %25 = mul %24, 2 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %26 = add %25, 1 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %27 = ge %26, 0 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %28 = lt %26, 8 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %29 = and %27, %28 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %30 = mul %26, 1 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %31 = iota : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %32 = mul %31, 1 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %33 = add %32, 0 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %34 = ge %33, 0 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %35 = lt %33, 3 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %36 = and %34, %35 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %37 = mul %33, 8 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %38 = add %30, %37 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %39 = and %29, %36 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %40 = select %39, %38, 0 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %41 = index_select %67, %40 {dim = 0} : f32[3, 4] @m{_, _}
// CHECK-NEXT:   %1 = ge %22, %41 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %42 = lt %23, 0 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %43 = not %1 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %44 = or %42, %43 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %45 = and %39, %44 : bool[3, 4] @m{_, _}
// CHECK-NEXT:   %46 = select %45, %41, %22 : f32[3, 4] @m{_, _}
// CHECK-NEXT:   %47 = select %45, %40, %23 : i32[3, 4] @m{_, _}
// CHECK-NEXT:   %48 = reshape %47 {shape = [12]} : i32[12] @m{_}
// CHECK-NEXT:   %68 = reshard %u : f32[3, 4] @m{_, _}
// CHECK-NEXT:   %49 = reshape %68 {shape = [12]} : f32[12] @m{_}
// CHECK-NEXT:   %50 = reshape %3 {shape = [24]} : f32[24] @m{_}
// CHECK-NEXT:   %51 = scatter_slices %50, %48, %49 {inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1, reduce = "sum"} : f32[24] @m{_}
// CHECK-NEXT:   %52 = reshape %51 {shape = [3, 8]} : f32[3, 8] @m{_, _}
// CHECK-NEXT:   %69 = reshard %52 : f32[3, 8] @m{b, a}
// CHECK-NEXT:   %0 = barrier %69, %x, %u, %i {rule = "([z_3, z_4], [z_1, z_2], [z_1, z_5], [])->([z_1, z_2]) {z_1=3, z_2=8, z_3=3, z_4=8, z_5=4}"} : f32[3, 8] @m{b, a}
// CHECK-NEXT:   %c = complex %x, %x : c64[3, 8] @m{b, a}
// CHECK-NEXT:   %53 = reshape %c {shape = [1, 3, 8]} : c64[1, 3, 8] @m{_, b, a}
// CHECK-NEXT:   %54 = real %53 : f32[1, 3, 8] @m{_, b, a}
// CHECK-NEXT:   %55 = imag %53 : f32[1, 3, 8] @m{_, b, a}
// CHECK-NEXT:   %70 = constant {value = "0x0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803ff304353f32318d24f30435bf000080bff30435bfcac953a5f304353f0000803f32318d24000080bfcac953a50000803f32318d24000080bfcac953a50000803ff30435bfcac953a5f304353f000080bff304353f32318d24f30435bf0000803f000080bf0000803f000080bf0000803f000080bf0000803f000080bf0000803ff30435bf32318d24f304353f000080bff304353fcac953a5f30435bf0000803fcac953a5000080bf32318d240000803fcac953a5000080bf32318d240000803ff304353fcac953a5f30435bf000080bff30435bf32318d24f304353f"} : f32[8, 8] @m{_, _}
// CHECK-NEXT:   %56 = reshard %70 : f32[8, 8] @m{a, _}
// CHECK-NEXT:   %71 = reshard %70 : f32[8, 8] @m{a, _}
// CHECK-NEXT:   %72 = constant {value = "0x000000800000008000000080000000800000008000000080000000800000008000000080f30435bf000080bff30435bf32310da5f304353f0000803ff304353f00000080000080bf32310da50000803f00000080000080bf32310da50000803f00000080f30435bf0000803ff30435bf32310da5f304353f000080bff304353f0000008032310da50000008032310da50000008032310da50000008032310da500000080f304353f000080bff304353f32310da5f30435bf0000803ff30435bf000000800000803f32310da5000080bf000000800000803f32310da5000080bf00000080f304353f0000803ff304353f32310da5f30435bf000080bff30435bf"} : f32[8, 8] @m{_, _}
// CHECK-NEXT:   %57 = reshard %72 : f32[8, 8] @m{a, _}
// CHECK-NEXT:   %73 = reshard %72 : f32[8, 8] @m{a, _}
// CHECK-NEXT:   %58 = matmul %54, %56 : f32[1, 3, 8] @m{_, b, _ | sum(a)}
// CHECK-NEXT:   %59 = matmul %55, %57 : f32[1, 3, 8] @m{_, b, _ | sum(a)}
// CHECK-NEXT:   %74 = sub %58, %59 : f32[1, 3, 8] @m{_, b, _ | sum(a)}
// CHECK-NEXT:   %60 = reshard %74 : f32[1, 3, 8] @m{_, b, _}
// CHECK-NEXT:   %61 = matmul %54, %73 : f32[1, 3, 8] @m{_, b, _ | sum(a)}
// CHECK-NEXT:   %62 = matmul %55, %71 : f32[1, 3, 8] @m{_, b, _ | sum(a)}
// CHECK-NEXT:   %75 = add %61, %62 : f32[1, 3, 8] @m{_, b, _ | sum(a)}
// CHECK-NEXT:   %63 = reshard %75 : f32[1, 3, 8] @m{_, b, _}
// CHECK-NEXT:   %64 = complex %60, %63 : c64[1, 3, 8] @m{_, b, _}
// CHECK-NEXT:   %65 = reshape %64 {shape = [3, 8]} : c64[3, 8] @m{b, _}
// CHECK-NEXT:   %76 = reshard %65 : c64[3, 8] @m{b, a}
// CHECK-NEXT:   %2 = barrier %76, %c {rule = "([z_3, z_4], [z_1, z_2])->([z_1, z_2]) {z_1=3, z_2=8, z_3=3, z_4=8} need_replication={z_2}"} : c64[3, 8] @m{b, a}
// CHECK-NEXT: func @calls(%x: f32[4, 6, 3] @m{a, _, b},
// CHECK-NEXT:             %l: u32[4, 6]    @m{b, _},
// CHECK-NEXT:             %h: u32[4, 6]    @m{b, _}) -> (f32[4, 6, 3] @m{a, _, b}, f32[4, 3] @m{a, _}, u64[4, 6] @m{b, _}) {
// CHECK-NEXT:   %4 = reshard %x : f32[4, 6, 3] @m{_, _, _}
// CHECK-NEXT:   %5, %6 = custom %4 {target = "Qr", rule = "([z_1, z_2, z_3])->([z_1, z_2, z_3], [z_1, z_4]) {z_1=4, z_2=6, z_3=3, z_4=3}"} : f32[4, 6, 3] @m{_, _, _}, f32[4, 3] @m{_, _}
// CHECK-NEXT:   %0_0 = reshard %5 : f32[4, 6, 3] @m{a, _, b}
// CHECK-NEXT:   %0_1 = reshard %6 : f32[4, 3] @m{a, _}
// CHECK-NEXT:   %0 = convert %l {dtype = u64} : u64[4, 6] @m{b, _}
// CHECK-NEXT:   %2 = convert %h {dtype = u64} : u64[4, 6] @m{b, _}
// CHECK-NEXT:   %3 = shl %2, 32 : u64[4, 6] @m{b, _}
// CHECK-NEXT:   %1 = or %3, %0 : u64[4, 6] @m{b, _}
