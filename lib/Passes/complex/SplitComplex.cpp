#include "dtc/Passes/complex/SplitComplex.h"
#include "complex/SplitComplexOps.h"
#include "dtc/Ops/OpName.h"
#include <algorithm>
#include <array>
#include <unordered_set>

namespace dtc {

namespace {

bool hasComplex(const Module& m, std::span<const ValueId> values) {
  return std::ranges::any_of(values,
                             [&](ValueId v) { return m[v].type.valid() && isComplex(m.typeOf(v).dtype); });
}

bool hasComplex(const Module& m, FuncId f) {
  for (const FuncArg& a : m[f].args)
    if (hasComplex(m, std::array{a.value})) return true;
  bool found = false;
  forEachOp(m, m[f].body, [&](OpId o) {
    for (uint32_t r = 0; r < m[o].numResults; ++r) found = found || hasComplex(m, std::array{m.result(o, r)});
    for (uint32_t k = 0; k < m[o].numRegions; ++k) found = found || hasComplex(m, m[m.region(o, k)].args);
    found = found || hasComplex(m, m.operands(o)); // literals included
  });
  return found || hasComplex(m, m[m[f].body].yields);
}

// Whether a function is split: of complex arguments only the parts are read, and complex results are made of parts.
// Partition adds what reshards such results, on complex values: collectives, and a select for partial sums. Its text is
// left as it is, so that local text that is read again has the same messages and the same order of ops.
class SplitFinder {
public:
  SplitFinder(const Module& m, FuncId f) : m_(m), f_(f) {}

  [[nodiscard]] bool isSplit() const {
    bool split = true;
    forEachOp(m_, m_[f_].body, [&](OpId o) {
      split = split && (!readsComplex(o) || readsPart(o) || resharding(o));
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        split = split &&
                (!hasComplex(m_, std::array{m_.result(o, r)}) || m_[o].kind == complex_ || resharding(o));
      for (uint32_t k = 0; k < m_[o].numRegions; ++k)
        split = split && !hasComplex(m_, m_[m_.region(o, k)].args);
    });
    return split;
  }

private:
  [[nodiscard]] bool readsComplex(OpId o) const { return hasComplex(m_, m_.operands(o)); }
  [[nodiscard]] bool readsPart(OpId o) const {
    const ValueId v = m_.operand(o, 0);
    return (m_[o].kind == real_ || m_[o].kind == imag_) && m_[v].kind == ValueKind::BlockArg &&
           BlockId(m_[v].owner) == m_[f_].body;
  }
  [[nodiscard]] bool resharding(OpId o) const {
    if (!m_[f_].spmd || (!hasGroups(m_.record(o).collective) && m_[o].kind != select_)) return false;
    return std::ranges::all_of(m_.operands(o), [&](ValueId v) {
      return !hasComplex(m_, std::array{v}) || m_[v].kind != ValueKind::BlockArg;
    });
  }

  const Module& m_;
  FuncId f_;
  OpKind real_ = m_.registry->find(OpName("real")), imag_ = m_.registry->find(OpName("imag")),
         complex_ = m_.registry->find(OpName("complex")), select_ = m_.registry->find(OpName("select"));
};

// Rebuilds the bodies of functions op by op.
class Splitter {
public:
  Splitter(Module& m, Diagnostics& diags) : m_(m), diags_(diags) {}

  bool run() {
    const std::vector<FuncId> before = m_.order;
    const auto wereCalled = calledFunctions();
    for (FuncId f : before)
      if (levelOf(m_, f) < Level::Split && hasComplex(m_, f) && !SplitFinder(m_, f).isSplit() && !inPlace(f))
        return false;
    const auto stillCalled = calledFunctions();
    std::erase_if(m_.order,
                  [&](FuncId f) { return wereCalled.contains(f.index) && !stillCalled.contains(f.index); });
    return !diags_.hasErrors();
  }

private:
  std::unordered_set<uint32_t> calledFunctions() const {
    std::unordered_set<uint32_t> out;
    for (FuncId f : m_.order) {
      forEachOp(m_, m_[f].body, [&](OpId o) {
        if (m_.record(o).isCall) out.insert(m_.findFunction(m_.strings[m_[o].callee]).index);
      });
      if (FuncId g = gradientOf(f); g.valid()) out.insert(g.index);
    }
    return out;
  }
  FuncId gradientOf(FuncId f) const {
    const AttrId grad = findAttr(m_[f].attrs, m_.strings.find("grad"));
    return grad.valid() ? m_.findFunction(m_.strings[m_.attrs[grad].text]) : FuncId();
  }

  // A function that is not called: its signature is unchanged.
  bool inPlace(FuncId f) {
    const BlockId body = m_[f].body, fresh = m_.makeBlock();
    m_[fresh].parentFunc = f;
    m_[fresh].terminatorLoc = m_[body].terminatorLoc;
    m_[fresh].args = m_[body].args;
    for (ValueId a : m_[fresh].args) m_[a].owner = fresh.index;
    ComplexValues values(m_, f);
    std::vector<OpId> ops;
    Builder b(m_, fresh, ops, diags_);
    if (!blockOps(body, b, values)) return false;
    for (ValueId v : std::vector<ValueId>(m_[body].yields))
      m_[fresh].yields.push_back(values.complexValue(v, b));
    finish(f, fresh, std::move(ops), values);
    return true;
  }

  void finish(FuncId f, BlockId body, std::vector<OpId> ops, ComplexValues& values) {
    std::vector<OpId> all = values.takePrologue();
    for (OpId o : all) m_[o].parent = body;
    all.insert(all.end(), ops.begin(), ops.end());
    m_[body].ops = std::move(all);
    m_[f].body = body;
  }

  // The function on planes: a copy if its signature has complex types.
  FuncId planesOf(FuncId f) {
    if (auto it = planesOf_.find(f.index); it != planesOf_.end()) return it->second;
    const auto complexType = [&](TypeId t) { return t.valid() && isComplex(m_.types[t].dtype); };
    const bool split =
        std::ranges::any_of(m_[f].args, [&](const FuncArg& a) { return complexType(m_[a.value].type); }) ||
        std::ranges::any_of(m_[f].results, [&](const FuncResult& r) { return complexType(r.type); });
    if (!split) return planesOf_[f.index] = f;
    const FuncId made(static_cast<uint32_t>(m_.functions.size()));
    planesOf_[f.index] = made;
    Function copy = m_[f];
    std::string name(m_.strings[copy.name]);
    do name += "_planes";
    while (m_.findFunction(name).valid());
    copy.name = m_.strings.intern(name);
    m_.functions.push_back(std::move(copy));
    m_.order.insert(std::ranges::find(m_.order, f), made);
    if (FuncId g = gradientOf(f); g.valid()) setGradient(made, planesOf(g));
    return splitSignature(f, made) ? made : FuncId();
  }

  void setGradient(FuncId f, FuncId gradient) {
    for (NamedAttr& a : m_[f].attrs)
      if (m_.strings[a.name] == "grad") a.value = m_.attrs.symbol(m_[gradient].name);
  }

  bool splitSignature(FuncId from, FuncId to) {
    const BlockId body = m_[from].body, fresh = m_.makeBlock();
    m_[fresh].parentFunc = to;
    m_[fresh].terminatorLoc = m_[body].terminatorLoc;
    ComplexValues values(m_, from);
    std::vector<FuncArg> args;
    for (const FuncArg& a : std::vector<FuncArg>(m_[from].args))
      for (ValueId plane : values.splitArgument(a.value, fresh))
        args.push_back({plane, partOf(a.globalType), a.attrs});
    std::vector<FuncResult> results;
    for (const FuncResult& r : std::vector<FuncResult>(m_[from].results)) {
      const bool complex = isComplex(m_.types[r.type].dtype);
      for (const char* part : {"_re", "_im"}) {
        FuncResult plane = r;
        plane.type = partOf(r.type);
        plane.globalType = partOf(r.globalType);
        if (complex && r.label.valid())
          plane.label = m_.strings.intern(std::string(m_.strings[r.label]) + part);
        results.push_back(std::move(plane));
        if (!complex) break;
      }
    }
    std::vector<OpId> ops;
    Builder b(m_, fresh, ops, diags_);
    if (!blockOps(body, b, values)) return false;
    m_[fresh].yields = values.expanded(m_[body].yields);
    m_[to].args = std::move(args);
    m_[to].results = std::move(results);
    finish(to, fresh, std::move(ops), values);
    return true;
  }

  TypeId partOf(TypeId t) {
    if (!t.valid()) return t;
    const Type type = m_.types[t];
    return m_.tensorType(partType(type.dtype), type.dims);
  }

  bool blockOps(BlockId from, Builder& b, ComplexValues& values) {
    for (OpId o : std::vector<OpId>(m_[from].ops)) {
      const bool structured = m_.record(o).regions != RegionKind::None || m_.record(o).isCall;
      if (structured ? !structure(o, b, values) : !splitOp(o, b, values)) return false;
    }
    return true;
  }

  // A region's or a callee's operands, arguments, yields and results, with two planes instead of each complex
  // one.
  bool structure(OpId o, Builder& b, ComplexValues& values) {
    const std::vector<ValueId> given(m_.operands(o).begin(), m_.operands(o).end());
    const std::vector<ValueId> operands = values.expanded(given);
    uint32_t numResults = 0;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      numResults += 1 + hasComplex(m_, std::array{m_.result(o, r)});
    const Op source = m_[o];
    const OpId made =
        m_.makeOp(source.kind, operands, numResults, source.attrs, source.numRegions, source.loc);
    m_[made].parent = b.parent;
    m_[made].callee = source.callee;
    if (m_.record(o).isCall && !callee(made, o)) return false;
    for (uint32_t k = 0; k < source.numRegions; ++k) {
      const BlockId from = m_.region(o, k), to = m_.region(made, k);
      m_[to].parentOp = made;
      m_[to].parentFunc = m_[b.parent].parentFunc;
      m_[to].terminatorLoc = m_[from].terminatorLoc;
      for (ValueId a : std::vector<ValueId>(m_[from].args)) (void)values.splitArgument(a, to);
      std::vector<OpId> ops;
      Builder inner(m_, to, ops, diags_);
      if (!blockOps(from, inner, values)) return false;
      m_[to].yields = values.expanded(m_[from].yields);
      m_[to].ops = std::move(ops);
    }
    uint32_t next = 0;
    for (uint32_t r = 0; r < source.numResults; ++r)
      next += values.splitResult(m_.result(o, r), m_.result(made, next));
    b.out.push_back(made);
    return true;
  }

  // Calls on planes; for value_and_grad also the indices of its arguments.
  bool callee(OpId made, OpId o) {
    const FuncId f = m_.findFunction(m_.strings[m_[o].callee]), planes = planesOf(f);
    if (!planes.valid()) return false;
    m_[made].callee = m_[planes].name;
    const AttrId wrt = m_.attr(o, "wrt");
    if (!wrt.valid() || planes == f) return true;
    std::vector<int64_t> first, asked;
    int64_t next = 0;
    for (const FuncArg& a : m_[f].args) {
      first.push_back(next);
      next += 1 + hasComplex(m_, std::array{a.value});
    }
    first.push_back(next);
    for (AttrId e : m_.attrs[wrt].list) {
      const auto arg = static_cast<size_t>(m_.attrs[e].i);
      for (int64_t i = first[arg]; i < first[arg + 1]; ++i) asked.push_back(i);
    }
    m_.setAttr(made, "wrt", m_.attrs.integers(asked));
    return true;
  }

  Module& m_;
  Diagnostics& diags_;
  std::unordered_map<uint32_t, FuncId> planesOf_;
};

} // namespace

bool splitComplexPass(Module& m, const PassOptions&, Diagnostics& diags) { return Splitter(m, diags).run(); }

} // namespace dtc
