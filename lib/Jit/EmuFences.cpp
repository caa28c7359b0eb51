// Fences of cuda-emu: who has read what another published knows what that one had done before its fence (PTX ISA, "Release
// and acquire patterns"). A block's barrier takes the place of the reader's fence, as CUDA's own example has it.
#include "EmuCluster.h"

namespace dtc {

void EmuKnown::add(const EmuKnown& other) {
  for (const auto& [key, clock] : other.threads_) raise(threads_[key], clock);
  for (const auto& [key, clock] : other.blocks_) raise(blocks_[key], clock);
  for (const auto& [key, clock] : other.clusters_) raise(clusters_[key], clock);
}

bool EmuKnown::hasBlock(uint32_t cluster, uint32_t blockBegin, uint32_t clock) const {
  return hasCluster(cluster, clock) || clock < find(blocks_, key(cluster, blockBegin));
}

bool EmuKnown::has(uint32_t cluster, uint32_t thread, uint32_t blockBegin, uint32_t clock) const {
  return clock < find(threads_, key(cluster, thread)) || hasBlock(cluster, blockBegin, clock);
}

EmuKnowledge both(const EmuKnowledge& a, const EmuKnowledge& b) {
  if (!a || !b || a == b) return a ? a : b;
  auto sum = std::make_shared<EmuKnown>(*a);
  sum->add(*b);
  return sum;
}

void EmuCluster::fence(bool blocks) {
  if (!kernel_.checked || !blocks) return;
  fenced_ = true;
  EmuThread& thread = threads_[current_];
  const uint32_t begin = blockOf(current_) * perBlock_;
  thread.known = both(thread.known, thread.seen);
  thread.seen.reset();
  auto mine = thread.known ? std::make_shared<EmuKnown>(*thread.known) : std::make_shared<EmuKnown>();
  mine->addThread(number_, current_, thread.clock);
  mine->addBlock(number_, begin, thread.blockClock);
  mine->addCluster(number_, clusterClock_);
  const uint32_t warp = current_ - laneOf(current_);
  for (uint32_t lane = 0; lane < 32 && thread.laneClocks; ++lane)
    if ((*thread.laneClocks)[lane]) mine->addThread(number_, warp + lane, (*thread.laneClocks)[lane] - 1);
  thread.released = std::move(mine);
  if (++thread.clock >= kMostClock) fail(current_, "more fences than the checks can count (2^21)");
}

// Behind an atomic or volatile access.
void EmuCluster::publish(const void* at, emu::AccessKind kind) {
  EmuThread& thread = threads_[current_];
  const bool reads = kind == emu::Update || kind == emu::VolatileRead;
  if (reads && !published_.empty())
    if (const auto there = published_.find(at); there != published_.end())
      thread.seen = both(thread.seen, there->second);
  if (kind == emu::VolatileRead || (!thread.released && published_.empty())) return;
  EmuKnowledge& there = published_[at];
  there =
      kind == emu::Update ? both(there, thread.released) : thread.released; // an update keeps what it found
}

// At a barrier of all these threads: what one knows, all do.
void EmuCluster::shareKnowledge(uint32_t begin, uint32_t end) {
  if (!fenced_) return; // mostly: every barrier asks
  EmuKnowledge all, released;
  for (uint32_t i = begin; i < end; ++i) {
    all = both(all, both(threads_[i].known, threads_[i].seen));
    released = both(released, threads_[i].released);
  }
  if (!all && !released) return;
  for (uint32_t i = begin; i < end; ++i) {
    threads_[i].known = all, threads_[i].seen.reset();
    threads_[i].released = released; // all have fenced what they did: any may publish it
  }
}

// Lets the others go on, where a thread looks again and again at what one of them may yet change.
void EmuCluster::yield() {
  EmuThread& thread = threads_[current_];
  thread.state = EmuState::Ready;
  thread.fibre = running_;
  ready_.push_back(current_);
  ++yields_;
  leave(next_ < threads_.size());
  thread.state = EmuState::Running;
}

} // namespace dtc
