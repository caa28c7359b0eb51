#include "print/PrintAttention.h"

#include "schedule/CudaPlan.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kTileKeys = 64, kRowBlocks = 8; // lib/Kernel/device/attention.h
constexpr int64_t kSharedBytes = 48 << 10;        // available to a block on every device

// The tiling of an attention in the CUDA form: rows and keys of a tile.
struct AttentionTile {
  int64_t rows = 0, keys = 0;
  int multiple = 0; // on tensor cores: each warp has this many times 16 rows; 0: not on them
  int split = 1;    // warps that share a tile's keys
  [[nodiscard]] int threads() const {
    return multiple ? static_cast<int>(rows) / (16 * multiple) * split * 32 : 128;
  }
};

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

// Sums, scores of 32 keys and the query's operands of 16 rows of 128 elements take 64, 16 and 32 registers:
// NVRTC spills with twice the keys where a score also loads a mask. Short rows leave room for 32 rows per
// warp, which read each key half as often from shared memory. With few rows the warps share the keys.
std::optional<AttentionTile> tensorTile(const Kernel& k, int64_t depth, int64_t width) {
  const Size rows = rowsOf(k, *k.attention);
  const int64_t longest = std::max(depth, width), maxRows = rows.isStatic() ? rows.number : INT32_MAX;
  if (!forTensorCores(k) || longest > 256) return std::nullopt;
  if (maxRows <= 16) return longest <= 128 ? AttentionTile{16, 64, 1, 4} : AttentionTile{16, 32, 1, 2};
  if (longest <= 64 && maxRows > 256) return AttentionTile{128, 32, 2, 1};
  return AttentionTile{64, longest <= 96 ? 64 : longest <= 128 ? 32 : 16, 1, 1};
}

std::optional<AttentionTile> attentionTile(const Kernel& k) {
  const Attention& a = *k.attention;
  const Size depth = k.axes[a.depth].extent, width = widthOf(k, a), height = rowsOf(k, a);
  if (!depth.isStatic() || !width.isStatic()) return std::nullopt;
  if (const auto tile = tensorTile(k, depth.number, width.number)) return tile;
  const int64_t bytes = dtypeBytes(k[a.product].type), unit = 16 / bytes;
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
  AttentionPrinter(Emitter& e, const Kernel& k) : e_(e), k_(k), lanes_(e.lanes()) {
    if (lanes_ == 1) tile_ = attentionTile(k);
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
      head += sizes;
      if (tile_->multiple)
        head = "dtc_attention_tensor<" + typeText(loadedFrom(k_, a_.keys)) + ", dtc_attention_tiling<" +
               sizes + ", " + std::to_string(tile_->multiple) + ", " + std::to_string(tile_->split) + ">";
      head += ", " + sizeText(depth) + ", " + sizeText(width) + ">(first, " + sizeText(rows) + ", " +
              sizeText(keys);
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

bool hasAttentionTile(const Kernel& k) { return attentionTile(k).has_value(); }

void printAttention(Emitter& e, const Kernel& k, PrintedKernel& out) { AttentionPrinter(e, k).run(out); }

} // namespace dtc
