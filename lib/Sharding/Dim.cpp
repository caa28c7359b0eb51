#include "dtc/Sharding/Dim.h"
#include "dtc/Support/Checked.h"
#include <algorithm>

namespace dtc {
static size_t hashOf(const DimExpr& e) {
  size_t h = std::hash<int64_t>()(e.coefficient);
  auto mix = [&](uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15ull; };
  for (StrId s : e.symbols) mix(s.index);
  for (const AxisRef& a : e.axes) {
    mix(a.name.index);
    mix(static_cast<uint64_t>(a.pre));
    mix(static_cast<uint64_t>(a.size));
  }
  return h;
}

Dim DimTable::intern(DimExpr expr) {
  if (expr.coefficient == 0) return Dim(0);
  if (expr.symbols.empty() && expr.axes.empty()) return Dim(expr.coefficient);
  std::sort(expr.symbols.begin(), expr.symbols.end());
  const auto next = static_cast<uint32_t>(exprs_.size());
  const uint32_t id = index_.findOrAdd(hashOf(expr), next, [&](uint32_t i) { return exprs_[i] == expr; });
  if (id == next) exprs_.push_back(std::move(expr));
  return Dim::fromTable(id);
}

DimExpr DimTable::expr(Dim d) const {
  if (d.isStatic()) return {d.value(), {}, {}};
  return exprs_[d.tableIndex()];
}

std::optional<Dim> DimTable::mul(Dim a, Dim b) {
  if (a == Dim(1)) return b; // also if b is sharded
  if (b == Dim(1)) return a;
  DimExpr x = expr(a), y = expr(b);
  if (!x.axes.empty() || !y.axes.empty()) return std::nullopt;
  auto c = checkedMul(x.coefficient, y.coefficient);
  if (!c) return std::nullopt;
  x.coefficient = *c;
  x.symbols.insert(x.symbols.end(), y.symbols.begin(), y.symbols.end());
  return intern(std::move(x));
}

std::optional<Dim> DimTable::divExact(Dim a, Dim b) {
  if (b == Dim(1)) return a;
  DimExpr x = expr(a), y = expr(b);
  if (y.coefficient == 0) return std::nullopt;
  if (a == b) return Dim(1);
  if (!x.axes.empty() || !y.axes.empty() || x.coefficient % y.coefficient != 0) return std::nullopt;
  if (x.coefficient == 0) return Dim(0);
  DimExpr q{x.coefficient / y.coefficient, {}, {}};
  std::set_difference(x.symbols.begin(), x.symbols.end(), y.symbols.begin(), y.symbols.end(),
                      std::back_inserter(q.symbols));
  if (q.symbols.size() + y.symbols.size() != x.symbols.size()) return std::nullopt;
  return intern(std::move(q));
}

Dim DimTable::unsharded(Dim d) {
  if (d.isStatic() || dynamic(d).axes.empty()) return d;
  DimExpr e = dynamic(d);
  e.axes.clear();
  return intern(std::move(e));
}

std::string printAxis(const AxisRef& a, const StringTable& strings) {
  std::string s(strings[a.name]);
  if (!a.isFullAxis()) s += ":(" + std::to_string(a.pre) + ")" + std::to_string(a.size);
  return s;
}

std::string printDim(Dim d, const DimTable& dims, const StringTable& strings) {
  if (d.isStatic()) return std::to_string(d.value());
  const DimExpr& e = dims.dynamic(d);
  std::string s;
  if (e.coefficient != 1 || e.symbols.empty()) s = std::to_string(e.coefficient);
  for (StrId symbol : e.symbols) {
    if (!s.empty()) s += '*';
    s += strings[symbol];
  }
  if (e.axes.empty()) return s;
  s += '/';
  if (e.axes.size() > 1) s += '(';
  for (size_t i = 0; i < e.axes.size(); ++i) {
    if (i) s += ", ";
    s += printAxis(e.axes[i], strings);
  }
  if (e.axes.size() > 1) s += ')';
  return s;
}

} // namespace dtc
