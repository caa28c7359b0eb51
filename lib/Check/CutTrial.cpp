#include "CutTrial.h"
#include "TrialTensors.h"
#include "dtc/Check/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/IR/Text.h"
#include "dtc/Passes/CutProgram.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

class CutProver {
public:
  CutProver(OpSample& s, RuleReport& report)
      : s_(s), m_(s.module), report_(report), query_(queryOf(s.module, s.op, quiet_)) {}

  void run() {
    if (!query_.record->cut || !ruleOf(query_, rule_)) return;
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
  // Pieces of f go round by those of `along`, also where another factor is cut.
  void ring(uint16_t f, uint16_t along) {
    for (int64_t n : {2, 3}) trial({n}, {{f, 0}, {along, 0}});
    for (uint16_t g = 0; g < rule_.factors.size(); ++g)
      if (g != f && g != along && rule_.factors[g].kind != FactorKind::Whole)
        trial({2, 3}, {{f, 1}, {along, 1}, {g, 0}});
  }

  using Cut = std::pair<uint16_t, size_t>; // a factor, and the mesh axis that cuts it
  static constexpr const char* kAxisNames[] = {"a", "b"};

  // Rows between the pieces of f and those of the factor beside it; that may be cut further, and so may others.
  void exchangeTrials(uint16_t f) {
    if (rule_.factors[f].alongside < 0) return;
    const auto beside = static_cast<uint16_t>(rule_.factors[f].alongside);
    for (int64_t n : {2, 3}) trial({n}, {{f, 0}, {beside, 0}});
    trial({2, 2}, {{f, 0}, {f, 1}, {beside, 0}, {beside, 1}});
    for (uint16_t g = 0; g < rule_.factors.size(); ++g)
      if (g != f && g != beside && rule_.factors[g].kind != FactorKind::Whole &&
          rule_.factors[g].kind != FactorKind::Reduce)
        trial({2, 3}, {{f, 1}, {beside, 1}, {g, 0}});
    if (rule_.factors[beside].kind == FactorKind::Reduce) return;
    trial({2, 3}, {{f, 1}, {beside, 0}, {beside, 1}});
    trial({3, 2}, {{f, 0}, {beside, 0}, {beside, 1}});
  }

  MeshId meshOf(const std::vector<int64_t>& sizes) {
    Mesh mesh;
    std::string name = "cut";
    for (size_t i = 0; i < sizes.size(); ++i) {
      name += "_" + std::to_string(sizes[i]);
      mesh.axes.push_back({m_.strings.intern(kAxisNames[i]), sizes[i]});
    }
    mesh.name = m_.strings.intern(name);
    const MeshId known = m_.shardings.findMesh(mesh.name);
    return known.valid() ? known : m_.shardings.addMesh(std::move(mesh));
  }

  void trial(const std::vector<int64_t>& sizes, const std::vector<Cut>& cuts) {
    const MeshId mesh = meshOf(sizes);
    std::vector<PartList> factors(rule_.factors.size());
    for (auto [f, axis] : cuts) factors[f].push_back({{m_.strings.intern(kAxisNames[axis])}, 0});
    CutProgram program = cutProgram(m_, s_.op, rule_, factors, mesh);
    if (!program.written) return; // gathered first
    Diagnostics diags;
    if (!verifyModule(program.module, diags)) {
      fail(program, diags.all().empty() ? "its program is not valid" : diags.all().front().message());
      return;
    }
    for (bool special : {false, true})
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        ++report_.cases;
        const std::string why = run(program, seed, special);
        if (!why.empty()) return fail(program, why);
      }
  }

  void fail(const CutProgram& program, std::string why) {
    const Function& f = program.module[program.func];
    std::string text = s_.text + " | ";
    for (size_t i = 0; i < f.args.size(); ++i)
      text += (i ? ", " : "") + printSharding(program.module, program.module[f.args[i].value].sharding);
    text += " -> ";
    for (size_t r = 0; r < f.results.size(); ++r)
      text += (r ? ", " : "") + printSharding(program.module, f.results[r].sharding);
    report_.wrong.push_back({std::move(text), std::move(why)});
  }

  // "" or what is wrong.
  std::string run(CutProgram& program, uint64_t seed, bool special) {
    Module& cut = program.module;
    const Function f = cut[program.func];
    const Mesh& mesh = cut.shardings.meshOf(f.results[0].sharding);
    std::vector<std::vector<Tensor>> local(static_cast<size_t>(mesh.numDevices()));
    std::vector<Tensor> whole;
    size_t argument = 0;
    for (ValueId v : query_.operands) {
      if (m_[v].kind == ValueKind::Literal) {
        whole.push_back(literalTensor(m_, m_[v]));
        continue;
      }
      const Type type = m_.typeOf(v);
      Tensor t(type.dtype, type.staticShape());
      fillTrialTensor(t, mixed(seed * 1000 + argument),
                      {special ? TrialValues::Special : TrialValues::Small, s_.ranges[argument]});
      const Sharding& sharding = cut.shardings[cut[f.args[argument].value].sharding];
      for (size_t d = 0; d < local.size(); ++d)
        local[d].push_back(takePiece(t, sharding, mesh, static_cast<int64_t>(d)));
      whole.push_back(std::move(t));
      ++argument;
    }
    auto want = evaluateOp(query_, whole, {});
    if (!want.ok()) return "";
    auto got = evaluateSpmd(cut, program.func, local, {});
    if (!got.ok()) return got.error().message;
    for (size_t r = 0; r < want->size(); ++r) {
      Sharding sharding = cut.shardings[f.results[r].sharding];
      addUp(*got, r, sharding, mesh, (*want)[r].shape());
      for (size_t d = 0; d < got->size(); ++d) {
        const Tensor wanted = takePiece((*want)[r], sharding, mesh, static_cast<int64_t>(d));
        const Tensor& piece = (*got)[d][r];
        if (piece.shape() != wanted.shape()) return "device " + std::to_string(d) + " has another shape";
        const int64_t at = firstDifference(piece, wanted, tolerance(wanted, whole));
        if (at < 0) continue;
        std::string why = "device " + std::to_string(d) + " has " + trialElementText(piece, at) + " at " +
                          indexText(at, wanted.shape()) + " where " + trialElementText(wanted, at) +
                          " is right, with ";
        for (size_t i = 0; i < whole.size(); ++i) why += (i ? ", " : "") + tensorText(whole[i]);
        return why;
      }
    }
    return "";
  }

  // Partial results become pieces of what they add up to.
  static void addUp(std::vector<std::vector<Tensor>>& local, size_t result, Sharding& sharding,
                    const Mesh& mesh, const std::vector<int64_t>& shape) {
    if (sharding.pending.empty()) return;
    std::vector<Tensor> pieces;
    for (const std::vector<Tensor>& device : local) pieces.push_back(device[result]);
    const Tensor whole = assemble(pieces, sharding, mesh, shape);
    sharding.pending.clear();
    for (size_t d = 0; d < local.size(); ++d)
      local[d][result] = takePiece(whole, sharding, mesh, static_cast<int64_t>(d));
  }

  // Sums in another order, of values that were rounded once.
  static double tolerance(const Tensor& want, const std::vector<Tensor>& whole) {
    if (!isFloat(partType(want.dtype()))) return 0;
    double most = std::max(1.0, maxFiniteMagnitude(want));
    int bits = mantissaBits(want.dtype());
    for (const Tensor& t : whole)
      if (isFloat(partType(t.dtype()))) bits = std::min(bits, mantissaBits(t.dtype()));
    return 16 * most * std::ldexp(1.0, -bits);
  }

  OpSample& s_;
  Module& m_;
  RuleReport& report_;
  Diagnostics quiet_;
  OpQuery query_;
  Rule rule_;
};

} // namespace

void proveCuts(OpSample& s, RuleReport& report) { CutProver(s, report).run(); }

} // namespace dtc
