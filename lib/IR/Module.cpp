#include "dtc/IR/Module.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/ElementCount.h"

#include <algorithm>

namespace dtc {

// --- types ---

bool Type::isStatic() const {
  return std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.isStatic(); });
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
  auto [first, last] = byHash_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (storage_[it->second] == t) return TypeId(it->second);
  auto index = static_cast<uint32_t>(storage_.size());
  storage_.push_back(std::move(t));
  byHash_.emplace(hash, index);
  return TypeId(index);
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

// --- making things ---

void Module::setAttr(OpId o, std::string_view name, AttrId value) {
  AttrList& attrs = (*this)[o].attrs;
  StrId id = strings.intern(name);
  auto it = std::find_if(attrs.begin(), attrs.end(), [&](const NamedAttr& a) { return a.name == id; });
  if (it != attrs.end())
    it->value = value;
  else
    attrs.push_back({id, value});
  normaliseAttrs(*this, (*this)[o].kind, attrs);
}

void Module::setOperands(OpId o, std::span<const ValueId> operands) {
  Op& op = (*this)[o];
  if (operands.size() <= op.numOperands) {
    std::copy(operands.begin(), operands.end(), operandPool.begin() + op.firstOperand);
  } else {
    // `operands` may point into the pool, which is about to grow.
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
  normaliseAttrs(*this, kind, op.attrs);
  setOperands(id, operands);
  op.numResults = numResults;
  op.firstResult = ValueId(static_cast<uint32_t>(values.size()));
  for (uint32_t i = 0; i < numResults; ++i) {
    Value& v = values.emplace_back();
    v.owner = id.index;
    v.position = i;
    v.loc = loc;
  }
  op.numRegions = numRegions;
  op.firstRegion = BlockId(static_cast<uint32_t>(blocks.size()));
  for (uint32_t i = 0; i < numRegions; ++i) blocks.emplace_back().parentOp = id;
  return id;
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

// Does every value of the block, and of the regions that share its view of the mesh, have a closed sharding?
bool allClosed(const Module& m, BlockId b) {
  // The index of a `for` is what every device counts.
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

// The same cuts and pending axes; priorities and `rep` are wishes to propagation, which has been.
bool sameSharding(const Module& m, ShardingId a, ShardingId b) {
  if (a == b || !a.valid() || !b.valid()) return a == b;
  const Sharding &x = m.shardings[a], &y = m.shardings[b];
  auto sameParts = [](const DimSharding& p, const DimSharding& q) { return p.parts == q.parts; };
  return x.mesh == y.mesh && x.pending == y.pending &&
         std::equal(x.dims.begin(), x.dims.end(), y.dims.begin(), y.dims.end(), sameParts);
}

// A number is what every device has: it fits any sharding that leaves a scalar whole.
bool agrees(const Module& m, ValueId v, ShardingId s) {
  return m[v].kind == ValueKind::Literal || m[v].kind == ValueKind::Symbol ||
         sameSharding(m, m[v].sharding, s);
}

bool edgesAgree(const Module& m, BlockId b);

// Do what goes into an op's blocks or callee, and what comes out, have the shardings that are declared there?
bool edgesAgree(const Module& m, OpId o) {
  RegionKind kind = m.record(o).regions;
  std::span<const ValueId> operands = m.operands(o);
  if (m.record(o).isCall) {
    FuncId f = m.findFunction(m.strings[m[o].callee]);
    if (!f.valid() || m[o].numResults > m[f].results.size()) return false; // gradients are to be made yet
    for (size_t i = 0; i < operands.size() && i < m[f].args.size(); ++i)
      if (!agrees(m, operands[i], m[m[f].args[i].value].sharding)) return false;
    for (size_t i = 0; i < m[o].numResults && i < m[f].results.size(); ++i)
      if (!agrees(m, m.result(o, i), m[f].results[i].sharding)) return false;
    return true;
  }
  if (kind == RegionKind::None || kind == RegionKind::Local) return true; // `local` declares its own
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
  return std::all_of(m[b].ops.begin(), m[b].ops.end(), [&](OpId o) { return edgesAgree(m, o); });
}

// Are the values of all functions closed that this one calls, and of those that they call?
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

bool hasPlacement(const Module& m, const Function& f) {
  StrId at = m.strings.find("at");
  if (at.valid())
    for (const FuncArg& a : f.args)
      if (findAttr(a.attrs, at).valid()) return true;
  bool found = false;
  forEachOp(m, f.body, [&](OpId o) {
    found |= m.record(o).regions == RegionKind::Fused || findAttr(m[o].attrs, at).valid();
  });
  return found;
}

} // namespace

UseCounts::UseCounts(const Module& m) : counts_(m.values.size()) {
  for (FuncId f : m.order)
    if (m[f].body.valid()) countBlock(m, m[f].body, counts_);
}

Level levelOf(const Module& m, FuncId id) {
  const Function& f = m[id];
  if (f.spmd) return hasPlacement(m, f) ? Level::Scheduled : Level::Local;
  bool closed = std::all_of(f.results.begin(), f.results.end(), [&](const FuncResult& r) {
    return r.sharding.valid() && m.shardings[r.sharding].closed();
  });
  if (!closed || !allClosed(m, f.body) || !edgesAgree(m, f.body)) return Level::Global;
  std::vector<bool> seen(m.functions.size());
  if (!calleesClosed(m, id, seen)) return Level::Global; // one may be without a value of its own
  const std::vector<ValueId>& returned = m[f.body].yields;
  for (size_t i = 0; i < returned.size() && i < f.results.size(); ++i)
    if (!agrees(m, returned[i], f.results[i].sharding)) return Level::Global;
  return Level::Propagated;
}

} // namespace dtc
