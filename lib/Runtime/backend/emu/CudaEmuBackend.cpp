#include "dtc/Runtime/backend/emu/CudaEmuBackend.h"

#include "backend/DeviceCollectives.h"
#include "backend/HostMemory.h"
#include "backend/emu/EmuOrder.h"

#include <chrono>
#include <cstring>
#include <map>
#include <optional>

namespace dtc {
namespace {

struct Launch {
  std::string kernel;
  int64_t coordinate = 0;
  std::vector<EmuOrder::Range> reads, writes;
  std::vector<void*> buffers;
  std::vector<int64_t> sizes;
  std::vector<void*> arguments;  // pointers to the two above, for cuLaunchKernel
  std::vector<EmuBuffer> ranges; // of the buffers
  uint32_t blocks = 0, threads = 0, sharedBytes = 0;
};

Status inOrder(std::string race) {
  if (race.empty()) return Ok{};
  return Error{Error::Bug, "cuda-emu: " + race};
}

// Executes kernels of collectives synchronously; `order` detects races that an asynchronous device could
// have.
class EmuQueue final : public DeviceQueue {
public:
  EmuQueue(const CpuJit& jit, bool checks, EmuMemory& memory, EmuOrder& order)
      : jit_(jit), checks_(checks), memory_(memory), order_(order) {}
  Status compile(const SourceUnit& unit) override {
    DTC_TRY(auto module, CudaEmu(jit_, checks_).compile(std::span(&unit, 1)));
    modules_.emplace(unit.name, std::move(module));
    return Ok{};
  }
  Status launch(int64_t coordinate, const std::string& kernel, int64_t elements, std::span<void*> arguments,
                std::span<const DeviceBuffer> buffers) override {
    std::vector<EmuBuffer> ranges;
    std::vector<EmuOrder::Range> reads, writes;
    for (const DeviceBuffer& b : buffers) {
      const EmuBuffer range = rangeOf(b, static_cast<uint32_t>(ranges.size()));
      ranges.push_back(range);
      (b.written ? writes : reads).push_back({b.at, range.bytes});
    }
    if (checks_)
      if (Status s = inOrder(order_.touch(coordinate, "'" + kernel + "'", reads, writes)); !s) return s;
    const auto blocks = static_cast<uint32_t>((elements + 255) / 256);
    return modules_.at(kernel).launch(kernel, {{blocks, 1, 1},
                                               {256, 1, 1},
                                               0,
                                               arguments.data(),
                                               static_cast<uint32_t>(arguments.size()),
                                               ranges,
                                               &memory_});
  }
  Status copy(int64_t coordinate, std::byte* to, const std::byte* from, int64_t bytes) override {
    const EmuOrder::Range read{from, static_cast<size_t>(bytes)}, write{to, static_cast<size_t>(bytes)};
    if (checks_)
      if (Status s = inOrder(order_.touch(coordinate, "a copy", {&read, 1}, {&write, 1})); !s) return s;
    std::memcpy(to, from, static_cast<size_t>(bytes));
    memory_.copy(to, from, static_cast<size_t>(bytes));
    return Ok{};
  }
  Status clear(int64_t coordinate, std::byte* to, int64_t bytes) override {
    const EmuOrder::Range write{to, static_cast<size_t>(bytes)};
    if (checks_)
      if (Status s = inOrder(order_.touch(coordinate, "a fill", {}, {&write, 1})); !s) return s;
    std::memset(to, 0, static_cast<size_t>(bytes));
    memory_.set(to, static_cast<size_t>(bytes), true);
    return Ok{};
  }
  Status waitFor(int64_t coordinate, std::span<const int64_t> others) override {
    order_.waitFor(coordinate, others);
    return Ok{};
  }

private:
  static EmuBuffer rangeOf(const DeviceBuffer& b, uint32_t argument) {
    EmuBuffer range{argument, static_cast<size_t>(b.span()), !b.written, b.written, b.written};
    // The larger stride is the outer one.
    const bool exchanged = b.slabs > 1 && b.rows > 1 && b.slab < b.row;
    const auto size = [](int64_t n) { return static_cast<size_t>(n); };
    const int64_t rows = exchanged ? b.slabs : b.rows, row = exchanged ? b.slab : b.row;
    const int64_t slabs = exchanged ? b.rows : b.slabs, slab = exchanged ? b.row : b.slab;
    if (rows > 1 || slabs > 1)
      range.strips = {size(b.length), size(rows > 1 ? row : 0), size(rows), size(slabs > 1 ? slab : 0)};
    return range;
  }

  const CpuJit& jit_;
  const bool checks_;
  EmuMemory& memory_;
  EmuOrder& order_;
  std::map<std::string, EmuModule> modules_;
};

// The emulated GPU; it has no libraries.
Target emulatedTarget() { return targetNamed(kEmulatedTarget)->withoutLibraries(); }

class CudaEmuBackend final : public Backend {
public:
  CudaEmuBackend(const CpuJit& jit, bool checks)
      : jit_(jit), checks_(checks), queue_(jit, checks, defined_, order_),
        comm_(makeDeviceCommunicator(queue_)) {}

  std::string_view name() const override { return "cuda-emu"; }

  KernelOptions kernelOptions() const override { return {.target = emulatedTarget()}; }

  Status compile(const std::vector<KernelSource>& kernels) override {
    auto begin = std::chrono::steady_clock::now();
    kernels_ = &kernels;
    std::vector<SourceUnit> units;
    for (const KernelSource& k : kernels) {
      if (k.cuda.empty()) return Error{Error::Bug, "kernel '" + k.name + "' has no CUDA text"};
      units.push_back({k.name, k.cuda});
    }
    if (units.empty()) return Ok{};
    DTC_TRY(auto module, CudaEmu(jit_, checks_).compile(units));
    module_.emplace(std::move(module));
    phases.push_back(
        {"kernels",
         std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count()});
    return Ok{};
  }

  Result<std::byte*> allocate(int64_t coordinate, int64_t bytes) override {
    order_.addDevice(coordinate);
    auto memory = memory_.allocate(bytes);
    if (memory && checks_) defined_.add(*memory, static_cast<size_t>(bytes));
    return memory;
  }
  Status write(int64_t coordinate, std::byte* to, std::span<const std::byte> from) override {
    if (from.empty()) return Ok{};
    if (Status s = touched(coordinate, "an input", {}, {to, from.size()}); !s) return s;
    std::memcpy(to, from.data(), from.size());
    defined_.set(to, from.size(), true);
    return Ok{};
  }
  Status read(int64_t coordinate, std::span<std::byte> to, const std::byte* from) override {
    if (Status s = touched(coordinate, "the host", {from, to.size()}, {}); !s) return s;
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
    return Ok{};
  }
  Status copy(int64_t coordinate, std::byte* to, const std::byte* from, int64_t bytes) override {
    const auto size = static_cast<size_t>(bytes);
    if (Status s = touched(coordinate, "a copy", {from, size}, {to, size}); !s) return s;
    std::memcpy(to, from, static_cast<size_t>(bytes));
    defined_.copy(to, from, static_cast<size_t>(bytes));
    return Ok{};
  }

  Result<Placed> place(int64_t coordinate, const PlacedKernel& k) override {
    const KernelSource& source = (*kernels_)[k.kernel];
    int64_t blocks = source.blocks(k.sizes);
    if (blocks > INT32_MAX) return machineError("kernel '" + source.name + "' needs more than 2^31-1 blocks");
    Launch& l = *launches_.emplace_back(std::make_unique<Launch>());
    l.kernel = source.name;
    l.coordinate = coordinate;
    l.threads = static_cast<uint32_t>(source.threadsPerBlock);
    l.sharedBytes = static_cast<uint32_t>(source.sharedBytes);
    l.buffers = k.buffers;
    l.sizes = k.sizes;
    l.blocks = static_cast<uint32_t>(blocks);
    for (uint32_t i = 0; i < l.buffers.size(); ++i) {
      const bool output = i >= source.numInputs;
      const auto bytes = static_cast<size_t>(k.bytes[i]);
      const auto updates = source.buffers[i].updates;
      const bool inPlace = updates && k.buffers[*updates] == k.buffers[i];
      l.ranges.push_back({i, bytes, !output, output, output && !inPlace});
      (output ? l.writes : l.reads).push_back({static_cast<const std::byte*>(k.buffers[i]), bytes});
    }
    for (void*& b : l.buffers) l.arguments.push_back(&b);
    for (int64_t& s : l.sizes) l.arguments.push_back(&s);
    return Placed{static_cast<uint32_t>(launches_.size() - 1), blocks > 0 ? 1u : 0u};
  }
  Result<Placed> place(int64_t, const PlacedGemm&) override {
    return Error{Error::Bug, "cuda-emu has no GEMM library"};
  }

  Result<Placed> place(int64_t coordinate, const PlacedFactorization& f) override {
    Factors& step = factors_.emplace_back();
    step.coordinate = coordinate, step.call = f;
    const size_t operands = f.what.numOperands();
    for (size_t i = 0; i < f.buffers.size(); ++i) {
      const bool output = i >= operands;
      const int64_t bytes = f.batch * (output ? f.what.resultBytes(i - operands) : f.what.operandBytes(i));
      (output ? step.writes : step.reads).push_back({f.buffers[i], static_cast<size_t>(bytes)});
    }
    return Placed{static_cast<uint32_t>(factors_.size() - 1), 1};
  }

  Status runKernel(uint32_t step, uint32_t, int) override {
    const Launch& l = *launches_[step];
    if (checks_)
      if (Status s = inOrder(order_.touch(l.coordinate, "'" + l.kernel + "'", l.reads, l.writes)); !s)
        return s;
    return module_->launch(l.kernel, {{l.blocks, 1, 1},
                                      {l.threads, 1, 1},
                                      l.sharedBytes,
                                      l.arguments.data(),
                                      static_cast<uint32_t>(l.arguments.size()),
                                      l.ranges,
                                      &defined_});
  }
  // A factorization, by its definition instead of cuSOLVER.
  Status runGemm(uint32_t step, uint32_t, int) override {
    const Factors& f = factors_[step];
    if (checks_)
      if (Status s = inOrder(order_.touch(f.coordinate, f.call.what.name(), f.reads, f.writes)); !s) return s;
    computeFactorization(f.call.what, f.call.batch, f.call.buffers);
    for (const EmuOrder::Range& r : f.writes) defined_.set(r.at, r.bytes, true);
    return Ok{};
  }
  Communicator& communicator() override { return *comm_; }
  Status finish() override {
    order_.forget();
    return Ok{};
  }

private:
  Status touched(int64_t coordinate, const char* work, EmuOrder::Range read, EmuOrder::Range write) {
    if (!checks_) return Ok{};
    return inOrder(order_.touch(coordinate, work, {&read, 1}, {&write, 1}));
  }

  struct Factors {
    int64_t coordinate = 0;
    PlacedFactorization call;
    std::vector<EmuOrder::Range> reads, writes;
  };

  const CpuJit& jit_;
  const bool checks_;
  const std::vector<KernelSource>* kernels_ = nullptr;
  std::vector<Factors> factors_;
  std::optional<EmuModule> module_;
  std::vector<std::unique_ptr<Launch>> launches_;
  HostMemory memory_;
  EmuMemory defined_; // all arenas, with checks
  EmuOrder order_;
  EmuQueue queue_;
  std::unique_ptr<Communicator> comm_;
};

} // namespace

std::unique_ptr<Backend> makeCudaEmuBackend(const CpuJit& jit, bool checks) {
  return std::make_unique<CudaEmuBackend>(jit, checks);
}

} // namespace dtc
