#include "backend/cpu/CpuGemm.h"

#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/OutOfMemory.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace dtc {
namespace {

// Result bytes that stay in a core's cache until the epilogue reads them.
constexpr int64_t kBlockBytes = 1 << 20;

// The result of a matmul with k = 0: its bias, or zeros.
void fillWithBias(const PlacedGemm& g, size_t axis, const std::byte* bias, std::byte* y) {
  int64_t width = dtypeBytes(g.dtype);
  size_t batches = g.batch.size();
  if (axis == batches + 2) {
    bias ? std::memcpy(y, bias, static_cast<size_t>(width)) : std::memset(y, 0, static_cast<size_t>(width));
    return;
  }
  const PlacedGemm::Axis& a = axis < batches ? g.batch[axis] : axis == batches ? g.m : g.n;
  for (int64_t i = 0; i < a.extent; ++i)
    fillWithBias(g, axis + 1, bias && axis == batches + 1 ? bias + i * g.biasStride * width : bias,
                 y + i * a.y * width);
}

DtcGemmType typeOf(DType d) {
  switch (d) {
  case DType::BF16: return DtcGemmBf16;
  case DType::I8: return DtcGemmI8;
  case DType::U8: return DtcGemmU8;
  case DType::I32: return DtcGemmI32;
  default: return DtcGemmF32;
  }
}

// Axis numbering of the epilogue's windows: batch axes, m, n.
template <class Gemm> auto& axisOf(Gemm& g, size_t axis) {
  return axis < g.batch.size() ? g.batch[axis] : axis == g.batch.size() ? g.m : g.n;
}

// How many parts split the outermost batch axis, the rows and the columns.
struct GemmParts {
  int64_t batch = 1, rows = 1, columns = 1;
  [[nodiscard]] int64_t number() const { return batch * rows * columns; }
};

// Columns of a part are whole vectors, as far as they divide.
constexpr int64_t kVectorColumns = 128;
int64_t unitsOf(int64_t columns) { return (columns + kVectorColumns - 1) / kVectorColumns; }

// Elements that the largest part reads and writes: each part reads its rows of a and its columns of b.
double trafficOf(const PlacedGemm& g, const GemmParts& parts) {
  const auto share = [](int64_t extent, int64_t number) {
    return static_cast<double>((extent + number - 1) / number);
  };
  const double batch = g.batch.empty() ? 1 : share(g.batch[0].extent, parts.batch),
               rows = share(g.m.extent, parts.rows),
               columns = share(unitsOf(g.n.extent), parts.columns) * kVectorColumns;
  return batch * (static_cast<double>(g.k.extent) * (rows + columns) + rows * columns);
}

// At most `most` parts, whose largest has the fewest points of the result, and of those the one with the least
// traffic.
GemmParts partsOf(const PlacedGemm& g, int64_t most) {
  const int64_t batches = g.batch.empty() ? 1 : g.batch[0].extent;
  GemmParts best;
  std::pair<int64_t, double> least{INT64_MAX, 0};
  for (int64_t b = 1; b <= std::min(most, batches); ++b)
    for (int64_t m = 1; m <= std::min(most / b, g.m.extent); ++m) {
      const GemmParts parts{b, m, std::min(most / (b * m), unitsOf(g.n.extent))};
      const int64_t points = (batches + b - 1) / b * ((g.m.extent + m - 1) / m) *
                             ((unitsOf(g.n.extent) + parts.columns - 1) / parts.columns);
      const std::pair<int64_t, double> cost{points, trafficOf(g, parts)};
      if (cost < least) best = parts, least = cost;
    }
  return best;
}

// How many parts a matmul has at most: a function of its size, never of the number of threads, since oneDNN adds up
// in an order that depends on the size of a product. Short rows of a part of a wide matrix are slow to read: more
// than 8 parts have 64 Mflop and more.
int64_t mostParts(int64_t flops) {
  const int64_t size = flops / kPartFlops;
  if (size < 4) return size < 2 ? 1 : 2;
  return std::clamp<int64_t>(size / 128, 4, 32);
}

// Columns of part i: whole vectors.
Interval vectorsOf(int64_t columns, int64_t parts, int64_t i) {
  const Interval units = shardInterval(unitsOf(columns), parts, i);
  return {units.begin * kVectorColumns, std::min(units.end * kVectorColumns, columns)};
}

// The matmul over [begin, begin + count) of an axis.
void narrow(PlacedGemm& g, size_t axis, int64_t begin, int64_t count) {
  PlacedGemm::Axis& a = axisOf(g, axis);
  const int64_t width = dtypeBytes(g.dtype);
  g.a += begin * a.a * dtypeBytes(g.operandType(false));
  g.b += begin * a.b * dtypeBytes(g.operandType(true));
  g.y += begin * a.y * width;
  if (g.bias && axis == g.batch.size() + 1) g.bias += begin * g.biasStride * width;
  a.extent = count;
  if (!g.epilogue) return;
  std::vector<int64_t>& sizes = g.epilogue->sizes;
  const size_t at = sizes.size() - 2 * (g.batch.size() + 2 - axis);
  sizes[at] += begin;
  sizes[at + 1] = count;
}

// Computes a column-major result as the transposed, row-major matmul: oneDNN writes column-major results with
// its reference loop only, about a thousand times slower. A bias along n is not supported in the transposed
// matmul.
bool hasColumnMajorResult(const PlacedGemm& g) {
  return !g.bias && g.m.y == 1 && g.n.y != 1 && g.m.extent != 1;
}
PlacedGemm transposed(PlacedGemm g) {
  std::swap(g.m, g.n);
  std::swap(g.a, g.b);
  if (g.narrow) std::swap(g.narrow->a, g.narrow->b);
  for (PlacedGemm::Axis* axis : {&g.m, &g.n, &g.k}) std::swap(axis->a, axis->b);
  for (PlacedGemm::Axis& axis : g.batch) std::swap(axis.a, axis.b);
  return g;
}

// The matmul as a convolution along the rows of a, with b as a window of one point; null if oneDNN has no fast one
// for the dtypes and strides.
std::unique_ptr<DtcConv> asConvolution(const DtcGemm& g) {
  const bool rows =
      g.yN == 1 && g.yM >= g.n && (g.aK == 1 ? g.aM >= g.k : g.aM == 1) && g.bK != 0 && g.bN != 0;
  const bool f32 = g.type == DtcGemmF32 && g.aType == g.type && g.bType == g.type;
  if (!rows || !f32 || g.batch != 1 || (g.bias && g.biasStride != 1)) return nullptr;
  constexpr int64_t kFewest = 8; // elements of a vector
  if (std::min({g.m, g.n, g.k}) < kFewest) return nullptr;
  auto c = std::make_unique<DtcConv>();
  c->type = g.type, c->kind = DtcConvForward, c->spatial = 1;
  c->groups = 1, c->n = 1, c->c = g.k, c->o = g.n;
  c->dims[0] = {g.m, 1, g.m, 1, 1, 0, 0};
  // Image, group, channel and point.
  std::ranges::copy(std::initializer_list<int64_t>{g.m * g.aM, g.k * g.aK, g.aK, g.aM}, c->imageStrides);
  std::ranges::copy(std::initializer_list<int64_t>{g.n * g.bN, g.bN, g.bK, 1}, c->windowStrides);
  std::ranges::copy(std::initializer_list<int64_t>{g.m * g.yM, g.n, 1, g.yM}, c->resultStrides);
  c->image = const_cast<void*>(g.a), c->window = const_cast<void*>(g.b), c->result = g.y, c->bias = g.bias;
  return c;
}

// Whether a convolution is faster even if b is packed in each run, which takes about as long as 16 rows while b is in
// the cache.
bool packsInEachRun(const DtcConv& c) {
  constexpr int64_t kCached = 1 << 20; // elements
  return c.dims[0].size >= (c.c * c.o <= kCached ? 64 : 256);
}

} // namespace

CpuGemms::~CpuGemms() {
  for (const Step& s : steps_)
    for (const auto& part : s.parts)
      for (const Block& block : part)
        for (const Product& p : block.products) {
          if (p.made) oneDnn_->destroy(p.made);
          if (p.conv) oneDnn_->destroyConv(p.conv);
        }
}

// Null: oneDNN has no fast one, or not enough memory.
void* CpuGemms::makeConv(const DtcConv& conv) {
  char error[200] = "";
  const EndsWithoutMemory ends;
  void* made = oneDnn_->createConv(&conv, error, sizeof error);
  if (made) scratchBytes_ = std::max(scratchBytes_, oneDnn_->convScratchBytes(made));
  return made;
}

Status CpuGemms::open() {
  DTC_TRY(oneDnn_, openOneDnn(config_));
  return Ok{};
}

// One oneDNN matmul, or several if its batch dim cannot represent the batch axes (more than one, or a
// repeated operand).
Status CpuGemms::products(const PlacedGemm& given, bool transposed, std::vector<Product>& out) {
  const bool columns = hasColumnMajorResult(given);
  const PlacedGemm g = columns ? dtc::transposed(given) : given;
  transposed ^= columns;
  if (g.batch.size() > 1 || (g.batch.size() == 1 && (g.batch[0].a == 0 || g.batch[0].b == 0))) {
    for (int64_t i = 0; i < g.batch[0].extent; ++i) {
      PlacedGemm inner = g;
      inner.epilogue.reset();
      narrow(inner, 0, i, 1);
      inner.batch.erase(inner.batch.begin());
      if (Status s = products(inner, transposed, out); !s) return s;
    }
    return Ok{};
  }
  PlacedGemm::Axis batch = g.batch.empty() ? PlacedGemm::Axis{1, 0, 0, 0} : g.batch[0];
  DtcGemm d{typeOf(g.operandType(false)),
            typeOf(g.operandType(true)),
            typeOf(g.dtype),
            batch.extent,
            g.m.extent,
            g.n.extent,
            g.k.extent,
            batch.a,
            g.m.a,
            g.k.a,
            batch.b,
            g.k.b,
            g.n.b,
            batch.y,
            g.m.y,
            g.n.y,
            g.a,
            g.b,
            g.bias,
            g.biasStride,
            g.y};
  Product product{.transposed = transposed};
  if (ownBytes_ && ByteGemm::fits(d)) {
    product.bytes = std::make_shared<ByteGemm>(d);
    scratchBytes_ = std::max(scratchBytes_, product.bytes->scratchBytes());
    out.push_back(std::move(product));
    return Ok{};
  }
  if (asConvs_ && !g.aRow.index && !g.bRow.index) product.asConv = asConvolution(d);
  if (product.asConv && packsInEachRun(*product.asConv)) product.conv = makeConv(*product.asConv);
  product.runsConv = product.conv;
  if (!product.conv) {
    char error[200] = "";
    const EndsWithoutMemory ends;
    product.made = oneDnn_->create(&d, error, sizeof error);
    if (!product.made) return machineError(std::string("oneDNN rejects the matmul: ") + error);
    product.b = d.b;
    scratchBytes_ = std::max(scratchBytes_, oneDnn_->gemmScratchBytes(product.made));
  }
  out.push_back(std::move(product));
  return Ok{};
}

// One part. With an epilogue, in blocks that stay in the cache: fewer batches or fewer columns, so that no
// operand is packed twice.
Status CpuGemms::addPart(Step& step, const KernelSource* source, const PlacedGemm& part) {
  std::vector<Block>& blocks = step.parts.emplace_back();
  const size_t splitAxis = !part.batch.empty() && part.batch[0].extent > 1 ? 0 : part.batch.size() + 1;
  int64_t bytes = dtypeBytes(part.dtype) * part.m.extent * part.n.extent;
  for (const PlacedGemm::Axis& a : part.batch) bytes *= a.extent;
  const int64_t extent = axisOf(part, splitAxis).extent;
  int64_t number =
      step.function ? std::clamp<int64_t>((bytes + kBlockBytes - 1) / kBlockBytes, 1, extent) : 1;
  if (splitAxis == part.batch.size() + 1)
    number = std::clamp<int64_t>(number, 1, std::max<int64_t>(extent / 256, 1));
  for (int64_t i = 0; i < number; ++i) {
    Interval within = shardInterval(extent, number, i);
    PlacedGemm one = part;
    narrow(one, splitAxis, within.begin, within.size());
    Block& block = blocks.emplace_back();
    if (one.aRow.index || one.bRow.index) block.gemm = one;
    if (!step.empty)
      if (Status s = products(one, false, block.products); !s) return s;
    if (!step.function) continue;
    block.sizes = one.epilogue->sizes;
    block.units = source->units(block.sizes);
  }
  return Ok{};
}

Result<Backend::Placed> CpuGemms::place(const PlacedGemm& g, CpuKernelFunction* function,
                                        const KernelSource* source) {
  const auto number = static_cast<uint32_t>(steps_.size());
  Step& step = steps_.emplace_back();
  step.gemm = g;
  step.function = function;
  int64_t points = g.m.extent * g.n.extent, flops = 2 * points * g.k.extent;
  for (const PlacedGemm::Axis& a : g.batch) points *= a.extent, flops *= a.extent;
  if (points == 0) return Backend::Placed{number, 0};
  step.empty = g.k.extent == 0;
  const GemmParts parts = step.empty ? GemmParts{} : partsOf(g, mostParts(flops));
  for (int64_t i = 0; i < parts.number(); ++i) {
    PlacedGemm part = g;
    if (!g.batch.empty()) {
      const Interval batch = shardInterval(g.batch[0].extent, parts.batch, i / (parts.rows * parts.columns));
      narrow(part, 0, batch.begin, batch.size());
    }
    const Interval rows = shardInterval(g.m.extent, parts.rows, i / parts.columns % parts.rows),
                   columns = vectorsOf(g.n.extent, parts.columns, i % parts.columns);
    narrow(part, g.batch.size(), rows.begin, rows.size());
    narrow(part, g.batch.size() + 1, columns.begin, columns.size());
    if (Status s = addPart(step, source, part); !s) return s.error();
  }
  return Backend::Placed{number, static_cast<uint32_t>(parts.number())};
}

// The pointers of a matmul that are read at run time.
static void addPointersOf(PlacedGemm& g, PointerSlots& slots) {
  for (const std::byte** p : {&g.a, &g.b, &g.bias, &g.residual, &g.aRow.index, &g.bRow.index}) slots.add(*p);
  for (std::byte** p : {&g.y, &g.aux}) slots.add(*p);
  if (!g.epilogue) return;
  for (void*& b : g.epilogue->buffers) slots.add(b);
}

void CpuGemms::addPointers(PointerSlots& slots) {
  const auto addUser = [&](size_t range, Product& p, bool asWindow) {
    if (usersOf_.size() <= range) usersOf_.resize(range + 1), bound_.resize(range + 1);
    bound_[range].from = slots.range(range);
    usersOf_[range].push_back({&p, asWindow});
    if (!asWindow) return;
    if (p.bytes) packed_.add(p.bytes, p.bytes->b(), range);
    if (p.conv) addWindow(p, range);
  };
  for (Step& s : steps_) {
    const auto a = slots.rangeOf(s.gemm.a), b = slots.rangeOf(s.gemm.b);
    const bool moves = s.gemm.aRow.index || s.gemm.bRow.index; // in each run
    std::set<size_t> used;
    for (const auto& range : {a, b, slots.rangeOf(s.gemm.bias), slots.rangeOf(s.gemm.y)})
      if (range) used.insert(*range);
    for (auto& part : s.parts)
      for (Block& block : part) {
        if (block.gemm) addPointersOf(*block.gemm, slots);
        for (Product& p : block.products)
          for (const size_t range : used) addUser(range, p, !moves && range == (p.transposed ? a : b));
      }
    addPointersOf(s.gemm, slots);
  }
}

void CpuGemms::rebind(const MemoryRange& from, size_t range, std::byte* to) {
  if (range >= usersOf_.size()) return;
  bound_[range].to = to;
  for (const User& u : usersOf_[range]) {
    const auto bytes = static_cast<size_t>(from.bytes);
    if (u.product->made) oneDnn_->rebind(u.product->made, from.at, bytes, to);
    if (u.product->conv) oneDnn_->rebindConv(u.product->conv, from.at, bytes, to);
    if (u.product->bytes) u.product->bytes->rebind(from.at, bytes, to);
  }
}

// Makes the convolutions and matmuls that read what is kept packed.
void CpuGemms::beforeKeeping(size_t range) {
  if (range >= usersOf_.size()) return;
  const EndsWithoutMemory ends;
  for (const User& u : usersOf_[range]) {
    Product& p = *u.product;
    if (u.asWindow && p.made && !p.asConv && !p.window) {
      p.window = std::make_shared<GemmOperand>(*oneDnn_, p.made);
      packed_.add(p.window, p.b, range);
      scratchBytes_ = std::max(scratchBytes_, oneDnn_->gemmScratchBytes(p.made));
    }
    if (!u.asWindow || !p.asConv || p.conv) continue;
    p.conv = makeConv(*p.asConv);
    if (!p.conv || oneDnn_->packedBytes(p.conv) == 0) {
      if (p.conv) oneDnn_->destroyConv(std::exchange(p.conv, nullptr));
      p.asConv.reset();
      continue;
    }
    for (const Bound& b : bound_)
      if (b.to) oneDnn_->rebindConv(p.conv, b.from.at, static_cast<size_t>(b.from.bytes), b.to);
    addWindow(p, range);
  }
}

void CpuGemms::addWindow(Product& p, size_t range) {
  p.window = std::make_shared<ConvWindow>(*oneDnn_, p.conv);
  packed_.add(p.window, p.asConv->window, range);
}

void CpuGemms::chooseKernels(size_t range) {
  if (range >= usersOf_.size()) return;
  for (const User& u : usersOf_[range])
    if (u.asWindow && u.product->made)
      u.product->runsConv = u.product->conv && packed_.isPacked(u.product->window.get(), range);
}

Status CpuGemms::run(uint32_t step, uint32_t part, void* scratch) const {
  const EndsWithoutMemory ends; // oneDNN generates its matmuls for AVX2 in the first run, in std::call_once
  const Step& s = steps_[step];
  if (s.empty) fillWithBias(s.gemm, 0, s.gemm.bias, s.gemm.y);
  for (const Block& block : s.parts[part]) {
    const std::optional<int64_t> a = s.gemm.aRow.begin(s.gemm.aRow.index, s.gemm.operandType(false)),
                                 b = s.gemm.bRow.begin(s.gemm.bRow.index, s.gemm.operandType(true));
    if (!a || !b) fillWithBias(*block.gemm, 0, block.gemm->bias, block.gemm->y);
    for (const Product& p : block.products) {
      if (!a || !b) break;
      if (p.bytes) {
        p.bytes->run(p.transposed ? *b : *a, p.transposed ? *a : *b, scratch);
        continue;
      }
      const int failed = p.runsConv
                             ? oneDnn_->runConv(p.conv, scratch)
                             : oneDnn_->run(p.made, p.transposed ? *b : *a, p.transposed ? *a : *b, scratch);
      if (failed) return machineError("oneDNN could not execute the matmul");
    }
    if (s.function) s.function(s.gemm.epilogue->buffers.data(), block.sizes.data(), 0, block.units, scratch);
  }
  return Ok{};
}

} // namespace dtc
