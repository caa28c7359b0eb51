#pragma once
// What the opaque handles of the PJRT C API point to.
#include "ElementTypes.h"
#include "PjrtApi.h"
#include "Program.h"
#include "ProgramCache.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// Calls the function `target` of the process: 0 done, 1 failed with a text of at most `error_size` bytes in `error`,
// 2 there is none.
extern "C" {
typedef int (*dtc_host_functions)(const char* target, const void* const* operands, void* const* results,
                                  char* error, size_t error_size);
}

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};

// All work is done when a call returns: events exist because the interface asks for them.
struct PJRT_Event {};

struct PJRT_DeviceDescription {
  int id = 0;
  std::string name; // "dtc:0"
};

namespace dtc {
// As JAX's CPU platform has them, the default first. All are host memory: the kind is a name that values have.
inline constexpr std::string_view kMemoryKinds[] = {"device", "pinned_host", "unpinned_host"};
inline constexpr size_t kNumKinds = std::size(kMemoryKinds);
} // namespace dtc

struct PJRT_Memory {
  int id = 0;
  int kind = 0; // of kMemoryKinds
  PJRT_Device* device = nullptr;
  std::string name;
};

struct PJRT_Device {
  PJRT_DeviceDescription description;
  PJRT_Memory memory[dtc::kNumKinds];
  PJRT_Memory* memories[dtc::kNumKinds]; // the addresses of these
};

struct PJRT_TopologyDescription {
  std::vector<PJRT_DeviceDescription*> devices;
};

struct PJRT_Client {
  std::string version;
  std::vector<std::unique_ptr<PJRT_Device>> owned;
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_Memory*> memories;
  PJRT_TopologyDescription topology;
  std::shared_ptr<dtc::Machine> machine;
  std::string backend; // "cpu", "cuda"
  dtc::ProgramCache programs;
  std::jthread startsCompiler; // the last member: joined before the others are destroyed
};

struct PJRT_Buffer {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
  std::vector<int64_t> minorToMajor; // a name that it has: the elements are row-major
  std::shared_ptr<std::byte[]> data; // shared by copies; never written after it has been made
  size_t bytes = 0;
  PJRT_Memory* memory = nullptr;
  std::atomic<bool> deleted = false;
  std::atomic<int> externalReferences = 0; // of users of the address of its memory
};

// A layout of XLA in its text form. Each is made once, and none is freed.
struct PJRT_Layouts_MemoryLayout {
  std::string text;
};

namespace dtc {

// An executable is shared: JAX asks a loaded one for its PJRT_Executable, and deletes both.
struct CompiledPjrt {
  std::shared_ptr<const PjrtProgram> program; // shared by executables of equal programs
  std::string options;                        // CompileOptionsProto, as given
  std::string fingerprint;                    // of the program and its options
  std::vector<int64_t> deviceIds;             // by partition
  std::vector<PJRT_Buffer_Type> types;        // of the results
  std::vector<int64_t> dims;                  // of the results' shards, one after the other
  std::vector<size_t> ranks;
  std::vector<size_t> memoryKinds; // of the results
  std::vector<const char*> kinds;  // their names
  std::vector<size_t> kindSizes;
  std::vector<const char*> argumentShardings, resultShardings;
  std::vector<size_t> argumentShardingSizes, resultShardingSizes;
  std::vector<PJRT_Layouts_MemoryLayout*> argumentLayouts, resultLayouts;
};

} // namespace dtc

struct PJRT_Executable {
  std::shared_ptr<dtc::CompiledPjrt> compiled;
};

struct PJRT_LoadedExecutable {
  std::shared_ptr<dtc::CompiledPjrt> compiled;
  std::vector<PJRT_Device*> devices;
  std::string assignment; // DeviceAssignmentProto
  std::atomic<bool> deleted = false;
};

struct PJRT_ExecuteContext {};
struct PJRT_SerializedExecutable {
  std::string bytes;
};

namespace dtc {

[[nodiscard]] PJRT_Error* pjrtError(PJRT_Error_Code code, std::string message);
[[nodiscard]] PJRT_Error* pjrtError(const ApiError& error);

// A buffer with memory for its elements.
[[nodiscard]] std::unique_ptr<PJRT_Buffer> makeBuffer(PJRT_Buffer_Type type, std::span<const int64_t> dims,
                                                      PJRT_Memory* memory);

[[nodiscard]] PJRT_Layouts_MemoryLayout* layoutOf(std::span<const int64_t> minorToMajor);
[[nodiscard]] PJRT_Extension_Base* layoutsExtension();

// Ends the use of a buffer, and frees its memory unless its address is in use.
void deleteBuffer(PJRT_Buffer& buffer);

// Sets the entries of the table for their functions.
void addBufferFunctions(PJRT_Api& api);
void addClientFunctions(PJRT_Api& api);
void addExecutableFunctions(PJRT_Api& api);

template <class Args, class Result> void set(PJRT_Api& api, PJRT_Function f, Result (*function)(Args*)) {
  api.functions[f] = reinterpret_cast<PJRT_AnyFunction>(function);
}

// A text that a structure returns as a pointer and a size.
inline void give(std::string_view text, const char*& data, size_t& size) {
  data = text.data();
  size = text.size();
}

} // namespace dtc
