#include "Handles.h"

#include "dtc/Files/TensorArchive.h"
#include "dtc/Support/Counted.h"
#include "dtc/Support/ElementCount.h"
#include "dtc/Support/SmallVector.h"

#include <algorithm>
#include <new>

namespace dtc {

dtc_value_info infoOf(const TensorInfo& t) {
  return {t.name.c_str(),
          t.userName.c_str(),
          static_cast<dtc_dtype>(t.dtype),
          static_cast<int32_t>(t.shape.size()),
          t.shape.data(),
          t.sharding.c_str(),
          t.donated,
          static_cast<int32_t>(t.carried)};
}

namespace {

Result<BorrowedTensor> borrowed(const dtc_buffer& b) {
  BorrowedTensor t;
  if (b.flags & DTC_SKIP) {
    t.skip = true;
    return t;
  }
  t.keep = (b.flags & DTC_KEEP) != 0;
  if (b.flags & ~DTC_KEEP) return usageError("a buffer has unknown flags: " + std::to_string(b.flags));
  if (!isDType(b.dtype)) return usageError("a buffer has an unknown dtype: " + std::to_string(b.dtype));
  if (b.rank < 0 || (b.rank > 0 && !b.shape))
    return usageError("a buffer of rank " + std::to_string(b.rank) + " has no shape");
  if (b.device_type != DTC_DEVICE_CPU && b.device_type != DTC_DEVICE_CUDA)
    return usageError("a buffer has an unknown device type: " + std::to_string(b.device_type));
  const auto rank = static_cast<size_t>(b.rank);
  t.data = static_cast<std::byte*>(b.data);
  t.dtype = static_cast<DType>(b.dtype);
  t.shape = {b.shape, rank};
  if (b.strides) t.strides = {b.strides, rank};
  t.onDevice = b.device_type == DTC_DEVICE_CUDA;
  return t;
}

using Buffers = SmallVector<BorrowedTensor, 16>;

// The caller's struct, of this version or an earlier one.
Result<dtc_run_arguments> checkedArguments(const dtc_run_arguments* run) {
  if (run->struct_size != sizeof(dtc_run_arguments))
    return usageError("dtc_run_arguments.struct_size must be sizeof(dtc_run_arguments)");
  if ((run->num_arguments && !run->arguments) || (run->num_results && !run->results && !run->tensors))
    return usageError("dtc_run_arguments has counts without buffers");
  return *run;
}

// Memory of the caller, or a new tensor for a result that has none.
class ResultBuffers {
public:
  ResultBuffers(const CompiledProgram& program, const dtc_run_arguments& run)
      : program_(program), run_(run) {}
  Status make() {
    const DeviceSlice here = program_.devices();
    const size_t perResult = run_.result_shards ? static_cast<size_t>(here.end - here.begin) : 1;
    if (run_.num_results != perResult * program_.results().size() && run_.num_results != 0)
      return usageError("expected " + counted(perResult * program_.results().size(), "result") + ", got " +
                        std::to_string(run_.num_results));
    for (size_t i = 0; i < run_.num_results; ++i) {
      if (run_.tensors) run_.tensors[i] = nullptr;
      if (run_.results && (run_.results[i].data || (run_.results[i].flags & DTC_SKIP) || !run_.tensors)) {
        DTC_TRY(auto one, borrowed(run_.results[i]));
        buffers.push_back(one);
        continue;
      }
      const TensorInfo& info = program_.results()[i / perResult];
      const std::span<const int64_t> shape =
          run_.result_shards
              ? program_.resultShape(i / perResult, here.begin + static_cast<int64_t>(i % perResult))
              : std::span<const int64_t>(info.shape);
      DTC_TRY(auto tensor, makeTensor(info.dtype, shape));
      buffers.push_back({tensor->data, tensor->dtype, tensor->shape});
      made_.emplace_back(i, std::move(tensor));
    }
    return Ok{};
  }
  void give() {
    for (auto& [i, tensor] : made_) run_.tensors[i] = tensor.release();
  }
  Buffers buffers;

private:
  const CompiledProgram& program_;
  const dtc_run_arguments& run_;
  std::vector<std::pair<size_t, std::unique_ptr<dtc_tensor>>> made_;
};

Status borrowArguments(const dtc_run_arguments& run, Buffers& arguments) {
  for (size_t i = 0; i < run.num_arguments; ++i) {
    DTC_TRY(auto one, borrowed(run.arguments[i]));
    arguments.push_back(one);
  }
  return Ok{};
}

// What is wrong with the arguments, the program learns too: of several processes, the others wait for this one.
dtc_status runGuarded(dtc_executable* executable, const dtc_run_arguments* given, dtc_error** error) {
  const auto checked =
      given ? checkedArguments(given) : Result<dtc_run_arguments>(checkGiven({{given, "run"}}).error());
  const dtc_run_arguments run = checked ? *checked : dtc_run_arguments{};
  Buffers arguments;
  ResultBuffers results(*executable->program, run);
  RunRequest request;
  request.made = checked ? borrowArguments(run, arguments) : Status(checked.error());
  if (request.made) request.made = results.make();
  request.tensors = {.arguments = {arguments.begin(), arguments.end()},
                     .argumentShards = run.argument_shards != 0,
                     .results = {results.buffers.begin(), results.buffers.end()},
                     .resultShards = run.result_shards != 0};
  request.stream = run.stream;
  ApiError why;
  if (!executable->program->run(request, why)) return report(std::move(why), error);
  results.give();
  return DTC_OK;
}

void printText(void* self, const std::string& text) {
  auto* executable = static_cast<dtc_executable*>(self);
  executable->print(executable->printSelf, text.c_str());
}

bool isInterrupted(void* self) {
  const auto* executable = static_cast<const dtc_executable*>(self);
  return executable->interrupted(executable->interruptSelf) != 0;
}

} // namespace

Result<std::unique_ptr<dtc_tensor>> makeTensor(DType dtype, std::span<const int64_t> shape) {
  constexpr size_t kAlignment = 64;
  const auto count = elementCount(shape);
  const auto bytes = count ? checkedMul(*count, static_cast<int64_t>(dtypeBytes(dtype))) : std::nullopt;
  if (!bytes || *bytes > INT64_MAX - static_cast<int64_t>(kAlignment))
    return machineError("a tensor has more than 2^63-1 bytes");
  auto t = std::make_unique<dtc_tensor>();
  t->bytes = static_cast<size_t>(*bytes);
  t->dtype = dtype;
  t->shape.assign(shape.begin(), shape.end());
  const size_t rounded = std::max((t->bytes + kAlignment - 1) / kAlignment, size_t{1}) * kAlignment;
  t->data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (!t->data) return machineError("out of memory for a tensor of " + std::to_string(*bytes) + " bytes");
  return t;
}

} // namespace dtc

using namespace dtc;

size_t dtc_num_arguments(const dtc_executable* executable) {
  return executable ? executable->program->arguments().size() : 0;
}
size_t dtc_num_results(const dtc_executable* executable) {
  return executable ? executable->program->results().size() : 0;
}

void dtc_argument_info(const dtc_executable* executable, size_t index, dtc_value_info* out) {
  if (!out) return;
  *out = {};
  if (index < dtc_num_arguments(executable)) *out = infoOf(executable->program->arguments()[index]);
}

void dtc_result_info(const dtc_executable* executable, size_t index, dtc_value_info* out) {
  if (!out) return;
  *out = {};
  if (index < dtc_num_results(executable)) *out = infoOf(executable->program->results()[index]);
}

int64_t dtc_num_devices(const dtc_executable* executable) {
  return executable ? executable->program->mesh().numDevices : 0;
}
int64_t dtc_local_devices(const dtc_executable* executable, int64_t* first) {
  const DeviceSlice here = executable ? executable->program->devices() : DeviceSlice{0, 0};
  if (first) *first = here.begin;
  return here.end - here.begin;
}
size_t dtc_num_mesh_axes(const dtc_executable* executable) {
  return executable ? executable->program->mesh().axes.size() : 0;
}

const char* dtc_mesh_axis(const dtc_executable* executable, size_t axis, int64_t* size) {
  if (axis >= dtc_num_mesh_axes(executable)) return nullptr;
  const auto& axes = executable->program->mesh().axes;
  if (size) *size = axes[axis].second;
  return axes[axis].first.c_str();
}

const int64_t* dtc_argument_shard_shape(const dtc_executable* executable, size_t index, int64_t device) {
  if (index >= dtc_num_arguments(executable) || device < 0 || device >= dtc_num_devices(executable))
    return nullptr;
  return executable->program->argumentShape(index, device).data();
}

const int64_t* dtc_result_shard_shape(const dtc_executable* executable, size_t index, int64_t device) {
  if (index >= dtc_num_results(executable) || device < 0 || device >= dtc_num_devices(executable))
    return nullptr;
  return executable->program->resultShape(index, device).data();
}

dtc_status dtc_run(dtc_executable* executable, const dtc_run_arguments* run, dtc_error** error) {
  try {
    if (Status s = checkGiven({{executable, "executable"}}); !s) return report(s.error(), error);
    return runGuarded(executable, run, error);
  } catch (...) {
    return report(errorOfException(), error);
  }
}

dtc_status dtc_bind_file(dtc_executable* executable, const char* path, int32_t* bound, dtc_error** error) {
  try {
    if (Status s = checkGiven({{executable, "executable"}}); !s) return report(s.error(), error);
    ApiError why;
    std::vector<bool> found;
    if (!executable->program->bindFile(path, found, why)) return report(std::move(why), error);
    for (size_t i = 0; bound && i < found.size(); ++i) bound[i] = found[i];
    return DTC_OK;
  } catch (...) {
    return report(errorOfException(), error);
  }
}

int32_t dtc_file_has_weights(const char* path) {
  if (!path) return 0;
  try {
    return holdsProgram(path);
  } catch (...) { // out of memory
    return 0;
  }
}

int32_t dtc_argument_is_set(dtc_executable* executable, size_t index) {
  if (!executable) return 0;
  try {
    const std::vector<bool> set = executable->program->setArguments();
    return index < set.size() && set[index];
  } catch (...) { // out of memory
    return 0;
  }
}

dtc_status dtc_carry_over(dtc_executable* executable, dtc_error** error) {
  if (Status s = checkGiven({{executable, "executable"}}); !s) return report(s.error(), error);
  ApiError why;
  return executable->program->carryOver(why) ? DTC_OK : report(std::move(why), error);
}

int64_t dtc_copied_bytes(const dtc_executable* executable) {
  return executable ? executable->program->copiedBytes() : 0;
}

void dtc_set_print(dtc_executable* executable, void (*print)(void* self, const char* text), void* self) {
  if (!executable) return;
  // Without a target first, so that no run sees half of the new one.
  executable->program->setPrint({});
  executable->print = print, executable->printSelf = self;
  if (print) executable->program->setPrint({&printText, executable});
}

void dtc_set_interrupt(dtc_executable* executable, int32_t (*interrupted)(void* self), void* self) {
  if (!executable) return;
  executable->program->setInterrupt({});
  executable->interrupted = interrupted, executable->interruptSelf = self;
  if (interrupted) executable->program->setInterrupt({&isInterrupted, executable});
}

dtc_tensor* dtc_tensor_create(dtc_dtype dtype, const int64_t* shape, size_t rank) {
  if (!isDType(dtype) || (rank && !shape)) return nullptr;
  if (std::any_of(shape, shape + rank, [](int64_t size) { return size < 0; })) return nullptr;
  try {
    auto made = makeTensor(static_cast<DType>(dtype), {shape, rank});
    return made ? made->release() : nullptr;
  } catch (...) {
    return nullptr;
  }
}

void dtc_tensor_buffer(const dtc_tensor* tensor, dtc_buffer* out) {
  if (!out) return;
  *out = {};
  if (!tensor) return;
  *out = {tensor->data,
          static_cast<dtc_dtype>(tensor->dtype),
          static_cast<int32_t>(tensor->shape.size()),
          tensor->shape.data(),
          nullptr,
          DTC_DEVICE_CPU,
          0};
}

size_t dtc_tensor_bytes(const dtc_tensor* tensor) { return tensor ? tensor->bytes : 0; }
void dtc_tensor_free(dtc_tensor* tensor) { delete tensor; }
