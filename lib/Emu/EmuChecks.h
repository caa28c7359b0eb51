#pragma once
// The checks of an access before it happens, against the shadow of the memory.
#include "EmuGlobal.h"
#include "EmuShared.h"
#include "EmuThread.h"
#include <bit>

namespace dtc {

struct EmuAccess {
  const void* at = nullptr;
  uint32_t bytes = 0, align = 1;
  emu::AccessKind kind = emu::Read;
  const char* location = nullptr;
  [[nodiscard]] bool reads() const { return kind != emu::Write && kind != emu::VolatileWrite; }
  [[nodiscard]] bool writes() const { return kind != emu::Read && kind != emu::VolatileRead; }
  [[nodiscard]] bool aligned() const { return (addressOf(at) & (align - 1)) == 0; }
};

// The block `rank` of a cluster. Clusters and the blocks within each are numbered like the blocks of a grid,
// x fastest.
[[nodiscard]] Dim3 emuBlockIndex(const EmuKernel& kernel, const EmuLaunch& launch, uint64_t cluster,
                                 uint32_t rank);

// Each check records the access, and returns "" or what is wrong: "outside of …". `me`: the thread.
class EmuChecks {
public:
  // `global`: null where global accesses are not checked.
  EmuChecks(const EmuKernel& kernel, const EmuLaunch& launch, EmuShared& shared, EmuGlobal* global)
      : kernel_(kernel), launch_(launch), shared_(shared), global_(global),
        granuleShift_(static_cast<unsigned>(std::countr_zero(kernel.granule))) {}

  // Of the thread's stack, where only the run determines which local variable it is.
  [[nodiscard]] static std::string own(const EmuAccess& a, const EmuThread& thread);
  [[nodiscard]] std::string shared(const EmuAccess& a, const EmuActor& me);
  [[nodiscard]] std::string global(const EmuAccess& a, const EmuActor& me);
  // An asynchronous copy of the thread `copier` - 1 (0: none) to these 16 bytes of shared memory is in flight.
  void noteCopier(const uint8_t* to, uint32_t copier, const char* location);

private:
  std::string trusted(const EmuAccess& a) const; // of a launch without buffers
  std::string conflictText(const EmuConflict& c, const EmuActor& me, const std::string& what) const;
  std::string sharedText(size_t offset, uint32_t block, const EmuActor& me) const;
  std::string threadText(uint32_t thread) const {
    return "thread " + emuTuple(emuThreadIndex(launch_.block, thread % perBlock()));
  }
  uint32_t perBlock() const { return launch_.block.x * launch_.block.y * launch_.block.z; }
  // Constants of one loaded object are within 2 GiB of its code.
  int32_t locationNumber(const char* location) const {
    return static_cast<int32_t>(location - reinterpret_cast<const char*>(kernel_.call));
  }
  const char* locationOf(int32_t number) const {
    return reinterpret_cast<const char*>(kernel_.call) + number;
  }

  const EmuKernel& kernel_;
  const EmuLaunch& launch_;
  EmuShared& shared_;
  EmuGlobal* global_;
  unsigned granuleShift_;                     // log2 of kernel_.granule
  const EmuGlobal::Region* region_ = nullptr; // of the last access
};

} // namespace dtc
