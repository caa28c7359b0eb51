#pragma once
// What cuda-emu's compiled code and its host agree on: names, and how an access is told (lib/Jit/Clang/CheckAccesses.cpp writes
// it, EmuCluster reads it).
#include <cstdint>

namespace dtc::emu {

inline constexpr const char* kSelf = "__emu_self";
inline constexpr const char* kShared = "__emu_shared";
inline constexpr const char* kAccess = "__emu_access"; // (pointer, access code | bytes, place)
inline constexpr const char* kFault = "__emu_fault";   // (fault, what it is about, place)
inline constexpr const char* kLeaves = "__emu_leaves"; // (): at each `return` of a kernel
inline constexpr const char* kOwn =
    "__emu_own"; // (OwnVariable[], count): what a thread may point at of its own
inline constexpr const char* kEnter =
    "__emu_enter"; // (frame, place): a function that is called anew by itself
inline constexpr const char* kCallPrefix = "__emu_call_";
inline constexpr const char* kArityPrefix = "__emu_arity_"; // u64: how many parameters a kernel has
// Functions whose last argument is the place of the call, null where it is not told.
inline constexpr const char* kPlaced[] = {"__emu_barrier",  "__emu_named_barrier", "__emu_cluster_barrier",
                                          "__emu_warp",     "__emu_map_shared",    "__emu_copy_async",
                                          "__emu_copy_wait"};

// Objects that a unit defines.
inline constexpr const char* kSharedBytes = "__emu_shared_bytes"; // u64: what the variables take
inline constexpr const char* kSharedSpan = "__emu_shared_span";   // u64: where dynamic shared memory begins
inline constexpr const char* kSharedMap = "__emu_shared_map"; // text: "name offset bytes\n" of each variable
inline constexpr const char* kGranule = "__emu_granule";      // u64, with checks: no access is smaller
inline constexpr const char* kLocalBytes =
    "__emu_local_bytes"; // u64: what a thread's own variables take at most

// What compiled code finds wrong itself, with a number: LocalBounds, how many bytes from the begin of a thread's own variable.
// ArrayBounds: an element's number. Overflow, Division, EndlessLoop, LocalUnset: 0.
enum Fault : int32_t { LocalBounds, Division, EndlessLoop, LocalUnset, Overflow, Shift, ArrayBounds };
struct OwnVariable { // that is pointed at
  const void* at;
  uint64_t bytes;
  const char* name;
};
inline constexpr int64_t kMostRounds = int64_t{1} << 26; // of a thread's loops, those of known length aside
inline constexpr uint32_t kLooksAtOnce = 64;             // before others get a turn
inline constexpr uint32_t kMostLooks = 1u << 20;         // at one place, while no other thread runs

enum AccessKind : uint64_t { Read, Write, Update, VolatileRead, VolatileWrite };

// bits 0-31: bytes; 32-39: log2 of the alignment that the access needs; 40-: kind
constexpr uint64_t accessCode(unsigned log2Align, AccessKind kind) {
  return uint64_t{log2Align} << 32 | uint64_t{kind} << 40;
}

} // namespace dtc::emu
