#include "dtc/Passes/Pipeline.h"

#include "dtc/IR/Text.h"
#include "dtc/Passes/Autodiff.h"
#include "dtc/Passes/CommContracts.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Passes/Propagate.h"
#include "dtc/Passes/Specialize.h"
#include "dtc/Support/Suggest.h"

#include <algorithm>
#include <chrono>

namespace dtc {

namespace {

constexpr DiagKind kPassOrder{"pass-order", "{0}: run '{1}' before '{2}'"};
constexpr DiagKind kUnfit{"unfit-shardings",
                          "{0}: run 'propagate' before '{1}', or write the shardings that fit"};

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

// All but those that make it so take a program in which caller and callee speak of the same sizes.
Status checkSizes(Module& m, const PassStep& step) {
  const auto run = step.pass->run;
  if (run == inlinePass || run == autodiffPass || run == specializePass || !bindsSizes(m)) return Ok{};
  return inputError(
      "pass '" + std::string(step.pass->name) +
      "' takes a program in which no call binds sizes of the function; run 'inline' before it, or "
      "'specialize' where the calls are to stay");
}

// Text with all shardings written that no propagate made: what an op needs and does not get would go unseen.
bool checkFit(const Module& m, const PassStep& step, Diagnostics& diags) {
  const auto misfit = firstMisfit(m);
  if (misfit) diags.error(kUnfit, misfit->loc, misfit->what, step.pass->name);
  return !misfit;
}

// What makes scheduled text takes what the passes for local text have rewritten.
bool checkLowered(const Module& m, const PassStep& step, Diagnostics& diags) {
  if (step.pass->gives != Level::Scheduled) return true;
  for (FuncId f : m.order)
    if (const auto found = firstUnlowered(m, f)) {
      diags.error(kPassOrder, m[found->op].loc, found->what, found->pass, step.pass->name);
      return false;
    }
  return true;
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
  PipelineState own;
  PipelineState& state = hooks.state ? *hooks.state : own;
  for (const PassStep& step : steps) {
    if (auto fits = checkLevel(m, step); !fits) return fits.error();
    if (auto fits = checkSizes(m, step); !fits) return fits.error();
    if (!state.propagated && step.pass->needs == Level::Propagated && levelOf(m) == Level::Propagated)
      if (!checkFit(m, step, diags)) return inputError("");
    if (!checkLowered(m, step, diags)) return inputError("");
    state.propagated = state.propagated || step.pass->gives == Level::Propagated;
    if (hooks.progress)
      hooks.progress(step.pass->name, static_cast<size_t>(&step - steps.data()), steps.size());
    auto start = std::chrono::steady_clock::now();
    PassOptions options = step.options;
    if (hooks.remarks) options.remarks = hooks.remarks;
    if (step.pass->gives == Level::Propagated && hasCommContracts(m)) {
      state.beforePropagate = m;
      auto it = options.values.find("policy");
      state.policy = it != options.values.end() ? it->second : "";
    }
    const Unpropagated unpropagated{state.beforePropagate ? &*state.beforePropagate : nullptr, state.policy};
    options.unpropagated = unpropagated.module ? &unpropagated : nullptr;
    if (!step.pass->run(m, options, diags)) return inputError("");
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (hooks.after) hooks.after(step, m, took.count());
    Diagnostics wrong;
    if (hooks.verifyEach && !verifyModule(m, wrong)) {
      std::string what = "pass '" + std::string(step.pass->name) + "' left a module that does not verify";
      for (const Diagnostic& d : wrong.all()) what += "\n  " + d.message();
      return Error{Error::Bug, std::move(what)};
    }
  }
  return Ok{};
}

} // namespace dtc
