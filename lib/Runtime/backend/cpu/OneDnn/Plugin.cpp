// oneDNN's matmul behind a table of C functions. Each matmul is set up once (primitive, memory objects,
// scratchpad) and then only executed, on the calling thread: parallelism is left to the caller.
#include "Engine.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

// Present only if oneDNN was built with OpenMP.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);
extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace dtc::onednn {

using dnnl::memory;

OneThread::OneThread() {
  if (!omp_set_num_threads || !omp_get_max_threads) return;
  before_ = omp_get_max_threads();
  if (before_ != 1) omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (before_ > 1) omp_set_num_threads(before_);
}

memory::desc describe(memory::data_type type, const memory::dims& sizes, memory::dims strides) {
  int64_t dense = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) strides[i] = dense;
    if (strides[i] * sizes[i] > dense) dense = strides[i] * sizes[i];
  }
  return {sizes, type, strides};
}

namespace {

// A primitive with its arguments.
struct Matmul {
  dnnl::matmul primitive;
  std::unordered_map<int, memory> arguments;
  size_t scratchpadBytes = 0;
  bool separate = false; // its result is copied to y
};

struct Gemm {
  Matmul plain;
  DtcGemm given;
  const void *a = nullptr, *b = nullptr, *bias = nullptr; // without the row offsets of a run
  void* y = nullptr;
  int64_t aMoved = 0, bMoved = 0; // current offset of the arguments from these
  // Reads b in the layout that its implementation prefers; made when it is first asked for.
  std::optional<Matmul> packing;
  bool knowsPacking = false; // `packing` has been looked for
  bool packed = false;       // runs `packing`
};

struct GemmDescs {
  memory::desc a, b, y, bias;
};

GemmDescs descsOf(const DtcGemm& g) {
  const memory::data_type type = dataType(g.type);
  auto dims = [&](int64_t batch, int64_t rows, int64_t columns) {
    return g.batch > 1 ? memory::dims{batch, rows, columns} : memory::dims{rows, columns};
  };
  return {describe(dataType(g.aType), dims(g.batch, g.m, g.k), dims(g.aBatch, g.aM, g.aK)),
          describe(dataType(g.bType), dims(g.batch, g.k, g.n), dims(g.bBatch, g.bK, g.bN)),
          describe(type, dims(g.batch, g.m, g.n), dims(g.yBatch, g.yM, g.yN)),
          describe(type, dims(1, 1, g.biasStride ? g.n : 1), dims(1, 1, 1))};
}

dnnl::matmul::primitive_desc chosenFor(const GemmDescs& d, bool bias) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  using Desc = dnnl::matmul::desc;
  return {bias ? Desc(d.a, d.b, d.bias, d.y) : Desc(d.a, d.b, d.y), attributes, engine()};
}

// Arguments without addresses.
Matmul made(const dnnl::matmul::primitive_desc& chosen, const GemmDescs& d, bool bias) {
  Matmul m{dnnl::matmul(chosen), {}, chosen.scratchpad_desc().get_size()};
  const auto add = [&](int name, const memory::desc& desc) {
    m.arguments.emplace(name, memory(desc, engine(), DNNL_MEMORY_NONE));
  };
  add(DNNL_ARG_SRC, d.a);
  add(DNNL_ARG_WEIGHTS, chosen.weights_desc());
  add(DNNL_ARG_DST, d.y);
  if (bias) add(DNNL_ARG_BIAS, d.bias);
  add(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc());
  return m;
}

void setAddress(Matmul& m, int name, const void* p) {
  m.arguments.at(name).set_data_handle(const_cast<void*>(p));
}

// Addresses of the arguments, but for packed b and a separate result.
void bindAll(const Gemm& g, Matmul& m) {
  setAddress(m, DNNL_ARG_SRC, g.a);
  if (&m == &g.plain) setAddress(m, DNNL_ARG_WEIGHTS, g.b);
  if (!m.separate) setAddress(m, DNNL_ARG_DST, g.y);
  if (g.bias) setAddress(m, DNNL_ARG_BIAS, g.bias);
}

void* create(const DtcGemm* g, char* error, size_t errorSize) {
  return guarded(error, errorSize, dnnl_success, [&] {
    const GemmDescs d = descsOf(*g);
    auto gemm = std::make_unique<Gemm>();
    gemm->given = *g, gemm->a = g->a, gemm->b = g->b, gemm->y = g->y, gemm->bias = g->bias;
    gemm->plain = made(chosenFor(d, g->bias), d, g->bias);
    bindAll(*gemm, gemm->plain);
    return gemm.release();
  });
}

size_t gemmScratchBytes(void* gemm) {
  const Gemm& g = *static_cast<Gemm*>(gemm);
  const size_t separate =
      g.packing && g.packing->separate ? g.packing->arguments.at(DNNL_ARG_DST).get_desc().get_size() : 0;
  return std::max(g.plain.scratchpadBytes, g.packing ? rounded(g.packing->scratchpadBytes) + separate : 0);
}

void move(memory& argument, const void* from, int64_t bytes, int64_t& moved) {
  if (bytes == moved) return;
  argument.set_data_handle(static_cast<std::byte*>(const_cast<void*>(from)) + bytes);
  moved = bytes;
}

// Writes dense rows to y.
void copyRows(const DtcGemm& g, const std::byte* from, std::byte* y) {
  constexpr int64_t kWidth = 4; // of f32 and i32
  for (int64_t row = 0; row < g.m; ++row)
    std::memcpy(y + row * g.yM * kWidth, from + row * g.n * kWidth, static_cast<size_t>(g.n * kWidth));
}

int run(void* gemm, int64_t a, int64_t b, void* scratch) {
  const OneThread alone;
  try {
    thread_local dnnl::stream stream(engine());
    auto* g = static_cast<Gemm*>(gemm);
    Matmul& m = g->packed ? *g->packing : g->plain;
    move(m.arguments.at(DNNL_ARG_SRC), g->a, a, g->aMoved);
    if (!g->packed) move(m.arguments.at(DNNL_ARG_WEIGHTS), g->b, b, g->bMoved);
    setAddress(m, DNNL_ARG_SCRATCHPAD, scratch);
    std::byte* rows = static_cast<std::byte*>(scratch) + rounded(m.scratchpadBytes);
    if (m.separate) setAddress(m, DNNL_ARG_DST, rows);
    m.primitive.execute(stream, m.arguments);
    stream.wait();
    if (m.separate) copyRows(g->given, rows, static_cast<std::byte*>(g->y));
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

void rebind(void* gemm, const void* from, size_t bytes, void* to) {
  auto* g = static_cast<Gemm*>(gemm);
  const auto place = [&](const void* made, auto& address) {
    std::byte* now = made ? rebound(made, from, bytes, to) : nullptr;
    if (now) address = now;
  };
  place(g->given.a, g->a), place(g->given.b, g->b), place(g->given.y, g->y), place(g->given.bias, g->bias);
  g->aMoved = g->bMoved = 0;
  bindAll(*g, g->plain);
  if (g->packing) bindAll(*g, *g->packing);
}

// A matmul that reads b packed, if it is another one than the plain one, and faster: with more rows, what packing in
// each run costs is less than what its fewer blocks gain. Its result is dense, since implementations that read packed
// operands write no other.
std::optional<Matmul> packingOf(const DtcGemm& g) {
  constexpr int64_t kMostRows = 512;
  const GemmDescs plain = descsOf(g);
  const bool rows = g.yN == 1 || g.n == 1, words = g.type == DtcGemmF32 || g.type == DtcGemmI32;
  if (g.batch > 1 || g.m > kMostRows || !rows || !words) return std::nullopt;
  GemmDescs d = plain;
  d.b = memory::desc(d.b.dims(), d.b.data_type(), memory::format_tag::any);
  d.y = describe(dataType(g.type), {g.m, g.n}, {g.n, 1});
  const dnnl::matmul::primitive_desc chosen = chosenFor(d, g.bias);
  if (chosen.weights_desc() == plain.b) return std::nullopt;
  Matmul m = made(chosen, d, g.bias);
  m.separate = d.y != plain.y;
  return m;
}

void findPacking(Gemm& g) {
  if (std::exchange(g.knowsPacking, true)) return;
  try {
    const OneThread alone;
    g.packing = packingOf(g.given);
    if (g.packing) bindAll(g, *g.packing);
  } catch (const std::exception&) { // the matmul stays as it is
    g.packing.reset();
  }
}

size_t packedGemmBytes(void* gemm) {
  auto& g = *static_cast<Gemm*>(gemm);
  findPacking(g);
  return g.packing ? g.packing->arguments.at(DNNL_ARG_WEIGHTS).get_desc().get_size() : 0;
}

bool packGemmAlike(void* gemm, void* other) {
  const auto weights = [](const Matmul& in) { return in.arguments.at(DNNL_ARG_WEIGHTS).get_desc(); };
  auto &x = *static_cast<Gemm*>(gemm), &y = *static_cast<Gemm*>(other);
  return x.packing && y.packing && weights(*x.packing) == weights(*y.packing) &&
         weights(x.plain) == weights(y.plain);
}

int packGemm(void* gemm, void* to) {
  const OneThread alone;
  try {
    auto& g = *static_cast<Gemm*>(gemm);
    thread_local dnnl::stream stream(engine());
    memory plain(descsOf(g.given).b, engine(), const_cast<void*>(g.b));
    memory packed(g.packing->arguments.at(DNNL_ARG_WEIGHTS).get_desc(), engine(), to);
    dnnl::reorder(plain, packed).execute(stream, plain, packed);
    stream.wait();
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

void usePackedGemm(void* gemm, void* packed) {
  auto& g = *static_cast<Gemm*>(gemm);
  g.packed = packed;
  g.aMoved = g.bMoved = 0;
  bindAll(g, g.plain);
  if (packed) bindAll(g, *g.packing), setAddress(*g.packing, DNNL_ARG_WEIGHTS, packed);
}

void destroy(void* gemm) { delete static_cast<Gemm*>(gemm); }

void version(int* major, int* minor, int* patch) {
  const dnnl_version_t* v = dnnl_version();
  *major = v->major, *minor = v->minor, *patch = v->patch;
}

constexpr DtcOneDnnTable kTable = {.abi = kDtcOneDnnAbi,
                                   .version = version,
                                   .create = create,
                                   .gemmScratchBytes = gemmScratchBytes,
                                   .run = run,
                                   .destroy = destroy,
                                   .rebind = rebind,
                                   .packedGemmBytes = packedGemmBytes,
                                   .packGemmAlike = packGemmAlike,
                                   .packGemm = packGemm,
                                   .usePackedGemm = usePackedGemm,
                                   .createConv = createConv,
                                   .convScratchBytes = convScratchBytes,
                                   .runConv = runConv,
                                   .destroyConv = destroyConv,
                                   .rebindConv = rebindConv,
                                   .packedBytes = packedBytes,
                                   .packAlike = packAlike,
                                   .packWindow = packWindow,
                                   .usePacked = usePacked};

} // namespace

} // namespace dtc::onednn

extern "C" __attribute__((visibility("default"))) const DtcOneDnnTable* dtcOneDnnTable() {
  return &dtc::onednn::kTable;
}
