#include "dtc/Passes/analysis/ShardedOpProgram.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Sharding/Projection.h"
#include "dtc/Sharding/Reshard.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

constexpr double kNominalSize = 128;      // of a symbolic dim
constexpr double kNominalIterations = 32; // of a loop with unknown bounds

class ProgramWriter {
public:
  ProgramWriter(const Module& from, OpId op, const Rule& rule, std::span<const PartList> factors, MeshId mesh,
                std::optional<DType> reduceDType)
      : from_(from), op_(op), rule_(rule), factors_(factors), mesh_(mesh), reduceDType_(reduceDType),
        program_{tablesOf(from), {}}, m_(program_.module) {}

  ShardedOpProgram write() {
    makeFunction();
    std::vector<OpId> out;
    Builder b(m_, body_, out, diags_);
    b.mesh = mesh_;
    auto shardedBy = shardedFactors(rule_, factors_, m_.shardings.mesh(mesh_));
    if (!shardedBy || !addOperands() || !addResults()) return std::move(program_);
    OpQuery global;
    global.module = &m_;
    global.record = &from_.record(op_);
    global.operandTypes = operandTypes_;
    global.operands = operands_;
    global.attrs = &from_[op_].attrs;
    global.writtenTypes = globalTypes_;
    global.diags = &diags_;
    ShardedOp sharded(b, global, rule_, operands_, resultTypes_, *shardedBy);
    sharded.reduceDType = reduceDType_;
    std::vector<ValueId> results;
    program_.written = writeSharded(sharded, results);
    program_.choice = sharded.choice, program_.seconds = sharded.seconds;
    if (!program_.written) return std::move(program_);
    m_[body_].ops = std::move(out);
    m_[body_].yields = std::move(results);
    return std::move(program_);
  }

private:
  void makeFunction() {
    program_.func = FuncId(0);
    body_ = m_.makeBlock();
    Function f;
    f.name = m_.strings.intern("sharded");
    f.spmd = true;
    f.body = body_;
    f.attrs.push_back({m_.strings.intern("mesh"), m_.attrs.symbol(m_.shardings.mesh(mesh_).name)});
    m_.functions.push_back(std::move(f));
    m_.order.push_back(program_.func);
    m_[body_].parentFunc = program_.func;
  }

  std::optional<ShardingId> shardingOf(const TensorMap& map) {
    auto dims = unprojectDims(map, rule_, factors_, m_.shardings.mesh(mesh_));
    if (!dims) return std::nullopt;
    return m_.shardings.intern({mesh_, std::move(*dims), {}, {}});
  }

  // A factor summed over shards produces partial sums.
  ShardingId pendingToo(ShardingId id) {
    Sharding s = m_.shardings[id];
    const Mesh& mesh = m_.shardings.mesh(mesh_);
    for (size_t f = 0; f < factors_.size(); ++f)
      for (const DimPart& p : leftPending(rule_, factors_, f))
        if (std::ranges::all_of(s.dims,
                                [&](const DimSharding& d) { return disjoint(d.parts, PartList{p}, mesh); }))
          s.pending.push_back({p.axis, rule_.factors[f].reduce});
    return m_.shardings.intern(std::move(s));
  }

  bool addOperands() {
    for (size_t i = 0; i < from_.operands(op_).size(); ++i) {
      const Value& v = from_[from_.operand(op_, i)];
      const DType dtype = from_.types[v.type].dtype;
      operandTypes_.push_back(v.type);
      if (v.kind == ValueKind::Literal) {
        operands_.push_back(m_.makeLiteral(v.literal, dtype));
        continue;
      }
      if (v.kind == ValueKind::Symbol) {
        operands_.push_back(m_.makeSymbol(v.symbol, dtype));
        continue;
      }
      auto sharding = shardingOf(rule_.operands[i]);
      if (!sharding) return false;
      const ValueId arg = m_.makeBlockArg(body_, localTypeOf(m_, v.type, m_.shardings[*sharding]));
      m_[arg].sharding = *sharding;
      m_[program_.func].args.push_back({arg, v.type, {}});
      operands_.push_back(arg);
    }
    return true;
  }

  bool addResults() {
    for (uint32_t r = 0; r < from_[op_].numResults; ++r) {
      auto sharding = shardingOf(rule_.results[r]);
      if (!sharding) return false;
      *sharding = pendingToo(*sharding);
      FuncResult result;
      result.globalType = from_[from_.result(op_, r)].type;
      result.type = localTypeOf(m_, result.globalType, m_.shardings[*sharding]);
      result.sharding = *sharding;
      resultTypes_.push_back(result.type);
      globalTypes_.push_back(result.globalType);
      m_[program_.func].results.push_back(std::move(result));
    }
    return true;
  }

  const Module& from_;
  OpId op_;
  const Rule& rule_;
  std::span<const PartList> factors_;
  MeshId mesh_;
  std::optional<DType> reduceDType_;
  ShardedOpProgram program_;
  Module& m_;
  BlockId body_;
  Diagnostics diags_;
  std::vector<ValueId> operands_;
  std::vector<TypeId> operandTypes_, resultTypes_, globalTypes_;
};

// Sums the bytes that a block's collectives receive.
class Pricer {
public:
  Pricer(const Module& m, MeshId mesh) : m_(m), mesh_(m.shardings.mesh(mesh)) {}

  void block(BlockId b, double times, double& bytes, double& seconds) const {
    for (OpId o : m_[b].ops) {
      const OpRecord& record = m_.record(o);
      // A `while` processes data-dependent leftovers. It is expected to run once: vocabulary tokens and
      // expert rows are never evenly distributed.
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        block(m_.region(o, r), times * (record.regions == RegionKind::For ? iterationsOf(o) : 1), bytes,
              seconds);
      // Ops that only name a size (trim_piece) refer to a shard, without communication.
      if (!record.isCollective() || m_[o].numOperands == 0 || !m_.attr(o, "axes").valid() ||
          m_.attr(o, "size").valid())
        continue;
      const CollectivePrice price = priceOfOp(o);
      bytes += times * static_cast<double>(price.bytesReceived);
      seconds += times * price.seconds;
    }
  }

private:
  double iterationsOf(OpId o) const {
    const Value &lo = m_[m_.operand(o, 0)], &hi = m_[m_.operand(o, 1)];
    if (lo.kind != ValueKind::Literal || hi.kind != ValueKind::Literal) return kNominalIterations;
    return static_cast<double>(std::max<int64_t>(m_.attrs[hi.literal].i - m_.attrs[lo.literal].i, 1));
  }

  int64_t bytesOf(ValueId v) const {
    const Type& t = m_.typeOf(v);
    double bytes = static_cast<double>(dtypeBytes(t.dtype));
    for (Dim d : t.dims) {
      const DimExpr e = m_.dims.expr(d);
      double size = static_cast<double>(e.coefficient);
      for (size_t s = 0; s < e.symbols.size(); ++s) size *= kNominalSize;
      bytes *= std::ceil(size / static_cast<double>(mesh_.sizeOf(e.axes)));
    }
    return static_cast<int64_t>(std::min(bytes, 1e15));
  }

  CollectivePrice priceOfOp(OpId o) const {
    const NominalMachine machine;
    const StepKind kind = stepOf(m_.record(o).collective);
    const std::vector<AxisRef> axes = axesOf(m_, o);
    if (kind != StepKind::Permute) {
      const AttrId commDType = m_.attr(o, "wire");
      const auto sent = commDType.valid() ? parseDType(m_.strings[m_.attrs[commDType].text]) : std::nullopt;
      const int64_t held = dtypeBytes(partType(m_.typeOf(m_.operand(o, 0)).dtype));
      auto commBytes = [&](ValueId v) { return sent ? bytesOf(v) / held * dtypeBytes(*sent) : bytesOf(v); };
      return priceOf(kind, axes, commBytes(m_.operand(o, 0)), commBytes(m_.result(o)), mesh_, machine);
    }
    // A batch of messages has one fixed cost.
    std::vector<int64_t> operands;
    for (ValueId v : m_.operands(o)) operands.push_back(bytesOf(v));
    const int64_t received = maxReceivedBytes(m_, o, operands);
    return priceOf(kind, axes, received, received, mesh_, machine);
  }

  const Module& m_;
  const Mesh& mesh_;
};

} // namespace

ShardedOpProgram shardedOpProgram(const Module& m, OpId op, const Rule& rule,
                                  std::span<const PartList> factors, MeshId mesh,
                                  std::optional<DType> reduceDType) {
  return ProgramWriter(m, op, rule, factors, mesh, reduceDType).write();
}

ShardedOpPrice ShardedOpPrograms::priceOfProgram(const ShardedOpProgram& program) const {
  if (!program.written) return {};
  double bytes = 0, seconds = 0;
  const Module& m = program.module;
  Pricer(m, meshOfFunction(m, program.func)).block(m[program.func].body, 1, bytes, seconds);
  return {true, static_cast<int64_t>(std::min(bytes, 1e17)), seconds, program.seconds, program.choice};
}

ShardedOpPrice ShardedOpPrograms::price(OpId op, const Rule& rule, std::span<const PartList> factors,
                                        MeshId mesh) {
  std::vector<uint64_t> key = {m_[op].kind, mesh.index};
  for (ValueId v : m_.operands(op)) {
    key.push_back(m_[v].type.index);
    if (m_[v].kind == ValueKind::Literal) key.push_back(m_[v].literal.index);
  }
  for (uint32_t r = 0; r < m_[op].numResults; ++r) key.push_back(m_[m_.result(op, r)].type.index);
  for (const NamedAttr& a : m_[op].attrs)
    if (std::ranges::any_of(m_.record(op).attrs,
                            [&](const AttrSpec& s) { return m_.strings[a.name] == s.name; }))
      key.push_back(uint64_t{a.name.index} << 32 | a.value.index);
  for (const PartList& list : factors) {
    key.push_back(~list.size());
    for (const DimPart& p : list)
      for (int64_t n : {static_cast<int64_t>(p.axis.name.index), p.axis.pre, p.axis.size, p.blocks})
        key.push_back(static_cast<uint64_t>(n));
  }
  auto [entry, isNew] = prices_.try_emplace(std::move(key));
  if (isNew) entry->second = priceOfProgram(shardedOpProgram(m_, op, rule, factors, mesh, reduceDType));
  return entry->second;
}

} // namespace dtc
