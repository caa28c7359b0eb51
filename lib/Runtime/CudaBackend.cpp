#include "dtc/Runtime/CudaBackend.h"

#include "CudaAttention.h"
#include "CudaConv.h"
#include "CudaDecisions.h"
#include "CudaGemm.h"
#include "CudaNarrow.h"
#include "CudaPlaces.h"
#include "CudaSchedules.h"
#include "NcclCommunicator.h"

#include <algorithm>
#include <chrono>

namespace dtc {
namespace {

struct Launch {
  int64_t place = 0;
  CudaFunction function;
  CudaDim grid, block;
  uint32_t sharedBytes = 0;
  std::vector<void*> buffers;
  std::vector<int64_t> sizes;
  std::vector<void*> arguments; // of the two above, as cuLaunchKernel takes them
};

struct Product {
  int64_t place = 0;
  CudaGemm gemm;
  std::vector<CudaPack> packs, after;
  std::optional<uint32_t> scales; // the launch that makes its scales
  std::optional<CudaConv> conv;   // it is a convolution
  std::optional<CudaAttention> attention;
  bool empty = false;               // it is nothing but
  std::optional<uint32_t> epilogue; // the launch that follows it
};

class CudaBackend final : public Backend, private GraphBackend, private OverlapBackend {
public:
  CudaBackend(const Nvrtc& nvrtc, std::unique_ptr<CudaPlaces> places, std::string about,
              const CudaOptions& options)
      : places_(std::move(places)), about_(std::move(about)), deterministic_(options.deterministic),
        tf32_(options.tf32), useCudnn_(options.cudnn), relu_(options.relu), decisions_(*places_),
        schedules_(nvrtc, *places_, options.measureSchedules && !options.deterministic),
        firstMark_(static_cast<size_t>(places_->count())) {}
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  // A communicator waits for the graphs that captured its collectives to be gone, and may know of buffers that they used.
  ~CudaBackend() override { graphs_.clear(), comm_.reset(); }
  // Error (Machine): as NcclCommunicator::make.
  Status useNccl(const Nccl& library, const CudaOptions& options) {
    auto nccl = NcclCommunicator::make(library, *places_, {options.timeoutSeconds, options.dump});
    if (!nccl) return nccl.error();
    nccl_ = nccl->get();
    nccl_->dropGraphsBy([this] {
      for (CudaPlaces::Graph& graph : graphs_) graph.parts.clear();
    });
    comm_ = std::move(*nccl);
    return Ok{};
  }
  void useOwn() { comm_ = makeDeviceCommunicator(*places_); }

  std::string_view name() const override { return "cuda"; }
  std::string describe() const override { return about_; }
  KernelOptions kernelOptions() const override {
    KernelOptions o;
    o.cpp = false;
    o.cuda = true;
    o.otherSchedules = true;
    o.gemmEpilogues = true;
    o.gemmRelu = relu_;
    if (useCudnn_ && Cudnn::found()) {
      for (DType d : {DType::F16, DType::BF16}) o.attentionDTypes |= 1u << static_cast<int>(d);
      for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64})
        o.convDTypes |= 1u << static_cast<int>(d);
    }
    o.gemmDTypes = kCublasDTypes;
    const CudaDeviceInfo& gpu = places_->device(0).info();
    o.target = cudaTargetOf(gpu.arch());
    if (gpu.sharedPerBlock > 0) o.target.sharedBytes = std::min(o.target.sharedBytes, gpu.sharedPerBlock);
    if (gpu.multiprocessors > 0) o.target.multiprocessors = gpu.multiprocessors;
    return o;
  }

  Status compile(const std::vector<KernelSource>& kernels) override;
  Result<std::byte*> allocate(int64_t place, int64_t bytes) override;
  Status write(int64_t place, std::byte* to, std::span<const std::byte> from) override {
    if (!indices_.empty()) indices_.erase({place, to});
    return onStream(place, true, [&](const CudaDevice& d, const CudaStream& s) {
      return d.copyIn(to, from.data(), from.size(), s);
    });
  }
  Status read(int64_t place, std::span<std::byte> to, const std::byte* from) override {
    // What stands before it may be a collective that does not end.
    if (nccl_)
      if (Status s = nccl_->finish(place); !s) return s;
    return onStream(place, true, [&](const CudaDevice& d, const CudaStream& s) {
      return d.copyOut(to.data(), from, to.size(), s);
    });
  }
  Status copy(int64_t place, std::byte* to, const std::byte* from, int64_t bytes) override {
    return places_->copy(place, to, from, bytes);
  }

  Result<Placed> place(int64_t place, const PlacedKernel& kernel) override;
  Result<Placed> place(int64_t place, const PlacedGemm& gemm) override;
  Result<Placed> place(int64_t place, const PlacedConv& conv) override;
  Result<Placed> place(int64_t place, const PlacedAttention& attention) override;
  std::vector<std::string> notes() const override { return notes_; }
  Status runKernel(uint32_t step, uint32_t, int) override {
    Launch& l = *launches_[step];
    return places_->start(l.place, [&](const CudaDevice& d, const CudaStream& s) {
      return d.launch(l.function, l.grid, l.block, l.sharedBytes, l.arguments.data(), s);
    });
  }
  Status runGemm(uint32_t step, uint32_t, int worker) override;
  Communicator& communicator() override { return *comm_; }
  Status finish() override { return nccl_ ? nccl_->finish() : places_->synchronize(); }
  void abandon() override {
    if (nccl_)
      nccl_->abandon();
    else
      (void)places_->synchronize();
  }
  bool asynchronous() const override { return true; }

  Result<uint32_t> mark(int64_t place) override;
  Result<int64_t> reached(uint32_t mark) const override;
  void forgetMarks() override {
    marks_.clear();
    firstMark_.assign(firstMark_.size(), std::nullopt);
  }

  GraphBackend* graphs() override { return this; }
  OverlapBackend* overlap() override { return this; }

private:
  Status prepareJoins(size_t count) override { return places_->reserveAside(count); }
  Status beginAside(int64_t place) override { return places_->beginAside(place); }
  Status endAside(int64_t place, uint32_t join) override { return places_->endAside(place, join); }
  Status join(int64_t place, uint32_t join) override { return places_->join(place, join); }
  Status beginGraph() override {
    if (nccl_) nccl_->recorder().beginGraph();
    return places_->beginCapture(!nccl_);
  }
  Result<uint32_t> endGraph() override {
    auto graph = places_->endCapture(!nccl_);
    if (nccl_) nccl_->recorder().endGraph();
    if (!graph) return graph.error();
    graphs_.push_back(std::move(*graph));
    return static_cast<uint32_t>(graphs_.size() - 1);
  }
  Status runGraph(uint32_t graph) override {
    if (graphs_[graph].parts.empty())
      return machineError("the communicator was aborted, and the graphs are gone");
    if (nccl_) nccl_->recorder().replayed(graph);
    return places_->launch(graphs_[graph]);
  }
  Result<uint32_t> placeStackedCopy(int64_t place, const StackedCopy& copy) override;
  bool canKeep(uint32_t gemmStep) const override {
    const PlacedGemm& g = products_[gemmStep].gemm.gemm();
    return !g.aRow.index && !g.bRow.index;
  }
  bool decides(std::span<const int64_t> places) const override {
    return decisions_.possible(places) &&
           (!nccl_ || places.size() == 1); // what NCCL captures is not for bodies
  }
  Status prepareDecisions(size_t depth, size_t counters) override {
    return decisions_.prepare(depth, counters);
  }
  Status branch(std::span<const int64_t> places, const std::byte* predicate, const Body& then,
                const Body& otherwise) override {
    return decisions_.branch(places, predicate, then, otherwise);
  }
  Status loop(std::span<const int64_t> places, const Loop& loop, const Body& body) override {
    return decisions_.loop(places, loop, body);
  }
  Status count(std::span<const int64_t> places, std::span<std::byte* const> indices, Trips trips,
               const Body& body) override {
    return decisions_.count(places, indices, trips, body);
  }
  Result<Decided> decided() override { return decisions_.decided(); }
  Status writeIndex(int64_t place, std::byte* to, int32_t number) override {
    indices_[{place, to}] = number;
    return places_->start(place, [&](const CudaDevice& d, const CudaStream& s) {
      return d.fillWord(to, static_cast<uint32_t>(number), s);
    });
  }

  // A row that is looked up is asked for, and the device must have come so far; but for the index of a loop that the host counts.
  Result<std::optional<int64_t>> rowBegin(int64_t place, const PlacedGemm& g, const PlacedGemm::Row& row) {
    std::byte bytes[8] = {};
    const auto counted = row.trip ? indices_.find({place, row.index}) : indices_.end();
    if (counted != indices_.end())
      std::memcpy(bytes, &counted->second, sizeof counted->second); // an index is an i32
    else if (row.index)
      if (Status s = read(place, std::span(bytes, static_cast<size_t>(dtypeBytes(row.dtype))), row.index); !s)
        return s.error();
    return row.begin(bytes, g.dtype);
  }
  // `work` on the stream of a place; waits for it where `wait`.
  template <class Work> Status onStream(int64_t place, bool wait, const Work& work) {
    if (Status s = places_->start(place, work); !s || !wait) return s;
    return places_->synchronize(place);
  }
  Result<const CublasLt*> library(size_t gpu, int64_t place);
  Result<const Cudnn*> cudnn(int64_t place);
  Status growScratch(int64_t place, size_t bytes);
  Result<Placed> instead(Product product, const PlacedKernel& own, const Error& why);
  void note(std::string line) {
    if (std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(std::move(line));
  }
  void noteTf32(DType dtype) {
    if (tf32_ && dtype == DType::F32)
      note("the operands of f32 products and convolutions that libraries make may be cut to tf32");
  }
  Result<Placed> placeNarrow(int64_t place, const PlacedGemm& gemm, const CublasLt& lt);
  Result<std::byte*> room(int64_t place, int64_t bytes);
  void took(const char* phase, std::chrono::steady_clock::time_point begin) {
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    for (Phase& p : phases)
      if (p.name == phase) {
        p.milliseconds += time.count();
        return;
      }
    phases.push_back({phase, time.count()});
  }

  std::unique_ptr<CudaPlaces> places_;
  std::string about_;
  bool deterministic_, tf32_, useCudnn_, relu_;
  CudaDecisions decisions_;
  std::unique_ptr<Communicator> comm_;
  NcclCommunicator* nccl_ = nullptr; // the same, where it is that
  const std::vector<KernelSource>* kernels_ = nullptr;
  CudaSchedules schedules_;
  std::vector<CudaMemory> memory_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Product> products_;
  std::map<size_t, CublasLt> libraries_;  // by GPU
  std::map<size_t, Result<Cudnn>> cudnn_; // the same
  std::map<int64_t, CudaMemory> scratch_; // of convolutions and attention, by place
  std::vector<std::string> notes_;
  std::vector<CudaPlaces::Graph> graphs_;
  std::map<std::pair<int64_t, const std::byte*>, int32_t>
      indices_; // of loops, by place and where they are kept
  std::vector<std::pair<int64_t, CudaEvent>> marks_;
  std::vector<std::optional<uint32_t>> firstMark_; // by place
};

Status CudaBackend::compile(const std::vector<KernelSource>& kernels) {
  const auto begin = std::chrono::steady_clock::now();
  kernels_ = &kernels;
  if (Status s = schedules_.compile(kernels); !s) return s;
  took("kernels", begin);
  return Ok{};
}

Result<std::byte*> CudaBackend::allocate(int64_t place, int64_t bytes) {
  auto memory = places_->device(place).allocate(static_cast<size_t>(bytes));
  if (!memory) return memory.error();
  auto cleared = onStream(place, true, [&](const CudaDevice& d, const CudaStream& s) {
    return d.fill(memory->get, 0, memory->bytes, s);
  });
  if (!cleared) return cleared.error();
  memory_.push_back(*memory);
  return static_cast<std::byte*>(memory->get);
}

Result<Backend::Placed> CudaBackend::place(int64_t place, const PlacedKernel& k) {
  const KernelSource& source = (*kernels_)[k.kernel];
  Launch& l = *launches_.emplace_back(std::make_unique<Launch>());
  l.place = place;
  l.buffers = k.buffers;
  l.sizes = k.sizes;
  for (void*& b : l.buffers) l.arguments.push_back(static_cast<void*>(&b));
  for (int64_t& s : l.sizes) l.arguments.push_back(&s);
  const auto begin = std::chrono::steady_clock::now();
  const int measured = schedules_.measured();
  if (source.blocks(k.sizes) > 0)
    if (Status s = schedules_.choose(place, k.kernel, k.sizes, l.arguments.data()); !s) return s.error();
  if (schedules_.measured() > measured) took("choose schedules", begin);
  const auto [schedule, function] = schedules_.of(k.kernel);
  const int64_t blocks = schedule->blocks(k.sizes);
  if (blocks > INT32_MAX)
    return machineError("kernel '" + source.name + "' asks for more than 2^31-1 blocks");
  if (!places_->has(function)) // on standby until now
    if (Status s = places_->compile({function, schedule->cuda}); !s) return s.error();
  l.function = places_->function(place, function);
  l.grid.x = static_cast<uint32_t>(blocks);
  l.block.x = static_cast<uint32_t>(schedule->threadsPerBlock);
  l.sharedBytes = static_cast<uint32_t>(schedule->sharedBytes);
  return Placed{static_cast<uint32_t>(launches_.size() - 1), blocks > 0 ? 1u : 0u};
}

Result<const CublasLt*> CudaBackend::library(size_t gpu, int64_t place) {
  if (auto at = libraries_.find(gpu); at != libraries_.end()) return &at->second;
  const auto begin = std::chrono::steady_clock::now();
  auto opened = CublasLt::open(places_->device(place));
  if (!opened) return opened.error();
  took("open cuBLASLt", begin);
  return &libraries_.emplace(gpu, *opened).first->second;
}

Result<Backend::Placed> CudaBackend::place(int64_t place, const PlacedGemm& g) {
  const auto number = static_cast<uint32_t>(products_.size());
  bool empty = g.m.extent == 0 || g.n.extent == 0;
  for (const PlacedGemm::Axis& axis : g.batch) empty |= axis.extent == 0;
  if (empty) {
    products_.emplace_back().place = place;
    return Placed{number, 0};
  }
  auto opened = library(places_->gpuOf(place), place);
  if (!opened) return opened.error();
  if (g.narrow || g.dtype == DType::F8E4M3 || g.dtype == DType::F8E5M2)
    return placeNarrow(place, g, **opened);
  Product product;
  product.place = place;
  PlacedGemm taken = g;
  const CudaRoom room = [&](int64_t bytes) { return this->room(place, bytes); };
  if (Status s = packOperands(*places_, room, taken, false, product.packs); !s) return s.error();
  auto gemm = CudaGemm::plan(**opened, places_->device(place), taken, deterministic_, tf32_);
  if (!gemm && g.plain && gemm.error().kind == Error::Machine) {
    auto plain = this->place(place, *g.plain);
    if (plain) plain->plain = true;
    return plain;
  }
  if (!gemm) return gemm.error();
  product.gemm = std::move(*gemm);
  noteTf32(g.dtype);
  if (g.epilogue) {
    auto kernel = this->place(place, *g.epilogue);
    if (!kernel) return kernel.error();
    product.epilogue = kernel->step;
  }
  products_.push_back(std::move(product));
  return Placed{number, 1};
}

Result<std::byte*> CudaBackend::room(int64_t place, int64_t bytes) {
  auto memory = places_->device(place).allocate(static_cast<size_t>(bytes));
  if (!memory) return memory.error();
  memory_.push_back(*memory);
  return static_cast<std::byte*>(memory->get);
}

Result<Backend::Placed> CudaBackend::placeNarrow(int64_t place, const PlacedGemm& g, const CublasLt& lt) {
  auto made =
      planNarrow({*places_, place, lt, deterministic_, [&](int64_t bytes) { return room(place, bytes); }}, g);
  if (!made) return made.error();
  if (!made->note.empty()) note(made->note);
  Product product;
  product.place = place;
  product.gemm = std::move(made->gemm);
  product.packs = std::move(made->packs), product.after = std::move(made->after);
  std::optional<PlacedKernel> epilogue = made->plain ? g.plain->epilogue : g.epilogue;
  for (const auto& [kernel, launch] :
       {std::pair(&made->scales, &product.scales), std::pair(&epilogue, &product.epilogue)}) {
    if (!*kernel) continue;
    auto placed = this->place(place, **kernel);
    if (!placed) return placed.error();
    *launch = placed->step;
  }
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), 1, made->plain};
}

Result<const Cudnn*> CudaBackend::cudnn(int64_t place) {
  const size_t gpu = places_->gpuOf(place);
  auto at = cudnn_.find(gpu);
  if (at == cudnn_.end()) {
    const auto begin = std::chrono::steady_clock::now();
    at = cudnn_.emplace(gpu, Cudnn::open(places_->device(place))).first;
    took("open cuDNN", begin);
  }
  if (!at->second) return at->second.error();
  return &*at->second;
}

Status CudaBackend::growScratch(int64_t place, size_t bytes) {
  CudaMemory& scratch = scratch_[place];
  if (scratch.bytes >= bytes) return Ok{};
  auto memory = places_->device(place).allocate(bytes);
  if (!memory) return memory.error();
  scratch = *memory;
  return Ok{};
}

Result<Backend::Placed> CudaBackend::place(int64_t place, const PlacedConv& c) {
  Product product;
  product.place = place;
  auto opened = cudnn(place);
  Result<CudaConv> conv = opened ? CudaConv::plan(**opened, *places_, c, deterministic_, tf32_)
                                 : Result<CudaConv>(opened.error());
  if (!conv) return instead(std::move(product), c.own, conv.error());
  if (Status s = growScratch(place, conv->scratchBytes()); !s) return s.error();
  note("convolutions by cuDNN " + (*opened)->version());
  product.conv = std::move(*conv);
  noteTf32(c.dtype);
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), 1};
}

Result<Backend::Placed> CudaBackend::place(int64_t place, const PlacedAttention& a) {
  Product product;
  product.place = place;
  auto opened = cudnn(place);
  const auto begin = std::chrono::steady_clock::now();
  Result<CudaAttention> attention =
      opened ? CudaAttention::plan(**opened, a, deterministic_) : Result<CudaAttention>(opened.error());
  took("plan attention", begin);
  if (!attention) return instead(std::move(product), a.own, attention.error());
  if (Status s = growScratch(place, attention->scratchBytes()); !s) return s.error();
  note("attention by cuDNN " + (*opened)->version());
  product.attention = std::move(*attention);
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), 1};
}

// The generated kernel of what cuDNN does not take.
Result<Backend::Placed> CudaBackend::instead(Product product, const PlacedKernel& own, const Error& why) {
  if (why.kind != Error::Machine) return why;
  note("a generated kernel, because " + why.message);
  auto kernel = this->place(product.place, own);
  if (!kernel) return kernel.error();
  product.empty = true;
  product.epilogue = kernel->step;
  products_.push_back(std::move(product));
  return Placed{static_cast<uint32_t>(products_.size() - 1), kernel->parts, true};
}

Result<uint32_t> CudaBackend::placeStackedCopy(int64_t place, const StackedCopy& copy) {
  int64_t width = 8;
  while (copy.bytes % width != 0) width /= 2;
  const SourceUnit unit = stackKernel(bitsOf(width));
  if (!places_->has(unit.name))
    if (Status s = places_->compile(unit); !s) return s.error();
  Launch& l = *launches_.emplace_back(std::make_unique<Launch>());
  l.place = place;
  l.function = places_->function(place, unit.name);
  const int64_t elements = copy.bytes / width, blocks = (elements + 255) / 256;
  if (blocks > INT32_MAX) return machineError("a copy asks for more than 2^31-1 blocks");
  l.grid.x = static_cast<uint32_t>(std::max<int64_t>(blocks, 1)), l.block.x = 256;
  l.buffers = {copy.to, const_cast<std::byte*>(copy.from), const_cast<std::byte*>(copy.index)};
  l.sizes = {copy.first, elements};
  for (void*& b : l.buffers) l.arguments.push_back(static_cast<void*>(&b));
  for (int64_t& s : l.sizes) l.arguments.push_back(&s);
  return static_cast<uint32_t>(launches_.size() - 1);
}

Status CudaBackend::runGemm(uint32_t step, uint32_t, int worker) {
  const Product& p = products_[step];
  if (p.conv)
    return p.conv->run(*cudnn_.at(places_->gpuOf(p.place)), *places_, p.place, scratch_[p.place].get);
  if (p.attention)
    return p.attention->run(*cudnn_.at(places_->gpuOf(p.place)), *places_, p.place, scratch_[p.place].get);
  if (p.empty) return p.epilogue ? runKernel(*p.epilogue, 0, worker) : Status(Ok{});
  if (p.scales)
    if (Status s = runKernel(*p.scales, 0, worker); !s) return s;
  for (const CudaPack& one : p.packs)
    if (Status s = runPack(*places_, p.place, one); !s) return s;
  auto a = rowBegin(p.place, p.gemm.gemm(), p.gemm.gemm().aRow);
  auto b = rowBegin(p.place, p.gemm.gemm(), p.gemm.gemm().bRow);
  if (!a || !b) return (a ? b : a).error();
  const CublasLt& lt = libraries_.at(places_->gpuOf(p.place));
  Status done = places_->start(
      p.place, [&](const CudaDevice& d, const CudaStream& s) { return p.gemm.run(lt, d, s, *a, *b); });
  for (const CudaPack& one : p.after)
    if (done) done = runPack(*places_, p.place, one);
  return done && p.epilogue ? runKernel(*p.epilogue, 0, worker) : done;
}

Result<uint32_t> CudaBackend::mark(int64_t place) {
  auto event = places_->mark(place);
  if (!event) return event.error();
  marks_.emplace_back(place, *event);
  const auto number = static_cast<uint32_t>(marks_.size() - 1);
  auto& first = firstMark_[static_cast<size_t>(place)];
  if (!first) first = number;
  return number;
}

Result<int64_t> CudaBackend::reached(uint32_t mark) const {
  const auto& [place, event] = marks_[mark];
  const CudaEvent& first = marks_[*firstMark_[static_cast<size_t>(place)]].second;
  auto ms = places_->device(place).milliseconds(first, event);
  if (!ms) return ms.error();
  return static_cast<int64_t>(static_cast<double>(*ms) * 1e6);
}

} // namespace

Result<std::unique_ptr<Backend>> makeCudaBackend(const Nvrtc& nvrtc, const CudaOptions& o) {
  auto driver = CudaDriver::open(o.driver);
  if (!driver) return driver.error();
  const size_t gpus = driver->devices().size();
  const bool enough = gpus >= static_cast<size_t>(o.places);
  std::optional<Nccl> library;
  std::string why;
  if (o.comm == "nccl" || (o.comm.empty() && o.places > 1 && enough)) {
    // Else NCCL chooses by what it measures, and some of its algorithms add up as pieces come.
    if (o.deterministic) setenv("NCCL_ALGO", "Ring", 0), setenv("NCCL_PROTO", "Simple", 0);
    auto opened = Nccl::open();
    if (opened)
      library = *opened;
    else if (o.comm == "nccl")
      return opened.error();
    else
      why = ", because " + opened.error().message;
  }
  auto devices = openGpus(*driver, std::min(gpus, static_cast<size_t>(o.places)));
  if (!devices) return devices.error();
  auto places = CudaPlaces::make(std::move(*devices), o.places, nvrtc);
  if (!places) return places.error();
  std::string about = (*places)->layoutText() + ", collectives by ";
  if (library) {
    const bool amd = library->path().find("librccl") != std::string::npos;
    about += (amd ? "RCCL " : "NCCL ") + library->version() + " (--comm nccl)";
  } else {
    auto apart = (*places)->connect(*driver);
    if (!apart) return apart.error();
    about += "dtc's own kernels and copies (--comm local)";
    if (*apart) about += " by way of copies, because GPUs cannot reach each other's memory";
  }
  auto made = std::make_unique<CudaBackend>(nvrtc, std::move(*places), about + why, o);
  if (library) {
    if (Status s = made->useNccl(*library, o); !s) return s.error();
  } else {
    made->useOwn();
  }
  return std::unique_ptr<Backend>(std::move(made));
}

} // namespace dtc
