#pragma once
// Shadow memory of cuda-emu: of each granule (the smallest piece that a kernel accesses) who wrote it last and who has read it
// since, and when. Time is counted per thread, as in FastTrack (C. Flanagan and S. Freund, 2009): a barrier gives all that take
// part in it one clock, greater than any of theirs, so an access of another thread came before this one if its clock is below
// the last barrier that both were in.
#include "EmuSymbols.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

namespace dtc {

// What threads have published by a fence and an atomic or volatile write behind it, and what others know who have read that and
// then come to a fence or barrier: accesses up to a thread's clock, and those of a block or cluster below a barrier's.
class EmuKnown {
public:
  void add(const EmuKnown& other);
  void addThread(uint32_t cluster, uint32_t thread, uint32_t last) {
    raise(threads_[key(cluster, thread)], last + 1);
  }
  void addBlock(uint32_t cluster, uint32_t blockBegin, uint32_t clock) {
    raise(blocks_[key(cluster, blockBegin)], clock);
  }
  void addCluster(uint32_t cluster, uint32_t clock) { raise(clusters_[cluster & 0xffffff], clock); }
  [[nodiscard]] bool has(uint32_t cluster, uint32_t thread, uint32_t blockBegin, uint32_t clock) const;
  [[nodiscard]] bool hasBlock(uint32_t cluster, uint32_t blockBegin, uint32_t clock) const;
  [[nodiscard]] bool hasCluster(uint32_t cluster, uint32_t clock) const {
    return clock < find(clusters_, cluster & 0xffffff);
  }

private:
  using Clocks = std::unordered_map<uint64_t, uint32_t>; // what lies below came before
  static uint64_t key(uint32_t cluster, uint32_t thread) {
    return uint64_t{cluster & 0xffffff} << 16 | thread;
  }
  static void raise(uint32_t& clock, uint32_t to) { clock = clock < to ? to : clock; }
  static uint32_t find(const Clocks& clocks, uint64_t key) {
    const auto at = clocks.find(key);
    return at == clocks.end() ? 0 : at->second;
  }
  Clocks threads_, blocks_, clusters_;
};
using EmuKnowledge = std::shared_ptr<const EmuKnown>;
[[nodiscard]] EmuKnowledge both(const EmuKnowledge& a, const EmuKnowledge& b); // null: nothing

// A thread at the moment of an access.
struct EmuActor {
  uint32_t cluster = 0;                         // number within the launch
  uint32_t thread = 0;                          // number within the cluster
  uint32_t blockBegin = 0, threadsPerBlock = 1; // of its block: the first thread, and how many there are
  uint32_t clock = 1;
  uint32_t blockClock = 0, clusterClock = 0; // of the last barrier of its block, of its cluster
  const uint32_t* laneClocks =
      nullptr; // [lane] of its warp: accesses below came before this thread; null: none
  const uint32_t* warpClocks = nullptr; // [warp] of its block, likewise
  const EmuKnown* known = nullptr;      // by fences; null: nothing

  [[nodiscard]] bool ownBlock(uint32_t t) const { return t - blockBegin < threadsPerBlock; }
  // Within its block. (Every access asks: a division would be most of the cost.)
  [[nodiscard]] uint32_t inBlock(uint32_t t) const {
    return ownBlock(t) ? t - blockBegin : t % threadsPerBlock;
  }
  [[nodiscard]] uint32_t warpOf(uint32_t t) const { return inBlock(t) / 32; }
  [[nodiscard]] uint32_t laneOf(uint32_t t) const { return inBlock(t) % 32; }
};

inline constexpr uint32_t kMostClock = (1u << 21) - 1;

// An access packed in 64 bits; 0: none.
struct EmuStamp {
  enum Flag : uint64_t { Present = 1, Atomic = 2, Warps = 4, Blocks = 8, Foreign = 16 };
  uint64_t bits = 0;

  static EmuStamp of(const EmuActor& a, bool atomic) {
    return {Present | (atomic ? uint64_t{Atomic} : 0) | uint64_t{a.thread} << 5 | uint64_t{a.clock} << 19 |
            uint64_t{a.cluster & 0xffffff} << 40};
  }
  [[nodiscard]] bool any() const { return bits != 0; }
  [[nodiscard]] bool has(Flag f) const { return (bits & f) != 0; }
  [[nodiscard]] uint32_t thread() const { return static_cast<uint32_t>(bits >> 5) & 0x3fff; }
  [[nodiscard]] uint32_t clock() const { return static_cast<uint32_t>(bits >> 19) & kMostClock; }
  [[nodiscard]] uint32_t cluster() const { return static_cast<uint32_t>(bits >> 40); }
};

struct EmuCell {
  EmuStamp writer;
  // One reader; or several (Warps: of several warps of a block, Blocks: of several blocks of a cluster, Foreign: of several
  // clusters), with the latest of their clocks.
  EmuStamp reader;
  uint32_t readerLanes = 0;                 // within one warp: which of its lanes
  int32_t writerPlace = 0, readerPlace = 0; // where in the source, as the emulator numbers places
  uint32_t tag = 0;                         // shared memory: the run of a cluster that the rest is about
  uint32_t copier = 0;     // 1 + the thread whose asynchronous copy is under way here; 0: none is
  int32_t copierPlace = 0; // where it was started
};

// An access that an earlier one is not ordered with.
struct EmuConflict {
  uint32_t thread = 0, cluster = 0; // whose it was (the cluster's number modulo 2^24)
  bool wrote = false;               // the earlier one did; else it read
  bool several = false;             // several threads read: `thread` is any of them, perhaps the actor
  bool foreign = false;             // of them some of another cluster
  int32_t place = 0;
};

// Looks whether `actor` may do this now, and if so notes that it did.
[[nodiscard]] std::optional<EmuConflict> touch(EmuCell& cell, const EmuActor& actor, emu::AccessKind kind,
                                               int32_t place);

} // namespace dtc
