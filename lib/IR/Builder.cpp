#include "dtc/IR/Builder.h"

#include "Parser.h"
#include "dtc/IR/PlainLiterals.h"
#include "dtc/Support/Result.h"

#include <cmath>

namespace dtc {

namespace {

constexpr DiagKind kInlineText{"inline-text", "dtc's own text for this op does not fit here: {0}"};

AttrId numberAttr(AttrTable& attrs, double v, DType dtype) {
  if (isBool(dtype)) return attrs.boolean(v != 0);
  if (isInteger(dtype)) return attrs.integer(floatToInt(dtype, v));
  return attrs.real(roundToFloat(partType(dtype), v)); // of a complex dtype: a real number
}

} // namespace

OpId Builder::op(std::string_view name, std::span<const ValueId> operands,
                 std::initializer_list<NamedInput> attrs, std::span<const TypeId> resultTypes) {
  OpKind kind = module.registry->find(name, operands.size());
  DTC_CHECK(kind != kNoOpKind, ("there is no op '" + std::string(name) + "' to build").c_str());
  AttrList list = common;
  for (const NamedInput& a : attrs)
    if (a.value.valid()) list.push_back({module.strings.intern(a.name), a.value});
  // The results are made once inference has counted them: their ids follow each other.
  OpId id = module.makeOp(kind, operands, 0, std::move(list), 0, loc);
  module[id].parent = parent;
  Diagnostics own;
  OpQuery q = queryOf(module, id, own);
  q.writtenTypes = resultTypes;
  std::vector<TypeId> types;
  if (!inferResultTypes(q, types)) {
    std::string what = "an op was built that does not fit its operands";
    for (const Diagnostic& d : own.all()) what += ": " + d.message();
    bugAt(__FILE__, __LINE__, what.c_str());
  }
  Op& made = module[id];
  made.firstResult = ValueId(static_cast<uint32_t>(module.values.size()));
  made.numResults = static_cast<uint32_t>(types.size());
  for (uint32_t i = 0; i < types.size(); ++i) {
    Value& v = module.values.emplace_back();
    v.owner = id.index;
    v.position = i;
    v.type = types[i];
    v.loc = loc;
  }
  out.push_back(id);
  sayLiterals(module, parent, out, out.size() - 1);
  return id;
}

ValueId Builder::value(std::string_view name, std::initializer_list<ValueId> operands,
                       std::initializer_list<NamedInput> attrs) {
  return module.result(op(name, {operands.begin(), operands.size()}, attrs));
}

ValueId Builder::literal(double v, DType dtype) {
  return module.makeLiteral(numberAttr(module.attrs, v, dtype), dtype, loc);
}

ValueId Builder::constant(double v, TypeId type) {
  AttrId a = numberAttr(module.attrs, v, module.types[type].dtype);
  TypeId types[] = {type};
  return module.result(op("constant", {}, {{"value", a}}, types));
}

bool Builder::inlineText(std::string_view text,
                         std::span<const std::pair<std::string_view, ValueId>> bindings,
                         std::vector<ValueId>& yields) {
  Diagnostics own;
  ParseOptions none;
  size_t firstOp = module.ops.size(), firstValue = module.values.size(), firstOut = out.size();
  bool good = Parser(module, own, none).snippet(text, parent, bindings, out, yields);
  if (good) sayLiterals(module, parent, out, firstOut);
  for (size_t v = firstValue; v < module.values.size(); ++v) {
    module.values[v].name = {};
    module.values[v].loc = loc;
  }
  for (size_t o = firstOp; o < module.ops.size(); ++o) {
    Op& made = module.ops[o];
    made.loc = loc;
    made.attrs.insert(made.attrs.end(), common.begin(), common.end());
    normaliseAttrs(module, made.kind, made.attrs);
  }
  if (!good)
    diags.error(kInlineText, loc, own.all().empty() ? "it is not whole" : own.all().front().message());
  return good;
}

bool Parser::snippet(std::string_view source, BlockId parent,
                     std::span<const std::pair<std::string_view, ValueId>> bindings, std::vector<OpId>& out,
                     std::vector<ValueId>& yields) {
  src_ = source;
  inSnippet_ = true;
  if (!lex(src_, lexed_, diags_)) return false;
  func_ = m_[parent].parentFunc;
  for (const auto& [name, value] : bindings) define({m_.strings.intern(name), {}}, value);
  BlockId scratch = m_.makeBlock();
  m_[scratch].parentFunc = func_;
  blockEnd_ = tokens().size() - 1;
  while (pos_ < blockEnd_ && !atWord("yield") && !diags_.hasErrors()) statement(scratch);
  if (!acceptWord("yield")) return unexpected("'yield'");
  std::vector<ParsedOperand> values;
  if (pos_ < blockEnd_ && !operandList(scratch, values)) return false;
  if (!at(Tok::End)) return unexpected("the end of the text");
  for (const ParsedOperand& v : values) yields.push_back(v.value);
  for (OpId o : m_[scratch].ops) {
    m_[o].parent = parent;
    out.push_back(o);
  }
  m_[scratch].ops.clear();
  return !diags_.hasErrors();
}

} // namespace dtc
