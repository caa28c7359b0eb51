#include "Loader.h"

#include "Overlap.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/Text.h"
#include "dtc/IR/UserPlace.h"
#include "dtc/Passes/Pipeline.h"

#include <chrono>
#include <cstring>

namespace dtc {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kBufferAlignment - 1) & ~(kBufferAlignment - 1); }

std::string axesText(const Module& m, OpId o) {
  AttrId id = m.attr(o, "axes");
  if (!id) return "";
  std::string text;
  for (AttrId a : m.attrs[id].list) {
    const Attr& attr = m.attrs[a];
    text += (text.empty() ? "" : ", ") +
            (attr.kind == Attr::Axis ? printAxis(attr.axis, m.strings) : std::string(m.strings[attr.text]));
  }
  return text;
}

} // namespace

std::string whereText(const Module& m, OpId op) {
  if (!op.valid()) return "between two steps";
  std::string text;
  SourceRange loc = m[op].loc;
  if (loc.valid() && !m.source.name.empty()) {
    const LineCol at = lineColumn(m.source.text, loc.begin);
    text = m.source.name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
  }
  std::string user = userPlace(m, op);
  return text + "'" + m.record(op).name + "'" + (user.empty() ? "" : " from " + user);
}

Error located(const Module& m, OpId op, const Error& e) {
  if (!m.source.name.empty() && e.message.starts_with(m.source.name + ":")) return e;
  return {e.kind, whereText(m, op) + ": " + e.message};
}

Error Loader::at(OpId o, const Error& e) const { return located(m_, o, e); }

int64_t Loader::extra(int64_t bytes) {
  int64_t at = program_.arenaBytes;
  program_.arenaBytes += aligned(bytes);
  return at;
}

uint32_t Loader::info(OpId o, std::string name, std::string what, int64_t bytes, int64_t flops) {
  StepInfo info;
  info.name = std::move(name);
  info.what = std::move(what);
  info.id = o;
  info.bytes = bytes;
  info.flops = flops;
  if (!o.valid()) { // a copy between two steps
    program_.infos.push_back(std::move(info));
    return static_cast<uint32_t>(program_.infos.size() - 1);
  }
  if (m_[o].loc.valid()) info.line = lines_.at(m_[o].loc.begin);
  info.user = userPlace(m_, o);
  for (uint32_t r = 0; r < m_[o].numResults; ++r) {
    info.results.push_back(m_.result(o, r));
    info.op += (r ? ", " : "") + names_(m_.result(o, r));
  }
  info.op += (info.op.empty() ? "" : " = ") + std::string(m_.record(o).name);
  program_.infos.push_back(std::move(info));
  return static_cast<uint32_t>(program_.infos.size() - 1);
}

Result<int64_t> Loader::offsetOf(ValueId v) {
  if (auto it = program_.plan.bufferOf.find(v); it != program_.plan.bufferOf.end())
    return program_.plan.buffers[it->second].offset;
  if (auto it = program_.literals.find(v); it != program_.literals.end()) return it->second;
  const Value& value = m_[v];
  if (value.kind != ValueKind::Literal)
    return inputError("a symbolic size has no value: bind it with --dim NAME=SIZE");
  Tensor t(m_.types[value.type].dtype, {});
  const Attr& a = m_.attrs[value.literal];
  if (a.kind == Attr::Float)
    t.setFloat(0, a.f);
  else if (isFloat(partType(t.dtype())))
    t.setFloat(0, a.isUnsigned ? static_cast<double>(static_cast<uint64_t>(a.i)) : static_cast<double>(a.i));
  else
    t.setInt(0, a.i);
  std::string bytes(reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size());
  auto [known, isNew] = literalOfBytes_.try_emplace(std::move(bytes), 0);
  if (isNew) {
    known->second = extra(static_cast<int64_t>(t.bytes().size()));
    contents_.push_back({known->second, {{t.bytes().begin(), t.bytes().end()}}});
  }
  return program_.literals[v] = known->second;
}

Status Loader::block(BlockId b, StepList& out) {
  for (size_t i = 0; i < m_[b].ops.size(); ++i)
    if (Status s = op(m_[b].ops[i], out); !s) return s;
  return Ok{};
}

Status Loader::op(OpId o, StepList& out) {
  const OpRecord& record = m_.record(o);
  switch (record.regions) {
  case RegionKind::Fused: return fused(o, out);
  case RegionKind::Cond: return cond(o, out);
  case RegionKind::While: return whileLoop(o, out);
  case RegionKind::For: return forLoop(o, out);
  case RegionKind::Local:
  case RegionKind::Recompute:
    return at(o,
              "a scheduled program cannot hold this op: run the passes 'partition' and 'inline-recompute' "
              "before 'fuse'",
              Error::Input);
  case RegionKind::None: break;
  }
  if (isLoadTimeOp(m_, o)) return loadTime(o);
  if (record.async == AsyncForm::Done)
    return Ok{}; // its start did it all, into the buffers that `done` gives
  if (record.isCollective() && parseCollectiveKind(record.name)) return meeting(o, out, false);
  if (record.lowering == Lowering::Host) return meeting(o, out, true);
  return at(o, "nothing executes this op outside a 'fused' region: run the pass 'fuse' first", Error::Input);
}

// Constants and a device's own indices: evaluated here, by the definition of right, and never again.
Status Loader::loadTime(OpId o) {
  for (uint32_t r = 0; r < m_[o].numResults; ++r) contents_.push_back({*offsetOf(m_.result(o, r)), {}});
  size_t first = contents_.size() - m_[o].numResults;
  info(o, m_.record(o).name, "constant");
  program_.loadTime.push_back(std::move(program_.infos.back()));
  program_.infos.pop_back();
  bool perPlace = m_.record(o).isCollective();
  for (uint32_t r = 0; r < m_[o].numResults; ++r) perPlace |= !m_.typeOf(m_.result(o, r)).isStatic();
  int64_t places = perPlace ? program_.mesh.numDevices() : 1;
  for (int64_t p = 0; p < places; ++p) {
    auto values = valuesOn(o, p);
    if (!values) return at(o, values.error());
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      std::span<const std::byte> bytes = (*values)[r].bytes();
      contents_[first + r].at.emplace_back(bytes.begin(), bytes.end());
    }
  }
  return Ok{};
}

Status Loader::fused(OpId o, StepList& out) {
  const auto begin = std::chrono::steady_clock::now();
  auto call = kernels_.add(m_, o);
  printMs += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (!call) return at(o, call.error());
  if (const auto* view = std::get_if<ViewCall>(&*call)) {
    // A region of kind "view" shares its operand's buffer; any other view is a copy.
    if (isViewRegion(m_, o) && m_[m_.operand(o, 0)].kind != ValueKind::Literal) return Ok{};
    auto from = offsetOf(m_.operand(o, view->operand)), to = offsetOf(m_.result(o));
    if (!from) return at(o, from.error());
    return copyStep(*from, *to, m_[m_.result(o)].type, false, o, out);
  }
  for (ValueId v : m_.operands(o))
    if (auto offset = offsetOf(v); !offset) return at(o, offset.error());
  const auto* conv = std::get_if<ConvCall>(&*call);
  const auto* attention = std::get_if<AttentionCall>(&*call);
  const bool gemm = conv || attention || std::holds_alternative<GemmCall>(*call);
  std::vector<FusedStep>& table = gemm ? gemmSteps_ : kernelSteps_;
  constexpr const char* kConv[] = {"conv", "conv, image", "conv, window"};
  std::string name = conv        ? kConv[static_cast<size_t>(conv->kind)]
                     : attention ? attention->gradient ? "attention, gradient" : "attention"
                     : gemm      ? nameOf(std::get<GemmCall>(*call))
                                 : kernels_.kernels()[std::get<KernelCall>(*call).kernel].name;
  uint32_t number = info(o, std::move(name), gemm ? "library" : "kernel");
  out.push_back({gemm ? StepKind::Gemm : StepKind::Kernel, static_cast<uint32_t>(table.size()), number});
  table.push_back({o, std::move(*call), number});
  return Ok{};
}

std::string Loader::nameOf(const GemmCall& call) const {
  std::string name = call.narrow && call.narrow->scales ? "matmul, scaled" : "matmul";
  if (call.residual >= 0) name += ", residual";
  if (call.activation == GemmActivation::GeluTanh) name += ", gelu";
  if (call.activation == GemmActivation::Relu) name += ", relu";
  return call.epilogue ? name + " + " + kernels_.kernels()[call.epilogue->kernel].name : name;
}

Status Loader::meeting(OpId o, StepList& out, bool host) {
  MeetingStep step;
  step.op = o;
  step.host = host;
  for (ValueId v : m_.operands(o))
    if (auto offset = offsetOf(v); !offset) return at(o, offset.error());
  if (host) {
    int64_t n = program_.mesh.numDevices();
    CollectiveGroup all;
    for (int64_t p = 0; p < n; ++p) {
      all.places.push_back(p);
      step.plan.memberOf.push_back(static_cast<uint32_t>(p));
    }
    step.plan.groupOf.assign(static_cast<size_t>(n), 0);
    step.plan.groups.push_back(std::move(all));
  } else {
    auto spec = collectiveSpec(m_, o, program_.mesh);
    if (!spec) return at(o, spec.error());
    auto plan = planCollective(*spec, program_.mesh);
    if (!plan) return at(o, plan.error());
    step.plan = std::move(*plan);
    step.plan.where = whereText(m_, o);
  }
  step.firstMeeting = program_.numMeetings;
  program_.numMeetings += static_cast<uint32_t>(step.plan.groups.size());
  std::string name(m_.record(o).name), axes = axesText(m_, o);
  uint32_t number = info(o, axes.empty() ? name : name + "(" + axes + ")", host ? "host" : "collective",
                         host ? 0 : step.plan.groups[0].members[0].sentBytes);
  program_.infos[number].stream = host ? "host" : "comm " + axes;
  out.push_back({host ? StepKind::Host : StepKind::Collective,
                 static_cast<uint32_t>(program_.meetings.size()), number});
  program_.meetings.push_back(std::move(step));
  return Ok{};
}

// Of steps that may run beside collectives, as many as cost no more memory than a sixteenth.
Status Loader::planArena(bool reuseMemory, bool overlaps) {
  Diagnostics diags;
  auto plan = makeMemoryPlan(m_, func_, diags, reuseMemory);
  if (!plan)
    return inputError(diags.all().empty() ? "the memory of the program cannot be planned"
                                          : diags.all()[0].message());
  program_.plan = std::move(*plan);
  const int64_t limit = program_.plan.arenaBytes / 16 * 17;
  for (uint32_t beside : {32u, 8u, 2u}) {
    if (!overlaps || !reuseMemory || program_.mesh.numDevices() == 1) break;
    plan = makeMemoryPlan(m_, func_, diags, reuseMemory, beside);
    if (!plan || plan->arenaBytes > limit) continue;
    program_.plan = std::move(*plan);
    break;
  }
  program_.arenaBytes = aligned(program_.plan.arenaBytes);
  return Ok{};
}

Status Loader::load(bool reuseMemory, bool overlaps) {
  if (Status s = checkLowered(m_, func_); !s) return s;
  program_.func = func_;
  program_.mesh = meshValueOf(m_, func_);
  OverlapBackend* overlap = overlaps ? backend_.overlap() : nullptr;
  if (Status s = planArena(reuseMemory, overlap != nullptr); !s) return s;
  if (Status s = block(m_[func_].body, program_.steps); !s) return s;
  if (Status s = checkSchedule(); !s) return s;
  for (ValueId v : m_[m_[func_].body].yields)
    if (auto offset = offsetOf(v); !offset) return offset.error();
  std::vector<Move> carried;
  for (size_t r = 0; r < m_[func_].results.size(); ++r)
    if (auto a = carriedArgument(m_, func_, r))
      carried.push_back({m_[m_[func_].body].yields[r], m_[func_].args[*a].value});
  if (Status s = moves(carried, OpId(), program_.carrySteps); !s) return s;
  if (Status s = backend_.compile(kernels_.kernels()); !s) return s;
  for (int64_t p = 0; p < program_.mesh.numDevices(); ++p) {
    auto arena = backend_.allocate(p, program_.arenaBytes);
    if (!arena) return arena.error();
    program_.arenas.push_back(*arena);
  }
  if (Status s = fillContents(); !s) return s;
  if (Status s = placeAll(); !s) return s;
  const size_t joins = overlap ? overlapCollectives(m_, program_, backend_.graphs()) : 0;
  return joins > 0 ? overlap->prepareJoins(joins) : Status(Ok{});
}

} // namespace dtc
