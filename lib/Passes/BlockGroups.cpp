// grouped_matmul in blocks, as Gale, Narayanan, Young and Zaharia's MegaBlocks (2022) has them: the rows of each group are laid out
// from the beginning of a block on, and what is left of its last block is zeros. Then no block has rows of two groups, and a loop over
// the blocks in use multiplies each by its group's matrix.
#include "BlockGroups.h"
#include "dtc/IR/Builder.h"
#include <algorithm>
#include <array>
#include <string>

namespace dtc {
namespace {

constexpr size_t kOffsets = 2, kRowOffset = 3, kGroupOffset = 4;
constexpr int64_t kLeastProducts = 1 << 20; // below, one kernel does it sooner
constexpr int64_t kShortest = 16, kLongest = 256;

struct Grouped {
  bool gathered =
      false; // x [k, rows], w [rows, n] -> y [groups, k, n], not x [rows, k], w [groups, k, n] -> y [rows, n]
  int64_t rows = 0, depth = 0, width = 0, groups = 0, ends = 0;
  int64_t length = 0, most = 0; // of a block; blocks
};

std::optional<Grouped> groupedOf(const Module& m, OpId o) {
  for (ValueId v : m.operands(o))
    if (!m.typeOf(v).isStatic()) return std::nullopt;
  const Type &x = m.typeOf(m.operand(o, 0)), &w = m.typeOf(m.operand(o, 1)), &y = m.typeOf(m.result(o));
  if (!y.isStatic() || !isFloat(x.dtype)) return std::nullopt;
  Grouped g;
  g.gathered = w.rank() == 2;
  g.rows = x.dims[g.gathered ? 1 : 0].value(), g.depth = x.dims[g.gathered ? 0 : 1].value();
  g.width = w.dims.back().value();
  g.groups = (g.gathered ? y : w).dims[0].value();
  g.ends = m.typeOf(m.operand(o, kOffsets)).dims[0].value();
  if (g.groups == 0 || g.ends == 0 || g.rows > INT32_MAX / 2 || g.depth * g.width == 0 ||
      g.rows < kLeastProducts / std::min(g.depth * g.width, kLeastProducts))
    return std::nullopt;
  // Half of what a group has on average: what is filled up is then a quarter of the rows.
  const int64_t half = g.rows / g.groups / 2;
  for (g.length = kShortest; g.length * 2 <= std::min(half, kLongest);) g.length *= 2;
  g.most = (g.rows + g.length - 1) / g.length + g.groups;
  return g;
}

std::string number(int64_t n) { return std::to_string(n); }
// " : dtype[a, b]"
std::string typed(DType d, std::initializer_list<int64_t> dims) {
  std::string text = " : " + std::string(dtypeName(d)) + "[";
  for (const int64_t* n = dims.begin(); n != dims.end(); ++n)
    text += (n == dims.begin() ? "" : ", ") + number(*n);
  return text + "]\n";
}

// %group: of each row of the piece, among those of the piece; %count, %begin, %start: of each group, its rows, the first of them and
// its first block; %blocks: how many are in use.
std::string groupsText(const Grouped& g, bool rowOffset, bool groupOffset) {
  const std::string columns = " {dims = [1]}\n", rows = " {dims = [0]}\n", length = number(g.length);
  std::string text = "%row = iota {dim = 1}" + typed(DType::I32, {1, g.rows});
  text += rowOffset ? "%place = add %row, %first_row\n" : "%place = add %row, 0\n";
  text += "%end = expand_dims %ends" + columns + "%passed = le %end, %place\n" +
          "%passes = convert %passed {dtype = i32}\n%own = sum %passes" + rows;
  text += groupOffset ? "%group = sub %own, %first_group\n" : "%group = sub %own, 0\n";
  text += "%each = expand_dims %group" + rows + "%g = iota {dim = 0}" + typed(DType::I32, {g.groups, 1}) +
          "%is = eq %each, %g\n%is_one = convert %is {dtype = i32}\n%count = sum %is_one" + columns +
          "%is_before = lt %each, %g\n%before = convert %is_before {dtype = i32}\n%begin = sum %before" +
          columns;
  // Rows behind the last end are of a group that is not there.
  text += "%more = add %count, " + number(g.length - 1) + "\n%whole = floor_div %more, " + length +
          "\n%stop = cumsum %whole {dim = 0}\n%start = sub %stop, %whole\n%blocks = sum %whole\n";
  return text;
}

// %rows: of each place of each block its row, or -1; %of: each block's group. The last block is never in use.
std::string blocksText(const Grouped& g) {
  const std::string columns = " {dims = [1]}\n", take = ", %of {dim = 0}\n";
  return "%b = iota {dim = 0}" + typed(DType::I32, {g.most, 1}) +
         "%stops = expand_dims %stop {dims = [0]}\n" +
         "%gone = le %stops, %b\n%is_gone = convert %gone {dtype = i32}\n%next = sum %is_gone" + columns +
         "%of = min %next, " + number(g.groups - 1) + "\n%block_start = index_select %start" + take +
         "%block_begin = index_select %begin" + take + "%block_count = index_select %count" + take +
         "%bs = expand_dims %block_start" + columns + "%bb = expand_dims %block_begin" + columns +
         "%bc = expand_dims %block_count" + columns + "%nth = sub %b, %bs\n%skip = mul %nth, " +
         number(g.length) + "\n%r = iota {dim = 1}" + typed(DType::I32, {1, g.length}) +
         "%rank = add %skip, %r\n%here = lt %rank, %bc\n%source = add %bb, %rank\n" +
         "%kept = select %here, %source, -1\n%rows = reshape %kept {shape = [" + number(g.most * g.length) +
         "]}\n";
}

std::string shapeText(std::initializer_list<int64_t> dims) {
  std::string text = " {shape = [";
  for (const int64_t* n = dims.begin(); n != dims.end(); ++n)
    text += (n == dims.begin() ? "" : ", ") + number(*n);
  return text + "]}\n";
}

// y = select %inside, %taken, 0
std::string spreadText(const Grouped& g, DType dtype) {
  const std::string last = number(g.groups - 1);
  return "%x_rows = index_select %x, %rows, 0 {dim = 0}\n%x_blocks = reshape %x_rows" +
         shapeText({g.most, g.length, g.depth}) + "%zeros = constant {value = 0.0}" +
         typed(dtype, {g.most, g.length, g.width}) +
         // The group is carried: as a number in memory it is one that a library's operand can be looked up by.
         "%g0 = index_select %of, 0 {dim = 0}\n"
         "%products, %last = for %i in 0..%blocks (%y = %zeros, %gi = %g0) {\n"
         "%xi = index_select %x_blocks, %i {dim = 0}\n%wi = index_select %w, %gi {dim = 0}\n"
         "%p = matmul %xi, %wi\n%pe = expand_dims %p {dims = [0]}\n"
         "%yi = dynamic_update_slice %y, %pe, %i, 0, 0\n%j = add %i, 1\n"
         "%gj = index_select %of, %j {dim = 0}\nyield %yi, %gj\n}\n"
         "%lines = reshape %products" +
         shapeText({g.most * g.length, g.width}) + "%low = ge %group, 0\n%high = lt %group, " +
         number(g.groups) + "\n%between = and %low, %high\n%known = lt %own, " + number(g.ends) +
         "\n%valid = and %between, %known\n%at_least = max %group, 0\n%safe = min %at_least, " + last +
         "\n%row_start = index_select %start, %safe {dim = 0}\n%row_begin = index_select %begin, %safe {dim "
         "= 0}\n"
         "%flat = reshape %row" +
         shapeText({g.rows}) + "%nth_row = sub %flat, %row_begin\n%first_line = mul %row_start, " +
         number(g.length) +
         "\n%line = add %first_line, %nth_row\n%sure = select %valid, %line, -1\n"
         "%taken = index_select %lines, %sure, 0 {dim = 0}\n%inside = expand_dims %valid {dims = [1]}\n"
         "yield %inside, %taken\n";
}

// Sums over the blocks of a group, which follow each other; of narrow floats in f32.
std::string gatheredText(const Grouped& g, DType dtype) {
  const DType sum = accumulationType(dtype);
  const std::string wide = std::string(" {dtype = ") + std::string(dtypeName(sum)) + "}\n";
  const bool widens = sum != dtype;
  return "%x_rows = index_select %x, %rows, 0 {dim = 1}\n%x_split = reshape %x_rows" +
         shapeText({g.depth, g.most, g.length}) + "%x_narrow = transpose %x_split {perm = [1, 0, 2]}\n" +
         "%w_rows = index_select %w, %rows, 0 {dim = 0}\n%w_narrow = reshape %w_rows" +
         shapeText({g.most, g.length, g.width}) +
         (widens ? "%x_blocks = convert %x_narrow" + wide + "%w_blocks = convert %w_narrow" + wide
                 : std::string("%x_blocks = add %x_narrow, -0.0\n%w_blocks = add %w_narrow, -0.0\n")) +
         "%zeros = constant {value = 0.0}" + typed(sum, {g.groups, g.depth, g.width}) +
         "%sums = for %i in 0..%blocks (%y = %zeros) {\n%xi = index_select %x_blocks, %i {dim = 0}\n"
         "%wi = index_select %w_blocks, %i {dim = 0}\n%gi = index_select %of, %i {dim = 0}\n"
         "%p = matmul %xi, %wi\n%old = index_select %y, %gi {dim = 0}\n%new = add %old, %p\n"
         "%ne = expand_dims %new {dims = [0]}\n%yi = dynamic_update_slice %y, %ne, %gi, 0, 0\nyield %yi\n}\n"
         "yield %sums\n";
}

bool apply(Module& m, OpId o, const Grouped& g, Builder& b) {
  std::vector<std::pair<std::string_view, ValueId>> bindings = {
      {"x", m.operand(o, 0)}, {"w", m.operand(o, 1)}, {"ends", m.operand(o, kOffsets)}};
  auto offset = [&](size_t operand, const char* name) {
    if (m[o].numOperands <= operand) return false;
    bindings.emplace_back(name, m.operand(o, operand));
    return true;
  };
  const bool rowOffset = offset(kRowOffset, "first_row"), groupOffset = offset(kGroupOffset, "first_group");
  const DType dtype = m.typeOf(m.result(o)).dtype;
  std::vector<ValueId> made;
  if (!b.inlineText(groupsText(g, rowOffset, groupOffset) + blocksText(g) +
                        (g.gathered ? gatheredText(g, dtype) : spreadText(g, dtype)),
                    bindings, made))
    return false;
  // The op becomes the last of them and keeps its result.
  std::erase_if(m[o].attrs, [&](const NamedAttr& a) { return m.strings[a.name] == "groups"; });
  if (g.gathered) {
    m[o].kind = m.registry->find("convert");
    m.setOperands(o, made);
    m.setAttr(o, "dtype", b.word(dtypeName(dtype)));
  } else {
    m[o].kind = m.registry->find("select");
    m.setOperands(o, std::array{made[0], made[1], b.literal(0, dtype)});
  }
  return true;
}

} // namespace

bool blockGroups(Module& m, BlockId block, Diagnostics& diags) {
  const OpKind kind = m.registry->find("grouped_matmul");
  std::vector<OpId> out;
  Builder b(m, block, out, diags);
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (uint32_t r = 0; r < m[o].numRegions; ++r)
      if (m.record(o).regions != RegionKind::Fused && !blockGroups(m, m.region(o, r), diags)) return false;
    b.loc = m[o].loc;
    if (m[o].kind == kind)
      if (const std::optional<Grouped> g = groupedOf(m, o); g && !apply(m, o, *g, b)) return false;
    out.push_back(o);
  }
  m[block].ops = std::move(out);
  return true;
}

} // namespace dtc
