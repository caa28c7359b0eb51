// Finds the contractions that are gradients of other contractions.
//
// For y = x·w, the cotangent of x is dy·w: the first operand of one op is sharded as the result of the other,
// and vice versa. The match is structural (by dims), not by name, so it also holds for programs that were
// differentiated elsewhere.
#include "propagate/PropagationState.h"
#include <algorithm>
#include <array>

namespace dtc {

namespace {

constexpr size_t kMaxUsers = 8; // users of one operand that are inspected, which keeps the search linear

// A contraction of two tensors, seen from one of them.
struct Contraction {
  uint32_t relation = 0;
  size_t shared = 0; // the operand from which it is seen; the other one is 1 - shared
};

// Per factor, its dim in the shared operand, the other operand and the result (-1: absent), sorted.
using Dims = std::array<int, 3>;
std::vector<Dims> dimsOfFactors(const Contraction& c, const Rule& rule) {
  std::vector<Dims> out(rule.factors.size(), Dims{-1, -1, -1});
  auto mapTensor = [&](const TensorMap& map, size_t tensor) {
    for (size_t d = 0; d < map.dims.size(); ++d)
      for (const Term& t : map.dims[d].terms) out[t.factor][tensor] = static_cast<int>(d);
  };
  mapTensor(rule.operands[c.shared], 0);
  mapTensor(rule.operands[1 - c.shared], 1);
  mapTensor(rule.results[0], 2);
  return out;
}

std::vector<Dims> sorted(std::vector<Dims> dims) {
  std::sort(dims.begin(), dims.end());
  return dims;
}

bool isContraction(const Relation& r) {
  return r.op.valid() && !r.inner && r.values.size() == 3 && r.rule.operands.size() == 2 && !r.follow &&
         std::ranges::none_of(r.tensors, [](VarId v) { return v == kNoVar; }) &&
         std::ranges::any_of(r.rule.factors, [](const Factor& f) { return f.kind == FactorKind::Reduce; });
}

} // namespace

void findPrimals(std::vector<Relation>& relations) {
  std::unordered_map<uint32_t, std::vector<Contraction>> users; // by the shared value
  for (uint32_t r = 0; r < relations.size(); ++r) {
    if (!isContraction(relations[r])) continue;
    for (size_t shared = 0; shared < 2; ++shared) {
      std::vector<Contraction>& earlier = users[relations[r].values[shared].index];
      std::vector<Dims> mine = dimsOfFactors({r, shared}, relations[r].rule);
      for (Dims& d : mine) std::swap(d[1], d[2]);
      std::sort(mine.begin(), mine.end());
      for (const Contraction& c : earlier) {
        if (c.relation == r || sorted(dimsOfFactors(c, relations[c.relation].rule)) != mine) continue;
        relations[r].primal = relations[c.relation].tensors[1 - c.shared];
        break;
      }
      if (earlier.size() < kMaxUsers) earlier.push_back({r, shared});
    }
  }
}

} // namespace dtc
