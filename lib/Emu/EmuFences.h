#pragma once
// Fences: a thread that reads a published value is ordered after everything that its publisher did before its
// fence (PTX ISA, "Release and acquire patterns"). A block's barrier can replace the reader's fence, as in
// CUDA's own example.
#include "EmuThread.h"
#include <span>

namespace dtc {

class EmuFences { // of a launch
public:
  [[nodiscard]] bool any() const { return any_; } // a thread has reached one
  // By `me`, the state of `thread`.
  void fence(EmuThread& thread, const EmuActor& me);
  // After an atomic or volatile access of the thread.
  void publish(EmuThread& thread, const void* at, emu::AccessKind kind);
  // At a barrier of all these threads: merges their knowledge.
  void share(std::span<EmuThread> threads) const;

private:
  bool any_ = false;
  std::unordered_map<const void*, EmuKnowledge> published_; // by all clusters
};

} // namespace dtc
