#include "dtc/IR/Module.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/ElementCount.h"

#include <algorithm>

namespace dtc {

// Defined here because each of them instantiates the containers of all tables.
Module::Module(const OpRegistry& registry) : registry(&registry) {}
Module::Module(const Module&) = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(const Module&) = default;
Module& Module::operator=(Module&&) noexcept = default;
Module::~Module() = default;

Module tablesOf(const Module& m) {
  Module out(*m.registry);
  out.strings = m.strings;
  out.dims = m.dims;
  out.shardings = m.shardings;
  out.types = m.types;
  out.attrs = m.attrs;
  return out;
}

// --- types ---

bool Type::isStatic() const {
  return std::ranges::all_of(dims, [](Dim d) { return d.isStatic(); });
}

std::optional<int64_t> Type::numElements() const { return elementCount(staticShape()); }

std::vector<int64_t> Type::staticShape() const {
  std::vector<int64_t> shape;
  shape.reserve(dims.size());
  for (Dim d : dims) shape.push_back(d.value());
  return shape;
}

TypeId TypeTable::intern(Type t) {
  size_t hash = static_cast<size_t>(t.dtype);
  for (Dim d : t.dims)
    hash = (hash ^ static_cast<uint64_t>(d.value())) * 0x9E3779B97F4A7C15ull + (hash >> 29);
  const auto next = static_cast<uint32_t>(storage_.size());
  const uint32_t id = index_.findOrAdd(hash, next, [&](uint32_t i) { return storage_[i] == t; });
  if (id == next) storage_.push_back(std::move(t));
  return TypeId(id);
}

TypeId Module::tensorType(DType dtype, std::span<const Dim> shape) {
  return types.intern({dtype, {shape.begin(), shape.end()}});
}

TypeId Module::tensorType(DType dtype, std::initializer_list<int64_t> shape) {
  return types.intern({dtype, {shape.begin(), shape.end()}});
}

// --- access ---

OpId Module::definingOp(ValueId v) const {
  const Value& value = (*this)[v];
  return value.kind == ValueKind::OpResult ? OpId(value.owner) : OpId();
}

FuncId Module::findFunction(std::string_view name) const {
  StrId wanted = strings.find(name);
  if (!wanted.valid()) return {};
  for (FuncId f : order)
    if ((*this)[f].name == wanted && (*this)[f].body.valid()) return f;
  return {};
}

AttrId Module::attr(OpId o, std::string_view name) const {
  return findAttr((*this)[o].attrs, strings.find(name));
}

// --- creation ---

void Module::setAttr(OpId o, std::string_view name, AttrId value) {
  AttrList& attrs = (*this)[o].attrs;
  StrId id = strings.intern(name);
  auto it = std::ranges::find_if(attrs, [&](const NamedAttr& a) { return a.name == id; });
  if (it != attrs.end())
    it->value = value;
  else
    attrs.push_back({id, value});
  normalizeAttrs(*this, (*this)[o].kind, attrs);
}

void Module::setOperands(OpId o, std::span<const ValueId> operands) {
  Op& op = (*this)[o];
  if (operands.size() <= op.numOperands) {
    std::ranges::copy(operands, operandPool.begin() + op.firstOperand);
  } else {
    // `operands` may point into the pool, which is about to be reallocated.
    std::vector<ValueId> copy(operands.begin(), operands.end());
    op.firstOperand = static_cast<uint32_t>(operandPool.size());
    operandPool.insert(operandPool.end(), copy.begin(), copy.end());
  }
  op.numOperands = static_cast<uint32_t>(operands.size());
}

OpId Module::makeOp(OpKind kind, std::span<const ValueId> operands, uint32_t numResults, AttrList attrs,
                    uint32_t numRegions, SourceRange loc) {
  OpId id(static_cast<uint32_t>(ops.size()));
  Op& op = ops.emplace_back();
  op.kind = kind;
  op.loc = loc;
  op.attrs = std::move(attrs);
  normalizeAttrs(*this, kind, op.attrs);
  setOperands(id, operands);
  makeResults(id, std::vector<TypeId>(numResults));
  op.numRegions = numRegions;
  op.firstRegion = BlockId(static_cast<uint32_t>(blocks.size()));
  for (uint32_t i = 0; i < numRegions; ++i) blocks.emplace_back().parentOp = id;
  return id;
}

void Module::makeResults(OpId id, std::span<const TypeId> types) {
  Op& op = (*this)[id];
  op.numResults = static_cast<uint32_t>(types.size());
  op.firstResult = ValueId(static_cast<uint32_t>(values.size()));
  for (uint32_t i = 0; i < op.numResults; ++i) {
    Value& v = values.emplace_back();
    v.owner = id.index;
    v.position = i;
    v.type = types[i];
    v.loc = op.loc;
  }
}

ValueId Module::makeBlockArg(BlockId block, TypeId type, StrId name) {
  ValueId id(static_cast<uint32_t>(values.size()));
  Value& v = values.emplace_back();
  v.kind = ValueKind::BlockArg;
  v.owner = block.index;
  v.position = static_cast<uint32_t>((*this)[block].args.size());
  v.type = type;
  v.name = name;
  (*this)[block].args.push_back(id);
  return id;
}

ValueId Module::makeLiteral(AttrId literal, DType dtype, SourceRange loc) {
  ValueId id(static_cast<uint32_t>(values.size()));
  Value& v = values.emplace_back();
  v.kind = ValueKind::Literal;
  v.literal = literal;
  v.type = tensorType(dtype, std::initializer_list<int64_t>{});
  v.loc = loc;
  return id;
}

ValueId Module::makeSymbol(Dim symbol, DType dtype, SourceRange loc) {
  ValueId id(static_cast<uint32_t>(values.size()));
  Value& v = values.emplace_back();
  v.kind = ValueKind::Symbol;
  v.symbol = symbol;
  v.type = tensorType(dtype, std::initializer_list<int64_t>{});
  v.loc = loc;
  return id;
}

BlockId Module::makeBlock() {
  blocks.emplace_back();
  return BlockId(static_cast<uint32_t>(blocks.size() - 1));
}

// --- uses and levels ---

namespace {

void countBlock(const Module& m, BlockId b, std::vector<uint32_t>& counts) {
  for (ValueId v : m[b].yields) ++counts[v.index];
  for (OpId o : m[b].ops) {
    for (ValueId v : m.operands(o)) ++counts[v.index];
    for (uint32_t r = 0; r < m[o].numRegions; ++r) countBlock(m, m.region(o, r), counts);
  }
}

bool closedSharding(const Module& m, ValueId v) {
  ShardingId s = m[v].sharding;
  return s.valid() && m.shardings[s].closed();
}

// Whether every value of the block, and of regions on the same mesh, has a closed sharding.
bool allClosed(const Module& m, BlockId b) {
  // The index of a `for` is replicated.
  OpId around = m[b].parentOp;
  size_t first = around.valid() && m.record(around).regions == RegionKind::For;
  for (size_t i = first; i < m[b].args.size(); ++i)
    if (!closedSharding(m, m[b].args[i])) return false;
  for (OpId o : m[b].ops) {
    for (uint32_t i = 0; i < m[o].numResults; ++i)
      if (!closedSharding(m, m.result(o, i))) return false;
    if (m.record(o).regions == RegionKind::Local) continue;
    for (uint32_t r = 0; r < m[o].numRegions; ++r)
      if (!allClosed(m, m.region(o, r))) return false;
  }
  return true;
}

// Compares shard and pending axes only: priorities and `rep` are hints to propagation, which has already run.
bool sameSharding(const Module& m, ShardingId a, ShardingId b) {
  if (a == b || !a.valid() || !b.valid()) return a == b;
  const Sharding &x = m.shardings[a], &y = m.shardings[b];
  auto sameParts = [](const DimSharding& p, const DimSharding& q) { return p.parts == q.parts; };
  return x.mesh == y.mesh && x.pending == y.pending &&
         std::equal(x.dims.begin(), x.dims.end(), y.dims.begin(), y.dims.end(), sameParts);
}

// A literal is replicated: it matches any sharding that leaves a scalar unsharded.
bool agrees(const Module& m, ValueId v, ShardingId s) {
  return m[v].kind == ValueKind::Literal || m[v].kind == ValueKind::Symbol ||
         sameSharding(m, m[v].sharding, s);
}

bool edgesAgree(const Module& m, BlockId b);

// Whether the operands and results of an op's blocks or callee have the shardings declared there.
bool edgesAgree(const Module& m, OpId o) {
  RegionKind kind = m.record(o).regions;
  std::span<const ValueId> operands = m.operands(o);
  if (m.record(o).isCall) {
    FuncId f = m.findFunction(m.strings[m[o].callee]);
    if (!f.valid() || m[o].numResults > m[f].results.size()) return false; // gradients do not exist yet
    for (size_t i = 0; i < operands.size() && i < m[f].args.size(); ++i)
      if (!agrees(m, operands[i], m[m[f].args[i].value].sharding)) return false;
    for (size_t i = 0; i < m[o].numResults && i < m[f].results.size(); ++i)
      if (!agrees(m, m.result(o, i), m[f].results[i].sharding)) return false;
    return true;
  }
  // `local` declares its own shardings
  if (kind == RegionKind::None || kind == RegionKind::Local) return true;
  size_t firstStart = kind == RegionKind::Cond  ? 1
                      : kind == RegionKind::For ? 2
                                                : 0,
         firstArg = kind == RegionKind::For;
  for (uint32_t r = 0; r < m[o].numRegions; ++r) {
    const Block& block = m[m.region(o, r)];
    for (size_t i = firstArg; i < block.args.size() && i - firstArg + firstStart < operands.size(); ++i)
      if (!agrees(m, operands[i - firstArg + firstStart], m[block.args[i]].sharding)) return false;
    bool condition = kind == RegionKind::While && r == 0;
    size_t carried = kind == RegionKind::For ? operands.size() - firstStart : block.yields.size();
    for (size_t i = 0;
         !condition && i < std::min<size_t>(carried, m[o].numResults) && i < block.yields.size(); ++i)
      if (!agrees(m, block.yields[i], m[m.result(o, i)].sharding)) return false;
    if (!edgesAgree(m, m.region(o, r))) return false;
  }
  return true;
}

bool edgesAgree(const Module& m, BlockId b) {
  return std::ranges::all_of(m[b].ops, [&](OpId o) { return edgesAgree(m, o); });
}

// Whether all values of the functions called from this one are closed, transitively.
bool calleesClosed(const Module& m, FuncId id, std::vector<bool>& seen) {
  if (seen[id.index]) return true;
  seen[id.index] = true;
  bool closed = true;
  forEachOp(m, m[id].body, [&](OpId o) {
    if (!m.record(o).isCall || !closed) return;
    const FuncId callee = m.findFunction(m.strings[m[o].callee]);
    if (callee.valid() && m[callee].body.valid())
      closed = allClosed(m, m[callee].body) && calleesClosed(m, callee, seen);
  });
  return closed;
}

// The level of a local function: placed if the text has offsets, fused if kernels compute all of its ops.
Level localLevel(const Module& m, const Function& f) {
  const StrId at = m.strings.find("at");
  const auto placed = [&](const AttrList& attrs) { return at.valid() && findAttr(attrs, at).valid(); };
  if (std::ranges::any_of(f.args, [&](const FuncArg& a) { return placed(a.attrs); })) return Level::Placed;
  const StrId streams = m.strings.find("streams");
  const bool scheduled = streams.valid() && findAttr(f.attrs, streams).valid();
  const StrId target = m.strings.find("target");
  const bool split = target.valid() && findAttr(f.attrs, target).valid();
  bool offsets = false, regions = false, plain = false;
  forEachOp(m, f.body, [&](OpId o) {
    offsets = offsets || placed(m[o].attrs);
    regions = regions || m.record(o).regions == RegionKind::Fused;
    plain = plain || needsRegion(m, o);
  });
  if (offsets || scheduled) return offsets ? Level::Placed : Level::Scheduled;
  if ((regions || split) && !plain) return Level::Fused;
  return split ? Level::Split : Level::Local;
}

} // namespace

bool needsRegion(const Module& m, OpId o) {
  const OpRecord& record = m.record(o);
  if (record.regions != RegionKind::None || record.isCall || m[o].numOperands == 0) return false;
  if (record.isCollective() || record.async != AsyncForm::None || record.lowering == Lowering::Host)
    return false;
  const OpId parent = m[m[o].parent].parentOp;
  return !parent.valid() || m.record(parent).regions != RegionKind::Fused;
}

UseCounts::UseCounts(const Module& m) : counts_(m.values.size()) {
  for (FuncId f : m.order)
    if (m[f].body.valid()) countBlock(m, m[f].body, counts_);
}

FuncId ownGradient(const Module& m, FuncId f) {
  const AttrId a = findAttr(m[f].attrs, m.strings.find("grad"));
  return a.valid() ? m.findFunction(m.strings[m.attrs[a].text]) : FuncId();
}

Level levelOf(const Module& m, FuncId id) {
  const Function& f = m[id];
  if (f.spmd) return localLevel(m, f);
  bool closed = std::ranges::all_of(
      f.results, [&](const FuncResult& r) { return r.sharding.valid() && m.shardings[r.sharding].closed(); });
  if (!closed || !allClosed(m, f.body) || !edgesAgree(m, f.body)) return Level::Global;
  std::vector<bool> seen(m.functions.size());
  if (!calleesClosed(m, id, seen)) return Level::Global; // a callee may have no values of its own
  const std::vector<ValueId>& returned = m[f.body].yields;
  for (size_t i = 0; i < returned.size() && i < f.results.size(); ++i)
    if (!agrees(m, returned[i], f.results[i].sharding)) return Level::Global;
  return Level::Propagated;
}

} // namespace dtc
