#include "Sizes.h"

#include "dtc/Files/Inputs.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/IR/CallSizes.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Symbols.h"
#include "dtc/IR/text/Text.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <unordered_set>

namespace dtc {

namespace {

// The shape in a .npy header; empty if it cannot be read.
std::optional<std::vector<int64_t>> shapeInFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size_t{64} << 10, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  auto header = parseNpyHeader(bytes, path);
  if (!header) return std::nullopt;
  return header->shape;
}

class SizeFinder {
public:
  SizeFinder(const Module& m, FuncId f) : m_(m), f_(f) {}

  Status look(const InputBinding& b) {
    std::unique_ptr<TensorArchive> archive;
    if (b.kind == InputBinding::Archive) {
      auto opened = openTensorArchive(b.path);
      if (!opened) return Ok{}; // reported when the input is bound
      archive = *std::move(opened);
    } else if (b.kind != InputBinding::Npy) {
      return Ok{};
    }
    for (const FuncArg& a : m_[f_].args) {
      const Type& type = m_.types[a.globalType ? a.globalType : m_[a.value].type];
      if (type.isStatic()) continue;
      const auto shape = archive ? shapeIn(*archive, a, type.dtype) : shapeOf(b, a);
      if (!shape || shape->size() != type.rank()) continue;
      for (size_t d = 0; d < type.rank(); ++d)
        if (Status s = dim(type.dims[d], (*shape)[d], b.path, a.value); !s) return s;
    }
    return Ok{};
  }

  std::vector<std::pair<std::string, int64_t>> sizes() const {
    std::vector<std::pair<std::string, int64_t>> out;
    for (const auto& [name, found] : found_) out.emplace_back(name, found.size);
    return out;
  }

private:
  struct Found {
    int64_t size = 0;
    std::string where;
  };

  std::string_view nameOf(const FuncArg& a) const { return m_.strings[m_[a.value].name]; }
  // Its {name = "…"}, or "".
  std::string_view userNameOf(const FuncArg& a) const {
    const StrId key = m_.strings.find("name");
    const AttrId id = key.valid() ? findAttr(a.attrs, key) : AttrId();
    return id.valid() ? m_.strings[m_.attrs[id].text] : std::string_view();
  }

  std::optional<std::vector<int64_t>> shapeOf(const InputBinding& b, const FuncArg& a) const {
    const std::string_view user = userNameOf(a);
    if (!matchesPattern(b.pattern, nameOf(a)) && (user.empty() || !matchesPattern(b.pattern, user)))
      return std::nullopt;
    return shapeInFile(b.path);
  }
  std::optional<std::vector<int64_t>> shapeIn(TensorArchive& archive, const FuncArg& a, DType dtype) const {
    for (std::string_view name : {nameOf(a), userNameOf(a)}) {
      if (name.empty() || !archive.has(name)) continue;
      auto found = archive.tensor(name, dtype);
      if (found) return found->shape();
    }
    return std::nullopt;
  }

  // A dim that is a product of several symbols determines none of them.
  Status dim(Dim d, int64_t size, const std::string& path, ValueId v) {
    if (d.isStatic()) return Ok{};
    const DimExpr& e = m_.dims.dynamic(d);
    if (e.symbols.size() != 1) return Ok{};
    const std::string where =
        "'" + path + "' (argument " + printValueName(m_, v) + ", " + printType(m_, m_[v].type) + ")";
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

  const Module& m_;
  FuncId f_;
  std::map<std::string, Found> found_;
};

} // namespace

Result<std::vector<std::pair<std::string, int64_t>>> sizesFromInputs(const Module& m, FuncId f,
                                                                     std::span<const std::string> inputs) {
  SizeFinder finder(m, f);
  for (const std::string& text : inputs)
    if (auto b = parseInputBinding(text))
      if (Status s = finder.look(*b); !s) return s.error();
  return finder.sizes();
}

Status requireSizes(const Module& m, FuncId entry) {
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
      if (use.where.valid())
        list += ", first in " + m.source.name + ":" +
                std::to_string(lineColumn(m.source.text, use.where.begin).line);
      if (use.op.valid()) list += " ('" + std::string(m.record(use.op).name) + "')";
    }
  if (list.empty()) return Ok{};
  return usageError(
      "unbound symbolic sizes: bind each with --dim NAME=SIZE, or with an input file for an argument "
      "whose shape contains it:" +
      list);
}

} // namespace dtc
