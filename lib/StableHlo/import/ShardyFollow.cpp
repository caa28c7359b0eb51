#include "import/ShardyFollow.h"
#include "import/HloImporter.h"
#include "import/HloSlices.h"
#include "import/HloTable.h"

#include <algorithm>

namespace dtc {

FollowRule::FollowRule(HloContext& c) {
  for (ValueId v : c.tensors()) operandShapes_.push_back(c.shapeOf(v));
  for (size_t i = 0; i < c.numResults(); ++i)
    if (!c.op.resultTypes[i] || c.op.resultTypes[i]->kind != MlirType::Token)
      resultShapes_.push_back(c.resultShape(i));
  for (const auto& s : operandShapes_) operands_.emplace_back(s.size());
  for (const auto& s : resultShapes_) results_.emplace_back(s.size());
}

size_t FollowRule::add(int64_t size, char kind) {
  factors_.push_back({size, kind});
  return factors_.size() - 1;
}

FollowRule::Dims FollowRule::fresh(const std::vector<int64_t>& shape, char kind) {
  Dims dims;
  for (int64_t n : shape) dims.push_back({add(n, kind)});
  return dims;
}

// Operands and results of the first operand's shape have one factor per dim.
void FollowRule::shareAll() {
  const Dims dims = fresh(operandShapes_[0]);
  for (size_t i = 0; i < operands_.size(); ++i)
    if (operandShapes_[i] == operandShapes_[0]) operands_[i] = dims;
  for (size_t i = 0; i < results_.size(); ++i)
    if (resultShapes_[i] == operandShapes_[0]) results_[i] = dims;
}

// The sorted dim is a factor only where no other dim can be sharded instead.
bool FollowRule::sort(HloContext& c) {
  const std::vector<int64_t>& shape = operandShapes_[0];
  const auto rank = static_cast<int64_t>(shape.size());
  auto dim = c.integerOr("dimension", -1);
  if (!dim || rank == 0) return false;
  const auto at = static_cast<size_t>(*dim < 0 ? *dim + rank : *dim);
  if (at >= shape.size()) return false;
  shareAll();
  bool others = false;
  for (size_t d = 0; d < shape.size(); ++d) others = others || (d != at && shape[d] > 1);
  if (others) {
    factors_[operands_[0][at][0]].kind = 'n';
    return true;
  }
  for (std::vector<Dims>* side : {&operands_, &results_})
    for (Dims& t : *side) t[at].clear();
  return true;
}

bool FollowRule::transform(HloContext& c) {
  auto length = c.ints("fft_length");
  if (!length || results_.size() != 1 || resultShapes_[0].size() != operandShapes_[0].size() ||
      length->size() > operandShapes_[0].size())
    return false;
  operands_[0] = fresh(operandShapes_[0]);
  for (size_t d = operands_[0].size() - length->size(); d < operands_[0].size(); ++d)
    factors_[operands_[0][d][0]].kind = 'n';
  results_[0] = operands_[0];
  if (operandShapes_[0].back() != resultShapes_[0].back()) results_[0].back().clear();
  return true;
}

// A variadic reduce: the reduced dims are the same for all operands.
bool FollowRule::reduce(HloContext& c) {
  const size_t n = results_.size();
  auto dims = c.ints("dimensions");
  if (!dims || n < 2 || operands_.size() != 2 * n) return false;
  const Dims all = fresh(operandShapes_[0]);
  Dims kept;
  for (size_t d = 0; d < all.size(); ++d) {
    const bool reduced = std::ranges::find(*dims, static_cast<int64_t>(d)) != dims->end();
    if (reduced) factors_[all[d][0]].kind = 'r';
    if (!reduced) kept.push_back(all[d]);
  }
  for (size_t i = 0; i < n; ++i) {
    if (operandShapes_[i].size() != all.size() || resultShapes_[i].size() != kept.size()) return false;
    operands_[i] = all;
    results_[i] = kept;
  }
  return true;
}

// A variadic reduce_window.
bool FollowRule::windows(HloContext& c) {
  const size_t n = results_.size();
  auto size = c.ints("window_dimensions");
  if (!size || n < 2 || operands_.size() != 2 * n || size->size() != operandShapes_[0].size()) return false;
  const Dims dims = fresh(resultShapes_[0]);
  for (size_t d = 0; d < dims.size(); ++d)
    if ((*size)[d] != 1) factors_[dims[d][0]].kind = 'p';
  for (size_t i = 0; i < n; ++i) {
    if (operandShapes_[i].size() != dims.size() || resultShapes_[i].size() != dims.size()) return false;
    operands_[i] = results_[i] = dims;
  }
  return true;
}

// A window dim is a factor where no window covers more than one element.
bool FollowRule::selectAndScatter(HloContext& c) {
  const size_t rank = operandShapes_[0].size();
  auto size = c.intsOr("window_dimensions", std::vector<int64_t>(rank, 1), static_cast<int64_t>(rank));
  if (!size || operands_.size() != 3 || results_.size() != 1 || operandShapes_[1].size() != rank ||
      resultShapes_[0].size() != rank)
    return false;
  operands_[0] = results_[0] = fresh(operandShapes_[0]);
  for (size_t d = 0; d < rank; ++d)
    ((*size)[d] == 1 ? operands_[1][d] = operands_[0][d] : std::vector<size_t>());
  return true;
}

// Variadic scatter: each input with its updates, all with the same indices.
bool FollowRule::scatter(HloContext& c) {
  static constexpr const char* kNames[] = {"update_window_dims", "inserted_window_dims",
                                           "input_batching_dims", "scatter_indices_batching_dims",
                                           "scatter_dims_to_operand_dims"};
  const size_t n = results_.size();
  HloSliceDims s;
  if (n < 2 || operands_.size() != 2 * n + 1 || !readSliceDims(c, "scatter_dimension_numbers", kNames, s))
    return false;
  const std::vector<int64_t>&x = operandShapes_[0], &indices = operandShapes_[n], &u = operandShapes_[n + 1];
  auto has = [](const std::vector<int64_t>& list, size_t d) {
    return std::ranges::find(list, static_cast<int64_t>(d)) != list.end();
  };
  const Dims input = fresh(x);
  Dims indexDims(indices.size()), updates(u.size());
  size_t window = 0, indexDim = 0;
  for (size_t d = 0; d < u.size(); ++d) {
    if (has(s.window, d)) {
      while (window < x.size() && (has(s.dropped, window) || has(s.batching, window))) ++window;
      if (window == x.size()) return false;
      if (x[window] == u[d]) updates[d] = input[window];
      ++window;
      continue;
    }
    if (static_cast<int64_t>(indexDim) == s.vector) ++indexDim;
    if (indexDim >= indices.size()) return false;
    auto batch = std::ranges::find(s.indicesBatching, static_cast<int64_t>(indexDim));
    const auto k = static_cast<size_t>(batch - s.indicesBatching.begin());
    const bool batched = k < s.batching.size() && static_cast<size_t>(s.batching[k]) < x.size();
    updates[d] = indexDims[indexDim] =
        batched ? input[static_cast<size_t>(s.batching[k])] : std::vector<size_t>{add(u[d], 'r')};
    ++indexDim;
  }
  for (size_t i = 0; i < n; ++i) {
    operands_[i] = results_[i] = input;
    operands_[n + 1 + i] = updates;
  }
  operands_[n] = indexDims;
  return true;
}

// PartialReduce, ApproxTopK: the operands are sharded alike, the results likewise except along the reduced
// dim.
bool FollowRule::partialReduce(HloContext&) {
  const size_t n = results_.size();
  if (n == 0 || operands_.size() != 2 * n || operandShapes_[0].size() != resultShapes_[0].size())
    return false;
  const Dims dims = fresh(operandShapes_[0]);
  for (size_t i = 0; i < n; ++i) {
    if (operandShapes_[i] != operandShapes_[0] || resultShapes_[i] != resultShapes_[0]) return false;
    operands_[i] = dims;
    for (size_t d = 0; d < dims.size(); ++d)
      if (operandShapes_[0][d] == resultShapes_[0][d]) results_[i][d] = dims[d];
  }
  return true;
}

// Decompositions of batches of matrices: values of the matrix's shape follow all its dims, others the batch
// dims.
bool FollowRule::matrices() {
  if (operands_.empty() || operandShapes_[0].size() < 2) return false;
  shareAll();
  const Dims dims = operands_[0];
  const size_t batch = dims.size() - 2;
  for (auto [side, shapes] : {std::pair{&operands_, &operandShapes_}, {&results_, &resultShapes_}})
    for (size_t i = 0; i < side->size(); ++i)
      for (size_t d = 0; d < batch && d < (*side)[i].size(); ++d)
        if ((*shapes)[i][d] == operandShapes_[0][d]) (*side)[i][d] = dims[d];
  return true;
}

std::optional<FollowRule> FollowRule::of(HloContext& c, std::string_view name) {
  static constexpr std::pair<std::string_view, bool (FollowRule::*)(HloContext&)> kRules[] = {
      {"stablehlo.sort", &FollowRule::sort},
      {"stablehlo.fft", &FollowRule::transform},
      {"stablehlo.reduce", &FollowRule::reduce},
      {"stablehlo.reduce_window", &FollowRule::windows},
      {"stablehlo.scatter", &FollowRule::scatter},
      {"stablehlo.select_and_scatter", &FollowRule::selectAndScatter},
      {"custom_call @PartialReduce", &FollowRule::partialReduce},
      {"custom_call @ApproxTopK", &FollowRule::partialReduce},
  };
  static constexpr std::string_view kMatrices[] = {"custom_call @Eigh", "custom_call @Qr",
                                                   "custom_call @QrDecompositionBlock",
                                                   "custom_call @ProductOfElementaryHouseholderReflectors"};
  const auto* row =
      std::ranges::find(kRules, name, &std::pair<std::string_view, bool (FollowRule::*)(HloContext&)>::first);
  const bool known = row != std::end(kRules),
             matrix = std::ranges::find(kMatrices, name) != std::end(kMatrices),
             elements = name == "custom_call @CompactWyHelper";
  if (!known && !matrix && !elements) return std::nullopt;
  FollowRule rule(c);
  if (rule.operands_.empty() || rule.results_.empty()) return std::nullopt;
  if (known && !(rule.*row->second)(c)) return std::nullopt;
  if (matrix && !rule.matrices()) return std::nullopt;
  if (elements) rule.shareAll();
  if (name == "custom_call @Eigh" && rule.results_.size() == 2 &&
      rule.resultShapes_[1].size() + 1 == rule.operandShapes_[0].size()) // the values lie along the columns
    rule.results_[1].back() = rule.operands_[0].back();
  return rule;
}

std::string FollowRule::write(std::vector<Dims> operands, const std::vector<Dims>& results,
                              std::vector<Factor> factors) const {
  auto name = [](size_t f) { return "z_" + std::to_string(f + 1); };
  auto side = [&](const std::vector<Dims>& all, const std::vector<std::vector<int64_t>>& shapes) {
    std::string out;
    for (size_t t = 0; t < all.size(); ++t) {
      out += t ? ", [" : "[";
      for (size_t d = 0; d < all[t].size(); ++d) {
        if (d) out += ", ";
        if (all[t][d].empty()) {
          factors.push_back({shapes[t][d], ' '});
          out += name(factors.size() - 1);
        }
        for (size_t f : all[t][d]) out += name(f);
      }
      out += "]";
    }
    return "(" + out + ")";
  };
  std::vector<std::vector<int64_t>> shapes = operandShapes_, given = resultShapes_;
  if (operands.size() > shapes.size()) { // of the dims that follow a result
    shapes.insert(shapes.begin(), std::vector<int64_t>());
    for (const auto& dim : operands[0]) shapes[0].push_back(factors[dim[0]].size);
    given.assign(1, shapes[0]);
  }
  std::string out = side(operands, shapes) + "->" + side(results, given);
  std::string sizes, kinds;
  for (size_t f = 0; f < factors.size(); ++f) {
    if (out.find(name(f) + "]") == std::string::npos && out.find(name(f) + ",") == std::string::npos &&
        out.find(name(f) + "z") == std::string::npos)
      continue;
    sizes += (sizes.empty() ? "" : ", ") + name(f) + "=" + std::to_string(factors[f].size);
  }
  for (auto [kind, word] : {std::pair{'r', "reduction"}, {'n', "need_replication"}, {'p', "permutation"}}) {
    std::string list;
    for (size_t f = 0; f < factors.size(); ++f)
      if (factors[f].kind == kind && sizes.find(name(f) + "=") != std::string::npos)
        list += (list.empty() ? "" : ", ") + name(f);
    if (!list.empty()) kinds += " " + std::string(word) + "={" + list + "}";
  }
  return out + (sizes.empty() ? "" : " {" + sizes + "}") + kinds;
}

std::string FollowRule::text() const { return write(operands_, results_, factors_); }

std::string FollowRule::textAfter(size_t r) const {
  std::vector<Factor> factors = factors_;
  std::vector<Dims> operands = operands_;
  Dims own;
  for (int64_t n : resultShapes_[r]) {
    factors.push_back({n, ' '});
    own.push_back({factors.size() - 1});
  }
  operands.insert(operands.begin(), own);
  return write(std::move(operands), {results_[r]}, std::move(factors));
}

// Results of ops that import as several ops are sharded like their operands, by the rule of the original op.
bool followOperands(HloContext& c, std::string_view name, std::span<HloValue> results) {
  HloImporter& im = c.importer;
  Module& module = c.module;
  if (!im.shardy.used() || im.lifted() || (im.shardy.manualMesh().valid() && !im.shardy.freeAxes()))
    return true;
  std::vector<ValueId> operands = {ValueId()};
  for (ValueId v : c.tensors())
    if (operands.emplace_back(v); module[v].kind == ValueKind::Literal) return true;
  const auto rule = FollowRule::of(c, name);
  size_t at = 0;
  for (HloValue& result : results) {
    if (!rule || result.parts.size() != 1) continue;
    ValueId& v = result.parts[0];
    const size_t r = at++;
    if (module[v].kind != ValueKind::OpResult || std::ranges::find(operands, v) != operands.end()) continue;
    if (std::string_view(module.record(module.definingOp(v)).name) == "custom") continue;
    operands[0] = v;
    const AttrId text = module.attrs.string(module.strings.intern(rule->textAfter(r)));
    AttrList attrs = im.locationOf(c.op.loc);
    attrs.insert(attrs.begin(), {module.strings.intern("rule"), text});
    const OpId o = im.appendOp("barrier", operands, std::move(attrs), {}, c.op.nameRange);
    if (!o.valid()) return false;
    v = module.result(o);
  }
  return true;
}

} // namespace dtc
