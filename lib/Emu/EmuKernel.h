#pragma once
#include "dtc/Emu/CudaEmu.h"
#include "dtc/Jit/ElfLoader.h"
#include <memory>
#include <string>
#include <vector>

namespace dtc {

// A compiled kernel.
struct EmuKernel {
  using Call = void(void* const*);
  struct Variable {
    std::string name;
    size_t offset = 0, bytes = 0; // in a block's shared memory; the dynamic part has no static size
  };
  std::string name;
  Call* call = nullptr;
  size_t numArgs = 0;
  size_t sharedBytes = 0;          // size of its unit's static shared variables on a GPU
  size_t sharedSpan = 0;           // and here, where their layout may differ; the dynamic part begins there
  std::vector<Variable> variables; // of its unit
  uint32_t bound = 1024;           // __launch_bounds__, 1024 where there is none
  Dim3 cluster;
  std::shared_ptr<const LoadedObject> object; // of its code and constants
  bool checked = false;
  size_t granule = 1;             // no access is smaller
  size_t localBytes = 0;          // of a thread's local variables
  std::vector<std::string> lines; // of its unit's text
};

} // namespace dtc
