#include "dtc/Session/ArgumentSizes.h"

#include "dtc/IR/CallSizes.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Symbols.h"
#include "dtc/IR/text/Text.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {

const Type& globalTypeOf(const Module& m, const FuncArg& a) {
  return m.types[a.globalType ? a.globalType : m[a.value].type];
}

const Type& globalTypeOf(const Module& m, const FuncResult& r) {
  return m.types[r.globalType ? r.globalType : r.type];
}

Status ArgumentSizes::add(size_t argument, std::span<const int64_t> shape, const std::string& where) {
  const FuncArg& a = m_[f_].args[argument];
  const Type& type = globalTypeOf(m_, a);
  if (shape.size() != type.rank()) return Ok{};
  for (size_t d = 0; d < type.rank(); ++d)
    if (Status s = addDim(type.dims[d], shape[d], where, a.value); !s) return s;
  return Ok{};
}

std::vector<std::pair<std::string, int64_t>> ArgumentSizes::sizes() const {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& [name, found] : found_) out.emplace_back(name, found.size);
  return out;
}

Status ArgumentSizes::addDim(Dim d, int64_t size, const std::string& origin, ValueId v) {
  if (d.isStatic()) return Ok{};
  const DimExpr& e = m_.dims.dynamic(d);
  if (e.symbols.size() != 1) return Ok{};
  const std::string where =
      origin + " (argument " + printValueName(m_, v) + ", " + printType(m_, m_[v].type) + ")";
  const std::string name(m_.strings[e.symbols[0]]);
  if (size % e.coefficient != 0)
    return inputError(where + " has a dim of " + std::to_string(size) + ", which is not a multiple of " +
                      std::to_string(e.coefficient));
  const int64_t one = size / e.coefficient;
  auto [it, fresh] = found_.emplace(name, Found{one, where});
  if (fresh || it->second.size == one) return Ok{};
  return inputError("conflicting values of size " + name + ": " + std::to_string(it->second.size) + " in " +
                    it->second.where + ", but " + std::to_string(one) + " in " + where);
}

Status requireSizes(const Module& m, FuncId entry, std::string_view how) {
  std::string list;
  std::unordered_set<StrId> called;
  for (FuncId f : m.order) {
    forEachOp(m, m[f].body, [&](OpId o) {
      if (m.record(o).isCall) called.insert(m[o].callee);
    });
    if (const AttrId a = findAttr(m[f].attrs, m.strings.find("grad")); a.valid())
      called.insert(m.attrs[a].text);
  }
  for (FuncId f : m.order)
    for (const SymbolUse& use : symbolsOf(m, f)) {
      const std::vector<StrId> own = ownSizes(m, m[f]); // bound by each call
      const bool byCalls = f != entry && called.contains(m[f].name);
      if (byCalls && std::ranges::find(own, use.name) != own.end()) continue;
      list += "\n  " + std::string(m.strings[use.name]);
      if (use.where.valid()) list += ", first in " + placeText(m.source, use.where);
      if (use.op.valid()) list += " ('" + std::string(m.record(use.op).name) + "')";
    }
  if (list.empty()) return Ok{};
  return usageError("unbound symbolic sizes: " + std::string(how) + ":" + list);
}

} // namespace dtc
