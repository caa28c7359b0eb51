// The two evaluators' doors: a global function on one device, an spmd function on all of its mesh.
#include "Interpreter.h"

#include <algorithm>

namespace dtc {
namespace {

// The mesh of an spmd function: that of its shardings, else {mesh = @m}, else the module's only one.
const Mesh* meshOf(const Module& m, const Function& f) {
  for (const FuncArg& a : f.args)
    if (m[a.value].sharding.valid()) return &m.shardings.meshOf(m[a.value].sharding);
  for (const FuncResult& r : f.results)
    if (r.sharding.valid()) return &m.shardings.meshOf(r.sharding);
  StrId key = m.strings.find("mesh");
  AttrId named = key.valid() ? findAttr(f.attrs, key) : AttrId();
  if (named.valid())
    if (MeshId id = m.shardings.findMesh(m.attrs[named].text); id.valid()) return &m.shardings.mesh(id);
  return m.shardings.numMeshes() > 0 ? &m.shardings.mesh(MeshId(0)) : nullptr;
}

std::vector<Tensor> released(std::vector<TensorRef>& refs) {
  std::vector<Tensor> out;
  for (TensorRef& t : refs) out.push_back(*t);
  return out;
}

} // namespace

Result<std::vector<Tensor>> evaluate(Module& m, FuncId f, std::span<const Tensor> args,
                                     const EvalOptions& options) {
  if (m[f].spmd)
    return usageError("@" + std::string(m.strings[m[f].name]) +
                      " is an spmd function: it has no meaning on one device");
  Interpreter interpreter(m, options);
  std::vector<std::vector<TensorRef>> held(1), results;
  for (const Tensor& t : args) held[0].push_back(interpreter.hold(t));
  Status s = interpreter.runFunction(f, Context{}, held, results);
  if (!s) return s.error();
  return released(results[0]);
}

Result<std::vector<std::vector<Tensor>>>
evaluateSpmd(Module& m, FuncId f, std::span<const std::vector<Tensor>> args, const EvalOptions& options) {
  const Mesh* mesh = meshOf(m, m[f]);
  if (!mesh) return usageError("@" + std::string(m.strings[m[f].name]) + " has no mesh to run on");
  Context context{mesh, mesh->numDevices()};
  if (static_cast<int64_t>(args.size()) != context.numDevices)
    return usageError("the mesh has " + std::to_string(context.numDevices) +
                      " devices, arguments are given for " + std::to_string(args.size()));
  Interpreter interpreter(m, options);
  std::vector<std::vector<TensorRef>> held(args.size()), results;
  for (size_t d = 0; d < args.size(); ++d) {
    for (size_t i = 0; i < args[d].size(); ++i) {
      // Devices that are given equal tensors share one, and what is computed of it.
      auto equal =
          std::find_if(args.begin(), args.begin() + static_cast<ptrdiff_t>(d),
                       [&](const auto& other) { return i < other.size() && other[i] == args[d][i]; });
      held[d].push_back(equal == args.begin() + static_cast<ptrdiff_t>(d)
                            ? interpreter.hold(args[d][i])
                            : held[static_cast<size_t>(equal - args.begin())][i]);
    }
  }
  Status s = interpreter.runFunction(f, context, held, results);
  if (!s) return s.error();
  std::vector<std::vector<Tensor>> out;
  for (auto& perDevice : results) out.push_back(released(perDevice));
  return out;
}

Result<std::vector<Tensor>> evaluateOpAt(Module& m, OpId op, const Mesh& mesh, int64_t place,
                                         std::span<const Tensor> operands, const EvalOptions& options) {
  Interpreter interpreter(m, options);
  const Context context{&mesh, mesh.numDevices()};
  const DeviceSet one{place};
  for (size_t i = 0; i < operands.size(); ++i)
    interpreter.setValue(m.operand(op, static_cast<uint32_t>(i)), place, interpreter.hold(operands[i]));
  if (Status s = interpreter.runAlone({context, op, one}); !s) return s.error();
  std::vector<Tensor> results;
  for (uint32_t r = 0; r < m[op].numResults; ++r)
    results.push_back(*interpreter.value(m.result(op, r), place));
  return results;
}

Result<std::vector<Tensor>> evaluateOp(const OpQuery& query, std::span<const Tensor> operands,
                                       const EvalOptions& options) {
  auto failure = [&](const Diagnostics& diags, std::string_view otherwise) {
    std::string what(otherwise);
    if (diags.hasErrors()) what = diags.all().front().message();
    return opError(*query.module, query.loc, query.record->name, what);
  };
  Diagnostics diags;
  OpQuery own = query;
  own.diags = &diags;
  std::vector<TypeId> types;
  if (!inferResultTypes(own, types)) return failure(diags, "its operands do not fit");
  PreparedRule rule;
  if (!prepareRule(own, types, rule)) return failure(diags, "its operands do not fit");
  Interpreter holder(*query.module, options);
  std::vector<TensorRef> held;
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : operands) {
    if (holder.heldDType(t.dtype()) == t.dtype()) {
      pointers.push_back(&t);
      continue;
    }
    held.push_back(holder.hold(t));
    pointers.push_back(held.back().get());
  }
  own.diags = nullptr;
  auto results = evaluateLoops(own, rule, pointers, types, holder.envOf(Context{}, 0), options.precision);
  if (!results) return opError(*query.module, query.loc, query.record->name, results.error().message);
  return results;
}

} // namespace dtc
