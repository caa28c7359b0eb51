#include "dtc/Passes/fuse/Fuse.h"
#include "dtc/Ops/elementwise/Gelu.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Passes/analysis/Recomputes.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "fuse/ContractionLayouts.h"
#include "fuse/ConvLayouts.h"
#include "fuse/FusionSteps.h"
#include "fuse/StoreOnce.h"
#include <algorithm>

namespace dtc {

namespace {

// Rewrites one block into its groups.
class BlockFuser {
public:
  // `order`: the reduction order attribute of the regions that reduce, or invalid.
  BlockFuser(Module& m, BlockId block, size_t limit, uint32_t narrow, AttrId order, FusionTables& tables,
             ValueMap& outer, std::vector<PassRemark>* remarks)
      : m_(m), block_(block), limit_(limit), narrow_(narrow), order_(order), tables_(tables),
        groups_(m, block, limit, tables), outer_(outer), remarks_(remarks) {}

  void run() {
    tables_.read.resize(std::max(tables_.read.size(), m_.values.size()));
    tables_.needed.clear(m_.values.size());
    tables_.copies.clear(m_.values.size());
    tables_.moved.clear(m_.values.size());
    groupOps(groups_, narrow_, tables_);
    if (remarks_) remark();
    const std::vector<uint32_t> order = groups_.order();
    // The block around a loop has noted all that is read in the loop, by kernels of this block too.
    for (OpId o : m_[block_].ops)
      for (uint32_t r = 0; r < m_[o].numResults; ++r) tables_.read[m_.result(o, r).index] = false;
    for (uint32_t g : order) findReads(g);
    for (ValueId v : m_[block_].yields) tables_.read[v.index] = true;
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
  // The values passed between kernels through memory.
  void remark() {
    for (const MaterializedValue& a : groups_.materializedValues()) {
      const OpId maker(m_[a.value].owner);
      const Type& t = m_.typeOf(a.value);
      const auto n = t.isStatic() ? t.numElements() : std::nullopt;
      remarks_->push_back({std::string(m_.record(maker).name) + " -> " + m_.record(a.reader).name,
                           std::string(a.why), m_[a.reader].loc, n ? *n * dtypeBytes(t.dtype) : 0});
    }
  }

  // The operands of a group.
  void findReads(uint32_t g) {
    for (OpId o : groups_.group(g).ops) {
      if (!groups_.group(g).fusible) {
        for (ValueId v : groups_.valuesReadBy(o)) tables_.read[v.index] = true;
        continue;
      }
      groups_.forEachRead(o, [&](ValueId v, bool, bool folded) {
        if (!folded && groups_.groupOf(v) != static_cast<int>(g)) tables_.read[v.index] = true;
      });
    }
  }
  void keep(OpId o, std::vector<OpId>& out) {
    for (size_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = outer_(m_.operand(o, i));
    const bool already = m_.record(o).regions == RegionKind::Fused;
    for (uint32_t r = 0; r < m_[o].numRegions && !already; ++r)
      BlockFuser(m_, m_.region(o, r), limit_, narrow_, order_, tables_, outer_, remarks_).run();
    out.push_back(o);
  }

  void emit(uint32_t g, std::vector<OpId>& out) {
    const std::vector<OpId> ops = groups_.group(g).ops;
    const bool all =
        groups_.group(g).kind == "ordered" || groups_.group(g).kind == "whole"; // computed by one kernel
    std::vector<ValueId> results;
    if (all) findMoved(ops);
    for (OpId o : ops)
      for (uint32_t r = 0; r < m_[o].numResults; ++r) {
        const ValueId v = m_.result(o, r), moved = tables_.moved[v.index];
        if (all ? o == ops[0] : tables_.read[v.index]) results.push_back(all && moved.valid() ? moved : v);
      }
    if (results.empty()) return;
    storeRows(g, results);
    region_ = m_.makeBlock();
    starts_.clear();
    tables_.copies.clear(0);
    body_.clear();
    for (OpId o : needed(g, results)) copy(o, o);
    AttrList attrs;
    attrs.push_back({m_.strings.intern("kind"), m_.attrs.string(m_.strings.intern(groups_.group(g).kind))});
    if (order_.valid() && groups_.group(g).kind != "pointwise" && groups_.group(g).kind != "view")
      attrs.push_back({m_.strings.intern("order"), order_});
    if (groups_.gelu && groups_.group(g).kind == "gemm" &&
        std::ranges::any_of(ops, [&](OpId o) { return isGeluTanh(m_, o) || geluTanhGradient(m_, o); }))
      attrs.push_back({m_.strings.intern("gelu"), m_.attrs.string(m_.strings.intern("library"))});
    if (groups_.group(g).slot != FusionSlot())
      for (const NamedAttr& a : m_[ops.front()].attrs)
        if (isSlotAttr(m_.strings[a.name])) attrs.push_back(a);
    const OpId fused =
        m_.makeOp(m_.registry->find(RegionKind::Fused), starts_, static_cast<uint32_t>(results.size()),
                  std::move(attrs), 1, m_[ops.back()].loc);
    m_[fused].parent = block_;
    const BlockId body = m_.region(fused);
    m_[body].parentFunc = m_[block_].parentFunc;
    m_[body].args = m_[region_].args;
    for (ValueId a : m_[body].args) m_[a].owner = body.index;
    for (OpId o : body_) m_[o].parent = body;
    m_[body].ops = body_;
    for (size_t i = 0; i < results.size(); ++i) {
      m_[body].yields.push_back(tables_.copies[results[i].index]);
      const ValueId made = m_.result(fused, i);
      m_[made].type = m_[results[i]].type;
      m_[made].name = m_[results[i]].name;
      m_[made].loc = m_[results[i]].loc;
      outer_.set(results[i], made);
    }
    out.push_back(fused);
  }

  // Attention that stores rows stores them even if only its log-sum-exp is read: the kernel computes both.
  void storeRows(uint32_t g, std::vector<ValueId>& results) const {
    if (groups_.group(g).kind != "attention" || !groups_.attentionRows) return;
    const OpId attention = groups_.group(g).ops[0];
    const auto hasRows = [&](ValueId v) { // the group's other ops only move the results
      while (v != m_.result(attention) && m_[v].kind == ValueKind::OpResult && OpId(m_[v].owner) != attention)
        v = m_.operand(OpId(m_[v].owner), 0);
      return v == m_.result(attention);
    };
    if (std::ranges::none_of(results, hasRows)) results.insert(results.begin(), m_.result(attention));
  }

  // The data-movement ops of the group, by the result of its first op that they write elsewhere.
  void findMoved(std::span<const OpId> ops) {
    tables_.moved.clear(0);
    for (OpId o : ops.subspan(1))
      tables_.moved[groups_.sourceOf(m_.operand(o, 0)).value.index] = m_.result(o);
  }

  // The ops of a group, without those whose only readers fold them.
  std::vector<OpId> needed(uint32_t g, const std::vector<ValueId>& results) const {
    ScratchMap<bool>& read = tables_.needed;
    read.clear(0);
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
      groups_.forEachRead(o, [&](ValueId v, bool, bool) { read[v.index] = true; });
    }
    return ops;
  }

  // The value inside the region under construction: copied into it, or an argument.
  ValueId within(OpId reader, ValueId v) {
    const Value value = m_[v];
    if (value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) return v;
    if (const ValueId made = tables_.copies[v.index]; made.valid()) return made;
    if (value.kind == ValueKind::OpResult && groups_.folds(reader, OpId(value.owner))) {
      copy(OpId(value.owner), reader);
      return tables_.copies[v.index];
    }
    const ValueId arg =
        m_.makeBlockArg(region_, value.type, m_.strings.intern("p" + std::to_string(starts_.size())));
    starts_.push_back(outer_(v));
    return tables_.copies[v.index] = arg;
  }
  void copy(OpId o, OpId reader) {
    std::vector<ValueId> operands;
    for (size_t i = 0; i < m_[o].numOperands; ++i) operands.push_back(within(reader, m_.operand(o, i)));
    const Op source = m_[o];
    const OpId made = m_.makeOp(source.kind, operands, source.numResults, source.attrs, 0, source.loc);
    for (uint32_t r = 0; r < source.numResults; ++r) {
      m_[m_.result(made, r)].type = m_[m_.result(o, r)].type;
      m_[m_.result(made, r)].loc = m_[m_.result(o, r)].loc;
      tables_.copies[m_.result(o, r).index] = m_.result(made, r);
    }
    body_.push_back(made);
  }

  Module& m_;
  BlockId block_;
  size_t limit_;
  uint32_t narrow_; // Target::narrowDTypes
  AttrId order_;
  FusionTables& tables_;
  FusionGroups groups_;
  ValueMap& outer_;
  std::vector<PassRemark>* remarks_;
  BlockId region_;
  std::vector<ValueId> starts_;
  std::vector<OpId> body_;
};

} // namespace

// About what a GPU of 132 multiprocessors needs to be full: the operands of five sums of 1,024 rows.
static constexpr int64_t kWaitingBytes = int64_t(16) << 20;

// In a program that computes values again, ops with more contractions between them are not computed together.
static constexpr uint32_t kFar = 4;

bool fusePass(Module& m, const PassOptions& options, Diagnostics& diags) {
  const auto limit = static_cast<size_t>(options.integer("limit").value_or(64));
  const bool fixed = options.word("order", "any") == "fixed";
  const bool libraryGelu = options.word("gelu", "exact") == "library";
  const AttrId order = fixed ? m.attrs.string(m.strings.intern("fixed")) : AttrId();
  for (FuncId f : m.order) {
    if (!m[f].spmd) continue;
    const Target target = targetOf(m, f);
    ValueMap map;
    FusionTables tables{.forms = FusionForms(m),
                        .callsPerIndex = target.gpu,
                        .writesOnce = target.gpu,
                        .attentionRows = target.gpu,
                        .epilogues = target.gemmEpilogues && !fixed,
                        .gelu = target.gemmEpilogues && !fixed && libraryGelu,
                        .distance = recomputes(m, f) ? kFar : 0,
                        .waitingBytes = target.gpu ? kWaitingBytes : 0,
                        .fixedOrder = fixed};
    if (limit > 1 && !fixed) layOutContractions(m, m[f].body, tables.forms, tables.layouts);
    if (limit > 1 && target.gpu && !fixed)
      layOutConvolutions(m, m[f].body, tables.forms, target.convDTypes, tables.layouts);
    if (limit > 1) storeOnce(m, m[f].body, tables.forms);
    BlockFuser(m, m[f].body, limit, fixed ? 0 : target.narrowDTypes(), order, tables, map, options.remarks)
        .run();
  }
  return !diags.hasErrors();
}

} // namespace dtc
