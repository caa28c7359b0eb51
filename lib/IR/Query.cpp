// OpQuery: attributes with their defaults, and dims normalized to be non-negative.
#include "AttrTypes.h"
#include <algorithm>

namespace dtc {

namespace {

inline constexpr DiagKind kDimRange{"dim-out-of-range", "'{0}': {1} = {2} is not a dim of {3}{4}"};
inline constexpr DiagKind kDimTwice{"duplicate-dim", "'{0}': dim {2} is listed twice in {1}"};

// ", whose 2 dims go from -2 to 1"
std::string rangeText(int64_t rank) {
  if (rank == 0) return ", which is a scalar and has no dims";
  if (rank == 1) return ", whose only dim is 0 (or -1)";
  return ", whose " + std::to_string(rank) + " dims go from " + std::to_string(-rank) + " to " +
         std::to_string(rank - 1);
}

} // namespace

const AttrSpec* findSpec(std::span<const AttrSpec> specs, std::string_view name) {
  for (const AttrSpec& spec : specs)
    if (name == spec.name) return &spec;
  return nullptr;
}

AttrId OpQuery::rawAttr(std::string_view name) const {
  if (AttrId written = findAttr(*attrs, module->strings.find(name)); written.valid()) return written;
  const AttrSpec* spec = findSpec(record->attrs, name);
  return spec ? defaultAttr(module->strings, module->attrs, *spec) : AttrId();
}

bool OpQuery::has(std::string_view name) const {
  return findAttr(*attrs, module->strings.find(name)).valid();
}

int64_t OpQuery::intAttr(std::string_view name) const {
  AttrId id = rawAttr(name);
  return id.valid() ? module->attrs[id].i : 0;
}

double OpQuery::floatAttr(std::string_view name) const {
  AttrId id = rawAttr(name);
  if (!id.valid()) return 0;
  const Attr& a = module->attrs[id];
  if (a.kind == Attr::Float) return a.f;
  return a.isUnsigned ? static_cast<double>(static_cast<uint64_t>(a.i)) : static_cast<double>(a.i);
}

bool OpQuery::boolAttr(std::string_view name) const { return intAttr(name) != 0; }

std::string_view OpQuery::textAttr(std::string_view name) const {
  AttrId id = rawAttr(name);
  return id.valid() ? module->strings[module->attrs[id].text] : std::string_view();
}

std::vector<int64_t> OpQuery::intsAttr(std::string_view name) const {
  std::vector<int64_t> out;
  AttrId id = rawAttr(name);
  if (id.valid()) {
    const Attr& a = module->attrs[id];
    if (a.kind != Attr::List) return {a.i};
    for (AttrId e : a.list) out.push_back(module->attrs[e].i);
    return out;
  }
  const AttrSpec* spec = findSpec(record->attrs, name);
  if (spec && spec->fallback && std::string_view(spec->fallback) == "all" && !operandTypes.empty())
    for (size_t i = 0; i < type(0).rank(); ++i) out.push_back(static_cast<int64_t>(i));
  return out;
}

Dim OpQuery::sizeAttr(std::string_view name) const {
  AttrId id = rawAttr(name);
  if (!id.valid()) return Dim(0);
  const Attr& a = module->attrs[id];
  if (a.kind == Attr::Int) return Dim(a.i);
  if (a.kind == Attr::Size) return a.dim;
  return module->dims.intern({1, {a.text}, {}});
}

std::optional<int64_t> OpQuery::dimAttr(std::string_view name, size_t rank) const {
  int64_t d = intAttr(name), n = static_cast<int64_t>(rank);
  if (d >= -n && d < n) return d < 0 ? d + n : d;
  if (diags) diags->error(kDimRange, loc, record->name, name, d, operandText(0), rangeText(n));
  return std::nullopt;
}

std::optional<std::vector<int64_t>> OpQuery::dimsAttr(std::string_view name, size_t rank) const {
  std::vector<int64_t> dims;
  AttrId id = rawAttr(name);
  int64_t n = static_cast<int64_t>(rank);
  if (!id.valid()) { // "all"
    for (int64_t d = 0; d < n; ++d) dims.push_back(d);
    return dims;
  }
  for (int64_t d : intsAttr(name)) {
    if (d < -n || d >= n) {
      if (diags) diags->error(kDimRange, loc, record->name, name, d, operandText(0), rangeText(n));
      return std::nullopt;
    }
    dims.push_back(d < 0 ? d + n : d);
  }
  std::sort(dims.begin(), dims.end());
  auto twice = std::adjacent_find(dims.begin(), dims.end());
  if (twice == dims.end()) return dims;
  if (diags) diags->error(kDimTwice, loc, record->name, name, *twice);
  return std::nullopt;
}

std::optional<DType> OpQuery::dtypeAttr(std::string_view name) const {
  return rawAttr(name).valid() ? parseDType(textAttr(name)) : std::nullopt;
}

std::optional<double> OpQuery::numberOf(std::string_view name) const {
  if (record->derive)
    if (auto v = record->derive(*this, name)) return v;
  AttrId id = rawAttr(name);
  if (!id.valid()) return std::nullopt;
  const Attr& a = module->attrs[id];
  if (a.kind == Attr::Int || a.kind == Attr::Float || a.kind == Attr::Bool) return floatAttr(name);
  return std::nullopt;
}

std::string OpQuery::operandText(size_t operand) const {
  if (operand < operands.size()) {
    StrId name = (*module)[operands[operand]].name;
    if (name.valid()) return "%" + std::string(module->strings[name]);
  }
  std::string text(operandName(*record, operand));
  return text.empty() ? "the result" : text;
}

} // namespace dtc
