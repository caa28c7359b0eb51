#include "vhlo/Encodings.h"

#include <algorithm>

namespace dtc {

namespace {

using enum BcKind;

constexpr BcEncoding kBuiltinAttrs[] = {
    {0, List, "A"},       {1, Dict, "D"},        {2, String, "s"},   {3, String, "st"},  {4, Symbol, "a"},
    {5, Symbol, "aA"},    {6, TypeRef, "t"},     {7, Unit, ""},      {8, Integer, "tn"}, {9, Float, "tn"},
    {10, CallSite, "aa"}, {11, FileLine, "avv"}, {12, Fused, "A"},   {13, Fused, "Aa"},  {14, Name, "aa"},
    {15, Unknown, ""},    {16, Resource, "tr"},  {17, Array, "tvb"}, {18, Tensor, "tb"}, {22, FileLine, "aV"},
};

constexpr BcEncoding kBuiltinTypes[] = {
    {0, Element, "v"}, // bits << 2 | signedness
    {1, Element, "", "index", {}, 64},
    {2, Function, "TT"},
    {3, Element, "", "bf16", {}, 16},
    {4, Element, "", "f16", {}, 16},
    {5, Element, "", "f32", {}, 32},
    {6, Element, "", "f64", {}, 64},
    {9, Complex, "t"},
    {12, None, ""},
    {13, Ranked, "It"},
    {14, Ranked, "aIt"},
    {15, Tuple, "T"},
    {18, Unranked, "t"},
};

constexpr BcEncoding kVhloAttrs[] = {
    {1, List, "A"},
    {2, Bool, "v"},
    {3, Enum, "v", "comparison_direction", "EQ NE GE GT LE LT"},
    {4, Enum, "v", "comparison_type", "NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED"},
    {5, Enum, "v", "", "0 1 2 3 4"},
    {6, Dict, "D"},
    {7, Enum, "v", "fft_type", "FFT IFFT RFFT IRFFT"},
    {8, Float, "tn"},
    {9, Integer, "tn"},
    {10, OutputAlias, "IiI"},
    {11, Enum, "v", "precision", "DEFAULT HIGH HIGHEST"},
    {12, Enum, "v", "rng_algorithm", "DEFAULT THREE_FRY PHILOX"},
    {13, Enum, "v", "rng_distribution", "- UNIFORM NORMAL"},
    {14, String, "s"},
    {15, Tensor, "tb"},
    {16, Enum, "v", "transpose", "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT"},
    {17, TypeRef, "t"},
    {18, Bounds, "I"},
    {19, Enum, "v", "result_accuracy_mode", "DEFAULT HIGHEST TOLERANCE"},
    {20, Accuracy, "ddia"},
    {21, MeshPart, "ii", "sub_axis_info"},
    {22, MeshPart, "aO", "axis_ref"},
    {23, MeshPart, "aa", "replica_group_mesh_axes"},
    {24, MeshPart, "ai", "mesh_axis"},
    {25, MeshPart, "ao", "mesh"},
};

constexpr BcEncoding kVhloTypes[] = {
    {0, Element, "", "i1", {}, 1},
    {1, Complex, "t"},
    {2, Element, "", "bf16", {}, 16},
    {3, Element, "", "f16", {}, 16},
    {4, Element, "", "f32", {}, 32},
    {5, Element, "", "f64", {}, 64},
    {6, Element, "", "f8E4M3FN", {}, 8},
    {7, Element, "", "f8E5M2", {}, 8},
    {8, Function, "TT"},
    {9, Element, "", "index", {}, 64},
    {10, Element, "", "i4", {}, 4},
    {11, Element, "", "i8", {}, 8},
    {12, Element, "", "i16", {}, 16},
    {13, Element, "", "i32", {}, 32},
    {14, Element, "", "i64", {}, 64},
    {15, Element, "", "ui4", {}, 4},
    {16, Element, "", "ui8", {}, 8},
    {17, Element, "", "ui16", {}, 16},
    {18, Element, "", "ui32", {}, 32},
    {19, Element, "", "ui64", {}, 64},
    {20, Ranked, "It"},
    {21, Ranked, "aIt"},
    {22, Token, ""},
    {23, Tuple, "T"},
    {24, Other, "vttdiii"},
    {25, Unranked, "t"},
    {26, Other, ""},
    {27, Element, "", "f8E4M3FNUZ", {}, 8},
    {28, Element, "", "f8E5M2FNUZ", {}, 8},
    {29, Element, "", "f8E4M3B11FNUZ", {}, 8},
    {31, Element, "", "i2", {}, 2},
    {32, Element, "", "ui2", {}, 2},
    {33, None, ""},
    {34, Element, "", "tf32", {}, 19},
    {35, Element, "", "f8E4M3", {}, 8},
    {36, Element, "", "f8E3M4", {}, 8},
    {37, Element, "", "f4E2M1FN", {}, 4},
    {38, Element, "", "f6E2M3FN", {}, 6},
    {39, Element, "", "f6E3M2FN", {}, 6},
    {40, Element, "", "f8E8M0FNU", {}, 8},
    {41, Buffer, "It"},
    {42, Future, "T"},
};

constexpr BcEncoding kShardyAttrs[] = {
    {0, Shardy, "A", "manual_axes"},
    {1, Shardy, "si", "axis"},
    {2, Shardy, "AI", "mesh"},
    {3, Shardy, "ii", "sub_axis"},
    {4, Shardy, "so", "axis_ref"},
    {5, Shardy, "Ayw", "dim"},
    {6, Shardy, "aLL", "sharding"},
    {7, Shardy, "A", "sharding_per_value"},
    {8, Shardy, "I", "dim_mapping"},
    {9, Shardy, "A", "tensor_mapping"},
    {10, Shardy, "ILLIIIIy", "op_sharding_rule"},
    {11, Shardy, "A", "axis_ref_list"},
    {12, Shardy, "A", "list_of_axis_ref_lists"},
    {13, Shardy, "Aii", "all_to_all_param"},
    {14, Shardy, "A", "all_to_all_param_list"},
    {15, Shardy, "aLLL", "sharding"},
    {16, Shardy, "A", "sharding_per_value"},
    {17, Shardy, "aLLLi", "sharding"},
};

constexpr BcEncoding kStablehloTypes[] = {{0, Token, ""}}; // of ops of Shardy

constexpr BcDialect kBcDialects[] = {{"builtin", kBuiltinAttrs, kBuiltinTypes},
                                     {"vhlo", kVhloAttrs, kVhloTypes},
                                     {"sdy", kShardyAttrs, {}},
                                     {"stablehlo", {}, kStablehloTypes}};

constexpr BcEncoding kTextRow{0, Text, ""};

constexpr std::string_view kConvolution =
    "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
    "input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension "
    "kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension "
    "output_spatial_dimensions padding precision_config rhs_dilation window_reversal window_strides";

// In alphabetical order, and so are the attributes. Ops without attributes are absent.
constexpr BcOpRow kOps[] = {
    {"builtin.module", "sym_name? sym_visibility?"},
    {"sdy.all_gather", "gathering_axes out_sharding"},
    {"sdy.all_reduce", "out_sharding reduction_axes"},
    {"sdy.all_slice", "out_sharding slicing_axes"},
    {"sdy.all_to_all", "out_sharding params"},
    {"sdy.collective_permute", "out_sharding"},
    {"sdy.constant", "value"},
    {"sdy.data_flow_edge", "sharding?"},
    {"sdy.manual_computation", "in_shardings manual_axes out_shardings"},
    {"sdy.mesh", "mesh sym_name"},
    {"sdy.named_computation", "in_shardings? name out_shardings?"},
    {"sdy.propagation_barrier", "allowed_direction"},
    {"sdy.reduce_scatter", "out_sharding reduce_scatter_axes"},
    {"sdy.reshard", "sharding"},
    {"sdy.sharding_constraint", "sharding"},
    {"sdy.sharding_group", "group_id"},
    {"vhlo.all_gather_v1", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_gather_v2", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_reduce_v1", "channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_reduce_v2", "channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_to_all_v1", "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"vhlo.all_to_all_v2", "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"vhlo.batch_norm_grad_v1", "epsilon feature_index"},
    {"vhlo.batch_norm_inference_v1", "epsilon feature_index"},
    {"vhlo.batch_norm_training_v1", "epsilon feature_index"},
    {"vhlo.broadcast_in_dim_v1", "broadcast_dimensions"},
    {"vhlo.broadcast_v1", "broadcast_sizes"},
    {"vhlo.call_v1", "callee"},
    {"vhlo.cbrt_v2", "result_accuracy"},
    {"vhlo.cholesky_v1", "lower"},
    {"vhlo.collective_broadcast_v1", "channel_id replica_groups"},
    {"vhlo.collective_broadcast_v2", "channel_id has_dynamic_root replica_groups"},
    {"vhlo.collective_permute_v1", "channel_id source_target_pairs"},
    {"vhlo.collective_reduce_v1", "channel_id has_dynamic_root replica_groups use_global_device_ids"},
    {"vhlo.compare_v1", "compare_type comparison_direction"},
    {"vhlo.composite_v1", "composite_attributes decomposition name version"},
    {"vhlo.composite_v2", "composite_attributes decomposition name version"},
    {"vhlo.concatenate_v1", "dimension"},
    {"vhlo.constant_v1", "value"},
    {"vhlo.convolution_v1", kConvolution},
    {"vhlo.cosine_v2", "result_accuracy"},
    {"vhlo.cross-replica-sum_v1", "replica_groups"},
    {"vhlo.custom_call_v1", "api_version backend_config call_target_name called_computations has_side_effect "
                            "operand_layouts output_operand_aliases result_layouts"},
    {"vhlo.custom_call_v2", "api_version backend_config call_target_name called_computations has_side_effect "
                            "operand_layouts output_operand_aliases result_layouts result_tilings"},
    {"vhlo.dot_general_v1", "lhs_batching_dimensions lhs_contracting_dimensions precision_config "
                            "rhs_batching_dimensions rhs_contracting_dimensions"},
    {"vhlo.dot_general_v2",
     "accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count "
     "lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config "
     "rhs_batching_dimensions rhs_component_count rhs_contracting_dimensions rhs_precision_type"},
    {"vhlo.dot_v1", "precision_config"},
    {"vhlo.dynamic_broadcast_in_dim_v1",
     "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions"},
    {"vhlo.dynamic_conv_v1", kConvolution},
    {"vhlo.dynamic_gather_v1",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims start_index_map"},
    {"vhlo.dynamic_gather_v2", "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims "
                               "operand_batching_dims start_index_map start_indices_batching_dims"},
    {"vhlo.dynamic_iota_v1", "iota_dimension"},
    {"vhlo.dynamic_slice_v1", "slice_sizes"},
    {"vhlo.einsum_v1", "einsum_config"},
    {"vhlo.exponential_minus_one_v2", "result_accuracy"},
    {"vhlo.exponential_v2", "result_accuracy"},
    {"vhlo.fft_v1", "fft_length fft_type"},
    {"vhlo.func_v1", "arg_attrs function_type res_attrs sym_name sym_visibility"},
    {"vhlo.gather_v1",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes start_index_map"},
    {"vhlo.gather_v2", "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims "
                       "operand_batching_dims slice_sizes start_index_map start_indices_batching_dims"},
    {"vhlo.get_dimension_size_v1", "dimension"},
    {"vhlo.get_tuple_element_v1", "index"},
    {"vhlo.infeed_v1", "infeed_config layout"},
    {"vhlo.iota_v1", "iota_dimension"},
    {"vhlo.log_plus_one_v2", "result_accuracy"},
    {"vhlo.log_v2", "result_accuracy"},
    {"vhlo.logistic_v2", "result_accuracy"},
    {"vhlo.map_v1", "dimensions"},
    {"vhlo.outfeed_v1", "outfeed_config"},
    {"vhlo.pad_v1", "edge_padding_high edge_padding_low interior_padding"},
    {"vhlo.recv_v1", "channel_id channel_type is_host_transfer"},
    {"vhlo.recv_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"vhlo.reduce_precision_v1", "exponent_bits mantissa_bits"},
    {"vhlo.reduce_scatter_v1", "channel_id replica_groups scatter_dimension use_global_device_ids"},
    {"vhlo.reduce_v1", "dimensions"},
    {"vhlo.reduce_window_v1", "base_dilations padding window_dilations window_dimensions window_strides"},
    {"vhlo.reverse_v1", "dimensions"},
    {"vhlo.rng_bit_generator_v1", "rng_algorithm"},
    {"vhlo.rng_v1", "rng_distribution"},
    {"vhlo.rsqrt_v2", "result_accuracy"},
    {"vhlo.scatter_v1", "index_vector_dim indices_are_sorted inserted_window_dims "
                        "scatter_dims_to_operand_dims unique_indices update_window_dims"},
    {"vhlo.scatter_v2",
     "index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims "
     "scatter_dims_to_operand_dims scatter_indices_batching_dims unique_indices update_window_dims"},
    {"vhlo.select_and_scatter_v1", "padding window_dimensions window_strides"},
    {"vhlo.send_v1", "channel_id channel_type is_host_transfer"},
    {"vhlo.send_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"vhlo.set_dimension_size_v1", "dimension"},
    {"vhlo.sine_v2", "result_accuracy"},
    {"vhlo.slice_v1", "limit_indices start_indices strides"},
    {"vhlo.sort_v1", "dimension is_stable"},
    {"vhlo.sqrt_v2", "result_accuracy"},
    {"vhlo.tan_v2", "result_accuracy"},
    {"vhlo.tanh_v2", "result_accuracy"},
    {"vhlo.torch_index_select_v1", "batch_dims dim"},
    {"vhlo.transpose_v1", "permutation"},
    {"vhlo.triangular_solve_v1", "left_side lower transpose_a unit_diagonal"},
    {"vhlo.unary_einsum_v1", "einsum_config"},
};
static_assert(std::ranges::is_sorted(kOps, {}, &BcOpRow::op));

} // namespace

const BcDialect* findBcDialect(std::string_view name) {
  const auto* found = std::ranges::find(kBcDialects, name, &BcDialect::name);
  return found == std::end(kBcDialects) ? nullptr : found;
}

const BcEncoding& bcTextRow() { return kTextRow; }

const BcOpRow* findBcOp(std::string_view op) {
  const auto* found = std::ranges::lower_bound(kOps, op, {}, &BcOpRow::op);
  return found == std::end(kOps) || found->op != op ? nullptr : found;
}

} // namespace dtc
