// oneDNN's matmul behind a table of C functions. Each matmul is set up once (primitive, memory objects,
// scratchpad) and then only executed, on the calling thread: parallelism is left to the caller.
#include "Engine.h"

#include <unordered_map>
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

struct Gemm {
  dnnl::matmul primitive;
  std::unordered_map<int, memory> arguments;
  std::vector<std::byte> scratch;
  const void *a = nullptr, *b = nullptr; // without the row offsets of a run
  int64_t aMoved = 0, bMoved = 0;        // current offset of the arguments from these
  const void *madeA = nullptr, *madeB = nullptr, *madeY = nullptr, *madeBias = nullptr; // as created
};

void* create(const DtcGemm* g, char* error, size_t errorSize) {
  return guarded(error, errorSize, dnnl_success, [&] {
    const memory::data_type type = dataType(g->type);
    bool batched = g->batch > 1;
    auto dims = [&](int64_t batch, int64_t rows, int64_t columns) {
      return batched ? memory::dims{batch, rows, columns} : memory::dims{rows, columns};
    };
    memory::desc a = describe(dataType(g->aType), dims(g->batch, g->m, g->k), dims(g->aBatch, g->aM, g->aK));
    memory::desc b = describe(dataType(g->bType), dims(g->batch, g->k, g->n), dims(g->bBatch, g->bK, g->bN));
    memory::desc y = describe(type, dims(g->batch, g->m, g->n), dims(g->yBatch, g->yM, g->yN));
    memory::desc bias = describe(type, dims(1, 1, g->biasStride ? g->n : 1), dims(1, 1, 1));
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    auto operation = g->bias ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y);
    dnnl::matmul::primitive_desc chosen(operation, attributes, engine());
    auto gemm = new Gemm{dnnl::matmul(chosen), {}, {}, g->a, g->b, 0, 0, g->a, g->b, g->y, g->bias};
    auto bind = [&](int name, const memory::desc& desc, const void* p) {
      gemm->arguments.emplace(name, memory(desc, engine(), const_cast<void*>(p)));
    };
    bind(DNNL_ARG_SRC, a, g->a);
    bind(DNNL_ARG_WEIGHTS, b, g->b);
    bind(DNNL_ARG_DST, y, g->y);
    if (g->bias) bind(DNNL_ARG_BIAS, bias, g->bias);
    gemm->scratch.resize(chosen.scratchpad_desc().get_size());
    bind(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc(), gemm->scratch.data());
    return gemm;
  });
}

void move(memory& argument, const void* from, int64_t bytes, int64_t& moved) {
  if (bytes == moved) return;
  argument.set_data_handle(static_cast<std::byte*>(const_cast<void*>(from)) + bytes);
  moved = bytes;
}

int run(void* gemm, int64_t a, int64_t b) {
  const OneThread alone;
  try {
    thread_local dnnl::stream stream(engine());
    auto* g = static_cast<Gemm*>(gemm);
    move(g->arguments.at(DNNL_ARG_SRC), g->a, a, g->aMoved);
    move(g->arguments.at(DNNL_ARG_WEIGHTS), g->b, b, g->bMoved);
    g->primitive.execute(stream, g->arguments);
    stream.wait();
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

void rebind(void* gemm, const void* from, size_t bytes, void* to) {
  auto* g = static_cast<Gemm*>(gemm);
  const auto place = [&](int name, const void* made, const void** base, int64_t* moved) {
    std::byte* now = made ? rebound(made, from, bytes, to) : nullptr;
    if (!now) return;
    g->arguments.at(name).set_data_handle(now);
    if (base) *base = now, *moved = 0;
  };
  place(DNNL_ARG_SRC, g->madeA, &g->a, &g->aMoved);
  place(DNNL_ARG_WEIGHTS, g->madeB, &g->b, &g->bMoved);
  place(DNNL_ARG_DST, g->madeY, nullptr, nullptr);
  place(DNNL_ARG_BIAS, g->madeBias, nullptr, nullptr);
}

void destroy(void* gemm) { delete static_cast<Gemm*>(gemm); }

void version(int* major, int* minor, int* patch) {
  const dnnl_version_t* v = dnnl_version();
  *major = v->major, *minor = v->minor, *patch = v->patch;
}

constexpr DtcOneDnnTable kTable = {kDtcOneDnnAbi, version,     create,           run,        destroy,
                                   rebind,        createConv,  convScratchBytes, runConv,    destroyConv,
                                   rebindConv,    packedBytes, packAlike,        packWindow, usePacked};

} // namespace

} // namespace dtc::onednn

extern "C" __attribute__((visibility("default"))) const DtcOneDnnTable* dtcOneDnnTable() {
  return &dtc::onednn::kTable;
}
