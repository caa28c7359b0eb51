#include "aten/Table.h"

#include "dtc/Support/Diagnostics.h"

#include <algorithm>
#include <unordered_map>

namespace dtc {
namespace {

using RowMap = std::unordered_map<std::string_view, const ImportRow*>;

const RowMap& rowMap() {
  static const RowMap map = [] {
    RowMap out;
    for (ImportRows rows :
         {torchPointwiseRows(), torchSpecialRows(),   torchCreateRows(),   torchShapeRows(),
          torchSliceRows(),     torchReduceRows(),    torchSortRows(),     torchIndexRows(),
          torchContractRows(),  torchNormRows(),      torchWindowRows(),   torchLossRows(),
          torchGradientRows(),  torchControlRows(),   torchLinalgRows(),   torchLuRows(),
          torchEigenRows(),     torchPairRows(),      torchBagRows(),      torchFourierRows(),
          torchMiscRows(),      torchRecurrentRows(), torchBackwardRows(), torchDistributedRows(),
          torchBesselRows(),    torchSegmentRows(),   torchSignalRows(),   torchAttentionRows(),
          torchQuantizeRows(),  torchLdlRows(),       torchLogSumRows()})
      for (const ImportRow& row : rows) out.emplace(row.target, &row);
    return out;
  }();
  return map;
}

std::string_view withoutOverload(std::string_view target) {
  const size_t last = target.rfind('.');
  return last == target.npos || last == target.find('.') ? target : target.substr(0, last);
}

// Arguments that rows need not read. They concern memory, devices and speed, checks of data, randomness,
// gradients of forward ops, or one mode of several; or they follow from others and the declared result.
constexpr std::string_view kWithoutEffect =
    " N a align_to_window allow_tf32 assert_msg assume_unique benchmark check_errors chunks "
    "compute_log_sumexp compute_mode copy cudnn_enable cudnn_enabled deterministic device dim driver "
    "dtype end end_dim generator half_to_float implicit indices input_dtype input_size "
    "input_sizes keepdim layout length m max_k max_q memory_format n non_blocking other out_dtype "
    "out_int32 output_mask output_size path pin_memory return_complex return_debug_mask sections self "
    "self_is_result self_num_batch_dims shape size sizes sorted sparse sparse_grad split_size "
    "split_sizes stable start_dim steps unroll_dim unsafe ";
// The same of ops whose names begin so; "": all their arguments.
constexpr std::pair<std::string_view, std::string_view> kWithoutEffectOf[] = {
    {"aten._assert", ""},
    {"aten._batch_norm", " momentum running_mean running_var "},
    {"aten._embedding_bag",
     " bag_size maximum_indices mode num_weights offset2bag offsets padding_idx scale_grad_by_freq "},
    {"aten._fused_moving_avg_obs_fq_helper", " ch_axis "},
    {"aten._native_batch_norm", " momentum running_mean running_var "},
    {"aten._reshape_alias", " stride "},
    {"aten._segment_reduce_backward", " initial "},
    {"aten._upsample", " scale_factors scales scales_d scales_h scales_w "},
    {"aten._scaled_dot_product_", " cum_seq_k cum_seq_q grad_input_mask philox_offset philox_seed "},
    {"aten.alpha_dropout", " p "},
    {"aten.batch_norm",
     " exponential_average_factor momentum running_mean running_var save_mean save_var reserve "},
    {"aten.can_cast", ""},
    {"aten.combinations", " r "},
    {"aten.convolution_backward", " bias_sizes output_padding "},
    {"aten.cross_entropy_loss", " ignore_index "},
    {"aten.cudnn_batch_norm", " exponential_average_factor running_mean running_var "},
    {"aten.diff", " append prepend "},
    {"aten.dropout", " p "},
    {"aten.embedding.", " padding_idx scale_grad_by_freq "},
    {"aten.embedding_bag", " scale_grad_by_freq "},
    {"aten.empty_permuted", " physical_layout "},
    {"aten.empty_strided", " stride "},
    {"aten.feature_alpha_dropout", " p "},
    {"aten.feature_dropout", " p "},
    {"aten.fractional_max_pool", " kernel_size output_size "},
    {"aten.fused_moving_avg_obs_fake_quant", " ch_axis "},
    {"aten.instance_norm", " momentum running_mean running_var "},
    {"aten.gru", " dropout "},
    {"aten.isclose", " atol equal_nan rtol "},
    {"aten.linalg_matrix_rank", " hermitian "},
    {"aten.log_sigmoid_backward", " buffer "},
    {"aten.lstm", " dropout "},
    {"aten.max_pool", " ceil_mode dilation kernel_size padding stride "},
    {"aten.max_unpool", " padding stride "},
    {"aten.nan_to_num", " nan neginf posinf "},
    {"aten.native_batch_norm", " momentum running_mean running_var save_invstd save_mean "},
    {"aten.native_dropout", " p "},
    {"aten.native_group_norm", " C HxW "},
    {"aten.native_layer_norm_backward", " bias "},
    {"aten.new_empty_strided", " stride "},
    {"aten.nll_loss", " total_weight "},
    {"aten.poisson_nll_loss", " eps "},
    {"aten.repeat_interleave", " output_size "},
    {"aten.result_type", ""},
    {"aten.rnn_", " dropout "},
    {"aten.rot90", " dims "},
    {"aten.rrelu", " lower noise upper "},
    {"aten.sym_", ""},
    {"aten.upsample", " scale_factors scales scales_d scales_h scales_w "},
};

bool isListed(std::string_view names, std::string_view name) {
  return names.find(" " + std::string(name) + " ") != names.npos;
}

// Of a tensor without dims many arguments say nothing.
bool isOfScalar(const ImportContext& c) {
  const ImportAttribute* a = c.attribute("self");
  const auto* ref = a ? std::get_if<ImportValueRef>(a) : nullptr;
  const std::optional<Type>* type = ref ? &c.file.values[ref->index].type : nullptr;
  return type && *type && (*type)->rank() == 0;
}

// Without elements, all of them are as they should be.
bool hasEmptyResults(const ImportContext& c) {
  return std::ranges::all_of(c.node.results, [&](ImportValueRef r) {
    const std::optional<Type>* type = r.valid() ? &c.file.values[r.index].type : nullptr;
    return type && *type && std::ranges::find((*type)->dims, Dim(0)) != (*type)->dims.end();
  });
}

// "" for arguments that are absent, or off.
std::string remarkOnUnread(const ImportContext& c, const ImportArgument& a) {
  const std::string_view target = c.node.target;
  if (a.name.empty() || !target.starts_with("aten.") || std::holds_alternative<std::monostate>(a.value))
    return "";
  if (const auto* flag = std::get_if<bool>(&a.value); flag && !*flag) return "";
  if (const auto* ref = std::get_if<ImportValueRef>(&a.value); ref && !ref->valid()) return "";
  const auto* unsupported = std::get_if<ImportUnsupported>(&a.value);
  if (unsupported && a.name == "layout") return "has the argument 'layout', which " + unsupported->why;
  if (a.name.starts_with("dtc.") || isListed(kWithoutEffect, a.name) || isOfScalar(c) || hasEmptyResults(c))
    return "";
  for (const auto& [op, names] : kWithoutEffectOf)
    if (target.starts_with(op) && (names.empty() || isListed(names, a.name))) return "";
  return "has the argument '" + a.name + "', which dtc does not support";
}

const ImportRow* rowOf(const ImportNode& node) { return atenRow(node.target); }

// Ops whose results have sizes that depend on data, and what to write instead.
constexpr std::pair<std::string_view, const char*> kDataDependent[] = {
    {"aten.argwhere", "; torch.nonzero_static has a fixed size"},
    {"aten.bincount", "; torch.zeros(n).scatter_add(0, x, torch.ones(x.shape)) has a fixed size"},
    {"aten.masked_select", "; write it with torch.where"},
    {"aten.nonzero", "; torch.nonzero_static has a fixed size"},
    {"aten.nonzero_numpy", "; torch.nonzero_static has a fixed size"},
    {"aten._unique", ""},
    {"aten._unique2", ""},
    {"aten.unique_consecutive", ""},
    {"aten.unique_dim", ""},
    {"aten.unique_dim_consecutive", ""},
};

// "" for other ops.
std::string remarkOnSize(const ImportNode& node) {
  for (const auto& [op, instead] : kDataDependent)
    if (op == withoutOverload(node.target))
      return std::string(": the size of its result depends on data, and dtc has static sizes") + instead;
  return "";
}

std::string remarkOn(const ImportNode& node) {
  if (std::string remark = remarkOnSize(node); !remark.empty()) return remark;
  if (node.target.starts_with("torch._functorch."))
    return ": it is part of torch.vmap, which program.run_decompositions({}) writes with aten ops";
  if (!node.target.starts_with("aten.") && !node.target.starts_with("prims."))
    return ": it is not one of PyTorch's own; write it with aten ops";
  return ": it has no counterpart yet; program.run_decompositions() may express it in others";
}

// A captured program has no other form, but what calls the op can be left to PyTorch.
std::string remarkOnCaptured(const ImportNode& node) {
  const std::string remark = remarkOnSize(node);
  return (remark.empty() ? ": dtc cannot compile it" : remark) +
         "; torch.compiler.disable leaves the function that calls it to PyTorch";
}

std::string remarkOnPlanned(const ImportNode& node) {
  if (std::string remark = remarkOnSize(node); !remark.empty()) return remark;
  return ": it has no counterpart yet; the model may express it in other ops";
}

} // namespace

const ImportRow* atenRow(std::string_view target) {
  for (const std::string_view t : {target, withoutOverload(target)})
    if (const auto found = rowMap().find(t); found != rowMap().end()) return found->second;
  // torch.special has other names of older ops.
  constexpr std::string_view kSpecial = "aten.special_";
  if (!target.starts_with(kSpecial)) return nullptr;
  const std::string_view name = withoutOverload(target).substr(kSpecial.size());
  if (name == "psi") return atenRow("aten.digamma");
  if (name == "gammaln") return atenRow("aten.lgamma");
  if (name == "modified_bessel_i0") return atenRow("aten.i0");
  if (name == "modified_bessel_i1") return atenRow("aten.special_i1");
  return atenRow("aten." + std::string(target.substr(kSpecial.size())));
}

const ImportTable& atenTable(TorchOrigin origin) {
  static const ImportTable tables[] = {{rowOf, remarkOn, {}, remarkOnUnread},
                                       {rowOf, remarkOnCaptured, {}, remarkOnUnread},
                                       {rowOf, remarkOnPlanned, {}, remarkOnUnread}};
  return tables[static_cast<size_t>(origin)];
}

} // namespace dtc
