#include "Job.h"
#include "ExitReports.h"
#include "Version.h"

#include "dtc/IR/text/Text.h"
#include "dtc/Runtime/comm/SameProgram.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace dtc {

// Lines that can be named in an error.
static std::string argumentsOf(const Environment& env) {
  std::string lines = versionText() + "\n";
  for (size_t i = 1; i < env.commandLine.size(); ++i) lines += "argument: " + env.commandLine[i] + "\n";
  return lines + "no further argument\n";
}

Result<std::unique_ptr<Job>> Job::open(Environment& env, double timeoutSeconds, const std::string& comm,
                                       const std::string& folders) {
  const ProcessTransport by = comm == "mpi" ? ProcessTransport::Mpi : transportOfLauncher();
  DTC_TRY(auto processes, Processes::open(timeoutSeconds, true, by));
  env.connected = true;
  if (processes->rank() != 0) env.mute();
  std::unique_ptr<Job> job(new Job(std::move(processes), by));
  job->processes_->stage("the comparison of arguments");
  // With other flags, the rounds until start() would be others, too.
  if (Status s = job->agree(argumentsOf(env) + folders); !s) return s.error();
  job->processes_->stage("the compilation and the inputs");
  return job;
}

// "text" of "error: text [kind]\n"; more lines are kept.
static std::string withoutKind(std::string text) {
  text = withoutErrorWord(std::move(text));
  if (text.ends_with(']') && text.find('\n') == std::string::npos)
    text.resize(std::min(text.rfind(" ["), text.size()));
  return text;
}

static int maxOf(const std::vector<std::string>& codes) {
  int code = 0;
  for (const std::string& c : codes) code = std::max(code, std::atoi(c.c_str()));
  return code;
}

// Names the first line that differs between process 0 and the first other process that has another document.
Status Job::different(const std::string& document) {
  DTC_TRY(const auto all, processes_->round(document));
  return usageError("the processes do not have the same program, flags and files" +
                    firstDifference(*processes_, all));
}

// `document`: what all processes must have in common, with lines that can be named in an error.
Status Job::agree(const std::string& document) {
  DTC_TRY(const auto all, processes_->round(std::to_string(hashOfText(document))));
  if (std::ranges::count(all, all[0]) == std::ssize(all)) return Ok{};
  phase_ = Phase::Ran; // all see this error
  return different(document);
}

Status Job::start(const Module& scheduled, const std::string& files, Communicator& communicator) {
  const std::string program = numberedLines(scheduled.source.name, scheduled.source.text);
  processes_->stage("the comparison of programs and files, after the compilation and the inputs");
  if (Status s = agree(files + program + printModule(scheduled)); !s) return s;
  if (Status s = communicator.synchronizeClocks(); !s) return s;
  processes_->stage("the run");
  phase_ = Phase::Running;
  return Ok{};
}

// The first process that answers says why. Process 0 is not that one if it was stopped for a while.
void Job::failed(Environment& env) {
  if (processes_->failure()) return;
  failureTold_ = true;
  if (processes_->speaker() != processes_->rank()) env.mute();
}

// Messages of a run may be in flight, so MPI cannot be ended in order.
void Job::abort(Environment& env, int code) {
  const bool speaks = processes_->speaker() == processes_->rank();
  if (!speaks) std::this_thread::sleep_for(std::chrono::seconds(5));
  // A process that speaks has reported it; by MPI, it has ended this one, too.
  if (speaks || by_ == ProcessTransport::Mpi) {
    env.writeDocument();
    std::fputs(env.mutedText().c_str(), stderr); // of a process that is not muted it is empty
  }
  (void)env.finish();
  std::fflush(nullptr);
  reportExit(code);
  processes_->abort(code);
}

Status Job::failureOf(const Status& step, const std::string& source) const {
  const Status failure = processes_->failure();
  const auto wait = processes_->waitAtFailure();
  return failure || !wait || wait->at.starts_with(source + ":") ? step : failure;
}

Status Job::ofFirst(const Status& mine) {
  const std::string problem = mine ? "" : std::to_string(mine.error().kind) + mine.error().message;
  DTC_TRY(const auto all, processes_->round(problem));
  if (all[0].empty()) return Ok{};
  return Error{static_cast<Error::Kind>(all[0][0] - '0'), all[0].substr(1)};
}

void Job::tellWhose(Environment& env, std::optional<int> without) const {
  const std::string other = without ? "; " + processes_->name(*without) + " has none" : "";
  env.err("note: this is an error of " + processes_->name(processes_->rank()) + other + "\n");
}

// Of a run that all have come to the end of: a full disk, for example.
int Job::worstOf(Environment& env, int code, const std::vector<std::string>& codes) const {
  const auto good = std::ranges::find(codes, "0");
  if (code == kExitMachine && good != codes.end()) tellWhose(env, static_cast<int>(good - codes.begin()));
  return maxOf(codes);
}

Result<int> Job::codeOfAll(Environment& env, int code) {
  if (phase_ != Phase::Ran && code != 0) return code; // finish() tells the others
  processes_->stage("the end of an entry");
  auto codes = processes_->round(std::to_string(code));
  if (codes) return worstOf(env, code, *codes);
  failed(env);
  return codes.error();
}

int Job::finish(Environment& env, int code) {
  if (phase_ == Phase::Ran && code == 0) processes_->stage("the end of the run");
  if (phase_ == Phase::Running && code != 0) { // others wait in a collective
    const bool isOwn = bool(processes_->failure());
    if (isOwn) processes_->fail(code, withoutKind(env.mutedErrors()));
    if (isOwn && code == kExitMachine) tellWhose(env, std::nullopt);
    abort(env, code);
  }
  if (!processes_->problem()) {
    const std::string problem = std::to_string(code) + " " + withoutKind(env.mutedErrors());
    const bool ends = phase_ == Phase::Loading && code != 0;
    const auto codes = processes_->round(std::to_string(code), ends ? &problem : nullptr);
    if (codes) return worstOf(env, code, *codes);
    if (ends && processes_->problem() && processes_->problem()->without && !failureTold_)
      tellWhose(env, processes_->problem()->without);
    if (!ends && !failureTold_) {
      failed(env);
      (void)env.fail(codes.error()); // of another process
    }
    if (!processes_->problem()) abort(env, kExitMachine);
  }
  return std::max(1, std::atoi(processes_->problem()->text.c_str()));
}

} // namespace dtc
