#include "EmuThread.h"

namespace dtc {

std::string emuTuple(const Dim3& d) {
  return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

Dim3 emuThreadIndex(const Dim3& block, uint32_t thread) {
  return {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
}

std::string emuLine(int32_t line, const char* location) {
  return location ? std::string(location) : std::to_string(line);
}

std::string emuHex(uint32_t v) {
  std::string out = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(v >> shift) & 15];
  return out;
}

bool sameLocation(const EmuThread& a, const EmuThread& b) {
  return a.line == b.line && a.location == b.location;
}

static const char* opName(int32_t op) {
  constexpr const char* names[] = {"__syncwarp",       "__shfl_sync",       "__shfl_up_sync",
                                   "__shfl_down_sync", "__shfl_xor_sync",   "__ballot_sync",
                                   "__any_sync",       "__all_sync",        "dtc_mma",
                                   "dtc_mma",          "dtc_load_matrices", "dtc_load_transposed"};
  return names[op];
}

std::string describe(const EmuThread& t) {
  const std::string who = "thread " + emuTuple(t.view.thread), line = emuLine(t.line, t.location);
  switch (t.state) {
  case EmuState::Done: return who + " has returned";
  case EmuState::AtBarrier: return who + " waits at the barrier of line " + line;
  case EmuState::AtNamedBarrier:
    return who + " waits at barrier " + std::to_string(t.kind) + " of line " + line + " for " +
           std::to_string(t.value) + " threads";
  case EmuState::AtClusterBarrier: return who + " waits at the cluster barrier of line " + line;
  case EmuState::New:
  case EmuState::Ready: return who + " has not reached one";
  case EmuState::Running:
  case EmuState::InWarpOp: break;
  }
  return who + " is in " + opName(t.kind) + " of line " + line + " with mask " + emuHex(t.mask);
}

} // namespace dtc
