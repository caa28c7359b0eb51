#include "EmuShadow.h"
#include <algorithm>
#include <bit>

namespace dtc {
namespace {

bool sameCluster(EmuStamp s, const EmuActor& a) { return s.cluster() == (a.cluster & 0xffffff); }

// The first thread of the block of thread `t` of a cluster.
uint32_t blockBegin(uint32_t t, const EmuActor& a) { return t - a.inBlock(t); }

// Did an access of thread `t` of the actor's own cluster at `clock` come before what the actor does now, by barriers?
bool byBarriers(uint32_t t, uint32_t clock, const EmuActor& a) {
  if (t == a.thread) return true;
  if (!a.ownBlock(t)) return clock < a.clusterClock;
  if (clock < a.blockClock) return true;
  if (a.warpClocks && clock < a.warpClocks[a.warpOf(t)]) return true;
  return a.laneClocks && a.warpOf(t) == a.warpOf(a.thread) && clock < a.laneClocks[a.laneOf(t)];
}

// Did an access of thread `t` of the cluster of `s` at the clock of `s` come before?
bool before(EmuStamp s, uint32_t t, const EmuActor& a) {
  if (sameCluster(s, a) && byBarriers(t, s.clock(), a)) return true;
  return a.known && a.known->has(s.cluster(), t, blockBegin(t, a), s.clock());
}

// The lanes of the readers' warp whose reads the actor is not ordered behind.
uint32_t openLanes(const EmuCell& cell, const EmuActor& a) {
  uint32_t open = 0;
  const uint32_t first = cell.reader.thread() - a.laneOf(cell.reader.thread());
  for (uint32_t rest = cell.readerLanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (!before(cell.reader, first + lane, a)) open |= 1u << lane;
  }
  return open;
}

// Did all that is known of the reads come before?
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

// Is `s` a plain access of the actor's since its last barrier? Then an atomic one behind it makes it no better.
bool plainJustNow(EmuStamp s, const EmuActor& a) {
  return s.any() && !s.has(EmuStamp::Atomic) && sameCluster(s, a) && s.thread() == a.thread &&
         s.clock() == a.clock;
}

void noteRead(EmuCell& cell, const EmuActor& a, bool atomic, int32_t place) {
  const EmuStamp old = cell.reader;
  if (old.bits == EmuStamp::of(a, atomic).bits) return; // once more what is noted
  atomic = atomic && !plainJustNow(old, a);
  const EmuStamp now = EmuStamp::of(a, atomic);
  const uint32_t lane = 1u << a.laneOf(a.thread);
  const bool first = !old.any() || readsBefore(cell, a);
  if (first || !sameCluster(old, a)) {
    cell.reader = {now.bits | (first ? 0 : uint64_t{EmuStamp::Foreign})};
    cell.readerLanes = lane, cell.readerPlace = place;
    return;
  }
  // Several readers: the first of them, the latest clock; atomic only if all are.
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

std::optional<EmuConflict> touch(EmuCell& cell, const EmuActor& a, emu::AccessKind kind, int32_t place) {
  // A volatile read may look at what atomics and volatile writes write, and these may come while others look. But of several
  // that write, only atomics do not get lost.
  const bool atomic = kind == emu::Update || kind == emu::VolatileRead;
  const bool strong = atomic || kind == emu::VolatileWrite;
  const bool writes = kind != emu::Read && kind != emu::VolatileRead;
  const EmuStamp w = cell.writer;
  if (w.any() && !(atomic && w.has(EmuStamp::Atomic)) && !before(w, w.thread(), a))
    return EmuConflict{w.thread(), w.cluster(), true, false, false, cell.writerPlace};
  if (!writes) {
    noteRead(cell, a, atomic, place);
    return std::nullopt;
  }
  const EmuStamp r = cell.reader;
  // Who comes behind the last atomic, by fences, comes behind all of them: each read what the one before it wrote.
  const bool lastOfAtomics = a.known && r.has(EmuStamp::Atomic) && w.has(EmuStamp::Atomic);
  if (!(strong && r.has(EmuStamp::Atomic)) && !lastOfAtomics && !readsBefore(cell, a)) {
    EmuConflict c{r.thread(), r.cluster(), false, false, r.has(EmuStamp::Foreign), cell.readerPlace};
    c.several = (r.bits & (EmuStamp::Warps | EmuStamp::Blocks | EmuStamp::Foreign)) != 0;
    if (!c.several && sameCluster(r, a))
      c.thread =
          r.thread() - a.laneOf(r.thread()) + static_cast<uint32_t>(std::countr_zero(openLanes(cell, a)));
    return c;
  }
  const bool stays = strong && plainJustNow(w, a);
  cell.writer = EmuStamp::of(a, strong && !stays);
  if (!stays) cell.writerPlace = place;
  return std::nullopt;
}

} // namespace dtc
