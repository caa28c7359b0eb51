// A backend for a GPU that is not here: it compiles what a load on that GPU needs, and runs nothing.
#include "backend/DeviceCollectives.h"
#include "backend/cuda/CudaConv.h"
#include "backend/cuda/CudaFactorization.h"
#include "backend/cuda/NcclExchange.h"

#include "dtc/Cuda/FitKernels.h"
#include "dtc/Runtime/backend/cuda/CudaBackend.h"

namespace dtc {
namespace {

Error runsNothing() { return {Error::Bug, "a GPU that is not here runs nothing"}; }

class KernelCompiler {
public:
  KernelCompiler(const Nvrtc& nvrtc, std::string arch) : nvrtc_(nvrtc), arch_(std::move(arch)) {}
  Status compile(std::span<const SourceUnit> units) const {
    auto made = nvrtc_.compile(units, arch_, CudaImage::Cubin);
    return made ? Status(Ok{}) : Status(made.error());
  }
  // The schedules that a load chooses from, and the kernels that stand by for library calls.
  Status compile(const std::vector<KernelSource>& kernels) const {
    DTC_TRY(const auto fitted, fitKernels(nvrtc_, kernels, arch_));
    std::vector<SourceUnit> units = cudaHelperKernels();
    for (size_t i = 0; i < kernels.size(); ++i)
      if (kernels[i].standby) units.push_back({kernels[i].name, fitted[i].schedule.cuda});
    return compile(units);
  }

private:
  const Nvrtc& nvrtc_;
  std::string arch_;
};

class CollectorQueue final : public DeviceQueue {
public:
  explicit CollectorQueue(const KernelCompiler& compiler) : compiler_(compiler) {}
  Status compile(const SourceUnit& unit) override { return compiler_.compile(std::span(&unit, 1)); }
  Status launch(int64_t, const std::string&, int64_t, std::span<void*>,
                std::span<const DeviceBuffer>) override {
    return runsNothing();
  }
  Status copy(int64_t, std::byte*, const std::byte*, int64_t) override { return runsNothing(); }
  Status clear(int64_t, std::byte*, int64_t) override { return runsNothing(); }
  Status waitFor(int64_t, std::span<const int64_t>) override { return runsNothing(); }

private:
  const KernelCompiler& compiler_;
};

// The kernels of both communicators: which one runs is known when the package is loaded.
class CollectorCommunicator final : public Communicator {
public:
  explicit CollectorCommunicator(const KernelCompiler& compiler)
      : compiler_(compiler), queue_(compiler), local_(makeDeviceCommunicator(queue_)) {}
  std::string_view name() const override { return "none"; }
  Status prepare(const CollectivePlan& plan) override {
    if (Status s = local_->prepare(plan); !s) return s;
    return compiler_.compile(ncclKernels(plan));
  }
  Status share(const CollectivePlan&, const CollectiveGroup&, size_t, std::span<const std::byte* const>,
               std::span<std::byte* const>) override {
    return runsNothing();
  }
  Status settle(const CollectivePlan&, const CollectiveGroup&) override { return runsNothing(); }

private:
  const KernelCompiler& compiler_;
  CollectorQueue queue_;
  std::unique_ptr<Communicator> local_;
};

class CudaCollector final : public Backend {
public:
  CudaCollector(const Nvrtc& nvrtc, const Target& target)
      : target_(target), compiler_(nvrtc, target.name), communicator_(compiler_) {}
  std::string_view name() const override { return "cuda"; }
  KernelOptions kernelOptions() const override { return {.target = target_, .otherSchedules = true}; }
  Status compile(const std::vector<KernelSource>& kernels) override { return compiler_.compile(kernels); }
  // An address that nothing reads or writes.
  Result<std::byte*> allocate(int64_t, int64_t bytes) override {
    constexpr uintptr_t kAlignment = 4096;
    std::byte* const at = reinterpret_cast<std::byte*>(next_); // NOLINT(performance-no-int-to-ptr)
    next_ += (static_cast<uintptr_t>(bytes) / kAlignment + 1) * kAlignment;
    return at;
  }
  Status write(int64_t, std::byte*, std::span<const std::byte>) override { return Ok{}; }
  Status read(int64_t, std::span<std::byte>, const std::byte*) override { return runsNothing(); }
  Result<Placed> place(int64_t, const PlacedKernel&) override { return Placed{}; }
  Result<Placed> place(int64_t, const PlacedGemm&) override { return Placed{}; }
  Result<Placed> place(int64_t, const PlacedConv& c) override { return withKernels(convKernels(c.dtype)); }
  Result<Placed> place(int64_t, const PlacedAttention&) override { return Placed{}; }
  Result<Placed> place(int64_t, const PlacedFactorization& f) override {
    return withKernels(factorizationKernels(f.what));
  }
  Status runKernel(uint32_t, uint32_t, int) override { return runsNothing(); }
  Status runGemm(uint32_t, uint32_t, int) override { return runsNothing(); }
  Status copy(int64_t, std::byte*, const std::byte*, int64_t) override { return runsNothing(); }
  Communicator& communicator() override { return communicator_; }
  Status finish() override { return Ok{}; }

private:
  Result<Placed> withKernels(const std::vector<SourceUnit>& units) const {
    if (Status s = compiler_.compile(units); !s) return s.error();
    return Placed{};
  }
  Target target_;
  KernelCompiler compiler_;
  CollectorCommunicator communicator_;
  uintptr_t next_ = uintptr_t{1} << 40;
};

} // namespace

Result<std::unique_ptr<Backend>> makeCudaCollector(const Nvrtc& nvrtc, std::string_view arch) {
  DTC_TRY(const auto target, targetNamed(arch));
  return std::unique_ptr<Backend>(std::make_unique<CudaCollector>(nvrtc, target));
}

} // namespace dtc
