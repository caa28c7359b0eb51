#include "record/Entries.h"

namespace dtc {
inline constexpr DiagKind kShapeMismatch{"shape-mismatch", "'{0}' {1}"};

bool reportShape(const OpQuery& q, std::string_view what) {
  Diagnostic& d = q.diags->error(kShapeMismatch, q.loc, q.record->name, what);
  if (!q.operandLocs.empty()) d.alsoAt(q.operandLocs[0]);
  if (!q.operands.empty())
    d.note((*q.module)[q.operands[0]].loc,
           q.operandText(0) + " is " + typeText(*q.module, q.operandTypes[0]));
  return false;
}

bool indexesWithI32(const OpQuery& q, size_t dim) {
  const Dim size = q.type(0).dims[dim];
  if (!size.isStatic() || size.value() <= int64_t{1} << 31) return true;
  return reportShape(q, "returns indices in i32, which lacks those of the " + dimText(q, size) +
                            " elements of dim " + std::to_string(dim));
}

bool reportEntries(const OpQuery& q, std::string_view attribute, size_t given, size_t wanted,
                   std::string_view each) {
  return reportShape(q, "needs " + std::to_string(wanted) + (wanted == 1 ? " entry" : " entries") + " in '" +
                            std::string(attribute) + "', one for each " + std::string(each) + ", but " +
                            std::to_string(given) + (given == 1 ? " is given" : " are given"));
}

std::optional<std::vector<Dim>> sizesAttr(const OpQuery& q, std::string_view name) {
  AttrId id = q.rawAttr(name);
  if (!id.valid()) return std::nullopt;
  std::vector<Dim> sizes;
  for (AttrId e : q.module->attrs[id].list) {
    const Attr& a = q.module->attrs[e];
    if (a.kind == Attr::Size)
      sizes.push_back(a.dim);
    else if (a.kind == Attr::Word)
      sizes.push_back(q.module->dims.intern({1, {a.text}, {}}));
    else
      sizes.push_back(a.i >= 0 ? Dim(a.i) : a.i == -1 ? kInferred : kNegative);
  }
  return sizes;
}

void setListed(AttrList& attrs, StrId name, AttrId value) {
  for (NamedAttr& a : attrs)
    if (a.name == name) {
      a.value = value;
      return;
    }
  attrs.push_back({name, value});
}

void localizeShape(const OpQuery& q, std::span<const TypeId>, std::span<const TypeId> results,
                   AttrList& attrs) {
  setListed(attrs, q.module->strings.intern("shape"), sizesAttr(*q.module, q.module->types[results[0]].dims));
}

std::string dimText(const OpQuery& q, Dim d) { return printDim(d, q.module->dims, q.module->strings); }

uint16_t addUnsharded(Rule& rule, Dim size, std::string name) {
  return addFactor(rule, size, std::move(name), FactorKind::Whole);
}

std::vector<ElementNode> ownCoordinates(ElementBuilder& b, size_t rank) {
  std::vector<ElementNode> at;
  for (size_t d = 0; d < rank; ++d) at.push_back(b.at(d));
  return at;
}

} // namespace dtc
