#include "dtc/Runtime/backend/cuda/CudaBackend.h"

#include "backend/cuda/CudaAttention.h"
#include "backend/cuda/CudaConv.h"
#include "backend/cuda/CudaDecisions.h"
#include "backend/cuda/CudaDeviceQueue.h"
#include "backend/cuda/CudaFactorization.h"
#include "backend/cuda/CudaGemm.h"
#include "backend/cuda/CudaNarrow.h"
#include "backend/cuda/CudaSchedules.h"
#include "backend/cuda/NcclCommunicator.h"
#include "dtc/Support/Counted.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace dtc {
namespace {

struct Launch {
  int64_t coordinate = 0;
  CudaFunction function;
  CudaDim grid, block;
  uint32_t sharedBytes = 0;
  std::vector<void*> buffers;
  std::vector<int64_t> sizes;
  std::vector<void*> arguments; // pointers to the two above, for cuLaunchKernel
};

struct Product {
  int64_t coordinate = 0;
  CudaGemm gemm;
  std::vector<CudaPack> packs, after;
  std::optional<uint32_t> scales; // the launch that computes its scales
  std::optional<CudaConv> conv;   // set for a convolution
  std::optional<CudaAttention> attention;
  std::optional<CudaFactorization> factors;
  bool empty = false;               // only the epilogue launch runs
  std::optional<uint32_t> epilogue; // the launch that follows it
};

class CudaBackend final : public Backend, private GraphBackend, private OverlapBackend {
public:
  CudaBackend(const Nvrtc& nvrtc, std::unique_ptr<CudaDeviceQueue> queue, std::string about,
              const CudaOptions& options)
      : queue_(std::move(queue)), about_(std::move(about)), deterministic_(options.deterministic),
        tf32_(options.tf32), useCudnn_(options.cudnn), relu_(options.relu), target_(options.target),
        decisions_(*queue_), schedules_(nvrtc, *queue_, options.measureSchedules && !options.deterministic),
        firstMark_(static_cast<size_t>(queue_->count())) {}
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  // Destroying a communicator waits until graphs that captured its collectives are destroyed, and it may
  // refer to buffers used by them.
  ~CudaBackend() override { graphs_.clear(), comm_.reset(); }
  // Error (Machine): see NcclCommunicator::make.
  Status useNccl(const Nccl& library, const CudaOptions& options, const std::string& fewGpus) {
    DTC_TRY(auto nccl,
            NcclCommunicator::make(library, *queue_,
                                   {options.timeoutSeconds, options.dump, options.processes, fewGpus}));
    nccl_ = nccl.get();
    nccl_->dropGraphsBy([this] {
      for (CudaDeviceQueue::Graph& graph : graphs_) graph.parts.clear();
    });
    comm_ = std::move(nccl);
    return Ok{};
  }
  void useOwn() { comm_ = makeDeviceCommunicator(*queue_); }

  std::string_view name() const override { return "cuda"; }
  std::string describe() const override { return about_; }
  KernelOptions kernelOptions() const override {
    if (target_) return {.target = *target_, .otherSchedules = true};
    const CudaDeviceInfo& gpu = queue_->device(queue_->all()[0]).info();
    Target t = *targetNamed(gpu.arch());
    t.gemmRelu = relu_;
    if (!useCudnn_ || !Cudnn::found()) t.attentionDTypes = t.convDTypes = 0;
    if (gpu.sharedPerBlock > 0) t.sharedBytes = std::min(t.sharedBytes, gpu.sharedPerBlock);
    if (gpu.multiprocessors > 0) t.multiprocessors = gpu.multiprocessors;
    return {.target = t, .otherSchedules = true};
  }

  Status compile(const std::vector<KernelSource>& kernels) override;
  Result<std::byte*> allocate(int64_t coordinate, int64_t bytes) override;
  Status write(int64_t coordinate, std::byte* to, std::span<const std::byte> from) override {
    if (!indices_.empty()) indices_.erase({coordinate, to});
    if (nccl_)
      if (Status s = nccl_->finish(coordinate); !s) return s;
    return onStream(coordinate, true, [&](const CudaDevice& d, const CudaStream& s) {
      return d.copyIn(to, from.data(), from.size(), s);
    });
  }
  Status read(int64_t coordinate, std::span<std::byte> to, const std::byte* from) override {
    // Earlier work may include a collective that does not complete.
    if (nccl_)
      if (Status s = nccl_->finish(coordinate); !s) return s;
    return onStream(coordinate, true, [&](const CudaDevice& d, const CudaStream& s) {
      return d.copyOut(to.data(), from, to.size(), s);
    });
  }
  Status copy(int64_t coordinate, std::byte* to, const std::byte* from, int64_t bytes) override {
    return queue_->copy(coordinate, to, from, bytes);
  }

  Result<Placed> place(int64_t coordinate, const PlacedKernel& kernel) override;
  Result<Placed> place(int64_t coordinate, const PlacedGemm& gemm) override;
  Result<Placed> place(int64_t coordinate, const PlacedConv& conv) override;
  Result<Placed> place(int64_t coordinate, const PlacedAttention& attention) override;
  Result<Placed> place(int64_t coordinate, const PlacedFactorization& f) override;
  std::vector<std::string> notes() const override { return notes_; }
  Status runKernel(uint32_t step, uint32_t, int) override {
    Launch& l = *launches_[step];
    return queue_->start(l.coordinate, [&](const CudaDevice& d, const CudaStream& s) {
      return d.launch(l.function, l.grid, l.block, l.sharedBytes, l.arguments.data(), s);
    });
  }
  Status runGemm(uint32_t step, uint32_t, int worker) override;
  Communicator& communicator() override { return *comm_; }
  Status finish() override { return nccl_ ? nccl_->finish() : queue_->synchronize(); }
  void abandon() override {
    if (nccl_)
      nccl_->abandon();
    else
      (void)queue_->synchronize();
  }
  bool asynchronous() const override { return true; }
  Result<bool> busy(int64_t coordinate) override {
    DTC_TRY(const bool idle, queue_->idle(coordinate));
    return !idle;
  }
  Status waitForStream(void* stream) override { return queue_->waitForStream(stream); }

  Result<uint32_t> mark(int64_t coordinate) override;
  Result<int64_t> reached(uint32_t mark) const override;
  void forgetMarks() override {
    marks_.clear();
    firstMark_.assign(firstMark_.size(), std::nullopt);
  }

  GraphBackend* graphs() override { return this; }
  OverlapBackend* overlap() override { return this; }

private:
  Status prepareJoins(size_t count) override { return queue_->reserveOverlap(count); }
  Status beginOverlap(int64_t coordinate) override { return queue_->beginOverlap(coordinate); }
  Status endOverlap(int64_t coordinate, uint32_t join) override {
    return queue_->endOverlap(coordinate, join);
  }
  Status join(int64_t coordinate, uint32_t join) override { return queue_->join(coordinate, join); }
  Status beginGraph() override {
    if (nccl_) nccl_->recorder().beginGraph();
    return queue_->beginCapture(!nccl_);
  }
  Result<uint32_t> endGraph() override {
    auto graph = queue_->endCapture(!nccl_);
    if (nccl_) nccl_->recorder().endGraph();
    if (!graph) return graph.error();
    graphs_.push_back(std::move(*graph));
    return static_cast<uint32_t>(graphs_.size() - 1);
  }
  Status runGraph(uint32_t graph) override {
    if (graphs_[graph].parts.empty())
      return machineError("the communicator was aborted and its graphs were destroyed");
    if (nccl_) nccl_->recorder().replayed(graph);
    return queue_->launch(graphs_[graph]);
  }
  Result<uint32_t> placeStackedCopy(int64_t coordinate, const StackedCopy& copy) override;
  bool canKeep(uint32_t gemmStep) const override {
    const PlacedGemm& g = products_[gemmStep].gemm.gemm();
    return !g.aRow.index && !g.bRow.index && !products_[gemmStep].factors; // cuSOLVER may wait
  }
  bool decides(std::span<const int64_t> coordinates) override {
    if (nccl_ && coordinates.size() > 1) return false; // NCCL collectives cannot be captured in bodies
    const bool possible = decisions_.possible(coordinates);
    if (!decisions_.whyNot().empty())
      note("the host reads the predicates of loops and branches, because " + decisions_.whyNot());
    return possible;
  }
  Status prepareDecisions(size_t depth, size_t counters) override {
    return decisions_.prepare(depth, counters);
  }
  Status branch(std::span<const int64_t> coordinates, const std::byte* predicate, const Body& then,
                const Body& otherwise) override {
    return decisions_.branch(coordinates, predicate, then, otherwise);
  }
  Status loop(std::span<const int64_t> coordinates, const Loop& loop, const Body& body) override {
    return decisions_.loop(coordinates, loop, body);
  }
  Status count(std::span<const int64_t> coordinates, std::span<std::byte* const> indices, Range range,
               const Body& body) override {
    return decisions_.count(coordinates, indices, range, body);
  }
  Result<Decided> decided() override { return decisions_.decided(); }
  Status writeIndex(int64_t coordinate, std::byte* to, int32_t number) override {
    indices_[{coordinate, to}] = number;
    return queue_->start(coordinate, [&](const CudaDevice& d, const CudaStream& s) {
      return d.fillWord(to, static_cast<uint32_t>(number), s);
    });
  }

  // The row's byte offset, read from the device after its pending work, unless the host knows the loop index.
  Result<std::optional<int64_t>> rowBegin(int64_t coordinate, const PlacedGemm& g,
                                          const PlacedGemm::Row& row) {
    std::byte bytes[8] = {};
    const auto known = row.loopIndex ? indices_.find({coordinate, row.index}) : indices_.end();
    if (known != indices_.end())
      std::memcpy(bytes, &known->second, sizeof known->second); // an index is an i32
    else if (row.index)
      if (Status s =
              read(coordinate, std::span(bytes, static_cast<size_t>(dtypeBytes(row.dtype))), row.index);
          !s)
        return s.error();
    return row.begin(bytes, g.dtype);
  }
  // Enqueues `work` on a device's stream; synchronizes if `wait`.
  template <class Work> Status onStream(int64_t coordinate, bool wait, const Work& work) {
    if (Status s = queue_->start(coordinate, work); !s || !wait) return s;
    return queue_->synchronize(coordinate);
  }
  Result<const CublasLt*> library(size_t gpu, int64_t coordinate);
  Result<const Cudnn*> cudnn(int64_t coordinate);
  Status growScratch(int64_t coordinate, size_t bytes);
  Result<Placed> instead(Product product, const PlacedKernel& own, const Error& why);
  void note(std::string line) {
    if (std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(std::move(line));
  }
  void noteTf32(DType dtype) {
    if (tf32_ && dtype == DType::F32)
      note("libraries may round operands of f32 matmuls and convolutions to tf32");
  }
  Result<Placed> placeNarrow(int64_t coordinate, const PlacedGemm& gemm, const CublasLt& lt);
  Result<std::byte*> room(int64_t coordinate, int64_t bytes);
  void took(const char* phase, std::chrono::steady_clock::time_point begin) {
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    for (Phase& p : phases)
      if (p.name == phase) {
        p.milliseconds += time.count();
        return;
      }
    phases.push_back({phase, time.count()});
  }

  std::unique_ptr<CudaDeviceQueue> queue_;
  std::string about_;
  bool deterministic_, tf32_, useCudnn_, relu_;
  std::optional<Target> target_; // CudaOptions::target
  CudaDecisions decisions_;
  std::unique_ptr<Communicator> comm_;
  NcclCommunicator* nccl_ = nullptr; // the communicator, if it is NCCL
  const std::vector<KernelSource>* kernels_ = nullptr;
  CudaSchedules schedules_;
  std::vector<CudaMemory> memory_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::map<size_t, Result<Cudnn>> cudnn_; // by GPU; outlives the plans of products_
  std::vector<Product> products_;
  std::map<size_t, CublasLt> libraries_;  // by GPU
  std::map<size_t, Cusolver> cusolver_;   // by GPU
  std::map<int64_t, CudaMemory> scratch_; // for factorizations, convolutions and attention, by device
  std::vector<std::string> notes_;
  std::vector<CudaDeviceQueue::Graph> graphs_;
  std::map<std::pair<int64_t, const std::byte*>, int32_t>
      indices_; // known loop indices, by device and address
  std::vector<std::pair<int64_t, CudaEvent>> marks_;
  std::vector<std::optional<uint32_t>> firstMark_; // by device
};

Status CudaBackend::compile(const std::vector<KernelSource>& kernels) {
  const auto begin = std::chrono::steady_clock::now();
  kernels_ = &kernels;
  if (Status s = schedules_.compile(kernels); !s) return s;
  took("kernels", begin);
  return Ok{};
}

Result<std::byte*> CudaBackend::allocate(int64_t coordinate, int64_t bytes) {
  DTC_TRY(auto memory, queue_->device(coordinate).allocate(static_cast<size_t>(bytes)));
  auto cleared = onStream(coordinate, true, [&](const CudaDevice& d, const CudaStream& s) {
    return d.fill(memory.get, 0, memory.bytes, s);
  });
  if (!cleared) return cleared.error();
  memory_.push_back(memory);
  return static_cast<std::byte*>(memory.get);
}

Result<Backend::Placed> CudaBackend::place(int64_t coordinate, const PlacedKernel& k) {
  const KernelSource& source = (*kernels_)[k.kernel];
  Launch& l = *launches_.emplace_back(std::make_unique<Launch>());
  l.coordinate = coordinate;
  l.buffers = k.buffers;
  l.sizes = k.sizes;
  for (void*& b : l.buffers) l.arguments.push_back(static_cast<void*>(&b));
  for (int64_t& s : l.sizes) l.arguments.push_back(&s);
  const auto begin = std::chrono::steady_clock::now();
  const int measured = schedules_.measured();
  if (source.blocks(k.sizes) > 0)
    if (Status s = schedules_.choose(coordinate, k.kernel, k.sizes, l.arguments.data()); !s) return s.error();
  if (schedules_.measured() > measured) took("choose schedules", begin);
  const auto [schedule, function] = schedules_.of(k.kernel);
  const int64_t blocks = schedule->blocks(k.sizes);
  if (blocks > INT32_MAX) return machineError("kernel '" + source.name + "' needs more than 2^31-1 blocks");
  if (!queue_->has(function)) // compiled on first use
    if (Status s = queue_->compile({function, schedule->cuda}); !s) return s.error();
  l.function = queue_->function(coordinate, function);
  l.grid.x = static_cast<uint32_t>(blocks);
  l.block.x = static_cast<uint32_t>(schedule->threadsPerBlock);
  l.sharedBytes = static_cast<uint32_t>(schedule->sharedBytes);
  return Placed{static_cast<uint32_t>(launches_.size() - 1), blocks > 0 ? 1u : 0u};
}

Result<const CublasLt*> CudaBackend::library(size_t gpu, int64_t coordinate) {
  if (auto at = libraries_.find(gpu); at != libraries_.end()) return &at->second;
  const auto begin = std::chrono::steady_clock::now();
  DTC_TRY(auto opened, CublasLt::open(queue_->device(coordinate)));
  took("open cuBLASLt", begin);
  return &libraries_.emplace(gpu, opened).first->second;
}

Result<Backend::Placed> CudaBackend::place(int64_t coordinate, const PlacedGemm& g) {
  const auto number = static_cast<uint32_t>(products_.size());
  bool empty = g.m.extent == 0 || g.n.extent == 0;
  for (const PlacedGemm::Axis& axis : g.batch) empty |= axis.extent == 0;
  if (empty) {
    products_.emplace_back().coordinate = coordinate;
    return Placed{number, 0};
  }
  DTC_TRY(auto opened, library(queue_->gpuOf(coordinate), coordinate));
  if (g.narrow || isF8(g.dtype)) return placeNarrow(coordinate, g, *opened);
  Product product;
  product.coordinate = coordinate;
  PlacedGemm taken = g;
  const CudaRoom room = [&](int64_t bytes) { return this->room(coordinate, bytes); };
  if (Status s = packOperands(*queue_, room, taken, false, product.packs); !s) return s.error();
  auto gemm = CudaGemm::plan(*opened, queue_->device(coordinate), taken, deterministic_, tf32_);
  if (!gemm && g.plain && gemm.error().kind == Error::Machine) {
    auto plain = this->place(coordinate, *g.plain);
    if (plain) ++plain->plain;
    return plain;
  }
  if (!gemm) return gemm.error();
  product.gemm = std::move(*gemm);
  if (Status s = growScratch(coordinate, product.gemm.workspaceBytes()); !s) return s.error();
  noteTf32(g.dtype);
  if (g.epilogue) {
    DTC_TRY(auto kernel, this->place(coordinate, *g.epilogue));
    product.epilogue = kernel.step;
  }
  products_.push_back(std::move(product));
  return Placed{number, 1};
}

Result<std::byte*> CudaBackend::room(int64_t coordinate, int64_t bytes) {
  DTC_TRY(auto memory, queue_->device(coordinate).allocate(static_cast<size_t>(bytes)));
  memory_.push_back(memory);
  return static_cast<std::byte*>(memory.get);
}

Result<Backend::Placed> CudaBackend::placeNarrow(int64_t coordinate, const PlacedGemm& g,
                                                 const CublasLt& lt) {
  auto made = planNarrow(
      {*queue_, coordinate, lt, deterministic_, [&](int64_t bytes) { return room(coordinate, bytes); }}, g);
  if (!made) return made.error();
  if (!made->note.empty()) note(made->note);
  Product product;
  product.coordinate = coordinate;
  product.gemm = std::move(made->gemm);
  if (Status s = growScratch(coordinate, product.gemm.workspaceBytes()); !s) return s.error();
  product.packs = std::move(made->packs), product.after = std::move(made->after);
  const PlacedGemm* taken = &g;
  for (uint32_t i = 0; i < made->plain; ++i) taken = taken->plain.get();
  std::optional<PlacedKernel> epilogue = taken->epilogue;
  for (const auto& [kernel, launch] :
       {std::pair(&made->scales, &product.scales), std::pair(&epilogue, &product.epilogue)}) {
    if (!*kernel) continue;
    DTC_TRY(auto placed, this->place(coordinate, **kernel));
    *launch = placed.step;
  }
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), 1, made->plain};
}

Result<const Cudnn*> CudaBackend::cudnn(int64_t coordinate) {
  const size_t gpu = queue_->gpuOf(coordinate);
  auto at = cudnn_.find(gpu);
  if (at == cudnn_.end()) {
    const auto begin = std::chrono::steady_clock::now();
    at = cudnn_.emplace(gpu, Cudnn::open(queue_->device(coordinate))).first;
    took("open cuDNN", begin);
  }
  if (!at->second) return at->second.error();
  return &*at->second;
}

Status CudaBackend::growScratch(int64_t coordinate, size_t bytes) {
  CudaMemory& scratch = scratch_[coordinate];
  if (scratch.bytes >= bytes) return Ok{};
  DTC_TRY(scratch, queue_->device(coordinate).allocate(bytes));
  return Ok{};
}

Result<Backend::Placed> CudaBackend::place(int64_t coordinate, const PlacedConv& c) {
  Product product;
  product.coordinate = coordinate;
  auto opened = cudnn(coordinate);
  Result<CudaConv> conv =
      opened ? CudaConv::plan(**opened, *queue_, c, deterministic_, tf32_) : Result<CudaConv>(opened.error());
  if (!conv) return instead(std::move(product), c.own, conv.error());
  if (Status s = growScratch(coordinate, conv->scratchBytes()); !s) return s.error();
  note("convolutions by cuDNN " + (*opened)->version());
  if (const size_t kernels = conv->numKernels())
    note("a convolution by cuDNN needs " + counted(kernels, "kernel") +
         " for other layouts, uneven padding or a bias");
  product.conv = std::move(*conv);
  noteTf32(c.dtype);
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), 1};
}

Result<Backend::Placed> CudaBackend::place(int64_t coordinate, const PlacedAttention& a) {
  Product product;
  product.coordinate = coordinate;
  auto opened = cudnn(coordinate);
  const auto begin = std::chrono::steady_clock::now();
  Result<CudaAttention> attention =
      opened ? CudaAttention::plan(**opened, a, deterministic_) : Result<CudaAttention>(opened.error());
  took("plan attention", begin);
  if (!attention) return instead(std::move(product), a.own, attention.error());
  if (Status s = growScratch(coordinate, attention->scratchBytes()); !s) return s.error();
  note("attention by cuDNN " + (*opened)->version());
  product.attention = std::move(*attention);
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), 1};
}

Result<Backend::Placed> CudaBackend::place(int64_t coordinate, const PlacedFactorization& f) {
  const size_t gpu = queue_->gpuOf(coordinate);
  auto library = cusolver_.find(gpu);
  if (library == cusolver_.end()) {
    const auto begin = std::chrono::steady_clock::now();
    DTC_TRY(auto opened, Cusolver::open(queue_->device(coordinate)));
    took("open cuSOLVER", begin);
    library = cusolver_.emplace(gpu, opened).first;
  }
  DTC_TRY(auto factors, CudaFactorization::plan(library->second, *queue_, f));
  if (Status s = growScratch(coordinate, factors.scratchBytes()); !s) return s.error();
  Product product;
  product.coordinate = coordinate;
  product.factors = std::move(factors);
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), 1};
}

// Falls back to the generated kernel if cuDNN does not support the step.
Result<Backend::Placed> CudaBackend::instead(Product product, const PlacedKernel& own, const Error& why) {
  if (why.kind != Error::Machine) return why;
  note("generated kernel: " + why.message);
  DTC_TRY(auto kernel, this->place(product.coordinate, own));
  product.empty = true;
  product.epilogue = kernel.step;
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), kernel.parts, true};
}

Result<uint32_t> CudaBackend::placeStackedCopy(int64_t coordinate, const StackedCopy& copy) {
  int64_t width = 8;
  while (copy.bytes % width != 0) width /= 2;
  const SourceUnit unit = stackKernel(bitsOf(width));
  if (!queue_->has(unit.name))
    if (Status s = queue_->compile(unit); !s) return s.error();
  Launch& l = *launches_.emplace_back(std::make_unique<Launch>());
  l.coordinate = coordinate;
  l.function = queue_->function(coordinate, unit.name);
  const int64_t elements = copy.bytes / width, blocks = (elements + 255) / 256;
  if (blocks > INT32_MAX) return machineError("a copy needs more than 2^31-1 blocks");
  l.grid.x = static_cast<uint32_t>(std::max<int64_t>(blocks, 1)), l.block.x = 256;
  l.buffers = {copy.to, const_cast<std::byte*>(copy.from), const_cast<std::byte*>(copy.index)};
  l.sizes = {copy.first, elements};
  for (void*& b : l.buffers) l.arguments.push_back(static_cast<void*>(&b));
  for (int64_t& s : l.sizes) l.arguments.push_back(&s);
  return static_cast<uint32_t>(launches_.size() - 1);
}

Status CudaBackend::runGemm(uint32_t step, uint32_t, int worker) {
  Product& p = products_[step];
  if (p.factors)
    return p.factors->run(cusolver_.at(queue_->gpuOf(p.coordinate)), *queue_, p.coordinate,
                          scratch_[p.coordinate].get);
  if (p.conv)
    return p.conv->run(*cudnn_.at(queue_->gpuOf(p.coordinate)), *queue_, p.coordinate,
                       scratch_[p.coordinate].get);
  if (p.attention)
    return p.attention->run(*cudnn_.at(queue_->gpuOf(p.coordinate)), *queue_, p.coordinate,
                            scratch_[p.coordinate].get);
  if (p.empty) return p.epilogue ? runKernel(*p.epilogue, 0, worker) : Status(Ok{});
  if (p.scales)
    if (Status s = runKernel(*p.scales, 0, worker); !s) return s;
  for (const CudaPack& one : p.packs)
    if (Status s = runPack(*queue_, p.coordinate, one); !s) return s;
  auto a = rowBegin(p.coordinate, p.gemm.gemm(), p.gemm.gemm().aRow);
  auto b = rowBegin(p.coordinate, p.gemm.gemm(), p.gemm.gemm().bRow);
  if (!a || !b) return (a ? b : a).error();
  const CublasLt& lt = libraries_.at(queue_->gpuOf(p.coordinate));
  Status done = queue_->start(p.coordinate, [&](const CudaDevice& d, const CudaStream& s) {
    return p.gemm.run(lt, d, s, *a, *b, scratch_[p.coordinate].get);
  });
  for (const CudaPack& one : p.after)
    if (done) done = runPack(*queue_, p.coordinate, one);
  return done && p.epilogue ? runKernel(*p.epilogue, 0, worker) : done;
}

Result<uint32_t> CudaBackend::mark(int64_t coordinate) {
  auto& first = firstMark_[queue_->indexOf(coordinate)];
  if (!first)
    if (Status s = queue_->occupy(coordinate); !s) return s.error();
  DTC_TRY(auto event, queue_->mark(coordinate));
  marks_.emplace_back(coordinate, event);
  const auto number = static_cast<uint32_t>(marks_.size() - 1);
  if (!first) first = number;
  return number;
}

Result<int64_t> CudaBackend::reached(uint32_t mark) const {
  const auto& [coordinate, event] = marks_[mark];
  const CudaEvent& first = marks_[*firstMark_[queue_->indexOf(coordinate)]].second;
  DTC_TRY(auto ms, queue_->device(coordinate).milliseconds(first, event));
  return static_cast<int64_t>(static_cast<double>(ms) * 1e6);
}

} // namespace

Result<std::unique_ptr<Backend>> makeCudaBackend(const Nvrtc& nvrtc, const CudaOptions& o) {
  DTC_TRY(auto driver, CudaDriver::open(o.driver));
  std::vector<int> ordinals(std::min(driver.devices().size(), static_cast<size_t>(o.numDevices)));
  std::iota(ordinals.begin(), ordinals.end(), 0);
  const int64_t each = o.processes ? o.numDevices / o.processes->size() : o.numDevices;
  const int64_t first = o.processes ? o.processes->rank() * each : 0;
  const size_t gpus = driver.devices().size();
  const bool enough = gpus >= static_cast<size_t>(o.numDevices);
  std::optional<Nccl> library;
  std::string why;
  if (o.comm == "nccl" || (o.comm.empty() && o.numDevices > 1 && enough)) {
    // By default NCCL chooses algorithms by measurement, and some of them sum in arrival order.
    if (o.deterministic) setenv("NCCL_ALGO", "Ring", 0), setenv("NCCL_PROTO", "Simple", 0);
    auto opened = Nccl::open();
    if (opened)
      library = *opened;
    else if (o.comm == "nccl")
      return opened.error();
    else
      why = ": " + opened.error().message;
  }
  std::string few;
  if (o.processes) {
    DTC_TRY(auto own, gpusOfProcess(*o.processes, driver.devices(), each));
    ordinals = std::move(own.ordinals), few = std::move(own.few);
  }
  DTC_TRY(auto devices, openGpus(driver, ordinals));
  DTC_TRY(auto queue, CudaDeviceQueue::make(std::move(devices), {first, first + each}, nvrtc));
  std::string about = queue->layoutText() + ", collectives by ";
  if (o.processes)
    about = counted(static_cast<size_t>(o.numDevices), "device") + " in " +
            std::to_string(o.processes->size()) + " processes; in the first, " + about;
  if (library) {
    const bool amd = library->path().find("librccl") != std::string::npos;
    about += (amd ? "RCCL " : "NCCL ") + library->version() + " (--comm nccl)";
  } else {
    DTC_TRY(auto unconnected, queue->connect(driver));
    about += "dtc's own kernels and copies (--comm local)";
    if (unconnected) about += ", through copies because GPUs have no peer access";
  }
  auto made = std::make_unique<CudaBackend>(nvrtc, std::move(queue), about + why, o);
  if (library) {
    if (Status s = made->useNccl(*library, o, few); !s) return s.error();
  } else {
    made->useOwn();
  }
  return std::unique_ptr<Backend>(std::move(made));
}

} // namespace dtc
