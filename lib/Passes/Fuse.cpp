#include "dtc/Passes/Fuse.h"
#include "AttentionResult.h"
#include "BlockGroups.h"
#include "FusionGroups.h"
#include "SplitAttention.h"
#include "SplitReductions.h"
#include "SplitRows.h"
#include "dtc/Passes/Clone.h"
#include "dtc/Passes/Decompose.h"
#include <algorithm>

namespace dtc {

static constexpr DiagKind kOrder{"pass-option", "fuse: expected order = any or fixed, got '{0}'"};
static constexpr DiagKind kGroups{"pass-option", "fuse: expected groups = blocks or whole, got '{0}'"};

namespace {

// Rewrites one block by its groups.
class BlockFuser {
public:
  // `order`: what the regions that reduce say of their order, or invalid.
  BlockFuser(Module& m, BlockId block, size_t limit, bool narrow, AttrId order, ValueMap& outer,
             std::vector<PassRemark>* remarks)
      : m_(m), block_(block), limit_(limit), narrow_(narrow), order_(order), groups_(m, block, limit, narrow),
        outer_(outer), remarks_(remarks) {}

  void run() {
    groups_.run();
    if (remarks_) remark();
    const std::vector<uint32_t> order = groups_.order();
    for (uint32_t g : order) findReads(g);
    for (ValueId v : m_[block_].yields) read_[v.index] = true;
    std::vector<OpId> out;
    for (uint32_t g : order) {
      if (groups_.group(g).fusible)
        emit(g, out);
      else
        keep(groups_.group(g).ops[0], out);
    }
    for (ValueId& v : m_[block_].yields) v = outer_(v);
    m_[block_].ops = std::move(out);
  }

private:
  // What goes from kernel to kernel by way of memory.
  void remark() {
    for (const KeptApart& a : groups_.keptApart()) {
      const OpId maker(m_[a.value].owner);
      const Type& t = m_.typeOf(a.value);
      const auto n = t.isStatic() ? t.numElements() : std::nullopt;
      remarks_->push_back({std::string(m_.record(maker).name) + " -> " + m_.record(a.reader).name,
                           std::string(a.why), m_[a.reader].loc, n ? *n * dtypeBytes(t.dtype) : 0});
    }
  }

  bool inside(OpId reader, ValueId v, uint32_t g) const {
    const Value& value = m_[v];
    if (value.kind != ValueKind::OpResult) return false;
    const std::vector<OpId>& ops = groups_.group(g).ops;
    if (std::find(ops.begin(), ops.end(), OpId(value.owner)) != ops.end()) return true;
    return groups_.folds(reader, OpId(value.owner));
  }
  // What a group takes from memory.
  void findReads(uint32_t g) {
    for (OpId o : groups_.group(g).ops) {
      std::vector<ValueId> work;
      collect(o, work);
      while (!work.empty()) {
        const ValueId v = work.back();
        work.pop_back();
        if (!groups_.group(g).fusible || !inside(o, v, g))
          read_[v.index] = true;
        else if (groups_.folds(o, OpId(m_[v].owner)))
          for (ValueId next : m_.operands(OpId(m_[v].owner))) work.push_back(next);
      }
    }
  }
  void collect(OpId o, std::vector<ValueId>& values) const {
    values.insert(values.end(), m_.operands(o).begin(), m_.operands(o).end());
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
      forEachOp(m_, m_.region(o, r), [&](OpId inner) {
        values.insert(values.end(), m_.operands(inner).begin(), m_.operands(inner).end());
        for (uint32_t k = 0; k < m_[inner].numRegions; ++k) {
          const std::vector<ValueId>& yields = m_[m_.region(inner, k)].yields;
          values.insert(values.end(), yields.begin(), yields.end());
        }
      });
      values.insert(values.end(), m_[m_.region(o, r)].yields.begin(), m_[m_.region(o, r)].yields.end());
    }
  }

  void keep(OpId o, std::vector<OpId>& out) {
    for (size_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = outer_(m_.operand(o, i));
    const bool already = m_.record(o).regions == RegionKind::Fused;
    for (uint32_t r = 0; r < m_[o].numRegions && !already; ++r)
      BlockFuser(m_, m_.region(o, r), limit_, narrow_, order_, outer_, remarks_).run();
    out.push_back(o);
  }

  void emit(uint32_t g, std::vector<OpId>& out) {
    const std::vector<OpId> ops = groups_.group(g).ops;
    const bool all =
        groups_.group(g).kind == "ordered" || groups_.group(g).kind == "whole"; // one kernel makes them
    std::vector<ValueId> results;
    for (OpId o : ops)
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        if (read_[m_.result(o, r).index] || all) results.push_back(m_.result(o, r));
    if (results.empty()) return;
    region_ = m_.makeBlock();
    starts_.clear();
    inner_.clear();
    body_.clear();
    for (OpId o : needed(g, results)) copy(o, o);
    AttrList attrs;
    attrs.push_back({m_.strings.intern("kind"), m_.attrs.string(m_.strings.intern(groups_.group(g).kind))});
    if (order_.valid() && groups_.group(g).kind != "pointwise" && groups_.group(g).kind != "view")
      attrs.push_back({m_.strings.intern("order"), order_});
    const OpId fused = m_.makeOp(m_.registry->find("fused"), starts_, static_cast<uint32_t>(results.size()),
                                 std::move(attrs), 1, m_[ops.back()].loc);
    m_[fused].parent = block_;
    const BlockId body = m_.region(fused);
    m_[body].parentFunc = m_[block_].parentFunc;
    m_[body].args = m_[region_].args;
    for (ValueId a : m_[body].args) m_[a].owner = body.index;
    for (OpId o : body_) m_[o].parent = body;
    m_[body].ops = body_;
    for (size_t i = 0; i < results.size(); ++i) {
      m_[body].yields.push_back(inner_.at(results[i].index));
      const ValueId made = m_.result(fused, i);
      m_[made].type = m_[results[i]].type;
      m_[made].name = m_[results[i]].name;
      m_[made].loc = m_[results[i]].loc;
      outer_.set(results[i], made);
    }
    out.push_back(fused);
  }

  // A group's ops without those whose only readers fold them.
  std::vector<OpId> needed(uint32_t g, const std::vector<ValueId>& results) const {
    std::unordered_map<uint32_t, bool> read;
    for (ValueId v : results) read[v.index] = true;
    std::vector<OpId> ops = groups_.group(g).ops;
    for (size_t i = ops.size(); i-- > 0;) {
      const OpId o = ops[i];
      bool any = false;
      for (uint32_t r = 0; r < m_[o].numResults; ++r) any |= read[m_.result(o, r).index];
      if (!any) {
        ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      std::vector<ValueId> work;
      collect(o, work);
      while (!work.empty()) {
        const ValueId v = work.back();
        work.pop_back();
        read[v.index] = true;
        if (m_[v].kind == ValueKind::OpResult && groups_.folds(o, OpId(m_[v].owner)))
          for (ValueId next : m_.operands(OpId(m_[v].owner))) work.push_back(next);
      }
    }
    return ops;
  }

  // The value inside of the region that is being made: copied with it, or an argument.
  ValueId within(OpId reader, ValueId v) {
    const Value value = m_[v];
    if (value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) return v;
    if (auto it = inner_.find(v.index); it != inner_.end()) return it->second;
    if (value.kind == ValueKind::OpResult && groups_.folds(reader, OpId(value.owner))) {
      copy(OpId(value.owner), reader);
      return inner_.at(v.index);
    }
    const ValueId arg =
        m_.makeBlockArg(region_, value.type, m_.strings.intern("p" + std::to_string(starts_.size())));
    starts_.push_back(outer_(v));
    return inner_[v.index] = arg;
  }
  void copy(OpId o, OpId reader) {
    std::vector<ValueId> operands;
    for (size_t i = 0; i < m_[o].numOperands; ++i) operands.push_back(within(reader, m_.operand(o, i)));
    const Op source = m_[o];
    const OpId made = m_.makeOp(source.kind, operands, source.numResults, source.attrs, 0, source.loc);
    for (uint32_t r = 0; r < source.numResults; ++r) {
      m_[m_.result(made, r)].type = m_[m_.result(o, r)].type;
      m_[m_.result(made, r)].loc = m_[m_.result(o, r)].loc;
      inner_[m_.result(o, r).index] = m_.result(made, r);
    }
    body_.push_back(made);
  }

  Module& m_;
  BlockId block_;
  size_t limit_;
  bool narrow_;
  AttrId order_;
  FusionGroups groups_;
  ValueMap& outer_;
  std::vector<PassRemark>* remarks_;
  std::unordered_map<uint32_t, bool> read_;
  BlockId region_;
  std::vector<ValueId> starts_;
  std::unordered_map<uint32_t, ValueId> inner_;
  std::vector<OpId> body_;
};

} // namespace

bool fusePass(Module& m, const PassOptions& options, Diagnostics& diags) {
  auto it = options.values.find("limit");
  const size_t limit =
      it == options.values.end() ? 64 : static_cast<size_t>(std::max(1, std::atoi(it->second.c_str())));
  auto written = options.values.find("order");
  const bool fixed = written != options.values.end() && written->second == "fixed";
  if (written != options.values.end() && !fixed && written->second != "any") {
    diags.error(kOrder, {}, written->second);
    return false;
  }
  auto groups = options.values.find("groups");
  const bool wholeGroups = groups != options.values.end() && groups->second == "whole";
  if (groups != options.values.end() && !wholeGroups && groups->second != "blocks") {
    diags.error(kGroups, {}, groups->second);
    return false;
  }
  auto kept = options.values.find("whole");
  const bool whole = kept != options.values.end() && kept->second == "true";
  auto widened = options.values.find("narrow");
  const bool narrow = widened != options.values.end() && widened->second == "true" && !fixed;
  const AttrId order = fixed ? m.attrs.string(m.strings.intern("fixed")) : AttrId();
  for (FuncId f : m.order) {
    if (!m[f].spmd) continue;
    if (limit > 1 && !fixed) splitRows(m, m[f].body, whole, diags);
    if (!decomposeNeeded(m, m[f].body, diags, whole && !fixed)) return false;
    if (limit > 1 && !wholeGroups && !blockGroups(m, m[f].body, diags)) return false;
    if (limit > 1 && whole && !fixed) splitAttention(m, m[f].body, diags);
    if (limit > 1 && !fixed) splitReductions(m, m[f].body, whole, diags);
    ValueMap map;
    BlockFuser(m, m[f].body, limit, narrow, order, map, options.remarks).run();
    if (limit > 1 && whole && !fixed) readAttentionResult(m, m[f].body);
  }
  return !diags.hasErrors();
}

PassInfo fuseInfo() {
  return {
      .name = "fuse",
      .summary = "groups ops into regions, one kernel or library call each",
      .why =
          "After partition and optimize-collectives, which say what one device computes and where it waits "
          "for others; "
          "before schedule and plan-memory, which order and place the regions. Before it every op stands by "
          "itself; "
          "after it all that computes stands in `fused` regions: chains of elementwise ops as one, with the "
          "reductions over their rows and what follows these; moves (reshape, transpose, slice) inside of "
          "their "
          "readers; matrix products with the elementwise ops behind them.",
      .needs = Level::Local,
      .gives = Level::Scheduled,
      .run = fusePass,
      .before = R"(mesh @m = [a=1]

spmd func @main(%x: f32[8, 64], %b: f32[64]) -> (%y: f32[8, 64]) {
  %0 = add %x, %b : f32[8, 64]
  %y = tanh %0 : f32[8, 64]
  return %y
}
)",
      .after = R"(mesh @m = [a=1]

spmd func @main(%x: f32[8, 64], %b: f32[64]) -> (%y: f32[8, 64]) {
  %y = fused (%p0 = %x, %p1 = %b) {kind = "pointwise"} {
    %0 = add %p0, %p1 : f32[8, 64]
    %1 = tanh %0 : f32[8, 64]
    yield %1
  } : f32[8, 64]
  return %y
}
)",
      .options = {
          {"limit", "64", "how many ops one region may have; 1 makes every op a kernel of its own"},
          {"order", "any",
           "fixed: each sum is made element by element, in order, with no library, so that its bits do "
           "not depend on the sizes of what stands around it"},
          {"groups", "blocks",
           "a grouped_matmul of size becomes products of blocks of rows, which a library makes; whole: it "
           "stays one "
           "op, for targets that have a kernel for it"},
          {"whole", "false",
           "true: ops that the target has a kernel of stay, though no CPU has (attention's gradient in bf16 "
           "and f16 on a GPU, with its y beside it, which a library reads); and attention of few queries is "
           "made of parts of its keys, so that all of a "
           "GPU has one"},
          {"narrow", "false",
           "true: matrix products of f8 that is converted to f16, bf16 or f32 first, and multiplied by one "
           "number (or divided), take both in, for targets whose library multiplies f8"}}};
}

} // namespace dtc
