// Where the attributes of VHLO differ from those of StableHLO.
#include "vhlo/VhloOps.h"

#include "dtc/Support/Words.h"

#include <algorithm>

namespace dtc {

namespace {

// Attributes that are one attribute in StableHLO, in the order of its text.
struct Joined {
  std::string_view op, name, dialectName;
  std::string_view fields[7];
};
constexpr Joined kJoined[] = {
    {"dot_general",
     "dot_dimension_numbers",
     "dot",
     {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
      "rhs_contracting_dimensions"}},
    {"dot_general",
     "algorithm",
     "dot_algorithm",
     {"lhs_precision_type", "rhs_precision_type", "accumulation_type", "lhs_component_count",
      "rhs_component_count", "num_primitive_operations", "allow_imprecise_accumulation"}},
    {"gather",
     "dimension_numbers",
     "gather",
     {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
      "start_index_map", "index_vector_dim"}},
    {"dynamic_gather",
     "dimension_numbers",
     "gather",
     {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
      "start_index_map", "index_vector_dim"}},
    {"scatter",
     "scatter_dimension_numbers",
     "scatter",
     {"update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
      "scatter_dims_to_operand_dims", "index_vector_dim"}},
};

// Values that StableHLO does not write.
struct Default {
  std::string_view name, text;
};
constexpr Default kDefaults[] = {
    {"api_version", "1 : i32"},
    {"backend_config", "\"\""},
    {"backend_config", "{}"},
    {"called_computations", "[]"},
    {"compare_type", "#stablehlo<comparison_type NOTYPE>"},
    {"composite_attributes", "{}"},
    {"has_dynamic_root", "false"},
    {"has_side_effect", "false"},
    {"indices_are_sorted", "false"},
    {"infeed_config", "\"\""},
    {"is_host_transfer", "false"},
    {"is_stable", "false"},
    {"known_expanding_dimensions", "array<i64>"},
    {"known_nonexpanding_dimensions", "array<i64>"},
    {"layout", "[]"},
    {"operand_layouts", "[]"},
    {"outfeed_config", "\"\""},
    {"output_operand_aliases", "[]"},
    {"result_accuracy", "#stablehlo.result_accuracy<atol = 0.000000, rtol = 0.000000, ulps = 0, mode = "
                        "#stablehlo<result_accuracy_mode DEFAULT>>"},
    {"result_layouts", "[]"},
    {"result_tilings", "[]"},
    {"source_target_pairs", "dense<> : tensor<0x2xi64>"},
    {"unique_indices", "false"},
    {"use_global_device_ids", "false"},
    {"version", "0 : i32"},
};

// Strings that name a function.
constexpr std::string_view kSymbols[] = {"callee", "decomposition"};

class OpAttrs {
public:
  OpAttrs(BcText& text, const Bytecode& bc, std::string_view op, const std::vector<VhloAttr>& attrs)
      : text_(text), bc_(bc), op_(op), attrs_(attrs), done_(attrs.size()) {}

  void write() {
    for (const Joined& j : kJoined)
      if (j.op == op_) joinedAttr(j);
    if (op_ == "convolution" || op_ == "dynamic_conv") convolution();
    for (size_t i = 0; i < attrs_.size() && text_.withinLimit(); ++i)
      if (!done_[i]) one(attrs_[i]);
  }

private:
  void begin(std::string_view name) {
    text_.out += first_ ? "" : ", ";
    first_ = false;
    text_.out += name;
  }

  const BcNode* take(std::string_view name, uint32_t& attr) {
    const auto found = std::ranges::find(attrs_, name, &VhloAttr::name);
    if (found == attrs_.end()) return nullptr;
    done_[static_cast<size_t>(found - attrs_.begin())] = true;
    attr = found->attr;
    return &bc_.attrs[attr];
  }

  void joinedAttr(const Joined& j) {
    std::string body;
    bool none = false; // an algorithm that is not given: all of its fields are `none`
    for (std::string_view field : j.fields) {
      uint32_t attr = 0;
      const BcNode* n = field.empty() ? nullptr : take(field, attr);
      if (!n) continue;
      const std::string value = fieldText(field, *n, attr);
      none = none || value == "none";
      body += (body.empty() ? "" : ", ") + std::string(field) + " = " + value;
    }
    if (none || body.empty()) return;
    begin(j.name);
    text_.out += " = #stablehlo." + std::string(j.dialectName) + "<" + body + ">";
  }

  std::string fieldText(std::string_view field, const BcNode& n, uint32_t attr) {
    if (n.is(BcKind::Integer)) return std::to_string(n.ints[0]);
    if (!n.is(BcKind::Tensor)) return text_.attrText(attr);
    if (!isI64List(n)) text_.fail("'" + std::string(field) + "' is not a list of i64");
    return "[" + joined(text_.intsOf(attr)) + "]";
  }

  // [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]
  void convolution() {
    const auto side = [&](const std::string& of, const char* first, const char* second, char firstLetter,
                          char secondLetter) {
      uint32_t attr = 0;
      const BcNode* a = take(of + first, attr);
      const BcNode* b = take(of + second, attr);
      const BcNode* spatial = take(of + "spatial_dimensions", attr);
      const auto dims = spatial ? text_.intsOf(attr) : std::vector<int64_t>();
      std::vector<std::string> words(dims.size() + 2);
      const auto set = [&](int64_t at, std::string word) {
        if (at < 0 || static_cast<uint64_t>(at) >= words.size() || !words[static_cast<size_t>(at)].empty())
          text_.fail("the dims of a convolution are not a permutation");
        else
          words[static_cast<size_t>(at)] = std::move(word);
      };
      if (!a || !b || !a->is(BcKind::Integer) || !b->is(BcKind::Integer)) {
        text_.fail("the dims of a convolution are incomplete");
        return std::string();
      }
      set(a->ints[0], {firstLetter});
      set(b->ints[0], {secondLetter});
      for (size_t i = 0; i < dims.size(); ++i) set(dims[i], std::to_string(i));
      return "[" + joined(words) + "]";
    };
    const std::string input = side("input_", "batch_dimension", "feature_dimension", 'b', 'f');
    const std::string kernel =
        side("kernel_", "input_feature_dimension", "output_feature_dimension", 'i', 'o');
    const std::string output = side("output_", "batch_dimension", "feature_dimension", 'b', 'f');
    begin("dimension_numbers = #stablehlo.conv<");
    text_.out += input + "x" + kernel + "->" + output + ">";
  }

  void one(const VhloAttr& a) {
    const BcNode& n = bc_.attrs[a.attr];
    if (a.name == "channel_id") return channel(n);
    std::string value;
    if (std::ranges::find(kSymbols, a.name) != std::end(kSymbols) && n.is(BcKind::String)) {
      value = symbolText(n.text);
    } else if (a.name == "called_computations" && n.is(BcKind::List)) {
      value = "[" + joined(n.attrs, ", ", [&](uint32_t e) { return symbolText(text_.stringOf(e)); }) + "]";
    } else if (isI64List(n) && a.name != "value") {
      const auto ints = text_.intsOf(a.attr);
      value = ints.empty() ? "array<i64>" : "array<i64: " + joined(ints) + ">";
    } else {
      value = text_.attrText(a.attr);
    }
    const bool layouts = a.name.ends_with("_layouts"); // of operands and results: both or none
    for (const Default& d : kDefaults)
      if (d.name == a.name && d.text == value && !(layouts && hasLayouts())) return;
    begin(a.name);
    if (n.is(BcKind::Unit) ||
        ((a.name == "use_global_device_ids" || a.name == "has_dynamic_root") && value == "true"))
      return;
    text_.out += " = ";
    text_.out += value;
  }

  [[nodiscard]] bool hasLayouts() const {
    return std::ranges::any_of(attrs_, [&](const VhloAttr& a) {
      const BcNode& n = bc_.attrs[a.attr];
      return a.name.ends_with("_layouts") && n.is(BcKind::List) && !n.attrs.empty();
    });
  }

  void channel(const BcNode& id) {
    uint32_t attr = 0;
    const BcNode* type = take("channel_type", attr);
    if (!id.is(BcKind::Integer) || (id.ints[0] == 0 && !type)) return;
    begin("channel_handle = #stablehlo.channel_handle<handle = ");
    text_.out += std::to_string(id.ints[0]) +
                 ", type = " + std::to_string(type && type->is(BcKind::Integer) ? type->ints[0] : 0) + ">";
  }

  [[nodiscard]] bool isI64List(const BcNode& n) const {
    if (!n.is(BcKind::Tensor)) return false;
    const BcNode& type = bc_.types[n.types[0]];
    return type.is(BcKind::Ranked) && type.ints[0] == 1 && bc_.types[type.types[0]].row->name == "i64";
  }

  std::string symbolText(std::string_view name) {
    std::string before;
    std::swap(before, text_.out);
    text_.symbol(name);
    std::swap(before, text_.out);
    return before;
  }

  BcText& text_;
  const Bytecode& bc_;
  std::string_view op_;
  const std::vector<VhloAttr>& attrs_;
  std::vector<bool> done_;
  bool first_ = true;
};

} // namespace

void writeStableHloAttrs(BcText& text, const Bytecode& bc, std::string_view op,
                         const std::vector<VhloAttr>& attrs) {
  OpAttrs(text, bc, op, attrs).write();
}

} // namespace dtc
