#include "lower/Lower.h"
#include "dtc/IR/Element.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Kernel/schedule/Schedule.h"
#include <algorithm>

namespace dtc {

using namespace loops;

Size SizeArgs::of(Dim d) {
  if (mesh_.valid()) d = canonicalShard(d, m_.shardings.mesh(mesh_), m_.dims);
  if (d.isStatic()) return {d.value(), {}};
  const DimExpr e = m_.dims.expr(d);
  if (!e.axes.empty()) return {1, {argument(d)}};
  Size s{e.coefficient, {}};
  for (StrId symbol : e.symbols) s.args.push_back(argument(m_.dims.intern(DimExpr{1, {symbol}, {}})));
  std::sort(s.args.begin(), s.args.end());
  return s;
}
uint32_t SizeArgs::argument(Dim d) {
  auto it = std::find(list.begin(), list.end(), d);
  if (it == list.end()) it = list.insert(it, d);
  return static_cast<uint32_t>(it - list.begin());
}

// Data movement that the factors describe completely: better than per element, since unknown sizes are
// supported.
static bool isDataMovement(const OpRecord& record, const Rule& rule) {
  if (record.scalar || rule.operands.size() != 1 || rule.results.size() != 1) return false;
  std::vector<bool> inResult(rule.factors.size());
  for (const DimMap& d : rule.results[0].dims)
    for (const Term& t : d.terms) inResult[t.factor] = d.form == DimMap::Compound;
  for (const DimMap& d : rule.operands[0].dims) {
    if (d.form != DimMap::Compound) return false;
    for (const Term& t : d.terms)
      if (!inResult[t.factor] || rule.factors[t.factor].kind != FactorKind::Pass) return false;
  }
  return std::any_of(record.through.begin(), record.through.end(),
                     [](const Through& t) { return t.row == ThroughRow::Moving; });
}

Result<Lowered> RegionLowering::run() {
  makeBuffers();
  const std::vector<ValueId> yields = m_[m_.region(fused_)].yields;
  // Lowers the last output first: earlier ones are then found on the way, at the coordinates where they are
  // needed.
  std::vector<uint32_t> order(lowerOwnStores(*this) ? 0 : yields.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::unordered_map<uint32_t, uint32_t> position;
  const std::vector<OpId>& ops = m_[m_.region(fused_)].ops;
  for (uint32_t i = 0; i < ops.size(); ++i) position[ops[i].index] = i + 1;
  auto rank = [&](uint32_t r) {
    const Value& v = m_[yields[r]];
    return v.kind == ValueKind::OpResult ? position[v.owner] : 0u;
  };
  const AttrId kind = m_.attr(fused_, "kind");
  columns_ = kind.valid() && m_.strings[m_.attrs[kind].text] == "columns";
  if (kind.valid() && m_.strings[m_.attrs[kind].text] == "reductions")
    parts_.emplace(m_, m_[m_.region(fused_)]);
  std::vector<bool> first(yields.size()); // the rows are found on the way of a column, part by part
  for (uint32_t r : order) first[r] = columns_ && reducesColumns(yields[r]);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (first[a] != first[b]) return bool(first[a]);
    return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
  });
  for (uint32_t r : order) {
    addOutput(r);
    if (!error_.empty()) return Error{Error::Bug, error_};
  }
  out_.sizes = sizes_.list;
  k_.numSizes = static_cast<uint32_t>(sizes_.list.size());
  return std::move(out_);
}

void RegionLowering::makeBuffers() {
  const Block& block = m_[m_.region(fused_)];
  std::unordered_map<uint32_t, bool> used;
  auto use = [&](ValueId v) {
    if (m_[v].kind == ValueKind::BlockArg) used[v.index] = true;
  };
  for (OpId o : block.ops)
    for (ValueId v : m_.operands(o)) use(v);
  for (ValueId v : block.yields) use(v);
  for (uint32_t i = 0; i < block.args.size(); ++i) {
    const ValueId v = block.args[i];
    if (!used.contains(v.index)) continue;
    bufferOf_[v] = static_cast<uint32_t>(k_.buffers.size());
    k_.buffers.push_back({m_.typeOf(v).dtype, false});
    out_.inputs.push_back(i);
  }
  k_.numInputs = static_cast<uint32_t>(k_.buffers.size());
  for (uint32_t i = 0; i < block.yields.size(); ++i) {
    k_.buffers.push_back({m_.typeOf(block.yields[i]).dtype, true});
    out_.outputs.push_back(i);
  }
}

uint32_t RegionLowering::outputOf(ValueId v) const {
  const std::vector<ValueId>& yields = m_[m_.region(fused_)].yields;
  return k_.numInputs + static_cast<uint32_t>(std::find(yields.begin(), yields.end(), v) - yields.begin());
}

void RegionLowering::addOutput(uint32_t result) {
  const ValueId v = m_[m_.region(fused_)].yields[result];
  const uint32_t buffer = k_.numInputs + result;
  AffineId address;
  NodeId node;
  size_t nest = 0;
  if (!shareNest(v, address, node, nest)) {
    nest = k_.nests.size();
    const Index at = addDomain(m_.typeOf(v));
    domains_.push_back({at, m_[v].type, parts_ ? parts_->of(v) : std::nullopt});
    address = addressOf(m_.typeOf(v), at);
    node = value(v, at, {});
  }
  if (error_.empty())
    k_.nests[nest].stores.push_back({buffer, address, unrounded(node, k_.buffers[buffer].dtype)});
}

// A store rounds to the dtype of its buffer: no conversion before it is needed.
NodeId RegionLowering::unrounded(NodeId x, DType stored) const {
  const Node& node = k_[x];
  const bool rounds = node.kind == NodeKind::Call && node.function == "convert" && node.target == stored;
  return rounds && isNarrowFloat(stored) && k_[node.args[0]].type == DType::F32 ? node.args[0] : x;
}

RegionLowering::Index RegionLowering::addDomain(const Type& type) {
  nest_ = k_.nests.size();
  k_.nests.emplace_back();
  Index at;
  for (Dim d : type.dims) {
    if (d == Dim(1)) {
      at.push_back(k_.constant(0));
      continue;
    }
    const AxisId a = k_.addAxis(sizes_.of(d));
    k_.nests.back().domain.push_back(a);
    at.push_back(k_.axis(a));
  }
  return at;
}

std::optional<Lowered> RegionLowering::runOverResults(OpId op) {
  makeBuffers();
  const std::vector<ValueId> yields = m_[m_.region(fused_)].yields;
  size_t added = 0;
  for (uint32_t r = 0; r < m_[op].numResults; ++r)
    for (uint32_t i = 0; i < yields.size(); ++i) {
      ValueId from = yields[i];
      while (m_[from].kind == ValueKind::OpResult && OpId(m_[from].owner) != op &&
             m_[OpId(m_[from].owner)].numOperands == 1)
        from = m_.operand(OpId(m_[from].owner), 0);
      if (from != m_.result(op, r)) continue;
      if (!addMoved(i, from)) return std::nullopt;
      ++added;
    }
  if (added != yields.size() || !error_.empty()) return std::nullopt;
  out_.sizes = sizes_.list;
  k_.numSizes = static_cast<uint32_t>(sizes_.list.size());
  return std::move(out_);
}

// A store of an op's result, moved as the output is.
bool RegionLowering::addMoved(uint32_t output, ValueId result) {
  std::vector<OpId> moves;
  const ValueId v = m_[m_.region(fused_)].yields[output];
  for (ValueId from = v; from != result; from = m_.operand(moves.back(), 0))
    moves.emplace_back(m_[from].owner);
  const Type& type = m_.typeOf(result);
  Index at;
  AffineId address;
  NodeId node;
  if (domains_.empty()) {
    at = addDomain(type);
    domains_.push_back({at, m_[result].type});
    node = value(result, at, {});
  } else if (!alignWith(domains_[0].at, m_.types[domains_[0].type], type, at) ||
             !joinNest(result, at, 0, address, node)) {
    return false;
  }
  for (size_t i = moves.size(); i-- > 0;)
    if (!moveIndex(moves[i], at)) return false;
  const uint32_t buffer = k_.numInputs + output;
  k_.nests[0].stores.push_back(
      {buffer, addressOf(m_.typeOf(v), at), unrounded(node, k_.buffers[buffer].dtype)});
  return true;
}

// The coordinates of an operand's element in the result of a data-movement op that keeps each element once.
bool RegionLowering::moveIndex(OpId move, Index& at) {
  const Rule rule = infoOf(move).rule;
  if (!isDataMovement(m_.record(move), rule)) return false;
  RuleLowering::Coordinates coords;
  Index moved;
  bool inside = true;
  RuleLowering lowering(*this, move, rule);
  if (!lowering.factorCoordinates(rule.operands[0], at, coords) ||
      !lowering.operandIndex(rule.results[0], coords, moved, inside) || !inside)
    return false;
  at = std::move(moved);
  return true;
}

std::optional<Lowered> RegionLowering::around(OpId op, std::span<const ValueId> values) {
  makeBuffers();
  const auto first = static_cast<uint32_t>(k_.buffers.size());
  const auto isResult = [&](ValueId v) {
    return m_[v].kind == ValueKind::OpResult && OpId(m_[v].owner) == op;
  };
  const std::vector<ValueId> yields = m_[m_.region(fused_)].yields;
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (isResult(values[i])) bufferOf_[values[i]] = first + i;
    k_.buffers.push_back({m_.typeOf(values[i]).dtype, !isResult(values[i])});
  }
  for (uint32_t i = 0; i < values.size() && error_.empty(); ++i) {
    memo_.clear(), domains_.clear(); // each a nest of its own
    const ValueId v = values[i];
    if (!isResult(v)) {
      const Index at = addDomain(m_.typeOf(v));
      k_.nests.back().stores.push_back({first + i, addressOf(m_.typeOf(v), at), value(v, at, {})});
      continue;
    }
    const size_t before = k_.nests.size();
    for (uint32_t r = 0; r < yields.size() && k_.nests.size() == before; ++r) {
      ValueId from = yields[r];
      while (from != v && m_[from].kind == ValueKind::OpResult && !isResult(from) &&
             m_[OpId(m_[from].owner)].numOperands != 0)
        from = m_.operand(OpId(m_[from].owner), 0);
      if (from == v) addOutput(r);
    }
    if (k_.nests.size() == before) return std::nullopt;
  }
  splitDividedAxes(k_);
  for (const Nest& n : k_.nests) {
    const Node& node = k_[n.stores[0].value];
    if (node.kind != NodeKind::Load || !node.args.empty()) return std::nullopt;
  }
  if (!error_.empty()) return std::nullopt;
  out_.sizes = sizes_.list;
  return std::move(out_);
}

bool RegionLowering::shareNest(ValueId v, AffineId& address, NodeId& node, size_t& nest) {
  const Type& type = m_.typeOf(v);
  if (auto it = memo_.find(v); it != memo_.end())
    for (const Evaluated& e : it->second) {
      AxisSet axes = 0;
      if (e.guard.valid() || !bijective(e.at, type, axes)) continue;
      address = addressOf(type, e.at);
      node = e.node;
      nest = e.nest;
      return true;
    }
  for (nest = 0; nest < domains_.size(); ++nest) {
    if (parts_ && parts_->of(v) != domains_[nest].part) continue; // blocks of their own
    Index at, rows;
    if (alignWith(domains_[nest].at, m_.types[domains_[nest].type], type, at) &&
        joinNest(v, at, nest, address, node))
      return true;
    if (alignWithRows(nest, type, rows) && joinNest(v, rows, nest, address, node)) return true;
  }
  return columns_ && shareWalked(v, address, node, nest);
}

// Evaluates an output at these coordinates of a nest. False, with no effect, where its reductions and those
// of the nest do not run over the same rows: for example the column sums of a square matrix as an output next
// to the matrix, whose first dim has the same extent.
bool RegionLowering::joinNest(ValueId v, const Index& at, size_t nest, AffineId& address, NodeId& node) {
  const NestAxes before = nestAxes_[nest];
  std::unordered_map<ValueId, size_t> known;
  for (const auto& [u, found] : memo_) known[u] = found.size();
  nest_ = nest;
  crowded_ = false;
  address = addressOf(m_.typeOf(v), at);
  node = value(v, at, {});
  AxisSet stored = 0;
  for (AffineId a : at) stored |= k_.dependsOn(a);
  if (columns_ || (!crowded_ && (nestAxes_[nest].needed & ~stored) == 0)) return true;
  nestAxes_[nest] = before;
  for (auto& [u, found] : memo_) found.resize(known.contains(u) ? known[u] : 0);
  return false;
}

bool RegionLowering::reducesColumns(ValueId v) {
  if (m_[v].kind != ValueKind::OpResult) return false;
  const OpId op(m_[v].owner);
  const OpInfo& info = infoOf(op);
  if (!info.ok || !info.expansion.empty() || info.byElement || m_[op].numOperands != 1) return false;
  const std::vector<DimMap>& dims = info.rule.operands[0].dims;
  auto reduced = [&](const DimMap& d) {
    return std::any_of(d.terms.begin(), d.terms.end(), [&](const Term& t) {
      return info.rule.factors[t.factor].reduce != PendingKind::None;
    });
  };
  return !dims.empty() && !reduced(dims.back()) && std::any_of(dims.begin(), dims.end(), reduced);
}

// An output fused with a value of its rows, which was found on the way of another output.
bool RegionLowering::shareWalked(ValueId v, AffineId& address, NodeId& node, size_t& nest) {
  std::vector<ValueId> found = m_[m_.region(fused_)].args;
  for (OpId o : m_[m_.region(fused_)].ops)
    for (uint32_t r = 0; r < m_[o].numResults; ++r) found.push_back(m_.result(o, r));
  for (ValueId u : found) {
    for (const Evaluated& e : std::vector<Evaluated>(memo_[u])) {
      AxisSet axes = 0;
      Index at;
      if (e.guard.valid() || m_.typeOf(u).rank() == 0 || !bijective(e.at, m_.typeOf(u), axes) ||
          !alignWith(e.at, m_.typeOf(u), m_.typeOf(v), at))
        continue;
      nest_ = nest = e.nest;
      address = addressOf(m_.typeOf(v), at);
      node = value(v, at, {});
      return true;
    }
  }
  return false;
}

// True if `at` visits every element of the type exactly once as its axes run.
bool RegionLowering::bijective(const Index& at, const Type& type, AxisSet& axes) {
  for (size_t d = 0; d < at.size(); ++d) {
    std::vector<AffineTerm> terms = k_[at[d]].terms;
    for (const AffineTerm& t : terms) {
      if (t.kind != AffineTerm::OfAxis || (axes >> t.id & 1)) return false;
      axes |= AxisSet(1) << t.id;
    }
    std::sort(terms.begin(), terms.end(), [](const AffineTerm& a, const AffineTerm& b) {
      return a.coefficient.number < b.coefficient.number;
    });
    Size reach;
    for (const AffineTerm& t : terms) {
      if (t.coefficient != reach) return false;
      reach = reach * k_.axes[t.id].extent;
    }
    if (reach != sizes_.of(type.dims[d])) return false;
  }
  return true;
}

// An output of the nest's shape, or with dims of 1 or none in place of the reduced ones, is fused with it.
bool RegionLowering::alignWith(const Index& domain, const Type& domainType, const Type& type, Index& at) {
  if (type.rank() > domainType.rank()) return false;
  for (size_t d = 0; d < type.rank(); ++d) {
    if (type.dims[d] == domainType.dims[d])
      at.push_back(domain[d]);
    else if (type.rank() == domainType.rank() && type.dims[d] == Dim(1))
      at.push_back(k_.constant(0));
    else
      return false;
  }
  return type.rank() != 0 || domainType.rank() == 0;
}

// An output with whole rows where the nest has a result for each: its last dims are the axes over which the
// nest reduces.
bool RegionLowering::alignWithRows(size_t nest, const Type& type, Index& at) {
  if (columns_) return false;
  const Index& domain = domains_[nest].at;
  const Type& domainType = m_.types[domains_[nest].type];
  AxisSet free = nestAxes_[nest].reduced;
  for (size_t d = 0; d < type.rank(); ++d) {
    if (d < domainType.rank() && type.dims[d] == domainType.dims[d]) {
      at.push_back(domain[d]);
      continue;
    }
    if (d < domainType.rank() && domainType.dims[d] != Dim(1)) return false;
    AxisId a = 0;
    while (a < k_.axes.size() && (!(free >> a & 1) || k_.axes[a].extent != sizes_.of(type.dims[d]))) ++a;
    if (a == k_.axes.size()) return false;
    free &= ~(AxisSet(1) << a);
    at.push_back(k_.axis(a));
  }
  return type.rank() >= domainType.rank();
}

NodeId RegionLowering::byRule(OpId op, uint32_t result, const Index& at, NodeId guard) {
  return RuleLowering(*this, op, infoOf(op).rule, guard).run(result, at);
}

NodeId RegionLowering::fail(OpId op, const std::string& why) {
  if (error_.empty()) error_ = "no kernel for '" + std::string(m_.record(op).name) + "': " + why;
  return k_.integer(0, DType::I64);
}

NodeId RegionLowering::literal(const Value& v) {
  const DType type = m_.types[v.type].dtype;
  if (v.kind == ValueKind::Symbol) return k_.convert(k_.index(k_.size(sizes_.of(v.symbol))), type);
  const Attr& a = m_.attrs[v.literal];
  if (a.kind == Attr::Float) return k_.number(a.f, type);
  if (isFloat(type) && a.isUnsigned) return k_.number(static_cast<double>(static_cast<uint64_t>(a.i)), type);
  return k_.integer(a.i, type);
}

NodeId RegionLowering::value(ValueId v, const Index& at, NodeId guard) {
  if (!error_.empty()) return k_.integer(0, DType::I64);
  const Value& val = m_[v];
  if (val.kind == ValueKind::Literal || val.kind == ValueKind::Symbol) return literal(val);
  if (const auto buffer = bufferOf_.find(v); buffer != bufferOf_.end()) {
    const NodeId x = k_.load(buffer->second, addressOf(m_.typeOf(v), at), guard);
    if (columns_) memo_[v].push_back({at, guard, x, nest_});
    return x;
  }
  for (const Evaluated& e : memo_[v])
    if (e.at == at && e.guard == guard && e.nest == nest_) return e.node;
  const NodeId node = opValue(OpId(val.owner), val.position, at, guard);
  memo_[v].push_back({at, guard, node, nest_});
  return node;
}

AffineId RegionLowering::addressOf(const Type& t, const Index& at) {
  AffineId address = k_.constant(0);
  Size stride;
  for (size_t d = t.rank(); d-- > 0;) {
    address = k_.sum(address, k_.scaled(at[d], stride));
    // In a tensor without elements nothing is addressed; its axes stay separate all the same.
    if (t.dims[d] != Dim(0)) stride = stride * sizes_.of(t.dims[d]);
  }
  return address;
}

// An axis over the whole dim, of any size.
bool RegionLowering::isAxisOf(Dim dim, AffineId at) {
  const Affine& form = k_[at];
  return form.terms.size() == 1 && form.terms[0].kind == AffineTerm::OfAxis &&
         form.terms[0].coefficient.is(1) && k_.axes[form.terms[0].id].extent == sizes_.of(dim);
}

bool RegionLowering::alwaysInside(const Type& t, const Index& at) {
  for (size_t d = 0; d < t.rank(); ++d) {
    const Kernel::Range r = k_.rangeOf(at[d]);
    const bool within = r.known && r.min >= 0 && t.dims[d].isStatic() && r.max < t.dims[d].value();
    if (!within && !isAxisOf(t.dims[d], at[d])) return false;
  }
  return true;
}

// A condition that `at` is in bounds; invalid where that is always true.
NodeId RegionLowering::insideOf(const Type& t, const Index& at) {
  NodeId inside;
  auto require = [&](const char* compare, AffineId a, AffineId b) {
    NodeId c = k_.call(compare, DType::Bool, {k_.index(a), k_.index(b)});
    inside = inside.valid() ? k_.call("and", DType::Bool, {inside, c}) : c;
  };
  for (size_t d = 0; d < t.rank(); ++d) {
    if (isAxisOf(t.dims[d], at[d])) continue;
    const Kernel::Range r = k_.rangeOf(at[d]);
    if (!r.known || r.min < 0) require("ge", at[d], k_.constant(0));
    if (!r.known || !t.dims[d].isStatic() || r.max >= t.dims[d].value())
      require("lt", at[d], k_.size(sizes_.of(t.dims[d])));
  }
  return inside;
}

// The value at coordinates that may be out of bounds: 0 there.
NodeId RegionLowering::guarded(ValueId v, const Index& at, NodeId guard) {
  const NodeId inside = insideOf(m_.typeOf(v), at);
  if (!inside.valid()) return value(v, at, guard);
  const NodeId both = guard.valid() ? k_.call("and", DType::Bool, {guard, inside}) : inside;
  const NodeId x = value(v, at, both);
  if (k_[x].kind == NodeKind::Load) return x; // reads 0 already
  return k_.call("select", k_[x].type, {inside, x, k_.integer(0, k_[x].type)});
}

RegionLowering::OpInfo& RegionLowering::infoOf(OpId op) {
  auto [it, made] = infos_.try_emplace(op.index);
  OpInfo& info = it->second;
  if (!made) return info;
  const OpRecord& record = m_.record(op);
  OpQuery query = queryOf(m_, op, diags_);
  const bool ruled = (record.rule || record.ruleText) && ruleOf(query, info.rule);
  if (record.element && !(ruled && isDataMovement(record, info.rule))) {
    info.ok = info.byElement = true;
    if (ruled && record.scalar) readScalars(query, info, m_.typeOf(m_.result(op)).dtype);
  } else if (record.decompose &&
             (record.lowering == Lowering::Rows || record.lowering == Lowering::Decompose)) {
    expand(op, info);
  } else if (ruled) {
    info.ok = true;
    readScalars(query, info, m_.typeOf(m_.result(op)).dtype);
  }
  return info;
}

void RegionLowering::readScalars(const OpQuery& query, OpInfo& info, DType result) {
  info.scalar = scalarOf(query, result);
  if (!query.record->finish) return;
  std::vector<DType> types;
  for (TypeId t : query.operandTypes) types.push_back(m_.types[t].dtype);
  info.finish = typeScalar(parseScalar(query.record->finish), types, result, query, computeType(result));
  info.hasFinish = true;
}

void RegionLowering::expand(OpId op, OpInfo& info) {
  Builder builder(m_, m_[op].parent, scratch_, diags_);
  builder.loc = m_[op].loc;
  builder.exact = true;
  info.ok = m_.record(op).decompose(builder, op, info.expansion);
}

NodeId RegionLowering::opValue(OpId op, uint32_t result, const Index& at, NodeId guard) {
  OpInfo& info = infoOf(op);
  if (!info.ok) return fail(op, "it has neither a loop form nor a decomposition");
  if (!info.expansion.empty()) return value(info.expansion[result], at, guard);
  if (info.byElement) return lowerElement(*this, op, result, at, guard);
  return byRule(op, result, at, guard);
}

} // namespace dtc
