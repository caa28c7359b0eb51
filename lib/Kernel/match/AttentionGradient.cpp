#include "match/AttentionGradient.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc {

using namespace loops;

namespace {

constexpr int kThreads = 128; // lib/Kernel/device/attention_gradient.h and attention_gradient_block.h
constexpr size_t kMask = 6;   // the operand's number
// For the gradient of a mask, tiles of keys whose sums a block keeps in registers: each query is then read
// from memory once for all of them.
constexpr int64_t kTensorTiles = 2, kPlainTiles = 2;

// Blocks of `rows` rows, against tiles of `passing` others.
struct Tiling {
  bool tensor = false;
  int64_t rows = 64, passing = 32;
  bool separate = false; // dk and dv are computed by blocks of their own
  int64_t sharedBytes = 0;
};

// The memory of a tile of 16-bit rows: an odd number of 16-byte units per row, except for the longest.
int64_t tileBytes(int64_t rows, int64_t columns) {
  const int64_t units = (columns + 15) / 16 * 2;
  return rows * (units == 32 ? units : units | 1) * 16;
}

Tiling tensorTiling(int64_t depth, int64_t width) {
  const int64_t longest = std::max(depth, width);
  Tiling c{true, 64, longest <= 192 ? 32 : 16, longest > 128};
  for (int64_t columns : {depth, width})
    c.sharedBytes += tileBytes(c.rows, columns) + tileBytes(c.passing, columns);
  c.sharedBytes += 2 * c.passing * 4;
  return c;
}

// A thread has an eighth of the rows, and of each a sixteenth of the sums: more than 128 registers for these
// would leave too few. (64 rows take nearly all of them with heads of 64, twice as many as 32 rows.) Three
// blocks on a multiprocessor of 228 KiB, where rows are not too long for it; every GPU allows a block 96 KiB.
Tiling plainTiling(int64_t depth, int64_t width, int64_t bytes) {
  const int64_t unit = 16 / bytes;
  auto stride = [&](int64_t n) { return (n + unit - 1) / unit * unit + unit; };
  Tiling c;
  for (const int64_t maxBytes : {72 << 10, 96 << 10})
    for (const auto& [rows, passing] : {std::pair<int64_t, int64_t>{32, 64}, {32, 32}, {32, 16}, {16, 16}}) {
      const int64_t sums = rows / 8 * ((depth + 15) / 16 + (width + 15) / 16) * (bytes / 4);
      c.rows = rows, c.passing = passing;
      c.sharedBytes =
          ((rows + passing) * (stride(depth) + stride(width)) + rows * (passing + unit) + 2 * passing) *
          bytes;
      if (c.sharedBytes <= maxBytes && sums <= 128) return c;
    }
  return c;
}

Tiling tilingOf(const Kernel& k, const AttentionGradient& g) {
  const DType dtype = k.buffers[g.operands[0]].dtype;
  return dtype == DType::BF16 || dtype == DType::F16
             ? tensorTiling(g.depth, g.width)
             : plainTiling(g.depth, g.width, dtypeBytes(accumulationType(dtype)));
}

class GradientMatcher {
public:
  GradientMatcher(Module& m, OpId fused) : m_(m), block_(m[m.region(fused)]), sizes_(m, fused) {}

  std::optional<Lowered> run() {
    if (block_.ops.size() != 1) return {};
    op_ = block_.ops[0];
    const AttentionForm form = attentionForm(m_.record(op_));
    g_.ofMask = form == AttentionForm::MaskGradient;
    if (!g_.ofMask && form != AttentionForm::Gradient) return {};
    Diagnostics quiet;
    const OpQuery q = queryOf(m_, op_, quiet);
    readSizes(q);
    for (uint32_t i = 0; i < block_.args.size(); ++i) // except for operands that only a library reads
      if (reads(block_.args[i])) addBuffer(block_.args[i], false), l_.inputs.push_back(i);
    l_.kernel.numInputs = static_cast<uint32_t>(l_.inputs.size());
    const uint32_t results = g_.ofMask ? 1 : 3;
    for (uint32_t i = 0; i < results; ++i) {
      if (block_.yields.size() != results || block_.yields[i] != m_.result(op_, i)) return {};
      addBuffer(block_.yields[i], true), l_.outputs.push_back(i);
    }
    for (size_t i = 0; i < kMask; ++i) {
      const auto number = bufferOf(m_.operand(op_, i));
      if (!number) return {};
      g_.operands[i] = *number;
    }
    if (!readRest(q)) return {};
    l_.kernel.attentionGradient = g_;
    for (const std::vector<ValueId>& values : {block_.args, block_.yields}) // to count their bytes
      for (ValueId v : values)
        for (Dim d : m_.typeOf(v).dims) static_cast<void>(sizes_.of(d));
    l_.sizes = sizes_.list;
    l_.kernel.numSizes = static_cast<uint32_t>(l_.sizes.size());
    return std::move(l_);
  }

private:
  void addBuffer(ValueId v, bool output) { l_.kernel.buffers.push_back({m_.typeOf(v).dtype, output}); }
  [[nodiscard]] bool reads(ValueId arg) const {
    const auto operands = m_.operands(op_);
    return std::find(operands.begin(), operands.end(), arg) != operands.end();
  }
  std::optional<uint32_t> bufferOf(ValueId v) const {
    for (uint32_t i = 0; i < l_.inputs.size(); ++i)
      if (block_.args[l_.inputs[i]] == v) return i;
    return {};
  }
  void readSizes(const OpQuery& q) {
    auto size = [&](size_t operand, size_t dim) { return sizes_.of(q.type(operand).dims[dim]); };
    g_.batch = size(0, 0), g_.heads = size(0, 1), g_.keyHeads = size(1, 1);
    g_.rows = size(0, 2), g_.keys = size(1, 2);
    g_.depth = q.type(0).dims[3].value(), g_.width = q.type(2).dims[3].value();
    g_.causal = q.boolAttr("causal"), g_.window = q.intAttr("window");
    g_.scale =
        q.rawAttr("scale").valid() ? q.floatAttr("scale") : 1 / std::sqrt(static_cast<double>(g_.depth));
  }
  // A mask, and the offset of the queries.
  bool readRest(const OpQuery& q) {
    for (size_t i = kMask; i < q.operandTypes.size(); ++i) {
      const Type& t = q.type(i);
      const auto number = bufferOf(m_.operand(op_, i));
      if (t.dtype == DType::I32 && t.rank() == 0) {
        const Value& v = m_[m_.operand(op_, i)];
        if (!number && v.kind != ValueKind::Literal) return false;
        if (number)
          g_.offset = static_cast<int32_t>(*number);
        else
          g_.offsetNumber = m_.attrs[v.literal].i;
        continue;
      }
      if (!number) return false;
      g_.mask = static_cast<int32_t>(*number);
      Size stride;
      for (Size& s : g_.maskStrides) s = {0, {}};
      for (size_t d = t.rank(); d-- > 0;) {
        const Size size = sizes_.of(t.dims[d]);
        if (!size.is(1)) g_.maskStrides[4 - t.rank() + d] = stride;
        stride = stride * size;
      }
    }
    return true;
  }

  Module& m_;
  const Block& block_;
  SizeArgs sizes_;
  OpId op_;
  AttentionGradient g_;
  Lowered l_;
};

std::string number(int64_t v) { return std::to_string(v); }

std::string floatText(double v, DType type) {
  char text[48];
  std::snprintf(text, sizeof text, type == DType::F64 ? "%.17e" : "%.9ef", v);
  return text;
}

// "(2 * n0)"
std::string factorText(const Size& s) { return s.args.empty() ? sizeText(s) : "(" + sizeText(s) + ")"; }

// "[&](i64 i) { return text; }"
std::string lambda(const std::string& parameters, const std::string& text) {
  return "    [&](" + parameters + ") { return " + text + "; },\n";
}

// The keys that a query attends to, and the queries that attend to a key, from the offset of the first query
// on.
std::string boundsText(const AttentionGradient& g, const std::string& offset, bool ofKeys) {
  const std::string w = number(g.window), rows = factorText(g.rows), keys = factorText(g.keys);
  const std::string from =
      g.window ? "dtc_index_max(i64(0), i + (" + offset + ") - " + w + " + 1)" : "i64(0)";
  std::string to = "i64(" + keys + ")", first = "i64(0)", last = "i64(" + rows + ")";
  if (g.causal)
    to = "dtc_index_min(i64(" + keys + "), i + (" + offset + ") + 1)",
    first = "dtc_index_max(i64(0), j - (" + offset + "))";
  else if (g.window)
    to = "dtc_index_min(i64(" + keys + "), i + (" + offset + ") + " + w + ")",
    first = "dtc_index_max(i64(0), j - (" + offset + ") - " + w + " + 1)";
  if (g.window) last = "dtc_index_min(i64(" + rows + "), j - (" + offset + ") + " + w + ")";
  const std::string ofRows = lambda("i64 i", from) + lambda("i64 i", to);
  return ofKeys ? ofRows + lambda("i64 j", first) + lambda("i64 j", last) : ofRows;
}

std::string scoreText(const Kernel& k, const AttentionGradient& g, DType type) {
  const std::string name(dtypeName(type));
  std::string x = "s * " + floatText(g.scale, type);
  if (g.mask >= 0) {
    const std::string heads = factorText(g.heads);
    const Size* s = g.maskStrides;
    const std::string at = "in" + number(g.mask) + " + n / " + heads + " * " + factorText(s[0]) + " + n % " +
                           heads + " * " + factorText(s[1]) + " + i * " + factorText(s[2]) + " + j * " +
                           factorText(s[3]);
    x = isFloat(k.buffers[static_cast<size_t>(g.mask)].dtype)
            ? x + " + (" + name + ")dtc_load(" + at + ")"
            : "dtc_load(" + at + ") ? " + x + " : -dtc_infinity<" + name + ">()";
  }
  return "    [&](" + name + " s, i64 n, i64 i, i64 j) { return " + x + "; }";
}

// Blocks of `per` rows, an upper bound of the count: the count of a product of sizes is not a product of
// their counts.
std::vector<SizeFormula::Factor> blocksOf(const Size& rows, int64_t per) {
  std::vector<SizeFormula::Factor> factors = factorsOf(rows);
  if (rows.args.size() == 1 && per % std::max<int64_t>(rows.number, 1) == 0)
    return {{1, factors.back().size, per / std::max<int64_t>(rows.number, 1)}};
  factors.back().per = per;
  return factors;
}

std::vector<SizeFormula::Factor> product(std::initializer_list<std::vector<SizeFormula::Factor>> lists) {
  std::vector<SizeFormula::Factor> all;
  for (const auto& factors : lists) all.insert(all.end(), factors.begin(), factors.end());
  return all;
}

} // namespace

std::optional<Lowered> matchAttentionGradient(Module& m, OpId fused) {
  return GradientMatcher(m, fused).run();
}

std::optional<AttentionCall> attentionGradientCall(const Module& m, OpId fused, const Lowered& lowered,
                                                   uint32_t dtypes) {
  const AttentionGradient& g = *lowered.kernel.attentionGradient;
  if (g.ofMask) return std::nullopt;
  AttentionCall call;
  call.gradient = true;
  call.dtype = lowered.kernel.buffers[g.operands[0]].dtype;
  if (!(dtypes >> static_cast<int>(call.dtype) & 1) || g.mask >= 0) return std::nullopt;
  if (lowered.kernel.buffers[g.operands[3]].dtype != DType::F32) return std::nullopt;
  if ((g.causal || g.window) && g.offset >= 0) return std::nullopt;
  if (g.window) call.before = g.window - 1 - g.offsetNumber, call.after = g.window - 1 + g.offsetNumber;
  if (g.causal) call.after = g.offsetNumber;
  call.scale = g.scale;
  const auto size = [](const Size& s) { return s.is(0) ? SizeFormula{} : SizeFormula{{factorsOf(s)}}; };
  const Size depth{g.depth, {}}, width{g.width, {}}, one;
  call.batch = size(g.batch), call.heads = size(g.heads), call.keyHeads = size(g.keyHeads);
  call.rows = size(g.rows), call.keys = size(g.keys), call.depth = size(depth), call.width = size(width);
  call.sizes = lowered.sizes;
  const auto put = [&](AttentionCall::Which which, bool result, uint32_t number, const Size& heads,
                       const Size& rows, const Size& columns) {
    AttentionCall::Tensor& t = call.tensors[which];
    t.used = true, t.result = result, t.number = number;
    t.strides = {size(heads * rows * columns), size(rows * columns), size(columns), size(one)};
  };
  const auto operand = [&](size_t i) { return lowered.inputs[g.operands[i]]; };
  put(AttentionCall::Q, false, operand(0), g.heads, g.rows, depth);
  put(AttentionCall::K, false, operand(1), g.keyHeads, g.keys, depth);
  put(AttentionCall::V, false, operand(2), g.keyHeads, g.keys, width);
  put(AttentionCall::Lse, false, operand(3), g.heads, g.rows, one);
  put(AttentionCall::DY, false, operand(5), g.heads, g.rows, width);
  put(AttentionCall::DQ, true, 0, g.heads, g.rows, depth);
  put(AttentionCall::DK, true, 1, g.keyHeads, g.keys, depth);
  put(AttentionCall::DV, true, 2, g.keyHeads, g.keys, width);
  // The operand that no op of the region reads is y (lib/Passes/fuse/AttentionResult.cpp).
  for (uint32_t i = 0; i < m[fused].numOperands; ++i)
    if (std::find(lowered.inputs.begin(), lowered.inputs.end(), i) == lowered.inputs.end())
      put(AttentionCall::Y, false, i, g.heads, g.rows, width);
  return call;
}

std::vector<PrintedKernel> printAttentionGradient(const Kernel& k, size_t maxKernels) {
  const AttentionGradient& g = *k.attentionGradient;
  const Tiling tiling = tilingOf(k, g);
  PrintedKernel out;
  const DType dtype = k.buffers[g.operands[0]].dtype, wide = accumulationType(dtype);
  const std::string type(dtypeName(dtype)), heads = number(g.depth) + ", " + number(g.width);
  const std::string blocks = tiling.tensor ? type
                                           : type + ", " + std::string(dtypeName(wide)) + ", " +
                                                 number(tiling.rows) + ", " + number(tiling.passing);
  const std::string parameters = "<" + blocks + ", " + heads + ">", plain = tiling.tensor ? "" : "plain_";
  std::string operands;
  for (uint32_t b : g.operands) operands += (operands.empty() ? "in" : ", in") + std::to_string(b);
  std::string offset = number(g.offsetNumber);
  if (g.offset >= 0) {
    out.body += "  const i64 offset = in" + number(g.offset) + "[0];\n";
    offset = "offset";
  }
  out.body += "  extern __shared__ uint4 tiles[];\n  static_assert(dtc_" + plain + "gradient_tiling" +
              parameters + "::bytes == " + number(tiling.sharedBytes) + ");\n";
  const std::string groups = g.keyHeads.is(0) ? "1" : factorText(g.heads) + " / " + factorText(g.keyHeads);
  out.threadsPerBlock = kThreads;
  out.sharedBytes = static_cast<int>(tiling.sharedBytes);
  if (g.ofMask) {
    const int64_t tiles = tiling.tensor ? kTensorTiles : kPlainTiles;
    const Size* s = g.maskStrides;
    const auto flag = [](const Size& stride) { return stride.is(0) ? std::string(", true") : ", false"; };
    out.body += "  dtc_" + plain + "mask_gradient<dtc_" + plain + "gradient_tiling" + parameters + ", " +
                number(tiles) + flag(s[0]) + flag(s[1]) + ">(tiles, " + factorText(g.batch) + ", " +
                factorText(g.heads) + ", " + groups + ", " + factorText(g.rows) + ", " + factorText(g.keys) +
                ",\n    {" + operands + "}, out0, " + factorText(s[0]) + ", " + factorText(s[1]) + ",\n" +
                boundsText(g, offset, false) + scoreText(k, g, wide) + ");\n";
    out.schedule = number(tiling.rows) + " queries and " + number(tiles * tiling.passing) +
                   " keys per block, in " + number((tiling.sharedBytes + 1023) / 1024) +
                   " KiB of shared memory";
    out.blocks.terms = {product({factorsOf((s[0].is(0) ? Size{} : g.batch) * (s[1].is(0) ? Size{} : g.heads)),
                                 blocksOf(g.rows, tiling.rows), blocksOf(g.keys, tiles * tiling.passing)})};
  } else {
    out.body += "  dtc_" + plain + "attention_gradient" + parameters + "(tiles, " +
                factorText(g.batch * g.keyHeads) + ", " + groups + ", " + factorText(g.rows) + ", " +
                factorText(g.keys) + ",\n    {" + operands + "}, out0, out1, out2, " +
                floatText(g.scale, wide) + ",\n" + boundsText(g, offset, true) + scoreText(k, g, wide) +
                ");\n";
    out.schedule = number(tiling.rows) + " queries or keys per block, " + number(tiling.passing) +
                   " at a time, in " + number((tiling.sharedBytes + 1023) / 1024) + " KiB of shared memory";
    out.blocks.terms = {product({factorsOf(g.batch * g.keyHeads), blocksOf(g.keys, tiling.rows)}),
                        product({factorsOf(g.batch * g.heads), blocksOf(g.rows, tiling.rows)})};
    if (tiling.separate) out.blocks.terms.push_back(out.blocks.terms[0]);
  }
  out.units = out.blocks;
  std::vector<PrintedKernel> ways(std::min<size_t>(g.ofMask ? 1 : maxKernels, 2), out);
  ways.back().minBlocks = maxKernels > 1 || g.ofMask; // with a mask it would spill to fit one more block
  return ways;
}

std::vector<SizeFormula::Factor> flopsOf(const AttentionGradient& g) {
  const int64_t products = g.ofMask ? 2 * g.depth + 2 * g.width : 6 * g.depth + 4 * g.width;
  return factorsOf(g.batch * g.heads * g.rows * g.keys * Size{products, {}});
}

} // namespace dtc
