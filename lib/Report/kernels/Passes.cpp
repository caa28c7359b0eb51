#include "kernels/Passes.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace dtc {
namespace {

// Counting is quadratic in the worst case; larger programs are not counted.
constexpr size_t kMostSteps = 20000;

class Counting {
public:
  Counting(const Module& m, FuncId f, const ProgramUses& uses)
      : m_(m), mesh_(meshValueOf(m, f)), steps_(uses.steps) {
    for (size_t s = 0; s < steps_.size(); ++s) {
      for (ValueId v : m_.operands(steps_[s].op)) {
        auto& readers = readers_[rootOf(v)];
        if (!steps_[s].view && (readers.empty() || readers.back() != s)) readers.push_back(s);
      }
      for (size_t r = 0; r < m_[steps_[s].op].numResults; ++r) {
        const ValueId result = m_.result(steps_[s].op, r);
        if (steps_[s].view)
          roots_[result] = rootOf(m_.operand(steps_[s].op, 0));
        else
          writers_[result] = s;
      }
    }
  }

  std::vector<PassesRow> rows() {
    std::vector<PassesRow> rows;
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].view || m_.record(steps_[s].op).regions != RegionKind::Fused) continue;
      for (size_t r = 0; r < m_[steps_[s].op].numResults; ++r) add(s, m_.result(steps_[s].op, r), rows);
    }
    std::ranges::sort(rows, [](const PassesRow& a, const PassesRow& b) {
      const auto key = [](const PassesRow& r) { return std::tie(r.writer, r.type, r.readers); };
      return excess(a) != excess(b) ? excess(a) > excess(b) : key(a) < key(b);
    });
    return rows;
  }

private:
  static int64_t excess(const PassesRow& r) { return r.uses * r.bytes * (r.passes - r.least); }
  ValueId rootOf(ValueId v) const {
    const auto it = roots_.find(v);
    return it == roots_.end() ? v : it->second;
  }

  void add(size_t writer, ValueId v, std::vector<PassesRow>& rows) {
    const int64_t bytes = largestBytes(m_, m_.values[v.index].type, mesh_).value_or(0);
    if (bytes < kSmallBytes) return;
    const StepUse& step = steps_[writer];
    PassesRow row{step.name, printType(m_, m_.values[v.index].type), "", {}, 1, bytes, 1, 1};
    std::vector<size_t> kernels; // generated ones that read it
    for (size_t reader : readers_[v]) {
      row.readers.push_back(steps_[reader].name);
      ++row.passes;
      if (steps_[reader].library)
        ++row.least;
      else
        kernels.push_back(reader);
    }
    row.least += longestChain(kernels);
    if (step.epilogue) row.passes += 2;               // the library writes the product, the epilogue reads it
    if (step.copies) row.passes += 1, row.least -= 1; // with a view in its place, neither read nor written
    if (row.passes <= row.least) return;
    const OpId op = step.op;
    row.where = placeText(m_.source, m_[op].loc);
    const auto same = std::ranges::find_if(rows, [&](const PassesRow& r) {
      return r.writer == row.writer && r.type == row.type && r.readers == row.readers;
    });
    if (same == rows.end())
      rows.push_back(std::move(row));
    else
      ++same->uses;
  }

  // The max number of steps of which each depends on the one before: as many passes are needed.
  int64_t longestChain(const std::vector<size_t>& readers) {
    std::vector<int64_t> length(readers.size(), 1);
    for (size_t i = 0; i < readers.size(); ++i) {
      if (i + 1 == readers.size()) break;
      const std::vector<bool> after = dependents(readers[i], readers.back());
      for (size_t j = i + 1; j < readers.size(); ++j)
        if (after[readers[j] - readers[i]]) length[j] = std::max(length[j], length[i] + 1);
    }
    return readers.empty() ? 0 : *std::ranges::max_element(length);
  }

  // By step from `from` to `to`: whether it depends on `from`.
  std::vector<bool> dependents(size_t from, size_t to) const {
    std::vector<bool> after(to - from + 1, false);
    after[0] = true;
    for (size_t s = from + 1; s <= to; ++s)
      for (ValueId v : m_.operands(steps_[s].op))
        if (const auto w = writers_.find(rootOf(v));
            w != writers_.end() && w->second >= from && w->second < s)
          after[s - from] = after[s - from] || after[w->second - from];
    return after;
  }

  const Module& m_;
  Mesh mesh_;
  const std::vector<StepUse>& steps_;
  std::unordered_map<ValueId, std::vector<size_t>> readers_;
  std::unordered_map<ValueId, size_t> writers_;
  std::unordered_map<ValueId, ValueId> roots_; // of views
};

} // namespace

std::vector<PassesRow> passesOf(const Module& m, FuncId entry, const ProgramUses& uses) {
  if (uses.steps.size() > kMostSteps) return {};
  return Counting(m, entry, uses).rows();
}

} // namespace dtc
