// Barriers, shuffles and votes of cuda-emu.
#include "EmuCluster.h"
#include <algorithm>
#include <bit>

namespace dtc {
namespace {

constexpr const char* kTooManyBarriers = "more barriers than the checks can count (2^21)";

const char* opName(int32_t op) {
  constexpr const char* names[] = {"__syncwarp",       "__shfl_sync",       "__shfl_up_sync",
                                   "__shfl_down_sync", "__shfl_xor_sync",   "__ballot_sync",
                                   "__any_sync",       "__all_sync",        "dtc_mma",
                                   "dtc_mma",          "dtc_load_matrices", "dtc_load_turned"};
  return names[op];
}

std::string hex(uint32_t v) {
  std::string out = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(v >> shift) & 15];
  return out;
}

// The lane that `lane` reads, or -1 where it keeps its own value (PTX ISA, shfl.sync).
int sourceLane(const EmuThread& t, int lane) {
  const int width = t.width, first = lane & ~(width - 1), last = first | (width - 1);
  switch (static_cast<EmuWarpOp>(t.kind)) {
  case EmuWarpOp::Shuffle: return first | (t.argument & (width - 1));
  case EmuWarpOp::Up: return lane - t.argument >= first ? lane - t.argument : -1;
  case EmuWarpOp::Down: return lane + t.argument <= last ? lane + t.argument : -1;
  default: return (lane ^ t.argument) <= last ? lane ^ t.argument : -1;
  }
}

bool samePlace(const EmuThread& a, const EmuThread& b) {
  return a.line == b.line &&
         a.place == b.place; // each barrier or operation in the text has a place of its own
}

} // namespace

// --- barriers ---

int32_t EmuCluster::barrier(EmuBarrier kind, int32_t value, int32_t line, const char* place) {
  const uint32_t me = current_, block = blockOf(me);
  EmuThread& thread = threads_[me];
  thread.kind = static_cast<int32_t>(kind), thread.value = static_cast<uint64_t>(value);
  thread.line = line, thread.place = place;
  if (++blocks_[block].atBarrier == perBlock_) {
    thread.state = EmuState::AtBarrier;
    releaseBarrier(block);
    thread.state = EmuState::Running;
  } else {
    wait(EmuState::AtBarrier);
  }
  return static_cast<int32_t>(thread.result);
}

uint32_t EmuCluster::nextClock(uint32_t begin, uint32_t end) {
  uint32_t clock = 0;
  for (uint32_t i = begin; i < end; ++i) clock = std::max(clock, threads_[i].clock);
  if (clock + 1 >= kMostClock) fail(current_, kTooManyBarriers);
  return clock + 1;
}

void EmuCluster::releaseBarrier(uint32_t block) {
  const uint32_t begin = block * perBlock_, end = begin + perBlock_;
  const EmuThread& first = threads_[begin];
  uint64_t count = 0;
  for (uint32_t i = begin; i < end; ++i) {
    if (!samePlace(threads_[i], first) || threads_[i].kind != first.kind)
      return fail(i, "not all threads are at the same barrier: " + describe(begin) + ", but " + describe(i));
    count += threads_[i].value;
  }
  const auto kind = static_cast<EmuBarrier>(first.kind);
  const uint64_t result = kind == EmuBarrier::And  ? count == perBlock_
                          : kind == EmuBarrier::Or ? count != 0
                                                   : count;
  blocks_[block].atBarrier = 0;
  shareKnowledge(begin, end);
  const uint32_t clock = nextClock(begin, end);
  for (uint32_t i = begin; i < end; ++i) {
    threads_[i].clock = threads_[i].blockClock = clock;
    threads_[i].result = result;
    if (i != current_) wake(i);
  }
}

void EmuCluster::namedBarrier(uint32_t id, uint32_t count, int32_t line, const char* place) {
  const uint32_t me = current_, block = blockOf(me);
  EmuThread& thread = threads_[me];
  thread.kind = static_cast<int32_t>(id), thread.value = count, thread.line = line, thread.place = place;
  const auto refuse = [&](const std::string& why) {
    fail(me, "thread " + emuTuple(thread.view.thread) + " at line " + lineOf(line, place) + ": " + why);
  };
  if (id == 0 || id > 15)
    return refuse("there is no barrier number " + std::to_string(id) + ": they are 1 to 15");
  if (count == 0 || count % 32 || count > warpsPerBlock_ * 32)
    return refuse("a barrier's count is a multiple of 32 up to the block's threads, not " +
                  std::to_string(count));
  Named& named = blocks_[block].named[id];
  if (named.arrived && named.count != count)
    return refuse("barrier " + std::to_string(id) + " is waited for with a count of " +
                  std::to_string(count) + " here and of " + std::to_string(named.count) + " elsewhere");
  named.count = count;
  if (++named.arrived == count) {
    thread.state = EmuState::AtNamedBarrier;
    releaseNamed(block, id);
    thread.state = EmuState::Running;
  } else {
    wait(EmuState::AtNamedBarrier);
  }
}

// Whole warps take part; what each of them knew, all know then.
void EmuCluster::releaseNamed(uint32_t block, uint32_t id) {
  const uint32_t begin = block * perBlock_, end = begin + perBlock_;
  auto takesPart = [&](uint32_t i) {
    return threads_[i].state == EmuState::AtNamedBarrier && threads_[i].kind == static_cast<int32_t>(id);
  };
  std::array<uint32_t, 32> known{};
  uint32_t clock = 0, warps = 0;
  for (uint32_t i = begin; i < end; ++i) {
    if (!takesPart(i)) continue;
    clock = std::max(clock, threads_[i].clock);
    warps |= 1u << ((i - begin) / 32);
    for (size_t w = 0; w < 32 && threads_[i].warpClocks; ++w)
      known[w] = std::max(known[w], (*threads_[i].warpClocks)[w]);
  }
  if (++clock >= kMostClock) return fail(current_, kTooManyBarriers);
  for (uint32_t w = 0; w < 32; ++w)
    if (warps >> w & 1) known[w] = clock;
  for (uint32_t i = begin; i < end; ++i) {
    if ((warps >> ((i - begin) / 32) & 1) && !takesPart(i) && threads_[i].state != EmuState::Done)
      return fail(i, "a barrier takes whole warps: thread " + emuTuple(threads_[current_].view.thread) +
                         " is at barrier " + std::to_string(id) + " of line " +
                         lineOf(threads_[current_].line, threads_[current_].place) + ", but " + describe(i));
    if (!takesPart(i)) continue;
    threads_[i].clock = clock;
    threads_[i].warpClocks = std::make_unique<std::array<uint32_t, 32>>(known);
    if (i != current_) wake(i);
  }
  blocks_[block].named[id] = {};
}

void EmuCluster::clusterBarrier(int32_t line, const char* place) {
  EmuThread& thread = threads_[current_];
  thread.line = line, thread.place = place;
  thread.state = EmuState::AtClusterBarrier;
  ++atCluster_;
  if (tryReleaseCluster())
    thread.state = EmuState::Running;
  else
    wait(EmuState::AtClusterBarrier);
}

// It waits for the threads that have not returned.
bool EmuCluster::tryReleaseCluster() {
  if (atCluster_ == 0 || atCluster_ + done_ < threads_.size()) return false;
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state != EmuState::Done) continue;
    const auto first = std::find_if(threads_.begin(), threads_.end(),
                                    [](const EmuThread& t) { return t.state == EmuState::AtClusterBarrier; });
    auto waits = static_cast<uint32_t>(first - threads_.begin());
    if (const Warp& warp = warpOf(i); warp.present) {
      waits = i - laneOf(i) + static_cast<uint32_t>(std::countr_zero(warp.present));
      fail(waits, "a cluster barrier that not all lanes of a warp reach: " + describe(waits) + ", but " +
                      describe(i));
    } else if (kernel_.checked && !threads_[i].leaves) {
      fail(waits, "a cluster barrier that not all threads reach: " + describe(waits) + ", but thread " +
                      emuTuple(threads_[i].view.thread) + " of block " + emuTuple(blocks_[blockOf(i)].index) +
                      " has come to the kernel's end without it");
    }
    if (failed()) return false;
  }
  atCluster_ = 0;
  clusterClock_ = nextClock(0, static_cast<uint32_t>(threads_.size()));
  for (Block& block : blocks_) block.used = false;
  shareKnowledge(0, static_cast<uint32_t>(threads_.size()));
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state != EmuState::AtClusterBarrier) continue;
    threads_[i].clock = threads_[i].blockClock = clusterClock_;
    if (i != current_) wake(i);
  }
  return true;
}

void* EmuCluster::mapShared(const void* p, uint32_t rank, int32_t line, const char* place) {
  const uint8_t* begin = shared();
  const auto* at = static_cast<const uint8_t*>(p);
  const auto refuse = [&](const std::string& why) {
    fail(current_, "thread " + emuTuple(threads_[current_].view.thread) + " at line " + lineOf(line, place) +
                       ": " + why);
  };
  if (rank >= numBlocks_)
    refuse("the cluster has " + std::to_string(numBlocks_) + " blocks, none of rank " + std::to_string(rank));
  else if (!inShared(p, blockOf(current_)))
    refuse("an address of another block's memory is asked for, by one that is not of shared memory");
  return failed() ? nullptr : sharedOf(rank) + (at - begin);
}

// --- warps ---

uint64_t EmuCluster::warp(EmuWarpOp op, uint32_t mask, uint64_t value, int32_t argument, int32_t width,
                          int32_t line, const char* place) {
  const uint32_t me = current_;
  EmuThread& thread = threads_[me];
  thread.kind = static_cast<int32_t>(op), thread.line = line, thread.place = place;
  thread.argument = argument, thread.width = width;
  thread.mask = mask, thread.value = value;
  thread.state = EmuState::InWarpOp;
  if (!(mask >> laneOf(me) & 1)) fail(me, describe(me) + ", which does not name the thread itself");
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<uint32_t>(width)))
    fail(me, describe(me) + " and width " + std::to_string(width) + ", which is no power of two up to 32");
  // CUDA says what lanes out of range give, the instruction has five bits: of those that are not the same.
  const bool far = op == EmuWarpOp::Xor                           ? argument < 0 || argument > 31
                   : op == EmuWarpOp::Up || op == EmuWarpOp::Down ? argument < 0 || argument > 32
                                                                  : false;
  if (far) fail(me, describe(me) + " and goes " + std::to_string(argument) + " lanes, out of its warp");
  if (failed()) return 0;
  warpOf(me).waiting |= 1u << laneOf(me);
  if (tryWarpOp(me))
    thread.state = EmuState::Running;
  else
    wait(EmuState::InWarpOp);
  return thread.result;
}

bool EmuCluster::tryWarpOp(uint32_t number) {
  const EmuThread& t = threads_[number];
  const uint32_t begin = number - laneOf(number), lanes = t.mask & warpOf(number).present;
  if (lanes & ~warpOf(number).waiting) return false;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const EmuThread& other = threads_[begin + static_cast<uint32_t>(std::countr_zero(rest))];
    if (other.state != EmuState::InWarpOp || other.kind != t.kind || other.mask != t.mask ||
        !samePlace(other, t))
      return false;
  }
  finishWarpOp(begin, lanes);
  return true;
}

// What another lane would give is undefined.
void EmuCluster::noSource(uint32_t thread, int lane, int source) {
  const EmuThread& t = threads_[thread];
  const uint32_t other = thread - static_cast<uint32_t>(lane) + static_cast<uint32_t>(source);
  const bool exists = other / perBlock_ == thread / perBlock_ && other < threads_.size();
  fail(thread, describe(thread) + " and reads lane " + std::to_string(source) +
                   (!(t.mask >> source & 1)                             ? ", which the mask does not name"
                    : exists && threads_[other].state == EmuState::Done ? ", which has returned"
                                                                        : ", which is not there"));
}

// Lanes that have returned need not come; but one that was in this operation by another mask had a part in it.
bool EmuCluster::sameMasks(uint32_t begin, uint32_t lanes) {
  const uint32_t me = begin + static_cast<uint32_t>(std::countr_zero(lanes));
  const EmuThread& t = threads_[me];
  for (uint32_t rest = t.mask & ~lanes; rest; rest &= rest - 1) {
    const uint32_t i = begin + static_cast<uint32_t>(std::countr_zero(rest));
    if (i / perBlock_ != me / perBlock_ || i >= threads_.size()) continue;
    const EmuThread& other = threads_[i];
    if (other.state != EmuState::Done) continue;
    if (other.mask != 0 && other.mask != t.mask && other.kind == t.kind && samePlace(other, t))
      fail(me, describe(me) + ", but thread " + emuTuple(other.view.thread) + " was there with mask " +
                   hex(other.mask));
    else if (kernel_.checked && !other.leaves)
      fail(me, describe(me) + ", but thread " + emuTuple(other.view.thread) +
                   " has come to the kernel's end without it");
    else
      continue;
    return false;
  }
  return true;
}

void EmuCluster::finishWarpOp(uint32_t begin, uint32_t lanes) {
  warpOf(begin).waiting &= ~lanes;
  if (!sameMasks(begin, lanes)) return;
  const auto op =
      static_cast<EmuWarpOp>(threads_[begin + static_cast<uint32_t>(std::countr_zero(lanes))].kind);
  if (op == EmuWarpOp::MmaBf16 || op == EmuWarpOp::MmaF16) multiply(begin, lanes);
  if (op == EmuWarpOp::Matrices || op == EmuWarpOp::MatricesTurned) giveMatrices(begin, lanes);
  uint32_t votes = 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (threads_[begin + lane].value) votes |= 1u << lane;
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    EmuThread& thread = threads_[begin + static_cast<uint32_t>(lane)];
    switch (static_cast<EmuWarpOp>(thread.kind)) {
    case EmuWarpOp::Sync:
    case EmuWarpOp::MmaBf16:
    case EmuWarpOp::MmaF16:
    case EmuWarpOp::Matrices:
    case EmuWarpOp::MatricesTurned: break;
    case EmuWarpOp::Ballot: thread.result = votes; break;
    case EmuWarpOp::Any: thread.result = votes != 0; break;
    case EmuWarpOp::All: thread.result = votes == lanes; break;
    default: {
      const int source = sourceLane(thread, lane);
      if (source >= 0 && !(lanes >> source & 1))
        return noSource(begin + static_cast<uint32_t>(lane), lane, source);
      thread.result = source < 0 ? thread.value : threads_[begin + static_cast<uint32_t>(source)].value;
    }
    }
  }
  if (op == EmuWarpOp::Sync) orderLanes(begin, lanes); // the others order no memory
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const uint32_t i = begin + static_cast<uint32_t>(std::countr_zero(rest));
    if (i != current_) wake(i);
  }
}

// __syncwarp: what each of these lanes knew, all of them know then.
void EmuCluster::orderLanes(uint32_t begin, uint32_t lanes) {
  std::array<uint32_t, 32> known{};
  uint32_t clock = 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const EmuThread& t = threads_[begin + static_cast<uint32_t>(std::countr_zero(rest))];
    clock = std::max(clock, t.clock);
    for (size_t lane = 0; lane < 32 && t.laneClocks; ++lane)
      known[lane] = std::max(known[lane], (*t.laneClocks)[lane]);
  }
  if (++clock >= kMostClock) fail(current_, kTooManyBarriers);
  for (uint32_t rest = lanes; rest; rest &= rest - 1)
    known[static_cast<size_t>(std::countr_zero(rest))] = clock;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    EmuThread& t = threads_[begin + static_cast<uint32_t>(std::countr_zero(rest))];
    t.clock = clock;
    if (!t.laneClocks) t.laneClocks = std::make_unique<std::array<uint32_t, 32>>();
    *t.laneClocks = known;
  }
}

// --- who waits where ---

std::string EmuCluster::describe(uint32_t number) const {
  const EmuThread& t = threads_[number];
  const std::string who = "thread " + emuTuple(t.view.thread), line = lineOf(t.line, t.place);
  switch (t.state) {
  case EmuState::Done: return who + " has returned";
  case EmuState::AtBarrier: return who + " waits at the barrier of line " + line;
  case EmuState::AtNamedBarrier:
    return who + " waits at barrier " + std::to_string(t.kind) + " of line " + line + " for " +
           std::to_string(t.value) + " threads";
  case EmuState::AtClusterBarrier: return who + " waits at the cluster barrier of line " + line;
  case EmuState::New:
  case EmuState::Ready: return who + " has not come to one";
  case EmuState::Running:
  case EmuState::InWarpOp: break;
  }
  return who + " is in " + opName(t.kind) + " of line " + line + " with mask " + hex(t.mask);
}

// Nobody can run and somebody waits.
void EmuCluster::failDeadlock() {
  auto first = [&](EmuState state) {
    return static_cast<uint32_t>(
        std::find_if(threads_.begin(), threads_.end(), [&](const EmuThread& t) { return t.state == state; }) -
        threads_.begin());
  };
  auto otherOf = [&](uint32_t waiting) { // of its block, not waiting as it does
    const uint32_t begin = waiting / perBlock_ * perBlock_;
    for (uint32_t i = begin; i < begin + perBlock_; ++i)
      if (threads_[i].state != threads_[waiting].state || threads_[i].kind != threads_[waiting].kind)
        return i;
    return waiting;
  };
  if (const uint32_t t = first(EmuState::AtBarrier); t < threads_.size()) {
    uint32_t other = t / perBlock_ * perBlock_;
    while (threads_[other].state == EmuState::AtBarrier) ++other;
    return fail(t, "a barrier that not all threads of the block reach: " + describe(t) + ", but " +
                       describe(other));
  }
  if (const uint32_t t = first(EmuState::AtNamedBarrier); t < threads_.size()) {
    const Named& named = blocks_[t / perBlock_].named[static_cast<size_t>(threads_[t].kind)];
    return fail(t, "a barrier that too few threads reach (" + std::to_string(named.arrived) + " of " +
                       std::to_string(named.count) + "): " + describe(t) + ", but " + describe(otherOf(t)));
  }
  const uint32_t waiting = first(EmuState::InWarpOp);
  if (waiting == threads_.size())
    return fail(first(EmuState::AtClusterBarrier), "a cluster barrier that not all threads reach");
  const EmuThread& t = threads_[waiting];
  const uint32_t begin = waiting - laneOf(waiting);
  uint32_t other = begin;
  for (uint32_t rest = t.mask & warpOf(waiting).present; rest; rest &= rest - 1) {
    other = begin + static_cast<uint32_t>(std::countr_zero(rest));
    if (threads_[other].kind != t.kind || threads_[other].mask != t.mask || !samePlace(threads_[other], t) ||
        threads_[other].state != EmuState::InWarpOp)
      break;
  }
  fail(waiting, "a warp operation that not all lanes of its mask reach: " + describe(waiting) + ", but " +
                    describe(other));
}

} // namespace dtc
