#include "EmuBlock.h"
#include <algorithm>
#include <bit>
#include <cstdlib>

namespace dtc {
namespace {

std::string tuple(const Dim3& d) {
  return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

const char* opName(int32_t op) {
  constexpr const char* names[] = {"__syncwarp",      "__shfl_sync",   "__shfl_up_sync", "__shfl_down_sync",
                                   "__shfl_xor_sync", "__ballot_sync", "__any_sync",     "__all_sync"};
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

} // namespace

void EmuWorkspace::FreeAligned::operator()(void* p) const { std::free(p); }

EmuBlock::EmuBlock(EmuWorkspace& workspace, Kernel* kernel, void* const* args, Dim3 grid, Dim3 block)
    : workspace_(workspace), kernel_(kernel), args_(args), threads_(workspace.threads) {
  threads_.assign(size_t{block.x} * block.y * block.z, {});
  for (size_t i = 0; i < threads_.size(); ++i) {
    EmuThreadView& view = threads_[i].view;
    view.thread = {static_cast<uint32_t>(i % block.x), static_cast<uint32_t>(i / block.x % block.y),
                   static_cast<uint32_t>(i / block.x / block.y)};
    view.blockSize = block;
    view.gridSize = grid;
  }
  ready_.reserve(threads_.size());
}

std::string EmuBlock::run(Dim3 index) {
  for (EmuThread& thread : threads_) thread.state = EmuState::New, thread.view.block = index;
  ready_.clear();
  head_ = next_ = done_ = atBarrier_ = 0;
  for (Warp& warp : warps_) warp = {};
  for (uint32_t i = 0; i < threads_.size(); ++i) warps_[i / 32].present |= 1u << (i & 31);
  error_.clear();
  // What an abandoned block left on its stacks is simply forgotten: generated code holds nothing.
  workspace_.idle.clear();
  for (auto& fibre : workspace_.fibres) workspace_.idle.push_back(fibre.get());
  running_ = &main_;
  leave();
  return error_;
}

Fibre* EmuBlock::newFibre() {
  if (workspace_.idle.empty()) {
    auto fibre = std::make_unique<Fibre>(workspace_.fibres.size());
    if (!fibre->ok()) return nullptr;
    workspace_.fibres.push_back(std::move(fibre));
    workspace_.idle.push_back(workspace_.fibres.back().get());
  }
  Fibre* fibre = workspace_.idle.back();
  workspace_.idle.pop_back();
  fibre->start(&EmuBlock::fibreEntry, this);
  return fibre;
}

void EmuBlock::fibreEntry(void* block) {
  static_cast<EmuBlock*>(block)->runThreads();
  std::abort(); // a fibre whose threads are done is not switched to
}

void EmuBlock::runThreads() {
  while (next_ < threads_.size()) {
    current_ = next_++;
    threads_[current_].state = EmuState::Running;
    kernel_(args_);
    threadDone();
  }
  leave();
}

// Leaves the running fibre for the next that can run: a thread that was woken, else one that has not begun, else the
// launch itself, because the block is done or stuck.
void EmuBlock::leave() {
  Fibre* to = &main_;
  if (!error_.empty()) {
  } else if (head_ < ready_.size()) {
    current_ = ready_[head_++];
    if (head_ == ready_.size()) ready_.clear(), head_ = 0;
    threads_[current_].state = EmuState::Running;
    to = threads_[current_].fibre;
  } else if (next_ < threads_.size()) {
    to = newFibre();
    if (!to) to = &main_, error_ = "no memory for the stack of a thread";
  } else if (done_ < threads_.size()) {
    error_ = describeDeadlock();
  }
  Fibre* from = running_;
  running_ = to;
  if (from != to) switchFibre(*from, *to);
}

void EmuBlock::wait(EmuState state) {
  threads_[current_].state = state;
  threads_[current_].fibre = running_;
  leave();
}

void EmuBlock::abandon() {
  leave();
  std::abort();
}

void EmuBlock::threadDone() {
  threads_[current_].state = EmuState::Done;
  ++done_;
  Warp& warp = warps_[current_ / 32];
  warp.present &= ~(1u << (current_ & 31));
  // Masks count no threads that have returned: what the others wait in may be complete now.
  for (uint32_t rest = warp.waiting; rest; rest &= rest - 1) {
    const uint32_t other = (current_ & ~31u) + static_cast<uint32_t>(std::countr_zero(rest));
    if (threads_[other].state == EmuState::InWarpOp) tryWarpOp(other);
  }
}

int32_t EmuBlock::barrier(EmuBarrier kind, int32_t value, int32_t line) {
  const uint32_t me = current_;
  EmuThread& thread = threads_[me];
  thread.kind = static_cast<int32_t>(kind), thread.value = static_cast<uint64_t>(value), thread.line = line;
  if (++atBarrier_ == threads_.size()) {
    thread.state = EmuState::AtBarrier;
    releaseBarrier();
    thread.state = EmuState::Running;
  } else {
    wait(EmuState::AtBarrier);
  }
  return static_cast<int32_t>(thread.result);
}

void EmuBlock::releaseBarrier() {
  const EmuThread& first = threads_[0];
  uint64_t count = 0;
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].line != first.line || threads_[i].kind != first.kind) {
      error_ = "not all threads are at the same barrier: " + describe(0) + ", but " + describe(i);
      abandon();
    }
    count += threads_[i].value;
  }
  const auto kind = static_cast<EmuBarrier>(first.kind);
  const uint64_t result = kind == EmuBarrier::And  ? count == threads_.size()
                          : kind == EmuBarrier::Or ? count != 0
                                                   : count;
  atBarrier_ = 0;
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    threads_[i].result = result;
    if (i == current_) continue;
    threads_[i].state = EmuState::Ready;
    ready_.push_back(i);
  }
}

uint64_t EmuBlock::warp(EmuWarpOp op, uint32_t mask, uint64_t value, int32_t argument, int32_t width,
                        int32_t line) {
  const uint32_t me = current_;
  EmuThread& thread = threads_[me];
  thread.kind = static_cast<int32_t>(op), thread.line = line, thread.argument = argument,
  thread.width = width;
  thread.mask = mask, thread.value = value;
  if (!(mask >> (me & 31) & 1)) {
    error_ = describe(me) + ", which does not name the thread itself";
    abandon();
  }
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<uint32_t>(width))) {
    error_ = describe(me) + " and width " + std::to_string(width) + ", which is no power of two up to 32";
    abandon();
  }
  thread.state = EmuState::InWarpOp;
  warps_[me / 32].waiting |= 1u << (me & 31);
  if (tryWarpOp(me))
    thread.state = EmuState::Running;
  else
    wait(EmuState::InWarpOp);
  return thread.result;
}

bool EmuBlock::tryWarpOp(uint32_t number) {
  const EmuThread& t = threads_[number];
  const uint32_t begin = number & ~31u, lanes = t.mask & warps_[number / 32].present;
  if (lanes & ~warps_[number / 32].waiting) return false;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const EmuThread& other = threads_[begin + static_cast<uint32_t>(std::countr_zero(rest))];
    if (other.state != EmuState::InWarpOp || other.kind != t.kind || other.mask != t.mask ||
        other.line != t.line)
      return false;
  }
  finishWarpOp(begin, lanes);
  return true;
}

void EmuBlock::finishWarpOp(uint32_t begin, uint32_t lanes) {
  warps_[begin / 32].waiting &= ~lanes;
  uint32_t votes = 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (threads_[begin + lane].value) votes |= 1u << lane;
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    EmuThread& thread = threads_[begin + static_cast<uint32_t>(lane)];
    switch (static_cast<EmuWarpOp>(thread.kind)) {
    case EmuWarpOp::Sync: break;
    case EmuWarpOp::Ballot: thread.result = votes; break;
    case EmuWarpOp::Any: thread.result = votes != 0; break;
    case EmuWarpOp::All: thread.result = votes == lanes; break;
    default: {
      const int source = sourceLane(thread, lane);
      // What a lane outside of the mask would give is undefined: all ones is NaN, or -1, and shows.
      thread.result = source < 0              ? thread.value
                      : (lanes >> source) & 1 ? threads_[begin + static_cast<uint32_t>(source)].value
                                              : ~uint64_t{0};
    }
    }
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const uint32_t i = begin + static_cast<uint32_t>(std::countr_zero(rest));
    if (i == current_) continue; // it goes on by itself
    threads_[i].state = EmuState::Ready;
    ready_.push_back(i);
  }
}

std::string EmuBlock::describe(uint32_t number) const {
  const EmuThread& t = threads_[number];
  const std::string who = "thread " + tuple(t.view.thread);
  if (t.state == EmuState::Done) return who + " has returned";
  if (t.state == EmuState::AtBarrier) return who + " waits at the barrier of line " + std::to_string(t.line);
  return who + " is in " + opName(t.kind) + " of line " + std::to_string(t.line) + " with mask " +
         hex(t.mask);
}

std::string EmuBlock::describeDeadlock() const {
  uint32_t waiting = 0;
  while (waiting < threads_.size() && threads_[waiting].state != EmuState::AtBarrier) ++waiting;
  if (waiting < threads_.size()) {
    uint32_t other = 0;
    while (threads_[other].state == EmuState::AtBarrier) ++other;
    return "a barrier that not all threads of the block reach: " + describe(waiting) + ", but " +
           describe(other);
  }
  waiting = 0;
  while (threads_[waiting].state != EmuState::InWarpOp) ++waiting;
  const EmuThread& t = threads_[waiting];
  const uint32_t begin = waiting & ~31u;
  uint32_t other = begin;
  for (uint32_t rest = t.mask & warps_[waiting / 32].present; rest; rest &= rest - 1) {
    other = begin + static_cast<uint32_t>(std::countr_zero(rest));
    if (threads_[other].kind != t.kind || threads_[other].mask != t.mask || threads_[other].line != t.line)
      break;
  }
  return "a warp operation that not all lanes of its mask reach: " + describe(waiting) + ", but " +
         describe(other);
}

} // namespace dtc
