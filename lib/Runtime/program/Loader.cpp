#include "program/Loader.h"

#include "program/StepLists.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Statements.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/text/UserLocation.h"
#include "dtc/IR/verify/RankSchedule.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Passes/pipeline/Pipeline.h"
#include "dtc/Support/ElementCount.h"

#include <algorithm>
#include <chrono>

namespace dtc {
static int64_t aligned(int64_t bytes) { return (bytes + kBufferAlignment - 1) & ~(kBufferAlignment - 1); }

static std::string axesText(const Module& m, OpId o) {
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

// Evaluates a constant or device index on one device.
static Result<std::vector<Tensor>> loadTimeValues(Module& m, OpId o, const Mesh& mesh, int64_t coordinate) {
  Diagnostics diags;
  OpQuery q = queryOf(m, o, diags);
  if (!m.record(o).isCollective()) {
    std::vector<TypeId> types; // of this device's shards
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      const Type type = m.typeOf(m.result(o, r));
      std::vector<Dim> dims;
      for (Dim d : type.dims) {
        auto size = dimAt(m, d, mesh, coordinate);
        if (!size) return inputError("unbound symbolic size: bind it with --dim NAME=SIZE");
        dims.emplace_back(*size);
      }
      types.push_back(m.tensorType(type.dtype, dims));
    }
    q.writtenTypes = types;
    return evaluateOp(q, {}, {});
  }
  const CollectiveKind kind = q.record->collective;
  std::vector<AxisRef> axes = axesOfAttr(m, m.attr(o, "axes"), mesh);
  int64_t index = mesh.indexAlong(axes, coordinate);
  Tensor t(DType::I32, {});
  if (kind == CollectiveKind::AxisIndex) {
    t.setInt(0, index);
  } else {
    Dim size = q.sizeAttr("size");
    if (!size.isStatic()) return inputError("unbound symbolic size: bind it with --dim NAME=SIZE");
    Interval part = shardInterval(size.value(), mesh.sizeOf(axes), index);
    if (kind != CollectiveKind::ShardOffset && kind != CollectiveKind::ShardSize)
      return Error{Error::Bug, "this op has no load-time evaluation"};
    t.setInt(0, kind == CollectiveKind::ShardOffset ? part.begin : part.size());
  }
  return std::vector<Tensor>{std::move(t)};
}

std::string whereText(const Module& m, OpId op) {
  if (!op.valid()) return "between two runs of a loop step";
  std::string text = placeText(m.source, m[op].loc, true);
  if (!text.empty()) text += ": ";
  std::string user = userLocation(m, op);
  return text + "'" + m.record(op).name + "'" + (user.empty() ? "" : " from " + user);
}

Error located(const Module& m, OpId op, const Error& e) {
  if (!m.source.name.empty() && e.message.starts_with(m.source.name + ":")) return e;
  return {e.kind, whereText(m, op) + ": " + e.message};
}

Error Loader::at(OpId o, const Error& e) const { return located(m_, o, e); }

std::optional<int64_t> DeviceProgram::offsetOf(ValueId v) const {
  if (auto it = plan.bufferOf.find(v); it != plan.bufferOf.end()) return plan.buffers[it->second].offset;
  if (auto it = literals.find(v); it != literals.end()) return it->second;
  return std::nullopt;
}

std::byte* Program::address(int64_t coordinate, int64_t offset) const {
  const auto p = static_cast<size_t>(coordinate);
  std::byte* const plain = arenas[p] + offset;
  if (movable.empty()) return plain;
  const auto after = std::ranges::upper_bound(movable[p], offset, {}, &Movable::begin);
  if (after == movable[p].begin() || offset >= std::prev(after)->end) return plain;
  return std::prev(after)->at + (offset - std::prev(after)->begin);
}

int64_t Loader::extra(int64_t bytes) {
  int64_t at = own().arenaBytes;
  own().arenaBytes += aligned(bytes);
  return at;
}

uint32_t Loader::info(OpId o, std::string name, std::string what, int64_t bytes, int64_t flops) {
  StepInfo info;
  info.name = std::move(name);
  info.what = std::move(what);
  info.id = o;
  info.function = own().func;
  info.bytes = bytes;
  info.flops = flops;
  if (!o.valid()) { // a copy of a carried result
    program_.infos.push_back(std::move(info));
    return static_cast<uint32_t>(program_.infos.size() - 1);
  }
  info.place = lines_.text(m_[o].loc);
  info.user = userLocation(m_, o);
  for (uint32_t r = 0; r < m_[o].numResults; ++r) info.results.push_back(m_.result(o, r));
  info.op = statementText(m_, o, *names_);
  program_.infos.push_back(std::move(info));
  return static_cast<uint32_t>(program_.infos.size() - 1);
}

Result<int64_t> Loader::offsetOf(ValueId v) {
  if (const auto known = own().offsetOf(v)) return *known;
  if (m_[v].kind != ValueKind::Literal)
    return inputError("unbound symbolic size: bind it with --dim NAME=SIZE");
  const Tensor t = literalTensor(m_, v);
  std::string bytes(reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size());
  auto [known, isNew] = literalOfBytes_.try_emplace(std::move(bytes), 0);
  if (isNew) {
    known->second = extra(static_cast<int64_t>(t.bytes().size()));
    contents_.push_back({known->second, {{t.bytes().begin(), t.bytes().end()}}, current_});
  }
  return own().literals[v] = known->second;
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
              "this op is invalid in a scheduled program: run the passes 'partition' and 'inline-recompute' "
              "before 'fuse'",
              Error::Input);
  case RegionKind::None: break;
  }
  if (isLoadTimeOp(m_, o)) return loadTime(o);
  if (record.async == AsyncForm::Done) return done(o, out);
  if (hasGroups(record.collective)) return addRendezvous(o, out, false);
  if (record.lowering == Lowering::Host) return addRendezvous(o, out, true);
  return at(o, "this op cannot be executed outside a 'fused' region: run the pass 'fuse' first",
            Error::Input);
}

// Constants and device indices are evaluated once, at load time, by the reference evaluator.
Status Loader::loadTime(OpId o) {
  if (own().absent(m_.result(o))) return Ok{};
  for (uint32_t r = 0; r < m_[o].numResults; ++r)
    contents_.push_back({*offsetOf(m_.result(o, r)), {}, current_});
  size_t first = contents_.size() - m_[o].numResults;
  info(o, m_.record(o).name, "constant");
  program_.loadTime.push_back(std::move(program_.infos.back()));
  program_.infos.pop_back();
  bool perDevice = m_.record(o).isCollective();
  for (uint32_t r = 0; r < m_[o].numResults; ++r) perDevice |= !m_.typeOf(m_.result(o, r)).isStatic();
  int64_t numDevices = perDevice ? program_.mesh.numDevices() : 1;
  for (int64_t p = 0; p < numDevices; ++p) {
    auto values = loadTimeValues(m_, o, program_.mesh, p);
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
    // A region of kind "view" aliases its operand's buffer; any other view is a copy.
    if (isViewRegion(m_, o) && m_[m_.operand(o, 0)].kind != ValueKind::Literal) return Ok{};
    auto from = offsetOf(m_.operand(o, view->operand)), to = offsetOf(m_.result(o));
    if (!from) return at(o, from.error());
    return copyStep(*from, *to, m_[m_.result(o)].type, false, o, out);
  }
  for (ValueId v : m_.operands(o))
    if (auto offset = offsetOf(v); !offset) return at(o, offset.error());
  const auto* conv = std::get_if<ConvCall>(&*call);
  const auto* attention = std::get_if<AttentionCall>(&*call);
  const auto* factors = std::get_if<FactorizationCall>(&*call);
  const bool gemm = conv || attention || factors || std::holds_alternative<GemmCall>(*call);
  std::vector<FusedStep>& table = gemm ? gemmSteps_ : kernelSteps_;
  constexpr const char* kConv[] = {"conv", "conv, image", "conv, window"};
  std::string name = conv        ? kConv[static_cast<size_t>(conv->kind)]
                     : attention ? attention->gradient ? "attention, gradient" : "attention"
                     : factors   ? factors->what.name()
                     : gemm      ? nameOf(kernels_, std::get<GemmCall>(*call))
                                 : kernels_.kernels()[std::get<KernelCall>(*call).kernel].name;
  uint32_t number = info(o, std::move(name), gemm ? "library" : "kernel");
  add(gemm ? ProgramStepKind::Gemm : ProgramStepKind::Kernel, table, {o, std::move(*call), number, current_},
      number, out);
  return Ok{};
}

Status Loader::addRendezvous(OpId o, StepList& out, bool host) {
  RendezvousStep step;
  step.op = o;
  step.host = host;
  for (ValueId v : m_.operands(o))
    if (auto offset = offsetOf(v); !offset) return at(o, offset.error());
  if (host) {
    if (Status s = planHostOp(o, step); !s) return s;
  } else {
    auto spec = collectiveSpec(m_, o, program_.mesh);
    if (!spec) return at(o, spec.error());
    auto plan = planCollective(*spec, program_.mesh);
    if (!plan) return at(o, plan.error());
    step.plan = std::move(*plan);
    step.plan.where = whereText(m_, o);
  }
  number(step, static_cast<uint32_t>(program_.rendezvousSteps.size()));
  const std::string name = host ? m_.record(o).name : collectiveName(m_.record(o).collective),
                    axes = axesText(m_, o);
  uint32_t number = info(o, axes.empty() ? name : name + "(" + axes + ")", host ? "host" : "collective",
                         host ? 0 : step.plan.groups[0].members[0].sentBytes);
  program_.infos[number].stream = host ? "host" : step.plan.synchronizes() ? "comm " + axes : "compute";
  if (!host) overlap(step, number);
  add(host ? ProgramStepKind::Host : ProgramStepKind::Collective, program_.rendezvousSteps, std::move(step),
      number, out);
  return Ok{};
}

// A group of all devices. In several processes, the first device of each receives the operands of the others.
Status Loader::planHostOp(OpId o, RendezvousStep& step) {
  const int64_t n = program_.mesh.numDevices();
  CollectivePlan& plan = step.plan;
  plan.kind = CollectiveKind::AllGather;
  plan.host = true;
  plan.dtype = plan.commDType = DType::U8;
  plan.where = whereText(m_, o);
  plan.numOperands = m_[o].numOperands;
  plan.widths.assign(plan.numOperands, 1);
  plan.groupOf.assign(static_cast<size_t>(n), 0);
  CollectiveGroup& all = plan.groups.emplace_back();
  all.members.resize(static_cast<size_t>(n));
  for (int64_t p = 0; p < n; ++p) {
    all.coordinates.push_back(p);
    plan.memberOf.push_back(static_cast<uint32_t>(p));
  }
  const DeviceSlice here = backend_.communicator().devices();
  if (here.begin == 0 && here.end >= n) return Ok{};
  const int64_t each = here.end - here.begin;
  step.gatheredAt.resize(static_cast<size_t>(n) * plan.numOperands);
  for (uint32_t k = 0; k < plan.numOperands; ++k) {
    const Type& type = m_.typeOf(m_.operand(o, k));
    std::vector<int64_t> offsets(1, 0);
    for (int64_t p = 0; p < n; ++p) {
      auto shape = shapeAt(m_, m_[m_.operand(o, k)].type, program_.mesh, p);
      if (!shape) return at(o, "unbound symbolic size: bind it with --dim NAME=SIZE");
      offsets.push_back(offsets.back() + *elementCount(*shape) * dtypeBytes(type.dtype));
    }
    for (int64_t receiver = 0; receiver < n; receiver += each)
      for (size_t p = 0; p < static_cast<size_t>(n); ++p)
        if (offsets[p + 1] > offsets[p])
          all.members[static_cast<size_t>(receiver)].blocks.push_back(
              {.from = static_cast<uint32_t>(p),
               .operand = k,
               .target = offsets[p],
               .length = offsets[p + 1] - offsets[p]});
    std::vector<std::byte>& bytes = step.gathered.emplace_back(static_cast<size_t>(offsets.back()));
    for (size_t p = 0; p < static_cast<size_t>(n); ++p)
      step.gatheredAt[p * plan.numOperands + k] = bytes.data() + offsets[p];
  }
  return Ok{};
}

// Members in different functions share the rendezvous of the same devices that is as many-th in each.
void Loader::number(RendezvousStep& step, uint32_t index) {
  step.program = current_;
  for (uint32_t g = 0; g < step.plan.groups.size(); ++g) {
    const std::vector<int64_t>& coordinates = step.plan.groups[g].coordinates;
    step.rendezvous.push_back(UINT32_MAX);
    if (std::ranges::none_of(
            coordinates, [&](int64_t p) { return program_.programOf[static_cast<size_t>(p)] == current_; }))
      continue;
    const auto [at, isNew] = rendezvous_.try_emplace({coordinates, issued_[coordinates]++},
                                                     static_cast<uint32_t>(program_.rendezvous.size()));
    step.rendezvous.back() = at->second;
    if (!isNew) continue;
    Rendezvous& r = program_.rendezvous.emplace_back(index, g);
    r.members = static_cast<uint32_t>(coordinates.size());
    const auto isHere = [&](int64_t p) { return program_.here.contains(p); };
    r.here = static_cast<uint32_t>(std::ranges::count_if(coordinates, isHere));
    r.operands.resize(coordinates.size() * step.plan.numOperands);
    r.results.resize(coordinates.size() * (step.agrees ? 1 : m_[step.op].numResults));
  }
}

// --- control flow ---

Status Loader::copyStep(int64_t from, int64_t to, TypeId type, bool stacked, OpId o, StepList& out) {
  if (from == to && !stacked) return Ok{};
  CopyStep copy{from, to, stacked, {}};
  for (int64_t p = 0; p < program_.mesh.numDevices(); ++p) {
    auto shape = shapeAt(m_, type, program_.mesh, p);
    if (!shape) return at(o, "unbound symbolic size: bind it with --dim NAME=SIZE");
    copy.bytes.push_back(
        *elementCount(*shape) *
        dtypeBytes(m_.types[type].dtype)); // the plan has checked the largest size for overflow
  }
  const uint32_t number = info(o, "copy", "copy", 2 * copy.bytes[0]);
  add(ProgramStepKind::Copy, program_.copies, std::move(copy), number, out);
  return Ok{};
}

Status Loader::parallelCopies(std::span<const CopyPair> list, OpId o, StepList& out) {
  struct Placed {
    int64_t from, to;
    bool stacked;
    TypeId type;
  };
  std::vector<Placed> copies;
  for (const CopyPair& mv : list) {
    auto from = offsetOf(mv.from), to = offsetOf(mv.to);
    if (!from) return at(o, from.error());
    if (!to) return at(o, to.error());
    copies.push_back({*from, *to, mv.stacked, m_[mv.from].type});
  }
  // A copy whose source is overwritten by an earlier copy first saves the source to a temporary.
  size_t used = 0;
  for (size_t j = 0; j < copies.size(); ++j)
    for (size_t i = 0; i < j; ++i)
      if (!copies[i].stacked && copies[i].to == copies[j].from && copies[i].from != copies[i].to) {
        int64_t bytes = *largestBytes(m_, copies[j].type, program_.mesh);
        while (used < temporaries_.size() && temporaries_[used].bytes < bytes) ++used;
        if (used == temporaries_.size()) temporaries_.push_back({extra(bytes), bytes});
        int64_t temporary = temporaries_[used++].offset;
        if (Status s = copyStep(copies[j].from, temporary, copies[j].type, false, o, out); !s) return s;
        copies[j].from = temporary;
        break;
      }
  for (const Placed& c : copies)
    if (Status s = copyStep(c.from, c.to, c.type, c.stacked, o, out); !s) return s;
  return Ok{};
}

void Loader::agree(int64_t& offset, DType dtype, std::initializer_list<const StepList*> lists, OpId o,
                   StepList& out) {
  if (!backend_.asynchronous()) return; // results of a CPU have the same bits everywhere
  auto step = agreementIn(program_, backend_.communicator().devices(), lists, dtype);
  if (!step) return;
  step->op = o;
  step->plan.where = whereText(m_, o);
  step->agrees = {offset, extra(dtypeBytes(dtype))};
  offset = step->agrees->to;
  number(*step, static_cast<uint32_t>(program_.rendezvousSteps.size()));
  const uint32_t index = info(o, "broadcast of the predicate", "collective", dtypeBytes(dtype));
  program_.infos[index].results.clear();
  program_.infos[index].stream = "comm";
  add(ProgramStepKind::Collective, program_.rendezvousSteps, *std::move(step), index, out);
}

Status Loader::cond(OpId o, StepList& out) {
  auto predicate = offsetOf(m_.operand(o, 0));
  if (!predicate) return at(o, predicate.error());
  CondStep step;
  step.predicate = *predicate;
  for (uint32_t r = 0; r < 2; ++r) {
    BlockId b = m_.region(o, r);
    if (Status s = block(b, step.branch[r]); !s) return s;
    std::vector<CopyPair> list;
    for (uint32_t i = 0; i < m_[o].numResults; ++i) list.push_back({m_[b].yields[i], m_.result(o, i)});
    if (Status s = parallelCopies(list, o, step.branch[r]); !s) return s;
  }
  agree(step.predicate, DType::Bool, {&step.branch[0], &step.branch[1]}, o, out);
  add(ProgramStepKind::Cond, program_.conds, std::move(step), info(o, "cond", "control"), out);
  return Ok{};
}

Status Loader::whileLoop(OpId o, StepList& out) {
  std::vector<CopyPair> start, again;
  BlockId condition = m_.region(o, 0), body = m_.region(o, 1);
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    start.push_back({m_.operand(o, i), m_.result(o, i)});
    again.push_back({m_[body].yields[i], m_.result(o, i)});
  }
  if (Status s = parallelCopies(start, o, out); !s) return s;
  WhileStep step;
  if (Status s = block(condition, step.condition); !s) return s;
  auto predicate = offsetOf(m_[condition].yields[0]);
  if (!predicate) return at(o, predicate.error());
  step.predicate = *predicate;
  if (AttrId limit = m_.attr(o, "max_trips")) step.maxIterations = m_.attrs[limit].i;
  if (Status s = block(body, step.body); !s) return s;
  if (Status s = parallelCopies(again, o, step.body); !s) return s;
  agree(step.predicate, DType::Bool, {&step.condition, &step.body}, o, step.condition);
  add(ProgramStepKind::While, program_.whiles, std::move(step), info(o, "while", "control"), out);
  return Ok{};
}

Result<ForStep::Bound> Loader::bound(ValueId v) {
  ForStep::Bound b;
  if (m_[v].kind == ValueKind::Literal) {
    b.constant = m_.attrs[m_[v].literal].i;
    return b;
  }
  auto offset = offsetOf(v);
  if (!offset) return offset.error();
  b.offset = *offset;
  return b;
}

Status Loader::forLoop(OpId o, StepList& out) {
  BlockId body = m_.region(o);
  size_t carried = m_[body].args.size() - 1;
  ForStep step;
  auto lo = bound(m_.operand(o, 0)), hi = bound(m_.operand(o, 1));
  if (!lo || !hi) return at(o, (lo ? hi : lo).error());
  step.lo = *lo;
  step.hi = *hi;
  if (AttrId limit = m_.attr(o, "max_trips")) step.maxIterations = m_.attrs[limit].i;
  step.index = *offsetOf(m_[body].args[0]);
  std::vector<CopyPair> start, again;
  for (size_t i = 0; i < carried; ++i) {
    start.push_back({m_.operand(o, i + 2), m_.result(o, i)});
    again.push_back({m_[body].yields[i], m_.result(o, i)});
  }
  for (size_t i = carried; i < m_[o].numResults; ++i) {
    const Dim rows = m_.typeOf(m_.result(o, i)).dims[0];
    if (!rows.isStatic() || (lo->offset < 0 && hi->offset < 0 &&
                             rows.value() != std::max<int64_t>(0, hi->constant - lo->constant)))
      return at(o, "a stacked result sharded along its iterations (dim 0) cannot be executed yet: leave its "
                   "dim 0 unsharded (`_`)");
    step.stacked = rows.value();
    again.push_back({m_[body].yields[i], m_.result(o, i), true});
  }
  if (Status s = parallelCopies(start, o, out); !s) return s;
  if (Status s = block(body, step.body); !s) return s;
  if (Status s = parallelCopies(again, o, step.body); !s) return s;
  for (ForStep::Bound* b : {&step.lo, &step.hi})
    if (b->offset >= 0) agree(b->offset, DType::I32, {&step.body}, o, out);
  add(ProgramStepKind::For, program_.fors, std::move(step), info(o, "for", "control"), out);
  return Ok{};
}

// --- overlap ---

// Joins an overlapped collective: its results are in the result buffers of `done`.
Status Loader::done(OpId o, StepList& out) {
  if (m_[o].numOperands == 0) return Ok{};
  const auto open = overlappedOf_.find(m_.definingOp(m_.operand(o, 0)));
  if (open == overlappedOf_.end()) return Ok{};
  out.push_back({ProgramStepKind::Join, open->second.number, open->second.info});
  overlappedOf_.erase(open);
  return Ok{};
}

// Assigns the collective a number that is unique among those in flight.
void Loader::overlap(RendezvousStep& step, uint32_t info) {
  if (!backend_.overlap() || m_.record(step.op).async != AsyncForm::Start || !step.plan.synchronizes())
    return;
  uint32_t number = 0;
  while (std::ranges::any_of(overlappedOf_, [&](const auto& open) { return open.second.number == number; }))
    ++number;
  step.overlapped = number;
  program_.infos[info].overlapped = true;
  overlappedOf_[step.op] = {number, info};
  numJoins_ = std::max<size_t>(numJoins_, number + 1);
}

Status Loader::readPlan() {
  Diagnostics diags;
  auto plan = readMemoryPlan(m_, own().func, diags);
  if (!plan) {
    const Diagnostic* why = diags.all().empty() ? nullptr : &diags.all()[0];
    std::string where = why ? lines_.text(why->range, true) : "";
    if (!where.empty()) where += ": ";
    return inputError(where + (why ? why->message() : "missing memory plan: run 'plan-memory'"));
  }
  own().plan = std::move(*plan);
  own().arenaBytes = aligned(own().plan.arenaBytes);
  return Ok{};
}

void Loader::makePrograms() {
  DevicePrograms table = programsOf(m_, entry_);
  program_.mesh = meshValueOf(m_, entry_);
  for (size_t i = 0; i < table.functions.size(); ++i) {
    DeviceProgram& own =
        program_.programs.emplace_back(table.functions[i], AbsentValues(m_, table.functions[i]));
    own.coordinates = table.coordinatesOf(i);
  }
  program_.programOf = std::move(table.of);
}

void Loader::enter(uint32_t program) {
  current_ = program;
  names_.emplace(m_, own().func);
  overlappedOf_.clear();
  literalOfBytes_.clear();
  temporaries_.clear();
  issued_.clear();
}

Status Loader::function(uint32_t program) {
  enter(program);
  const FuncId f = own().func;
  if (Status s = checkLowered(m_, f); !s) return s;
  if (Status s = checkTarget(m_, f, backend_); !s) return s;
  if (Status s = readPlan(); !s) return s;
  for (OpId o : m_[m_[f].body].ops)
    if (Status s = op(o, isFrozenOp(m_, o) ? own().frozenSteps : own().steps); !s) return s;
  for (ValueId v : m_[m_[f].body].yields)
    if (auto offset = offsetOf(v); !offset) return offset.error();
  std::vector<CopyPair> carried;
  for (auto [result, argument] : carriedResults(m_, f))
    if (const ValueId arg = m_[f].args[argument].value; !own().absent(arg))
      carried.push_back({m_[m_[f].body].yields[result], arg});
  return parallelCopies(carried, OpId(), own().carrySteps);
}

static std::string deviceName(int64_t coordinate) { return "device " + std::to_string(coordinate); }
Status Loader::checkSchedule() {
  RankReader reader(m_, entry_);
  if (auto p = reader.read())
    return at(p->control, printValueName(m_, p->decides) + " may differ between " +
                              deviceName(p->coordinates[0]) + " and " + deviceName(p->coordinates[1]) +
                              ", which share a rendezvous at " + whereText(m_, p->rendezvous) + ": deadlock");
  const std::optional<RankMismatch> problem = validateRanks(reader.ranks());
  if (!problem) return Ok{};
  const std::string other = deviceName(problem->other);
  std::string there =
      problem->otherOp.valid() ? "waits in " + whereText(m_, problem->otherOp) : "has finished";
  if (problem->kind == RankMismatch::Differs) there += ", another collective";
  return at(problem->op,
            deviceName(problem->coordinate) + " would deadlock here waiting for " + other + ", which " +
                there,
            Error::Bug);
}

Status Loader::fillContents() {
  for (const Content& c : contents_)
    for (int64_t p : program_.programs[c.program].coordinates) {
      if (!program_.here.contains(p)) continue;
      const std::vector<std::byte>& bytes = c.at[c.at.size() == 1 ? 0 : static_cast<size_t>(p)];
      if (Status s = backend_.write(p, program_.arenas[static_cast<size_t>(p)] + c.offset, bytes); !s)
        return s;
    }
  return Ok{};
}

Status Loader::load() {
  makePrograms();
  program_.here = backend_.communicator().devices();
  for (uint32_t i = 0; i < program_.programs.size(); ++i)
    if (Status s = function(i); !s) return s;
  if (Status s = checkSchedule(); !s) return s;
  if (Status s = backend_.compile(kernels_.kernels()); !s) return s;
  for (int64_t p = 0; p < program_.mesh.numDevices(); ++p) {
    if (!program_.here.contains(p)) {
      program_.arenas.push_back(nullptr);
      continue;
    }
    auto arena = backend_.allocate(p, program_.at(p).arenaBytes);
    if (!arena) return arena.error();
    program_.arenas.push_back(*arena);
  }
  if (Status s = fillContents(); !s) return s;
  CallPlacer placer(m_, backend_, kernels_, program_);
  for (const FusedStep& step : kernelSteps_)
    if (Status s = placer.place(step, program_.kernels.emplace_back()); !s) return s;
  for (const FusedStep& step : gemmSteps_)
    if (Status s = placer.place(step, program_.gemms.emplace_back()); !s) return s;
  for (const RendezvousStep& step : program_.rendezvousSteps)
    if (Status s = placer.place(step); !s) return s;
  if (backend_.graphs() && numJoins_ > 0)
    for (DeviceProgram& own : program_.programs) joinBeforeGraphsEnd(program_, *backend_.graphs(), own.steps);
  return numJoins_ > 0 ? backend_.overlap()->prepareJoins(numJoins_) : Status(Ok{});
}

} // namespace dtc
