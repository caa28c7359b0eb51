#include "EmuCluster.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace dtc {
constexpr const char* kTooManyBarriers = "more barriers than the checks can count (2^21)";
constexpr size_t kFrameRoom = size_t{16} << 10; // of the stack, for a function's variables and for the checks

static uint32_t volume(const Dim3& d) { return d.x * d.y * d.z; }

EmuCluster::EmuCluster(EmuWorkspace& workspace, const EmuKernel& kernel, const EmuLaunch& launch,
                       void* const* args, EmuGlobal* global, bool reversed)
    : workspace_(workspace), kernel_(kernel), launch_(launch), args_(args), reversed_(reversed),
      perBlock_(volume(launch.block)), numBlocks_(volume(kernel.cluster)),
      warpsPerBlock_((perBlock_ + 31) / 32),
      shared_(workspace.shared, kernel, launch.sharedBytes, numBlocks_),
      checks_(kernel, launch, shared_, global), threads_(workspace.threads), blocks_(numBlocks_),
      warps_(size_t{numBlocks_} * warpsPerBlock_) {
  threads_.clear();
  threads_.resize(size_t{numBlocks_} * perBlock_);
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    EmuThreadView& view = threads_[i].view;
    view.thread = emuThreadIndex(launch.block, i % perBlock_);
    view.blockSize = launch.block;
    view.gridSize = launch.grid;
    view.clusterRank = i / perBlock_;
    view.clusterSize = numBlocks_;
  }
  ready_.reserve(threads_.size());
}

void EmuCluster::begin(uint32_t number) {
  number_ = number;
  for (uint32_t b = 0; b < numBlocks_; ++b)
    blocks_[b] = {.index = emuBlockIndex(kernel_, launch_, number, b)};
  shared_.begin();
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    EmuThread& thread = threads_[i];
    thread.state = EmuState::New;
    thread.view.block = blocks_[i / perBlock_].index;
    thread.clock = 1, thread.blockClock = 0, thread.mask = 0;
    thread.laneClocks.reset(), thread.warpClocks.reset();
    thread.copies.clear(), thread.copyGroup = 0;
    thread.own = nullptr, thread.leaves = false;
    if (fences_.any()) thread.known.reset(), thread.seen.reset(), thread.released.reset();
  }
  ready_.clear();
  head_ = next_ = done_ = atCluster_ = clusterClock_ = yields_ = 0;
  for (Warp& warp : warps_) warp = {};
  for (uint32_t i = 0; i < threads_.size(); ++i) warpOf(i).present |= 1u << laneOf(i);
  error_.clear();
}

std::string EmuCluster::run(uint32_t number) {
  begin(number);
  // The stacks of an abandoned cluster are dropped without unwinding: generated code owns nothing.
  workspace_.idle.clear();
  for (auto& fibre : workspace_.fibres) workspace_.idle.push_back(fibre.get());
  running_ = &main_;
  leave();
  return error_;
}

Fibre* EmuCluster::newFibre() {
  if (workspace_.idle.empty()) {
    auto fibre = std::make_unique<Fibre>(workspace_.fibres.size());
    if (!fibre->ok()) return nullptr;
    workspace_.fibres.push_back(std::move(fibre));
    workspace_.idle.push_back(workspace_.fibres.back().get());
  }
  Fibre* fibre = workspace_.idle.back();
  workspace_.idle.pop_back();
  fibre->start(&EmuCluster::fibreEntry, this);
  return fibre;
}

void EmuCluster::fibreEntry(void* cluster) {
  static_cast<EmuCluster*>(cluster)->runThreads();
  std::abort(); // a fibre whose threads have returned is not resumed
}

void EmuCluster::runThreads() {
  while (next_ < threads_.size()) {
    current_ = reversed_ ? static_cast<uint32_t>(threads_.size()) - 1 - next_ : next_;
    ++next_;
    threads_[current_].state = EmuState::Running;
    kernel_.call(args_);
    threadDone();
    if (failed()) break;
  }
  leave();
}

// Leaves the running fibre for the next one that can run: a woken thread, else one that has not started, else
// the launch itself, because the cluster is finished or deadlocked.
void EmuCluster::leave(bool toNew) {
  Fibre* to = &main_;
  if (failed()) {
  } else if (head_ < ready_.size() && !toNew) {
    current_ = ready_[head_++];
    if (head_ == ready_.size()) ready_.clear(), head_ = 0;
    threads_[current_].state = EmuState::Running;
    to = threads_[current_].fibre;
  } else if (next_ < threads_.size()) {
    to = newFibre();
    if (!to) to = &main_, noStack_ = true, error_ = "no memory for the stack of a thread";
  } else if (done_ < threads_.size()) {
    failDeadlock();
  }
  Fibre* from = running_;
  running_ = to;
  watched_ = nullptr;
  if (from != to) switchFibre(*from, *to);
}

void EmuCluster::wait(EmuState state) {
  threads_[current_].state = state;
  threads_[current_].fibre = running_;
  leave();
}

void EmuCluster::wake(uint32_t thread) {
  threads_[thread].state = EmuState::Ready;
  ready_.push_back(thread);
}

// Yields to the others where a thread polls a value that one of them may still change.
void EmuCluster::yield() {
  EmuThread& thread = threads_[current_];
  thread.state = EmuState::Ready;
  thread.fibre = running_;
  ready_.push_back(current_);
  ++yields_;
  leave(next_ < threads_.size());
  thread.state = EmuState::Running;
}

void EmuCluster::threadDone() {
  if (!threads_[current_].copies.empty())
    return fail(current_, "thread " + emuTuple(me().view.thread) +
                              " ends while its asynchronous copy of line " +
                              emuLine(0, threads_[current_].copies.front().location) +
                              " is in flight: it has not waited for it");
  threads_[current_].state = EmuState::Done;
  ++done_;
  Block& block = blocks_[blockOf(current_)];
  if (++block.done == perBlock_ && block.used) {
    fail(block.user, "thread " + emuTuple(threads_[block.user].view.thread) + " at line " +
                         block.userLocation + " uses shared memory of block " + emuTuple(block.index) +
                         ", which ends without a cluster barrier after that");
    return;
  }
  Warp& warp = warpOf(current_);
  warp.present &= ~(1u << laneOf(current_));
  // Masks exclude threads that have returned: an operation of the others may be complete now.
  for (uint32_t rest = warp.waiting; rest; rest &= rest - 1) {
    const uint32_t other = current_ - laneOf(current_) + static_cast<uint32_t>(__builtin_ctz(rest));
    if (threads_[other].state == EmuState::InWarpOp) tryWarpOp(other);
  }
  tryReleaseCluster();
}

EmuActor EmuCluster::actor() const {
  const EmuThread& t = threads_[current_];
  return {number_,
          current_,
          blockOf(current_) * perBlock_,
          perBlock_,
          t.clock,
          t.blockClock,
          clusterClock_,
          t.laneClocks ? t.laneClocks->data() : nullptr,
          t.warpClocks ? t.warpClocks->data() : nullptr,
          t.known.get()};
}

// --- errors ---

void EmuCluster::fail(uint32_t thread, const std::string& text) {
  if (failed()) return;
  error_ = "block " + emuTuple(blocks_[thread / perBlock_].index) + ": " + text;
}

void EmuCluster::abandon() {
  leave();
  std::abort();
}

void EmuCluster::refuse(int32_t line, const char* location, const std::string& why) {
  fail(current_, "thread " + emuTuple(me().view.thread) + " at line " + emuLine(line, location) + ": " + why);
}

void EmuCluster::failAt(const char* location, const std::string& text) {
  std::string message =
      "thread " + emuTuple(threads_[current_].view.thread) + " at line " + location + " " + text;
  const auto line = static_cast<size_t>(std::strtoul(location, nullptr, 10));
  if (line >= 1 && line <= kernel_.lines.size()) {
    std::string source = kernel_.lines[line - 1];
    source.erase(0, source.find_first_not_of(' '));
    message += "\n  " + std::to_string(line) + " | " + source.substr(0, 200);
  }
  fail(current_, message);
}

void EmuCluster::failAccess(const EmuAccess& a, const std::string& text) {
  if (text.empty()) return;
  const char* verb = a.kind == emu::Update ? "updates " : a.writes() ? "writes " : "reads ";
  failAt(a.location, verb + std::to_string(a.bytes) + (a.bytes == 1 ? " byte " : " bytes ") + text);
}

void EmuCluster::fault(emu::Fault what, int64_t number, const char* variable, const char* location) {
  switch (what) {
  case emu::LocalBounds:
    return failAt(location, std::string("is outside of its local variable '") + variable + "' (byte " +
                                std::to_string(number) + ")");
  case emu::LocalUnset:
    return failAt(location,
                  std::string("reads an uninitialized part of its local variable '") + variable + "'");
  case emu::Overflow:
    return failAt(location, "overflows a signed integer, which a GPU's compiler assumes "
                            "to be impossible");
  case emu::ArrayBounds:
    return failAt(location, "points at element " + std::to_string(number) + " of an array of " + variable);
  case emu::Shift:
    return failAt(location, "shifts by " + std::to_string(number) + ", which is at least the number of bits");
  case emu::Division: return failAt(location, "divides by zero, or the minimum integer by -1");
  case emu::EndlessLoop:
    return failAt(location, "is in a loop that does not end (" + std::to_string(emu::kMaxRounds) +
                                " iterations): the value that it waits for may never change");
  }
}

// Deadlock: no thread can run and some wait.
void EmuCluster::failDeadlock() {
  auto first = [&](EmuState state) {
    return static_cast<uint32_t>(
        std::find_if(threads_.begin(), threads_.end(), [&](const EmuThread& t) { return t.state == state; }) -
        threads_.begin());
  };
  auto otherOf = [&](uint32_t waiting) { // of its block, not waiting at the same location
    const uint32_t begin = waiting / perBlock_ * perBlock_;
    for (uint32_t i = begin; i < begin + perBlock_; ++i)
      if (threads_[i].state != threads_[waiting].state || threads_[i].kind != threads_[waiting].kind)
        return i;
    return waiting;
  };
  if (const uint32_t t = first(EmuState::AtBarrier); t < threads_.size()) {
    uint32_t other = t / perBlock_ * perBlock_;
    while (threads_[other].state == EmuState::AtBarrier) ++other;
    return fail(t, "a barrier that not all threads of the block reach: " + says(t) + ", but " + says(other));
  }
  if (const uint32_t t = first(EmuState::AtNamedBarrier); t < threads_.size()) {
    const Named& named = blocks_[t / perBlock_].named[static_cast<size_t>(threads_[t].kind)];
    return fail(t, "a barrier that too few threads reach (" + std::to_string(named.arrived) + " of " +
                       std::to_string(named.count) + "): " + says(t) + ", but " + says(otherOf(t)));
  }
  const uint32_t waiting = first(EmuState::InWarpOp);
  if (waiting == threads_.size())
    return fail(first(EmuState::AtClusterBarrier), "a cluster barrier that not all threads reach");
  const EmuThread& t = threads_[waiting];
  const uint32_t begin = waiting - laneOf(waiting);
  uint32_t other = begin;
  for (uint32_t rest = t.mask & warpOf(waiting).present; rest; rest &= rest - 1) {
    other = begin + static_cast<uint32_t>(std::countr_zero(rest));
    if (threads_[other].kind != t.kind || threads_[other].mask != t.mask ||
        !sameLocation(threads_[other], t) || threads_[other].state != EmuState::InWarpOp)
      break;
  }
  fail(waiting,
       "a warp operation that not all lanes of its mask reach: " + says(waiting) + ", but " + says(other));
}

// --- barriers ---

int32_t EmuCluster::barrier(EmuBarrier kind, int32_t value, int32_t line, const char* location) {
  const uint32_t me = current_, block = blockOf(me);
  EmuThread& thread = threads_[me];
  thread.kind = static_cast<int32_t>(kind), thread.value = static_cast<uint64_t>(value);
  thread.line = line, thread.location = location;
  if (++blocks_[block].atBarrier == perBlock_) {
    thread.state = EmuState::AtBarrier;
    releaseBarrier(block);
    thread.state = EmuState::Running;
  } else {
    wait(EmuState::AtBarrier);
  }
  return static_cast<int32_t>(thread.result);
}

uint32_t EmuCluster::nextClock(std::span<const EmuThread> threads) {
  uint32_t clock = 0;
  for (const EmuThread& t : threads) clock = std::max(clock, t.clock);
  if (clock + 1 >= kMaxClock) fail(current_, kTooManyBarriers);
  return clock + 1;
}

void EmuCluster::releaseBarrier(uint32_t block) {
  const uint32_t begin = block * perBlock_, end = begin + perBlock_;
  const EmuThread& first = threads_[begin];
  uint64_t count = 0;
  for (uint32_t i = begin; i < end; ++i) {
    if (!sameLocation(threads_[i], first) || threads_[i].kind != first.kind)
      return fail(i, "not all threads are at the same barrier: " + says(begin) + ", but " + says(i));
    count += threads_[i].value;
  }
  const auto kind = static_cast<EmuBarrier>(first.kind);
  const uint64_t result = kind == EmuBarrier::And  ? count == perBlock_
                          : kind == EmuBarrier::Or ? count != 0
                                                   : count;
  blocks_[block].atBarrier = 0;
  fences_.share(threadsOf(block));
  const uint32_t clock = nextClock(threadsOf(block));
  for (uint32_t i = begin; i < end; ++i) {
    threads_[i].clock = threads_[i].blockClock = clock;
    threads_[i].result = result;
    if (i != current_) wake(i);
  }
}

void EmuCluster::namedBarrier(uint32_t id, uint32_t count, int32_t line, const char* location) {
  const uint32_t me = current_, block = blockOf(me);
  EmuThread& thread = threads_[me];
  thread.kind = static_cast<int32_t>(id), thread.value = count, thread.line = line,
  thread.location = location;
  if (id == 0 || id > 15)
    return refuse(line, location, "invalid barrier number " + std::to_string(id) + ": expected 1 to 15");
  if (count == 0 || count % 32 || count > warpsPerBlock_ * 32)
    return refuse(line, location,
                  "a barrier's count must be a multiple of 32 up to the block's threads, not " +
                      std::to_string(count));
  Named& named = blocks_[block].named[id];
  if (named.arrived && named.count != count)
    return refuse(line, location,
                  "barrier " + std::to_string(id) + " has a count of " + std::to_string(count) +
                      " here and of " + std::to_string(named.count) + " elsewhere");
  named.count = count;
  if (++named.arrived == count) {
    thread.state = EmuState::AtNamedBarrier;
    releaseNamed(block, id);
    thread.state = EmuState::Running;
  } else {
    wait(EmuState::AtNamedBarrier);
  }
}

// Entire warps take part; afterwards each knows what any of them knew.
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
  if (++clock >= kMaxClock) return fail(current_, kTooManyBarriers);
  for (uint32_t w = 0; w < 32; ++w)
    if (warps >> w & 1) known[w] = clock;
  for (uint32_t i = begin; i < end; ++i) {
    if ((warps >> ((i - begin) / 32) & 1) && !takesPart(i) && threads_[i].state != EmuState::Done)
      return fail(i, "a barrier needs complete warps: thread " + emuTuple(threads_[current_].view.thread) +
                         " is at barrier " + std::to_string(id) + " of line " +
                         emuLine(threads_[current_].line, threads_[current_].location) + ", but " + says(i));
    if (!takesPart(i)) continue;
    threads_[i].clock = clock;
    threads_[i].warpClocks = std::make_unique<std::array<uint32_t, 32>>(known);
    if (i != current_) wake(i);
  }
  blocks_[block].named[id] = {};
}

void EmuCluster::clusterBarrier(int32_t line, const char* location) {
  EmuThread& thread = threads_[current_];
  thread.line = line, thread.location = location;
  thread.state = EmuState::AtClusterBarrier;
  ++atCluster_;
  if (tryReleaseCluster())
    thread.state = EmuState::Running;
  else
    wait(EmuState::AtClusterBarrier);
}

// Waits for the threads that have not returned.
bool EmuCluster::tryReleaseCluster() {
  if (atCluster_ == 0 || atCluster_ + done_ < threads_.size()) return false;
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state != EmuState::Done) continue;
    const auto first = std::find_if(threads_.begin(), threads_.end(),
                                    [](const EmuThread& t) { return t.state == EmuState::AtClusterBarrier; });
    auto waits = static_cast<uint32_t>(first - threads_.begin());
    if (const Warp& warp = warpOf(i); warp.present) {
      waits = i - laneOf(i) + static_cast<uint32_t>(std::countr_zero(warp.present));
      fail(waits,
           "a cluster barrier that not all lanes of a warp reach: " + says(waits) + ", but " + says(i));
    } else if (kernel_.checked && !threads_[i].leaves) {
      fail(waits, "a cluster barrier that not all threads reach: " + says(waits) + ", but thread " +
                      emuTuple(threads_[i].view.thread) + " of block " + emuTuple(blocks_[blockOf(i)].index) +
                      " has returned without it");
    }
    if (failed()) return false;
  }
  atCluster_ = 0;
  clusterClock_ = nextClock(threads_);
  for (Block& block : blocks_) block.used = false;
  fences_.share(threads_);
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state != EmuState::AtClusterBarrier) continue;
    threads_[i].clock = threads_[i].blockClock = clusterClock_;
    if (i != current_) wake(i);
  }
  return true;
}

// --- warps ---

uint64_t EmuCluster::warp(EmuWarpOp op, uint32_t mask, uint64_t value, int32_t argument, int32_t width,
                          int32_t line, const char* location) {
  const uint32_t me = current_;
  EmuThread& thread = threads_[me];
  thread.kind = static_cast<int32_t>(op), thread.line = line, thread.location = location;
  thread.argument = argument, thread.width = width;
  thread.mask = mask, thread.value = value;
  thread.state = EmuState::InWarpOp;
  if (!(mask >> laneOf(me) & 1)) fail(me, says(me) + ", which does not include the thread itself");
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<uint32_t>(width)))
    fail(me, says(me) + " and width " + std::to_string(width) + ", which is not a power of two up to 32");
  // CUDA defines the result for lanes out of range, the instruction has five bits: those that agree.
  const bool far = op == EmuWarpOp::Xor                           ? argument < 0 || argument > 31
                   : op == EmuWarpOp::Up || op == EmuWarpOp::Down ? argument < 0 || argument > 32
                                                                  : false;
  if (far) fail(me, says(me) + " and shifts by " + std::to_string(argument) + " lanes, out of its warp");
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
  Warp& warp = warpOf(number);
  const uint32_t begin = number - laneOf(number), taking = t.mask & warp.present;
  if (taking & ~warp.waiting) return false;
  bool all = true;
  eachLane(taking, [&](uint32_t lane) {
    const EmuThread& other = threads_[begin + lane];
    all &= other.state == EmuState::InWarpOp && other.kind == t.kind && other.mask == t.mask &&
           sameLocation(other, t);
  });
  if (!all) return false;
  warp.waiting &= ~taking;
  const std::span<EmuThread> lanes = lanesOf(begin);
  if (const auto error = completeWarpOp({lanes, shared_.rangeOf(blockOf(number)), kernel_.checked}, taking)) {
    fail(begin + error->lane, error->text);
    return true;
  }
  if (t.kind == static_cast<int32_t>(EmuWarpOp::Sync) && orderLanes(lanes, taking) >= kMaxClock)
    fail(current_, kTooManyBarriers);
  eachLane(taking, [&](uint32_t lane) {
    if (begin + lane != current_) wake(begin + lane);
  });
  return true;
}

// --- memory ---

void EmuCluster::access(const void* p, uint64_t code, const char* location) {
  const EmuAccess a{p, static_cast<uint32_t>(code), 1u << (code >> 32 & 0xff),
                    static_cast<emu::AccessKind>(code >> 40), location};
  if (a.bytes == 0) return;
  if (running_->holds(p)) return failAccess(a, EmuChecks::own(a, me()));
  if (a.kind == emu::Update || a.kind == emu::VolatileRead) {
    looks_ = a.at == watched_ ? looks_ + 1 : 0;
    watched_ = a.at;
    if (looks_ > emu::kLooksAtOnce && (head_ < ready_.size() || next_ < threads_.size())) yield();
    if (failed()) return;
    if (looks_ > emu::kMaxLooks || yields_ > emu::kMaxLooks / emu::kLooksAtOnce)
      return failAccess(a, std::to_string(emu::kMaxLooks) +
                               " times at one location while no other thread can "
                               "run: the value that it waits for never changes");
  }
  std::string wrong;
  if (shared_.holds(p)) {
    const uint32_t block = shared_.blockOf(p);
    if (block != blockOf(current_)) wrong = useRemote(a, block);
    if (wrong.empty()) wrong = checks_.shared(a, actor());
  } else {
    wrong = checks_.global(a, actor());
  }
  failAccess(a, wrong);
  if (!failed() && a.kind != emu::Read && a.kind != emu::Write) fences_.publish(me(), a.at, a.kind);
}

// That block must have started, and must not have ended.
std::string EmuCluster::useRemote(const EmuAccess& a, uint32_t block) {
  Block& other = blocks_[block];
  const std::string which = "of shared memory of block " + emuTuple(other.index);
  if (clusterClock_ == 0) return which + " before a cluster barrier: that block may not have started";
  if (other.done == perBlock_) return which + ", which has ended";
  other.used = true, other.user = current_, other.userLocation = a.location;
  return "";
}

void* EmuCluster::mapShared(const void* p, uint32_t rank, int32_t line, const char* location) {
  const uint32_t block = blockOf(current_);
  if (rank >= numBlocks_)
    refuse(line, location,
           "rank " + std::to_string(rank) + " is out of range: the cluster has " +
               std::to_string(numBlocks_) + " blocks");
  else if (!shared_.holds(p) || shared_.blockOf(p) != block)
    refuse(line, location, "cannot map an address to another block: it is not in shared memory");
  return failed() ? nullptr : shared_.of(rank) + (static_cast<const uint8_t*>(p) - shared_.of(block));
}

void EmuCluster::enter(const void* frame, const char* location) {
  if (running_->roomBelow(frame) < kFrameRoom) failAt(location, "recurses too deep: the stack is exhausted");
}

void EmuCluster::fence(bool blocks) {
  if (!kernel_.checked || !blocks) return;
  fences_.fence(me(), actor());
  if (++me().clock >= kMaxClock) fail(current_, "more fences than the checks can count (2^21)");
}

// --- asynchronous copies ---

// Starts the copy: the source is read, and no thread may access the destination until this one has waited.
void EmuCluster::copyAsync(void* to, const void* from, int32_t bytes, const char* location) {
  const auto count = static_cast<uint32_t>(bytes);
  if (count > 16) return refuse(0, location, "a copy of 16 bytes reads " + std::to_string(bytes));
  auto* begin = static_cast<uint8_t*>(to);
  if (!shared_.holds(begin) || shared_.blockOf(begin) != blockOf(current_))
    return refuse(0, location, "an asynchronous copy to memory that is not the block's shared memory");
  if (running_->holds(from) || shared_.holds(from))
    return refuse(0, location, "an asynchronous copy from memory that is not global");
  if (kernel_.checked) {
    access(from, emu::accessCode(4, emu::Read) | count, location);
    if (!failed()) access(to, emu::accessCode(4, emu::Write) | 16, location);
    if (failed()) return;
    checks_.noteCopier(begin, current_ + 1, location);
  }
  EmuCopy& copy = me().copies.emplace_back();
  copy.to = begin, copy.location = location, copy.group = me().copyGroup;
  copy.from = static_cast<const uint8_t*>(from), copy.count = count;
  std::memcpy(copy.bytes.data(), from, count);
  std::memset(begin, 0xff, 16); // where nothing is checked, it is filled with NaN
}

void EmuCluster::copyWait(int32_t left) {
  EmuThread& thread = me();
  size_t done = 0;
  for (const EmuCopy& copy : thread.copies) {
    if (copy.group + static_cast<uint32_t>(left) >= thread.copyGroup) break;
    ++done;
    if (kernel_.checked) {
      checks_.noteCopier(copy.to, 0, copy.location);
      access(copy.to, emu::accessCode(4, emu::Write) | 16, copy.location); // by the thread, now
    }
    if (failed()) return;
    // The source may be read at any time until the thread has waited.
    if (std::memcmp(copy.from, copy.bytes.data(), copy.count) != 0)
      return refuse(0, copy.location, "the source has changed before the thread has waited for the copy");
    std::memcpy(copy.to, copy.bytes.data(), 16);
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<std::ptrdiff_t>(done));
}

} // namespace dtc
