#include "rules/RuleTrial.h"
#include "dtc/Check/run/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Sharding/Projection.h"
#include "run/NonFiniteGuarantees.h"
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

static bool rounds(PendingKind k) {
  return k == PendingKind::Sum || k == PendingKind::Avg || k == PendingKind::Prod;
}

// Thresholds of the op: its literals, its float attributes, the maximum of a result's narrower dtype.
static std::vector<double> numbersOf(const OpQuery& q) {
  std::vector<double> out;
  for (size_t i = 0; i < q.operands.size(); ++i)
    if (auto literal = finiteLiteral(q, i)) out.push_back(*literal);
  for (const AttrSpec& a : q.record->attrs)
    if (a.type == AttrType::Float) out.push_back(q.floatAttr(a.name));
  if (auto to = q.dtypeAttr("dtype"); to && !q.operandTypes.empty()) {
    if (isFloat(*to) && dtypeBytes(*to) < dtypeBytes(q.type(0).dtype)) out.push_back(maxFinite(*to));
    if (isInteger(*to) && *to != q.type(0).dtype)
      out.insert(out.end(), {static_cast<double>(intMin(*to)), static_cast<double>(intMax(*to))});
  }
  std::erase_if(out, [](double v) { return !std::isfinite(v); });
  return out;
}

RuleTrial::RuleTrial(OpSample& s, const TrialMesh& mesh, std::span<const Placement> operands,
                     TrialValues values, uint64_t seed, TrialOptions options)
    : s_(s), mesh_(mesh), m_(s.module), query_(queryOf(s.module, s.op, quiet_)), values_(values),
      options_(options) {
  if (values == TrialValues::Near) near_ = numbersOf(query_);
  for (const Placement& p : operands)
    if (p.kind == Placement::P && rounds(p.pending)) exact_ = false;
  size_t argument = 0;
  for (ValueId v : query_.operands) {
    if (m_[v].kind == ValueKind::Literal) {
      globals_.push_back(literalTensor(m_, v));
      locals_.push_back(Tensors(static_cast<size_t>(mesh_.mesh.numDevices()), globals_.back()));
      operandPlacements_.push_back({});
      continue;
    }
    makeOperand(argument, operands[argument], mixed(seed * 1000 + argument), seed);
    ++argument;
  }
  auto want = evaluateOp(query_, globals_, {});
  if (!want.ok()) return;
  want_ = std::move(*want);
  runs_ = true;
}

// Pending values are combined in f64, too: a sum that overflows in its own dtype does not overflow here.
RuleTrial::RuleTrial(const RuleTrial& of, Precision precision)
    : s_(of.s_), mesh_(of.mesh_), m_(of.m_), query_(queryOf(of.m_, of.s_.op, quiet_)),
      operandPlacements_(of.operandPlacements_), locals_(of.locals_), globals_(of.globals_),
      exact_(of.exact_), values_(of.values_), options_(of.options_), precision_(precision),
      compared_(of.compared_) {
  for (size_t i = 0; i < locals_.size(); ++i) {
    const Placement& p = operandPlacements_[i];
    if (p.kind != Placement::P || !isFloat(globals_[i].dtype())) continue;
    for (Tensor& t : locals_[i]) {
      Tensor wide(DType::F64, t.shape());
      for (int64_t e = 0; e < t.numElements(); ++e) wide.setFloat(e, t.getFloat(e));
      t = std::move(wide);
    }
    globals_[i] = assemble(locals_[i], shardingOf(p, globals_[i].rank()), mesh_.mesh, globals_[i].shape());
  }
  auto want = evaluateOp(query_, globals_, {.precision = precision_});
  if (!want.ok()) return;
  want_ = std::move(*want);
  runs_ = true;
}

Sharding RuleTrial::shardingOf(const Placement& p, size_t rank) const {
  auto s = fromPlacements(std::span(&p, 1), mesh_.id, mesh_.mesh, rank);
  return s ? *s : Sharding{mesh_.id, std::vector<DimSharding>(rank), {}, {}};
}

// Infinities, zeros and NaN of one device's part against those of the replicated operand, in every
// combination: the replicated operand changes with each element, the part with every fourth.
static void putSpecial(Tensor& t, bool part, uint64_t shift) {
  constexpr double replicated[] = {INFINITY, -INFINITY, 0}, parts[] = {INFINITY, -INFINITY, 0, NAN};
  for (int64_t i = 0; i < t.numElements(); ++i) {
    const uint64_t at = static_cast<uint64_t>(part ? i / 4 : i) + shift;
    if (part && at % 5 < 4) t.setFloat(i, parts[at % 5]);
    if (!part && at % 4 < 3) t.setFloat(i, replicated[at % 4]);
  }
}

// Pending: the devices' values are generated, and the global value is their combination; else the shards of a
// global value.
void RuleTrial::makeOperand(size_t argument, const Placement& p, uint64_t seed, uint64_t trial) {
  const Type type = m_.typeOf(m_[s_.func].args[argument].value);
  const std::vector<int64_t> shape = type.staticShape();
  const int64_t n = mesh_.mesh.numDevices();
  // Most trials of special values have them in the replicated operand, too.
  const bool special = values_ == TrialValues::Special;
  const bool plain =
      special && isFloat(partType(type.dtype)) && mixed(seed) % (p.kind == Placement::R ? 3 : 8) == 0;
  // Every other such trial pairs them systematically; `trial` is the same for all operands.
  const bool adjacent = special && mixed(trial) % 2 && isFloat(type.dtype) && !plain;
  const TrialFill how{plain || adjacent ? TrialValues::Small : values_, s_.ranges[argument], near_};
  Sharding sharding = shardingOf(p, shape.size());
  Tensors local;
  if (p.kind == Placement::P) {
    for (int64_t d = 0; d < n; ++d) {
      local.emplace_back(type.dtype, shape);
      fillTrialTensor(local.back(), mixed(seed + static_cast<uint64_t>(d)), how);
      // Opposite infinities combine to a NaN that no device has.
      for (int64_t i = 3; special && !plain && !adjacent && mixed(seed ^ 1) % 2 == 0 && isFloat(type.dtype) &&
                          i < local.back().numElements();
           i += 8)
        local.back().setFloat(i, d % 2 ? -INFINITY : INFINITY);
      if (adjacent && static_cast<uint64_t>(d) == mixed(trial + 1) % static_cast<uint64_t>(n))
        putSpecial(local.back(), true, mixed(seed + 2) % 5);
    }
    globals_.push_back(assemble(local, sharding, mesh_.mesh, shape));
  } else {
    Tensor global(type.dtype, shape);
    fillTrialTensor(global, seed, how);
    if (adjacent) putSpecial(global, p.kind == Placement::S, mixed(seed + 2) % 20);
    for (int64_t d = 0; d < n; ++d) local.push_back(takeShard(global, sharding, mesh_.mesh, d));
    globals_.push_back(std::move(global));
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

// Where a factor that needs its offset is sharded (by an operand's placement or the result's), the shard's
// offset; the op takes these after its operands, in the rule's order of such factors, up to the last sharded
// one.
std::vector<Tensor> RuleTrial::offsetsFor(int64_t device, const Placement& result) {
  std::vector<Tensor> offsets;
  Rule rule;
  if (query_.record->offsetOperand < 0 || !ruleOf(query_, rule)) return offsets;
  const int64_t n = mesh_.mesh.numDevices();
  auto shards = [&](const Placement& p, const TensorMap& map, size_t f) {
    if (p.kind != Placement::S || static_cast<size_t>(p.dim) >= map.dims.size()) return false;
    const DimMap& d = map.dims[static_cast<size_t>(p.dim)];
    return !d.terms.empty() && d.terms[0].factor == f;
  };
  size_t used = 0;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (!rule.factors[f].needsOffset()) continue;
    bool sharded = shards(result, rule.results[0], f);
    for (size_t i = 0; i < operandPlacements_.size(); ++i)
      sharded |= shards(operandPlacements_[i], rule.operands[i], f);
    offsets.emplace_back(DType::I32, std::vector<int64_t>{});
    if (!sharded) continue;
    offsets.back().setInt(0, shardInterval(rule.factors[f].size.value(), n, device).begin);
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
  if (changed && query_.record->localize && !options_.asWritten)
    query_.record->localize(query_, types, results, attrs);
  std::vector<ValueId> values(query_.operands.begin(), query_.operands.end());
  for (Tensor& t : offsetsFor(device, placements[0])) {
    types.resize(std::max(types.size(), static_cast<size_t>(query_.record->offsetOperand)));
    types.push_back(m_.tensorType(DType::I32, std::initializer_list<int64_t>{}));
    operands.push_back(std::move(t));
  }
  if (types.size() > numOperands) values.clear(); // the plain op lacks the offsets
  OpQuery local = query_;
  Diagnostics diags;
  local.operandTypes = types;
  local.operands = values;
  local.attrs = &attrs;
  local.writtenTypes = results;
  local.diags = &diags;
  std::vector<TypeId> inferred;
  if (!inferResultTypes(local, inferred)) return inputError("the op does not apply to the shards");
  for (size_t r = 0; r < results.size(); ++r)
    if (compared_[r] && inferred[r] != results[r])
      return inputError("the op returns " + printType(m_, inferred[r]) + ", but the shard is " +
                        printType(m_, results[r]));
  return evaluateOp(local, operands, {.precision = precision_});
}

// The tolerance between two orders of summation: a few units of the coarsest dtype to which a value was
// rounded, at the magnitude of the largest intermediate value. Small values are exact except for the op's own
// rounding; for wide ones every term is rounded, and the largest terms may cancel.
double RuleTrial::reassociation(size_t result) const {
  const bool small = values_ == TrialValues::Small || values_ == TrialValues::Sparse;
  double largest = maxFiniteMagnitude(want_[result]), given = 0, pending = 1, factor = 1;
  for (const Tensors& t : got_) largest = std::max(largest, maxFiniteMagnitude(t[result]));
  for (size_t i = 0; i < locals_.size(); ++i) {
    double operand = 0;
    for (const Tensor& t : locals_[i]) operand = std::max(operand, maxFiniteMagnitude(t));
    if (operandPlacements_[i].kind != Placement::R) given = std::max(given, operand);
    if (operandPlacements_[i].kind != Placement::P) factor *= std::max(1.0, operand);
    if (operandPlacements_[i].kind == Placement::P) pending = std::max(pending, operand);
  }
  // Where all results are near 0 nothing cancels.
  if (small && largest > std::ldexp(given, -60)) largest = std::max(largest, std::min(1.0, given));
  if (!small) largest = std::max(largest, pending * factor);
  int bits = mantissaBits(m_.typeOf(m_.result(s_.op, static_cast<uint32_t>(result))).dtype);
  for (TypeId t : query_.operandTypes)
    if (isFloat(partType(m_.types[t].dtype))) bits = std::min(bits, mantissaBits(m_.types[t].dtype));
  if (precision_ == Precision::R64 && small)
    bits = mantissaBits(DType::F32); // literals and functions may be computed in f32
  // Accumulating equal values in narrow floats rounds to one side, once per term. For dtypes of few bits the
  // tolerance is at most a quarter.
  int64_t terms = 16;
  for (const Tensor& t : globals_) terms = std::max(terms, std::min<int64_t>(t.numElements(), 1024));
  const double sums =
      static_cast<double>(terms) / 4 * std::ldexp(1.0, -std::max(bits, mantissaBits(DType::F32)));
  const double ends = (small ? 4 : 64) * std::ldexp(1.0, -bits);
  return largest * std::min(std::max(sums, ends), 0.25);
}

bool RuleTrial::isArithmetic(const Placement& p) const {
  return !exact_ || (p.kind == Placement::P && rounds(p.pending));
}

// A device's part of a result, or the combination of the devices' parts; actual or expected.
Tensor RuleTrial::heldBy(size_t result, const Placement& p, int64_t device, bool wanted) const {
  const Tensor& want = want_[result];
  const Sharding sharding = shardingOf(p, want.rank());
  if (p.kind == Placement::P) {
    if (wanted) return want;
    Tensors locals;
    for (const Tensors& t : got_) locals.push_back(t[result]);
    return assemble(locals, sharding, mesh_.mesh, want.shape());
  }
  return wanted ? takeShard(want, sharding, mesh_.mesh, device) : got_[static_cast<size_t>(device)][result];
}

// NaN in place of an infinity, where a replicated factor is infinite or a divisor is 0.
bool RuleTrial::unpromised(size_t result, const Placement& p, const Tensor& got, int64_t i) {
  if (options_.nonFinite == NonFinite::Strict || p.kind != Placement::P ||
      (p.pending != PendingKind::Sum && p.pending != PendingKind::Avg) || !isNanAt(got, i))
    return false;
  if (!unpromised_) {
    PendingOperands pending{0, p.pending};
    for (size_t k = 0; k < operandPlacements_.size() && k < 32; ++k) // all like the result
      if (operandPlacements_[k].kind == Placement::P) pending.set |= 1u << k;
    for (const Placement& operand : operandPlacements_)
      if (operand.kind == Placement::P && operand.pending != p.pending) pending.set = 0;
    unpromised_ =
        pending.set ? unpromisedElements(query_, globals_, pending) : std::vector<std::vector<bool>>();
  }
  const bool found = result < unpromised_->size() && (*unpromised_)[result][static_cast<size_t>(i)];
  excepted_ = excepted_ || found;
  return found;
}

// True if a sum or a product overflows (or a product underflows) in an intermediate result. In f64 it does
// not: there both sides are of one kind.
bool RuleTrial::overflows(size_t result, const Placement& p, int64_t device, int64_t i, bool finite) {
  const DType to = m_.typeOf(m_.result(s_.op, static_cast<uint32_t>(result))).dtype;
  if (precision_ == Precision::R64 || !isFloat(partType(to)) || !isArithmetic(p)) return false;
  bool prod = p.pending == PendingKind::Prod;
  for (size_t k = 0; k < locals_.size(); ++k) {
    const DType from = m_.types[query_.operandTypes[k]].dtype;
    // Only the convert may overflow: f32 values that round up past the bf16 maximum.
    if (!isFloat(partType(from)) && operandPlacements_[k].kind == Placement::P) return false;
    const bool narrows = isFloat(partType(from)) && maxFinite(partType(to)) < maxFinite(partType(from));
    if (narrows && !(partType(from) == DType::F32 && to == DType::BF16)) return false;
    prod = prod || operandPlacements_[k].pending == PendingKind::Prod;
    for (const Tensor& t : locals_[k])
      if (!isFinite(t)) return false;
  }
  if (finite && !prod) return false;
  if (partType(to) == DType::F64) return !finite; // no wider dtype to compare with
  if (!exactly_) exactly_.reset(new RuleTrial(*this, Precision::R64));
  if (!exactly_->runs_ || !exactly_->runDevices(gotFor_).empty()) return false;
  const Tensor got = exactly_->heldBy(result, p, device, false),
               want = exactly_->heldBy(result, p, device, true);
  int64_t terms = 0;
  for (const Tensor& t : globals_)
    terms = std::max(terms, t.numElements() / std::max<int64_t>(1, want.numElements()));
  auto lost = [&](const Tensor& t) { // a long product may overflow or underflow in f64, too
    return terms >= 8 && isFloat(t.dtype()) && (!std::isfinite(t.getFloat(i)) || t.getFloat(i) == 0);
  };
  return agreesAt(got, want, i, exactly_->reassociation(result)) || (prod && (lost(got) || lost(want)));
}

// Narrow floats hide small differences: the same in f64.
std::string RuleTrial::exactCompare(size_t result, const Placement& p) {
  if (values_ != TrialValues::Small && values_ != TrialValues::Sparse) return "";
  if (!exactly_) exactly_.reset(new RuleTrial(*this, Precision::R64));
  if (!exactly_->runs_ || !exactly_->runDevices(gotFor_).empty()) return "";
  return exactly_->compare(result, p);
}

std::string RuleTrial::compare(size_t result, const Placement& p) {
  const double tolerance = isArithmetic(p) ? reassociation(result) : 0;
  const int64_t devices = p.kind == Placement::P ? 1 : mesh_.mesh.numDevices();
  for (int64_t d = 0; d < devices; ++d) {
    const Tensor got = heldBy(result, p, d, false), wanted = heldBy(result, p, d, true);
    for (int64_t i = 0; i < wanted.numElements(); ++i) {
      if (agreesAt(got, wanted, i, tolerance) || unpromised(result, p, got, i)) continue;
      const bool finite =
          isFloat(wanted.dtype()) && std::isfinite(wanted.getFloat(i)) && std::isfinite(got.getFloat(i));
      if (overflows(result, p, d, i, finite)) continue;
      return (p.kind == Placement::P ? "the devices' values combine to "
                                     : "device " + std::to_string(d) + " has ") +
             trialElementText(got, i) + " at " + indexText(i, wanted.shape()) + ", but " +
             trialElementText(wanted, i) + " is expected";
    }
  }
  return "";
}

// The local program depends on the results' placements through their shapes alone.
std::string RuleTrial::runDevices(const ResultPlacements& placements) {
  auto sameShape = [](const Placement& a, const Placement& b) {
    return a == b || (a.kind != Placement::S && b.kind != Placement::S);
  };
  if (haveGot_ && gotCompared_ == compared_ &&
      std::equal(gotFor_.begin(), gotFor_.end(), placements.begin(), placements.end(), sameShape))
    return "";
  got_.clear();
  haveGot_ = false;
  for (int64_t d = 0; d < mesh_.mesh.numDevices(); ++d) {
    auto r = runLocal(d, placements);
    if (!r.ok()) return "on device " + std::to_string(d) + " " + r.error().message;
    got_.push_back(std::move(*r));
  }
  gotFor_ = placements;
  gotCompared_ = compared_;
  haveGot_ = true;
  return "";
}

std::string RuleTrial::check(const Placement& p) {
  return check(std::vector<std::optional<Placement>>(want_.size(), p));
}

std::string RuleTrial::check(std::span<const std::optional<Placement>> results) {
  ResultPlacements placements;
  std::optional<Placement> sharded; // results that are not compared have their local shape
  for (const auto& p : results)
    if (p && p->kind == Placement::S) sharded = p;
  compared_.assign(want_.size(), true);
  for (size_t r = 0; r < want_.size(); ++r) {
    compared_[r] = results[r].has_value();
    Placement p = results[r].value_or(sharded.value_or(Placement{}));
    if (!results[r] && static_cast<size_t>(p.dim) >= want_[r].rank()) p = {};
    if (p.kind == Placement::S && static_cast<size_t>(p.dim) >= want_[r].rank())
      return "the result has no dim " + std::to_string(p.dim);
    if (p.kind == Placement::P && p.pending == PendingKind::None) return "pending on nothing";
    placements.push_back(p);
  }
  if (std::string why = runDevices(placements); !why.empty()) return why;
  for (size_t r = 0; r < want_.size(); ++r) {
    std::string why = results[r] ? compare(r, *results[r]) : "";
    if (why.empty() && results[r] && isNarrowFloat(want_[r].dtype()) && isArithmetic(*results[r]))
      why = exactCompare(r, *results[r]);
    if (why.empty()) continue;
    why += ", on " + std::to_string(mesh_.mesh.numDevices()) + " devices with ";
    for (size_t i = 0; i < globals_.size(); ++i) why += (i ? ", " : "") + tensorText(globals_[i]);
    return why;
  }
  return "";
}

} // namespace dtc
