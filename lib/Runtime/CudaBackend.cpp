#include "dtc/Runtime/CudaBackend.h"

#include "CudaCommunicator.h"
#include "CudaGemm.h"

#include <chrono>

namespace dtc {
namespace {

struct Launch {
  int64_t place = 0;
  CudaFunction function;
  CudaDim grid, block;
  std::vector<void*> buffers;
  std::vector<int64_t> sizes;
  std::vector<void*> arguments; // of the two above, as cuLaunchKernel takes them
};

struct Product {
  int64_t place = 0;
  CudaGemm gemm;
  std::optional<uint32_t> epilogue; // the launch that follows it
};

class CudaBackend final : public Backend {
public:
  CudaBackend(const Nvrtc& nvrtc, const CudaDevice& device)
      : nvrtc_(nvrtc), device_(device), streams_(device), comm_(device, streams_) {}

  std::string_view name() const override { return "cuda"; }
  KernelOptions kernelOptions() const override {
    KernelOptions o;
    o.cpp = false;
    o.cuda = true;
    o.gemmDTypes = 0;
    for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64})
      o.gemmDTypes |= 1u << static_cast<int>(d);
    return o;
  }

  Status compile(const std::vector<KernelSource>& kernels) override;
  Result<std::byte*> allocate(int64_t place, int64_t bytes) override;
  Status write(int64_t place, std::byte* to, std::span<const std::byte> from) override {
    return onStream(place, true,
                    [&](const CudaStream& s) { return device_.copyIn(to, from.data(), from.size(), s); });
  }
  Status read(int64_t place, std::span<std::byte> to, const std::byte* from) override {
    return onStream(place, true,
                    [&](const CudaStream& s) { return device_.copyOut(to.data(), from, to.size(), s); });
  }
  Status copy(int64_t place, std::byte* to, const std::byte* from, int64_t bytes) override {
    return onStream(place, false, [&](const CudaStream& s) {
      return device_.copy(to, from, static_cast<size_t>(bytes), s);
    });
  }

  Result<Placed> place(int64_t place, const PlacedKernel& kernel) override;
  Result<Placed> place(int64_t place, const PlacedGemm& gemm) override;
  Status runKernel(uint32_t step, uint32_t, int) override {
    Launch& l = *launches_[step];
    return onStream(l.place, false, [&](const CudaStream& s) {
      return device_.launch(l.function, l.grid, l.block, 0, l.arguments.data(), s);
    });
  }
  Status runGemm(uint32_t step, uint32_t, int worker) override {
    const Product& p = products_[step];
    auto a = rowBegin(p.place, p.gemm.gemm(), p.gemm.gemm().aRow);
    auto b = rowBegin(p.place, p.gemm.gemm(), p.gemm.gemm().bRow);
    if (!a || !b) return (a ? b : a).error();
    auto done = onStream(p.place, false,
                         [&](const CudaStream& s) { return p.gemm.run(*library_, device_, s, *a, *b); });
    return done && p.epilogue ? runKernel(*p.epilogue, 0, worker) : done;
  }
  Communicator& communicator() override { return comm_; }
  Status finish() override { return streams_.synchronize(); }
  bool asynchronous() const override { return true; }

private:
  // A row that is looked up is asked for: the device must have come so far.
  Result<std::optional<int64_t>> rowBegin(int64_t place, const PlacedGemm& g, const PlacedGemm::Row& row) {
    std::byte bytes[8] = {};
    if (row.index)
      if (Status s = read(place, std::span(bytes, static_cast<size_t>(dtypeBytes(row.dtype))), row.index); !s)
        return s.error();
    return row.begin(bytes, g.dtype);
  }
  // `work` on the stream of a place; waits for it where `wait`.
  template <class Work> Status onStream(int64_t place, bool wait, const Work& work) {
    auto stream = streams_.of(place);
    if (!stream) return stream.error();
    if (Status s = work(*stream); !s || !wait) return s;
    return device_.synchronize(*stream);
  }

  const Nvrtc& nvrtc_;
  CudaDevice device_;
  CudaStreams streams_;
  CudaCommunicator comm_;
  const std::vector<KernelSource>* kernels_ = nullptr;
  std::vector<CudaFunction> functions_;
  std::vector<CudaMemory> memory_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Product> products_;
  std::optional<CublasLt> library_;
};

Status CudaBackend::compile(const std::vector<KernelSource>& kernels) {
  const auto begin = std::chrono::steady_clock::now();
  kernels_ = &kernels;
  std::vector<SourceUnit> units;
  for (const KernelSource& k : kernels) units.push_back({k.name, k.cuda});
  auto binaries = nvrtc_.compile(units, device_.info().arch(), CudaImage::Cubin);
  if (!binaries) return binaries.error();
  for (size_t i = 0; i < kernels.size(); ++i) {
    auto module = device_.load((*binaries)[i].image);
    if (!module) return module.error();
    auto function = device_.function(*module, kernels[i].name);
    if (!function) return function.error();
    functions_.push_back(*function);
  }
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  phases.push_back({"kernels", time.count()});
  return Ok{};
}

Result<std::byte*> CudaBackend::allocate(int64_t place, int64_t bytes) {
  auto memory = device_.allocate(static_cast<size_t>(bytes));
  if (!memory) return memory.error();
  auto cleared = onStream(
      place, true, [&](const CudaStream& s) { return device_.fill(memory->get, 0, memory->bytes, s); });
  if (!cleared) return cleared.error();
  memory_.push_back(*memory);
  return static_cast<std::byte*>(memory->get);
}

Result<Backend::Placed> CudaBackend::place(int64_t place, const PlacedKernel& k) {
  const KernelSource& source = (*kernels_)[k.kernel];
  const int64_t blocks = source.blocks(k.sizes);
  if (blocks > INT32_MAX)
    return machineError("kernel '" + source.name + "' asks for more than 2^31-1 blocks");
  Launch& l = *launches_.emplace_back(std::make_unique<Launch>());
  l.place = place;
  l.function = functions_[k.kernel];
  l.grid.x = static_cast<uint32_t>(blocks);
  l.block.x = static_cast<uint32_t>(source.threadsPerBlock);
  l.buffers = k.buffers;
  l.sizes = k.sizes;
  for (void*& b : l.buffers) l.arguments.push_back(static_cast<void*>(&b));
  for (int64_t& s : l.sizes) l.arguments.push_back(&s);
  return Placed{static_cast<uint32_t>(launches_.size() - 1), blocks > 0 ? 1u : 0u};
}

Result<Backend::Placed> CudaBackend::place(int64_t place, const PlacedGemm& g) {
  const auto number = static_cast<uint32_t>(products_.size());
  bool empty = g.m.extent == 0 || g.n.extent == 0;
  for (const PlacedGemm::Axis& axis : g.batch) empty |= axis.extent == 0;
  if (empty) {
    products_.push_back({place, {}, {}});
    return Placed{number, 0};
  }
  if (!library_) {
    const auto begin = std::chrono::steady_clock::now();
    auto library = CublasLt::open(device_);
    if (!library) return library.error();
    library_.emplace(*library);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    phases.push_back({"open cuBLASLt", time.count()});
  }
  auto gemm = CudaGemm::plan(*library_, device_, g);
  if (!gemm) return gemm.error();
  std::optional<uint32_t> epilogue;
  if (g.epilogue) {
    auto kernel = this->place(place, *g.epilogue);
    if (!kernel) return kernel.error();
    epilogue = kernel->step;
  }
  products_.push_back({place, std::move(*gemm), epilogue});
  return Placed{number, 1};
}

} // namespace

Result<std::unique_ptr<Backend>> makeCudaBackend(const Nvrtc& nvrtc) {
  auto driver = CudaDriver::open();
  if (!driver) return driver.error();
  auto device = CudaDevice::open(*driver, 0);
  if (!device) return device.error();
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(nvrtc, *device));
}

} // namespace dtc
