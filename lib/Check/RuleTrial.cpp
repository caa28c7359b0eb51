#include "RuleTrial.h"
#include "dtc/Check/Compare.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// A number of a counter-based stream: the same on every platform.
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Quarters from -2 to 2 without 0: sums and products of a few are exact, ties are frequent, signs vary.
double smallFloat(uint64_t r) {
  int64_t q = static_cast<int64_t>(r % 16) - 8;
  return static_cast<double>(q >= 0 ? q + 1 : q) / 4;
}

void fillFloat(Tensor& t, uint64_t seed, bool special) {
  // 100000 is more than f16 holds: what a narrow dtype cannot keep of the parts, though the whole would fit.
  static constexpr double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 100000, -100000};
  for (int64_t i = 0; i < t.numElements(); ++i) {
    uint64_t r = mixed(seed + static_cast<uint64_t>(i));
    t.setFloat(i, special && r % 4 == 0 ? odd[(r >> 8) % 7] : smallFloat(r >> 16));
  }
}

void fillInt(Tensor& t, uint64_t seed, OpSample::Range range, bool whole) {
  const DType d = t.dtype();
  const uint64_t rarity = mixed(seed) % 3; // bools: half true, few, nearly all
  for (int64_t i = 0; i < t.numElements(); ++i) {
    uint64_t r = mixed(seed + static_cast<uint64_t>(i)), pick = r >> 40;
    int64_t v = static_cast<int64_t>(r % 11) - (isUnsignedInt(d) ? 0 : 5);
    if (range.hi > range.lo) {
      v = range.lo + static_cast<int64_t>(r % static_cast<uint64_t>(range.hi - range.lo));
    } else if (isBool(d)) {
      v = rarity == 0 ? pick % 2 == 0 : rarity == 1 ? pick % 32 == 0 : pick % 32 != 0;
    } else if (whole && pick % 2 == 0) { // small numbers stay among them: as shifts, as divisors
      uint64_t which = (pick >> 1) % 4;
      v = which == 0 ? intMin(d) : which == 1 ? intMax(d) : wrapToInt(d, static_cast<int64_t>(r));
    }
    t.setInt(i, v);
  }
}

double greatestFinite(const Tensor& t) {
  if (isComplex(t.dtype())) return greatestFinite(t.parts());
  double most = 0;
  for (int64_t i = 0; isFloat(t.dtype()) && i < t.numElements(); ++i)
    if (std::isfinite(t.getFloat(i))) most = std::max(most, std::fabs(t.getFloat(i)));
  return most;
}

std::string elementText(const Tensor& t, int64_t i) {
  if (isComplex(t.dtype())) {
    const Tensor parts = t.parts();
    return "(" + elementText(parts, 2 * i) + ", " + elementText(parts, 2 * i + 1) + ")";
  }
  if (isBool(t.dtype())) return t.getInt(i) ? "true" : "false";
  if (isFloat(t.dtype())) return printFloat(t.getFloat(i), t.dtype());
  return t.dtype() == DType::U64 ? std::to_string(static_cast<uint64_t>(t.getInt(i)))
                                 : std::to_string(t.getInt(i));
}

std::string tensorText(const Tensor& t) {
  std::string text = "[";
  for (int64_t i = 0; i < t.numElements() && i < 6; ++i) text += (i ? ", " : "") + elementText(t, i);
  return text + (t.numElements() > 6 ? ", …]" : "]");
}

// The first element that differs, or -1: NaN to NaN, inf to inf, finite values up to the tolerance (0: equal).
int64_t firstDifference(const Tensor& got, const Tensor& want, double tolerance) {
  if (isComplex(want.dtype())) {
    const int64_t part = firstDifference(got.parts(), want.parts(), tolerance);
    return part < 0 ? part : part / 2;
  }
  for (int64_t i = 0; i < want.numElements(); ++i) {
    if (!isFloat(want.dtype())) {
      if (got.getInt(i) != want.getInt(i)) return i;
      continue;
    }
    double g = got.getFloat(i), w = want.getFloat(i);
    if (std::isnan(g) && std::isnan(w)) continue;
    if (g == w) continue;
    if (!std::isfinite(g) || !std::isfinite(w) || !(std::fabs(g - w) <= tolerance)) return i;
  }
  return -1;
}

Tensor literalTensor(const Module& m, const Value& v) {
  Tensor t(m.types[v.type].dtype, {});
  const Attr& a = m.attrs[v.literal];
  if (isFloat(partType(t.dtype())))
    t.setFloat(0, a.kind == Attr::Float ? a.f : static_cast<double>(a.i));
  else
    t.setInt(0, a.i);
  return t;
}

} // namespace

TrialMesh addTrialMesh(Module& m, int64_t n) {
  TrialMesh t;
  t.mesh.name = m.strings.intern("trial" + std::to_string(n));
  t.mesh.axes = {{m.strings.intern("a"), n}};
  t.id = m.shardings.addMesh(t.mesh);
  return t;
}

std::string placementText(const Placement& p) {
  if (p.kind == Placement::R) return "R";
  if (p.kind == Placement::P) return "P(" + std::string(pendingName(p.pending)) + ")";
  return "S(" + std::to_string(p.dim) + (p.blocks > 1 ? ", " + std::to_string(p.blocks) : "") + ")";
}

RuleTrial::RuleTrial(OpSample& s, const TrialMesh& mesh, std::span<const Placement> operands,
                     TrialValues values, uint64_t seed)
    : s_(s), mesh_(mesh), m_(s.module), query_(queryOf(s.module, s.op, quiet_)),
      special_(values == TrialValues::Special) {
  for (const Placement& p : operands)
    if (p.kind == Placement::P &&
        (p.pending == PendingKind::Sum || p.pending == PendingKind::Avg || p.pending == PendingKind::Prod))
      exact_ = false;
  size_t argument = 0;
  for (ValueId v : query_.operands) {
    if (m_[v].kind == ValueKind::Literal) {
      globals_.push_back(literalTensor(m_, m_[v]));
      locals_.push_back(Tensors(static_cast<size_t>(mesh_.mesh.numDevices()), globals_.back()));
      operandPlacements_.push_back({});
      continue;
    }
    makeOperand(argument, operands[argument], mixed(seed * 1000 + argument));
    ++argument;
  }
  auto want = evaluateOp(query_, globals_, {});
  if (!want.ok()) return;
  want_ = std::move(*want);
  runs_ = true;
}

Sharding RuleTrial::shardingOf(const Placement& p, size_t rank) const {
  auto s = fromPlacements(std::span(&p, 1), mesh_.id, mesh_.mesh, rank);
  return s ? *s : Sharding{mesh_.id, std::vector<DimSharding>(rank), {}, {}};
}

// Pending: the devices' values are made up, and the whole value is what they combine to; else the pieces of a whole value.
void RuleTrial::makeOperand(size_t argument, const Placement& p, uint64_t seed) {
  const Type type = m_.typeOf(m_[s_.func].args[argument].value);
  const std::vector<int64_t> shape = type.staticShape();
  const int64_t n = mesh_.mesh.numDevices();
  auto fill = [&](Tensor& t, uint64_t stream, bool special) {
    if (isComplex(type.dtype)) {
      Tensor parts = t.parts();
      fillFloat(parts, stream, special);
      for (int64_t i = 1; i < parts.numElements(); i += 4)
        parts.setFloat(i, 0); // some are real: those may be equal
      t = Tensor::fromParts(parts);
    } else if (isFloat(type.dtype))
      fillFloat(t, stream, special);
    else
      fillInt(t, stream, s_.ranges[argument], special);
  };
  Sharding sharding = shardingOf(p, shape.size());
  Tensors local;
  if (p.kind == Placement::P) {
    for (int64_t d = 0; d < n; ++d) {
      local.emplace_back(type.dtype, shape);
      fill(local.back(), mixed(seed + static_cast<uint64_t>(d)), special_);
    }
    globals_.push_back(assemble(local, sharding, mesh_.mesh, shape));
  } else {
    Tensor whole(type.dtype, shape);
    fill(whole, seed, special_ && (p.kind == Placement::S || !isFloat(type.dtype)));
    for (int64_t d = 0; d < n; ++d) local.push_back(takePiece(whole, sharding, mesh_.mesh, d));
    globals_.push_back(std::move(whole));
  }
  operandPlacements_.push_back(p);
  locals_.push_back(std::move(local));
}

TypeId RuleTrial::localType(const Placement& p, TypeId global, int64_t device) {
  const Type type = m_.types[global];
  std::vector<int64_t> shape = localShape(shardingOf(p, type.rank()), mesh_.mesh, type.staticShape(), device);
  std::vector<Dim> dims(shape.begin(), shape.end());
  return m_.tensorType(type.dtype, dims);
}

// Where a factor that needs its offset is cut (by an operand's placement or the result's), the piece's begin; the op takes
// these after its operands, in the rule's order of such factors, up to the last that is cut.
std::vector<Tensor> RuleTrial::offsetsFor(int64_t device, const Placement& result) {
  std::vector<Tensor> offsets;
  Rule rule;
  if (query_.record->offsetOperand < 0 || !ruleOf(query_, rule)) return offsets;
  const int64_t n = mesh_.mesh.numDevices();
  auto cuts = [&](const Placement& p, const TensorMap& map, size_t f) {
    if (p.kind != Placement::S || static_cast<size_t>(p.dim) >= map.dims.size()) return false;
    const DimMap& d = map.dims[static_cast<size_t>(p.dim)];
    return !d.terms.empty() && d.terms[0].factor == f;
  };
  size_t used = 0;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (!rule.factors[f].needsOffset()) continue;
    bool cut = cuts(result, rule.results[0], f);
    for (size_t i = 0; i < operandPlacements_.size(); ++i)
      cut |= cuts(operandPlacements_[i], rule.operands[i], f);
    offsets.emplace_back(DType::I32, std::vector<int64_t>{});
    if (!cut) continue;
    offsets.back().setInt(0, piece(rule.factors[f].size.value(), n, device).begin);
    used = offsets.size();
  }
  offsets.resize(used);
  return offsets;
}

Result<RuleTrial::Tensors> RuleTrial::runLocal(int64_t device, const Placement& result) {
  Tensors operands;
  std::vector<TypeId> types, results;
  bool changed = false;
  for (size_t i = 0; i < locals_.size(); ++i) {
    operands.push_back(locals_[i][static_cast<size_t>(device)]);
    types.push_back(localType(operandPlacements_[i], query_.operandTypes[i], device));
    changed |= types[i] != query_.operandTypes[i];
  }
  const size_t numOperands = types.size();
  for (uint32_t r = 0; r < m_[s_.op].numResults; ++r) {
    TypeId global = m_[m_.result(s_.op, r)].type;
    results.push_back(localType(result, global, device));
    changed |= results[r] != global;
  }
  AttrList attrs = m_[s_.op].attrs;
  if (changed && query_.record->localise) query_.record->localise(query_, types, results, attrs);
  std::vector<ValueId> values(query_.operands.begin(), query_.operands.end());
  for (Tensor& t : offsetsFor(device, result)) {
    types.resize(std::max(types.size(), static_cast<size_t>(query_.record->offsetOperand)));
    types.push_back(m_.tensorType(DType::I32, std::initializer_list<int64_t>{}));
    operands.push_back(std::move(t));
  }
  if (types.size() > numOperands) values.clear(); // the op as it stands lacks the offsets
  OpQuery local = query_;
  Diagnostics diags;
  local.operandTypes = types;
  local.operands = values;
  local.attrs = &attrs;
  local.writtenTypes = results;
  local.diags = &diags;
  std::vector<TypeId> inferred;
  if (!inferResultTypes(local, inferred)) return inputError("the op does not fit the pieces");
  if (inferred != results)
    return inputError("the op gives " + printType(m_, inferred.empty() ? results[0] : inferred[0]) +
                      " where the piece is " + printType(m_, results[0]));
  return evaluateOp(local, operands, {});
}

// How far two orders of the same sums may lie apart: a few units of the coarsest dtype that a value was rounded to, at the
// size of the greatest value on the way.
double RuleTrial::reassociation(size_t result) const {
  double most = std::max(1.0, greatestFinite(want_[result]));
  for (const Tensors& t : got_) most = std::max(most, greatestFinite(t[result]));
  int bits = mantissaBits(want_[result].dtype());
  for (const Tensor& t : globals_)
    if (isFloat(partType(t.dtype()))) bits = std::min(bits, mantissaBits(t.dtype()));
  return 4 * most * std::ldexp(1.0, -bits);
}

std::string RuleTrial::compare(size_t result, const Placement& p) {
  const Tensor& want = want_[result];
  const Sharding sharding = shardingOf(p, want.rank());
  bool exact =
      exact_ && !(p.kind == Placement::P && (p.pending == PendingKind::Sum || p.pending == PendingKind::Avg ||
                                             p.pending == PendingKind::Prod));
  const double tolerance = exact ? 0 : reassociation(result);
  auto differs = [&](const Tensor& got, const Tensor& wanted, const std::string& where) -> std::string {
    int64_t at = firstDifference(got, wanted, tolerance);
    if (at < 0) return "";
    return where + " " + elementText(got, at) + " at " + indexText(at, wanted.shape()) + " where " +
           elementText(wanted, at) + " is right";
  };
  if (p.kind == Placement::P) {
    Tensors pieces;
    for (const Tensors& t : got_) pieces.push_back(t[result]);
    return differs(assemble(pieces, sharding, mesh_.mesh, want.shape()), want,
                   "the devices' values combine to");
  }
  for (int64_t d = 0; d < mesh_.mesh.numDevices(); ++d) {
    std::string why = differs(got_[static_cast<size_t>(d)][result], takePiece(want, sharding, mesh_.mesh, d),
                              "device " + std::to_string(d) + " has");
    if (!why.empty()) return why;
  }
  return "";
}

std::string RuleTrial::check(const Placement& p) {
  for (const Tensor& w : want_) {
    if (p.kind == Placement::S && static_cast<size_t>(p.dim) >= w.rank())
      return "the result has no dim " + std::to_string(p.dim);
    if (p.kind == Placement::P && p.pending == PendingKind::None) return "pending on nothing";
  }
  // What a device runs depends on the result's placement through its shape alone.
  bool same = haveGot_ && (gotFor_ == p || (gotFor_.kind != Placement::S && p.kind != Placement::S));
  if (!same) {
    got_.clear();
    for (int64_t d = 0; d < mesh_.mesh.numDevices(); ++d) {
      auto r = runLocal(d, p);
      if (!r.ok()) {
        haveGot_ = false;
        return "on device " + std::to_string(d) + " " + r.error().message;
      }
      got_.push_back(std::move(*r));
    }
    gotFor_ = p;
    haveGot_ = true;
  }
  for (size_t r = 0; r < want_.size(); ++r) {
    std::string why = compare(r, p);
    if (why.empty()) continue;
    why += ", on " + std::to_string(mesh_.mesh.numDevices()) + " devices with ";
    for (size_t i = 0; i < globals_.size(); ++i) why += (i ? ", " : "") + tensorText(globals_[i]);
    return why;
  }
  return "";
}

} // namespace dtc
