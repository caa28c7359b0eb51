#include "print/PrintAttention.h"

#include "schedule/CudaPlan.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kTileKeys = 64, kRowBlocks = 8; // lib/Kernel/device/attention.h
constexpr int64_t kSharedBytes = 48 << 10;        // available to a block on every device

Size widthOf(const Kernel& k, const Attention& a) { return a.width ? k.axes[*a.width].extent : Size{1, {}}; }
Size rowsOf(const Kernel& k, const Attention& a) { return a.row ? k.axes[*a.row].extent : Size{1, {}}; }

DType loadedFrom(const Kernel& k, NodeId load) { return k.buffers[k[load].buffer].dtype; }

// Tensor cores multiply bf16 and f16, and take the weights rounded to them: where queries, keys, values and
// the result are all of one of these, or parts of a result that is.
bool forTensorCores(const Kernel& k) {
  const Attention& a = *k.attention;
  const DType dtype = loadedFrom(k, a.keys);
  return (dtype == DType::BF16 || dtype == DType::F16) && k[a.product].type == DType::F32 &&
         k[a.query].kind == NodeKind::Load && loadedFrom(k, a.query) == dtype &&
         loadedFrom(k, a.values) == dtype &&
         (a.parts || k.buffers[k.nests[0].stores[0].buffer].dtype == dtype);
}

// dtc_attention_room of lib/Kernel/device/attention_tensor.h.
int64_t sharedBytesOf(const AttentionTile& t, int64_t depth, int64_t width) {
  const int64_t query = tileBytes(t.rows, depth), pair = tileBytes(t.keys, depth) + tileBytes(t.keys, width);
  const int64_t joined = t.split > 1 ? t.split * 16 * ((width + 15) / 16 * 16) * 4 : 0;
  return std::max({pair, joined, t.stays ? query : 0}) + (t.stays ? 0 : query);
}

// Whether the blocks of that many rows occupy all multiprocessors; unknown sizes count as large.
bool occupies(const Kernel& k, int64_t rows, const Target& target) {
  const Attention& a = *k.attention;
  const Size height = rowsOf(k, a);
  if (!height.isStatic()) return true;
  int64_t blocks = (height.number + rows - 1) / rows;
  for (AxisId g : a.grid) {
    const Size& extent = k.axes[g].extent;
    if (!extent.isStatic()) return true;
    blocks *= extent.number;
  }
  return blocks >= target.multiprocessors;
}

// Tiles on tensor cores, the best first; one that spills is skipped, for example where a score also loads a mask.
// 32 rows per warp read each key half as often from shared memory, where two such blocks fit a multiprocessor. For
// heads over 64 elements, sums, scores and the query's operands together would not fit the registers: the operands
// are read again for each tile of keys. With few rows the warps share the keys.
std::vector<AttentionTile> tensorTiles(const Kernel& k, int64_t depth, int64_t width, const Target& target) {
  const Size rows = rowsOf(k, *k.attention);
  const int64_t longest = std::max(depth, width), maxRows = rows.isStatic() ? rows.number : INT32_MAX;
  if (!forTensorCores(k) || longest > 256) return {};
  if (maxRows <= 16)
    return {longest <= 128 ? AttentionTile{16, 64, 1, 4, true} : AttentionTile{16, 32, 1, 2}};
  std::vector<AttentionTile> wide, tiles;
  if (longest <= 64)
    wide = {{128, 64, 2, 1, true}, {128, 32, 2, 1, true}};
  else if (longest <= 96)
    wide = {{128, 32, 2, 1, true}, {128, 32, 2, 1, false}};
  else if (longest <= 128)
    wide = {{128, 48, 2, 1, false}, {128, 32, 2, 1, false}};
  for (const AttentionTile& t : wide) {
    constexpr int64_t kReserved = 1 << 10; // of each block
    const bool fits = 2 * (sharedBytesOf(t, depth, width) + kReserved) <= target.sharedBytes + kReserved;
    if (fits && fillsWideBlocks(maxRows) && occupies(k, t.rows, target)) tiles.push_back(t);
  }
  if (longest > 96 && longest <= 128) tiles.push_back({64, 32, 1, 1, true, 3});
  tiles.push_back({64, longest <= 96 ? 64 : longest <= 128 ? 32 : 16, 1, 1, longest <= 128});
  return tiles;
}

// Rows and keys of a tile on CUDA cores, in the compute type.
std::optional<AttentionTile> plainTile(const Kernel& k, const Size& depth, const Size& width) {
  const Size height = rowsOf(k, *k.attention);
  const int64_t bytes = dtypeBytes(k[k.attention->product].type), unit = 16 / bytes;
  if (depth.number >= kSharedBytes || width.number >= kSharedBytes) return std::nullopt;
  auto stride = [&](int64_t n) { return (n + unit - 1) / unit * unit + unit; };
  for (const auto& [rows, keys] :
       {std::pair<int64_t, int64_t>{64, 32}, {32, 32}, {16, 32}, {32, 16}, {16, 16}}) {
    if (rows > 16 && height.isStatic() && height.number <= rows / 2) continue; // half of it would be enough
    const int64_t elements = rows * stride(depth.number) +
                             keys * stride(std::max(depth.number, width.number)) + rows * stride(keys);
    if (elements * bytes <= kSharedBytes) return AttentionTile{rows, keys};
  }
  return std::nullopt;
}

class AttentionPrinter {
public:
  // `tile`: of the CUDA form.
  AttentionPrinter(Emitter& e, const Kernel& k, std::optional<AttentionTile> tile)
      : e_(e), k_(k), lanes_(e.lanes()), tile_(tile) {
    unit_.indent = lanes_ > 1 ? 2 : 1;
  }

  void run(PrintedKernel& out) {
    Nest result = k_.nests[0]; // the other stores do not use the scores
    result.stores.resize(1);
    e_.begin(result);
    const DType type = k_[a_.product].type;
    const Size depth = k_.axes[a_.depth].extent, width = widthOf(k_, a_), rows = rowsOf(k_, a_),
               keys = k_.axes[a_.key].extent;
    const int64_t n = lanes_, vectors = rows.isStatic() && rows.number <= n ? 1 : 2;
    const int64_t block = n > 1 ? kRowBlocks * vectors * n : tile_->rows;
    decode(n > 1 ? "unit" : "blockIdx.x", block, out);
    std::vector<std::string> arguments;
    std::string head = "dtc_attention<" + typeText(type) + ", ";
    if (n > 1) {
      head += std::to_string(n) + ", " + std::to_string(vectors) + ">(first, dtc_index_min(" +
              std::to_string(block) + ", " + sizeText(rows) + " - first), " + sizeText(keys) + ", " +
              sizeText(depth) + ", " + sizeText(width);
      arguments = {matrix(a_.keys, a_.keysAt, a_.depth), matrix(a_.values, a_.valuesAt, a_.width), "scratch",
                   element(a_.query, a_.row, a_.depth)};
      const int64_t bytes = dtypeBytes(type), perColumn = bytes * (block + kTileKeys);
      for (const Size& columns : {depth, width})
        out.scratchBytes.terms.push_back(factorsOf(columns * Size{perColumn, {}}));
      out.scratchBytes.terms.push_back({{bytes * (4 * block + kTileKeys * vectors * n), -1, 1}});
      out.unitElements.terms.push_back(factorsOf(keys * Size{block, {}}));
    } else {
      const std::string sizes = std::to_string(tile_->rows) + ", " + std::to_string(tile_->keys);
      if (tile_->multiple)
        head = tensorHead(depth.number, width.number, out);
      else
        head += sizes + ", " + sizeText(depth) + ", " + sizeText(width) + ">(";
      head += "first, " + sizeText(rows) + ", " + sizeText(keys);
      arguments = {operand(a_.query, a_.queryAt, a_.row, a_.depth),
                   operand(a_.keys, a_.keysAt, a_.key, a_.depth),
                   operand(a_.values, a_.valuesAt, a_.key, a_.width)};
      out.threadsPerBlock = tile_->threads();
    }
    for (bool begin : {true, false}) arguments.push_back(bound(begin));
    arguments.push_back(score());
    const Store& output = k_.nests[0].stores[0];
    const bool inRows =
        tile_ && a_.resultAt.valid() && a_.width && isInRows(output.buffer, output.address, *a_.width);
    arguments.push_back(inRows ? rowsText(output.buffer, output.address, a_.resultAt, a_.row) : store(0));
    arguments.push_back(a_.lse ? store(1) : "dtc_none{}");
    for (const std::string& x : arguments) head += ",\n" + indentText(unit_.indent + 1) + x;
    line(unit_, head + ");");
    Text top;
    if (n > 1) line(top, "for (i64 unit = begin; unit < end; ++unit) {");
    append(top, unit_);
    if (n > 1) line(top, "}");
    out.body = top.text;
  }

private:
  using Scope = Emitter::Scope;

  // "dtc_attention_tensor<bf16, dtc_attention_tiling<…>, depth, width>(tiles, "
  std::string tensorHead(int64_t depth, int64_t width, PrintedKernel& out) {
    const std::string type = typeText(loadedFrom(k_, a_.keys)),
                      heads = std::to_string(depth) + ", " + std::to_string(width);
    std::string tiling = "dtc_attention_tiling<";
    for (int64_t n : {tile_->rows, tile_->keys, int64_t{tile_->multiple}, int64_t{tile_->split}})
      tiling += std::to_string(n) + ", ";
    tiling += tile_->stays ? "true>" : "false>";
    out.sharedBytes = static_cast<int>(sharedBytesOf(*tile_, depth, width));
    out.minBlocks = tile_->minBlocks;
    out.schedule = std::to_string(tile_->rows) + " queries per block, " + std::to_string(tile_->keys) +
                   " keys at a time, in " + std::to_string((out.sharedBytes + 1023) / 1024) +
                   " KiB of shared memory";
    line(unit_, "extern __shared__ uint4 tiles[];");
    line(unit_, "static_assert(dtc_attention_room<" + type + ", " + tiling + ", " + heads +
                    ">::bytes == " + std::to_string(out.sharedBytes) + ");");
    return "dtc_attention_tensor<" + type + ", " + tiling + ", " + heads + ">(tiles, ";
  }

  // The body of a lambda with a coordinate of each of these axes.
  Scope inside(std::initializer_list<std::optional<AxisId>> axes) {
    Scope body;
    body.parent = &unit_;
    body.bound = unit_.bound;
    for (const std::optional<AxisId>& a : axes) body.bound |= a ? AxisSet(1) << *a : 0;
    body.indent = unit_.indent + 2;
    return body;
  }
  // "[&](i64 i4, i64 i7) { statements return result; }"
  std::string lambda(const std::string& parameters, const Scope& body, const std::string& result) const {
    const std::string inlined = lanes_ > 1 ? " DTC_INLINE" : "";
    const std::string head = "[&](" + parameters + ")" + inlined + " {";
    if (body.text.empty()) return head + " " + result + " }";
    return head + "\n" + body.text + indentText(body.indent) + result + "\n" + indentText(body.indent - 1) +
           "}";
  }
  std::string parameter(std::optional<AxisId> a) const { return "i64 " + (a ? e_.axisText(*a) : "none"); }

  // The keys that a row attends to: from the max of the lower bounds to the min of the upper ones.
  std::string bound(bool begin) {
    Scope body = inside({a_.row});
    std::string text = begin ? "i64(0)" : "i64(" + sizeText(k_.axes[a_.key].extent) + ")";
    for (AffineId b : begin ? a_.begins : a_.ends)
      text = std::string(begin ? "dtc_index_max(" : "dtc_index_min(") + text + ", " + e_.affineText(b, body) +
             ")";
    return lambda(parameter(a_.row), body, "return " + text + ";");
  }

  std::string score() {
    Scope body = inside({a_.key, a_.row});
    const bool vector = lanes_ > 1;
    body.vector = vector && a_.row ? *a_.row : -1;
    const DType type = k_[a_.product].type;
    // Without a row axis every lane holds the same row: a scalar for all of them.
    const bool one = vector && !a_.row;
    if (one) line(body, "const " + typeText(type) + " s = same[0];");
    body.names[a_.product.index] = {"s", vector && !one, true};
    const Emitter::Value x = e_.emit(a_.score, body);
    const std::string s = (vector ? e_.vectorType(type) : typeText(type)) + (one ? " same" : " s");
    // What is loaded by row is not loaded past the last one.
    return lambda(s + ", " + parameter(a_.row) + ", " + parameter(a_.key) +
                      (body.uses("lanes") ? ", auto lanes" : ""),
                  body, "return " + e_.splat(x, type, vector) + ";");
  }

  // "dtc_matrix<f32>{in1 + …, stride of a row, stride of a column}"
  std::string matrix(NodeId load, AffineId base, std::optional<AxisId> column) {
    const Node& node = k_[load];
    return "dtc_matrix<" + typeText(k_.buffers[node.buffer].dtype) + ">{" +
           pointerText(k_, node.buffer, e_.affineText(base, unit_)) + ", " +
           sizeText(k_.strideOf(node.affine, a_.key).size) + ", " +
           (column ? sizeText(k_.strideOf(node.affine, *column).size) : "1") + "}";
  }

  std::string element(NodeId n, std::optional<AxisId> row, std::optional<AxisId> column) {
    Scope body = inside({row, column});
    const std::string x = e_.emit(n, body).text;
    return lambda(parameter(row) + ", " + parameter(column), body, "return " + x + ";");
  }

  // "dtc_rows<const bf16>{in1 + …, stride of a row}"
  std::string rowsText(uint32_t buffer, AffineId address, AffineId base, std::optional<AxisId> row) {
    const std::string type = typeText(k_.buffers[buffer].dtype);
    return "dtc_rows<" + (k_.buffers[buffer].output ? type : "const " + type) + ">{" +
           pointerText(k_, buffer, e_.affineText(base, unit_)) + ", " +
           (row ? sizeText(k_.strideOf(address, *row).size) : "0") + "}";
  }

  // True if rows along `column` can be copied 16 bytes at a time, and have the dtype in which the CUDA form
  // computes.
  bool isInRows(uint32_t buffer, AffineId address, AxisId column) const {
    const DType dtype = k_.buffers[buffer].dtype;
    const int64_t pack = 16 / dtypeBytes(dtype);
    return (tile_->multiple || dtype == k_[a_.product].type) && k_.axes[column].extent.number % pack == 0 &&
           isInPacks(k_, address, column, pack);
  }

  // Of the CUDA form: as rows where 16 bytes at a time can be copied, else element by element.
  std::string operand(NodeId n, AffineId base, std::optional<AxisId> row, std::optional<AxisId> column) {
    if (base.valid() && column && isInRows(k_[n].buffer, k_[n].affine, *column))
      return rowsText(k_[n].buffer, k_[n].affine, base, row);
    return element(n, row, column);
  }

  // Of the result, or (store 1) of each row's log-sum-exp.
  std::string store(size_t number) {
    const Store& store = k_.nests[0].stores[number];
    const bool result = number == 0;
    Scope body = inside({a_.row, result ? a_.width : std::nullopt});
    const std::string at = e_.affineText(store.address, body);
    return lambda(parameter(a_.row) + ", " + (result ? parameter(a_.width) + ", " : "") +
                      typeText(k_[a_.product].type) + " y",
                  body, "dtc_store(" + bufferText(k_, store.buffer) + " + " + at + ", y);");
  }

  // The coordinates of a unit: the blocks of rows vary fastest. On a GPU those that attend to more keys start
  // first: an upper bound increases with the row, and a short block at the end leaves a GPU idle for less
  // time than a long one.
  void decode(const std::string& number, int64_t block, PrintedKernel& out) {
    std::vector<SizeFormula::Factor> units;
    line(unit_, "i64 rest = " + number + ";");
    const Size rows = rowsOf(k_, a_);
    const std::string blocks = "dtc_blocks(" + sizeText(rows) + ", " + std::to_string(block) + ")";
    const bool lastFirst = lanes_ == 1 && !a_.ends.empty();
    line(unit_, "const i64 first = " +
                    (lastFirst ? "(" + blocks + " - 1 - rest % " + blocks + ")" : "rest % " + blocks) +
                    " * " + std::to_string(block) + ";");
    line(unit_, "rest /= " + blocks + ";");
    for (size_t i = a_.grid.size(); i-- > 0;) {
      const Size& extent = k_.axes[a_.grid[i]].extent;
      const std::string count = "(" + sizeText(extent) + ")";
      line(unit_,
           "const i64 " + e_.axisText(a_.grid[i]) + " = " + (i == 0 ? "rest" : "rest % " + count) + ";");
      if (i > 0) line(unit_, "rest /= " + count + ";");
      for (const SizeFormula::Factor& f : factorsOf(extent)) units.push_back(f);
      unit_.bound |= AxisSet(1) << a_.grid[i];
    }
    for (SizeFormula::Factor f : factorsOf(rows)) {
      f.per = block; // one constant or one argument (Attention.cpp)
      units.push_back(f);
    }
    out.units.terms = {units};
  }

  Emitter& e_;
  const Kernel& k_;
  const Attention& a_ = *k_.attention;
  int lanes_;
  std::optional<AttentionTile> tile_; // of the CUDA form
  Scope unit_;
};

} // namespace

bool fillsWideBlocks(int64_t rows) { return rows > 256 || (rows + 63) / 64 % 2 == 0; }

int64_t tileBytes(int64_t rows, int64_t columns) {
  const int64_t units = (columns + 15) / 16 * 2;
  return rows * (units == 32 ? units : units | 1) * 16;
}

std::vector<AttentionTile> attentionTiles(const Kernel& k, const Target& target) {
  const Attention& a = *k.attention;
  const Size depth = k.axes[a.depth].extent, width = widthOf(k, a);
  if (!depth.isStatic() || !width.isStatic()) return {};
  std::vector<AttentionTile> tiles = tensorTiles(k, depth.number, width.number, target);
  if (tiles.empty())
    if (const auto plain = plainTile(k, depth, width)) tiles.push_back(*plain);
  return tiles;
}

void printAttention(Emitter& e, const Kernel& k, PrintedKernel& out, std::optional<AttentionTile> tile) {
  AttentionPrinter(e, k, tile).run(out);
}

} // namespace dtc
