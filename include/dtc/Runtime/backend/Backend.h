#pragma once
// The interface of a backend: memory, kernels, matmuls, copies and a communicator. Devices are logical, one
// per device coordinate of the mesh; `coordinate` is the linear index of a device. Steps are prepared when a
// program is loaded and only enqueued during a run.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Runtime/comm/Communicator.h"
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace dtc {

// One launch of a kernel on one device.
struct PlacedKernel {
  uint32_t kernel = 0; // index into the sources given to compile()
  std::vector<void*> buffers;
  std::vector<int64_t> bytes; // size of each buffer that the kernel may access
  std::vector<int64_t> sizes;
};

// Operands with another dtype than y (see NarrowFactors). The buffers of `scales` lack its three results.
struct PlacedNarrow {
  DType a = DType::F8E4M3, b = DType::F8E4M3;
  bool aScaled = false, bScaled = false;
  bool swapped = false; // a and b have been exchanged
  const std::byte *aScale = nullptr, *bScale = nullptr;
  std::optional<PlacedKernel> scales;
};

// A matmul on one device, with all sizes bound (see GemmCall).
struct PlacedGemm : GemmProblem<int64_t> {
  std::optional<DType> result; // the dtype of y, if a backend computes it in another one
  std::optional<PlacedNarrow> narrow;
  [[nodiscard]] DType operandType(bool second) const {
    return !narrow ? dtype : second ? narrow->b : narrow->a;
  }
  const std::byte *a = nullptr, *b = nullptr, *bias = nullptr;
  // GemmCall::Begin: an index in device memory, the stride between rows in elements, and the number of rows.
  struct Row {
    const std::byte* index = nullptr;
    DType dtype = DType::I32;
    int64_t stride = 0, rows = 0;
    bool loopIndex = false; // the index of an enclosing `for`, which the host may know
    // The byte offset of the row, given the bytes of the index; empty if the index is out of range.
    [[nodiscard]] std::optional<int64_t> begin(const std::byte* number, DType of) const {
      if (!index) return 0;
      int64_t at = 0;
      int32_t narrow = 0;
      if (dtype == DType::I64)
        std::memcpy(&at, number, sizeof at);
      else
        std::memcpy(&narrow, number, sizeof narrow), at = narrow;
      if (at < 0 || at >= rows) return std::nullopt;
      return at * stride * dtypeBytes(of);
    }
  } aRow, bRow;
  const std::byte* residual = nullptr;
  std::byte *y = nullptr, *aux = nullptr;
  // The epilogue kernel over the elements of y (GemmEpilogue); its last sizes are the window of the whole
  // matmul.
  std::optional<PlacedKernel> epilogue;
  std::shared_ptr<const PlacedGemm> plain; // GemmCall::plain
};

// A copy to row `*index - first` of memory with rows of `bytes`; the i32 index is in device memory.
struct StackedCopy {
  std::byte* to = nullptr;
  const std::byte *from = nullptr, *index = nullptr;
  int64_t bytes = 0, first = 0;
};

// A convolution on one device, with all sizes bound (see ConvCall).
struct PlacedConv : ConvProblem<int64_t> {
  struct Tensor {
    std::byte* at = nullptr;
    std::vector<int64_t> strides;
  } image, window, result;
  const std::byte* bias = nullptr;
  PlacedKernel own; // the generated kernel, if the library does not support it
};

// Attention on one device, with all sizes bound (see AttentionCall).
struct PlacedAttention : AttentionProblem<int64_t> {
  struct Tensor {
    std::byte* at = nullptr; // null: absent
    std::array<int64_t, 4> strides = {};
  };
  std::array<Tensor, AttentionCall::kTensors> tensors;
  PlacedKernel own; // the generated kernel, if the library does not support it
};

// A factorization on one device, with all sizes bound (see FactorizationCall). Buffers: operands, then results.
struct PlacedFactorization {
  Factorization what;
  int64_t batch = 0;
  std::vector<std::byte*> buffers;
};

// Implemented by backends that can capture work and relaunch it without the host (CUDA graphs).
class GraphBackend {
public:
  virtual ~GraphBackend() = default;
  // Captures the work enqueued on all devices between the two calls; endGraph() returns the graph's number.
  // After an error of either, no capture is active.
  [[nodiscard]] virtual Status beginGraph() = 0;
  [[nodiscard]] virtual Result<uint32_t> endGraph() = 0;
  // Launches a graph.
  [[nodiscard]] virtual Status runGraph(uint32_t graph) = 0;
  // Whether a matmul can be captured: not if the host reads a row index for it.
  [[nodiscard]] virtual bool canKeep(uint32_t gemmStep) const = 0;
  // Control flow within a graph, during capture. The predicate of the first device of a group decides for the
  // group.
  using Body = std::function<Status()>; // enqueues the body
  struct Loop {
    const std::byte* predicate = nullptr; // a bool of the first device
    int64_t limit = -1;                   // on iterations; -1: unlimited
    uint32_t counter = 0;                 // unique per loop with a limit
  };
  struct Range {
    int64_t begin = 0, end = 0;
  };
  struct Decided {
    int64_t asked = 0;    // predicates evaluated by graphs since the last call
    uint32_t tooMany = 0; // 1 + the counter of a loop that was stopped at its limit; 0: none
  };
  // Whether these devices can share conditional nodes.
  [[nodiscard]] virtual bool decides(std::span<const int64_t> coordinates) = 0;
  // Called before the first capture; `depth`: maximum nesting of conditional nodes.
  [[nodiscard]] virtual Status prepareDecisions(size_t depth, size_t counters) = 0;
  [[nodiscard]] virtual Status branch(std::span<const int64_t> coordinates, const std::byte* predicate,
                                      const Body& then, const Body& otherwise) = 0;
  // `body` ends by computing the predicate of the next iteration.
  [[nodiscard]] virtual Status loop(std::span<const int64_t> coordinates, const Loop& loop,
                                    const Body& body) = 0;
  // `indices`: the i32 loop index of each device.
  [[nodiscard]] virtual Status count(std::span<const int64_t> coordinates,
                                     std::span<std::byte* const> indices, Range range, const Body& body) = 0;
  [[nodiscard]] virtual Result<Decided> decided() = 0;
  // Prepares a copy; returns a step number for Backend::runKernel.
  [[nodiscard]] virtual Result<uint32_t> placeStackedCopy(int64_t coordinate, const StackedCopy& copy) = 0;
  // Enqueues a write of the index of a `for` on a device, without waiting.
  [[nodiscard]] virtual Status writeIndex(int64_t coordinate, std::byte* to, int32_t number) = 0;
};

// Implemented by backends that overlap collectives with computation (a communication stream per device).
// Overlapped collectives of one device stay in order.
class OverlapBackend {
public:
  virtual ~OverlapBackend() = default;
  // Called once, before the others: sets the number of joins.
  [[nodiscard]] virtual Status prepareJoins(size_t count) = 0;
  // Work that `coordinate` enqueues between the two calls runs after its earlier work and overlaps its later work.
  [[nodiscard]] virtual Status beginOverlap(int64_t coordinate) = 0;
  [[nodiscard]] virtual Status endOverlap(int64_t coordinate, uint32_t join) = 0;
  // Later work of `coordinate` waits for the last endOverlap() with this number, and for all overlapped work before
  // that.
  [[nodiscard]] virtual Status join(int64_t coordinate, uint32_t join) = 0;
};

struct MemoryRange {
  std::byte* at = nullptr;
  int64_t bytes = 0;
};

// Implemented by backends whose prepared steps can use other memory than they were placed on, so that arguments
// and results are used where the caller has them.
class RebindBackend {
public:
  virtual ~RebindBackend() = default;
  // Called once, after all steps have been placed: the ranges that are rebound later, ascending and disjoint.
  virtual void prepareRebinding(std::span<const MemoryRange> ranges) = 0;
  // From now on, steps use `to` in place of the range, whose contents may change. Not during a run.
  virtual void rebind(size_t range, std::byte* to) = 0;
  // The contents of the range have changed, and do not change until the next call for it: steps may use a copy in a
  // layout of their own. Not during a run.
  [[nodiscard]] virtual Status keep(size_t range) = 0;
  // The contents may change at any time.
  virtual void release(size_t range) = 0;
};

class Backend {
public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0; // "cpu", "cuda-emu", "cuda"
  // Options for lowering kernels for this backend.
  [[nodiscard]] virtual KernelOptions kernelOptions() const = 0;
  // Compiles all kernels of a program. Called once, before any step is placed; `kernels` outlives the placing
  // of steps.
  [[nodiscard]] virtual Status compile(const std::vector<KernelSource>& kernels) = 0;

  // Allocates device memory, 64-byte aligned and zeroed, owned by the backend. Error (Machine): out of
  // memory.
  [[nodiscard]] virtual Result<std::byte*> allocate(int64_t coordinate, int64_t bytes) = 0;
  // Synchronous copies to and from a device; `read` waits for earlier steps of the device.
  [[nodiscard]] virtual Status write(int64_t coordinate, std::byte* to, std::span<const std::byte> from) = 0;
  [[nodiscard]] virtual Status read(int64_t coordinate, std::span<std::byte> to, const std::byte* from) = 0;

  // Prepares a step on one device. `step`: its number. `parts`: the number of parts that may run in parallel;
  // the result does not depend on it.
  struct Placed {
    uint32_t step = 0;
    uint32_t parts = 1;
    // How often the library refused: runs that PlacedGemm::plain of a plain, or (1) the generated kernel `own`.
    uint32_t plain = 0;
  };
  [[nodiscard]] virtual Result<Placed> place(int64_t coordinate, const PlacedKernel& kernel) = 0;
  [[nodiscard]] virtual Result<Placed> place(int64_t coordinate, const PlacedGemm& gemm) = 0;
  // Called only if kernelOptions().target has convDTypes; runs with runGemm.
  [[nodiscard]] virtual Result<Placed> place(int64_t, const PlacedConv&) {
    return Error{Error::Bug, "this backend has no library for convolutions"};
  }
  // The same for attentionDTypes.
  [[nodiscard]] virtual Result<Placed> place(int64_t, const PlacedAttention&) {
    return Error{Error::Bug, "this backend has no library for attention"};
  }
  // Runs with runGemm. Error (Machine): the library is missing (with the package to install).
  [[nodiscard]] virtual Result<Placed> place(int64_t coordinate,
                                             const PlacedFactorization& factorization) = 0;
  // Runs one part of a step; `worker` is the index of the calling pool worker.
  [[nodiscard]] virtual Status runKernel(uint32_t step, uint32_t part, int worker) = 0;
  [[nodiscard]] virtual Status runGemm(uint32_t step, uint32_t part, int worker) = 0;
  [[nodiscard]] virtual Status copy(int64_t coordinate, std::byte* to, const std::byte* from,
                                    int64_t bytes) = 0;
  // Whether the host may access the memory of devices directly.
  [[nodiscard]] virtual bool isHostMemory() const { return false; }
  // Later work of all devices waits for the work that the caller has enqueued on this stream (a CUstream).
  [[nodiscard]] virtual Status waitForStream(void*) {
    return usageError("a stream was given, but the " + std::string(name()) + " backend has none");
  }
  [[nodiscard]] virtual Communicator& communicator() = 0;
  // Synchronizes with all enqueued work.
  [[nodiscard]] virtual Status finish() = 0;
  // The same after an error: does not wait for work that cannot complete.
  virtual void abandon() { (void)finish(); }

  // Whether steps only enqueue work, so that one worker can keep all devices busy.
  [[nodiscard]] virtual bool asynchronous() const { return false; }
  // If asynchronous(): whether a device has enqueued work that is not complete, so that reading its memory waits.
  [[nodiscard]] virtual Result<bool> busy(int64_t) { return false; }
  [[nodiscard]] virtual GraphBackend* graphs() { return nullptr; }
  [[nodiscard]] virtual OverlapBackend* overlap() { return nullptr; }
  [[nodiscard]] virtual RebindBackend* rebinding() { return nullptr; }
  // If asynchronous(): records a mark in a device's enqueued work, and returns when it was reached, in
  // nanoseconds since the device's first mark. forgetMarks() discards all marks.
  [[nodiscard]] virtual Result<uint32_t> mark(int64_t) {
    return Error{Error::Bug, "this backend does not support timing marks"};
  }
  [[nodiscard]] virtual Result<int64_t> reached(uint32_t) const {
    return Error{Error::Bug, "this backend does not support timing marks"};
  }
  virtual void forgetMarks() {}
  // Device mapping and communicator: "2 devices on 1 GPU (NVIDIA H200), …"; may be empty.
  [[nodiscard]] virtual std::string describe() const { return {}; }
  // Additional lines for --stats after loading: the libraries in use, and why one is not.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }

  // Durations of the phases of compile(), for --timing and --stats.
  struct Phase {
    std::string name;
    double milliseconds = 0;
  };
  std::vector<Phase> phases;
};

// The target that programs of a backend ("cpu", "cuda-emu", "cuda", "evaluator") are compiled for: for cuda
// that of the machine's first GPU. Error (Machine): no driver or no GPU.
[[nodiscard]] Result<std::string> targetOfBackend(std::string_view backend);
// Error (Input): the text of the function names a target that the backend does not run.
[[nodiscard]] Status checkTarget(const Module&, FuncId, const Backend&);
inline constexpr std::string_view kEmulatedTarget = "sm_90a"; // the target of cuda-emu

} // namespace dtc
