#include "dtc/Check/run/RunCheck.h"

#include "run/NonFiniteGuarantees.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Counted.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Units.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dtc {

constexpr double kNearZero = 0.5; // a relative error this large is allowed only there

// The results of the last of several steps, each of which takes the carried results of the previous one.
static Result<std::vector<Tensor>> runSteps(Module& m, FuncId f, std::span<const Tensor> args, int steps,
                                            const EvalOptions& options) {
  std::vector<Tensor> now(args.begin(), args.end());
  for (int step = 1;; ++step) {
    auto results = evaluateGlobal(m, f, now, options);
    if (!results || step >= steps) return results;
    for (auto [result, argument] : carriedResults(m, f)) now[argument] = (*results)[result];
  }
}

Result<Reference> runReference(Module& m, FuncId f, std::span<const Tensor> args, int steps, bool tf32) {
  Reference ref;
  ref.manyDevices = m[f].spmd;
  for (Precision precision : {Precision::R64, Precision::Rd}) {
    EvalOptions options;
    options.precision = precision;
    options.tf32 = tf32;
    DTC_TRY((precision == Precision::R64 ? ref.r64 : ref.rd), runSteps(m, f, args, steps, options));
  }
  return ref;
}

Status addPerturbed(Reference& reference, Module& m, FuncId f, std::span<const Tensor> args, int steps) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    EvalOptions options;
    options.nudge = seed;
    DTC_TRY(auto results, runSteps(m, f, args, steps, options));
    reference.perturbed.push_back(std::move(results));
  }
  return Ok{};
}

namespace {

// Adds to the results of collectives.
struct CommNoise {
  const CommRounding& rounding;
  uint64_t seed;

  static void amend(void* self, OpId op, std::span<const Tensor* const>, std::span<Tensor> results) {
    const auto& noise = *static_cast<CommNoise*>(self);
    const CommHops* hops = noise.rounding.hopsOf(op);
    for (Tensor& t : results)
      if (hops && isFloat(t.dtype())) noise.add(*hops, t);
  }

  // Equal values are perturbed equally, so that values equal on several devices stay equal.
  void add(const CommHops& hops, Tensor& t) const {
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

void widen(CommErrors& e, const Tensor& a, const Tensor& b) {
  double largest = 0, squares = 0;
  const int64_t n = a.numElements();
  for (int64_t i = 0; isFloat(a.dtype()) && i < n; ++i)
    if (const double d = std::abs(a.getFloat(i) - b.getFloat(i)); std::isfinite(d))
      largest = std::max(largest, d), squares += d * d;
  e.max = std::max(e.max, 2 * largest);
  e.rms = std::max(e.rms, 2 * std::sqrt(squares / static_cast<double>(std::max<int64_t>(n, 1))));
}

} // namespace

Status addCommErrors(Reference& reference, Module& scheduled, FuncId f, std::span<const Tensor> args,
                     int steps, const CommRounding& rounding) {
  EvalOptions options;
  options.precision = Precision::R64;
  DTC_TRY(auto still, runSteps(scheduled, f, args, steps, options));
  std::vector<CommErrors> errors(still.size());
  for (uint64_t seed : {1, 2}) {
    CommNoise noise{rounding, seed};
    options.amend = &CommNoise::amend;
    options.amendSelf = &noise;
    DTC_TRY(auto moved, runSteps(scheduled, f, args, steps, options));
    for (size_t i = 0; i < errors.size(); ++i) widen(errors[i], still[i], moved[i]);
  }
  reference.commErrors = std::move(errors);
  return Ok{};
}

Status addUnpromised(Reference& reference, Module& propagated, FuncId f, std::span<const Tensor> args,
                     int steps, bool tf32) {
  if (!passesFiniteAlone(propagated)) return Ok{};
  UnpromisedValues values(propagated);
  EvalOptions options;
  options.tf32 = tf32;
  values.attach(options);
  DTC_TRY(reference.unpromised, runSteps(propagated, f, args, steps, options));
  return Ok{};
}

// Compares one replica of result i.
static ResultCheck checkResult(const Reference& reference, const Tensor& got, size_t i,
                               const std::string& name, CompareOptions within) {
  within.coarseHops = false;
  ResultCheck r{name, got.shape(), compareTensors(got, reference.r64[i], reference.rd[i], within)};
  within.coarseHops = true;
  if (i < reference.commErrors.size()) within.measured = reference.commErrors[i];
  if (!r.report.pass) {
    r.report = compareTensors(got, reference.r64[i], reference.rd[i], within);
    r.byCommRounding = r.report.pass && !within.measured;
  }
  if (i < reference.unpromised.size()) within.unpromised = &reference.unpromised[i];
  if (!r.report.pass && within.unpromised)
    r.report = compareTensors(got, reference.r64[i], reference.rd[i], within);
  if (!r.report.pass && !reference.perturbed.empty()) {
    for (const std::vector<Tensor>& results : reference.perturbed) within.perturbed.push_back(&results[i]);
    r.report = compareTensors(got, reference.r64[i], reference.rd[i], within);
  }
  return r;
}

CheckReport checkResults(const Reference& reference, const NamedTensors& got,
                         std::span<const CompareOptions> options, const Executable* ran) {
  CheckReport report;
  report.manyDevices = reference.manyDevices;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto& [name, value] = got[i];
    ResultCheck r = checkResult(reference, *value, i, name, options[i]);
    Result<std::vector<Replica>> replicas = std::vector<Replica>();
    if (ran) replicas = ran->replicas(i);
    if (!replicas) r.report.pass = false, r.report.reason = replicas.error().message;
    for (size_t k = 1; replicas && k < replicas->size() && r.report.pass; ++k) {
      const Replica& other = (*replicas)[k];
      ResultCheck second = checkResult(reference, other.value, i, name, options[i]);
      if (second.report.pass) continue;
      second.report.reason = "on device " + std::to_string(other.coordinate) +
                             ran->ofProcess(other.coordinate) + ", " + second.report.reason;
      r = std::move(second);
    }
    report.pass = report.pass && r.report.pass;
    report.results.push_back(std::move(r));
  }
  return report;
}

Result<CheckReport> checkRunResults(Reference& reference, const CheckedRun& run, const NamedTensors& got,
                                    const CommRounding& rounding, const Executable* ran) {
  const auto in = [&](const Module& m) { return m.findFunction(run.function); };
  const auto compared = [&] { return checkResults(reference, got, rounding.ofResults(), ran); };
  CheckReport report = compared();
  if (!report.pass && run.propagated) {
    Module& m = *run.propagated;
    if (Status s = addUnpromised(reference, m, in(m), run.args, run.steps, run.tf32); !s) return s.error();
    report = compared();
  }
  // Magnitudes of rounded values are measured only if they decide the verdict. A program that the evaluator
  // cannot run keeps the bound derived from the result's magnitude.
  if (std::ranges::any_of(report.results, &ResultCheck::byCommRounding) &&
      addCommErrors(reference, run.scheduled, in(run.scheduled), run.args, run.steps, rounding))
    report = compared();
  if (!report.pass) {
    Module& m = run.unsharded;
    if (reference.perturbed.empty())
      if (Status s = addPerturbed(reference, m, in(m), run.args, run.steps); !s) return s.error();
    report = compared();
  }
  return report;
}

std::string CheckReport::text() const {
  std::string out;
  for (const ResultCheck& r : results) {
    const CompareReport& c = r.report;
    out += "check " + r.name + ": " + (c.pass ? "ok" : "FAILED");
    if (c.whereAbs >= 0) {
      out += ", largest error " + significant(c.maxAbs) + " at " + indexText(c.whereAbs, r.shape) +
             " (allowed " + significant(c.allowedMax) + ")";
      if (c.whereRel >= 0)
        out += ", relative " + significant(c.maxRel) + " at " + indexText(c.whereRel, r.shape) +
               (c.pass && c.maxRel >= kNearZero ? ", a value near 0 (only its error is compared)" : "");
      out += ", rms " + significant(c.rms) + " (allowed " + significant(c.allowedRms) + ")";
    } else if (c.pass) {
      const int64_t equal = c.elements - c.unpromised;
      out += ", equal in " + (c.unpromised ? std::to_string(equal) + " of " : "all ") +
             std::to_string(c.elements) + (c.elements == 1 ? " element" : " elements");
    }
    if (c.sensitive)
      out += "; " + counted(c.sensitive, "further element") + " within the spread of perturbed evaluations";
    if (c.unpromised)
      out +=
          "; nothing is promised for " + std::to_string(c.unpromised) +
          ", which depend on an infinite factor or a divisor of 0 (docs/sharding.md, \"Infinities and NaN\")";
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
           ", \"pass\": " + (c.pass ? "true" : "false") +
           (c.sensitive ? ", \"sensitive\": " + std::to_string(c.sensitive) : "") +
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
