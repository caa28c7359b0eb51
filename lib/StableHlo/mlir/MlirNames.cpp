// One row per op whose pretty form names an attribute differently from the generic form, or leaves it
// unnamed.
#include "mlir/MlirPretty.h"

#include <algorithm>

namespace dtc {

namespace {

struct Renamed {
  std::string_view op; // without the dialect
  std::string_view pretty, generic;
};
constexpr Renamed kRenamed[] = {
    {"broadcast_in_dim", "dims", "broadcast_dimensions"},
    {"dynamic_broadcast_in_dim", "dims", "broadcast_dimensions"},
    {"broadcast", "sizes", "broadcast_sizes"},
    {"transpose", "dims", "permutation"},
    {"reverse", "dims", "dimensions"},
    {"map", "dims", "dimensions"},
    {"concatenate", "dim", "dimension"},
    {"get_dimension_size", "dim", "dimension"},
    {"set_dimension_size", "dim", "dimension"},
    {"iota", "dim", "iota_dimension"},
    {"dynamic_iota", "dim", "iota_dimension"},
    {"pad", "low", "edge_padding_low"},
    {"pad", "high", "edge_padding_high"},
    {"pad", "interior", "interior_padding"},
    {"dynamic_slice", "sizes", "slice_sizes"},
    {"fft", "type", "fft_type"},
    {"fft", "length", "fft_length"},
    {"rng", "distribution", "rng_distribution"},
    {"rng_bit_generator", "algorithm", "rng_algorithm"},
    {"convolution", "dim_numbers", "dimension_numbers"},
    {"dot", "precision", "precision_config"},
    {"dot_general", "precision", "precision_config"},
    {"exponential", "accuracy", "result_accuracy"},
};

// Names for unnamed attributes: in the order of the text, those of the kind.
struct Unnamed {
  std::string_view op;
  size_t item;
  std::string_view generic;
};
constexpr Unnamed kUnnamed[] = {
    {"constant", 0, "value"},
    {"expect_eq_const", 0, "value"},
    {"expect_almost_eq_const", 0, "value"},
    {"compare", 0, "comparison_direction"},
    {"compare", 1, "compare_type"},
    {"custom_call", 0, "call_target_name"},
    {"call", 0, "callee"},
    {"composite", 0, "name"},
    {"get_tuple_element", 0, "index"},
};

void setResult(MlirOp& op, std::string_view name, MlirAttr value) {
  MlirNamedAttr& a = op.attrs.emplace_back();
  a.name = name;
  a.nameRange = value.range;
  a.value = std::move(value);
}

// "%x [0:2, 1:5:2]"
void nameSlice(MlirOp& op) {
  if (op.items.size() != 1 || op.items[0].kind != MlirAttr::List) return;
  MlirAttr parts[3];
  for (MlirAttr& p : parts) {
    p.kind = MlirAttr::List;
    p.range = op.items[0].range;
  }
  for (const MlirAttr& dim : op.items[0].list) {
    if (dim.kind != MlirAttr::List || dim.list.size() < 2 || dim.list.size() > 3) return;
    for (size_t i = 0; i < 3; ++i) {
      if (i < dim.list.size()) {
        parts[i].list.push_back(dim.list[i]);
      } else {
        MlirAttr& one = parts[i].list.emplace_back();
        one.kind = MlirAttr::Int;
        one.integer = 1;
      }
    }
  }
  op.items.clear();
  setResult(op, "start_indices", std::move(parts[0]));
  setResult(op, "limit_indices", std::move(parts[1]));
  setResult(op, "strides", std::move(parts[2]));
}

// "format = e5m10"
void nameFormat(MlirOp& op) {
  auto format = std::ranges::find_if(op.attrs, [](const MlirNamedAttr& a) { return a.name == "format"; });
  if (format == op.attrs.end() || format->value.kind != MlirAttr::Word) return;
  std::string_view text = format->value.text;
  size_t m = text.find('m');
  auto exponent = mlirInteger(text.substr(1, m - 1));
  auto mantissa = m == std::string_view::npos ? std::nullopt : mlirInteger(text.substr(m + 1));
  if (text[0] != 'e' || !exponent || !mantissa) return;
  MlirAttr number = format->value;
  op.attrs.erase(format);
  number.kind = MlirAttr::Int;
  number.integer = *exponent;
  setResult(op, "exponent_bits", number);
  number.integer = *mantissa;
  setResult(op, "mantissa_bits", number);
}

// "batching_dims = [0] x [0], contracting_dims = [2] x [1]"
void nameDot(MlirOp& op) {
  std::vector<MlirNamedAttr> named;
  for (MlirNamedAttr& a : op.attrs) {
    bool batching = a.name == "batching_dims", contracting = a.name == "contracting_dims";
    if ((!batching && !contracting) || a.value.kind != MlirAttr::List || a.value.list.size() != 2) {
      named.push_back(std::move(a));
      continue;
    }
    for (size_t side : {0, 1}) {
      MlirNamedAttr& one = named.emplace_back();
      one.name = batching ? (side ? "rhs_batching_dimensions" : "lhs_batching_dimensions")
                          : (side ? "rhs_contracting_dimensions" : "lhs_contracting_dimensions");
      one.nameRange = a.nameRange;
      one.value = std::move(a.value.list[side]);
    }
  }
  op.attrs = std::move(named);
}

// "window = {stride = [1, 1], pad = [[0, 0], [0, 0]], …}"
void nameWindow(MlirOp& op) {
  auto window = std::ranges::find_if(op.attrs, [](const MlirNamedAttr& a) { return a.name == "window"; });
  if (window == op.attrs.end() || window->value.kind != MlirAttr::Dict) return;
  std::vector<MlirNamedAttr> parts = std::move(window->value.dict);
  op.attrs.erase(window);
  for (MlirNamedAttr& p : parts) {
    p.name = p.name == "stride"       ? "window_strides"
             : p.name == "pad"        ? "padding"
             : p.name == "lhs_dilate" ? "lhs_dilation"
             : p.name == "rhs_dilate" ? "rhs_dilation"
             : p.name == "reverse"    ? "window_reversal"
                                      : p.name;
    op.attrs.push_back(std::move(p));
  }
}

} // namespace

void normalizePretty(MlirOp& op) {
  size_t point = op.name.rfind('.');
  std::string_view name = point == std::string_view::npos ? op.name : op.name.substr(point + 1);
  if (op.name.starts_with("sdy.") && op.name != "sdy.constant") return;
  if (name == "dot_general") nameDot(op);
  if (name == "convolution") nameWindow(op);
  if (name == "slice") nameSlice(op);
  if (name == "reduce_precision") nameFormat(op);
  for (const Renamed& r : kRenamed)
    if (r.op == name)
      for (MlirNamedAttr& a : op.attrs)
        if (a.name == r.pretty) a.name = r.generic;
  bool any = false;
  for (const Unnamed& u : kUnnamed)
    if (u.op == name && u.item < op.items.size()) {
      setResult(op, u.generic, op.items[u.item]);
      any = true;
    }
  if (any) op.items.clear();
  if (!op.items.empty() && op.items[0].kind == MlirAttr::List && name == "get_tuple_element")
    op.items.clear();
}

} // namespace dtc
