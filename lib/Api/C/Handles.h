#pragma once
// What the opaque types of dtc.h are, and how its functions report errors.
#include "dtc/Api/CompiledProgram.h"
#include "dtc/dtc.h"

#include <cstdlib>

struct dtc_error {
  dtc::ApiError error;
  std::string json; // made when it is asked for
};

struct dtc_options {
  std::vector<std::pair<std::string, std::string>> values;
  std::vector<std::optional<std::vector<int64_t>>> argumentShapes;
};

struct dtc_context {
  std::shared_ptr<dtc::Machine> machine;
};

struct dtc_executable {
  std::unique_ptr<dtc::CompiledProgram> program;
  std::mutex mutex; // for `text` and `print`
  std::string text; // made when it is asked for
  void (*print)(void* self, const char* text) = nullptr;
  void* printSelf = nullptr;
  int32_t (*interrupted)(void* self) = nullptr;
  void* interruptSelf = nullptr;
};

struct dtc_tensor {
  ~dtc_tensor() { std::free(data); }
  std::byte* data = nullptr;
  dtc::DType dtype = dtc::DType::F32;
  std::vector<int64_t> shape;
  size_t bytes = 0;
};

namespace dtc {

[[nodiscard]] dtc_status statusOf(Error::Kind);
// Its pointers are valid as long as the argument.
[[nodiscard]] dtc_value_info infoOf(const TensorInfo&);
// Stores the error, unless nobody asks for it or there is no memory for it; returns its status.
dtc_status report(ApiError&& error, dtc_error** to) noexcept;
// The same for errors that are found here.
dtc_status report(const Error& error, dtc_error** to) noexcept;

// Error (Usage): a pointer that the caller must give is null.
struct Given {
  const void* pointer;
  const char* name;
};
[[nodiscard]] Status checkGiven(std::initializer_list<Given>);

// Calls fn(), which returns a Status; no exception leaves it.
template <class Fn> dtc_status guarded(dtc_error** to, Fn&& fn) noexcept {
  try {
    const Status done = fn();
    return done ? DTC_OK : report(done.error(), to);
  } catch (...) {
    return report(errorOfException(), to);
  }
}

// A tensor with contiguous memory. Error (Machine): out of memory.
[[nodiscard]] Result<std::unique_ptr<dtc_tensor>> makeTensor(DType, std::span<const int64_t> shape);
[[nodiscard]] inline bool isDType(dtc_dtype dtype) { return dtype >= 0 && dtype < kNumDTypes; }
// Throws std::bad_alloc.
[[nodiscard]] CompileOptions compileOptionsOf(const dtc_options* options);
[[nodiscard]] ContextOptions contextOptionsOf(const dtc_options* options);

} // namespace dtc
