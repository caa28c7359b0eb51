#include "EmuFences.h"

namespace dtc {

void EmuFences::fence(EmuThread& thread, const EmuActor& me) {
  any_ = true;
  thread.known = both(thread.known, thread.seen);
  thread.seen.reset();
  auto mine = thread.known ? std::make_shared<EmuKnown>(*thread.known) : std::make_shared<EmuKnown>();
  mine->addThread(me.cluster, me.thread, me.clock);
  mine->addBlock(me.cluster, me.blockBegin, me.blockClock);
  mine->addCluster(me.cluster, me.clusterClock);
  const uint32_t warp = me.thread - me.laneOf(me.thread);
  for (uint32_t lane = 0; lane < 32 && me.laneClocks; ++lane)
    if (me.laneClocks[lane]) mine->addThread(me.cluster, warp + lane, me.laneClocks[lane] - 1);
  thread.released = std::move(mine);
}

void EmuFences::publish(EmuThread& thread, const void* at, emu::AccessKind kind) {
  const bool reads = kind == emu::Update || kind == emu::VolatileRead;
  if (reads && !published_.empty())
    if (const auto there = published_.find(at); there != published_.end())
      thread.seen = both(thread.seen, there->second);
  if (kind == emu::VolatileRead || (!thread.released && published_.empty())) return;
  EmuKnowledge& there = published_[at];
  // An update reads the value that it replaces.
  there = kind == emu::Update ? both(there, thread.released) : thread.released;
}

void EmuFences::share(std::span<EmuThread> threads) const {
  if (!any_) return; // the common case: called at every barrier
  EmuKnowledge all, released;
  for (const EmuThread& t : threads) {
    all = both(all, both(t.known, t.seen));
    released = both(released, t.released);
  }
  if (!all && !released) return;
  for (EmuThread& t : threads) {
    t.known = all, t.seen.reset();
    t.released = released; // all have fenced their accesses: any may publish them
  }
}

} // namespace dtc
