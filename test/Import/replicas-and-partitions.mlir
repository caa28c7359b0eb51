// Replicas and partitions together: the mesh has an axis for each; groups are read by channel and
// use_global_device_ids.
// RUN: %dtc import %s | FileCheck %s
// RUN: %dtc run %s --input '*=iota' | FileCheck %s --check-prefix=RAN
module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 3 : i32} {
  // CHECK: mesh @devices = [replica=2, partition=3]
  func.func public @main(%a: tensor<1xi32>) -> (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<3xi32>, tensor<1xi32>, tensor<1xui32>) {
    // Replicas alone, of each partition.
    // CHECK: all_reduce %a {axes = [replica]}
    %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %s = stablehlo.add %x, %y : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<1xi32>) -> tensor<1xi32>
    // Replicas with all their partitions.
    // CHECK: all_reduce %a {axes = [partition]}
    %1 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %s = stablehlo.add %x, %y : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<1xi32>) -> tensor<1xi32>
    // Devices.
    // CHECK: all_reduce %a {axes = [replica, partition]}
    %2 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 0>, replica_groups = dense<[[0, 1, 2, 3, 4, 5]]> : tensor<1x6xi64>, use_global_device_ids}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %s = stablehlo.add %x, %y : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<1xi32>) -> tensor<1xi32>
    %3 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 0>, replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>}> : (tensor<1xi32>) -> tensor<3xi32>
    // Partitions of each replica.
    %4 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 0>, source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}> : (tensor<1xi32>) -> tensor<1xi32>
    %r = stablehlo.replica_id : tensor<ui32>
    %p = stablehlo.partition_id : tensor<ui32>
    %ten = stablehlo.constant dense<10> : tensor<ui32>
    %rr = stablehlo.multiply %r, %ten : tensor<ui32>
    %id = stablehlo.add %rr, %p : tensor<ui32>
    %5 = stablehlo.reshape %id : (tensor<ui32>) -> tensor<1xui32>
    return %0, %1, %2, %3, %4, %5 : tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<3xi32>, tensor<1xi32>, tensor<1xui32>
  }
}
// RAN:      0 = [3, 5, 7, 3, 5, 7]
// RAN-NEXT: 1 = [ 3,  3,  3, 12, 12, 12]
// RAN-NEXT: 2 = [15, 15, 15, 15, 15, 15]
// RAN-NEXT: 3 = [0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5]
// RAN-NEXT: 4 = [0, 0, 1, 0, 3, 4]
// RAN-NEXT: 5 = [ 0,  1,  2, 10, 11, 12]
