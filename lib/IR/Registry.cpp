// The table of op records, and what follows from a record: arity, dtypes and literals of operands.
#include "AttrTypes.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cmath>

namespace dtc {

// --- the registry ---

OpRecord& OpRegistry::add(OpRecord r) {
  records_.push_back(std::move(r));
  OpRecord& added = records_.back();
  byName_.emplace(added.name, static_cast<OpKind>(records_.size() - 1)); // if two share a name, the first
  return added;
}

void OpRegistry::complete() {
  for (OpRecord& r : records_) {
    r.registered = &r;
    if (r.isComposite() && r.lowering == Lowering::Loops) r.lowering = Lowering::Decompose;
  }
}

OpKind OpRegistry::find(std::string_view name) const {
  auto it = byName_.find(name);
  return it == byName_.end() ? kNoOpKind : it->second;
}

template <class Holds> static OpKind firstThat(const std::deque<OpRecord>& records, const Holds& holds) {
  const auto it = std::ranges::find_if(records, holds);
  return it == records.end() ? kNoOpKind : static_cast<OpKind>(it - records.begin());
}
OpKind OpRegistry::find(CollectiveKind kind, AsyncForm form) const {
  return firstThat(records_, [&](const OpRecord& r) { return r.collective == kind && r.async == form; });
}
OpKind OpRegistry::find(RegionKind kind) const {
  return firstThat(records_, [&](const OpRecord& r) { return r.regions == kind; });
}
OpKind OpRegistry::find(Constraint kind) const {
  return firstThat(records_, [&](const OpRecord& r) { return r.constraint == kind; });
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

bool takesGradients(const Module& m) {
  bool found = false;
  for (FuncId f : m.order)
    if (m[f].body.valid())
      forEachOp(m, m[f].body, [&](OpId o) { found = found || m.record(o).differentiates; });
  return found;
}

const Attr* splatOf(const Module& m, ValueId v) {
  const OpId o = m.definingOp(v);
  if (!o.valid() || !m.record(o).isConstant) return nullptr;
  const Attr& value = m.attrs[m.attr(o, "value")];
  return value.kind == Attr::List || value.kind == Attr::String ? nullptr : &value;
}

// --- defaults ---

namespace {

// A default as written in a record: a number, a word, or a flat list of numbers.
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
    std::vector<AttrId> elements;
    std::string_view rest = text_.substr(1, text_.size() - 2);
    while (!rest.empty()) {
      size_t comma = std::min(rest.find(','), rest.size());
      AttrId element = scalar(trimmed(rest.substr(0, comma)), type);
      if (!element.valid()) return {};
      elements.push_back(element);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return attrs_.list(std::move(elements));
  }

  AttrId scalar(std::string_view word, AttrType type) {
    if (word.empty()) return {};
    if (word.front() == '"' && word.size() >= 2)
      return attrs_.string(strings_.intern(word.substr(1, word.size() - 2)));
    if (type == AttrType::String) return attrs_.string(strings_.intern(word));
    if (word == "true" || word == "false") return attrs_.boolean(word == "true");
    if (type == AttrType::DTypeName || type == AttrType::Axes) return attrs_.word(strings_.intern(word));
    if (word == "inf" || word == "-inf") return attrs_.real(word == "inf" ? INFINITY : -INFINITY);
    if (const auto integer = parseNumber<int64_t>(word))
      return type == AttrType::Float ? attrs_.real(static_cast<double>(*integer)) : attrs_.integer(*integer);
    if (const auto real = parseNumber<double>(word)) return attrs_.real(*real);
    return {}; // "all", "1/sqrt(dim)": interpreted by the op
  }

  StringTable& strings_;
  AttrTable& attrs_;
  std::string_view text_;
};

} // namespace

AttrId defaultAttr(StringTable& strings, AttrTable& attrs, const AttrSpec& spec) {
  if (!spec.fallback || !*spec.fallback) return {};
  return DefaultReader(strings, attrs, spec.fallback).read(spec.type);
}

void normalizeAttrs(Module& m, OpKind kind, AttrList& attrs) {
  if (attrs.empty()) return;
  const OpRecord& record = (*m.registry)[kind];
  auto positionOf = [&](StrId id) -> size_t {
    std::string_view name = m.strings[id];
    if (const AttrSpec* own = findSpec(record.attrs, name))
      return static_cast<size_t>(own - record.attrs.data());
    const AttrSpec* common = findSpec(kCommonAttrs, name);
    return record.attrs.size() +
           (common ? static_cast<size_t>(common - kCommonAttrs) : std::size(kCommonAttrs));
  };
  std::erase_if(attrs, [&](const NamedAttr& a) {
    const AttrSpec* spec = findSpec(record.attrs, m.strings[a.name]);
    return spec && defaultAttr(m.strings, m.attrs, *spec) == a.value;
  });
  // Insertion sort: there are few attributes, and it is stable.
  for (size_t i = 1; i < attrs.size(); ++i)
    for (size_t j = i; j > 0 && positionOf(attrs[j].name) < positionOf(attrs[j - 1].name); --j)
      std::swap(attrs[j], attrs[j - 1]);
}

// --- queries ---

namespace {

struct QueryStorage { // copies, because a query outlives what a Builder appends to the module
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

} // namespace dtc
