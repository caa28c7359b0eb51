#include "read/Random.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr std::string_view kRandom[] = {"aten.rand",
                                        "aten.rand_like",
                                        "aten.uniform",
                                        "aten.randn",
                                        "aten.randn_like",
                                        "aten.normal",
                                        "aten.normal_functional",
                                        "aten.randint",
                                        "aten.randint_like",
                                        "aten.bernoulli",
                                        "aten.randperm",
                                        "aten.multinomial",
                                        "aten.exponential",
                                        "aten.cauchy",
                                        "aten.log_normal",
                                        "aten.geometric",
                                        "aten.dropout",
                                        "aten.native_dropout",
                                        "aten.alpha_dropout",
                                        "aten.feature_dropout",
                                        "aten.feature_alpha_dropout",
                                        "aten.rrelu",
                                        "aten.rrelu_with_noise",
                                        "aten.rrelu_with_noise_functional",
                                        "aten.scaled_dot_product_attention"};

bool draws(const ImportNode& n) {
  const size_t last = n.target.rfind('.');
  const std::string_view base = std::string_view(n.target).substr(0, last);
  if (std::ranges::find(kRandom, base) == std::end(kRandom)) return false;
  // Those of training draw only then.
  const auto is = [&](std::string_view name, auto reads) {
    return std::ranges::any_of(n.arguments,
                               [&](const ImportArgument& a) { return a.name == name && reads(a.value); });
  };
  const auto isTrue = [](const ImportAttribute& a) {
    const auto* flag = std::get_if<bool>(&a);
    return flag && *flag;
  };
  const auto isPositive = [](const ImportAttribute& a) {
    const auto* p = std::get_if<double>(&a);
    return p && *p > 0;
  };
  if (base.ends_with("dropout")) return is("train", isTrue) && is("p", isPositive);
  if (base.find("rrelu") != base.npos) return is("training", isTrue);
  return !base.ends_with("attention") || is("dropout_p", isPositive);
}

} // namespace

void addSeed(ImportFile& file) {
  ImportGraph& g = file.graphs[0];
  if (std::ranges::none_of(g.nodes, draws)) return;
  ImportValue& v = file.values.emplace_back();
  v.name = "seed";
  v.type = Type{DType::U64, {Dim(2)}};
  const ImportValueRef seed{static_cast<uint32_t>(file.values.size() - 1)};
  ImportInput& input = g.inputs.emplace_back();
  input.value = seed;
  int64_t stream = 0;
  for (ImportNode& n : g.nodes)
    if (draws(n)) {
      n.arguments.push_back({"dtc.seed", seed});
      n.arguments.push_back({"dtc.stream", ImportInt(stream++)});
    }
}

} // namespace dtc
