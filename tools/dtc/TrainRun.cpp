#include "TrainRun.h"
#include "CommandLine.h"
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

} // namespace dtc
