#pragma once
// What an executable asks of the thing that computes: memory, kernels, matrix products, copies, and a communicator. Devices
// are logical: one per place of the mesh. Everything is set up when a program is loaded; a step only starts it.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Runtime/Communicator.h"
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

namespace dtc {

// One launch of a kernel on one device.
struct PlacedKernel {
  uint32_t kernel = 0; // index into the sources given to compile()
  std::vector<void*> buffers;
  std::vector<int64_t> bytes; // of each buffer: what the kernel may touch
  std::vector<int64_t> sizes;
};

// Operands of other dtypes than y: NarrowFactors says what these are. `scales` lacks its three results.
struct PlacedNarrow {
  DType a = DType::F8E4M3, b = DType::F8E4M3;
  bool aScaled = false, bScaled = false;
  bool turned = false; // a and b have changed places since
  const std::byte *aScale = nullptr, *bScale = nullptr;
  std::optional<PlacedKernel> scales;
};

// A matrix product on one device, all numbers known (GemmCall says what they mean).
struct PlacedGemm {
  DType dtype = DType::F32;
  std::optional<DType> result; // of y, where a backend has it made in another dtype
  std::optional<PlacedNarrow> narrow;
  [[nodiscard]] DType operandType(bool second) const {
    return !narrow ? dtype : second ? narrow->b : narrow->a;
  }
  struct Axis {
    int64_t extent = 1, a = 0, b = 0, y = 0, residual = 0;
  };
  std::vector<Axis> batch; // outermost first
  Axis m, n, k;
  const std::byte *a = nullptr, *b = nullptr, *bias = nullptr;
  // GemmCall::Begin: a number in the device's memory, elements from row to row, and how many rows there are.
  struct Row {
    const std::byte* index = nullptr;
    DType dtype = DType::I32;
    int64_t stride = 0, rows = 0;
    bool trip = false; // the number is the index of an enclosing `for`: whoever counts the trips knows it
    // Where the row begins, in bytes, by the bytes of the number; nothing where there is no such row.
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
  int64_t biasStride = 0;
  const std::byte* residual = nullptr; // GemmCall says what these two are
  GemmActivation activation = GemmActivation::None;
  std::byte* y = nullptr;
  // Runs over the elements that are written (GemmEpilogue); its last sizes are the whole product's window.
  std::optional<PlacedKernel> epilogue;
  std::shared_ptr<const PlacedGemm> plain; // the same without residual and activation, where there is either
};

// A copy to row `*index - first` of memory with rows of `bytes`; the index, an i32, is in the device's memory.
struct StackedCopy {
  std::byte* to = nullptr;
  const std::byte *from = nullptr, *index = nullptr;
  int64_t bytes = 0, first = 0;
};

// A convolution on one device, all numbers known (ConvCall says what they mean).
struct PlacedConv {
  ConvKind kind = ConvKind::Forward;
  DType dtype = DType::F32;
  std::vector<ConvCall::Spatial> spatial;
  int64_t groups = 1, n = 0, c = 0, o = 0;
  struct Tensor {
    std::byte* at = nullptr;
    std::vector<int64_t> strides;
  } image, window, result;
  const std::byte* bias = nullptr;
  PlacedKernel own; // for where the library does not take it
};

// Attention on one device, all numbers known (AttentionCall says what they mean).
struct PlacedAttention {
  bool gradient = false;
  DType dtype = DType::BF16;
  double scale = 1;
  int64_t before = AttentionCall::kAll, after = AttentionCall::kAll;
  int64_t batch = 0, heads = 0, keyHeads = 0, rows = 0, keys = 0, depth = 0, width = 0;
  struct Tensor {
    std::byte* at = nullptr; // null: there is none
    std::array<int64_t, 4> strides = {};
  };
  std::array<Tensor, AttentionCall::kTensors> tensors;
  PlacedKernel own; // for where the library does not take it
};

// What a backend has beside that where it can keep work and start it again without the host (CUDA graphs).
class GraphBackend {
public:
  virtual ~GraphBackend() = default;
  // Work of all places that is started between the two is kept instead, under the number that comes back. An error of either
  // leaves nothing begun.
  [[nodiscard]] virtual Status beginGraph() = 0;
  [[nodiscard]] virtual Result<uint32_t> endGraph() = 0;
  // Starts all of it.
  [[nodiscard]] virtual Status runGraph(uint32_t graph) = 0;
  // Can a matrix product be kept? Not where the host looks up a row for it.
  [[nodiscard]] virtual bool canKeep(uint32_t gemmStep) const = 0;
  // Control flow within a graph, while it is captured: of places that decide together, the first of which is asked.
  using Body = std::function<Status()>; // starts what belongs to it
  struct Loop {
    const std::byte* predicate = nullptr; // a bool of the first place
    int64_t limit = -1;                   // of trips; -1: any number
    uint32_t counter = 0;                 // each loop with a limit has one of its own
  };
  struct Trips {
    int64_t begin = 0, end = 0;
  };
  struct Decided {
    int64_t asked = 0;    // how many predicates graphs have looked at since the last call
    uint32_t tooMany = 0; // 1 + the counter of a loop that passed its limit, and was left there; 0: none
  };
  // Can they, without the host?
  [[nodiscard]] virtual bool decides(std::span<const int64_t> places) const = 0;
  // Before the first of them; `depth`: how many stand within each other at most.
  [[nodiscard]] virtual Status prepareDecisions(size_t depth, size_t counters) = 0;
  [[nodiscard]] virtual Status branch(std::span<const int64_t> places, const std::byte* predicate,
                                      const Body& then, const Body& otherwise) = 0;
  // `body` ends with the predicate of the next trip.
  [[nodiscard]] virtual Status loop(std::span<const int64_t> places, const Loop& loop, const Body& body) = 0;
  // `indices`: where each place keeps the i32 that counts.
  [[nodiscard]] virtual Status count(std::span<const int64_t> places, std::span<std::byte* const> indices,
                                     Trips trips, const Body& body) = 0;
  [[nodiscard]] virtual Result<Decided> decided() = 0;
  // Makes such a copy ready; the number is one of Backend::runKernel.
  [[nodiscard]] virtual Result<uint32_t> placeStackedCopy(int64_t place, const StackedCopy& copy) = 0;
  // Writes the index of a `for` behind the work that a place has started, without waiting for it.
  [[nodiscard]] virtual Status writeIndex(int64_t place, std::byte* to, int32_t number) = 0;
};

// What a backend has beside that where a device communicates beside its other work (a stream of its own for it). Collectives of
// one device that run so keep their order among each other.
class OverlapBackend {
public:
  virtual ~OverlapBackend() = default;
  // Called once, before the others: how many numbers of joins there are.
  [[nodiscard]] virtual Status prepareJoins(size_t count) = 0;
  // What `place` starts between the two runs after what it has started so far, and beside what it starts afterwards.
  [[nodiscard]] virtual Status beginAside(int64_t place) = 0;
  [[nodiscard]] virtual Status endAside(int64_t place, uint32_t join) = 0;
  // What `place` starts from here on runs after what endAside() was last told this number for, and after all before that.
  [[nodiscard]] virtual Status join(int64_t place, uint32_t join) = 0;
};

class Backend {
public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0; // "cpu", "cuda-emu", "cuda"
  // How kernels are to be lowered for it.
  [[nodiscard]] virtual KernelOptions kernelOptions() const = 0;
  // Compiles all kernels of a program. Called once, before any step is placed; `kernels` lives until the last is.
  [[nodiscard]] virtual Status compile(const std::vector<KernelSource>& kernels) = 0;

  // Memory of one device, 64-byte aligned and zeroed; it lives as long as the backend. Error (Machine): no memory left.
  [[nodiscard]] virtual Result<std::byte*> allocate(int64_t place, int64_t bytes) = 0;
  // Host to device and back. Return when done; `read` waits for the steps of that device before it.
  [[nodiscard]] virtual Status write(int64_t place, std::byte* to, std::span<const std::byte> from) = 0;
  [[nodiscard]] virtual Status read(int64_t place, std::span<std::byte> to, const std::byte* from) = 0;

  // Makes a step ready on one device; the number names it from then on. `parts`: into how many pieces of work it may be
  // cut that run at the same time (the result is the same for every cut).
  struct Placed {
    uint32_t step = 0;
    uint32_t parts = 1;
    bool plain = false; // the library did not take it whole: PlacedGemm::plain or the `own` of others runs
  };
  [[nodiscard]] virtual Result<Placed> place(int64_t place, const PlacedKernel& kernel) = 0;
  [[nodiscard]] virtual Result<Placed> place(int64_t place, const PlacedGemm& gemm) = 0;
  // Only asked of a backend whose kernelOptions() have convDTypes; runs as a matrix product does.
  [[nodiscard]] virtual Result<Placed> place(int64_t, const PlacedConv&) {
    return Error{Error::Bug, "this backend has no library for convolutions"};
  }
  // The same of attentionDTypes.
  [[nodiscard]] virtual Result<Placed> place(int64_t, const PlacedAttention&) {
    return Error{Error::Bug, "this backend has no library for attention"};
  }
  // Does part `part` of a step; `worker` is the number of the pool's worker that calls.
  [[nodiscard]] virtual Status runKernel(uint32_t step, uint32_t part, int worker) = 0;
  [[nodiscard]] virtual Status runGemm(uint32_t step, uint32_t part, int worker) = 0;
  [[nodiscard]] virtual Status copy(int64_t place, std::byte* to, const std::byte* from, int64_t bytes) = 0;
  [[nodiscard]] virtual Communicator& communicator() = 0;
  // Waits until everything that was started is done.
  [[nodiscard]] virtual Status finish() = 0;
  // The same after something went wrong: does not wait for what will never come.
  virtual void abandon() { (void)finish(); }

  // True where steps only start work and one worker can keep all devices busy.
  [[nodiscard]] virtual bool asynchronous() const { return false; }
  [[nodiscard]] virtual GraphBackend* graphs() { return nullptr; }
  [[nodiscard]] virtual OverlapBackend* overlap() { return nullptr; }
  // Where asynchronous(): a point in what a place has started, and when that was reached, in nanoseconds since the place's
  // first one. The marks of a run are forgotten by forgetMarks().
  [[nodiscard]] virtual Result<uint32_t> mark(int64_t) {
    return Error{Error::Bug, "this backend has no marks"};
  }
  [[nodiscard]] virtual Result<int64_t> reached(uint32_t) const {
    return Error{Error::Bug, "this backend has no marks"};
  }
  virtual void forgetMarks() {}
  // Where the places are and what carries bytes between them: "2 devices on 1 GPU (NVIDIA H200), …"; "": nothing to say.
  [[nodiscard]] virtual std::string describe() const { return {}; }
  // What --stats adds to that, once the program is loaded: which libraries do what, and why one does not. Lines.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }

  // How long each phase of compile() took, in milliseconds, for --timing and --stats.
  struct Phase {
    std::string name;
    double milliseconds = 0;
  };
  std::vector<Phase> phases;
};

} // namespace dtc
