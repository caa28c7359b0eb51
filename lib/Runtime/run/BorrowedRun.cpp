#include "run/BorrowedRun.h"

#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "run/Extents.h"

#include <algorithm>

namespace dtc {
namespace {

std::vector<TransferPlan> argumentPlans(const Module& m, const Program& program) {
  std::vector<TransferPlan> plans;
  const Function& entry = m[program.programs[0].func];
  for (size_t i = 0; i < entry.args.size(); ++i) {
    const FuncArg& a = entry.args[i];
    std::vector<ValueId> values;
    for (int64_t p = 0; p < program.numDevices(); ++p) values.push_back(m[program.at(p).func].args[i].value);
    const ShardingId sharding = a.globalType ? m[a.value].sharding : ShardingId();
    plans.push_back(planTransfer(
        m, program, "argument " + printValueName(m, a.value), a.globalType ? a.globalType : m[a.value].type,
        sharding ? &m.shardings[sharding] : nullptr, values, holdersOf(m, program.mesh, a.attrs)));
  }
  return plans;
}

std::vector<TransferPlan> resultPlans(const Module& m, const Program& program) {
  std::vector<TransferPlan> plans;
  const Function& entry = m[program.programs[0].func];
  for (size_t i = 0; i < entry.results.size(); ++i) {
    const FuncResult& r = entry.results[i];
    std::vector<ValueId> values;
    for (int64_t p = 0; p < program.numDevices(); ++p)
      values.push_back(m[m[program.at(p).func].body].yields[i]);
    const ShardingId sharding = r.globalType ? r.sharding : ShardingId();
    plans.push_back(planTransfer(
        m, program, "result " + (r.label ? std::string(m.strings[r.label]) : std::to_string(i)),
        r.globalType ? r.globalType : m[values[0]].type, sharding ? &m.shardings[sharding] : nullptr, values,
        holdersOf(m, program.mesh, r.attrs)));
  }
  return plans;
}

bool isAligned(const std::byte* p, DType dtype) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(dtypeBytes(partType(dtype))) == 0;
}

// Shards are those of the devices of this process.
Status checkAll(std::span<const BorrowedTensor> tensors, const std::vector<TransferPlan>& plans, bool shards,
                const Program& program, bool onHost, const char* what) {
  const auto first = static_cast<size_t>(program.firstHere());
  const size_t each = shards ? static_cast<size_t>(program.numHere()) : 1, expected = each * plans.size();
  std::string_view noun = what;
  if (expected == 1 && !shards) noun.remove_suffix(1);
  if (tensors.size() != expected)
    return usageError("expected " + std::to_string(expected) + " " + (shards ? "shards of " : "") +
                      std::string(noun) + ", got " + std::to_string(tensors.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].skip) continue;
    const TransferPlan& plan = plans[i / each];
    if (tensors[i].onDevice && onHost)
      return usageError(plan.name +
                        ": expected memory of the host, got a device's: this program runs on the CPU");
    if (Status s = fits(plan, shards ? plan.shards[first + i % each].shape : plan.shape, tensors[i]); !s)
      return s;
  }
  return Ok{};
}

// Of a result of which this process has only some shards, it cannot write the whole tensor.
Status checkComplete(std::span<const BorrowedTensor> results, const std::vector<TransferPlan>& plans) {
  for (size_t i = 0; i < plans.size(); ++i)
    if (!results[i].skip && !plans[i].complete)
      return usageError(plans[i].name + ": this process has only some of its shards: ask for shards, one for "
                                        "each of its devices, instead of the whole tensor");
  return Ok{};
}

} // namespace

// A result whose buffer may be elsewhere: only values that are in it completely share its memory, and all of
// them live within a run.
bool BorrowedRun::canMove(const Module& m, size_t result, int64_t coordinate) const {
  const DeviceProgram& own = program_.at(coordinate);
  const MemoryPlan& plan = own.plan;
  const auto found = plan.bufferOf.find(m[m[own.func].body].yields[result]);
  if (found == plan.bufferOf.end()) return false; // a literal
  for (const CarriedResult& c : carriedResults(m, own.func))
    if (c.result == result) return false; // read after the run
  const int64_t begin = plan.buffers[found->second].offset;
  const int64_t end = begin + results_[result].shards[static_cast<size_t>(coordinate)].bytes;
  const auto overlaps = [&](const MemoryPlan::Buffer& b) {
    return b.offset < end && begin < b.offset + b.bytes;
  };
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const MemoryPlan::Buffer& b = plan.buffers[i];
    if (i != found->second && overlaps(b) && (b.offset < begin || b.offset + b.bytes > end)) return false;
  }
  for (const OpId o : m[m[own.func].body].ops) { // constants and frozen results are not written in each run
    if (!isLoadTimeOp(m, o) && !isFrozenOp(m, o)) continue;
    for (uint32_t r = 0; r < m[o].numResults; ++r)
      if (const auto at = plan.bufferOf.find(m.result(o, r));
          at != plan.bufferOf.end() && overlaps(plan.buffers[at->second]))
        return false;
  }
  return true;
}

std::vector<BorrowedRun::Candidate> BorrowedRun::candidates(const Module& m, int64_t coordinate,
                                                            const std::vector<bool>& kept) {
  const auto p = static_cast<size_t>(coordinate);
  std::vector<Candidate> found;
  const auto add = [&](const TransferPlan& plan, uint32_t& number) {
    const TransferPlan::Shard& s = plan.shards[p];
    const auto overlaps = [&](const Candidate& c) {
      return c.offset < s.offset + s.bytes && s.offset < c.offset + c.bytes;
    };
    if (s.bytes > 0 && std::ranges::none_of(found, overlaps)) found.push_back({s.offset, s.bytes, &number});
  };
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (kept[i]) add(arguments_[i], argumentRanges_[i][p]);
  for (size_t i = 0; i < results_.size(); ++i)
    if (canMove(m, i, coordinate)) add(results_[i], resultRanges_[i][p]);
  addFrozen(m, coordinate, found);
  std::ranges::sort(found, {}, &Candidate::offset);
  return found;
}

// Results of steps that run once, as far as they are in memory between runs. They do not move.
void BorrowedRun::addFrozen(const Module& m, int64_t coordinate, std::vector<Candidate>& found) {
  const DeviceProgram& own = program_.at(coordinate);
  const std::vector<MemoryPlan::Range> whole{{0, own.plan.numPositions - 1}};
  for (const OpId o : m[m[own.func].body].ops) {
    if (!isFrozenOp(m, o)) continue;
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      const auto at = own.plan.bufferOf.find(m.result(o, r));
      if (at == own.plan.bufferOf.end()) continue;
      const MemoryPlan::Buffer& b = own.plan.buffers[at->second];
      const auto overlaps = [&](const Candidate& c) {
        return c.offset < b.offset + b.bytes && b.offset < c.offset + c.bytes;
      };
      if (b.bytes > 0 && b.live == whole && std::ranges::none_of(found, overlaps))
        found.push_back({b.offset, b.bytes, &frozenResults_.emplace_back(kNone)});
    }
  }
}

BorrowedRun::BorrowedRun(const Module& m, Program& program, Backend& backend, const std::vector<bool>& kept)
    : program_(program), backend_(backend), arguments_(argumentPlans(m, program)),
      results_(resultPlans(m, program)), frozen_(frozenArgumentsOf(m, program.programs[0].func)) {
  const auto devices = static_cast<size_t>(program.numDevices());
  argumentRanges_.assign(arguments_.size(), std::vector<uint32_t>(devices, kNone));
  resultRanges_.assign(results_.size(), std::vector<uint32_t>(devices, kNone));
  lent_.resize(arguments_.size());
  RebindBackend* rebinding = backend.rebinding();
  if (!rebinding) return;
  struct Numbered {
    MemoryRange memory;
    Range range;
    uint32_t* number;
  };
  std::vector<Numbered> all;
  program.movable.resize(devices);
  for (size_t p = 0; p < devices; ++p) {
    if (!program.arenas[p]) continue; // a device of another process
    for (const Candidate& c : candidates(m, static_cast<int64_t>(p), kept)) {
      std::byte* own = program.arenas[p] + c.offset;
      all.push_back({{own, c.bytes}, {static_cast<int64_t>(p), program.movable[p].size(), own}, c.number});
      program.movable[p].push_back({c.offset, c.offset + c.bytes, own});
    }
  }
  std::ranges::sort(all, {}, [](const Numbered& n) { return n.memory.at; });
  std::vector<MemoryRange> memory;
  for (const Numbered& n : all) {
    *n.number = static_cast<uint32_t>(ranges_.size());
    ranges_.push_back(n.range);
    memory.push_back(n.memory);
  }
  rebinding->prepareRebinding(memory);
  rendezvous_.emplace(memory);
  for (Rendezvous& r : program.rendezvous) {
    for (const std::byte*& operand : r.operands) rendezvous_->add(operand);
    for (std::byte*& result : r.results) rendezvous_->add(result);
  }
}

bool BorrowedRun::bind(uint32_t range, std::byte* to) {
  if (range == kNone) return false;
  Range& r = ranges_[range];
  Program::Movable& buffer = program_.movable[static_cast<size_t>(r.coordinate)][r.movable];
  if (!to) to = r.own;
  if (buffer.at == to) return false;
  buffer.at = to;
  r.kept = false;
  backend_.rebinding()->rebind(range, to);
  rendezvous_->rebind(range, to);
  return true;
}

Status BorrowedRun::keepRange(uint32_t range, bool changed) {
  if (range == kNone || (ranges_[range].kept && !changed)) return Ok{};
  ranges_[range].kept = true;
  return backend_.rebinding()->keep(range);
}

void BorrowedRun::releaseRange(uint32_t range) {
  if (range != kNone && std::exchange(ranges_[range].kept, false)) backend_.rebinding()->release(range);
}

void BorrowedRun::releaseFrozen() {
  for (const uint32_t range : frozenResults_) releaseRange(range);
}

Status BorrowedRun::frozenIsComputed() {
  frozenChanged_ = false;
  for (size_t i = 0; i < frozen_.size(); ++i)
    for (const uint32_t range : argumentRanges_[i])
      if (frozen_[i] && range != kNone && !ranges_[range].kept) return Ok{};
  for (const uint32_t range : frozenResults_)
    if (Status s = keepRange(range, true); !s) return s;
  return Ok{};
}

void BorrowedRun::beforeSet(size_t argument) {
  frozenChanged_ = frozenChanged_ || frozen_[argument];
  lent_[argument].clear();
  for (const uint32_t range : argumentRanges_[argument]) {
    bind(range, nullptr);
    releaseRange(range);
  }
}

Status BorrowedRun::keep(size_t argument) {
  for (const uint32_t range : argumentRanges_[argument])
    if (Status s = keepRange(range, true); !s) return s;
  return Ok{};
}

// A result is not bound to memory of an argument: it may be written before the argument is read.
void BorrowedRun::bindResults(const Borrowing& tensors) {
  const auto begin = static_cast<size_t>(program_.firstHere()),
             count = static_cast<size_t>(program_.numHere());
  Extent all;
  for (const BorrowedTensor& t : tensors.arguments) all.add(extentOf(t));
  for (size_t i = 0; i < results_.size(); ++i)
    for (size_t p = begin; p < begin + count; ++p) {
      const uint32_t range = resultRanges_[i][p];
      if (range == kNone) continue;
      std::byte* to = nullptr;
      const BorrowedTensor* t = nullptr;
      if (!tensors.results.empty()) t = &tensors.results[tensors.resultShards ? i * count + p - begin : i];
      if (t && !t->skip && (tensors.resultShards || results_[i].shards[p].first))
        to = shardWithin(results_[i], static_cast<int64_t>(p), *t, !tensors.resultShards);
      if (to && !isAligned(to, results_[i].dtype)) to = nullptr;
      if (to && extentOf(*t).overlaps(all)) {
        const Extent own = extentOf(*t);
        if (std::ranges::any_of(tensors.arguments,
                                [&](const BorrowedTensor& a) { return extentOf(a).overlaps(own); }))
          to = nullptr;
      }
      bind(range, to);
    }
}

bool BorrowedRun::lend(size_t i, const std::byte* tensor) {
  const TransferPlan& plan = arguments_[i];
  if (plan.pending) return false;
  BorrowedTensor t;
  t.data = const_cast<std::byte*>(tensor); // buffers of arguments that a run keeps are not written
  t.dtype = plan.dtype, t.shape = plan.shape;
  std::vector<std::byte*> lent;
  for (size_t p = 0; p < plan.shards.size(); ++p) {
    if (!plan.shards[p].held) {
      lent.push_back(nullptr);
      continue;
    }
    std::byte* const within = shardWithin(plan, static_cast<int64_t>(p), t, true);
    if (argumentRanges_[i][p] == kNone || !within || !isAligned(within, plan.dtype)) return false;
    lent.push_back(within);
  }
  lent_[i] = std::move(lent);
  frozenChanged_ = frozenChanged_ || frozen_[i];
  return true;
}

Status BorrowedRun::copy(const TransferPlan& plan, size_t device, const BorrowedTensor& t, bool whole,
                         bool toBuffer) {
  copied_ += plan.shards[device].bytes;
  return copyShard(backend_, program_, plan, static_cast<int64_t>(device), t, whole, toBuffer);
}

Status BorrowedRun::setArgument(size_t i, std::span<const BorrowedTensor> tensors, bool shards) {
  const TransferPlan& plan = arguments_[i];
  const auto begin = static_cast<size_t>(program_.firstHere()), end = static_cast<size_t>(program_.endHere());
  if (frozen_[i] && std::ranges::any_of(tensors, [](const BorrowedTensor& t) { return !t.skip; }))
    frozenChanged_ = true;
  if (!shards && plan.pending) {
    if (tensors[0].skip) return Ok{};
    for (size_t p = begin; p < end; ++p) copied_ += plan.shards[p].bytes;
    return writePending(backend_, program_, plan, tensors[0]);
  }
  for (size_t p = begin; p < end; ++p) {
    const auto coordinate = static_cast<int64_t>(p);
    const BorrowedTensor& t = tensors[shards ? p - begin : 0];
    const uint32_t range = argumentRanges_[i][p];
    std::byte* within = nullptr;
    if (t.keep) lent_[i].clear();
    if (t.skip && lends(i)) within = lent_[i][p];
    if (range != kNone && !t.skip && !t.keep) within = shardWithin(plan, coordinate, t, !shards);
    if (within && !isAligned(within, plan.dtype)) within = nullptr;
    const bool moved = bind(range, within);
    const bool copied = !within && !t.skip && plan.shards[p].held;
    if (copied)
      if (Status s = copy(plan, p, t, !shards, true); !s) return s;
    if (!t.skip && !t.keep)
      releaseRange(range);
    else if (Status s = keepRange(range, moved || copied); !s)
      return s;
  }
  return Ok{};
}

Status BorrowedRun::check(const Borrowing& tensors) const {
  if (Status s = checkAll(tensors.arguments, arguments_, tensors.argumentShards, program_,
                          backend_.isHostMemory(), "arguments");
      !s)
    return s;
  if (!tensors.results.empty()) {
    if (Status s = checkAll(tensors.results, results_, tensors.resultShards, program_,
                            backend_.isHostMemory(), "results");
        !s)
      return s;
    if (Status s = tensors.resultShards ? Ok{} : checkComplete(tensors.results, results_); !s) return s;
    if (Status s = checkDisjoint(tensors.results); !s) return s;
  }
  return Ok{};
}

Status BorrowedRun::begin(const Borrowing& tensors) {
  copied_ = 0;
  bindResults(tensors); // first: a donated argument may be in the buffer of a result
  const size_t each = tensors.argumentShards ? static_cast<size_t>(program_.numHere()) : 1;
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (Status s = setArgument(i, tensors.arguments.subspan(i * each, each), tensors.argumentShards); !s)
      return s;
  return Ok{};
}

Status BorrowedRun::end(const Borrowing& tensors) {
  if (tensors.results.empty()) return Ok{};
  const auto begin = static_cast<size_t>(program_.firstHere()),
             count = static_cast<size_t>(program_.numHere());
  bool enqueued = false;
  for (size_t i = 0; i < results_.size(); ++i) {
    const TransferPlan& plan = results_[i];
    const auto tensorOf = [&](size_t p) -> const BorrowedTensor& {
      return tensors.results[tensors.resultShards ? i * count + p - begin : i];
    };
    if (!tensors.resultShards && plan.pending) {
      if (tensorOf(begin).skip) continue;
      for (const TransferPlan::Shard& s : plan.shards) copied_ += s.bytes;
      if (Status s = readPending(backend_, program_, plan, tensorOf(begin)); !s) return s;
      continue;
    }
    for (size_t p = begin; p < begin + count; ++p) {
      const BorrowedTensor& t = tensorOf(p);
      if (t.skip || !plan.shards[p].held || (!tensors.resultShards && !plan.shards[p].first)) continue;
      const auto coordinate = static_cast<int64_t>(p);
      const std::byte* within = shardWithin(plan, coordinate, t, !tensors.resultShards);
      if (within && within == program_.address(coordinate, plan.shards[p].offset)) continue; // bound
      if (Status s = copy(plan, p, t, !tensors.resultShards, false); !s) return s;
      enqueued = enqueued || t.onDevice;
    }
  }
  return enqueued ? backend_.finish() : Status(Ok{}); // copies between device buffers
}

} // namespace dtc
