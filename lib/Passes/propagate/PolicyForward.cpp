// The policy `dtensor`: forward, op by op, as in PyTorch's DTensor
// (https://pytorch.org/docs/stable/distributed.tensor.html).
#include "propagate/Policies.h"
#include <algorithm>
#include <queue>

namespace dtc {

namespace {

class ForwardSolver {
public:
  explicit ForwardSolver(PropagationState& s) : s_(s) {}

  void run() {
    count();
    size_t next = 0; // relations in a cycle of calls
    while (true) {
      while (!ready_.empty()) {
        const uint32_t r = ready_.top();
        ready_.pop();
        settle(r);
      }
      while (next < settled_.size() && settled_[next]) ++next;
      if (next == settled_.size()) break;
      settle(static_cast<uint32_t>(next));
    }
  }

private:
  // A variable that no relation produces is known from the start: an argument, a `reshard`'s result.
  void count() {
    known_.assign(s_.vars.size(), true);
    readers_.resize(s_.vars.size());
    missing_.assign(s_.relations.size(), 0);
    settled_.assign(s_.relations.size(), false);
    for (const Relation& rel : s_.relations)
      for (size_t t = rel.rule.operands.size(); t < rel.tensors.size(); ++t)
        if (rel.tensors[t] != kNoVar) known_[rel.tensors[t]] = false;
    for (uint32_t r = 0; r < s_.relations.size(); ++r) {
      const Relation& rel = s_.relations[r];
      for (size_t t = 0; t < rel.rule.operands.size(); ++t) {
        const VarId v = rel.tensors[t];
        if (v == kNoVar || known_[v] || (!readers_[v].empty() && readers_[v].back() == r)) continue;
        readers_[v].push_back(r);
        ++missing_[r];
      }
      if (missing_[r] == 0) ready_.push(r);
    }
    for (VarId v = 0; v < s_.vars.size(); ++v)
      if (known_[v]) close(v);
  }

  void close(VarId v) {
    for (DimSharding& d : s_.vars[v].dims) d.open = false;
  }

  void settle(uint32_t r) {
    if (settled_[r]) return;
    settled_[r] = true;
    const Relation& rel = s_.relations[r];
    if (onOneMesh(s_, rel)) {
      FormPricing pricing;
      pricing.freeResults = pricing.freeReductions = true;
      const OpForm form = cheapestForm(s_, rel, pricing).form;
      for (size_t k = 0; k < form.results.size(); ++k) take(rel, form, k);
    }
    for (size_t t = rel.rule.operands.size(); t < rel.tensors.size(); ++t)
      if (rel.tensors[t] != kNoVar) know(rel.tensors[t]);
  }

  void know(VarId v) {
    if (known_[v]) return;
    known_[v] = true;
    close(v);
    for (uint32_t reader : readers_[v])
      if (--missing_[reader] == 0) ready_.push(reader);
  }

  // Open dims of the result take the op's axes, if nothing else of the result uses them.
  void take(const Relation& rel, const OpForm& form, size_t result) {
    const size_t tensor = rel.rule.operands.size() + result;
    const VarId v = rel.tensors[tensor];
    if (v == kNoVar || known_[v]) return;
    ShardingVar& var = s_.vars[v];
    PartList taken;
    for (const AxisRef& a : var.replicated) taken.push_back({a, 0});
    for (const PendingAxis& p : var.pending) taken.push_back({p.axis, 0});
    for (const DimSharding& d : var.dims) taken.insert(taken.end(), d.parts.begin(), d.parts.end());
    for (uint16_t d = 0; d < var.dims.size(); ++d) {
      const PartList& parts = form.results[result][d].parts;
      if (!var.dims[d].open || var.dims[d].isSharded() || parts.empty() ||
          !disjoint(parts, taken, s_.mesh(v)))
        continue;
      var.dims[d].parts = parts;
      record(rel, form, tensor, d);
    }
  }

  void record(const Relation& rel, const OpForm& form, size_t tensor, uint16_t dim) {
    const Mesh& mesh = s_.mesh(rel.tensors[tensor]);
    ShardingReason reason;
    reason.value = rel.values[tensor];
    reason.dim = dim;
    reason.parts = s_.vars[rel.tensors[tensor]].dims[dim].parts;
    reason.via = rel.op;
    const TensorMap& map = rel.rule.results[tensor - rel.rule.operands.size()];
    const TensorProjection p = projectDims(map, rel.rule, s_.vars[rel.tensors[tensor]].dims, mesh);
    for (const FactorEntry& e : p.entries) {
      if (e.dim != dim || form.factors[e.factor].empty()) continue;
      reason.factor = rel.rule.factors[e.factor].name;
      for (size_t t = 0; t < rel.rule.operands.size() && !reason.from.valid(); ++t) {
        if (rel.tensors[t] == kNoVar) continue;
        const TensorProjection from =
            projectDims(rel.rule.operands[t], rel.rule, s_.vars[rel.tensors[t]].dims, mesh);
        const FactorEntry* source = from.find(e.factor);
        if (source && isPrefix(form.factors[e.factor], source->parts, mesh)) reason.from = rel.values[t];
      }
    }
    if (!reason.from.valid()) reason.kind = ShardingReason::Cheapest;
    if (reason.from.valid() || reason.via.valid()) s_.report.shardings.push_back(std::move(reason));
  }

  PropagationState& s_;
  std::vector<bool> known_, settled_;          // by variable, by relation
  std::vector<std::vector<uint32_t>> readers_; // by variable: relations that depend on it
  std::vector<uint32_t> missing_;              // by relation: operands not known yet
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready_; // in program order
};

} // namespace

void solveForward(PropagationState& s) { ForwardSolver(s).run(); }

} // namespace dtc
