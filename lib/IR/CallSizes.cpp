#include "dtc/IR/CallSizes.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/Support/Checked.h"

#include <algorithm>

namespace dtc {

namespace {

std::optional<Dim> boundTo(const SizeBinding& b, StrId name) {
  for (const auto& [known, size] : b.sizes)
    if (known == name) return size;
  return std::nullopt;
}

Dim symbolDim(DimTable& dims, StrId name) { return dims.intern({1, {name}, {}}); }

// The k-th root of a size, if it is exact.
std::optional<Dim> rootOf(DimTable& dims, Dim d, size_t k) {
  if (k == 1) return d;
  const DimExpr e = dims.expr(d);
  if (e.coefficient == 0) return d;
  if (!e.axes.empty() || e.symbols.size() % k != 0) return std::nullopt;
  DimExpr root{0, {}, {}};
  for (int64_t n = 1;; ++n) {
    std::optional<int64_t> power = 1;
    for (size_t i = 0; i < k && power; ++i) power = checkedMul(*power, n);
    if (!power || *power > e.coefficient) return std::nullopt;
    if (*power < e.coefficient) continue;
    root.coefficient = n;
    break;
  }
  for (size_t i = 0; i < e.symbols.size(); i += k) { // sorted: equal symbols are adjacent
    if (e.symbols[i] != e.symbols[i + k - 1]) return std::nullopt;
    root.symbols.push_back(e.symbols[i]);
  }
  return dims.intern(std::move(root));
}

// Solves the equations one at a time: an equation with a single unknown name determines that name.
class Binder {
public:
  Binder(Module& m, const Function& callee, SizeMismatch& out)
      : m_(m), callee_(callee), mesh_(meshOfCall(m, callee)), out_(out) {}

  std::optional<SizeBinding> run(std::span<const TypeId> given) {
    for (size_t i = 0; i < callee_.args.size() && i < given.size(); ++i)
      if (!addArgument(i, given[i])) return std::nullopt;
    for (bool progress = true; progress;) {
      progress = false;
      for (Equation& e : equations_) {
        if (e.solved) continue;
        if (!solve(e)) return std::nullopt;
        progress = progress || e.solved;
      }
    }
    for (const Equation& e : equations_)
      if (!e.solved && !holdsAsWritten(e)) return std::nullopt;
    return std::move(binding_);
  }

private:
  struct Equation {
    size_t argument = 0;
    Dim written, given;
    bool solved = false;
  };

  bool addArgument(size_t i, TypeId given) {
    const TypeId written = m_[callee_.args[i].value].type;
    if (!written.valid() || !given.valid()) return true;
    const Type w = m_.types[written], g = m_.types[given];
    out_ = {};
    out_.argument = i;
    if (w.dtype != g.dtype || w.rank() != g.rank()) return false;
    for (size_t d = 0; d < w.rank(); ++d) {
      if (!w.dims[d].isStatic() && !m_.dims.dynamic(w.dims[d]).symbols.empty())
        equations_.push_back({i, w.dims[d], g.dims[d]});
      else if (!(w.dims[d] == g.dims[d]))
        return false;
    }
    return true;
  }

  // Removes the axes that shard both sizes. A size written as a shard's may be given as a plain size if it
  // divides evenly.
  bool unsharded(Dim& written, Dim& given) {
    const DimExpr w = m_.dims.expr(written), g = m_.dims.expr(given);
    if (w.axes.empty()) return true;
    if (g.axes.empty()) {
      if (!mesh_.valid()) return false;
      const auto all = m_.dims.mul(given, Dim(m_.shardings.mesh(mesh_).sizeOf(w.axes)));
      if (!all) return false;
      given = *all;
    } else if (g.axes == w.axes) {
      given = m_.dims.unsharded(given);
    } else {
      return false;
    }
    written = m_.dims.unsharded(written);
    return true;
  }

  bool solve(Equation& e) {
    Dim written = e.written, given = e.given;
    out_ = {};
    out_.argument = e.argument;
    if (!unsharded(written, given)) return false;
    const DimExpr w = m_.dims.expr(written);
    std::optional<Dim> known = Dim(w.coefficient);
    std::vector<StrId> unknown;
    for (StrId s : w.symbols) {
      const auto size = boundTo(binding_, s);
      if (size && known)
        known = m_.dims.mul(*known, *size);
      else if (!size)
        unknown.push_back(s);
    }
    if (!known) return overflow(written);
    if (unknown.empty()) {
      e.solved = true;
      return *known == given || conflict(e, w, *known, given);
    }
    if (unknown.front() != unknown.back()) return true;   // sorted: more than one unknown name
    if (*known == Dim(0) && given == Dim(0)) return true; // any size is a solution
    const auto quotient = m_.dims.divExact(given, *known);
    const auto size = quotient ? rootOf(m_.dims, *quotient, unknown.size()) : std::nullopt;
    if (!size) return noSize(written, *known, given, unknown.size());
    binding_.sizes.emplace_back(unknown[0], *size);
    from_.push_back(e.argument);
    e.solved = true;
    return true;
  }

  bool conflict(const Equation& e, const DimExpr& written, Dim known, Dim given) {
    if (written.symbols.size() == 1) {
      const auto inverse = m_.dims.divExact(given, Dim(written.coefficient));
      for (size_t i = 0; i < binding_.sizes.size() && inverse; ++i)
        if (binding_.sizes[i].first == written.symbols[0]) {
          out_.first = from_[i];
          out_.name = written.symbols[0];
          out_.before = binding_.sizes[i].second;
          out_.now = *inverse;
          return false;
        }
    }
    out_.why = text(e.written) + " is " + text(known) + " there, not " + text(given) + bindingText(written);
    return false;
  }

  // ", with N = 32 and M = 64"
  std::string bindingText(const DimExpr& e) const {
    std::string out;
    for (size_t i = 0; i < binding_.sizes.size(); ++i)
      if (std::ranges::find(e.symbols, binding_.sizes[i].first) != e.symbols.end())
        out += (out.empty() ? ", with " : " and ") + std::string(m_.strings[binding_.sizes[i].first]) +
               " = " + text(binding_.sizes[i].second);
    return out;
  }

  bool noSize(Dim written, Dim known, Dim given, size_t power) {
    out_.why = text(written) + " cannot be " + text(given) +
               (power > 1 ? "" : ", which is not a multiple of " + text(known));
    return false;
  }

  bool overflow(Dim written) {
    out_.why = text(written) + " overflows there" + bindingText(m_.dims.expr(written));
    return false;
  }

  // Names that no argument determines belong to the module: the size must match as written.
  bool holdsAsWritten(const Equation& e) {
    const auto size = sizeInCall(m_, e.written, binding_, mesh_);
    if (size && *size == e.given) return true;
    out_ = {};
    out_.argument = e.argument;
    std::string names;
    for (StrId s : m_.dims.expr(e.written).symbols)
      if (!boundTo(binding_, s) && names.find(m_.strings[s]) == std::string::npos)
        names += (names.empty() ? "" : " and ") + std::string(m_.strings[s]);
    out_.why = names + " cannot be inferred from " + text(e.written) + " = " + text(e.given) + " alone";
    return false;
  }

  std::string text(Dim d) const { return printDim(d, m_.dims, m_.strings); }

  Module& m_;
  const Function& callee_;
  MeshId mesh_;
  SizeMismatch& out_;
  std::vector<Equation> equations_;
  SizeBinding binding_;
  std::vector<size_t> from_; // the argument that determined each size of the binding
};

} // namespace

bool SizeBinding::isIdentity(const DimTable& dims) const {
  return std::ranges::all_of(sizes, [&](const auto& s) {
    return !s.second.isStatic() && dims.dynamic(s.second) == DimExpr{1, {s.first}, {}};
  });
}

std::optional<SizeBinding> bindSizes(Module& m, const Function& callee, std::span<const TypeId> given,
                                     SizeMismatch& mismatch) {
  return Binder(m, callee, mismatch).run(given);
}

std::vector<StrId> ownSizes(const Module& m, const Function& f) {
  std::vector<StrId> own;
  auto known = [&](StrId s) { return std::ranges::find(own, s) != own.end(); };
  for (bool progress = true; progress;) {
    progress = false;
    for (const FuncArg& a : f.args) {
      if (!m[a.value].type.valid()) continue;
      for (Dim d : m.types[m[a.value].type].dims) {
        if (d.isStatic()) continue;
        std::vector<StrId> unknown;
        for (StrId s : m.dims.dynamic(d).symbols)
          if (!known(s)) unknown.push_back(s);
        if (unknown.empty() || unknown.front() != unknown.back()) continue;
        own.push_back(unknown.front());
        progress = true;
      }
    }
  }
  return own;
}

std::optional<Dim> sizeInCall(Module& m, Dim d, const SizeBinding& binding, MeshId mesh) {
  if (d.isStatic()) return d;
  const DimExpr e = m.dims.dynamic(d);
  std::optional<Dim> size = Dim(e.coefficient);
  for (StrId s : e.symbols) {
    const auto bound = boundTo(binding, s);
    size = size ? m.dims.mul(*size, bound ? *bound : symbolDim(m.dims, s)) : size;
  }
  if (!size || e.axes.empty()) return size;
  if (!mesh.valid()) return std::nullopt;
  DimSharding dimSharding;
  for (const AxisRef& a : e.axes) dimSharding.parts.push_back({a, 0});
  return localDim(dimSharding, m.shardings.mesh(mesh), *size, m.dims);
}

TypeId typeInCall(Module& m, TypeId type, const SizeBinding& binding, MeshId mesh) {
  if (!type.valid() || m.types[type].isStatic()) return type;
  Type t = m.types[type];
  for (Dim& d : t.dims) {
    const auto size = sizeInCall(m, d, binding, mesh);
    if (!size) return {};
    d = *size;
  }
  return m.types.intern(std::move(t));
}

MeshId meshOfCall(const Module& m, const Function& callee) {
  if (!callee.spmd) return {};
  for (FuncId f : m.order)
    if (m[f].name == callee.name) return meshOfFunction(m, f);
  return {};
}

std::string mismatchText(const Module& m, const Function& callee, const SizeMismatch& mismatch,
                         const std::function<std::string(size_t)>& operandText) {
  auto size = [&](Dim d) { return printDim(d, m.dims, m.strings); };
  const std::string function = "@" + std::string(m.strings[callee.name]);
  if (mismatch.first)
    return function + "'s " + std::string(m.strings[mismatch.name]) + " is " + size(mismatch.before) +
           " from " + operandText(*mismatch.first) + " and " + size(mismatch.now) + " from " +
           operandText(mismatch.argument);
  return function + " does not fit " + operandText(mismatch.argument) + ": " + mismatch.why;
}

} // namespace dtc
