#include "Composite.h"

#include "EvaluateRule.h"
#include "Interpreter.h"
#include "dtc/IR/build/Builder.h"

namespace dtc {

namespace {

// The type with f32 in place of a narrower float: kernels compute decompositions in f32.
TypeId widened(Module& m, TypeId t) {
  const Type type = m.types[t];
  return isNarrowFloat(type.dtype) ? m.tensorType(DType::F32, type.dims) : t;
}

Tensor converted(const Tensor& t, DType dtype) {
  Tensor out(dtype, t.shape());
  for (int64_t i = 0; i < t.numElements(); ++i) out.setFloat(i, t.getFloat(i));
  return out;
}

} // namespace

Result<std::vector<Tensor>> evaluateComposite(const OpQuery& query, std::span<const Tensor* const> operands,
                                              std::span<const TypeId> resultTypes, Precision precision) {
  Module m = tablesOf(*query.module);
  const BlockId body = m.makeBlock();
  std::vector<ValueId> args;
  for (TypeId t : query.operandTypes) args.push_back(m.makeBlockArg(body, widened(m, t)));
  const OpKind kind = m.registry->find(query.record->name, args.size());
  const OpId op = m.makeOp(kind, args, static_cast<uint32_t>(resultTypes.size()), *query.attrs);
  m[op].parent = body;
  for (uint32_t r = 0; r < resultTypes.size(); ++r) m[m.result(op, r)].type = widened(m, resultTypes[r]);

  Diagnostics diags;
  std::vector<OpId> parts;
  std::vector<ValueId> results;
  Builder b(m, body, parts, diags);
  if (!query.record->decompose(b, op, results) || results.empty())
    return inputError(diags.hasErrors() ? diags.all().front().message()
                                        : "cannot be evaluated on these operands");
  m[body].ops = std::move(parts);
  m[body].yields = results;

  const EvalOptions options{.precision = precision};
  Interpreter interpreter(m, options);
  for (size_t i = 0; i < args.size(); ++i) {
    const Tensor& given = *operands[i];
    interpreter.setValue(
        args[i], 0, interpreter.hold(isNarrowFloat(given.dtype()) ? converted(given, DType::F32) : given));
  }
  if (Status s = interpreter.runBlock(Context{}, body, {0}); !s) return s.error();
  std::vector<Tensor> out;
  for (size_t r = 0; r < results.size(); ++r) {
    const Tensor& made = *interpreter.value(results[r], 0);
    const DType wanted = heldDType(m.types[resultTypes[r]].dtype, precision);
    out.push_back(made.dtype() == wanted ? made : converted(made, wanted));
  }
  return out;
}

} // namespace dtc
