#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace dtc {

// --- the registry ---

OpKind OpRegistry::add(OpRecord r) {
  auto kind = static_cast<OpKind>(records_.size());
  if (r.complex != OpRecord::ComplexForm::None) r.operandClasses |= 8;
  records_.push_back(std::move(r));
  byName_.emplace(records_.back().name, kind); // of two records with one name, the first
  return kind;
}

OpKind OpRegistry::find(std::string_view name) const {
  auto it = byName_.find(name);
  return it == byName_.end() ? kNoOpKind : it->second;
}

OpKind OpRegistry::find(std::string_view name, size_t numOperands) const {
  OpKind first = find(name);
  if (first == kNoOpKind) return first;
  auto takes = [&](OpKind k) {
    Arity arity = operandArity(records_[k]);
    return numOperands >= arity.min && numOperands <= arity.max;
  };
  if (takes(first)) return first;
  for (size_t k = first + 1u; k < records_.size(); ++k)
    if (name == records_[k].name && takes(static_cast<OpKind>(k))) return static_cast<OpKind>(k);
  return first;
}

// --- defaults ---

namespace {

// A default as the records write it: a number, a word, or a flat list of numbers.
class DefaultReader {
public:
  DefaultReader(StringTable& strings, AttrTable& attrs, std::string_view text)
      : strings_(strings), attrs_(attrs), text_(text) {}

  AttrId read(AttrType type) {
    if (!text_.empty() && text_.front() == '[') return list(type);
    return scalar(text_, type);
  }

private:
  AttrId list(AttrType type) {
    if (text_.back() != ']') return {};
    Attr a;
    a.kind = Attr::List;
    std::string_view rest = text_.substr(1, text_.size() - 2);
    while (!rest.empty()) {
      size_t comma = std::min(rest.find(','), rest.size());
      AttrId element = scalar(trimmed(rest.substr(0, comma)), type);
      if (!element.valid()) return {};
      a.list.push_back(element);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return attrs_.intern(std::move(a));
  }

  AttrId scalar(std::string_view word, AttrType type) {
    if (word.empty()) return {};
    if (word.front() == '"' && word.size() >= 2)
      return attrs_.string(strings_.intern(word.substr(1, word.size() - 2)));
    if (type == AttrType::String) return attrs_.string(strings_.intern(word));
    if (word == "true" || word == "false") return attrs_.boolean(word == "true");
    if (type == AttrType::DTypeName || type == AttrType::Axes) return attrs_.word(strings_.intern(word));
    if (word == "inf" || word == "-inf") return attrs_.real(word == "inf" ? INFINITY : -INFINITY);
    const char* end = word.data() + word.size();
    int64_t integer = 0;
    if (auto r = std::from_chars(word.data(), end, integer); r.ec == std::errc() && r.ptr == end)
      return type == AttrType::Float ? attrs_.real(static_cast<double>(integer)) : attrs_.integer(integer);
    double real = 0;
    if (auto r = std::from_chars(word.data(), end, real); r.ec == std::errc() && r.ptr == end)
      return attrs_.real(real);
    return {}; // "all", "1/sqrt(dim)": the op's own reading
  }

  static std::string_view trimmed(std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  }

  StringTable& strings_;
  AttrTable& attrs_;
  std::string_view text_;
};

const AttrSpec* findSpec(const OpRecord& record, std::string_view name) {
  for (const AttrSpec& spec : record.attrs)
    if (name == spec.name) return &spec;
  return nullptr;
}

} // namespace

AttrId defaultAttr(StringTable& strings, AttrTable& attrs, const AttrSpec& spec) {
  if (!spec.fallback || !*spec.fallback) return {};
  return DefaultReader(strings, attrs, spec.fallback).read(spec.type);
}

void normaliseAttrs(Module& m, OpKind kind, AttrList& attrs) {
  if (attrs.empty()) return;
  static constexpr std::array<std::string_view, 6> kCommon{"stage", "stream", "at", "within", "name", "loc"};
  const OpRecord& record = (*m.registry)[kind];
  auto place = [&](StrId id) -> size_t {
    std::string_view name = m.strings[id];
    for (size_t i = 0; i < record.attrs.size(); ++i)
      if (name == record.attrs[i].name) return i;
    auto it = std::find(kCommon.begin(), kCommon.end(), name);
    return record.attrs.size() + static_cast<size_t>(it - kCommon.begin());
  };
  std::erase_if(attrs, [&](const NamedAttr& a) {
    const AttrSpec* spec = findSpec(record, m.strings[a.name]);
    return spec && defaultAttr(m.strings, m.attrs, *spec) == a.value;
  });
  // A handful of attributes: insertion keeps equal places as they were.
  for (size_t i = 1; i < attrs.size(); ++i)
    for (size_t j = i; j > 0 && place(attrs[j].name) < place(attrs[j - 1].name); --j)
      std::swap(attrs[j], attrs[j - 1]);
}

// --- queries ---

namespace {

struct QueryStorage { // copies: a query outlives what a Builder appends to the module
  AttrList attrs;
  std::vector<ValueId> operands;
  std::vector<TypeId> operandTypes, writtenTypes;
};

} // namespace

OpQuery queryOf(Module& m, OpId o, Diagnostics& diags) {
  auto storage = std::make_shared<QueryStorage>();
  const Op& op = m[o];
  OpQuery q;
  q.module = &m;
  q.record = &m.record(o);
  storage->attrs = op.attrs;
  storage->operands.assign(m.operands(o).begin(), m.operands(o).end());
  q.operands = storage->operands;
  q.attrs = &storage->attrs;
  q.loc = op.loc;
  q.diags = &diags;
  if (q.record->isCollective() && op.parent.valid()) q.mesh = meshOfBlock(m, op.parent);
  storage->operandTypes.reserve(op.numOperands);
  for (ValueId v : q.operands) {
    storage->operandTypes.push_back(m[v].type);
  }
  bool typed = op.numResults > 0;
  for (uint32_t i = 0; i < op.numResults; ++i) typed &= m[m.result(o, i)].type.valid();
  for (uint32_t i = 0; typed && i < op.numResults; ++i)
    storage->writtenTypes.push_back(m[m.result(o, i)].type);
  q.operandTypes = storage->operandTypes;
  q.writtenTypes = storage->writtenTypes;
  q.storage = std::move(storage);
  return q;
}

AttrId OpQuery::rawAttr(std::string_view name) const {
  if (AttrId written = findAttr(*attrs, module->strings.find(name)); written.valid()) return written;
  const AttrSpec* spec = findSpec(*record, name);
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
  const AttrSpec* spec = findSpec(*record, name);
  if (spec && spec->fallback && std::string_view(spec->fallback) == "all" && !operandTypes.empty())
    for (size_t i = 0; i < type(0).rank(); ++i) out.push_back(static_cast<int64_t>(i));
  return out;
}

} // namespace dtc
