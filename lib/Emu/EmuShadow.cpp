#include "EmuShadow.h"
#include <algorithm>
#include <bit>

namespace dtc {
namespace {

bool sameCluster(EmuStamp s, const EmuActor& a) { return s.cluster() == (a.cluster & 0xffffff); }

// The first thread of the block of thread `t` of a cluster.
uint32_t blockBegin(uint32_t t, const EmuActor& a) { return t - a.inBlock(t); }

// True if an access of thread `t` of the actor's own cluster at `clock` is ordered before the actor's access
// by barriers.
bool byBarriers(uint32_t t, uint32_t clock, const EmuActor& a) {
  if (t == a.thread) return true;
  if (!a.ownBlock(t)) return clock < a.clusterClock;
  if (clock < a.blockClock) return true;
  if (a.warpClocks && clock < a.warpClocks[a.warpOf(t)]) return true;
  return a.laneClocks && a.warpOf(t) == a.warpOf(a.thread) && clock < a.laneClocks[a.laneOf(t)];
}

// True if an access of thread `t` of the cluster of `s` at the clock of `s` is ordered before.
bool before(EmuStamp s, uint32_t t, const EmuActor& a) {
  if (sameCluster(s, a) && byBarriers(t, s.clock(), a)) return true;
  return a.known && a.known->has(s.cluster(), t, blockBegin(t, a), s.clock());
}

// The lanes of the readers' warp whose reads are not ordered before the actor.
uint32_t openLanes(const EmuCell& cell, const EmuActor& a) {
  uint32_t open = 0;
  const uint32_t first = cell.reader.thread() - a.laneOf(cell.reader.thread());
  for (uint32_t rest = cell.readerLanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (!before(cell.reader, first + lane, a)) open |= 1u << lane;
  }
  return open;
}

// True if all recorded reads are ordered before.
bool readsBefore(const EmuCell& cell, const EmuActor& a) {
  const EmuStamp r = cell.reader;
  if (!r.any()) return true;
  if (r.has(EmuStamp::Foreign)) return false;
  const bool own = sameCluster(r, a);
  if (r.has(EmuStamp::Blocks))
    return (own && r.clock() < a.clusterClock) || (a.known && a.known->hasCluster(r.cluster(), r.clock()));
  if (r.has(EmuStamp::Warps))
    return (own && r.clock() < (a.ownBlock(r.thread()) ? a.blockClock : a.clusterClock)) ||
           (a.known && a.known->hasBlock(r.cluster(), blockBegin(r.thread(), a), r.clock()));
  return openLanes(cell, a) == 0;
}

// True if `s` is a plain access by the actor since its last barrier. A later atomic one then does not weaken
// it.
bool plainJustNow(EmuStamp s, const EmuActor& a) {
  return s.any() && !s.has(EmuStamp::Atomic) && sameCluster(s, a) && s.thread() == a.thread &&
         s.clock() == a.clock;
}

void noteRead(EmuCell& cell, const EmuActor& a, bool atomic, int32_t location) {
  const EmuStamp old = cell.reader;
  if (old.bits == EmuStamp::of(a, atomic).bits) return; // records the access once more
  atomic = atomic && !plainJustNow(old, a);
  const EmuStamp now = EmuStamp::of(a, atomic);
  const uint32_t lane = 1u << a.laneOf(a.thread);
  const bool first = !old.any() || readsBefore(cell, a);
  if (first || !sameCluster(old, a)) {
    cell.reader = {now.bits | (first ? 0 : uint64_t{EmuStamp::Foreign})};
    cell.readerLanes = lane, cell.readerLocation = location;
    return;
  }
  // Several readers: the first one's number, the latest clock; atomic only if all are.
  EmuActor latest = a;
  latest.thread = old.thread();
  latest.clock = std::max(a.clock, old.clock());
  const uint64_t kept = old.bits & (EmuStamp::Warps | EmuStamp::Blocks | EmuStamp::Foreign);
  uint64_t spread = 0;
  if (!a.ownBlock(old.thread()))
    spread = EmuStamp::Blocks;
  else if (a.warpOf(old.thread()) != a.warpOf(a.thread))
    spread = EmuStamp::Warps;
  else if (!(kept & (EmuStamp::Warps | EmuStamp::Blocks)))
    cell.readerLanes = openLanes(cell, a) | lane;
  cell.reader = {EmuStamp::of(latest, atomic && old.has(EmuStamp::Atomic)).bits | kept | spread};
}

} // namespace

std::optional<EmuConflict> touch(EmuCell& cell, const EmuActor& a, emu::AccessKind kind, int32_t location) {
  // A volatile read may observe concurrent atomic and volatile writes, and these may happen during reads. But
  // of several writes, only atomic ones are not lost.
  const bool atomic = kind == emu::Update || kind == emu::VolatileRead;
  const bool strong = atomic || kind == emu::VolatileWrite;
  const bool writes = kind != emu::Read && kind != emu::VolatileRead;
  const EmuStamp w = cell.writer;
  if (w.any() && !(atomic && w.has(EmuStamp::Atomic)) && !before(w, w.thread(), a))
    return EmuConflict{w.thread(), w.cluster(), true, false, false, cell.writerLocation};
  if (!writes) {
    noteRead(cell, a, atomic, location);
    return std::nullopt;
  }
  const EmuStamp r = cell.reader;
  // A thread ordered after the last atomic by fences is ordered after all of them: each read the previous
  // one's value.
  const bool lastOfAtomics = a.known && r.has(EmuStamp::Atomic) && w.has(EmuStamp::Atomic);
  if (!(strong && r.has(EmuStamp::Atomic)) && !lastOfAtomics && !readsBefore(cell, a)) {
    EmuConflict c{r.thread(), r.cluster(), false, false, r.has(EmuStamp::Foreign), cell.readerLocation};
    c.several = (r.bits & (EmuStamp::Warps | EmuStamp::Blocks | EmuStamp::Foreign)) != 0;
    if (!c.several && sameCluster(r, a))
      c.thread =
          r.thread() - a.laneOf(r.thread()) + static_cast<uint32_t>(std::countr_zero(openLanes(cell, a)));
    return c;
  }
  const bool stays = strong && plainJustNow(w, a);
  cell.writer = EmuStamp::of(a, strong && !stays);
  if (!stays) cell.writerLocation = location;
  return std::nullopt;
}

// --- knowledge published by fences ---

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

} // namespace dtc
