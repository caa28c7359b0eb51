#include "TrainRun.h"
#include "CommandLine.h"
#include "ExitReports.h"
#include "Interrupt.h"

#include <algorithm>

namespace dtc {

static Result<std::vector<DataSpec>> specsOf(const char* flag, std::span<const std::string> texts) {
  std::vector<DataSpec> specs;
  for (const std::string& text : texts) {
    DTC_TRY(auto spec, parseDataSpec(flag, text));
    specs.push_back(std::move(spec));
  }
  return specs;
}

Result<TrainOptions> trainOptionsOf(const Environment& env, const RunOptions& o) {
  TrainOptions t;
  DTC_TRY(t.data, specsOf("--data", o.train.data));
  t.steps = std::max(1, o.loop);
  t.evalEvery = o.train.evalEvery;
  t.checkpoints = o.train.checkpoint;
  t.checkpointEvery = o.train.checkpointEvery;
  if (o.train.checkpointKeep) t.keep = static_cast<size_t>(o.train.checkpointKeep);
  t.resume = o.train.resume;
  t.log = o.train.log;
  t.command = env.commandLine;
  t.interrupted = [] { return InterruptRequests::signal() != 0; };
  t.checkpointWanted = [] { return CheckpointRequests::take(); };
  return t;
}

Result<std::vector<DataSpec>> evalDataOf(const RunOptions& o) { return specsOf("--eval", o.train.eval); }

std::string nanCommand(const Environment& env, int64_t step, bool checkpoint) {
  constexpr std::string_view kReplaced[] = {"--loop", "--log", "--eval",
                                            "--eval-every"}; // flags with a value
  constexpr std::string_view kAdded[] = {"--resume", "--nan"};
  std::string text;
  const std::vector<std::string>& words = env.commandLine;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view name = std::string_view(words[i]).substr(0, words[i].find('='));
    if (std::ranges::find(kReplaced, name) != std::end(kReplaced))
      i += name.size() == words[i].size(); // its value is the next word
    else if (std::ranges::find(kAdded, words[i]) == std::end(kAdded))
      text += (text.empty() ? "" : " ") + shellWord(words[i]);
  }
  return text + " --loop " + std::to_string(step) + (checkpoint ? " --resume" : "") + " --nan";
}

std::string resumedText(const Training& t, bool complete) {
  if (!t.resumed()) return "";
  return "note: resumed after step " + std::to_string(t.firstStep()) +
         (complete ? "; all steps have been taken: there is nothing to run\n" : "\n");
}

void reportStopped(Environment& env, int64_t steps) {
  env.err("note: stopped by a signal after step " + std::to_string(steps) +
          ", with a checkpoint: --resume goes on from it\n");
  reportExit(kReportStopped);
}

Error nanError(const Training& t, int64_t step) {
  const std::optional<size_t> loss = t.program().loss;
  return inputError(
      "step " + std::to_string(step + 1) + " has NaN in " +
      (loss ? "its loss, '" + t.program().scalars[*loss].name + "', or in its state" : "its state"));
}

Result<int64_t> firstNanStep(Training& t, std::vector<TensorSource>& sources, int64_t step, Executable& runs,
                             Executable& inspected, const SetArguments& set) {
  DTC_TRY(int64_t at, t.rewind(sources, step));
  if (Status s = set(inspected, true); !s) return s.error();
  if (Status s = set(runs, true); !s) return s.error();
  for (; at < step; ++at) {
    if (Status s = t.setData(runs, at); !s) return s.error();
    if (Status s = runs.run(); !s) return s.error();
    DTC_TRY(const bool found, t.hasNan(runs));
    if (found) break;
    for (const CarriedState& c : t.program().state)
      if (Status s = inspected.setArgument(c.argument, runs, c.result); !s) return s.error();
    if (Status s = set(runs, false); !s) return s.error();
  }
  if (Status s = t.setData(inspected, at); !s) return s.error();
  return at;
}

Status inspectRun(NanSearch& search, Executable& inspected) {
  RunHooks hooks;
  hooks.afterStep = [](void* self, uint32_t number, int64_t device) {
    static_cast<NanSearch*>(self)->afterStep(number, device);
  };
  hooks.self = &search;
  return inspected.run(hooks);
}

} // namespace dtc
