#include "analysis/FusedRegions.h"
#include "analysis/FusionForm.h"
#include "dtc/IR/RegionParts.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include "dtc/Ops/linear_algebra/Factorization.h"
#include "dtc/Support/Suggest.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {
namespace {

constexpr DiagKind kNoKernel{"fused-op", "no kernel computes '{0}' in this region: {1}"};
constexpr DiagKind kInside{"fused-op", "'{0}' is part of a kernel and has no '{1}': write it on the region"};
constexpr DiagKind kOutside{
    "fused-op", "'{0}' is in no 'fused' region, but scheduled text has a region for every kernel"};
constexpr DiagKind kWord{"fused-kind", "unknown {0} \"{1}\" of 'fused'{2}"};
constexpr DiagKind kKind{"fused-kind",
                         "this region is not of kind \"{0}\": write kind = \"{1}\", or no kind for a "
                         "generated kernel"};

constexpr const char* kOwnRegion = "; give it a 'fused' of its own, or let the pass 'fuse' form the regions";

class RegionCheck {
public:
  RegionCheck(Module& m, OpId fused, FusionForms& forms, Diagnostics& diags)
      : m_(m), fused_(fused), body_(m[m.region(fused)]), forms_(forms), diags_(diags) {}

  void run() {
    const size_t before = diags_.numErrors();
    const std::string_view kind = word("kind");
    if (kind == "reductions") parts_.emplace(m_, body_);
    for (OpId o : body_.ops) op(o);
    if (diags_.numErrors() == before && !oneKernel(kind == "columns")) return;
    if (diags_.numErrors() != before) return;
    known("order", word("order"), {"fixed"});
    known("gelu", word("gelu"), {"library"});
    if (!kind.empty() && known("kind", kind,
                               {"pointwise", "view", "copy", "row", "reduce", "columns", "reductions", "gemm",
                                "attention", "ordered", "whole"}))
      if (const auto kinds = kindsOfBody(); std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
        diags_.error(kKind, m_[fused_].loc, kind, kinds[0]);
  }

private:
  Diagnostic& refuse(OpId o, const std::string& why) {
    return diags_.error(kNoKernel, m_[o].loc, m_.record(o).name, why);
  }
  std::string_view word(const char* attr) const {
    const AttrId given = m_.attr(fused_, attr);
    return given.valid() ? m_.strings[m_.attrs[given].text] : std::string_view();
  }
  bool known(const char* attr, std::string_view word, const std::vector<std::string_view>& words) {
    const bool good = word.empty() || std::find(words.begin(), words.end(), word) != words.end();
    if (!good) diags_.error(kWord, m_[fused_].loc, attr, word, suggestion(Vocabulary::Plain, word, words));
    return good;
  }

  void op(OpId o) {
    const OpRecord& record = m_.record(o);
    const FusionForm& form = forms_.of(o);
    for (const char* attr : {"at", "stream"})
      if (m_.attr(o, attr)) diags_.error(kInside, m_[o].loc, record.name, attr);
    const bool constant = m_[o].numOperands == 0 && record.element && !record.isCollective();
    if (m_[o].numRegions != 0 || record.isCall)
      refuse(o, "it contains ops of its own; move it out of the region");
    else if (record.sideEffect)
      refuse(o, "it runs on the host; move it out of the region");
    else if (!form.loops && record.isCollective())
      refuse(o, "it depends on other devices; move it out of the region");
    else if (!form.loops && !constant)
      refuse(o, "it has no loops; let the passes 'decompose' and 'fuse' form the regions");
    else if (form.ordered || form.alone)
      alone(o);
    else if (form.contracts || form.reduces)
      walks(o, form);
  }

  // The ops of the region that an op with an order of its own computes as it reads its operands: those that make
  // the operand that it updates of nothing, and one elementwise op on each of the others.
  std::vector<OpId> ownOperands(OpId o) const {
    std::vector<OpId> own;
    const int rewrites = m_.record(o).rewrites;
    if (rewrites < 0) return own;
    for (size_t i = 0; i < m_[o].numOperands; ++i) {
      const OpId first = makerOf(m_.operand(o, i));
      if (static_cast<size_t>(rewrites) != i) {
        if (first.valid() && m_.record(first).scalar && m_[first].numOperands == 1 &&
            !makerOf(m_.operand(first, 0)).valid())
          own.push_back(first);
        continue;
      }
      std::vector<OpId> made;
      OpId maker = first;
      for (; maker.valid() && m_[maker].numOperands == 1; maker = makerOf(m_.operand(maker, 0)))
        made.push_back(maker);
      if (maker.valid() && m_[maker].numOperands == 0)
        made.push_back(maker);
      else
        made.clear();
      own.insert(own.end(), made.begin(), made.end());
    }
    return own;
  }
  [[nodiscard]] OpId makerOf(ValueId v) const {
    const OpId o = m_.definingOp(v);
    return std::ranges::find(body_.ops, o) == body_.ops.end() ? OpId() : o;
  }

  // An op whose kernel has an order of its own makes all its results; a library also takes the region's operands
  // as its own.
  void alone(OpId o) {
    const FusionForm form = forms_.of(o);
    const std::optional<AttentionDelta> delta =
        form.writesRows ? attentionDelta(m_, o) : std::optional<AttentionDelta>();
    const auto inDelta = [&](OpId other) {
      return delta && std::find(delta->ops.begin(), delta->ops.end(), other) != delta->ops.end();
    };
    const std::vector<OpId> own = form.ordered ? ownOperands(o) : std::vector<OpId>();
    const auto isOwn = [&](OpId other) { return std::ranges::find(own, other) != own.end(); };
    for (OpId other : body_.ops)
      if (other != o && !inDelta(other) && !isOwn(other) &&
          !(form.readsRows && (forms_.of(other).compound || forms_.of(other).slices)))
        return void(refuse(o, std::string("it is a kernel of its own") + kOwnRegion));
    const bool library = m_.record(o).lowering == Lowering::Library;
    bool same = body_.yields.size() == m_[o].numResults;
    for (uint32_t r = 0; same && r < m_[o].numResults; ++r) {
      const Path path = pathOf(body_.yields[r]);
      same = path.origin == m_.result(o, r);
      if (same && !path.ops.empty() && !(form.writesRows && path.view && path.view->storesRows()))
        return void(refuse(o, "it cannot write its results in this layout"));
    }
    if (!same) return void(refuse(o, "its region must yield all of its results, in their order"));
    for (size_t i = 0; i < m_[o].numOperands; ++i)
      if (const Path path = pathOf(m_.operand(o, i)); !path.ops.empty() && !isOwn(path.ops.front()) &&
                                                      !(isRowsOperand(i) && path.view && path.view->isRows()))
        return void(
            refuse(o, "it cannot read '" + std::string(operandName(m_.record(o), i)) + "' in this layout"));
    for (ValueId v : delta ? std::vector{delta->y, delta->cotangent} : std::vector<ValueId>())
      if (const Path path = pathOf(v); !path.view || !path.view->isRows())
        return void(refuse(o, "it cannot read 'y', of which it computes 'delta', in this layout"));
    Diagnostics quiet;
    if (library && !factorizationOf(queryOf(m_, o, quiet)))
      refuse(o, "a library takes it in a layout of its own; run 'decompose' before the op is in a 'fused'");
    else if (library && !std::ranges::equal(body_.args, m_.operands(o)))
      refuse(o, "its region must have its operands as arguments, in their order");
  }

  // Data movement from `origin` to a value of the region; no view if it has no strided layout.
  struct Path {
    ValueId origin;
    std::vector<OpId> ops; // the last first
    std::optional<StridedView> view;
  };
  Path pathOf(ValueId v) {
    Path path;
    for (path.origin = v; m_[path.origin].kind == ValueKind::OpResult;) {
      const OpId o(m_[path.origin].owner);
      if (!forms_.of(o).compound && !forms_.of(o).slices) break;
      path.ops.push_back(o);
      path.origin = m_.operand(o, 0);
    }
    path.view.emplace(m_, m_.typeOf(path.origin));
    for (size_t i = path.ops.size(); i-- > 0 && path.view;)
      if (!path.view->apply(forms_.of(path.ops[i]).rule)) path.view.reset();
    return path;
  }

  // The loops of a contraction, or of reductions of the same rows.
  void walks(OpId o, const FusionForm& form) {
    for (const OpId w : walks_) {
      if (parts_ && parts_->of(w) != parts_->of(o)) continue;
      const FusionForm& other = forms_.of(w);
      if (form.reduces && other.reduces && other.reduced == form.reduced && rowsOf(o) == rowsOf(w)) return;
    }
    walks_.push_back(o);
  }
  const std::vector<Dim>& rowsOf(OpId o) const { return m_.typeOf(m_.operand(o, 0)).dims; }

  bool isColumns(OpId o) { return forms_.of(o).reduces && !forms_.of(o).reduced.back(); }
  [[nodiscard]] bool isOnlyWalkOfPart(OpId o) const {
    return std::ranges::count_if(walks_, [&](OpId w) { return parts_->of(w) == parts_->of(o); }) == 1;
  }

  bool oneKernel(bool columns) {
    if (walks_.size() < 2) return true;
    const auto walksBoth = [&](OpId row, OpId column) {
      return forms_.of(row).reduces && forms_.of(column).reduces &&
             columnParts(forms_.of(row).reduced, rowsOf(row), forms_.of(column).reduced, rowsOf(column));
    };
    if (parts_ && std::ranges::all_of(walks_, [&](OpId o) { return isColumns(o) && isOnlyWalkOfPart(o); }))
      return true;
    if (columns && walks_.size() == 2 && (walksBoth(walks_[0], walks_[1]) || walksBoth(walks_[1], walks_[0])))
      return true;
    refuse(walks_[1],
           "its loops differ from those of '" + std::string(m_.record(walks_[0]).name) + "'" + kOwnRegion)
        .note(m_[walks_[0]].loc,
              "one kernel has the loops of one contraction, or of reductions of the same rows");
    return false;
  }

  // The kinds that describe the body; the first is that of `fuse`.
  std::vector<std::string_view> kindsOfBody() {
    for (OpId o : body_.ops) {
      if (forms_.of(o).ordered) return {"ordered"};
      if (forms_.of(o).alone) return {"whole"};
    }
    if (parts_ && walks_.size() > 1 && walks_.size() == parts_->count()) return {"reductions"};
    if (walks_.size() > 1) return {"columns"};
    if (walks_.size() == 1) {
      const FusionForm& form = forms_.of(walks_[0]);
      if (form.library) return {"gemm"};
      if (form.attention) return {"attention"};
      if (form.contracts || !form.reduced.back()) return {"reduce"};
      return {"row", "reduce"};
    }
    if (isView()) return {"view", "copy"};
    if (movesData()) return {"copy", "pointwise"};
    return {"pointwise"};
  }

  // Values without operands of the region, such as indices, are recomputed where they are read.
  bool movesData() {
    std::unordered_set<ValueId> read(body_.args.begin(), body_.args.end());
    return std::ranges::all_of(body_.ops, [&](OpId o) {
      const bool reads = std::ranges::any_of(m_.operands(o), [&](ValueId v) { return read.contains(v); });
      for (uint32_t r = 0; reads && r < m_[o].numResults; ++r) read.insert(m_.result(o, r));
      return !reads || forms_.of(o).move || forms_.of(o).joins;
    });
  }

  // The result has the bytes of the only operand, in their order.
  bool isView() {
    if (body_.args.size() != 1 || body_.yields.size() != 1) return false;
    StridedView view(m_, m_.typeOf(body_.args[0]));
    ValueId at = body_.args[0];
    for (OpId o : body_.ops) {
      const FusionForm& form = forms_.of(o);
      if (!form.compound || m_.operand(o, 0) != at || !view.apply(form.rule)) return false;
      at = m_.result(o);
    }
    return at == body_.yields[0] && view.identity();
  }

  Module& m_;
  OpId fused_;
  const Block& body_;
  FusionForms& forms_;
  Diagnostics& diags_;
  std::vector<OpId> walks_;          // the first op of each different loop nest
  std::optional<RegionParts> parts_; // if each may have a nest of its own
};

} // namespace

bool checkFusedRegions(Module& m, Diagnostics& diags) {
  const size_t before = diags.numErrors();
  for (FuncId f : m.order) {
    if (!m[f].spmd || !m[f].body.valid()) continue;
    FusionForms forms(m);
    const bool scheduled = findAttr(m[f].attrs, m.strings.find("streams")).valid();
    forEachOp(m, m[f].body, [&](OpId o) {
      if (diags.full()) return;
      if (m.record(o).regions == RegionKind::Fused) RegionCheck(m, o, forms, diags).run();
      if (scheduled && needsRegion(m, o)) diags.error(kOutside, m[o].loc, m.record(o).name);
    });
  }
  return diags.numErrors() == before;
}

} // namespace dtc
