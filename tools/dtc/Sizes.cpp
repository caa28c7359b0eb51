#include "Sizes.h"

#include "dtc/Files/Inputs.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Session/ArgumentSizes.h"

#include <algorithm>
#include <fstream>

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

  Status look(const InputBinding& b, ArgumentSizes& sizes) const {
    std::unique_ptr<TensorArchive> archive;
    if (b.kind == InputBinding::Archive) {
      DTC_TRY(archive, openTensorArchive(b.path));
    } else if (b.kind != InputBinding::Npy && b.kind != InputBinding::Text) {
      return Ok{};
    }
    const std::string where = b.kind == InputBinding::Text ? "the text of --input" : "'" + b.path + "'";
    for (size_t i = 0; i < m_[f_].args.size(); ++i) {
      const FuncArg& a = m_[f_].args[i];
      const Type& type = globalTypeOf(m_, a);
      if (type.isStatic()) continue;
      const auto shape = archive ? shapeIn(*archive, a, type.dtype) : shapeOf(b, a, type.rank());
      if (!shape) continue;
      if (Status s = sizes.add(i, *shape, where); !s) return s;
    }
    return Ok{};
  }

private:
  std::string_view nameOf(const FuncArg& a) const { return m_.strings[m_[a.value].name]; }
  // Its {name = "…"}, or "".
  std::string_view userNameOf(const FuncArg& a) const {
    const StrId key = m_.strings.find("name");
    const AttrId id = key.valid() ? findAttr(a.attrs, key) : AttrId();
    return id.valid() ? m_.strings[m_.attrs[id].text] : std::string_view();
  }

  std::optional<std::vector<int64_t>> shapeOf(const InputBinding& b, const FuncArg& a, size_t rank) const {
    const std::string_view user = userNameOf(a);
    if (!matchesPattern(b.pattern, nameOf(a)) && (user.empty() || !matchesPattern(b.pattern, user)))
      return std::nullopt;
    if (b.kind == InputBinding::Npy) return shapeInFile(b.path);
    std::vector<int64_t> row(std::max<size_t>(rank, 1), 1);
    row.back() = static_cast<int64_t>(b.text.size());
    return row;
  }
  std::optional<std::vector<int64_t>> shapeIn(TensorArchive& archive, const FuncArg& a, DType dtype) const {
    for (std::string_view name : {nameOf(a), userNameOf(a)}) {
      if (name.empty() || !archive.has(name)) continue;
      auto found = archive.tensor(name, dtype);
      if (found) return found->shape();
    }
    return std::nullopt;
  }

  const Module& m_;
  FuncId f_;
};

} // namespace

Result<std::vector<std::pair<std::string, int64_t>>> sizesFromInputs(const Module& m, FuncId f,
                                                                     std::span<const std::string> inputs) {
  const SizeFinder finder(m, f);
  ArgumentSizes sizes(m, f);
  const auto known = [&](const FuncArg& a) { return globalTypeOf(m, a).isStatic(); };
  if (std::ranges::all_of(m[f].args, known)) return sizes.sizes(); // no file has to be read
  for (const std::string& text : inputs)
    if (auto b = parseInputBinding(text))
      if (Status s = finder.look(*b, sizes); !s) return s.error();
  return sizes.sizes();
}

} // namespace dtc
