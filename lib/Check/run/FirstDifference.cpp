// After a failed check: the first value, in program order, that differs from the reference on a device.
#include "dtc/Check/run/RunCheck.h"

#include "dtc/Eval/Eval.h"
#include "dtc/Files/TensorText.h"
#include "dtc/IR/OpRecord.h"

#include <unordered_map>

namespace dtc {
namespace {

// The value of each name in a run of the reference; a value in a loop keeps its last one, which is not used.
struct Kept {
  const Module& m;
  BlockId body;
  std::unordered_map<ValueId, Tensor> values = {};
  static void keep(void* self, OpId op, int64_t, std::span<const Tensor> results) {
    auto& kept = *static_cast<Kept*>(self);
    if (kept.m[op].parent != kept.body) return;
    for (size_t r = 0; r < results.size(); ++r)
      if (ValueId v = kept.m.result(op, r); kept.m[v].name) kept.values.insert_or_assign(v, results[r]);
  }
};

struct Finder {
  const Module& global;
  const Module& local;
  const Executable& ran;
  const CommRounding& rounding;
  const Kept &r64, &rd;
  std::unordered_map<std::string_view, ValueId> locals; // by name

  static std::string compare(const Tensor& got, const Tensor& want64, const Tensor& wantD,
                             const CompareOptions& options) {
    CompareReport report = compareTensors(got, want64, wantD, options);
    return report.pass ? "" : report.reason;
  }

  std::string value(ValueId v, ValueId mine) const {
    auto want64 = r64.values.find(v), wantD = rd.values.find(v);
    ShardingId s = global[v].sharding;
    if (want64 == r64.values.end() || wantD == rd.values.end() || !s) return "";
    const Sharding& sharding = global.shardings[s];
    if (global.shardings.meshOf(s).name != ran.mesh().name) return ""; // its shards are on another mesh there
    std::vector<Tensor> shards;
    for (int64_t p = 0; p < ran.mesh().numDevices(); ++p) {
      auto t = ran.value(mine, p);
      if (!t) return "";
      shards.push_back(std::move(*t));
    }
    const CompareOptions options = rounding.of(mine);
    if (sharding.pending.empty()) {
      for (size_t p = 0; p < shards.size(); ++p) {
        int64_t device = static_cast<int64_t>(p);
        Tensor w64 = takeShard(want64->second, sharding, ran.mesh(), device);
        if (shards[p].shape() != w64.shape()) return "";
        std::string why =
            compare(shards[p], w64, takeShard(wantD->second, sharding, ran.mesh(), device), options);
        if (!why.empty()) return "on device " + deviceText(ran.mesh(), local.strings, device) + ": " + why;
      }
      return "";
    }
    Tensor assembled = assemble(shards, sharding, ran.mesh(), want64->second.shape());
    std::string why = compare(assembled, want64->second, wantD->second, options);
    return why.empty() ? "" : "summed over all devices (it is pending): " + why;
  }
};

} // namespace

std::string findFirstDifference(Module& propagated, FuncId globalFunc, std::span<const Tensor> args,
                                const Module& scheduled, FuncId localFunc, const Executable& ran,
                                const CommRounding& rounding, bool tf32) {
  Kept r64{propagated, propagated[globalFunc].body}, rd{propagated, propagated[globalFunc].body};
  for (Precision precision : {Precision::R64, Precision::Rd}) {
    EvalOptions eval;
    eval.precision = precision;
    eval.tf32 = tf32;
    eval.trace = &Kept::keep;
    eval.traceSelf = precision == Precision::R64 ? &r64 : &rd;
    if (auto done = evaluate(propagated, globalFunc, args, eval); !done) return "";
  }
  Finder finder{propagated, scheduled, ran, rounding, r64, rd, {}};
  for (OpId o : scheduled[scheduled[localFunc].body].ops)
    for (uint32_t r = 0; r < scheduled[o].numResults; ++r)
      if (ValueId v = scheduled.result(o, r); scheduled[v].name)
        finder.locals.emplace(scheduled.strings[scheduled[v].name], v);
  for (OpId o : propagated[propagated[globalFunc].body].ops)
    for (uint32_t r = 0; r < propagated[o].numResults; ++r) {
      ValueId v = propagated.result(o, r);
      std::string_view name = propagated.strings[propagated[v].name];
      auto mine = finder.locals.find(name);
      if (name.empty() || mine == finder.locals.end()) continue;
      std::string why = finder.value(v, mine->second);
      if (why.empty()) continue;
      std::string line = placeText(propagated.source, propagated[o].loc);
      if (!line.empty()) line = " at " + line;
      return "%" + std::string(name) + ", '" + propagated.record(o).name + "'" + line + ", " + why;
    }
  return "";
}

} // namespace dtc
