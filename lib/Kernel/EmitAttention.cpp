// Attention: the call that both printers write, and what its lambdas say.
#include "Emit.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kTileKeys = 64, kRowBlocks = 8; // lib/Jit/Device/attention.h
constexpr int64_t kSharedBytes = 48 << 10;        // that every device gives a block

Size widthOf(const Kernel& k, const Attention& a) { return a.width ? k.axes[*a.width].extent : Size{1, {}}; }
Size rowsOf(const Kernel& k, const Attention& a) { return a.row ? k.axes[*a.row].extent : Size{1, {}}; }

DType loadedFrom(const Kernel& k, NodeId load) { return k.buffers[k[load].buffer].dtype; }

// Tensor cores multiply bf16 and f16, and take the weights rounded to them: where queries, keys, values and the result are all
// of one of these, or parts of a result that is.
bool forTensorCores(const Kernel& k) {
  const Attention& a = *k.attention;
  const DType dtype = loadedFrom(k, a.keys);
  return (dtype == DType::BF16 || dtype == DType::F16) && k[a.product].type == DType::F32 &&
         k[a.query].kind == NodeKind::Load && loadedFrom(k, a.query) == dtype &&
         loadedFrom(k, a.values) == dtype &&
         (a.parts || k.buffers[k.nests[0].stores[0].buffer].dtype == dtype);
}

// Sums, scores of 32 keys and the query's operands of 16 rows of 128 elements take 64, 16 and 32 registers: NVRTC spills with
// twice the keys where a score also loads a mask. Short rows leave room for 32 rows a warp, which read each key half as often from
// shared memory. Few rows: the warps share the keys.
std::optional<AttentionTile> tensorTile(const Kernel& k, int64_t depth, int64_t width) {
  const Size rows = rowsOf(k, *k.attention);
  const int64_t longest = std::max(depth, width), most = rows.isStatic() ? rows.number : INT32_MAX;
  if (!forTensorCores(k) || longest > 256) return std::nullopt;
  if (most <= 16) return longest <= 128 ? AttentionTile{16, 64, 1, 4} : AttentionTile{16, 32, 1, 2};
  if (longest <= 64 && most > 256) return AttentionTile{128, 32, 2, 1};
  return AttentionTile{64, longest <= 96 ? 64 : longest <= 128 ? 32 : 16, 1, 1};
}

} // namespace

std::optional<AttentionTile> attentionTile(const Kernel& k) {
  const Attention& a = *k.attention;
  const Size depth = k.axes[a.depth].extent, width = widthOf(k, a), height = rowsOf(k, a);
  if (!depth.isStatic() || !width.isStatic()) return std::nullopt;
  if (const auto tile = tensorTile(k, depth.number, width.number)) return tile;
  const int64_t bytes = dtypeBytes(k[a.product].type), piece = 16 / bytes;
  if (depth.number >= kSharedBytes || width.number >= kSharedBytes) return std::nullopt;
  auto stride = [&](int64_t n) { return (n + piece - 1) / piece * piece + piece; };
  for (const auto& [rows, keys] :
       {std::pair<int64_t, int64_t>{64, 32}, {32, 32}, {16, 32}, {32, 16}, {16, 16}}) {
    if (rows > 16 && height.isStatic() && height.number <= rows / 2) continue; // half of it would do
    const int64_t elements = rows * stride(depth.number) +
                             keys * stride(std::max(depth.number, width.number)) + rows * stride(keys);
    if (elements * bytes <= kSharedBytes) return AttentionTile{rows, keys};
  }
  return std::nullopt;
}

// "[&](i64 i4, i64 i7) { statements return result; }"
std::string Emitter::attentionLambda(const std::string& parameters, Scope& body, const std::string& result) {
  const std::string inlined = lanes() > 1 ? " DTC_INLINE" : "";
  const std::string head = "[&](" + parameters + ")" + inlined + " {";
  if (body.text.empty()) return head + " " + result + " }";
  return head + "\n" + body.text + indentText(body.indent) + result + "\n" + indentText(body.indent - 1) +
         "}";
}

// The keys that a row sees: from the greatest of the lower bounds to the least of the upper ones.
std::string Emitter::attentionBound(const Attention& a, bool begin, Scope& unit) {
  Scope body;
  body.parent = &unit;
  body.bound = unit.bound | (a.row ? AxisSet(1) << *a.row : 0);
  body.indent = unit.indent + 2;
  std::string text = begin ? "i64(0)" : "i64(" + sizeText(k_.axes[a.key].extent) + ")";
  for (AffineId b : begin ? a.begins : a.ends)
    text = std::string(begin ? "dtc_greatest(" : "dtc_least(") + text + ", " + affineText(b, body) + ")";
  return attentionLambda("i64 " + attentionAxis(a.row), body, "return " + text + ";");
}

std::string Emitter::attentionScore(const Attention& a, Scope& unit) {
  Scope body;
  body.parent = &unit;
  body.bound = unit.bound | AxisSet(1) << a.key | (a.row ? AxisSet(1) << *a.row : 0);
  body.vector = lanes() > 1 && a.row ? *a.row : -1;
  body.indent = unit.indent + 2;
  const DType type = k_[a.product].type;
  const bool vector = lanes() > 1;
  // Without a row axis every lane holds the one row: a number stands for all of them.
  const bool one = vector && !a.row;
  if (one) line(body, "const " + typeText(type) + " s = same[0];");
  body.names[a.product.index] = {"s", vector && !one, true};
  const Value x = emit(a.score, body);
  const std::string result = "return " + splat(x, type, vector) + ";";
  const std::string s = (vector ? vectorType(type) : typeText(type)) + (one ? " same" : " s");
  const bool byRow =
      (body.text + result).find("lanes") != std::string::npos; // it loads by row: not past the last one
  return attentionLambda(s + ", i64 " + attentionAxis(a.row) + ", i64 " + axisText(a.key) +
                             (byRow ? ", auto lanes" : ""),
                         body, result);
}

// "dtc_matrix<f32>{in1 + …, stride of a row, stride of a column}"
std::string Emitter::attentionMatrix(NodeId load, AffineId base, AxisId row, std::optional<AxisId> column,
                                     Scope& unit) {
  const Node& node = k_[load];
  const std::string at = affineText(base, unit), type(dtypeName(k_.buffers[node.buffer].dtype));
  return "dtc_matrix<" + type + ">{" + bufferText(node.buffer) + (at == "0" ? "" : " + " + at) + ", " +
         sizeText(k_.strideOf(node.affine, row).size) + ", " +
         (column ? sizeText(k_.strideOf(node.affine, *column).size) : "1") + "}";
}

std::string Emitter::attentionElement(NodeId n, std::optional<AxisId> row, std::optional<AxisId> column,
                                      Scope& unit) {
  Scope body;
  body.parent = &unit;
  body.bound = unit.bound | (row ? AxisSet(1) << *row : 0) | (column ? AxisSet(1) << *column : 0);
  body.indent = unit.indent + 2;
  const Value x = emit(n, body);
  return attentionLambda("i64 " + attentionAxis(row) + ", i64 " + attentionAxis(column), body,
                         "return " + x.text + ";");
}

// "dtc_rows<const bf16>{in1 + …, stride of a row}"
std::string Emitter::attentionRows(uint32_t buffer, AffineId address, AffineId base,
                                   std::optional<AxisId> row, Scope& unit) {
  const std::string at = affineText(base, unit), type(dtypeName(k_.buffers[buffer].dtype));
  return "dtc_rows<" + (k_.buffers[buffer].output ? type : "const " + type) + ">{" + bufferText(buffer) +
         (at == "0" ? "" : " + " + at) + ", " + (row ? sizeText(k_.strideOf(address, *row).size) : "0") + "}";
}

// May rows along `column` be moved 16 bytes at a time, being of the dtype that the CUDA form computes with?
bool Emitter::liesInRows(const Attention& a, const AttentionTile& tile, uint32_t buffer, AffineId address,
                         AxisId column) const {
  const DType dtype = k_.buffers[buffer].dtype;
  const int64_t pack = 16 / dtypeBytes(dtype);
  return (tile.multiple || dtype == k_[a.product].type) && k_.axes[column].extent.number % pack == 0 &&
         liesInPacks(k_, address, column, pack);
}

// Query, keys and values of the CUDA form: as rows where 16 bytes at a time can be copied, else element by element.
std::vector<std::string> Emitter::attentionOperands(const Attention& a, const AttentionTile& tile,
                                                    Scope& unit) {
  auto operand = [&](NodeId n, AffineId base, std::optional<AxisId> row, std::optional<AxisId> column) {
    if (base.valid() && column && liesInRows(a, tile, k_[n].buffer, k_[n].affine, *column))
      return attentionRows(k_[n].buffer, k_[n].affine, base, row, unit);
    return attentionElement(n, row, column, unit);
  };
  return {operand(a.query, a.queryAt, a.row, a.depth), operand(a.keys, a.keysAt, a.key, a.depth),
          operand(a.values, a.valuesAt, a.key, a.width)};
}

// Of the result, or (store 1) of each row's log-sum-exp.
std::string Emitter::attentionStore(const Attention& a, size_t number, Scope& unit) {
  const Store& store = k_.nests[0].stores[number];
  const bool result = number == 0;
  Scope body;
  body.parent = &unit;
  body.bound =
      unit.bound | (a.row ? AxisSet(1) << *a.row : 0) | (result && a.width ? AxisSet(1) << *a.width : 0);
  body.indent = unit.indent + 2;
  const std::string at = affineText(store.address, body);
  return attentionLambda("i64 " + attentionAxis(a.row) + ", " +
                             (result ? "i64 " + attentionAxis(a.width) + ", " : "") +
                             typeText(k_[a.product].type) + " y",
                         body, "dtc_store(" + bufferText(store.buffer) + " + " + at + ", y);");
}

// The coordinates of a unit: the blocks of rows are its last. On a GPU those that see more keys begin first: a bound above
// rises with the row, and a short block left to the end keeps a GPU busy less long than a long one.
void Emitter::attentionUnit(const Attention& a, const std::string& number, int64_t block, Scope& unit,
                            PrintedKernel& out) {
  std::vector<SizeFormula::Factor> units;
  line(unit, "i64 rest = " + number + ";");
  const Size rows = rowsOf(k_, a);
  const std::string blocks = "dtc_blocks(" + sizeText(rows) + ", " + std::to_string(block) + ")";
  const bool lastFirst = lanes() == 1 && !a.ends.empty();
  line(unit, "const i64 first = " +
                 (lastFirst ? "(" + blocks + " - 1 - rest % " + blocks + ")" : "rest % " + blocks) + " * " +
                 std::to_string(block) + ";");
  line(unit, "rest /= " + blocks + ";");
  for (size_t i = a.grid.size(); i-- > 0;) {
    const Size& extent = k_.axes[a.grid[i]].extent;
    const std::string count = "(" + sizeText(extent) + ")";
    line(unit, "const i64 " + axisText(a.grid[i]) + " = " + (i == 0 ? "rest" : "rest % " + count) + ";");
    if (i > 0) line(unit, "rest /= " + count + ";");
    for (const SizeFormula::Factor& f : factorsOf(extent)) units.push_back(f);
    unit.bound |= AxisSet(1) << a.grid[i];
  }
  for (SizeFormula::Factor f : factorsOf(rows)) {
    f.per = block; // one number or one argument (Attention.cpp)
    units.push_back(f);
  }
  out.units.terms = {units};
}

void Emitter::emitAttention(Scope& top, PrintedKernel& out) {
  const Attention& a = *k_.attention;
  Nest result = k_.nests[0]; // what else is stored is no use of the scores
  result.stores.resize(1);
  countUses(result);
  const DType type = k_[a.product].type;
  const Size depth = k_.axes[a.depth].extent, width = widthOf(k_, a), rows = rowsOf(k_, a),
             keys = k_.axes[a.key].extent;
  const int64_t n = lanes(), vectors = rows.isStatic() && rows.number <= n ? 1 : 2;
  const std::optional<AttentionTile> tile = n > 1 ? std::nullopt : attentionTile(k_);
  const int64_t block = n > 1 ? kRowBlocks * vectors * n : tile->rows;
  Scope unit;
  unit.parent = &top;
  unit.indent = n > 1 ? 2 : 1;
  attentionUnit(a, n > 1 ? "unit" : "blockIdx.x", block, unit, out);
  std::vector<std::string> arguments;
  std::string head = "dtc_attention<" + typeText(type) + ", ";
  if (n > 1) {
    head += std::to_string(n) + ", " + std::to_string(vectors) + ">(first, dtc_least(" +
            std::to_string(block) + ", " + sizeText(rows) + " - first), " + sizeText(keys) + ", " +
            sizeText(depth) + ", " + sizeText(width);
    arguments = {attentionMatrix(a.keys, a.keysAt, a.key, a.depth, unit),
                 attentionMatrix(a.values, a.valuesAt, a.key, a.width, unit), "scratch",
                 attentionElement(a.query, a.row, a.depth, unit)};
    const int64_t bytes = dtypeBytes(type), perColumn = bytes * (block + kTileKeys);
    for (const Size& columns : {depth, width})
      out.scratchBytes.terms.push_back(factorsOf(columns * Size{perColumn, {}}));
    out.scratchBytes.terms.push_back({{bytes * (4 * block + kTileKeys * vectors * n), -1, 1}});
    out.unitElements.terms.push_back(factorsOf(keys * Size{block, {}}));
  } else {
    const std::string cut = std::to_string(tile->rows) + ", " + std::to_string(tile->keys);
    head += cut;
    if (tile->multiple)
      head = "dtc_attention_tensor<" + typeText(loadedFrom(k_, a.keys)) + ", dtc_attention_cut<" + cut +
             ", " + std::to_string(tile->multiple) + ", " + std::to_string(tile->split) + ">";
    head += ", " + sizeText(depth) + ", " + sizeText(width) + ">(first, " + sizeText(rows) + ", " +
            sizeText(keys);
    arguments = attentionOperands(a, *tile, unit);
    out.threadsPerBlock = tile->threads();
  }
  arguments.push_back(attentionBound(a, true, unit));
  arguments.push_back(attentionBound(a, false, unit));
  arguments.push_back(attentionScore(a, unit));
  const Store& whole = k_.nests[0].stores[0];
  const bool rowsLie =
      tile && a.resultAt.valid() && a.width && liesInRows(a, *tile, whole.buffer, whole.address, *a.width);
  arguments.push_back(rowsLie ? attentionRows(whole.buffer, whole.address, a.resultAt, a.row, unit)
                              : attentionStore(a, 0, unit));
  arguments.push_back(a.lse ? attentionStore(a, 1, unit) : "dtc_none{}");
  for (const std::string& x : arguments) head += ",\n" + indentText(unit.indent + 1) + x;
  line(unit, head + ");");
  if (n > 1) line(top, "for (i64 unit = begin; unit < end; ++unit) {");
  top.text += unit.text;
  if (n > 1) line(top, "}");
}

} // namespace dtc
