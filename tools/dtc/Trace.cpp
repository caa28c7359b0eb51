// dtc trace: merges what the processes of a run have recorded.
#include "Verbs.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Report/trace/FlightDumps.h"
#include <CLI/CLI.hpp>
#include <memory>

namespace dtc {

namespace {

constexpr size_t kMaxDumpBytes = size_t{512} << 20;

struct TraceOptions {
  std::string action, out;
  std::vector<std::string> files;
};

Result<int> merge(Environment& env, const TraceOptions& o) {
  std::vector<FlightDump> dumps;
  for (const std::string& file : o.files) {
    DTC_TRY(const auto source, env.read(file, kMaxDumpBytes));
    if (source.text.size() > kMaxDumpBytes)
      return inputError(quotedPath(file) + " is too long for a dump: at most 512 MiB are read");
    DTC_TRY(auto read, readFlightDumps(quotedPath(file), source.text));
    std::ranges::move(read, std::back_inserter(dumps));
  }
  DTC_TRY(const std::string report, flightReport(dumps));
  if (o.out.empty()) {
    env.out(report);
    return kExitDone;
  }
  if (o.out != "-")
    if (Status s = writeFileAtomically(o.out, mergedDumps(dumps)); !s) return s.error();
  o.out == "-" ? env.out(mergedDumps(dumps)) : env.out(report);
  return kExitDone;
}

Result<int> runTrace(Environment& env, const TraceOptions& o) {
  if (o.action != "merge")
    return usageError(o.action.empty() ? "missing action: use `dtc trace merge`"
                                       : unknownWord("action", o.action, {"merge"}));
  if (o.files.empty()) return usageError("`dtc trace merge` needs the dumps of `dtc run --comm-dump`");
  return merge(env, o);
}

} // namespace

Verb traceVerb() {
  Verb v;
  v.name = "trace";
  v.usage = "merge FILE ... [flags]";
  v.summary = "merge the dumps of several processes";
  v.examples =
      "  dtc trace merge dump-*.json              (who arrived last, and where; who has not arrived)\n"
      "  dtc trace merge dump-*.json -o all.json  (also as one file)";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<TraceOptions>();
    app.add_option("ACTION", o->action, "merge: report on dumps of `dtc run --comm-dump`")
        ->type_name("merge");
    app.add_option("FILE", o->files, "the dumps")->type_name("FILE")->expected(0, 1 << 20);
    app.add_option("-o", o->out, "write all dumps to one file, with times by the clock of process 0")
        ->type_name("FILE");
    return [o](Environment& env) { return runTrace(env, *o); };
  };
  return v;
}

} // namespace dtc
