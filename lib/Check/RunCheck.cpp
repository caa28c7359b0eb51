#include "dtc/Check/RunCheck.h"

#include "Promise.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/PlanMemory.h"
#include "dtc/Support/Json.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

namespace dtc {
namespace {

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}

// Arguments cut for each place, the many-device evaluator, results put together again.
Result<std::vector<Tensor>> runLocal(Module& m, FuncId f, std::span<const Tensor> args,
                                     const EvalOptions& options) {
  Mesh mesh = meshValueOf(m, f);
  std::vector<std::vector<Tensor>> pieces(static_cast<size_t>(mesh.numDevices()));
  for (size_t p = 0; p < pieces.size(); ++p)
    for (size_t i = 0; i < args.size(); ++i) {
      const FuncArg& a = m[f].args[i];
      ShardingId s = m[a.value].sharding;
      pieces[p].push_back(
          a.globalType && s ? takePiece(args[i], m.shardings[s], mesh, static_cast<int64_t>(p)) : args[i]);
    }
  auto local = evaluateSpmd(m, f, pieces, options);
  if (!local) return local.error();
  std::vector<Tensor> results;
  for (size_t r = 0; r < m[f].results.size(); ++r) {
    const FuncResult& res = m[f].results[r];
    std::vector<Tensor> parts;
    for (auto& device : *local) parts.push_back(std::move(device[r]));
    if (res.globalType && res.sharding)
      results.push_back(
          assemble(parts, m.shardings[res.sharding], mesh, m.types[res.globalType].staticShape()));
    else
      results.push_back(std::move(parts[0]));
  }
  return results;
}

} // namespace

// The results of the last of so many steps, each of which takes over what the one before it carries.
static Result<std::vector<Tensor>> runSteps(Module& m, FuncId f, std::span<const Tensor> args, int steps,
                                            const EvalOptions& options) {
  std::vector<Tensor> now(args.begin(), args.end());
  for (int step = 1;; ++step) {
    auto results = m[f].spmd ? runLocal(m, f, now, options) : evaluate(m, f, now, options);
    if (!results || step >= steps) return results;
    for (size_t r = 0; r < results->size(); ++r)
      if (auto a = carriedArgument(m, f, r)) now[*a] = (*results)[r];
  }
}

Result<Reference> runReference(Module& m, FuncId f, std::span<const Tensor> args, int steps, bool tf32) {
  Reference ref;
  ref.manyDevices = m[f].spmd;
  for (Precision precision : {Precision::R64, Precision::Rd}) {
    EvalOptions options;
    options.precision = precision;
    options.tf32 = tf32;
    auto results = runSteps(m, f, args, steps, options);
    if (!results) return results.error();
    (precision == Precision::R64 ? ref.r64 : ref.rd) = std::move(*results);
  }
  return ref;
}

Status addNudged(Reference& reference, Module& m, FuncId f, std::span<const Tensor> args, int steps) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    EvalOptions options;
    options.nudge = seed;
    auto results = runSteps(m, f, args, steps, options);
    if (!results) return results.error();
    reference.nudged.push_back(std::move(*results));
  }
  return Ok{};
}

namespace {

// Adds to what collectives give.
struct WireNoise {
  const WireRounding& wire;
  uint64_t seed;

  static void amend(void* self, OpId op, std::span<const Tensor* const>, std::span<Tensor> results) {
    const auto& noise = *static_cast<WireNoise*>(self);
    const WireHops* hops = noise.wire.hopsOf(op);
    for (Tensor& t : results)
      if (hops && isFloat(t.dtype())) noise.add(*hops, t);
  }

  // Equal values move alike, so that what is the same on several devices stays so.
  void add(const WireHops& hops, Tensor& t) const {
    double largest = 0;
    for (int64_t i = 0; i < t.numElements(); ++i)
      if (const double v = std::abs(t.getFloat(i)); std::isfinite(v)) largest = std::max(largest, v);
    const double off = static_cast<double>(hops.hops) * ulpAt(hops.dtype, largest);
    for (int64_t i = 0; i < t.numElements(); ++i) {
      const double v = t.getFloat(i);
      uint64_t bits = std::bit_cast<uint64_t>(v) ^ (static_cast<uint64_t>(i) + seed) * 0x9E3779B97F4A7C15ull;
      bits = (bits ^ bits >> 31) * 0xD6E8FEB86659FD93ull;
      t.setFloat(i, v + (bits >> 63 ? off : -off));
    }
  }
};

void widen(WireErrors& e, const Tensor& a, const Tensor& b) {
  double largest = 0, squares = 0;
  const int64_t n = a.numElements();
  for (int64_t i = 0; isFloat(a.dtype()) && i < n; ++i)
    if (const double d = std::abs(a.getFloat(i) - b.getFloat(i)); std::isfinite(d))
      largest = std::max(largest, d), squares += d * d;
  e.max = std::max(e.max, 2 * largest);
  e.rms = std::max(e.rms, 2 * std::sqrt(squares / static_cast<double>(std::max<int64_t>(n, 1))));
}

} // namespace

Status addWireErrors(Reference& reference, Module& scheduled, FuncId f, std::span<const Tensor> args,
                     int steps, const WireRounding& wire) {
  EvalOptions options;
  options.precision = Precision::R64;
  auto still = runSteps(scheduled, f, args, steps, options);
  if (!still) return still.error();
  std::vector<WireErrors> errors(still->size());
  for (uint64_t seed : {1, 2}) {
    WireNoise noise{wire, seed};
    options.amend = &WireNoise::amend;
    options.amendSelf = &noise;
    auto moved = runSteps(scheduled, f, args, steps, options);
    if (!moved) return moved.error();
    for (size_t i = 0; i < errors.size(); ++i) widen(errors[i], (*still)[i], (*moved)[i]);
  }
  reference.wire = std::move(errors);
  return Ok{};
}

Status addUnpromised(Reference& reference, Module& propagated, FuncId f, std::span<const Tensor> args,
                     int steps, bool tf32) {
  if (!passesFiniteAlone(propagated)) return Ok{};
  UnpromisedValues values(propagated);
  EvalOptions options;
  options.tf32 = tf32;
  values.attach(options);
  auto results = runSteps(propagated, f, args, steps, options);
  if (!results) return results.error();
  reference.unpromised = std::move(*results);
  return Ok{};
}

CheckReport checkResults(const Reference& reference, std::span<const Tensor> got,
                         const std::vector<std::string>& names, std::span<const CompareOptions> options) {
  CheckReport report;
  report.manyDevices = reference.manyDevices;
  for (size_t i = 0; i < got.size(); ++i) {
    CompareOptions within = options[i];
    within.coarseHops = false;
    ResultCheck r{names[i], got[i].shape(),
                  compareTensors(got[i], reference.r64[i], reference.rd[i], within)};
    within.coarseHops = true;
    if (i < reference.wire.size()) within.measured = reference.wire[i];
    if (!r.report.pass) {
      r.report = compareTensors(got[i], reference.r64[i], reference.rd[i], within);
      r.byWire = r.report.pass && !within.measured;
    }
    if (i < reference.unpromised.size()) within.unpromised = &reference.unpromised[i];
    if (!r.report.pass && within.unpromised)
      r.report = compareTensors(got[i], reference.r64[i], reference.rd[i], within);
    for (size_t k = 0; k < reference.nudged.size() && !r.report.pass; ++k) {
      CompareReport beside = compareTensors(got[i], reference.r64[i], reference.nudged[k][i], within);
      if (beside.pass) r.report = beside, r.byNudged = true;
    }
    report.pass = report.pass && r.report.pass;
    report.results.push_back(std::move(r));
  }
  return report;
}

std::string CheckReport::text() const {
  std::string out;
  for (const ResultCheck& r : results) {
    const CompareReport& c = r.report;
    out +=
        "check " + r.name + ": " + (c.pass ? r.byNudged ? "ok beside a nudged reference" : "ok" : "FAILED");
    if (c.whereAbs >= 0) {
      out += ", largest error " + number(c.maxAbs) + " at " + indexText(c.whereAbs, r.shape) + " (allowed " +
             number(c.allowedMax) + ")";
      if (c.whereRel >= 0) out += ", relative " + number(c.maxRel) + " at " + indexText(c.whereRel, r.shape);
      out += ", rms " + number(c.rms) + " (allowed " + number(c.allowedRms) + ")";
    } else if (c.pass) {
      const int64_t equal = c.elements - c.unpromised;
      out += ", equal in " + (c.unpromised ? std::to_string(equal) + " of " : "all ") +
             std::to_string(c.elements) + (c.elements == 1 ? " element" : " elements");
    }
    if (c.unpromised)
      out += "; nothing is promised of " + std::to_string(c.unpromised) +
             ", made of an infinite factor or a divisor of 0 (docs/sharding.md, \"Infinities and NaN\")";
    out += "\n";
    if (!c.pass) out += "  " + c.reason + "\n";
  }
  if (!firstDifference.empty()) out += "  the first value that differs: " + firstDifference + "\n";
  if (manyDevices)
    out += "check: local text has no unsharded form; the reference is the same text on the many-device "
           "evaluator\n";
  return out;
}

std::string CheckReport::json() const {
  std::string out = std::string("{\"pass\": ") + (pass ? "true" : "false") + ", \"reference\": \"" +
                    (manyDevices ? "many-device" : "unsharded") + "\", \"results\": [";
  for (size_t i = 0; i < results.size(); ++i) {
    const CompareReport& c = results[i].report;
    out += std::string(i ? ",\n " : "\n ") + "{\"name\": " + jsonString(results[i].name) +
           ", \"pass\": " + (c.pass ? "true" : "false") + (results[i].byNudged ? ", \"nudged\": true" : "") +
           (c.unpromised ? ", \"unpromised\": " + std::to_string(c.unpromised) : "") +
           ", \"max_abs\": " + jsonNumber(c.maxAbs) + ", \"max_rel\": " + jsonNumber(c.maxRel) +
           ", \"rms\": " + jsonNumber(c.rms) + ", \"allowed_max\": " + jsonNumber(c.allowedMax) +
           ", \"allowed_rms\": " + jsonNumber(c.allowedRms) +
           ", \"where_abs\": " + jsonString(c.whereAbs < 0 ? "" : indexText(c.whereAbs, results[i].shape)) +
           ", \"where_rel\": " + jsonString(c.whereRel < 0 ? "" : indexText(c.whereRel, results[i].shape)) +
           ", \"reason\": " + jsonString(c.reason) + "}";
  }
  return out + "], \"first_difference\": " + jsonString(firstDifference) + "}";
}

} // namespace dtc
