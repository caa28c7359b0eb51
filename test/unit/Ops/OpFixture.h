#pragma once
// An op asked by itself: types and attributes without a program around.
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"

namespace dtc::test {

struct OpCase {
  Module m{standardOps()};
  Diagnostics diags;
  std::vector<TypeId> types, written;
  std::vector<ValueId> values;
  AttrList attrs;
  const OpRecord* record = nullptr;

  OpCase(std::string_view op, std::vector<std::pair<DType, std::vector<Dim>>> operands) {
    for (auto& [dtype, dims] : operands) types.push_back(m.tensorType(dtype, std::span<const Dim>(dims)));
    OpKind kind = m.registry->find(op, types.size());
    EXPECT_NE(kind, kNoOpKind) << op;
    if (kind != kNoOpKind) record = &(*m.registry)[kind];
  }
  OpCase& with(std::string_view name, AttrId value) {
    attrs.push_back({m.strings.intern(name), value});
    return *this;
  }
  OpCase& withInts(std::string_view name, std::vector<int64_t> v) { return with(name, m.attrs.integers(v)); }
  OpCase& withText(std::string_view name, std::string_view v) {
    return with(name, m.attrs.string(m.strings.intern(v)));
  }
  OpCase& withWord(std::string_view name, std::string_view v) {
    return with(name, m.attrs.word(m.strings.intern(v)));
  }
  // Operand `i` becomes a literal.
  OpCase& literal(size_t i, double v) {
    values.resize(types.size());
    for (size_t k = 0; k < types.size(); ++k)
      if (!values[k].valid()) {
        m.values.push_back({});
        m.values.back().type = types[k];
        values[k] = ValueId(static_cast<uint32_t>(m.values.size() - 1));
      }
    values[i] = m.makeLiteral(m.attrs.real(v), m.types[types[i]].dtype);
    return *this;
  }
  OpQuery query() {
    OpQuery q;
    q.module = &m;
    q.record = record;
    q.operandTypes = types;
    q.operands = values;
    q.attrs = &attrs;
    q.writtenTypes = written;
    q.diags = &diags;
    return q;
  }
  // The result types as text, or the first error.
  std::string infer() {
    std::vector<TypeId> results;
    if (!inferResultTypes(query(), results))
      return diags.all().empty() ? "no diagnostic" : diags.all()[0].message();
    std::string text;
    for (TypeId t : results) text += (text.empty() ? "" : ", ") + typeTextOf(t);
    return text;
  }
  std::string typeTextOf(TypeId id) const {
    const Type& t = m.types[id];
    std::string text = std::string(dtypeName(t.dtype)) + "[";
    for (size_t i = 0; i < t.rank(); ++i) text += (i ? ", " : "") + printDim(t.dims[i], m.dims, m.strings);
    return text + "]";
  }
};

} // namespace dtc::test
