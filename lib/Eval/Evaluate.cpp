// The entry points of both evaluators: a global function on one device, an spmd function on its mesh.
#include "DeviceFunctions.h"

#include <algorithm>
#include <numeric>

namespace dtc {
// The mesh of an spmd function: that of its shardings, else {mesh = @m}, else the module's only one.
static const Mesh* meshOf(const Module& m, const Function& f) {
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

static std::vector<Tensor> released(std::vector<TensorRef>& refs) {
  std::vector<Tensor> out;
  for (TensorRef& t : refs) out.push_back(*t);
  return out;
}

Result<std::vector<Tensor>> evaluate(Module& m, FuncId f, std::span<const Tensor> args,
                                     const EvalOptions& options) {
  if (m[f].spmd)
    return usageError("@" + std::string(m.strings[m[f].name]) +
                      " is an spmd function, which cannot run on one device");
  Interpreter interpreter(m, options);
  std::vector<std::vector<TensorRef>> held(1), results;
  for (const Tensor& t : args) held[0].push_back(interpreter.hold(t));
  Status s = interpreter.runFunction(f, Context{}, {0}, held, results);
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
      // Devices with equal tensors share one, and what is computed from it.
      auto equal =
          std::find_if(args.begin(), args.begin() + static_cast<ptrdiff_t>(d),
                       [&](const auto& other) { return i < other.size() && other[i] == args[d][i]; });
      held[d].push_back(equal == args.begin() + static_cast<ptrdiff_t>(d)
                            ? interpreter.hold(args[d][i])
                            : held[static_cast<size_t>(equal - args.begin())][i]);
    }
  }
  DevicePrograms programs = programsOf(m, f);
  DeviceSet all(held.size());
  std::iota(all.begin(), all.end(), 0);
  Status s = programs.differ() ? DeviceFunctions(m, *mesh, std::move(programs), options).run(held, results)
                               : interpreter.runFunction(f, context, all, held, results);
  if (!s) return s.error();
  std::vector<std::vector<Tensor>> out;
  for (auto& perDevice : results) out.push_back(released(perDevice));
  return out;
}

// Result r of an spmd function from its value on every device.
static Result<Tensor> globalResult(const Module& m, FuncId f, size_t r, const Mesh& mesh,
                                   std::span<const Tensor> shards, const EvalOptions& options) {
  const FuncResult& result = m[f].results[r];
  Sharding sharding; // without `of`: equal on all devices
  const std::vector<bool> holds = holdersOf(m, mesh, result.attrs);
  const auto first = static_cast<size_t>(std::ranges::find(holds, true) - holds.begin());
  sharding.dims.resize(shards[first].rank());
  std::vector<int64_t> shape = shards[first].shape();
  if (result.globalType && result.sharding) {
    sharding = m.shardings[result.sharding];
    Env env{&m, {}, &mesh};
    for (const auto& [name, size] : options.symbols) env.symbols.emplace_back(m.strings.find(name), size);
    auto bound = env.shapeOf(m.types[result.globalType]);
    if (!bound)
      return inputError("result " + std::to_string(r) + " of @" + std::string(m.strings[m[f].name]) +
                        " has an unbound size; bind symbols with --dim NAME=SIZE");
    shape = std::move(*bound);
  }
  if (options.amend) return assemble(shards, sharding, mesh, shape, holds);
  std::vector<Replica> replicas = assembleReplicas(shards, sharding, mesh, shape, holds);
  if (replicas.size() == 1) return std::move(replicas[0].value);
  return inputError("result " +
                    (result.label ? "%" + std::string(m.strings[result.label]) : std::to_string(r)) +
                    " of @" + std::string(m.strings[m[f].name]) + " differs on device " +
                    std::to_string(replicas[1].coordinate) + ", but its sharding makes it a replica");
}

Result<std::vector<Tensor>> evaluateGlobal(Module& m, FuncId f, std::span<const Tensor> args,
                                           const EvalOptions& options) {
  const Mesh* mesh = m[f].spmd ? meshOf(m, m[f]) : nullptr;
  if (!m[f].spmd) return evaluate(m, f, args, options);
  if (!mesh) return usageError("@" + std::string(m.strings[m[f].name]) + " has no mesh to run on");
  std::vector<std::vector<Tensor>> locals(static_cast<size_t>(mesh->numDevices()));
  for (size_t coordinate = 0; coordinate < locals.size(); ++coordinate)
    for (size_t i = 0; i < args.size(); ++i) {
      const FuncArg& a = m[f].args[i];
      const ShardingId s = m[a.value].sharding;
      locals[coordinate].push_back(
          a.globalType && s ? takeShard(args[i], m.shardings[s], *mesh, static_cast<int64_t>(coordinate))
                            : args[i]);
    }
  auto values = evaluateSpmd(m, f, locals, options);
  if (!values) return values.error();
  std::vector<Tensor> results;
  for (size_t r = 0; r < m[f].results.size(); ++r) {
    std::vector<Tensor> shards;
    for (auto& device : *values) shards.push_back(std::move(device[r]));
    auto result = globalResult(m, f, r, *mesh, shards, options);
    if (!result) return result.error();
    results.push_back(std::move(*result));
  }
  return results;
}

Result<std::vector<Tensor>> evaluateOpAt(Module& m, OpId op, const Mesh& mesh, int64_t coordinate,
                                         std::span<const Tensor> operands, const EvalOptions& options) {
  Interpreter interpreter(m, options);
  const Context context{&mesh, mesh.numDevices()};
  const DeviceSet one{coordinate};
  for (size_t i = 0; i < operands.size(); ++i)
    interpreter.setValue(m.operand(op, static_cast<uint32_t>(i)), coordinate, interpreter.hold(operands[i]));
  if (Status s = interpreter.runAlone({context, op, one}); !s) return s.error();
  std::vector<Tensor> results;
  for (uint32_t r = 0; r < m[op].numResults; ++r)
    results.push_back(*interpreter.value(m.result(op, r), coordinate));
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
