#include "RuleTrial.h"
#include "TrialTensors.h"
#include "dtc/Check/Compare.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>
#include <cmath>

namespace dtc {

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
    fillTrialTensor(t, stream, special, s_.ranges[argument]);
  };
  Sharding sharding = shardingOf(p, shape.size());
  Tensors local;
  if (p.kind == Placement::P) {
    for (int64_t d = 0; d < n; ++d) {
      local.emplace_back(type.dtype, shape);
      fill(local.back(), mixed(seed + static_cast<uint64_t>(d)), special_);
      // Infinities of both signs meet: a NaN that no device has.
      for (int64_t i = 3; special_ && isFloat(type.dtype) && i < local.back().numElements(); i += 8)
        local.back().setFloat(i, d % 2 ? -INFINITY : INFINITY);
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

Result<RuleTrial::Tensors> RuleTrial::runLocal(int64_t device, const ResultPlacements& placements) {
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
    results.push_back(localType(placements[r], global, device));
    changed |= results[r] != global;
  }
  AttrList attrs = m_[s_.op].attrs;
  if (changed && query_.record->localise) query_.record->localise(query_, types, results, attrs);
  std::vector<ValueId> values(query_.operands.begin(), query_.operands.end());
  for (Tensor& t : offsetsFor(device, placements[0])) {
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
    return where + " " + trialElementText(got, at) + " at " + indexText(at, wanted.shape()) + " where " +
           trialElementText(wanted, at) + " is right";
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

// What a device runs depends on the results' placements through their shapes alone.
std::string RuleTrial::runDevices(const ResultPlacements& placements) {
  auto sameShape = [](const Placement& a, const Placement& b) {
    return a == b || (a.kind != Placement::S && b.kind != Placement::S);
  };
  if (haveGot_ && std::equal(gotFor_.begin(), gotFor_.end(), placements.begin(), placements.end(), sameShape))
    return "";
  got_.clear();
  haveGot_ = false;
  for (int64_t d = 0; d < mesh_.mesh.numDevices(); ++d) {
    auto r = runLocal(d, placements);
    if (!r.ok()) return "on device " + std::to_string(d) + " " + r.error().message;
    got_.push_back(std::move(*r));
  }
  gotFor_ = placements;
  haveGot_ = true;
  return "";
}

std::string RuleTrial::check(const Placement& p) {
  return check(std::vector<std::optional<Placement>>(want_.size(), p));
}

std::string RuleTrial::check(std::span<const std::optional<Placement>> results) {
  ResultPlacements placements;
  for (size_t r = 0; r < want_.size(); ++r) {
    const Placement p = results[r].value_or(Placement{});
    if (p.kind == Placement::S && static_cast<size_t>(p.dim) >= want_[r].rank())
      return "the result has no dim " + std::to_string(p.dim);
    if (p.kind == Placement::P && p.pending == PendingKind::None) return "pending on nothing";
    placements.push_back(p);
  }
  if (std::string why = runDevices(placements); !why.empty()) return why;
  for (size_t r = 0; r < want_.size(); ++r) {
    std::string why = results[r] ? compare(r, *results[r]) : "";
    if (why.empty()) continue;
    why += ", on " + std::to_string(mesh_.mesh.numDevices()) + " devices with ";
    for (size_t i = 0; i < globals_.size(); ++i) why += (i ? ", " : "") + tensorText(globals_[i]);
    return why;
  }
  return "";
}

} // namespace dtc
