#include "Interpreter.h"

#include "dtc/IR/verify/RankSchedule.h"
#include "dtc/Ops/window/Convolution.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dtc {
// Whether the op's results can differ between devices with equal operands.
static bool dependsOnDevice(const Module& m, OpId op) {
  for (uint32_t i = 0; i < m[op].numResults; ++i)
    for (Dim d : m.typeOf(m.result(op, i)).dims)
      if (!d.isStatic()) return true;
  return false;
}

static std::string diagnosticText(const Diagnostics& diags) {
  for (const Diagnostic& d : diags.all())
    if (d.severity == Severity::Error) return d.message();
  return "its operands do not fit";
}

Interpreter::Interpreter(Module& m, const EvalOptions& options) : m_(m), options_(options) {
  for (const auto& [name, value] : options.symbols) symbols_.emplace_back(m.strings.intern(name), value);
}

Env Interpreter::envOf(const Context& c, int64_t device) const { return {&m_, symbols_, c.mesh, device}; }

TensorRef Interpreter::hold(Tensor t) const {
  if (heldDType(t.dtype()) == t.dtype()) return std::make_shared<const Tensor>(std::move(t));
  Tensor wide(heldDType(t.dtype()), t.shape());
  for (int64_t i = 0; i < t.numElements(); ++i)
    isComplex(t.dtype()) ? wide.setComplex(i, t.getComplex(i)) : wide.setFloat(i, t.getFloat(i));
  return std::make_shared<const Tensor>(std::move(wide));
}

void Interpreter::setValue(ValueId v, int64_t device, TensorRef t) {
  if (values_.size() <= v.index) values_.resize(m_.values.size());
  auto& perDevice = values_[v.index];
  if (perDevice.size() <= static_cast<size_t>(device)) perDevice.resize(static_cast<size_t>(device) + 1);
  perDevice[static_cast<size_t>(device)] = std::move(t);
}

Error Interpreter::errorAt(OpId op, std::string_view what) const {
  return opError(m_, m_[op].loc, m_.record(op).name, what);
}

Result<std::vector<int64_t>> Interpreter::shapeOn(OpId op, ValueId v, const Context& c,
                                                  int64_t device) const {
  auto shape = envOf(c, device).shapeOf(m_.typeOf(v));
  if (!shape) return errorAt(op, "its result has an unbound size; bind symbols with --dim NAME=SIZE");
  if (!fitsInMemory(heldDType(m_.typeOf(v).dtype), *shape))
    return errorAt(op, "its result is too large to evaluate");
  return *shape;
}

// The values whose last use in the block is each op: they are released there.
void Interpreter::planReleases(BlockId block) {
  auto [entry, isNew] = releases_.try_emplace(block);
  if (!isNew) return;
  std::unordered_map<ValueId, size_t> last;
  const auto& ops = m_[block].ops;
  auto defineAll = [&](OpId op, size_t at) {
    for (uint32_t r = 0; r < m_[op].numResults; ++r) last[m_.result(op, r)] = at;
  };
  for (ValueId a : m_[block].args) last[a] = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    auto use = [&](ValueId v) {
      if (auto it = last.find(v); it != last.end()) it->second = i;
    };
    for (ValueId v : m_.operands(ops[i])) use(v);
    for (uint32_t r = 0; r < m_[ops[i]].numRegions; ++r) {
      BlockId inner = m_.region(ops[i], r);
      for (ValueId v : m_[inner].yields) use(v);
      forEachOp(m_, inner, [&](OpId o) {
        for (ValueId v : m_.operands(o)) use(v);
        for (uint32_t k = 0; k < m_[o].numRegions; ++k)
          for (ValueId v : m_[m_.region(o, k)].yields) use(v);
      });
    }
    defineAll(ops[i], i);
  }
  for (ValueId v : m_[block].yields) last.erase(v);
  entry->second.resize(ops.size());
  for (auto [v, at] : last)
    if (at < ops.size()) entry->second[at].push_back(v);
}

void Interpreter::release(BlockId block, size_t position) {
  for (ValueId v : releases_[block][position])
    if (v.index < values_.size()) values_[v.index].clear();
}

Status Interpreter::runBlock(const Context& context, BlockId block, const DeviceSet& devices) {
  planReleases(block);
  bool allDevices = static_cast<int64_t>(devices.size()) == context.numRunning;
  for (size_t i = 0; i < m_[block].ops.size(); ++i) {
    OpRun run{context, m_[block].ops[i], devices};
    for (ValueId v : m_.operands(run.op))
      if (Status s = makeOperand(run, v); !s) return s;
    if (Status s = runOp(run); !s) return s;
    trace(run);
    if (allDevices) release(block, i);
  }
  // Literals may be yielded too.
  for (ValueId v : m_[block].yields)
    if (m_[v].kind == ValueKind::Literal || m_[v].kind == ValueKind::Symbol)
      if (Status s = makeOperand({context, m_[block].parentOp, devices}, v); !s) return s;
  return Ok{};
}

Tensor literalTensor(const Module& m, ValueId literal) {
  Tensor t(m.typeOf(literal).dtype, {});
  const Attr& a = m.attrs[m[literal].literal];
  if (a.kind == Attr::Float)
    t.setFloat(0, a.f);
  else if (a.isUnsigned && !isInteger(t.dtype()))
    t.setFloat(0, static_cast<double>(static_cast<uint64_t>(a.i)));
  else
    t.setInt(0, a.i);
  return t;
}

// Literals and symbolic sizes become scalars at their uses; other values have been computed before.
Status Interpreter::makeOperand(const OpRun& run, ValueId v) {
  const Value& value = m_[v];
  if (value.kind != ValueKind::Literal && value.kind != ValueKind::Symbol) return Ok{};
  if (value.kind == ValueKind::Symbol) return makeSize(run, v);
  TensorRef held = hold(literalTensor(m_, v));
  for (int64_t d : run.devices) setValue(v, d, held);
  return Ok{};
}

// The size of a shard differs by device: `11/x`.
Status Interpreter::makeSize(const OpRun& run, ValueId v) {
  for (int64_t d : run.devices) {
    auto size = envOf(run.context, d).sizeOf(m_[v].symbol);
    if (!size) return errorAt(run.op, "it uses an unbound size; bind symbols with --dim NAME=SIZE");
    Tensor scalar(m_.typeOf(v).dtype, {});
    scalar.setInt(0, *size);
    setValue(v, d, hold(std::move(scalar)));
  }
  return Ok{};
}

Status Interpreter::runOp(const OpRun& run) {
  const OpRecord& record = m_.record(run.op);
  if (record.regions != RegionKind::None || record.isCall) return runControl(*this, run);
  if (record.isCollective())
    return collective && isRendezvous(record) ? collective(run) : runCollectiveHere(run);
  if (record.lowering == Lowering::Annotation) { // shard, reshard, stop_gradient: the value itself
    for (uint32_t r = 0; r < m_[run.op].numResults; ++r)
      for (int64_t d : run.devices) setValue(m_.result(run.op, r), d, value(m_.operand(run.op, r), d));
    return Ok{};
  }
  return runPlain(run);
}

Status Interpreter::runCollectiveHere(const OpRun& run) {
  if (Status s = runCollective(*this, run); !s) return s;
  amendCollective(run);
  return Ok{};
}

// A result that devices share stays shared.
void Interpreter::amendCollective(const OpRun& run) {
  if (!options_.amend) return;
  for (uint32_t r = 0; r < m_[run.op].numResults; ++r) {
    const ValueId v = m_.result(run.op, r);
    std::unordered_map<const Tensor*, TensorRef> amended;
    for (int64_t d : run.devices) {
      const TensorRef was = value(v, d);
      if (!was) continue;
      TensorRef& now = amended[was.get()];
      if (!now) {
        std::vector<const Tensor*> operands;
        for (ValueId o : m_.operands(run.op)) operands.push_back(value(o, d).get());
        Tensor changed = *was;
        options_.amend(options_.amendSelf, run.op, operands, std::span(&changed, 1));
        now = std::make_shared<const Tensor>(std::move(changed));
      }
      setValue(v, d, now);
    }
  }
}

Status Interpreter::runAlone(const OpRun& run) {
  if (Status s = runOp(run); !s) return s;
  trace(run);
  return Ok{};
}

Result<const PreparedOp*> Interpreter::prepare(OpId op) {
  auto& slot = prepared_[op];
  if (slot) return slot.get();
  Diagnostics diags;
  auto made = std::make_unique<PreparedOp>();
  made->query = queryOf(m_, op, diags);
  for (uint32_t r = 0; r < m_[op].numResults; ++r) made->resultTypes.push_back(m_[m_.result(op, r)].type);
  made->concrete = isConcrete(made->query, made->resultTypes);
  if (made->concrete && !prepareRule(made->query, made->resultTypes, made->rule))
    return errorAt(op, diagnosticText(diags));
  made->query.diags = nullptr; // the evaluation sets its own
  slot = std::move(made);
  return slot.get();
}

Status Interpreter::runPlain(const OpRun& run) {
  DTC_TRY(auto prepared, prepare(run.op));
  bool alike = !dependsOnDevice(m_, run.op);
  auto operandIds = m_.operands(run.op);
  std::vector<ValueId> ids(operandIds.begin(), operandIds.end());
  std::vector<int64_t> done;
  for (int64_t device : run.devices) {
    auto sameOperands = [&](int64_t other) {
      return std::ranges::all_of(ids, [&](ValueId v) { return value(v, other) == value(v, device); });
    };
    auto twin = alike ? std::ranges::find_if(done, sameOperands) : done.end();
    if (twin != done.end()) {
      for (uint32_t r = 0; r < m_[run.op].numResults; ++r)
        setValue(m_.result(run.op, r), device, value(m_.result(run.op, r), *twin));
      continue;
    }
    auto results = runOn(run, *prepared, device);
    if (!results) return errorAt(run.op, results.error().message);
    if (options_.amend) {
      std::vector<const Tensor*> operands;
      for (ValueId v : ids) operands.push_back(value(v, device).get());
      options_.amend(options_.amendSelf, run.op, operands, *results);
    }
    for (uint32_t r = 0; r < m_[run.op].numResults; ++r)
      setValue(m_.result(run.op, r), device, std::make_shared<const Tensor>(std::move((*results)[r])));
    done.push_back(device);
  }
  return Ok{};
}

// Ops that only select or move elements do not round, and preserve equality.
static bool rounds(const OpRecord& r) {
  return std::ranges::none_of(r.through, [](const Through& t) {
    return t.row == ThroughRow::Moving || t.row == ThroughRow::Choosing;
  });
}

static Tensor nudged(const Tensor& t, uint64_t state) {
  if (isComplex(t.dtype())) return Tensor::fromParts(nudged(t.parts(), state));
  Tensor moved = t;
  for (int64_t i = 0; i < t.numElements(); ++i) {
    const double v = t.getFloat(i);
    uint64_t bits = state += 0x9E3779B97F4A7C15ull; // splitmix64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ull;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBull;
    const uint64_t way = (bits ^ (bits >> 31)) % 3;
    if (way == 2 || v == 0 || !std::isfinite(v)) continue;
    const double to = way == 0 ? HUGE_VAL : -HUGE_VAL;
    moved.setFloat(i, t.dtype() == DType::F32 ? std::nextafter(static_cast<float>(v), static_cast<float>(to))
                                              : std::nextafter(v, to));
  }
  return moved;
}

// The truncation of an f32 factor on a GPU.
static Tensor truncateToTf32(const Tensor& t) {
  if (isComplex(t.dtype())) return Tensor::fromParts(truncateToTf32(t.parts()));
  Tensor truncated = t;
  for (int64_t i = 0; i < t.numElements(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(t.getFloat(i)));
    if (std::isfinite(t.getFloat(i))) truncated.setFloat(i, std::bit_cast<float>(bits & ~0x1fffu));
  }
  return truncated;
}

// Whether the operand is a factor of library matmuls; an operand added in the epilogue (a bias) is not.
static bool isFactor(const OpQuery& q, size_t operand) {
  const OpRecord& r = *q.record;
  const bool conv = isConvolution(r);
  if (conv || (r.lowering == Lowering::Library && !r.decompose)) return operand < 2 || (!conv && !r.finish);
  // The gradient of attention, if it has no kernel of its own; except its row sums.
  const bool madeOfProducts = r.derive && r.derive(q, "one kernel") == 0;
  return madeOfProducts && operand != 3 && operand != 4;
}

Result<std::vector<Tensor>> Interpreter::runOn(const OpRun& run, const PreparedOp& p, int64_t device) {
  std::vector<const Tensor*> operands;
  for (ValueId v : m_.operands(run.op)) operands.push_back(value(v, device).get());
  std::vector<Tensor> moved;
  moved.reserve(2 * operands.size());
  if (options_.nudge && rounds(m_.record(run.op))) {
    for (const Tensor*& t : operands)
      if (partType(t->dtype()) == DType::F32 || partType(t->dtype()) == DType::F64)
        t = &moved.emplace_back(nudged(*t, options_.nudge * 0xD1B54A32D192ED03ull + (++nudges_ << 32)));
  }
  if (options_.tf32 && !r64()) {
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands.size() > 1 && partType(operands[i]->dtype()) == DType::F32 && isFactor(p.query, i))
        operands[i] = &moved.emplace_back(truncateToTf32(*operands[i]));
  }
  Env env = envOf(run.context, device);
  if (p.concrete) return evaluateLoops(p.query, p.rule, operands, p.resultTypes, env, options_.precision);
  auto c = makeConcrete(p.query, operands, p.resultTypes, env);
  if (!c) return inputError("has an unbound size; bind symbols with --dim NAME=SIZE");
  Diagnostics diags;
  c->query.diags = &diags;
  PreparedRule rule;
  if (!prepareRule(c->query, c->resultTypes, rule)) return inputError(diagnosticText(diags));
  return evaluateLoops(c->query, rule, operands, c->resultTypes, env, options_.precision);
}

void Interpreter::trace(const OpRun& run) const {
  if (!options_.trace) return;
  for (int64_t device : run.devices) {
    std::vector<Tensor> results;
    for (uint32_t r = 0; r < m_[run.op].numResults; ++r)
      results.push_back(*value(m_.result(run.op, r), device));
    options_.trace(options_.traceSelf, run.op, device, results);
  }
}

// Binds symbols that were not given from the shapes of the arguments.
static Status bindSymbols(const Module& m, std::vector<std::pair<StrId, int64_t>>& symbols, const Type& type,
                          const Tensor& t, std::string_view name) {
  auto mismatch = [&](size_t d) {
    return inputError("argument %" + std::string(name) + " has size " + std::to_string(t.shape()[d]) +
                      " in dim " + std::to_string(d) + ", expected " +
                      printDim(type.dims[d], m.dims, m.strings));
  };
  if (t.rank() != type.rank())
    return inputError("argument %" + std::string(name) + " has " + std::to_string(t.rank()) +
                      " dims, expected " + std::to_string(type.rank()));
  for (size_t d = 0; d < type.rank(); ++d) {
    if (type.dims[d].isStatic()) {
      if (type.dims[d].value() != t.shape()[d]) return mismatch(d);
      continue;
    }
    const DimExpr& e = m.dims.dynamic(type.dims[d]);
    if (!e.axes.empty() || e.symbols.size() != 1) continue;
    auto known = std::ranges::find_if(symbols, [&](const auto& s) { return s.first == e.symbols[0]; });
    if (t.shape()[d] % e.coefficient != 0) return mismatch(d);
    int64_t size = t.shape()[d] / e.coefficient;
    if (known == symbols.end())
      symbols.emplace_back(e.symbols[0], size);
    else if (known->second != size)
      return mismatch(d);
  }
  return Ok{};
}

Status Interpreter::runFunction(FuncId f, const Context& context, const DeviceSet& devices,
                                std::span<const std::vector<TensorRef>> args,
                                std::vector<std::vector<TensorRef>>& results) {
  const Function& function = m_[f];
  for (int64_t d : devices) {
    if (args[d].size() != function.args.size())
      return usageError("@" + std::string(m_.strings[function.name]) + " takes " +
                        std::to_string(function.args.size()) + " arguments, not " +
                        std::to_string(args[d].size()));
    for (size_t i = 0; i < function.args.size(); ++i) {
      ValueId v = function.args[i].value;
      std::string_view name = m_.strings[m_[v].name];
      if (d == devices[0])
        if (Status s = bindSymbols(m_, symbols_, m_.typeOf(v), *args[d][i], name); !s) return s;
      auto shape = envOf(context, d).shapeOf(m_.typeOf(v));
      if (!shape || *shape != args[d][i]->shape())
        return inputError("argument %" + std::string(name) + " does not have the shape of its type" +
                          (context.mesh ? " on device " + std::to_string(d) : ""));
      setValue(v, d, args[d][i]);
    }
  }
  if (Status s = runBlock(context, function.body, devices); !s) return s;
  results.resize(static_cast<size_t>(context.numDevices));
  for (int64_t d : devices)
    for (ValueId v : m_[m_[f].body].yields) results[d].push_back(value(v, d));
  return Ok{};
}

} // namespace dtc
