#include "program/LoadCalls.h"

#include "dtc/IR/LocalShape.h"

namespace dtc {
static std::vector<int64_t> sizesAt(const Module& m, const std::vector<Dim>& sizes, const Mesh& mesh,
                                    int64_t coordinate) {
  std::vector<int64_t> out;
  for (Dim d : sizes)
    out.push_back(dimAt(m, d, mesh, coordinate).value_or(0)); // the plan has checked that all sizes are bound
  return out;
}

// Bytes of a device's shard.
static int64_t bytesAt(const Module& m, ValueId v, const Mesh& mesh, int64_t coordinate) {
  const Type& type = m.typeOf(v);
  int64_t bytes = dtypeBytes(type.dtype);
  for (Dim d : type.dims) bytes *= dimAt(m, d, mesh, coordinate).value_or(0);
  return bytes;
}

// Whether the value is the index of a `for`.
static bool isLoopIndex(const Module& m, ValueId v) {
  if (m[v].kind != ValueKind::BlockArg || m[v].position != 0) return false;
  const OpId parent = m[BlockId(m[v].owner)].parentOp;
  return parent.valid() && m.record(parent).regions == RegionKind::For;
}

// The generated kernel of a call: all of it, or the one that runs where the library does not support it.
static const KernelCall* kernelOf(const FusedCall& call) {
  if (const auto* conv = std::get_if<ConvCall>(&call)) return &conv->own;
  if (const auto* attention = std::get_if<AttentionCall>(&call)) return &attention->own;
  return std::get_if<KernelCall>(&call);
}

std::string nameOf(const KernelSet& kernels, const GemmCall& call) {
  std::string name = call.narrow && call.narrow->scales ? "matmul, scaled" : "matmul";
  if (call.alpha != 1) name += ", scale";
  if (call.residual >= 0) name += ", residual";
  if (call.activation == GemmActivation::GeluTanh) name += call.aux >= 0 ? ", gelu kept" : ", gelu";
  if (call.activation == GemmActivation::GeluTanhGradient) name += ", gelu grad";
  if (call.activation == GemmActivation::Relu) name += ", relu";
  return call.epilogue ? name + " + " + kernels.kernels()[call.epilogue->kernel].name : name;
}

std::byte* CallPlacer::addressOf(ValueId v, int64_t p) const {
  return program_.arenas[static_cast<size_t>(p)] + *program_.at(p).offsetOf(v);
}

PlacedKernel CallPlacer::bound(OpId o, const KernelCall& call, int64_t p) const {
  PlacedKernel k;
  k.kernel = call.kernel;
  auto add = [&](ValueId v) {
    k.buffers.push_back(addressOf(v, p));
    k.bytes.push_back(bytesAt(m_, v, program_.mesh, p));
  };
  for (uint32_t i : call.inputs) add(m_.operand(o, i));
  for (uint32_t r : call.outputs) add(m_.result(o, r));
  k.sizes = sizesAt(m_, call.sizes, program_.mesh, p);
  return k;
}

PlacedGemm CallPlacer::bound(OpId o, const GemmCall& call, int64_t p) const {
  std::vector<int64_t> sizes = sizesAt(m_, call.sizes, program_.mesh, p);
  PlacedGemm g{call.bound(sizes)};
  auto operand = [&](uint32_t i) { return addressOf(m_.operand(o, i), p); };
  if (call.narrow) {
    PlacedNarrow& narrow = g.narrow.emplace();
    narrow.a = call.narrow->a, narrow.b = call.narrow->b;
    narrow.aScaled = call.narrow->aScaled, narrow.bScaled = call.narrow->bScaled;
    if (call.narrow->aScale >= 0) narrow.aScale = operand(static_cast<uint32_t>(call.narrow->aScale));
    if (call.narrow->bScale >= 0) narrow.bScale = operand(static_cast<uint32_t>(call.narrow->bScale));
    if (call.narrow->scales) narrow.scales = bound(o, *call.narrow->scales, p);
  }
  auto begin = [&](const GemmCall::Begin& from, PlacedGemm::Row& row, bool second) {
    if (from.index >= 0)
      row = {operand(static_cast<uint32_t>(from.index)),
             m_.typeOf(m_.operand(o, static_cast<size_t>(from.index))).dtype, from.stride(sizes), from.rows,
             isLoopIndex(m_, m_.operand(o, static_cast<size_t>(from.index)))};
    return from.offset(sizes) * dtypeBytes(g.operandType(second));
  };
  g.a = operand(call.a) + begin(call.aBegin, g.aRow, false);
  g.b = operand(call.b) + begin(call.bBegin, g.bRow, true);
  if (call.bias >= 0) g.bias = operand(static_cast<uint32_t>(call.bias));
  if (call.residual >= 0) g.residual = operand(static_cast<uint32_t>(call.residual));
  g.y = addressOf(m_.result(o, call.y), p);
  if (call.aux >= 0)
    g.aux = call.activation == GemmActivation::GeluTanh
                ? addressOf(m_.result(o, static_cast<uint32_t>(call.aux)), p)
                : operand(static_cast<uint32_t>(call.aux));
  if (call.epilogue) {
    PlacedKernel& k = g.epilogue.emplace();
    k.kernel = call.epilogue->kernel;
    for (uint32_t i : call.epilogue->inputs) k.buffers.push_back(operand(i));
    for (uint32_t r : call.epilogue->outputs) k.buffers.push_back(addressOf(m_.result(o, r), p));
    k.sizes = std::move(sizes);
    if (call.epilogue->windows) {
      for (const PlacedGemm::Axis& a : g.batch) k.sizes.insert(k.sizes.end(), {0, a.extent});
      k.sizes.insert(k.sizes.end(), {0, g.m.extent, 0, g.n.extent});
    }
  }
  if (call.plain) g.plain = std::make_shared<PlacedGemm>(bound(o, *call.plain, p));
  return g;
}

PlacedConv CallPlacer::bound(OpId o, const ConvCall& call, int64_t p) const {
  const std::vector<int64_t> sizes = sizesAt(m_, call.sizes, program_.mesh, p);
  const auto tensor = [&](const ConvCall::Tensor& t) {
    PlacedConv::Tensor out{addressOf(t.result ? m_.result(o, t.number) : m_.operand(o, t.number), p), {}};
    for (const SizeFormula& f : t.strides) out.strides.push_back(f(sizes));
    return out;
  };
  PlacedConv c{call.bound(sizes), tensor(call.image), tensor(call.window), tensor(call.result)};
  if (call.bias >= 0) c.bias = addressOf(m_.operand(o, static_cast<uint32_t>(call.bias)), p);
  c.own = bound(o, call.own, p);
  return c;
}

PlacedAttention CallPlacer::bound(OpId o, const AttentionCall& call, int64_t p) const {
  const std::vector<int64_t> sizes = sizesAt(m_, call.sizes, program_.mesh, p);
  PlacedAttention a{call.bound(sizes)};
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const AttentionCall::Tensor& t = call.tensors[i];
    if (!t.used) continue;
    const ValueId v = t.result ? m_.result(o, t.number) : m_.operand(o, t.number);
    a.tensors[i].at = addressOf(v, p) + t.offset(sizes) * dtypeBytes(m_.typeOf(v).dtype);
    for (size_t d = 0; d < t.strides.size(); ++d) a.tensors[i].strides[d] = t.strides[d](sizes);
  }
  a.own = bound(o, call.own, p);
  return a;
}

PlacedFactorization CallPlacer::bound(OpId o, const FactorizationCall& call, int64_t p) const {
  PlacedFactorization f{call.what, call.batch(sizesAt(m_, call.sizes, program_.mesh, p)), {}};
  for (ValueId v : m_.operands(o)) f.buffers.push_back(addressOf(v, p));
  for (uint32_t r = 0; r < m_[o].numResults; ++r) f.buffers.push_back(addressOf(m_.result(o, r), p));
  return f;
}

Status CallPlacer::place(const FusedStep& step, PlacedStep& out) {
  StepInfo& info = program_.infos[step.info];
  const auto prepare = [&](const auto& call, int64_t p) -> Result<Backend::Placed> {
    if constexpr (std::is_same_v<decltype(call), const ViewCall&>)
      return Error{Error::Bug, "a view is not a call"};
    else
      return backend_.place(p, bound(step.op, call, p));
  };
  out.at.assign(static_cast<size_t>(program_.numDevices()), {.parts = 0});
  for (int64_t p : program_.programs[step.program].coordinates) {
    if (!program_.here.contains(p)) continue;
    auto placed = std::visit([&](const auto& call) { return prepare(call, p); }, step.call);
    if (!placed) return located(m_, step.op, placed.error());
    out.at[static_cast<size_t>(p)] = *placed;
    if (!placed->plain) continue;
    if (const auto* gemm = std::get_if<GemmCall>(&step.call)) {
      const GemmCall* taken = gemm;
      for (uint32_t i = 0; i < placed->plain; ++i) taken = taken->plain.get();
      info.name = nameOf(kernels_, *taken);
    } else if (const KernelCall* own = kernelOf(step.call)) {
      info.name = kernels_.kernels()[own->kernel].name;
      info.what = "kernel";
    }
  }
  countWork(step, info);
  return Ok{};
}

Status CallPlacer::place(const RendezvousStep& step) {
  if (!step.host || program_.numHere() < program_.numDevices())
    if (Status s = backend_.communicator().prepare(step.plan); !s) return located(m_, step.op, s.error());
  for (int64_t p : program_.programs[step.program].coordinates) {
    if (!program_.here.contains(p)) continue;
    const auto coordinate = static_cast<size_t>(p), member = size_t{step.plan.memberOf[coordinate]};
    Rendezvous& group = program_.rendezvous[step.rendezvous[step.plan.groupOf[coordinate]]];
    const auto at = [&](ValueId v) {
      return program_.programs[step.program].absent(v) ? nullptr : addressOf(v, p);
    };
    if (step.agrees) {
      group.operands[member] = program_.arenas[coordinate] + step.agrees->from;
      group.results[member] = program_.arenas[coordinate] + step.agrees->to;
      continue;
    }
    for (size_t k = 0; k < m_[step.op].numOperands; ++k)
      group.operands[member * m_[step.op].numOperands + k] = at(m_.operand(step.op, k));
    for (uint32_t r = 0; r < m_[step.op].numResults; ++r)
      group.results[member * m_[step.op].numResults + r] = at(m_.result(step.op, r));
    std::vector<std::vector<std::byte>>& gathered = program_.rendezvousSteps[group.step].gathered;
    if (gathered.empty()) continue;
    group.gathered.resize(group.operands.size());
    for (size_t k = 0; k < gathered.size(); ++k) // the first device of this process receives
      group.gathered[static_cast<size_t>(program_.here.begin) * gathered.size() + k] = gathered[k].data();
  }
  return Ok{};
}

// Counts bytes and flops of a launch on the first device that runs it.
void CallPlacer::countWork(const FusedStep& step, StepInfo& info) const {
  const auto sizesOf = [&](const auto& call) {
    return sizesAt(m_, call.sizes, program_.mesh, program_.programs[step.program].coordinates[0]);
  };
  if (const KernelCall* own = kernelOf(step.call)) {
    info.bytes = kernels_.kernels()[own->kernel].bytes(sizesOf(*own));
    info.flops = kernels_.kernels()[own->kernel].flops(sizesOf(*own));
  } else if (const auto* f = std::get_if<FactorizationCall>(&step.call)) {
    const int64_t batch = f->batch(sizesOf(*f));
    info.flops = batch * f->what.flops();
    info.bytes = batch * f->what.bytes();
  } else {
    const auto& call = std::get<GemmCall>(step.call);
    info.bytes = call.bytes(sizesOf(call));
    info.flops = call.flops(sizesOf(call));
  }
}

} // namespace dtc
