// Epilogues of matmuls: elementwise ops on the result of a matmul in the same call, computed block by block
// while the library's result is in cache. An op that is the only reader of the matmul is fused immediately:
// its result is as large as the matmul's. If the matmul has several readers, a complete kernel is fused at
// the end: it reads the matmul from cache, and its other operands and results are unchanged.
#include "dtc/Ops/elementwise/Gelu.h"
#include "fuse/FusionSteps.h"
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace dtc {

// A bias vector along the last dim of the matmul, a dim of the second operand only: the library adds it, and
// reads it from memory.
static bool libraryBias(const FusionGroups& fusion, OpId sum, ValueId matmul, ValueId bias, uint32_t g) {
  const FusionGroup& group = fusion.group(g);
  for (const FusionOp* s = fusion.stateOf(bias); s && s->form->move && s->group < 0; s = nullptr)
    if (!s->form->compound) return false; // already in memory
  if (group.ops.size() != 1 || fusion.m.record(sum).scalar != std::string_view("a + b")) return false;
  const OpId gemm = group.ops[0];
  const Type &t = fusion.m.typeOf(matmul), &b = fusion.m.typeOf(bias);
  if (fusion.m[gemm].numOperands != 2 || b.rank() != 1 || t.rank() == 0 || b.dims[0] != t.dims.back())
    return false;
  const Rule& rule = fusion.formOf(gemm).rule;
  const int n = rule.factorOf(rule.results[0], t.rank() - 1);
  bool inA = false, inB = false;
  for (const DimMap& d : rule.operands[0].dims) inA |= d.plain() && d.terms[0].factor == n;
  for (const DimMap& d : rule.operands[1].dims) inB |= d.plain() && d.terms[0].factor == n;
  return n >= 0 && !inA && inB;
}

std::string_view epilogueObstacle(FusionGroups& fusion, OpId o, uint32_t g) {
  const FusionGroup& group = fusion.group(g);
  const FusionForm& form = fusion.formOf(o);
  const ValueId matmul = fusion.m.result(group.ops.back());
  if (form.reduces || form.indexed || form.contracts || form.move || !fusion.m.record(o).scalar ||
      fusion.m[o].numResults != 1 || fusion.m[matmul].type != fusion.m[fusion.m.result(o)].type)
    return "it is not an elementwise op on the shape and dtype of the matmul";
  if (group.ops.size() >= fusion.limit) return "the op limit of the region is reached";
  uint32_t uses = 0;
  int64_t level = group.level;
  for (ValueId v : fusion.m.operands(o)) {
    uses += v == matmul;
    if (v == matmul) continue;
    if (fusion.sourceGroup(v) == static_cast<int>(g)) return "it reads the matmul through a data-movement op";
    level = std::max(level, fusion.levelOf(v) + 1);
  }
  if (fusion.isFarBehind(o, g)) return "it is far behind the matmul";
  if (uses == 0) return "the matmul is stored or transposed before it is read";
  if (fusion.uses[matmul.index] != uses) return "the matmul has other readers, which need it stored";
  if (group.minUser <= level) return "fusing them would create a cycle";
  for (ValueId v : fusion.m.operands(o)) {
    const int other = fusion.sourceGroup(v);
    if (v == matmul || other < 0) continue;
    const FusionGroup& made = fusion.group(other);
    if (made.fusible && !made.closed && made.minUser > level &&
        kernelObstacle(fusion, o, static_cast<uint32_t>(other)).empty())
      return "it is fused with the producer of its other operand, which would have to store that operand";
  }
  return "";
}

// True if a library computes the matmul's epilogue and the op: the group has no other addition of a matrix.
static bool addsMatrix(const FusionGroups& fusion, OpId o, uint32_t g) {
  const FusionGroup& group = fusion.group(g);
  if (!fusion.epilogues || fusion.m.record(o).scalar != std::string_view("a + b")) return false;
  return std::all_of(group.ops.begin() + 1, group.ops.end(), [&](OpId before) {
    return std::ranges::any_of(fusion.m.operands(before),
                               [&](ValueId v) { return fusion.m.typeOf(v).rank() <= 1; });
  });
}

// A value times gelu's derivative: the library reads gelu's operand, and the matmul's result is neither written
// nor read again, which saves 2 of 4 times its bytes (1 if a reduction would have read it in the same kernel).
static bool joinGeluGradient(FusionGroups& fusion, OpId o) {
  if (!fusion.gelu) return false;
  const std::optional<GeluTanhGradient> gradient = geluTanhGradient(fusion.m, o);
  if (!gradient) return false;
  const int g = fusion.groupOf(gradient->dy), from = fusion.groupOf(fusion.m.result(gradient->derivative[0]));
  const FusionSource x = fusion.sourceOf(gradient->x);
  if (g < 0 || from < 0 || fusion.group(g).kind != "gemm" || x.moved) return false;
  FusionGroup &group = fusion.group(g), &taken = fusion.group(from);
  const Type& type = fusion.m.typeOf(gradient->dy);
  const bool narrow = type.dtype == DType::BF16 || type.dtype == DType::F16;
  if (!narrow || type != fusion.m.typeOf(gradient->x) || group.ops.size() != 1 ||
      fusion.m.result(group.ops[0]) != gradient->dy || fusion.uses[gradient->dy.index] != 1)
    return false;
  // The kernel that computes the derivative has nothing else to compute, and no other reader.
  const auto inside = [&](OpId at) { return std::ranges::count(gradient->derivative, at) != 0; };
  std::unordered_map<uint32_t, uint32_t> reads;
  for (OpId at : gradient->derivative)
    for (ValueId v : fusion.m.operands(at)) ++reads[v.index];
  for (ValueId v : fusion.m.operands(o)) ++reads[v.index];
  for (OpId at : gradient->derivative)
    if (const ValueId v = fusion.m.result(at); fusion.uses[v.index] != reads[v.index]) return false;
  if (taken.ops.size() != gradient->derivative.size() || !std::ranges::all_of(taken.ops, inside) ||
      taken.ops.size() + 2 > fusion.limit)
    return false;
  const int64_t level = std::max(group.level, fusion.levelOf(gradient->x) + 1);
  if (group.minUser <= level || taken.minUser <= level) return false;
  group.level = level;
  group.ops.insert(group.ops.end(), taken.ops.begin(), taken.ops.end());
  for (OpId at : taken.ops) fusion.at(at).group = g;
  taken.ops.clear();
  group.ops.push_back(o);
  fusion.at(o).group = g;
  fusion.at(o).placed = fusion.tick();
  fusion.noteUses(o, level, static_cast<uint32_t>(g));
  return true;
}

bool joinEpilogue(FusionGroups& fusion, OpId o) {
  if (joinGeluGradient(fusion, o)) return true;
  int best = -1; // the last matmul: the others are computed before it
  bool whole = false;
  for (ValueId v : fusion.m.operands(o)) {
    const int g = fusion.groupOf(v);
    if (g < 0 || fusion.group(g).kind != "gemm") continue;
    if (!epilogueObstacle(fusion, o, static_cast<uint32_t>(g)).empty()) continue;
    const bool adds = addsMatrix(fusion, o, static_cast<uint32_t>(g));
    if (best >= 0 && (whole != adds ? whole : fusion.group(g).level < fusion.group(best).level)) continue;
    best = g, whole = adds;
  }
  if (best < 0) return false;
  const auto g = static_cast<uint32_t>(best);
  FusionGroup& group = fusion.group(g);
  const ValueId matmul = fusion.m.result(group.ops.back());
  for (ValueId v : std::vector<ValueId>(fusion.m.operands(o).begin(), fusion.m.operands(o).end())) {
    if (v == matmul) continue;
    group.level = std::max(group.level, fusion.levelOf(v) + 1);
    if (libraryBias(fusion, o, matmul, v, g)) fusion.store(v);
    if (const int from = fusion.sourceGroup(v); from >= 0 && from != best)
      fusion.note(o, v, "a region has one matmul: the other one is read from memory");
  }
  fusion.group(g).ops.push_back(o);
  fusion.at(o).group = best;
  fusion.at(o).placed = fusion.tick();
  fusion.noteUses(o, fusion.group(g).level, g);
  return true;
}

// True for a kernel of elementwise ops on the elements of the matmul.
static bool isElementwiseOn(const FusionGroups& fusion, const FusionGroup& g, const Type& matmul) {
  if (!g.fusible || g.closed || g.rows || g.kind != "pointwise" || g.ops.empty()) return false;
  return std::all_of(g.ops.begin(), g.ops.end(), [&](OpId o) {
    const FusionForm& form = fusion.formOf(o);
    return !form.move && !form.indexed && fusion.m.record(o).scalar && fusion.m[o].numResults == 1 &&
           fusion.m.typeOf(fusion.m.result(o)).dims == matmul.dims;
  });
}

static bool takeIn(FusionGroups& fusion, uint32_t g, uint32_t reader, ValueId matmul,
                   const FusionReadings& readings, const std::unordered_set<ValueId>& yields) {
  FusionGroup &group = fusion.group(g), &taken = fusion.group(reader);
  const Type& type = fusion.m.typeOf(matmul);
  if (fusion.isFarBehind(taken.ops.front(), g)) return false;
  if (!isElementwiseOn(fusion, taken, type) || group.ops.size() + taken.ops.size() > fusion.limit)
    return false;
  int64_t level = group.level, others = INT64_MAX;
  for (OpId o : taken.ops)
    for (ValueId v : fusion.m.operands(o)) {
      const int from = fusion.sourceGroup(v);
      if (from == static_cast<int>(g) && v != matmul) return false;
      if (from != static_cast<int>(g) && from != static_cast<int>(reader))
        level = std::max(level, fusion.levelOf(v) + 1);
    }
  // The matmul writes its own result buffer, or that of another result with the same dtype.
  bool hasBuffer = yields.contains(matmul);
  for (const FusionGroup* of : {&group, &taken})
    for (OpId o : of->ops) {
      const ValueId made = fusion.m.result(o);
      bool stored = yields.contains(made);
      for (const FusionReading& r : readings.of(made)) {
        const int in = fusion.at(r.reader).group;
        if (in == static_cast<int>(g) || in == static_cast<int>(reader)) continue;
        stored = true;
        if (of == &group) others = std::min(others, fusion.group(in).level);
      }
      hasBuffer |= stored && fusion.m.typeOf(made).dtype == type.dtype && (of == &taken || made == matmul);
    }
  if (!hasBuffer || others <= level) return false;
  group.ops.insert(group.ops.end(), taken.ops.begin(), taken.ops.end());
  for (OpId o : taken.ops) fusion.at(o).group = static_cast<int32_t>(g);
  for (OpId o : taken.ops) fusion.noteUses(o, level, g);
  group.level = level;
  group.minUser = std::min(others, taken.minUser);
  taken.ops.clear();
  return true;
}

void takeInReaders(FusionGroups& fusion) {
  const FusionReadings all = fusion.readings();
  const std::vector<ValueId>& yielded = fusion.m[fusion.block].yields;
  const std::unordered_set<ValueId> yields(yielded.begin(), yielded.end());
  for (uint32_t g = 0; g < fusion.numGroups(); ++g) {
    if (!fusion.group(g).fusible || fusion.group(g).kind != "gemm") continue;
    // A data-movement op on the result already has a buffer.
    const OpId last = fusion.group(g).ops.back();
    if (fusion.formOf(last).move || fusion.m[last].numResults != 1) continue;
    const ValueId matmul = fusion.m.result(last);
    std::vector<uint32_t> readers;
    for (const FusionReading& r : all.of(matmul)) {
      const int in = fusion.at(r.reader).group;
      if (in < 0 || in == static_cast<int>(g) || r.moved) continue;
      if (std::find(readers.begin(), readers.end(), static_cast<uint32_t>(in)) == readers.end())
        readers.push_back(static_cast<uint32_t>(in));
    }
    for (uint32_t reader : readers) takeIn(fusion, g, reader, matmul, all, yields);
  }
}

} // namespace dtc
