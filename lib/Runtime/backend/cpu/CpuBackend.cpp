#include "dtc/Runtime/backend/cpu/CpuBackend.h"

#include "backend/HostMemory.h"
#include "backend/PointerSlots.h"
#include "backend/cpu/CpuConv.h"
#include "backend/cpu/CpuGemm.h"
#include "backend/cpu/Lapack.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <unistd.h>

namespace dtc {
namespace {

using KernelFunction = CpuKernelFunction;
constexpr int64_t kPartElements = 16384;     // minimum elements per part, about a few microseconds
constexpr int64_t kWorthMeasuring = 1 << 16; // minimum elements of a kernel for autotuning
constexpr int kMeasuringRounds = 4;          // the first warms up

// Of packed copies of arguments: a quarter of the memory.
int64_t mostPackedBytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) / 4; }

double sinceMs(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

struct KernelStep {
  KernelFunction* function = nullptr;
  std::vector<void*> buffers;
  std::vector<int64_t> sizes;
  int64_t units = 0;
  uint32_t parts = 1;
};

class CpuBackend final : public Backend, private RebindBackend {
public:
  CpuBackend(const CpuJit& jit, ThreadPool& pool, int64_t numDevices, const JitConfig& config, int optLevel,
             std::unique_ptr<Communicator> communicator)
      : jit_(jit), pool_(pool), config_(config), optLevel_(optLevel), packed_(mostPackedBytes()),
        gemms_(config_, packed_, level() != CpuLevel::Avx512, !hasByteProducts()),
        scratch_(static_cast<size_t>(pool.size())),
        maxParts_(std::max<int64_t>(1, (2 * pool.size() + numDevices - 1) / numDevices)),
        comm_(communicator ? std::move(communicator) : makeLocalCommunicator()) {
    if (pool.size() == 1) maxParts_ = 1;
  }
  std::string_view name() const override { return "cpu"; }

  KernelOptions kernelOptions() const override {
    Target t = *targetNamed("cpu");
    t.vectorBytes = vectorBytes(level());
    // oneDNN has bf16 matmuls for AVX-512 only; otherwise they are generated kernels.
    t.convDTypes = dtypeBit(DType::F32) | dtypeBit(DType::BF16);
    if (level() != CpuLevel::Avx512)
      for (uint32_t* dtypes : {&t.gemmDTypes, &t.convDTypes}) *dtypes &= ~dtypeBit(DType::BF16);
    if (level() == CpuLevel::Generic) t.gemmDTypes &= ~(dtypeBit(DType::I8) | dtypeBit(DType::U8));
    return {.target = t, .otherSchedules = optLevel_ >= 3};
  }

  Status compile(const std::vector<KernelSource>& kernels) override {
    kernels_ = &kernels;
    functions_.resize(kernels.size());
    std::vector<size_t> needed;
    for (size_t i = 0; i < kernels.size(); ++i)
      if (!kernels[i].standby || config_.collected) needed.push_back(i);
    return compile(needed, true);
  }

  Result<std::byte*> allocate(int64_t, int64_t bytes) override { return memory_.allocate(bytes); }
  Status write(int64_t, std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    return Ok{};
  }
  Status read(int64_t, std::span<std::byte> to, const std::byte* from) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
    return Ok{};
  }
  bool isHostMemory() const override { return true; }
  Status copy(int64_t, std::byte* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return Ok{};
  }

  Result<Placed> place(int64_t, const PlacedKernel& k) override {
    if (Status compiled = ensureCompiled(k.kernel); !compiled) return compiled.error();
    const KernelSource& source = (*kernels_)[k.kernel];
    KernelStep s{functions_[k.kernel], k.buffers, k.sizes, source.units(k.sizes), 1};
    int64_t elements = s.units * source.unitElements(k.sizes);
    s.parts =
        static_cast<uint32_t>(std::clamp<int64_t>(std::min(elements / kPartElements, s.units), 1, maxParts_));
    if (s.units == 0) s.parts = 0;
    if (Status grown = growScratch(static_cast<size_t>(source.scratchBytes(k.sizes))); !grown)
      return grown.error();
    if (auto others = others_.find(source.name); others != others_.end() && elements >= kWorthMeasuring) {
      s.function = functions_[k.kernel] = fastest(s, others->second);
      others_.erase(others);
    }
    steps_.push_back(std::move(s));
    return Placed{static_cast<uint32_t>(steps_.size() - 1), steps_.back().parts};
  }
  Result<Placed> place(int64_t, const PlacedGemm& g) override {
    if (Status opened = openLibrary(); !opened) return opened.error();
    const KernelSource* source = g.epilogue ? &(*kernels_)[g.epilogue->kernel] : nullptr;
    auto placed = library(LibraryStep::Gemm,
                          gemms_.place(g, source ? functions_[g.epilogue->kernel] : nullptr, source));
    const int64_t own = source ? source->scratchBytes(g.epilogue->sizes) : 0;
    for (size_t bytes : {gemms_.scratchBytes(), static_cast<size_t>(own)})
      if (Status grown = growScratch(bytes); !grown) return grown.error();
    return placed;
  }
  Result<Placed> place(int64_t coordinate, const PlacedConv& c) override {
    if (Status opened = openLibrary(); !opened) return opened.error();
    // One part per worker, since each part reorders shared operands again.
    DTC_TRY(auto conv, convs_->place(c, (maxParts_ + 1) / 2));
    if (conv) {
      const KernelSource& source = (*kernels_)[c.own.kernel];
      for (size_t bytes : {convs_->scratchBytes(), static_cast<size_t>(source.scratchBytes(c.own.sizes))})
        if (Status grown = growScratch(bytes); !grown) return grown.error();
      auto placed = library(LibraryStep::Conv, *conv);
      librarySteps_.back().own = c.own, librarySteps_.back().parts = placed->parts;
      standby_.emplace(c.own.kernel, source);
      return placed;
    }
    auto own = library(LibraryStep::Kernel, this->place(coordinate, c.own));
    if (own) own->plain = 1;
    return own;
  }

  Result<Placed> place(int64_t, const PlacedFactorization& f) override {
    if (Status opened = lapack_.open(); !opened) return opened.error();
    factors_.push_back(f);
    auto placed = library(LibraryStep::Factors, Placed{static_cast<uint32_t>(factors_.size() - 1), 1});
    const int64_t parallelism = std::min(maxParts_, f.batch * f.what.flops() / kPartFlops);
    librarySteps_.back().parts = placed->parts =
        static_cast<uint32_t>(std::clamp<int64_t>(parallelism, 1, std::max<int64_t>(f.batch, 1)));
    return placed;
  }

  Status runKernel(uint32_t step, uint32_t part, int worker) override {
    const KernelStep& s = steps_[step];
    Interval units = shardInterval(s.units, s.parts, part);
    s.function(s.buffers.data(), s.sizes.data(), units.begin, units.end,
               scratch_[static_cast<size_t>(worker)].data);
    return Ok{};
  }
  Status runGemm(uint32_t step, uint32_t part, int worker) override {
    const LibraryStep& s = librarySteps_[step];
    void* scratch = scratch_[static_cast<size_t>(worker)].data;
    if (s.kind == LibraryStep::Kernel) return runKernel(s.number, part, worker);
    if (s.kind == LibraryStep::Gemm) return gemms_.run(s.number, part, scratch);
    if (s.kind == LibraryStep::Factors) {
      const PlacedFactorization& f = factors_[s.number];
      const Interval matrices = shardInterval(f.batch, s.parts, part);
      lapack_.run(f, matrices.begin, matrices.end);
      return Ok{};
    }
    if (!convs_->paddingMatters(s.number)) return convs_->run(s.number, part, scratch);
    {
      const std::lock_guard lock(compiling_);
      if (Status compiled = ensureCompiled(s.own.kernel); !compiled) return compiled;
    }
    const Interval units = shardInterval(standby_.at(s.own.kernel).units(s.own.sizes), s.parts, part);
    functions_[s.own.kernel](s.own.buffers.data(), s.own.sizes.data(), units.begin, units.end, scratch);
    return Ok{};
  }
  Communicator& communicator() override { return *comm_; }
  Status finish() override { return Ok{}; }
  RebindBackend* rebinding() override { return this; }

private:
  void prepareRebinding(std::span<const MemoryRange> ranges) override {
    slots_.emplace(ranges);
    const auto addAll = [&](std::vector<void*>& buffers) {
      for (void*& b : buffers) slots_->add(b);
    };
    for (KernelStep& s : steps_) addAll(s.buffers);
    for (LibraryStep& s : librarySteps_) addAll(s.own.buffers);
    for (PlacedFactorization& f : factors_)
      for (std::byte*& b : f.buffers) slots_->add(b);
    gemms_.addPointers(*slots_);
    if (convs_) convs_->addPointers(*slots_);
  }
  void rebind(size_t range, std::byte* to) override {
    slots_->rebind(range, to);
    gemms_.rebind(slots_->range(range), range, to);
    if (convs_) convs_->rebind(slots_->range(range), range, to);
    release(range);
  }
  Status keep(size_t range) override {
    gemms_.beforeKeeping(range);
    packed_.keep(range);
    if (convs_) convs_->keep(range);
    gemms_.chooseKernels(range);
    return growScratch(gemms_.scratchBytes());
  }
  void release(size_t range) override {
    packed_.release(range);
    if (convs_) convs_->release(range);
    gemms_.chooseKernels(range);
  }
  struct Scratch {
    void* data = nullptr;
  };
  struct LibraryStep {
    enum Kind : uint8_t { Gemm, Conv, Factors, Kernel } kind;
    uint32_t number;
    PlacedKernel own = {}; // the generated kernel of a convolution, if the library's result would differ
    uint32_t parts = 0;
  };
  Result<Placed> library(LibraryStep::Kind kind, Result<Placed> placed) {
    if (!placed) return placed;
    librarySteps_.push_back({kind, placed->step});
    placed->step = static_cast<uint32_t>(librarySteps_.size() - 1);
    return placed;
  }
  Status openLibrary() {
    if (gemms_.isOpen()) return Ok{};
    auto begin = std::chrono::steady_clock::now();
    if (Status opened = gemms_.open(); !opened) return opened;
    convs_.emplace(gemms_.oneDnn(), packed_);
    phases.push_back({"open oneDNN", sinceMs(begin)});
    return Ok{};
  }
  // `shared`: all processes of the run compile the same now.
  Status compile(const std::vector<size_t>& kernels, bool shared = false);
  // Without VNNI, oneDNN adds pairs of products of bytes in i16, which saturates (its guide, "Nuances of int8
  // computations").
  bool hasByteProducts() const { return level() == CpuLevel::Avx512 && __builtin_cpu_supports("avx512vnni"); }
  CpuLevel level() const { return config_.level.value_or(hostCpuLevel()); }
  const KernelSource& sourceOf(size_t kernel) const {
    const auto kept = standby_.find(kernel);
    return kept == standby_.end() ? (*kernels_)[kernel] : kept->second;
  }
  // Standby kernels are compiled on first use.
  Status ensureCompiled(size_t kernel) { return functions_[kernel] ? Status(Ok{}) : compile({kernel}); }
  Status growScratch(size_t bytes) {
    if (bytes <= scratchBytes_) return Ok{};
    for (Scratch& s : scratch_) {
      DTC_TRY(s.data, allocate(0, static_cast<int64_t>(bytes)));
    }
    scratchBytes_ = bytes;
    return Ok{};
  }
  void runOnAll(const KernelStep& s, KernelFunction* function); // on all workers, as in a run
  KernelFunction* fastest(const KernelStep& s, const std::vector<KernelFunction*>& others);

  const CpuJit& jit_;
  ThreadPool& pool_;
  JitConfig config_;
  int optLevel_;
  const std::vector<KernelSource>* kernels_ = nullptr; // valid until the program is loaded
  std::unordered_map<size_t, KernelSource> standby_;   // not compiled yet
  std::vector<CpuModule> modules_;
  std::vector<KernelFunction*> functions_; // by kernel; null: not compiled
  std::unordered_map<std::string, std::vector<KernelFunction*>>
      others_; // schedules not yet measured, by kernel
  std::vector<KernelStep> steps_;
  PackedOperands packed_;
  CpuGemms gemms_;
  std::optional<CpuConvs> convs_; // set when the plugin is open
  Lapack lapack_;
  std::vector<PlacedFactorization> factors_;
  std::vector<LibraryStep> librarySteps_;
  std::mutex compiling_;              // guards compilation during runs
  std::optional<PointerSlots> slots_; // set by prepareRebinding
  HostMemory memory_;
  std::vector<Scratch> scratch_; // by worker
  size_t scratchBytes_ = 0;
  int64_t maxParts_;
  std::unique_ptr<Communicator> comm_;
};

// Compiles the given kernels of the set.
Status CpuBackend::compile(const std::vector<size_t>& kernels, bool shared) {
  auto begin = std::chrono::steady_clock::now();
  std::vector<SourceUnit> units;
  const auto other = [](const KernelSource& k, size_t i) { return k.name + "_" + std::to_string(i + 1); };
  for (size_t number : kernels) {
    const KernelSource& k = sourceOf(number);
    units.push_back({k.name, k.cpp});
    for (size_t i = 0; i < k.otherCpp.size(); ++i) units.push_back({other(k, i), k.otherCpp[i]});
  }
  if (units.empty()) return Ok{};
  CpuCompileOptions options;
  options.optLevel = std::min(optLevel_, 1);
  options.level = level();
  CpuCompileReport report;
  if (shared) { // each process of a host compiles a part, which the others find in the cache
    const Communicator::OnHost host = comm_->onHost();
    std::vector<SourceUnit> own;
    for (size_t i = 0; i < units.size(); ++i)
      if (static_cast<int>(i) % host.count == host.index) own.push_back(units[i]);
    if (!own.empty() && host.count > 1) {
      DTC_TRY(const auto first, jit_.compile(own, options, &report));
    }
    if (Status s = comm_->barrier(); !s) return s;
  }
  const size_t compiledFirst = report.compiled;
  const double firstMs = report.compileMs;
  DTC_TRY(auto module, jit_.compile(units, options, &report));
  report.compiled += compiledFirst;
  report.compileMs += firstMs;
  for (size_t number : kernels) {
    const KernelSource& k = sourceOf(number);
    functions_[number] = module.function<KernelFunction>(k.name);
    if (!functions_[number])
      return Error{Error::Bug, "the compiled code of kernel '" + k.name + "' lacks its function"};
    for (size_t i = 0; i < k.otherCpp.size(); ++i)
      others_[k.name].push_back(module.function<KernelFunction>(other(k, i)));
  }
  modules_.push_back(std::move(module));
  phases.push_back({"compile kernels (" + std::to_string(report.compiled) + ", and " +
                        std::to_string(report.units - report.compiled) + " from the cache)",
                    report.compileMs});
  phases.push_back({"load kernels", sinceMs(begin) - report.compileMs});
  return Ok{};
}

void CpuBackend::runOnAll(const KernelStep& s, KernelFunction* function) {
  struct Round {
    const KernelStep& step;
    KernelFunction* function;
    const std::vector<Scratch>& scratch;
    std::atomic<uint32_t> next{0};
    static void work(void* self, int worker) {
      auto& [step, function, scratch, next] = *static_cast<Round*>(self);
      for (uint32_t part; (part = next.fetch_add(1, std::memory_order_relaxed)) < step.parts;) {
        const Interval units = shardInterval(step.units, step.parts, part);
        function(step.buffers.data(), step.sizes.data(), units.begin, units.end,
                 scratch[static_cast<size_t>(worker)].data);
      }
    }
  } round{s, function, scratch_};
  if (s.parts <= 1)
    Round::work(&round, 0);
  else
    pool_.runOnWorkers(&Round::work, &round);
}

// Autotunes a kernel on its own buffers: schedules run interleaved, and the best of a few runs counts.
// Arguments are not set yet, so results may be overwritten; the time does not depend on values.
KernelFunction* CpuBackend::fastest(const KernelStep& s, const std::vector<KernelFunction*>& others) {
  auto begin = std::chrono::steady_clock::now();
  std::vector<KernelFunction*> all = {s.function};
  all.insert(all.end(), others.begin(), others.end());
  std::vector<double> best(all.size(), 1e300);
  for (int round = 0; round < kMeasuringRounds; ++round)
    for (size_t i = 0; i < all.size(); ++i) {
      auto start = std::chrono::steady_clock::now();
      runOnAll(s, all[i]);
      if (round > 0) best[i] = std::min(best[i], sinceMs(start));
    }
  size_t chosen = 0; // keep the first if the gain is within noise
  for (size_t i = 1; i < all.size(); ++i)
    if (best[i] < 0.97 * best[0] && best[i] < best[chosen]) chosen = i;
  if (phases.empty() || phases.back().name != "choose schedules") phases.push_back({"choose schedules", 0});
  phases.back().milliseconds += sinceMs(begin);
  return all[chosen];
}

} // namespace

std::unique_ptr<Backend> makeCpuBackend(const CpuJit& jit, ThreadPool& pool, int64_t numDevices,
                                        const JitConfig& config, int optLevel,
                                        std::unique_ptr<Communicator> communicator) {
  return std::make_unique<CpuBackend>(jit, pool, numDevices, config, optLevel, std::move(communicator));
}

} // namespace dtc
