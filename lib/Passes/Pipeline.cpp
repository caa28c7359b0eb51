#include "dtc/Passes/Pipeline.h"

#include "dtc/IR/Text.h"
#include "dtc/Passes/CommContracts.h"
#include "dtc/Passes/Propagate.h"
#include "dtc/Support/Suggest.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace dtc {

namespace {

std::string nearest(std::string_view word, const std::vector<std::string_view>& known) {
  return suggestion(Vocabulary::Plain, word, known);
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// "limit=4, strict": the options of one pass.
Status parseOptions(std::string_view text, PassStep& step) {
  while (!trimmed(text).empty()) {
    size_t comma = text.find(',');
    std::string_view one = trimmed(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    size_t equal = one.find('=');
    std::string_view name = trimmed(one.substr(0, equal));
    std::vector<std::string_view> known;
    for (const PassOption& o : step.pass->options) known.emplace_back(o.name);
    if (std::find(known.begin(), known.end(), name) == known.end())
      return usageError("pass '" + std::string(step.pass->name) + "' has no option '" + std::string(name) +
                        "'" + nearest(name, known) + " (`dtc opt --help-pass " + step.pass->name +
                        "` lists them)");
    step.options.values[std::string(name)] =
        equal == std::string_view::npos ? "true" : std::string(trimmed(one.substr(equal + 1)));
  }
  return Ok{};
}

Result<PassStep> parseStep(std::string_view text) {
  size_t brace = text.find('{');
  std::string_view name = trimmed(text.substr(0, brace));
  PassStep step;
  step.pass = findPass(name);
  if (!step.pass) {
    std::vector<std::string_view> known;
    for (const PassInfo& p : passTable()) known.emplace_back(p.name);
    return usageError("unknown pass '" + std::string(name) + "'" + nearest(name, known) +
                      " (`dtc opt --list-passes` lists them)");
  }
  if (brace == std::string_view::npos) return step;
  if (text.back() != '}')
    return usageError("-p: the options of pass '" + std::string(name) + "' lack their '}'");
  auto parsed = parseOptions(text.substr(brace + 1, text.size() - brace - 2), step);
  if (!parsed) return parsed.error();
  return step;
}

// The pass whose work `step` lacks.
Status checkLevel(const Module& m, const PassStep& step) {
  Level has = levelOf(m), needs = step.pass->needs;
  if (has >= needs) return Ok{};
  const PassInfo* giver = nullptr;
  for (const PassInfo& p : passTable())
    if (!giver && p.gives >= needs && p.gives > p.needs) giver = &p;
  std::string message = "pass '" + std::string(step.pass->name) + "' takes " + std::string(levelName(needs)) +
                        " text, but this is " + std::string(levelName(has));
  if (giver) message += "; run '" + std::string(giver->name) + "' before it";
  return inputError(std::move(message));
}

// Text with all shardings written that no propagate made: what an op needs and does not get would go unseen.
Status checkFit(const Module& m, const PassStep& step) {
  const auto misfit = firstMisfit(m);
  if (!misfit) return Ok{};
  std::string what = "the ops";
  if (misfit->valid())
    what = "'" + std::string(m.record(*misfit).name) + "' at " + m.source.name + ":" +
           std::to_string(lineColumn(m.source.text, m[*misfit].loc.begin).line);
  return inputError("pass '" + std::string(step.pass->name) +
                    "' takes propagated text, but here the shardings that are written do not fit " + what +
                    "; run 'propagate' before it");
}

} // namespace

std::string_view levelName(Level level) {
  switch (level) {
  case Level::Global: return "global";
  case Level::Propagated: return "propagated";
  case Level::Local: return "local";
  case Level::Scheduled: return "scheduled";
  }
  return "";
}

Level levelOf(const Module& m) {
  Level least = Level::Scheduled;
  for (FuncId f : m.order)
    if (m[f].body.valid()) least = std::min(least, levelOf(m, f));
  return least;
}

Result<std::vector<PassStep>> parsePipeline(std::string_view text) {
  std::vector<PassStep> steps;
  while (!trimmed(text).empty()) {
    size_t end = 0, depth = 0;
    for (; end < text.size() && (depth || text[end] != ','); ++end) {
      if (text[end] == '{') ++depth;
      if (text[end] == '}' && depth) --depth;
    }
    auto step = parseStep(trimmed(text.substr(0, end)));
    if (!step) return step.error();
    steps.push_back(std::move(*step));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return steps;
}

Status runPipeline(Module& m, const std::vector<PassStep>& steps, Diagnostics& diags,
                   const PipelineHooks& hooks) {
  std::optional<Module> before; // propagate, for the reasons of what breaks a contract
  Unpropagated unpropagated;
  bool propagated = false; // here, so that each op's shardings fit it
  for (const PassStep& step : steps) {
    if (auto fits = checkLevel(m, step); !fits) return fits.error();
    if (!propagated && step.pass->needs == Level::Propagated && levelOf(m) == Level::Propagated)
      if (auto fits = checkFit(m, step); !fits) return fits.error();
    propagated = propagated || step.pass->gives == Level::Propagated;
    if (hooks.progress)
      hooks.progress(step.pass->name, static_cast<size_t>(&step - steps.data()), steps.size());
    auto start = std::chrono::steady_clock::now();
    PassOptions options = step.options;
    if (hooks.remarks) options.remarks = hooks.remarks;
    if (step.pass->gives == Level::Propagated && hasCommContracts(m)) {
      before = m;
      unpropagated.module = &*before;
      if (auto it = options.values.find("policy"); it != options.values.end())
        unpropagated.policy = it->second;
    }
    options.unpropagated = before ? &unpropagated : nullptr;
    if (!step.pass->run(m, options, diags)) return inputError("");
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (hooks.after) hooks.after(step, m, took.count());
    Diagnostics own;
    if (hooks.verifyEach && !verifyModule(m, own)) {
      std::string what = "pass '" + std::string(step.pass->name) + "' left a module that does not verify";
      for (const Diagnostic& d : own.all()) what += "\n  " + d.message();
      return Error{Error::Bug, std::move(what)};
    }
  }
  return Ok{};
}

} // namespace dtc
