#include "ViewTrace.h"

#include "dtc/Files/InputFile.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Report/view/View.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/Suggest.h"

namespace dtc {

static constexpr size_t kMaxTraceBytes = size_t{512} << 20;

Result<bool> isTrace(Environment& env, const std::string& file) {
  constexpr int64_t kHead = 1 << 16;
  if (file == "-") {
    DTC_TRY(const auto source, env.read(file, kMaxTraceBytes));
    return looksLikeTrace(std::string_view(source.text).substr(0, kHead));
  }
  if (file.ends_with(".json")) return true;
  const auto opened = file.empty() ? Result<InputFile>(InputFile()) : InputFile::open(file);
  if (!opened) return false; // reported when it is read
  const auto head = opened->text(0, std::min(opened->size(), kHead));
  return head && looksLikeTrace(*head);
}

Result<LoadedTrace> loadTrace(Environment& env, const std::string& file) {
  DTC_TRY(auto source, env.read(file, kMaxTraceBytes));
  if (source.text.size() > kMaxTraceBytes)
    return inputError(quotedPath(file) + " is too long for a trace: at most 512 MiB are read");
  Diagnostics diags;
  auto trace = readTrace(source, diags);
  if (env.report(diags, source) != 0 || !trace) return inputError("");
  return LoadedTrace{std::move(source), *std::move(trace)};
}

Result<std::string> targetOfTrace(const MeasuredTrace& trace) {
  Module m(standardOps());
  Diagnostics quiet;
  if (!trace.scheduled.empty() && loadText({"", trace.scheduled}, ReadOptions(), m, quiet))
    if (const auto entry = entryOf(m, trace.entry))
      if (std::string target = writtenTarget(m, *entry); !target.empty()) return target;
  return targetOfBackend(trace.backend);
}

// The program of the trace's text, or of --program; placed.
static Result<Session> sessionOf(Environment& env, const ViewTrace& o, const MeasuredTrace& trace) {
  const bool given = !o.program.empty();
  if (!given && trace.scheduled.empty())
    return inputError(quotedPath(o.file) + " does not have its program: name it with --program FILE");
  ProgramOptions options = o.options;
  options.file = o.program;
  Result<Module> m = given ? loadProgram(env, options)
                           : loadText(env, {o.file + " (its program)", trace.scheduled}, ReadOptions());
  if (!m) return m.error();
  const bool named = options.entry.empty() && m->findFunction(trace.entry).valid();
  DTC_TRY(const FuncId entry, entryOf(*m, named ? trace.entry : options.entry));
  DTC_TRY(const std::string target, targetOfTrace(trace));
  Session session(*std::move(m), entry, o.lowering.pipeline(target));
  Diagnostics diags;
  const Status done = session.lower(Stage::Placed, diags);
  const bool failed = env.report(diags, session.module().source) != 0;
  if (failed) return inputError("");
  if (!done) return done.error();
  return session;
}

Result<int> viewTrace(Environment& env, const ViewTrace& o) {
  DTC_TRY(const TraceMachine machine,
          o.machine.empty() ? Result<TraceMachine>(TraceMachine()) : parseTraceMachine(o.machine));
  DTC_TRY(const LoadedTrace loaded, loadTrace(env, o.file));
  const MeasuredTrace& trace = loaded.trace;
  DTC_TRY(Session session, sessionOf(env, o, trace));
  Diagnostics diags;
  if (!o.program.empty() && !isProgramOf(session.module(), session.entry(), trace, diags)) {
    env.report(diags, session.module().source);
    return kExitInput;
  }
  const auto compared = compareTrace(session.module(), session.entry(), trace, machine, diags);
  if (env.report(diags, loaded.source) != 0 || !compared) return kExitInput;
  if (o.format == "text") return writeOut(env, o.out, comparisonText(*compared, o.columns));
  if (o.format == "json") return writeOut(env, o.out, comparisonJson(*compared));
  const std::string svg = comparisonSvg(*compared);
  return writeOut(env, o.out, o.format == "html" ? htmlPage(trace.program, svg) : svg);
}

} // namespace dtc
