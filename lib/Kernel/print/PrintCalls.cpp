#include "print/PrintCalls.h"

#include "dtc/Kernel/LoopIr.h"
#include "print/PrintAttention.h"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kUnitBytes = 64 << 10;
constexpr int64_t kJoinThreads = 256, kPackBytes = 16;
constexpr int64_t kTileRows = 64, kTileColumns = 128; // lib/Kernel/device/grouped_block.h
constexpr int kGradientThreads = 128; // lib/Kernel/device/attention_gradient.h and attention_gradient_block.h
// For the gradient of a mask, tiles of keys whose sums a block keeps in registers: each query is then read
// from memory once for all of them.
constexpr int64_t kTensorTiles = 2, kPlainTiles = 2;

// Blocks of `rows` rows, against tiles of `passing` others.
struct Tiling {
  bool tensor = false;
  int64_t rows = 64, passing = 32;
  bool separate = false; // dk and dv are computed by blocks of their own
  int64_t multiple = 1;  // on tensor cores: each warp has this many times 16 rows
  int64_t stages = 1;    // and the passing rows have this many tiles
  int64_t sharedBytes = 0;
};

// True if two blocks fit a multiprocessor.
bool fitsTwice(int64_t bytes, const Target& target) {
  constexpr int64_t kReserved = 1 << 10; // of each block
  return 2 * (bytes + kReserved) <= target.sharedBytes + kReserved;
}

// The next tile is copied while the present one is multiplied, where that fits the smallest GPU's shared memory
// and does not cost the second block.
Tiling tensorTiling(const AttentionGradient& g, int64_t multiple, const Target& target) {
  constexpr int64_t kSmallestBytes = 99 << 10;
  const int64_t longest = std::max(g.depth, g.width);
  Tiling c{true, 64 * multiple, longest <= 192 ? 32 : 16, longest > 128, multiple};
  int64_t stage = 0;
  for (int64_t columns : {g.depth, g.width})
    c.sharedBytes += tileBytes(c.rows, columns), stage += tileBytes(c.passing, columns);
  if (g.ofResult) c.sharedBytes += tileBytes(c.passing, g.width);
  c.sharedBytes += 2 * c.passing * 4 + stage;
  const bool costsBlock = fitsTwice(c.sharedBytes, target) && !fitsTwice(c.sharedBytes + stage, target);
  if (!g.ofMask && !costsBlock && c.sharedBytes + stage <= kSmallestBytes)
    c.sharedBytes += stage, c.stages = 2;
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

// The best first. On tensor cores 32 rows per warp read each passing row half as often from shared memory; the
// sums of dk and dv of longer heads would not fit the registers. Few blocks would leave multiprocessors idle.
std::vector<Tiling> tilingsOf(const Kernel& k, const AttentionGradient& g, const Target& target) {
  const DType dtype = k.buffers[g.operands[0]].dtype;
  if (dtype != DType::BF16 && dtype != DType::F16)
    return {plainTiling(g.depth, g.width, dtypeBytes(accumulationType(dtype)))};
  const auto isLong = [&](const Size& heads, const Size& rows) { // unknown sizes count as long
    return !rows.isStatic() ||
           (fillsWideBlocks(rows.number) &&
            (!heads.isStatic() || heads.number * ((rows.number + 127) / 128) >= target.multiprocessors));
  };
  std::vector<Tiling> all;
  if (!g.ofMask && std::max(g.depth, g.width) <= 64 && isLong(g.batch * g.heads, g.rows) &&
      isLong(g.batch * g.keyHeads, g.keys))
    if (const Tiling wide = tensorTiling(g, 2, target); fitsTwice(wide.sharedBytes, target))
      all.push_back(wide);
  all.push_back(tensorTiling(g, 1, target));
  return all;
}

// Units of about `maxUnits` elements of the result each, and the exact number of elements. The number of units
// depends on size arguments; units past the end do nothing.
struct Units {
  std::vector<SizeFormula::Factor> count;
  std::string elements;
  SizeFormula::Factor each;
};

Units unitsOf(const Size& total, int64_t maxUnits) {
  Units u;
  int64_t each = maxUnits, per = 1;
  if (total.args.empty() || total.number >= maxUnits) {
    u.count.push_back({total.number, -1, maxUnits});
  } else {
    per = std::max<int64_t>(maxUnits / total.number, 1);
    each = total.number * per;
  }
  each = (each + 15) / 16 * 16; // complete packs
  for (uint32_t a : total.args) {
    u.count.push_back({1, static_cast<int32_t>(a), per});
    per = 1; // one argument is split into runs
  }
  u.elements = std::to_string(each);
  u.each = {each, -1, 1};
  return u;
}

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

// "{in0 + 64, 12, 786432, 64, 768}": a dtc_gradient_tensor
std::string tensorText(const std::string& buffer, const Size& heads, const AttentionGradient::Rows& rows) {
  std::string text = "{" + buffer;
  for (const Size& s : rows.offset) text += " + " + factorText(s);
  for (const Size* s : {&heads, &rows.batch, &rows.head, &rows.row}) text += ", " + factorText(*s);
  return text + "}";
}

// True if each row of a tensor begins at a multiple of 16 bytes.
bool isPacked(const AttentionGradient::Rows& rows, int64_t bytes) {
  const auto whole = [&](const Size& s) { return s.number * bytes % 16 == 0; };
  return std::all_of(rows.offset.begin(), rows.offset.end(), whole) && whole(rows.batch) &&
         whole(rows.head) && whole(rows.row);
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

PrintedKernel printJoin(const Kernel& k, bool blocks) {
  PrintedKernel out;
  Text top;
  const Joined& joined = *k.joined;
  const DType dtype = k.buffers.back().dtype;
  const int bytes = std::min(dtypeBytes(dtype), 8), words = dtypeBytes(dtype) / bytes;
  const std::string word = "u" + std::to_string(8 * bytes), count = std::to_string(joined.parts.size());
  std::string parts, ends;
  Size total = joined.outer * joined.inner, end{0, {}};
  int64_t row = 0;
  std::vector<std::string> pointers, partEnds;
  for (const Joined::Part& p : joined.parts) {
    row += p.run * words;
    pointers.push_back("(const " + word + "*)" + bufferText(k, p.buffer));
    partEnds.push_back(sizeText(Size{row, {}} * joined.inner));
  }
  total = total * Size{row, {}};
  // per thread, to amortize the search for the parts
  const int64_t packs = joined.parts.size() > 16 ? 16 : 4;
  const Units units = unitsOf(total, (blocks ? kJoinThreads * kPackBytes * packs : kUnitBytes) / bytes);
  const std::string result = "(" + word + "*)" + bufferText(k, k.numInputs),
                    all = "i64(" + sizeText(total) + ")";
  out.units.terms = out.blocks.terms = {units.count};
  out.unitElements.terms = {{units.each}};
  if (!blocks) {
    for (size_t i = 0; i < pointers.size(); ++i)
      parts += (i ? ", " : "") + pointers[i], ends += (i ? ", " : "") + partEnds[i];
    line(top, "const " + word + "* const parts[] = {" + parts + "};");
    line(top, "const i64 ends[] = {" + ends + "};");
    line(top, "dtc_join(" + result + ", parts, ends, " + count + ", dtc_index_min(begin * " + units.elements +
                  ", " + all + "), dtc_index_min(end * " + units.elements + ", " + all + "));");
    out.body = top.text;
    return out;
  }
  line(top, "__shared__ const " + word + "* parts[" + count + "];");
  line(top, "__shared__ i64 ends[" + count + "];");
  for (size_t i = 0; i < pointers.size(); ++i) // by neighboring threads: a warp's are one step
    line(top, "if (threadIdx.x == " + std::to_string(i % kJoinThreads) + ") parts[" + std::to_string(i) +
                  "] = " + pointers[i] + ", ends[" + std::to_string(i) + "] = " + partEnds[i] + ";");
  line(top, "__syncthreads();");
  line(top, "const i64 first = (i64)blockIdx.x * " + units.elements + ";");
  bool whole = joined.inner.isStatic(); // each run is a multiple of an access
  for (const Joined::Part& p : joined.parts)
    whole = whole && p.run * words * joined.inner.number * bytes % kAccessBytes == 0;
  const bool narrow = total.isStatic() && total.number <= std::numeric_limits<int32_t>::max();
  const std::string kinds = std::string(narrow ? "u32" : "i64") + (whole ? ", true" : ", false");
  line(top, "dtc_join_block<" + kinds + ">(" + result + ", parts, ends, " + count +
                ", first, dtc_index_min(first + " + units.elements + ", " + all + "));");
  out.threadsPerBlock = kJoinThreads;
  out.schedule = count + " parts, " + units.elements + " elements per block";
  out.body = top.text;
  return out;
}

PrintedKernel printGrouped(const Kernel& k) {
  PrintedKernel out;
  Text top;
  const GroupedProduct& g = *k.grouped;
  const DType dtype = k.buffers[g.x].dtype;
  const auto number = [&](int32_t buffer) {
    return buffer < 0 ? std::string("0") : bufferText(k, static_cast<uint32_t>(buffer)) + "[0]";
  };
  std::string call = std::string("dtc_grouped_") + (g.gathered ? "gathered" : "spread") + "<" +
                     typeText(dtype) + ", " + typeText(computeType(dtype)) + ">(blockIdx.x";
  for (uint32_t b : {g.y, g.x, g.w, g.ends}) call += ", " + bufferText(k, b);
  call += ", " + sizeText(g.numEnds) + ", " + number(g.firstRow) + ", " + number(g.firstGroup);
  for (const Size* s : {&g.rows, &g.groups, &g.depth, &g.width}) call += ", " + sizeText(*s);
  line(top, call + ");");
  const auto tiles = [](const Size& s, int64_t per) {
    std::vector<SizeFormula::Factor> f = factorsOf(s);
    if (f.empty()) f.push_back({1, -1, 1});
    f[0].per = per;
    return f;
  };
  const auto product = [&](std::vector<SizeFormula::Factor> a, const std::vector<SizeFormula::Factor>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::vector<SizeFormula::Factor> across = tiles(g.width, kTileColumns);
  if (g.gathered)
    out.blocks.terms = {product(product(factorsOf(g.groups), tiles(g.depth, kTileRows)), across)};
  else // each group begins a tile, and so do the rows without a group
    out.blocks.terms = {product(tiles(g.rows, kTileRows), across),
                        product(factorsOf(Size{g.numEnds.number + 1, {}}), across)};
  out.threadsPerBlock = 256;
  out.body = top.text;
  return out;
}

// A broadcast mask has a gradient, 0, even if a symbolic number of heads is 0.
static std::string headsPerKeyHead(const AttentionGradient& g) {
  if (g.keyHeads.is(0) || g.heads == g.keyHeads) return "1";
  const std::string keyHeads = factorText(g.keyHeads), ratio = factorText(g.heads) + " / " + keyHeads;
  return g.keyHeads.isStatic() ? ratio : "(" + keyHeads + " ? " + ratio + " : 1)";
}

static PrintedKernel printGradient(const Kernel& k, const AttentionGradient& g, const Tiling& tiling) {
  PrintedKernel out;
  const DType dtype = k.buffers[g.operands[0]].dtype, wide = accumulationType(dtype);
  const std::string type(dtypeName(dtype)), heads = number(g.depth) + ", " + number(g.width);
  const std::string blocks = tiling.tensor ? type
                                           : type + ", " + std::string(dtypeName(wide)) + ", " +
                                                 number(tiling.rows) + ", " + number(tiling.passing);
  std::vector<const AttentionGradient::Rows*> tensors = {&g.q, &g.k, &g.v, &g.dy};
  if (!g.ofMask) tensors.insert(tensors.end(), {&g.dq, &g.dk, &g.dv});
  if (g.ofResult) tensors.push_back(&g.y);
  const bool packs = std::all_of(tensors.begin(), tensors.end(),
                                 [&](const auto* rows) { return isPacked(*rows, dtypeBytes(dtype)); });
  const std::string rest = tiling.tensor ? ", " + number(tiling.multiple) + ", " + number(tiling.stages) +
                                               (g.ofResult ? ", true" : ", false")
                                         : "",
                    parameters = "<" + blocks + ", " + heads + (packs ? ", true" : ", false") + rest + ">",
                    plain = tiling.tensor ? "" : "plain_";
  const auto in = [&](size_t i) { return "in" + number(g.operands[i]); };
  const std::string operands = tensorText(in(0), g.heads, g.q) + ", " + tensorText(in(1), g.keyHeads, g.k) +
                               ", " + tensorText(in(2), g.keyHeads, g.v) + ", " + in(3) + ", " +
                               (g.ofResult ? "nullptr, " + tensorText(in(4), g.heads, g.y) : in(4) + ", {}") +
                               ", " + tensorText(in(5), g.heads, g.dy);
  std::string offset = number(g.offsetNumber);
  if (g.offset >= 0) {
    out.body += "  const i64 offset = in" + number(g.offset) + "[0];\n";
    offset = "offset";
  }
  out.body += "  extern __shared__ uint4 tiles[];\n  static_assert(dtc_" + plain + "gradient_tiling" +
              parameters + "::bytes == " + number(tiling.sharedBytes) + ");\n";
  const std::string groups = headsPerKeyHead(g);
  out.threadsPerBlock = kGradientThreads;
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
    out.body += "  dtc_" + plain + "attention_gradient" +
                (tiling.tensor ? "<dtc_gradient_tiling" + parameters + ">" : parameters) + "(tiles, " +
                factorText(g.batch * g.keyHeads) + ", " + groups + ", " + factorText(g.rows) + ", " +
                factorText(g.keys) + ",\n    {" + operands + "},\n    " + tensorText("out0", g.heads, g.dq) +
                ", " + tensorText("out1", g.keyHeads, g.dk) + ", " + tensorText("out2", g.keyHeads, g.dv) +
                ", " + floatText(g.scale, wide) + ",\n" + boundsText(g, offset, true) +
                scoreText(k, g, wide) + ");\n";
    out.schedule = number(tiling.rows) + " queries or keys per block, " + number(tiling.passing) +
                   " at a time" + (tiling.stages > 1 ? ", the next under way" : "") + ", in " +
                   number((tiling.sharedBytes + 1023) / 1024) + " KiB of shared memory";
    out.blocks.terms = {product({factorsOf(g.batch * g.keyHeads), blocksOf(g.keys, tiling.rows)}),
                        product({factorsOf(g.batch * g.heads), blocksOf(g.rows, tiling.rows)})};
    if (tiling.separate) out.blocks.terms.push_back(out.blocks.terms[0]);
  }
  out.units = out.blocks;
  return out;
}

std::vector<PrintedKernel> printAttentionGradient(const Kernel& k, const Target& target, size_t maxKernels) {
  const AttentionGradient& g = *k.attentionGradient;
  const std::vector<Tiling> tilings = tilingsOf(k, g, target);
  std::vector<PrintedKernel> ways;
  for (const Tiling& t : tilings) {
    PrintedKernel way = printGradient(k, g, t);
    if (maxKernels >= 2 * tilings.size() && !g.ofMask) ways.push_back(way); // with a mask it would spill
    way.minBlocks = maxKernels > 1 || g.ofMask;
    ways.push_back(std::move(way));
    if (ways.size() >= maxKernels) break;
  }
  return ways;
}

} // namespace dtc
