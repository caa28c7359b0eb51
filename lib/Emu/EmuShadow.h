#pragma once
// Shadow memory of cuda-emu: for each granule (the smallest unit that a kernel accesses) its last writer and
// its readers since, with times. Time is counted per thread, as in FastTrack (C. Flanagan and S. Freund,
// 2009): a barrier gives all participants one clock, greater than any of theirs, so an access of another
// thread is ordered before this one if its clock is below the last barrier that both took part in.
#include "dtc/Jit/EmuSymbols.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

namespace dtc {

// The knowledge that threads publish by a fence followed by an atomic or volatile write, and that readers
// acquire at a later fence or barrier: accesses up to a thread's clock, and those of a block or cluster below
// a barrier's.
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
  using Clocks = std::unordered_map<uint64_t, uint32_t>; // accesses below are ordered before
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
[[nodiscard]] EmuKnowledge both(const EmuKnowledge& a, const EmuKnowledge& b); // null: none

// The state of a thread at an access.
struct EmuActor {
  uint32_t cluster = 0;                         // number within the launch
  uint32_t thread = 0;                          // number within the cluster
  uint32_t blockBegin = 0, threadsPerBlock = 1; // of its block: the first thread, and their number
  uint32_t clock = 1;
  uint32_t blockClock = 0, clusterClock = 0; // of the last barrier of its block, of its cluster
  const uint32_t* laneClocks =
      nullptr; // [lane] of its warp: accesses below are ordered before this thread; null: none
  const uint32_t* warpClocks = nullptr; // [warp] of its block, likewise
  const EmuKnown* known = nullptr;      // by fences; null: nothing

  [[nodiscard]] bool ownBlock(uint32_t t) const { return t - blockBegin < threadsPerBlock; }
  // Within its block. (On the path of every access: a division would dominate its cost.)
  [[nodiscard]] uint32_t inBlock(uint32_t t) const {
    return ownBlock(t) ? t - blockBegin : t % threadsPerBlock;
  }
  [[nodiscard]] uint32_t warpOf(uint32_t t) const { return inBlock(t) / 32; }
  [[nodiscard]] uint32_t laneOf(uint32_t t) const { return inBlock(t) % 32; }
};

inline constexpr uint32_t kMaxClock = (1u << 21) - 1;

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
  [[nodiscard]] uint32_t clock() const { return static_cast<uint32_t>(bits >> 19) & kMaxClock; }
  [[nodiscard]] uint32_t cluster() const { return static_cast<uint32_t>(bits >> 40); }
};

struct EmuCell {
  EmuStamp writer;
  // One reader; or several (Warps: of several warps of a block, Blocks: of several blocks of a cluster,
  // Foreign: of several clusters), with the latest of their clocks.
  EmuStamp reader;
  uint32_t readerLanes = 0;                       // within one warp: the set of its lanes
  int32_t writerLocation = 0, readerLocation = 0; // the source location, by the emulator's numbering
  uint32_t tag = 0;                               // shared memory: the cluster run to which the rest belongs
  uint32_t copier = 0;        // 1 + the thread whose asynchronous copy is in flight here; 0: none
  int32_t copierLocation = 0; // where it was started
};

// An earlier access that is not ordered with the current one.
struct EmuConflict {
  uint32_t thread = 0, cluster = 0; // of that access (the cluster's number modulo 2^24)
  bool wrote = false;               // it was a write; else a read
  bool several = false;             // several threads read: `thread` is one of them, possibly the actor
  bool foreign = false;             // of them some of another cluster
  int32_t location = 0;
};

// Checks whether `actor` may make this access now, and if so records it.
[[nodiscard]] std::optional<EmuConflict> touch(EmuCell& cell, const EmuActor& actor, emu::AccessKind kind,
                                               int32_t location);

} // namespace dtc
