#include "dtc/Passes/simplify/Specialize.h"
#include "dtc/IR/verify/Verify.h"

#include "dtc/IR/CallSizes.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/build/PlainLiterals.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Support/Tensor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

namespace dtc {

namespace {

constexpr DiagKind kNoSize{"call-size",
                           "in @{0}, a size of '{1}' cannot be expressed in the sizes of this call"};
constexpr DiagKind kLiteralRange{"literal-range", "in @{0}, the size {1} does not fit in {2}"};

// Substitutes a binding's sizes into a copy of the function that declares them.
class SizeWriter {
public:
  SizeWriter(Module& m, const SizeBinding& sizes, MeshId mesh, FuncId f, Diagnostics& diags)
      : m_(m), sizes_(sizes), mesh_(mesh), name_(m.strings[m[f].name]), diags_(diags) {}

  TypeId type(TypeId t, SourceRange where, std::string_view of) {
    const TypeId out = typeInCall(m_, t, sizes_, mesh_);
    if (t.valid() && !out.valid()) diags_.error(kNoSize, where, name_, of);
    return out.valid() ? out : t;
  }

  void block(BlockId b) {
    for (ValueId a : m_[b].args) m_[a].type = type(m_[a].type, m_[a].loc, "an argument");
    for (OpId o : std::vector<OpId>(m_[b].ops)) op(o);
    for (size_t i = 0; i < m_[b].yields.size(); ++i) m_[b].yields[i] = operand(m_[b].yields[i]);
  }

private:
  void op(OpId o) {
    const char* name = m_.record(o).name;
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = operand(m_.operand(o, i));
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId v = m_.result(o, r);
      m_[v].type = type(m_[v].type, m_[o].loc, name);
    }
    for (const AttrSpec& spec : m_.record(o).attrs)
      if (spec.type == AttrType::Size || spec.type == AttrType::Sizes)
        if (const AttrId a = m_.attr(o, spec.name); a.valid()) m_.setAttr(o, spec.name, attr(a, o));
    for (uint32_t k = 0; k < m_[o].numRegions; ++k) block(m_.region(o, k));
  }

  AttrId attr(AttrId id, OpId o) {
    Attr a = m_.attrs[id];
    if (a.kind == Attr::List) {
      for (AttrId& inner : a.list) inner = attr(inner, o);
      return m_.attrs.intern(std::move(a));
    }
    if (a.kind != Attr::Word && a.kind != Attr::Size) return id;
    const auto size = inCall(a.kind == Attr::Size ? a.dim : m_.dims.intern({1, {a.text}, {}}), m_[o].loc,
                             m_.record(o).name);
    if (!size->isStatic())
      if (const DimExpr& e = m_.dims.dynamic(*size); e == DimExpr{1, e.symbols, {}} && e.symbols.size() == 1)
        return m_.attrs.word(e.symbols.front());
    return sizeAttr(m_, *size);
  }

  std::optional<Dim> inCall(Dim d, SourceRange where, std::string_view of) {
    const auto size = sizeInCall(m_, d, sizes_, mesh_);
    if (!size) diags_.error(kNoSize, where, name_, of);
    return size ? size : d;
  }

  // An operand that is a size becomes a literal if the size is static.
  ValueId operand(ValueId v) {
    if (m_[v].kind != ValueKind::Symbol) return v;
    const Dim size = *inCall(m_[v].symbol, m_[v].loc, "an operand");
    if (size == m_[v].symbol) return v;
    const DType dtype = m_.typeOf(v).dtype;
    if (!size.isStatic()) return m_.makeSymbol(size, dtype, m_[v].loc);
    const DType part = partType(dtype);
    Tensor scalar(part, {});
    if (isFloat(part))
      scalar.setFloat(0, static_cast<double>(size.value()));
    else
      scalar.setInt(0, size.value());
    const bool fits = isFloat(part) ? std::isfinite(scalar.getFloat(0)) : scalar.getInt(0) == size.value();
    if (!fits) diags_.error(kLiteralRange, m_[v].loc, name_, size.value(), dtypeName(dtype));
    return m_.makeLiteral(isFloat(part) ? m_.attrs.real(scalar.getFloat(0)) : m_.attrs.integer(size.value()),
                          dtype, m_[v].loc);
  }

  Module& m_;
  const SizeBinding& sizes_;
  MeshId mesh_;
  std::string name_;
  Diagnostics& diags_;
};

class Specializer {
public:
  Specializer(Module& m, Diagnostics& diags) : m_(m), diags_(diags) {}

  bool run(std::span<const FuncId> keep) {
    const std::unordered_set<uint32_t> wereCalled = called();
    const std::vector<FuncId> before = m_.order;
    for (FuncId f : before)
      if (!wereCalled.contains(f.index)) retarget(f);
    for (FuncId f : keep) retarget(f);
    m_.order.clear();
    for (FuncId f : before) {
      m_.order.push_back(f);
      for (const auto& [origin, made] : made_)
        if (origin == f) m_.order.push_back(made);
    }
    for (std::unordered_set<uint32_t> still;;) {
      still = called();
      const auto gone = std::erase_if(m_.order, [&](FuncId f) {
        return wereCalled.contains(f.index) && !still.contains(f.index) &&
               std::ranges::find(keep, f) == keep.end();
      });
      if (gone == 0) break;
    }
    return !diags_.hasErrors() && verifyModule(m_, diags_);
  }

private:
  std::unordered_set<uint32_t> called() const {
    std::unordered_set<uint32_t> out;
    for (FuncId f : m_.order) {
      forEachOp(m_, m_[f].body, [&](OpId o) {
        if (m_.record(o).isCall) out.insert(m_.findFunction(m_.strings[m_[o].callee]).index);
      });
      if (const FuncId g = ownGradient(m_, f); g.valid()) out.insert(g.index);
    }
    return out;
  }

  // Redirects every call and gradient in the function to the copy with its sizes.
  void retarget(FuncId f) {
    if (!done_.insert(f.index).second) return;
    std::vector<OpId> calls;
    forEachOp(m_, m_[f].body, [&](OpId o) {
      if (m_.record(o).isCall) calls.push_back(o);
    });
    for (OpId o : calls) {
      std::vector<TypeId> given;
      for (ValueId v : m_.operands(o)) given.push_back(m_[v].type);
      const FuncId fitting = instanceFor(m_.findFunction(m_.strings[m_[o].callee]), given);
      m_[o].callee = m_[fitting].name;
    }
    const FuncId own = ownGradient(m_, f);
    if (!own.valid()) return;
    const FuncId fitting = instanceFor(own, gradientArguments(f, own));
    for (NamedAttr& a : m_[f].attrs)
      if (m_.strings[a.name] == "grad") a.value = m_.attrs.symbol(m_[fitting].name);
  }

  // The operands of a custom gradient: the arguments, optionally the results, the cotangents.
  std::vector<TypeId> gradientArguments(FuncId f, FuncId own) const {
    std::vector<TypeId> args, cotangents;
    for (const FuncArg& a : m_[f].args) args.push_back(m_[a.value].type);
    for (const FuncResult& r : m_[f].results)
      if (isFloat(partType(m_.types[r.type].dtype))) cotangents.push_back(r.type);
    if (m_[own].args.size() > args.size() + cotangents.size())
      for (const FuncResult& r : m_[f].results) args.push_back(r.type);
    args.insert(args.end(), cotangents.begin(), cotangents.end());
    return args;
  }

  FuncId instanceFor(FuncId callee, const std::vector<TypeId>& given) {
    SizeMismatch mismatch;
    const auto binding = bindSizes(m_, m_[callee], given, mismatch);
    if (!binding || binding->isIdentity(m_.dims)) { // the verifier has reported the mismatch
      retarget(callee);
      return callee;
    }
    std::vector<int64_t> key;
    for (const auto& [name, size] : binding->sizes)
      key.push_back(size.isStatic() ? size.value() : -1 - static_cast<int64_t>(size.tableIndex()));
    auto [it, isNew] = instances_.try_emplace({callee.index, key});
    if (!isNew) return it->second;
    const FuncId made = copy(callee, *binding);
    it->second = made;
    made_.emplace_back(callee, made);
    retarget(made);
    return made;
  }

  FuncId copy(FuncId callee, const SizeBinding& binding) {
    const FuncId made = cloneFunction(m_, callee, nameOf(callee, binding));
    SizeWriter sizes(m_, binding, meshOfCall(m_, m_[callee]), callee, diags_);
    for (FuncArg& a : m_[made].args) a.globalType = sizes.type(a.globalType, m_[a.value].loc, "an argument");
    for (FuncResult& r : m_[made].results) {
      r.type = sizes.type(r.type, r.loc, "a result");
      r.globalType = sizes.type(r.globalType, r.loc, "a result");
    }
    const BlockId body = m_[made].body;
    sizes.block(body);
    std::vector<OpId> said = m_[body].ops;
    sayLiterals(m_, body, said, 0);
    m_[body].ops = std::move(said);
    return made;
  }

  // "adam_32_64"
  StrId nameOf(FuncId callee, const SizeBinding& binding) {
    std::string name(m_.strings[m_[callee].name]);
    for (const auto& [symbol, size] : binding.sizes) {
      name += '_';
      for (char c : printDim(size, m_.dims, m_.strings))
        if (c != '*') name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    }
    while (m_.findFunction(name).valid()) name += "_1";
    return m_.strings.intern(name);
  }

  Module& m_;
  Diagnostics& diags_;
  std::map<std::pair<uint32_t, std::vector<int64_t>>, FuncId> instances_; // by callee and sizes
  std::vector<std::pair<FuncId, FuncId>> made_; // original and copy, in the order of the calls
  std::unordered_set<uint32_t> done_;
};

} // namespace

bool bindsSizes(Module& m) {
  bool found = false;
  auto look = [&](FuncId callee, const std::vector<TypeId>& given) {
    if (!callee.valid() || found || ownSizes(m, m[callee]).empty()) return;
    SizeMismatch mismatch;
    const auto binding = bindSizes(m, m[callee], given, mismatch);
    found = binding && !binding->isIdentity(m.dims);
  };
  for (FuncId f : m.order)
    forEachOp(m, m[f].body, [&](OpId o) {
      if (!m.record(o).isCall || found) return;
      std::vector<TypeId> given;
      for (ValueId v : m.operands(o)) given.push_back(m[v].type);
      look(m.findFunction(m.strings[m[o].callee]), given);
    });
  return found;
}

bool specialize(Module& m, Diagnostics& diags, std::span<const FuncId> keep) {
  return !bindsSizes(m) || Specializer(m, diags).run(keep);
}

bool specializePass(Module& m, const PassOptions&, Diagnostics& diags) { return specialize(m, diags); }

} // namespace dtc
