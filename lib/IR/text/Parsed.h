#pragma once
// What the parser has read of a text and not yet turned into a part of the module.
#include "dtc/IR/OpRecord.h"
#include <algorithm>

namespace dtc {

struct ParsedType {
  TypeId id; // invalid: not written
  SourceRange range;
};

struct ParsedAxis {
  AxisRef axis;
  SourceRange range;
};

// A sharding as written. Mesh style can be resolved only if the rank is known.
struct ParsedSharding {
  bool present = false, meshStyle = false;
  SourceRange range;
  Sharding sharding; // in mesh style only its mesh
  std::vector<Placement> placements;
  std::vector<ParsedAxis> axes; // every axis that it names, as written
};

struct ParsedResult {
  ParsedType type;
  ParsedSharding sharding;
};

struct ParsedName {
  StrId name;
  SourceRange range;
};

struct ParsedOperand {
  ValueId value;
  SourceRange range;
};

struct ParsedBind {
  ParsedName name;
  ParsedOperand start;
  ParsedType type;
  ParsedSharding sharding;
};

struct ParsedAttr {
  ParsedName name;
  AttrId value;
  SourceRange valueRange;
  size_t firstToken = 0; // of the value
};

struct Statement {
  std::vector<ParsedName> names;
  SourceRange opRange;
  std::string_view opName;
  const OpRecord* record = nullptr;
  OpKind kind = kNoOpKind;
  std::vector<ParsedOperand> operands;
  ParsedName callee;
  ParsedName loopIndex;
  std::vector<ParsedBind> binds;
  std::vector<ParsedAttr> attrs;
  AttrList attrList;
  std::vector<ParsedResult> results;
  SourceRange resultsRange;
};

// Whether a value is a literal or symbol whose dtype is not known yet.
[[nodiscard]] inline bool isUntyped(const Module& m, ValueId v) {
  const Value& value = m[v];
  return (value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) && !value.type.valid();
}
// Whether a value has no type because its statement has an error; errors that follow from it are not reported.
[[nodiscard]] inline bool isPoisoned(const Module& m, ValueId v) {
  return !m[v].type.valid() && !isUntyped(m, v);
}
[[nodiscard]] inline bool anyPoisoned(const Module& m, const Statement& s) {
  auto isBad = [&](const ParsedOperand& o) { return isPoisoned(m, o.value); };
  return std::ranges::any_of(s.operands, isBad) || std::ranges::any_of(s.binds, isBad, &ParsedBind::start);
}

} // namespace dtc
