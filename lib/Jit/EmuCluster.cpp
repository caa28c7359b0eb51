#include "EmuCluster.h"
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace dtc {

std::string emuTuple(const Dim3& d) {
  return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

void EmuWorkspace::FreeAligned::operator()(void* p) const { std::free(p); }

static uint32_t volume(const Dim3& d) { return d.x * d.y * d.z; }

EmuCluster::EmuCluster(EmuWorkspace& workspace, const EmuKernel& kernel, const EmuLaunch& launch,
                       void* const* args, EmuGlobal* global, bool reversed)
    : workspace_(workspace), kernel_(kernel), launch_(launch), args_(args), global_(global),
      reversed_(reversed), perBlock_(volume(launch.block)), numBlocks_(volume(kernel.cluster)),
      warpsPerBlock_((perBlock_ + 31) / 32), sharedSize_(kernel.sharedSpan + launch.sharedBytes),
      granuleShift_(static_cast<unsigned>(std::countr_zero(kernel.granule))),
      sharedCells_((sharedSize_ >> granuleShift_) + 1), threads_(workspace.threads), blocks_(numBlocks_),
      warps_(size_t{numBlocks_} * warpsPerBlock_) {
  threads_.clear();
  threads_.resize(size_t{numBlocks_} * perBlock_);
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    EmuThreadView& view = threads_[i].view;
    const uint32_t t = i % perBlock_;
    view.thread = {t % launch.block.x, t / launch.block.x % launch.block.y,
                   t / launch.block.x / launch.block.y};
    view.blockSize = launch.block;
    view.gridSize = launch.grid;
    view.clusterRank = i / perBlock_;
    view.clusterSize = numBlocks_;
  }
  ready_.reserve(threads_.size());
  const size_t stride = 2 * kSharedAlign + (sharedSize_ + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
  if (workspace_.sharedBytes < stride * numBlocks_ || !workspace_.shared) {
    workspace_.sharedBytes = stride * numBlocks_;
    workspace_.shared.reset(static_cast<uint8_t*>(std::aligned_alloc(kSharedAlign, workspace_.sharedBytes)));
    if (!workspace_.shared) return;
  }
  if (kernel.checked && sharedSize_) {
    const size_t cells = sharedCells_ * numBlocks_;
    if (workspace_.sharedCells.size() < cells) workspace_.sharedCells.resize(cells);
  }
  stride_ = stride;
}

uint64_t EmuCluster::clusters() const {
  return uint64_t{launch_.grid.x} * launch_.grid.y * launch_.grid.z / numBlocks_;
}

// Clusters and the blocks within each are counted as blocks of a grid are, x fastest.
Dim3 EmuCluster::blockIndex(uint64_t cluster, uint32_t rank) const {
  const Dim3 c = kernel_.cluster;
  const uint64_t wide = launch_.grid.x / c.x, high = launch_.grid.y / c.y;
  return {static_cast<uint32_t>(cluster % wide) * c.x + rank % c.x,
          static_cast<uint32_t>(cluster / wide % high) * c.y + rank / c.x % c.y,
          static_cast<uint32_t>(cluster / wide / high) * c.z + rank / c.x / c.y};
}

void EmuCluster::begin(uint32_t number) {
  number_ = number;
  for (uint32_t b = 0; b < numBlocks_; ++b) {
    blocks_[b] = {};
    blocks_[b].index = blockIndex(number, b);
    // Shared memory begins undefined: where that is not checked, NaN shows.
    if (sharedSize_) std::memset(sharedOf(b), 0xff, sharedSize_);
  }
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    EmuThread& thread = threads_[i];
    thread.state = EmuState::New;
    thread.view.block = blocks_[i / perBlock_].index;
    thread.clock = 1, thread.blockClock = 0, thread.mask = 0;
    thread.laneClocks.reset(), thread.warpClocks.reset();
    thread.copies.clear(), thread.copyGroup = 0;
    thread.own = nullptr, thread.leaves = false;
    if (fenced_) thread.known.reset(), thread.seen.reset(), thread.released.reset();
  }
  ready_.clear();
  head_ = next_ = done_ = atCluster_ = clusterClock_ = yields_ = 0;
  ++workspace_.tag;
  for (Warp& warp : warps_) warp = {};
  for (uint32_t i = 0; i < threads_.size(); ++i) warpOf(i).present |= 1u << laneOf(i);
  error_.clear();
}

std::string EmuCluster::run(uint32_t number) {
  begin(number);
  // What an abandoned cluster left on its stacks is simply forgotten: generated code holds nothing.
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
  std::abort(); // a fibre whose threads are done is not switched to
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

// Leaves the running fibre for the next that can run: a thread that was woken, else one that has not begun, else the
// launch itself, because the cluster is done or stuck.
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

void EmuCluster::fail(uint32_t thread, const std::string& text) {
  if (failed()) return;
  error_ = "block " + emuTuple(blocks_[thread / perBlock_].index) + ": " + text;
}

void EmuCluster::abandon() {
  leave();
  std::abort();
}

void EmuCluster::threadDone() {
  if (!threads_[current_].copies.empty())
    return fail(current_, "thread " + emuTuple(threads_[current_].view.thread) +
                              " ends while its asynchronous copy of line " +
                              lineOf(0, threads_[current_].copies.front().place) +
                              " is under way: it has not waited for it");
  threads_[current_].state = EmuState::Done;
  ++done_;
  Block& block = blocks_[blockOf(current_)];
  if (++block.done == perBlock_ && block.used) {
    fail(block.user, "thread " + emuTuple(threads_[block.user].view.thread) + " at line " + block.userPlace +
                         " uses shared memory of block " + emuTuple(block.index) +
                         ", which ends without a cluster barrier after that");
    return;
  }
  Warp& warp = warpOf(current_);
  warp.present &= ~(1u << laneOf(current_));
  // Masks count no threads that have returned: what the others wait in may be complete now.
  for (uint32_t rest = warp.waiting; rest; rest &= rest - 1) {
    const uint32_t other = current_ - laneOf(current_) + static_cast<uint32_t>(__builtin_ctz(rest));
    if (threads_[other].state == EmuState::InWarpOp) tryWarpOp(other);
  }
  tryReleaseCluster();
}

std::string EmuCluster::lineOf(int32_t line, const char* place) const {
  return place ? std::string(place) : std::to_string(line);
}

} // namespace dtc
