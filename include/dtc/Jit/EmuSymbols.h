#pragma once
// The interface between cuda-emu's compiled code and its host: names, and the encoding of accesses
// (lib/Jit/Clang/CheckAccesses.cpp writes it, EmuCluster reads it).
#include <cstdint>

namespace dtc::emu {

inline constexpr const char* kSelf = "__emu_self";
inline constexpr const char* kShared = "__emu_shared";
inline constexpr const char* kAccess = "__emu_access"; // (pointer, access code | bytes, location)
inline constexpr const char* kFault = "__emu_fault";   // (fault, its operand, location)
inline constexpr const char* kLeaves = "__emu_leaves"; // (): at each `return` of a kernel
// (OwnVariable[], count): the local variables that a thread may point at
inline constexpr const char* kOwn = "__emu_own";
inline constexpr const char* kEnter = "__emu_enter"; // (frame, location): a function that calls itself
inline constexpr const char* kCallPrefix = "__emu_call_";
inline constexpr const char* kArityPrefix = "__emu_arity_"; // u64: the number of parameters of a kernel
// Functions whose last argument is the location of the call, null where it is unknown.
inline constexpr const char* kLocated[] = {"__emu_barrier",  "__emu_named_barrier", "__emu_cluster_barrier",
                                           "__emu_warp",     "__emu_map_shared",    "__emu_copy_async",
                                           "__emu_copy_wait"};

// Objects that a unit defines.
inline constexpr const char* kSharedBytes = "__emu_shared_bytes"; // u64: the size of the variables
inline constexpr const char* kSharedSpan = "__emu_shared_span";   // u64: the offset of dynamic shared memory
inline constexpr const char* kSharedMap = "__emu_shared_map"; // text: "name offset bytes\n" of each variable
inline constexpr const char* kGranule = "__emu_granule";      // u64, with checks: no access is smaller
// u64: the maximum size of a thread's local variables
inline constexpr const char* kLocalBytes = "__emu_local_bytes";

// Errors detected by compiled code itself, with a number. LocalBounds: the byte offset from the start of a
// local variable. ArrayBounds: an element's index. Overflow, Division, EndlessLoop, LocalUnset: 0.
enum Fault : int32_t { LocalBounds, Division, EndlessLoop, LocalUnset, Overflow, Shift, ArrayBounds };
struct OwnVariable { // that is pointed at
  const void* at;
  uint64_t bytes;
  const char* name;
};
inline constexpr int64_t kMaxRounds = int64_t{1} << 26; // of a thread's loops, except those of known length
inline constexpr uint32_t kLooksAtOnce = 64;            // before other threads run
inline constexpr uint32_t kMaxLooks = 1u << 20;         // at one location, while no other thread can run

enum AccessKind : uint64_t { Read, Write, Update, VolatileRead, VolatileWrite };

// bits 0-31: bytes; 32-39: log2 of the alignment that the access needs; 40-: kind
constexpr uint64_t accessCode(unsigned log2Align, AccessKind kind) {
  return uint64_t{log2Align} << 32 | uint64_t{kind} << 40;
}

} // namespace dtc::emu
