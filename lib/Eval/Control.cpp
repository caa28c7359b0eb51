// Regions and calls. Devices whose predicates or bounds differ run a block as a subset.
#include "Interpreter.h"
#include "dtc/IR/CallSizes.h"

#include <cstring>

namespace dtc {
namespace {

using Run = Interpreter::OpRun;

class Control {
public:
  Control(Interpreter& in, const Run& run) : in_(in), run_(run), m_(in.module()) {}
  Status cond();
  Status whileLoop();
  Status forLoop();
  Status local();
  Status once(); // recompute, fused
  Status call();

private:
  Status callSizes(FuncId callee, std::vector<std::pair<StrId, int64_t>>& sizes);
  [[nodiscard]] int64_t scalar(ValueId v, int64_t device) const { return in_.value(v, device)->getInt(0); }
  // Assigns values to other names simultaneously: a target may also be a source.
  void assign(std::span<const ValueId> to, std::span<const ValueId> from, const DeviceSet& devices) {
    for (int64_t d : devices) {
      std::vector<TensorRef> held;
      for (ValueId v : from) held.push_back(in_.value(v, d));
      for (size_t i = 0; i < to.size(); ++i) in_.setValue(to[i], d, std::move(held[i]));
    }
  }
  [[nodiscard]] std::vector<ValueId> results() const {
    std::vector<ValueId> r;
    for (uint32_t i = 0; i < m_[run_.op].numResults; ++i) r.push_back(m_.result(run_.op, i));
    return r;
  }
  [[nodiscard]] std::vector<ValueId> operands() const {
    auto o = m_.operands(run_.op);
    return {o.begin(), o.end()};
  }
  // Checks max_trips before another iteration.
  [[nodiscard]] Status withinBound(int64_t iterations) const {
    const AttrId bound = m_.attr(run_.op, "max_trips");
    if (!bound.valid() || iterations < m_.attrs[bound].i) return Ok{};
    return in_.errorAt(run_.op, "it exceeds its max_trips, " + std::to_string(m_.attrs[bound].i));
  }
  Status stack(ValueId result, std::span<const TensorRef> iterations, int64_t device);

  Interpreter& in_;
  const Run& run_;
  Module& m_;
};

Status Control::cond() {
  DeviceSet taken[2];
  for (int64_t d : run_.devices) taken[scalar(m_.operand(run_.op, 0), d) ? 0 : 1].push_back(d);
  for (size_t r = 0; r < 2; ++r) {
    if (taken[r].empty()) continue;
    BlockId block = m_.region(run_.op, r);
    if (Status s = in_.runBlock(run_.context, block, taken[r]); !s) return s;
    assign(results(), m_[block].yields, taken[r]);
  }
  return Ok{};
}

Status Control::whileLoop() {
  BlockId condition = m_.region(run_.op, 0), body = m_.region(run_.op, 1);
  std::vector<ValueId> carried = results();
  assign(carried, operands(), run_.devices);
  DeviceSet active = run_.devices;
  for (int64_t iteration = 0; !active.empty(); ++iteration) {
    assign(m_[condition].args, carried, active);
    if (Status s = in_.runBlock(run_.context, condition, active); !s) return s;
    DeviceSet going;
    for (int64_t d : active)
      if (scalar(m_[condition].yields[0], d)) going.push_back(d);
    active = std::move(going);
    if (active.empty()) break;
    if (Status s = withinBound(iteration); !s) return s;
    assign(m_[body].args, carried, active);
    if (Status s = in_.runBlock(run_.context, body, active); !s) return s;
    assign(carried, m_[body].yields, active);
  }
  return Ok{};
}

// The values of the iterations along a new dim 0.
Status Control::stack(ValueId result, std::span<const TensorRef> iterations, int64_t device) {
  DTC_TRY(auto shape, in_.shapeOn(run_.op, result, run_.context, device));
  shape[0] = static_cast<int64_t>(iterations.size());
  Tensor stacked(in_.heldDType(m_.typeOf(result).dtype), shape);
  size_t at = 0;
  for (const TensorRef& t : iterations) {
    std::memcpy(stacked.bytes().data() + at, t->bytes().data(), t->bytes().size());
    at += t->bytes().size();
  }
  in_.setValue(result, device, std::make_shared<const Tensor>(std::move(stacked)));
  return Ok{};
}

Status Control::forLoop() {
  BlockId body = m_.region(run_.op, 0);
  std::vector<ValueId> all = operands(), outs = results();
  size_t numCarried = all.size() - 2;
  std::vector<ValueId> carried(outs.begin(), outs.begin() + static_cast<ptrdiff_t>(numCarried));
  assign(carried, std::span(all).subspan(2), run_.devices);
  std::vector<std::vector<std::vector<TensorRef>>> stacks(
      outs.size() - numCarried,
      std::vector<std::vector<TensorRef>>(static_cast<size_t>(run_.context.numDevices)));
  for (int64_t iteration = 0;; ++iteration) {
    DeviceSet active;
    for (int64_t d : run_.devices)
      if (scalar(all[0], d) + iteration < scalar(all[1], d)) active.push_back(d);
    if (active.empty()) break;
    if (Status s = withinBound(iteration); !s) return s;
    const auto& args = m_[body].args;
    for (int64_t d : active) {
      Tensor i(DType::I32, {});
      i.setInt(0, scalar(all[0], d) + iteration);
      in_.setValue(args[0], d, in_.hold(std::move(i)));
    }
    assign(std::span(args).subspan(1), carried, active);
    if (Status s = in_.runBlock(run_.context, body, active); !s) return s;
    const auto& yields = m_[body].yields;
    assign(carried, std::span(yields).first(numCarried), active);
    for (size_t k = numCarried; k < yields.size(); ++k)
      for (int64_t d : active) stacks[k - numCarried][d].push_back(in_.value(yields[k], d));
  }
  for (size_t k = 0; k < stacks.size(); ++k)
    for (int64_t d : run_.devices)
      if (Status s = stack(outs[numCarried + k], stacks[k][d], d); !s) return s;
  return Ok{};
}

Status Control::once() {
  BlockId body = m_.region(run_.op, 0);
  assign(m_[body].args, operands(), run_.devices);
  if (Status s = in_.runBlock(run_.context, body, run_.devices); !s) return s;
  assign(results(), m_[body].yields, run_.devices);
  return Ok{};
}

Status Control::local() {
  BlockId body = m_.region(run_.op, 0);
  ShardingId any;
  for (ValueId v : results())
    if (m_[v].sharding.valid()) any = m_[v].sharding;
  for (ValueId v : m_[body].args)
    if (m_[v].sharding.valid()) any = m_[v].sharding;
  if (!any.valid() && m_.shardings.numMeshes() == 0) return in_.errorAt(run_.op, "it has no mesh");
  const Mesh& mesh = any.valid() ? m_.shardings.meshOf(any) : m_.shardings.mesh(MeshId(0));
  Context inner{&mesh, mesh.numDevices()};
  DeviceSet devices;
  for (int64_t d = 0; d < inner.numDevices; ++d) devices.push_back(d);
  std::vector<ValueId> starts = operands();
  for (size_t i = 0; i < starts.size(); ++i) {
    TensorRef global = in_.value(starts[i], run_.devices[0]);
    ShardingId s = m_[m_[body].args[i]].sharding;
    for (int64_t d : devices)
      in_.setValue(m_[body].args[i], d,
                   s.valid() ? std::make_shared<const Tensor>(takeShard(*global, m_.shardings[s], mesh, d))
                             : global);
  }
  if (Status s = in_.runBlock(inner, body, devices); !s) return s;
  std::vector<ValueId> outs = results();
  for (size_t r = 0; r < outs.size(); ++r) {
    ValueId yielded = m_[body].yields[r];
    DTC_TRY(auto shape, in_.shapeOn(run_.op, outs[r], run_.context, run_.devices[0]));
    ShardingId s = m_[outs[r]].sharding;
    TensorRef global = in_.value(yielded, 0);
    if (s.valid()) {
      std::vector<Tensor> shards;
      for (int64_t d : devices) {
        shards.push_back(*in_.value(yielded, d));
        if (shards.back().shape() != localShape(m_.shardings[s], mesh, shape, d))
          return in_.errorAt(run_.op, "the yielded value is not the shard of its result's sharding");
      }
      global = std::make_shared<const Tensor>(assemble(shards, m_.shardings[s], mesh, shape));
    }
    for (int64_t d : run_.devices) in_.setValue(outs[r], d, global);
  }
  return Ok{};
}

Status Control::call() {
  const OpRecord& record = m_.record(run_.op);
  FuncId callee = m_.findFunction(m_.strings[m_[run_.op].callee]);
  if (!callee.valid()) return in_.errorAt(run_.op, "the function that it calls is not in the module");
  if (m_[run_.op].numResults != m_[callee].results.size())
    return in_.errorAt(run_.op, "the evaluator does not compute gradients; run the pass 'autodiff' first (it "
                                "replaces " +
                                    std::string(record.name) + ")");
  std::vector<ValueId> args;
  for (const FuncArg& a : m_[callee].args) args.push_back(a.value);
  std::vector<std::pair<StrId, int64_t>> sizes;
  if (Status s = callSizes(callee, sizes); !s) return s;
  assign(args, operands(), run_.devices);
  BlockId body = m_[callee].body;
  const auto callers = in_.swapSizes(std::move(sizes));
  Status ran = in_.runBlock(run_.context, body, run_.devices);
  in_.swapSizes(callers);
  if (!ran) return ran;
  assign(results(), m_[body].yields, run_.devices);
  return Ok{};
}

// The caller's sizes, and the bindings of the callee's own names.
Status Control::callSizes(FuncId callee, std::vector<std::pair<StrId, int64_t>>& sizes) {
  const Env env = in_.envOf(run_.context, run_.devices[0]);
  sizes = env.symbols;
  std::vector<TypeId> given;
  for (ValueId v : operands()) given.push_back(m_[v].type);
  SizeMismatch mismatch;
  const auto binding = bindSizes(m_, m_[callee], given, mismatch);
  if (!binding) return in_.errorAt(run_.op, "the sizes of its operands do not fit the function");
  for (const auto& [name, size] : binding->sizes) {
    const auto n = env.sizeOf(size);
    if (!n) return in_.errorAt(run_.op, "it uses an unbound size; bind symbols with --dim NAME=SIZE");
    std::erase_if(sizes, [&](const auto& s) { return s.first == name; });
    sizes.emplace_back(name, *n);
  }
  return Ok{};
}

} // namespace

Status runControl(Interpreter& interpreter, const Interpreter::OpRun& run) {
  Control control(interpreter, run);
  const OpRecord& record = interpreter.module().record(run.op);
  switch (record.regions) {
  case RegionKind::Cond: return control.cond();
  case RegionKind::While: return control.whileLoop();
  case RegionKind::For: return control.forLoop();
  case RegionKind::Local: return control.local();
  case RegionKind::Recompute:
  case RegionKind::Fused: return control.once();
  case RegionKind::None: break;
  }
  return control.call();
}

} // namespace dtc
