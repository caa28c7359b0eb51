#include "dtc/IR/build/Builder.h"

#include "dtc/IR/build/PlainLiterals.h"
#include "dtc/Support/Result.h"
#include "text/Parser.h"

#include <cmath>

namespace dtc {

constexpr DiagKind kInlineText{"inline-text",
                               "the built-in IR text of this op does not match its operands: {0}"};

static AttrId numberAttr(AttrTable& attrs, double v, DType dtype, bool exact = false) {
  if (isBool(dtype)) return attrs.boolean(v != 0);
  if (isInteger(dtype)) return attrs.integer(floatToInt(dtype, v));
  return attrs.real(roundToFloat(exact ? accumulationType(dtype) : partType(dtype),
                                 v)); // of a complex dtype: a real number
}

OpId Builder::op(OpKind kind, std::span<const ValueId> operands, const AttrList& attrs,
                 std::span<const TypeId> resultTypes) {
  AttrList list = common;
  list.insert(list.end(), attrs.begin(), attrs.end());
  // Results are created after inference has counted them, so that their ids are consecutive.
  OpId id = module.makeOp(kind, operands, 0, std::move(list), 0, loc);
  module[id].parent = parent;
  Diagnostics own;
  OpQuery q = queryOf(module, id, own);
  q.writtenTypes = resultTypes;
  std::vector<TypeId> types;
  if (!inferResultTypes(q, types)) {
    std::string what;
    for (const Diagnostic& d : own.all()) what += (what.empty() ? "" : ": ") + d.message();
    mismatch(what);
  }
  module.makeResults(id, types);
  out.push_back(id);
  sayLiterals(module, parent, out, out.size() - 1);
  return id;
}

void Builder::mismatch(const std::string& what) const {
  if (forFile) throw BuildError{what};
  bugAt(__FILE__, __LINE__, ("an op was built that does not match its operands: " + what).c_str());
}

ValueId Builder::literal(double v, DType dtype) {
  return module.makeLiteral(numberAttr(module.attrs, v, dtype, exact), dtype, loc);
}

ValueId Builder::constant(double v, TypeId type) {
  const NamedAttr value{module.strings.intern("value"),
                        numberAttr(module.attrs, v, module.types[type].dtype)};
  return module.result(op(module.registry->find("constant"), {}, {value}, {&type, 1}));
}

bool Builder::inlineText(std::string_view text,
                         std::span<const std::pair<std::string_view, ValueId>> bindings,
                         std::vector<ValueId>& yields) {
  Diagnostics own;
  size_t firstOp = module.ops.size(), firstValue = module.values.size(), firstOut = out.size();
  bool good = parseSnippet(text, module, parent, bindings, out, yields, own);
  if (good) sayLiterals(module, parent, out, firstOut);
  for (size_t v = firstValue; v < module.values.size(); ++v) {
    module.values[v].name = {};
    module.values[v].loc = loc;
  }
  for (size_t o = firstOp; o < module.ops.size(); ++o) {
    Op& made = module.ops[o];
    made.loc = loc;
    made.attrs.insert(made.attrs.end(), common.begin(), common.end());
    normalizeAttrs(module, made.kind, made.attrs);
  }
  if (!good)
    diags.error(kInlineText, loc, own.all().empty() ? "it is incomplete" : own.all().front().message());
  return good;
}

} // namespace dtc
