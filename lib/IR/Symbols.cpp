#include "dtc/IR/Symbols.h"
#include "dtc/IR/OpRecord.h"
#include <unordered_set>

namespace dtc {

namespace {

class Collector {
public:
  explicit Collector(const Module& m) : m_(m) {}

  std::vector<SymbolUse> run(FuncId f) {
    for (const FuncArg& a : m_[f].args) {
      type(m_[a.value].type, m_[a.value].loc, {});
      type(a.globalType, m_[a.value].loc, {});
    }
    for (const FuncResult& r : m_[f].results) {
      type(r.type, r.loc, {});
      type(r.globalType, r.loc, {});
    }
    forEachOp(m_, m_[f].body, [&](OpId o) { op(o); });
    return std::move(uses_);
  }

private:
  void op(OpId o) {
    for (ValueId v : m_.operands(o))
      if (m_[v].kind == ValueKind::Symbol) dim(m_[v].symbol, m_[o].loc, o);
    for (uint32_t k = 0; k < m_[o].numRegions; ++k)
      for (ValueId v : m_[m_.region(o, k)].yields)
        if (m_[v].kind == ValueKind::Symbol) dim(m_[v].symbol, m_[o].loc, o);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) type(m_[m_.result(o, r)].type, m_[o].loc, o);
    for (const AttrSpec& spec : m_.record(o).attrs)
      if (spec.type == AttrType::Size || spec.type == AttrType::Sizes)
        if (AttrId a = m_.attr(o, spec.name); a.valid()) attr(a, o);
  }

  void attr(AttrId id, OpId o) {
    const Attr& a = m_.attrs[id];
    if (a.kind == Attr::Word) add(a.text, m_[o].loc, o);
    if (a.kind == Attr::Size) dim(a.dim, m_[o].loc, o);
    for (AttrId inner : a.list) attr(inner, o);
  }

  void type(TypeId id, SourceRange where, OpId o) {
    if (!id.valid()) return;
    for (Dim d : m_.types[id].dims) dim(d, where, o);
  }
  void dim(Dim d, SourceRange where, OpId o) {
    if (d.isStatic()) return;
    for (StrId s : m_.dims.dynamic(d).symbols) add(s, where, o);
  }
  void add(StrId name, SourceRange where, OpId o) {
    if (seen_.insert(name).second) uses_.push_back({name, where, o});
  }

  const Module& m_;
  std::vector<SymbolUse> uses_;
  std::unordered_set<StrId> seen_;
};

} // namespace

std::vector<SymbolUse> symbolsOf(const Module& m, FuncId f) { return Collector(m).run(f); }

} // namespace dtc
