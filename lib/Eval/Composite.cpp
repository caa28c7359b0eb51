#include "Composite.h"

#include "Interpreter.h"
#include "dtc/IR/build/Builder.h"

namespace dtc {

Result<std::vector<Tensor>> evaluateComposite(const OpQuery& query, std::span<const Tensor* const> operands,
                                              std::span<const TypeId> resultTypes, Precision precision) {
  Module m = tablesOf(*query.module);
  const BlockId body = m.makeBlock();
  std::vector<ValueId> args;
  for (TypeId t : query.operandTypes) args.push_back(m.makeBlockArg(body, t));
  const OpKind kind = m.registry->find(query.record->name, args.size());
  const OpId op = m.makeOp(kind, args, static_cast<uint32_t>(resultTypes.size()), *query.attrs);
  m[op].parent = body;
  for (uint32_t r = 0; r < resultTypes.size(); ++r) m[m.result(op, r)].type = resultTypes[r];

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
  for (size_t i = 0; i < args.size(); ++i) interpreter.setValue(args[i], 0, interpreter.hold(*operands[i]));
  if (Status s = interpreter.runBlock(Context{}, body, {0}); !s) return s.error();
  std::vector<Tensor> out;
  for (ValueId v : results) out.push_back(*interpreter.value(v, 0));
  return out;
}

} // namespace dtc
