// The sweep over devices: sizes become numbers, buffers addresses, and the backend makes each step ready.
#include "Loader.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"

namespace dtc {
namespace {

std::vector<int64_t> sizesAt(const Module& m, const std::vector<Dim>& sizes, const Mesh& mesh,
                             int64_t place) {
  std::vector<int64_t> out;
  for (Dim d : sizes)
    out.push_back(dimAt(m, d, mesh, place).value_or(0)); // the plan checked that all are bound
  return out;
}

// Of a device's piece.
int64_t bytesAt(const Module& m, ValueId v, const Mesh& mesh, int64_t place) {
  const Type& type = m.typeOf(v);
  int64_t bytes = dtypeBytes(type.dtype);
  for (Dim d : type.dims) bytes *= dimAt(m, d, mesh, place).value_or(0);
  return bytes;
}

// Is the value the index of a `for`?
bool isTripIndex(const Module& m, ValueId v) {
  if (m[v].kind != ValueKind::BlockArg || m[v].position != 0) return false;
  const OpId parent = m[BlockId(m[v].owner)].parentOp;
  return parent.valid() && m.record(parent).regions == RegionKind::For;
}

PlacedGemm::Axis axisAt(const GemmCall::Axis& a, std::span<const int64_t> sizes) {
  return {a.extent(sizes), a.a(sizes), a.b(sizes), a.y(sizes), a.residual(sizes)};
}

} // namespace

PlacedKernel Loader::kernelAt(OpId o, const KernelCall& call, int64_t p) {
  PlacedKernel k;
  k.kernel = call.kernel;
  auto add = [&](ValueId v) {
    k.buffers.push_back(addressOf(p, *offsetOf(v)));
    k.bytes.push_back(bytesAt(m_, v, program_.mesh, p));
  };
  for (uint32_t i : call.inputs) add(m_.operand(o, i));
  for (uint32_t r : call.outputs) add(m_.result(o, r));
  k.sizes = sizesAt(m_, call.sizes, program_.mesh, p);
  return k;
}

Status Loader::placeKernel(const FusedStep& step, PlacedStep& out) {
  const auto& call = std::get<KernelCall>(step.call);
  for (int64_t p = 0; p < program_.places(); ++p) {
    auto placed = backend_.place(p, kernelAt(step.op, call, p));
    if (!placed) return at(step.op, placed.error());
    out.at.push_back(*placed);
  }
  return Ok{};
}

PlacedGemm Loader::gemmAt(OpId o, const GemmCall& call, int64_t p) {
  std::vector<int64_t> sizes = sizesAt(m_, call.sizes, program_.mesh, p);
  PlacedGemm g;
  g.dtype = call.dtype;
  for (const GemmCall::Axis& a : call.batch) g.batch.push_back(axisAt(a, sizes));
  g.m = axisAt(call.m, sizes);
  g.n = axisAt(call.n, sizes);
  g.k = axisAt(call.k, sizes);
  auto operand = [&](uint32_t i) { return addressOf(p, *offsetOf(m_.operand(o, i))); };
  if (call.narrow) {
    PlacedNarrow& narrow = g.narrow.emplace();
    narrow.a = call.narrow->a, narrow.b = call.narrow->b;
    narrow.aScaled = call.narrow->aScaled, narrow.bScaled = call.narrow->bScaled;
    if (call.narrow->aScale >= 0) narrow.aScale = operand(static_cast<uint32_t>(call.narrow->aScale));
    if (call.narrow->bScale >= 0) narrow.bScale = operand(static_cast<uint32_t>(call.narrow->bScale));
    if (call.narrow->scales) narrow.scales = kernelAt(o, *call.narrow->scales, p);
  }
  auto begin = [&](const GemmCall::Begin& from, PlacedGemm::Row& row, bool second) {
    if (from.index >= 0)
      row = {operand(static_cast<uint32_t>(from.index)),
             m_.typeOf(m_.operand(o, static_cast<size_t>(from.index))).dtype, from.stride(sizes), from.rows,
             isTripIndex(m_, m_.operand(o, static_cast<size_t>(from.index)))};
    return from.offset(sizes) * dtypeBytes(g.operandType(second));
  };
  g.a = operand(call.a) + begin(call.aBegin, g.aRow, false);
  g.b = operand(call.b) + begin(call.bBegin, g.bRow, true);
  if (call.bias >= 0) g.bias = operand(static_cast<uint32_t>(call.bias));
  g.biasStride = call.biasStride(sizes);
  if (call.residual >= 0) g.residual = operand(static_cast<uint32_t>(call.residual));
  g.activation = call.activation;
  g.y = addressOf(p, *offsetOf(m_.result(o, call.y)));
  if (call.epilogue) {
    PlacedKernel& k = g.epilogue.emplace();
    k.kernel = call.epilogue->kernel;
    for (uint32_t i : call.epilogue->inputs) k.buffers.push_back(operand(i));
    for (uint32_t r : call.epilogue->outputs) k.buffers.push_back(addressOf(p, *offsetOf(m_.result(o, r))));
    k.sizes = std::move(sizes);
    for (const PlacedGemm::Axis& a : g.batch) k.sizes.insert(k.sizes.end(), {0, a.extent});
    k.sizes.insert(k.sizes.end(), {0, g.m.extent, 0, g.n.extent});
  }
  if (call.plain) g.plain = std::make_shared<PlacedGemm>(gemmAt(o, *call.plain, p));
  return g;
}

Status Loader::placeGemm(const FusedStep& step, PlacedStep& out) {
  const auto& call = std::get<GemmCall>(step.call);
  for (int64_t p = 0; p < program_.places(); ++p) {
    auto placed = backend_.place(p, gemmAt(step.op, call, p));
    if (!placed) return at(step.op, placed.error());
    if (placed->plain) program_.infos[step.info].name = nameOf(*call.plain);
    out.at.push_back(*placed);
  }
  return Ok{};
}

Status Loader::placeConv(const FusedStep& step, PlacedStep& out) {
  const auto& call = std::get<ConvCall>(step.call);
  for (int64_t p = 0; p < program_.places(); ++p) {
    const std::vector<int64_t> sizes = sizesAt(m_, call.sizes, program_.mesh, p);
    const auto tensor = [&](const ConvCall::Tensor& t) {
      const ValueId v = t.result ? m_.result(step.op, t.number) : m_.operand(step.op, t.number);
      PlacedConv::Tensor out{addressOf(p, *offsetOf(v)), {}};
      for (const SizeFormula& f : t.strides) out.strides.push_back(f(sizes));
      return out;
    };
    PlacedConv c{call.kind,     call.dtype,    call.spatial,       call.groups,         call.n(sizes),
                 call.c(sizes), call.o(sizes), tensor(call.image), tensor(call.window), tensor(call.result)};
    if (call.bias >= 0)
      c.bias = addressOf(p, *offsetOf(m_.operand(step.op, static_cast<uint32_t>(call.bias))));
    c.own = kernelAt(step.op, call.own, p);
    auto placed = backend_.place(p, c);
    if (!placed) return at(step.op, placed.error());
    if (placed->plain) {
      program_.infos[step.info].name = kernels_.kernels()[call.own.kernel].name;
      program_.infos[step.info].what = "kernel";
    }
    out.at.push_back(*placed);
  }
  return Ok{};
}

PlacedAttention Loader::attentionAt(OpId o, const AttentionCall& call, int64_t p) {
  const std::vector<int64_t> sizes = sizesAt(m_, call.sizes, program_.mesh, p);
  PlacedAttention a;
  a.gradient = call.gradient, a.dtype = call.dtype, a.scale = call.scale;
  a.before = call.before, a.after = call.after;
  a.batch = call.batch(sizes), a.heads = call.heads(sizes), a.keyHeads = call.keyHeads(sizes);
  a.rows = call.rows(sizes), a.keys = call.keys(sizes), a.depth = call.depth(sizes),
  a.width = call.width(sizes);
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const AttentionCall::Tensor& t = call.tensors[i];
    if (!t.used) continue;
    const ValueId v = t.result ? m_.result(o, t.number) : m_.operand(o, t.number);
    a.tensors[i].at = addressOf(p, *offsetOf(v)) + t.offset(sizes) * dtypeBytes(m_.typeOf(v).dtype);
    for (size_t d = 0; d < t.strides.size(); ++d) a.tensors[i].strides[d] = t.strides[d](sizes);
  }
  a.own = kernelAt(o, call.own, p);
  return a;
}

Status Loader::placeAttention(const FusedStep& step, PlacedStep& out) {
  const auto& call = std::get<AttentionCall>(step.call);
  for (int64_t p = 0; p < program_.places(); ++p) {
    auto placed = backend_.place(p, attentionAt(step.op, call, p));
    if (!placed) return at(step.op, placed.error());
    if (placed->plain) {
      program_.infos[step.info].name = kernels_.kernels()[call.own.kernel].name;
      program_.infos[step.info].what = "kernel";
    }
    out.at.push_back(*placed);
  }
  return Ok{};
}

Status Loader::placeMeeting(MeetingStep& step) {
  if (step.host) return Ok{};
  if (Status s = backend_.communicator().prepare(step.plan); !s) return at(step.op, s.error());
  for (const CollectiveGroup& g : step.plan.groups) {
    auto& from = step.operands.emplace_back();
    auto& to = step.results.emplace_back();
    for (int64_t p : g.places) {
      for (ValueId v : m_.operands(step.op)) from.push_back(addressOf(p, *offsetOf(v)));
      for (uint32_t r = 0; r < m_[step.op].numResults; ++r)
        to.push_back(addressOf(p, *offsetOf(m_.result(step.op, r))));
    }
  }
  return Ok{};
}

// Bytes and operations of each launch on the device at place 0.
void Loader::countWork() {
  for (const FusedStep& s : kernelSteps_) {
    const auto& call = std::get<KernelCall>(s.call);
    std::vector<int64_t> sizes = sizesAt(m_, call.sizes, program_.mesh, 0);
    program_.infos[s.info].bytes = kernels_.kernels()[call.kernel].bytes(sizes);
    program_.infos[s.info].flops = kernels_.kernels()[call.kernel].flops(sizes);
  }
  for (const FusedStep& s : gemmSteps_) {
    const auto* conv = std::get_if<ConvCall>(&s.call);
    const auto* attention = std::get_if<AttentionCall>(&s.call);
    if (const KernelCall* own = conv ? &conv->own : attention ? &attention->own : nullptr) {
      std::vector<int64_t> sizes = sizesAt(m_, own->sizes, program_.mesh, 0);
      program_.infos[s.info].bytes = kernels_.kernels()[own->kernel].bytes(sizes);
      program_.infos[s.info].flops = kernels_.kernels()[own->kernel].flops(sizes);
      continue;
    }
    const auto& call = std::get<GemmCall>(s.call);
    std::vector<int64_t> sizes = sizesAt(m_, call.sizes, program_.mesh, 0);
    program_.infos[s.info].bytes = call.bytes(sizes);
    program_.infos[s.info].flops = call.flops(sizes);
  }
}

Status Loader::placeAll() {
  for (const FusedStep& s : kernelSteps_)
    if (Status done = placeKernel(s, program_.kernels.emplace_back()); !done) return done;
  for (const FusedStep& s : gemmSteps_) {
    PlacedStep& out = program_.gemms.emplace_back();
    Status done = std::holds_alternative<ConvCall>(s.call)        ? placeConv(s, out)
                  : std::holds_alternative<AttentionCall>(s.call) ? placeAttention(s, out)
                                                                  : placeGemm(s, out);
    if (!done) return done;
  }
  for (MeetingStep& s : program_.meetings)
    if (Status done = placeMeeting(s); !done) return done;
  countWork();
  return Ok{};
}

Status Loader::fillContents() {
  for (const Content& c : contents_)
    for (int64_t p = 0; p < program_.places(); ++p) {
      const std::vector<std::byte>& bytes = c.at[c.at.size() == 1 ? 0 : static_cast<size_t>(p)];
      if (Status s = backend_.write(p, addressOf(p, c.offset), bytes); !s) return s;
    }
  return Ok{};
}

Result<std::vector<Tensor>> Loader::valuesOn(OpId o, int64_t place) {
  Diagnostics diags;
  OpQuery q = queryOf(m_, o, diags);
  if (!m_.record(o).isCollective()) {
    std::vector<TypeId> types; // of this device's pieces
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const Type type = m_.typeOf(m_.result(o, r));
      std::vector<Dim> dims;
      for (Dim d : type.dims) {
        auto size = dimAt(m_, d, program_.mesh, place);
        if (!size) return inputError("a symbolic size has no value: bind it with --dim NAME=SIZE");
        dims.emplace_back(*size);
      }
      types.push_back(m_.tensorType(type.dtype, dims));
    }
    q.writtenTypes = types;
    return evaluateOp(q, {}, {});
  }
  std::string_view name = q.record->name;
  std::vector<AxisRef> axes = axesOfAttr(m_, m_.attr(o, "axes"), program_.mesh);
  int64_t index = program_.mesh.indexAlong(axes, place);
  Tensor t(DType::I32, {});
  if (name == "axis_index") {
    t.setInt(0, index);
  } else {
    Dim size = q.sizeAttr("size");
    if (!size.isStatic()) return inputError("a symbolic size has no value: bind it with --dim NAME=SIZE");
    Interval part = piece(size.value(), program_.mesh.sizeOf(axes), index);
    if (name != "piece_offset" && name != "piece_size") return Error{Error::Bug, "nothing evaluates this op"};
    t.setInt(0, name == "piece_offset" ? part.begin : part.size());
  }
  return std::vector<Tensor>{std::move(t)};
}

} // namespace dtc
