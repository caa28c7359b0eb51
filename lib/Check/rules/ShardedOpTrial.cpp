#include "rules/ShardedOpTrial.h"
#include "dtc/Check/run/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Passes/analysis/ShardedOpProgram.h"
#include "rules/TrialTensors.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

class ShardedOpProver {
public:
  ShardedOpProver(OpSample& s, RuleReport& report)
      : s_(s), m_(s.module), report_(report), query_(queryOf(s.module, s.op, quiet_)) {}

  void run() {
    if (!query_.record->shard || !ruleOf(query_, rule_)) return;
    for (uint16_t f = 0; f < rule_.factors.size(); ++f) {
      if (!rule_.factors[f].communicates()) {
        exchangeTrials(f);
        continue;
      }
      for (int64_t n : {2, 3}) trial({n}, {{f, 0}});
      for (uint16_t g = 0; g < rule_.factors.size(); ++g) {
        const FactorKind kind = rule_.factors[g].kind;
        const bool joins = std::ranges::any_of(rule_.joins, [&](const Join& j) { return j.factor == g; });
        if (g == f || kind == FactorKind::Whole || joins) continue;
        trial({2, 3}, {{f, 1}, {g, 0}});
      }
      trial({2, 2}, {{f, 0}, {f, 1}});
      if (rule_.factors[f].alongside >= 0) ring(f, static_cast<uint16_t>(rule_.factors[f].alongside));
    }
  }

private:
  // Shards of f are exchanged along `along`, also where another factor is sharded.
  void ring(uint16_t f, uint16_t along) {
    for (int64_t n : {2, 3}) trial({n}, {{f, 0}, {along, 0}});
    for (uint16_t g = 0; g < rule_.factors.size(); ++g)
      if (g != f && g != along && rule_.factors[g].kind != FactorKind::Whole)
        trial({2, 3}, {{f, 1}, {along, 1}, {g, 0}});
  }

  using ShardedBy = std::pair<uint16_t, size_t>; // a factor, and the mesh axis that shards it
  static constexpr const char* kAxisNames[] = {"a", "b"};

  // Rows between the shards of f and those of the adjacent factor; that one may be sharded too, and so may
  // others.
  void exchangeTrials(uint16_t f) {
    if (rule_.factors[f].alongside < 0) return;
    const auto adjacent = static_cast<uint16_t>(rule_.factors[f].alongside);
    for (int64_t n : {2, 3}) trial({n}, {{f, 0}, {adjacent, 0}});
    trial({2, 2}, {{f, 0}, {f, 1}, {adjacent, 0}, {adjacent, 1}});
    for (uint16_t g = 0; g < rule_.factors.size(); ++g)
      if (g != f && g != adjacent && rule_.factors[g].kind != FactorKind::Whole &&
          rule_.factors[g].kind != FactorKind::Reduce)
        trial({2, 3}, {{f, 1}, {adjacent, 1}, {g, 0}});
    if (rule_.factors[adjacent].kind == FactorKind::Reduce) return;
    trial({2, 3}, {{f, 1}, {adjacent, 0}, {adjacent, 1}});
    trial({3, 2}, {{f, 0}, {adjacent, 0}, {adjacent, 1}});
  }

  MeshId meshOf(const std::vector<int64_t>& sizes) {
    Mesh mesh;
    std::string name = "mesh";
    for (size_t i = 0; i < sizes.size(); ++i) {
      name += "_" + std::to_string(sizes[i]);
      mesh.axes.push_back({m_.strings.intern(kAxisNames[i]), sizes[i]});
    }
    mesh.name = m_.strings.intern(name);
    const MeshId known = m_.shardings.findMesh(mesh.name);
    return known.valid() ? known : m_.shardings.addMesh(std::move(mesh));
  }

  void trial(const std::vector<int64_t>& sizes, const std::vector<ShardedBy>& shardings) {
    const MeshId mesh = meshOf(sizes);
    std::vector<PartList> factors(rule_.factors.size());
    for (auto [f, axis] : shardings) factors[f].push_back({{m_.strings.intern(kAxisNames[axis])}, 0});
    ShardedOpProgram program = shardedOpProgram(m_, s_.op, rule_, factors, mesh);
    if (!program.written) return; // gathered first
    Diagnostics diags;
    if (!verifyModule(program.module, diags)) {
      fail(program, diags.all().empty() ? "its local program is invalid" : diags.all().front().message());
      return;
    }
    for (bool special : {false, true})
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        ++report_.cases;
        const std::string why = run(program, seed, special);
        if (!why.empty()) return fail(program, why);
      }
  }

  void fail(const ShardedOpProgram& program, std::string why) {
    const Function& f = program.module[program.func];
    std::string text = s_.text + " | ";
    for (size_t i = 0; i < f.args.size(); ++i)
      text += (i ? ", " : "") + printSharding(program.module, program.module[f.args[i].value].sharding);
    text += " -> ";
    for (size_t r = 0; r < f.results.size(); ++r)
      text += (r ? ", " : "") + printSharding(program.module, f.results[r].sharding);
    report_.wrong.push_back({std::move(text), std::move(why)});
  }

  // "" or the difference.
  std::string run(ShardedOpProgram& program, uint64_t seed, bool special) {
    Module& sharded = program.module;
    const Function f = sharded[program.func];
    const Mesh& mesh = sharded.shardings.meshOf(f.results[0].sharding);
    std::vector<std::vector<Tensor>> local(static_cast<size_t>(mesh.numDevices()));
    std::vector<Tensor> globals;
    size_t argument = 0;
    for (ValueId v : query_.operands) {
      if (m_[v].kind == ValueKind::Literal) {
        globals.push_back(literalTensor(m_, v));
        continue;
      }
      const Type type = m_.typeOf(v);
      Tensor t(type.dtype, type.staticShape());
      fillTrialTensor(t, mixed(seed * 1000 + argument),
                      {special ? TrialValues::Special : TrialValues::Small, s_.ranges[argument]});
      const Sharding& sharding = sharded.shardings[sharded[f.args[argument].value].sharding];
      for (size_t d = 0; d < local.size(); ++d)
        local[d].push_back(takeShard(t, sharding, mesh, static_cast<int64_t>(d)));
      globals.push_back(std::move(t));
      ++argument;
    }
    auto want = evaluateOp(query_, globals, {});
    if (!want.ok()) return "";
    auto got = evaluateSpmd(sharded, program.func, local, {});
    if (!got.ok()) return got.error().message;
    for (size_t r = 0; r < want->size(); ++r) {
      Sharding sharding = sharded.shardings[f.results[r].sharding];
      addUp(*got, r, sharding, mesh, (*want)[r].shape());
      for (size_t d = 0; d < got->size(); ++d) {
        const Tensor wanted = takeShard((*want)[r], sharding, mesh, static_cast<int64_t>(d));
        const Tensor& actual = (*got)[d][r];
        if (actual.shape() != wanted.shape()) return "device " + std::to_string(d) + " has another shape";
        const int64_t at = firstDifference(actual, wanted, tolerance(wanted, globals));
        if (at < 0) continue;
        std::string why = "device " + std::to_string(d) + " has " + trialElementText(actual, at) + " at " +
                          indexText(at, wanted.shape()) + ", but " + trialElementText(wanted, at) +
                          " is expected, with ";
        for (size_t i = 0; i < globals.size(); ++i) why += (i ? ", " : "") + tensorText(globals[i]);
        return why;
      }
    }
    return "";
  }

  // Partial results become shards of their sum.
  static void addUp(std::vector<std::vector<Tensor>>& local, size_t result, Sharding& sharding,
                    const Mesh& mesh, const std::vector<int64_t>& shape) {
    if (sharding.pending.empty()) return;
    std::vector<Tensor> locals;
    for (const std::vector<Tensor>& device : local) locals.push_back(device[result]);
    const Tensor global = assemble(locals, sharding, mesh, shape);
    sharding.pending.clear();
    for (size_t d = 0; d < local.size(); ++d)
      local[d][result] = takeShard(global, sharding, mesh, static_cast<int64_t>(d));
  }

  // Sums in another order, of values that were rounded once.
  static double tolerance(const Tensor& want, const std::vector<Tensor>& globals) {
    if (!isFloat(partType(want.dtype()))) return 0;
    double largest = std::max(1.0, maxFiniteMagnitude(want));
    int bits = mantissaBits(want.dtype());
    for (const Tensor& t : globals)
      if (isFloat(partType(t.dtype()))) bits = std::min(bits, mantissaBits(t.dtype()));
    return 16 * largest * std::ldexp(1.0, -bits);
  }

  OpSample& s_;
  Module& m_;
  RuleReport& report_;
  Diagnostics quiet_;
  OpQuery query_;
  Rule rule_;
};

} // namespace

void proveShardedOps(OpSample& s, RuleReport& report) { ShardedOpProver(s, report).run(); }

} // namespace dtc
