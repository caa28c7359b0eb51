#include "dtc/Passes/pipeline/Pipeline.h"

#include "dtc/IR/text/Text.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"
#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/Passes/simplify/Specialize.h"
#include "dtc/Passes/trace/CommContracts.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <chrono>

namespace dtc {

namespace {

constexpr DiagKind kPassOrder{"pass-order", "{0}: run '{1}' before '{2}'"};
constexpr DiagKind kUnfit{"unfit-shardings",
                          "{0}: run 'propagate' before '{1}', or correct the annotated shardings"};

std::string nearest(std::string_view word, const std::vector<std::string_view>& known) {
  return suggestion(Vocabulary::Plain, word, known);
}

// The options of one pass: "limit=4, strict".
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
    const std::string value =
        equal == std::string_view::npos ? "true" : std::string(trimmed(one.substr(equal + 1)));
    if (!step.options.values.emplace(name, value).second)
      return usageError("pass '" + std::string(step.pass->name) + "': option '" + std::string(name) +
                        "' is given twice");
  }
  return Ok{};
}

Result<PassStep> parseStep(std::string_view text) {
  size_t brace = text.find('{');
  std::string_view name = trimmed(text.substr(0, brace));
  PassStep step;
  step.pass = findPass(name);
  if (name.empty()) return usageError("-p: expected the name of a pass before ',' or '{'");
  if (!step.pass) {
    std::vector<std::string_view> known;
    for (const PassInfo& p : passTable()) known.emplace_back(p.name);
    return usageError("unknown pass '" + std::string(name) + "'" + nearest(name, known) +
                      " (`dtc opt --list-passes` lists them)");
  }
  if (brace == std::string_view::npos) return step;
  if (text.back() != '}')
    return usageError("-p: the options of pass '" + std::string(name) + "' are not closed by '}'");
  auto parsed = parseOptions(text.substr(brace + 1, text.size() - brace - 2), step);
  if (!parsed) return parsed.error();
  return step;
}

// Split text without an op that belongs in a kernel counts as fused.
bool hasKernels(const Module& m) {
  bool any = false;
  for (FuncId f : m.order)
    forEachOp(m, m[f].body, [&](OpId o) { any = any || m.record(o).regions == RegionKind::Fused; });
  return any;
}

// Names all passes that raise the level of the text to what `step` needs. Text with kernels, a schedule or
// offsets is not rewritten by passes on text without: these would become invalid.
Status checkLevel(const Module& m, const PassStep& step) {
  const Level has = levelOf(m), needs = step.pass->needs;
  const auto wrong = [&](const std::string& instead) {
    return inputError("pass '" + std::string(step.pass->name) + "' takes " + std::string(levelName(needs)) +
                      " text, but this is " + instead);
  };
  const bool both = step.pass->produces == Level::Split && has == Level::Fused && !hasKernels(m);
  if (!m.order.empty() && has >= Level::Split && has > step.pass->produces && !step.pass->anyLevel && !both)
    return wrong("already " + std::string(levelName(has)));
  if (has >= needs) return Ok{};
  std::vector<std::string> missing;
  Level level = has;
  for (const PassInfo& p : passTable())
    if (level < needs && p.produces > std::max(level, p.needs))
      missing.push_back("'" + std::string(p.name) + "'"), level = p.produces;
  std::string list;
  for (size_t i = 0; i < missing.size(); ++i)
    list += (i == 0 ? "" : i + 1 == missing.size() ? " and " : ", ") + missing[i];
  return wrong(std::string(levelName(has)) + "; run " + list + " before it");
}

// All passes but those that establish it need caller and callee to use the same sizes.
Status checkSizes(Module& m, const PassStep& step) {
  if (step.pass->takesBoundSizes || !bindsSizes(m)) return Ok{};
  return inputError("pass '" + std::string(step.pass->name) +
                    "' does not support calls that bind sizes of the callee; run 'inline' before it, or "
                    "'specialize' to keep the calls");
}

// Text with annotated shardings that did not come from propagate: without this check, an unmet requirement of
// an op would go undetected.
bool checkFit(const Module& m, const PassStep& step, Diagnostics& diags) {
  const auto misfit = firstMisfit(m);
  if (misfit) diags.error(kUnfit, misfit->loc, misfit->what, step.pass->name);
  return !misfit;
}

// The passes that schedule need the form that the passes on local text establish.
bool checkLowered(const Module& m, const PassStep& step, Diagnostics& diags) {
  if (step.pass->produces < Level::Split) return true;
  for (FuncId f : m.order)
    if (const auto found = firstUnlowered(m, f))
      return diags.fail(kPassOrder, m[found->op].loc, found->what, found->pass, step.pass->name);
  return true;
}

} // namespace

std::string_view levelName(Level level) {
  switch (level) {
  case Level::Global: return "global";
  case Level::Propagated: return "propagated";
  case Level::Local: return "local";
  case Level::Split: return "split";
  case Level::Fused: return "fused";
  case Level::Scheduled: return "scheduled";
  case Level::Placed: return "placed";
  }
  return "";
}

Level levelOf(const Module& m) {
  Level lowest = Level::Placed;
  for (FuncId f : m.order)
    if (m[f].body.valid()) lowest = std::min(lowest, levelOf(m, f));
  return lowest;
}

Result<std::vector<PassStep>> parsePipeline(std::string_view text) {
  std::vector<PassStep> steps;
  while (!trimmed(text).empty()) {
    size_t end = 0, depth = 0;
    for (; end < text.size() && (depth || text[end] != ','); ++end) {
      if (text[end] == '{') ++depth;
      if (text[end] == '}' && depth) --depth;
    }
    DTC_TRY(auto step, parseStep(trimmed(text.substr(0, end))));
    steps.push_back(std::move(step));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return steps;
}

std::string pipelineText(const std::vector<PassStep>& steps) {
  std::string text;
  for (const PassStep& step : steps) {
    const std::string options = joined(step.options.values, ",",
                                       [](const auto& option) { return option.first + "=" + option.second; });
    text += (text.empty() ? "" : ",") + std::string(step.pass->name) +
            (options.empty() ? "" : "{" + options + "}");
  }
  return text;
}

// The steps from `next` on if they plan memory, else those of the standard pipeline.
static std::optional<int64_t> plannedPeak(const Module& now, const std::vector<PassStep>& steps,
                                          ptrdiff_t next) {
  const auto plans = [](const PassStep& s) { return s.pass->produces == Level::Placed; };
  std::vector<PassStep> rest(steps.begin() + next, steps.end());
  if (std::ranges::none_of(rest, plans)) rest = standardPipeline(levelOf(now), {}).all();
  Module copy = now;
  Diagnostics quiet;
  if (!runPipeline(copy, rest, quiet)) return std::nullopt;
  std::optional<int64_t> peak;
  const StrId arena = copy.strings.find("arena");
  for (FuncId f : copy.order)
    if (const AttrId bytes = arena.valid() ? findAttr(copy[f].attrs, arena) : AttrId(); bytes.valid())
      peak = std::max(peak.value_or(0), copy.attrs[bytes].i);
  return peak;
}

Status runPipeline(Module& m, const std::vector<PassStep>& steps, Diagnostics& diags,
                   const PipelineHooks& hooks) {
  PipelineState own;
  PipelineState& state = hooks.state ? *hooks.state : own;
  bool good = true;
  for (const PassStep& step : steps) good = checkOptions(*step.pass, step.options, diags) && good;
  if (!good) return inputError("");
  for (const PassStep& step : steps) {
    if (auto fits = checkLevel(m, step); !fits) return fits.error();
    if (auto fits = checkSizes(m, step); !fits) return fits.error();
    if (!state.propagated && step.pass->needs == Level::Propagated && levelOf(m) == Level::Propagated)
      if (!checkFit(m, step, diags)) return inputError("");
    if (!checkLowered(m, step, diags)) return inputError("");
    state.propagated = state.propagated || step.pass->produces == Level::Propagated;
    if (hooks.progress)
      hooks.progress(step.pass->name, static_cast<size_t>(&step - steps.data()), steps.size());
    auto start = std::chrono::steady_clock::now();
    PassOptions options = step.options;
    if (hooks.remarks) options.remarks = hooks.remarks;
    if (step.pass->produces == Level::Propagated && hasCommContracts(m)) {
      state.beforePropagate = m;
      auto it = options.values.find("policy");
      state.policy = it != options.values.end() ? it->second : "";
    }
    const Unpropagated unpropagated{state.beforePropagate ? &*state.beforePropagate : nullptr, state.policy};
    options.unpropagated = unpropagated.module ? &unpropagated : nullptr;
    options.plannedPeak = [&](const Module& now) {
      return plannedPeak(now, steps, &step + 1 - steps.data());
    };
    if (!step.pass->run(m, options, diags)) return inputError("");
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (hooks.after) hooks.after(step, m, took.count());
    Diagnostics wrong;
    if (hooks.verifyEach && !verifyText(m, wrong)) {
      std::string what = "pass '" + std::string(step.pass->name) + "' left a module that does not verify";
      for (const Diagnostic& d : wrong.all()) what += "\n  " + d.message();
      return Error{Error::Bug, std::move(what)};
    }
  }
  return Ok{};
}

} // namespace dtc
