// dtc diff: what changed between two programs, or two shardings of one.
#include "CommandLine.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/Report/diff/DiffPage.h"
#include "dtc/Report/diff/ProgramDiff.h"
#include "dtc/Report/explain/StepCost.h"
#include "dtc/Support/Words.h"
#include "dtc/Target/Target.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dtc {

namespace {

// The flags of one side.
struct SideFlags {
  ProgramOptions program;
  LoweringFlags lowering;
  std::string target = kReportTarget;
  std::vector<std::string> given; // the flags among these that the command line has
};

struct DiffFlags {
  SideFlags both;
  std::vector<const CLI::Option*> sideOptions; // of `both`
  std::string fileB, flagsA, flagsB, save, out;
  std::string maxBytes, maxTime, maxMemory;
  bool json = false, full = false;
  size_t top = 8;
};

void addSideOptions(CLI::App& app, SideFlags& o) {
  addLoweringOptions(app, o.lowering);
  app.add_option("--target", o.target, "target to compile for, if the text states none (sm_90a)")
      ->type_name("cpu|sm_NN[a]");
}

// The flags that were given, by name; files have none.
std::vector<std::string> givenFlags(const std::vector<const CLI::Option*>& options) {
  std::vector<std::string> out;
  for (const CLI::Option* option : options)
    if (option->count() > 0 && !option->get_positional()) out.push_back(option->get_name());
  return out;
}

// The words of a text as a shell splits it: quotes keep blanks, a backslash the character after it.
Result<std::vector<std::string>> shellWords(const std::string& flag, const std::string& text) {
  std::vector<std::string> words;
  bool open = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      open = false;
      continue;
    }
    if (!open) words.emplace_back(), open = true;
    if (quote != 0 ? c == quote : c == '\'' || c == '"')
      quote = quote != 0 ? 0 : c;
    else if (c == '\\' && quote != '\'' && i + 1 < text.size())
      words.back() += text[++i];
    else
      words.back() += c;
  }
  if (quote != 0) return usageError(flag + ": the quote " + std::string(1, quote) + " is not closed");
  return words;
}

// Values of one side replace those of both for the same name: "pod=dp:8" and "pod=dp:2".
void merge(std::vector<std::string>& values, const std::vector<std::string>& own) {
  const auto name = [](const std::string& text) {
    return trimmed(std::string_view(text).substr(0, text.find('=')));
  };
  std::erase_if(values, [&](const std::string& v) {
    return std::ranges::any_of(own, [&](const std::string& o) { return name(o) == name(v); });
  });
  values.insert(values.end(), own.begin(), own.end());
}

Verb sideVerb() {
  Verb v;
  v.name = "diff";
  v.usage = v.summary = v.examples = "";
  return v;
}

// The flags of one side: those of both, and `flags` of --a or --b.
Result<SideFlags> sideOf(const DiffFlags& o, const std::string& flag, const std::string& flags) {
  SideFlags side = o.both;
  DTC_TRY(auto words, shellWords(flag, flags));
  ProgramOptions own;
  own.entry = side.program.entry, own.file = side.program.file;
  CLI::App app("", "dtc diff");
  app.set_help_flag();
  app.allow_extras();
  addProgramOptions(app, own);
  addSideOptions(app, side);
  std::ranges::reverse(words);
  const auto inSide = [&](const Error& e) { return Error{e.kind, "in " + flag + ": " + e.message}; };
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    return inSide(commandLineError(sideVerb(), app, e));
  }
  if (!app.remaining().empty()) return inSide(unexpectedWord(sideVerb(), app, app.remaining().front()));
  for (const std::string& own : givenFlags(std::as_const(app).get_options())) side.given.push_back(own);
  side.program.entry = own.entry, side.program.file = own.file;
  merge(side.program.meshes, own.meshes);
  merge(side.program.dims, own.dims);
  merge(side.program.shardings, own.shardings);
  merge(side.program.bindings, own.bindings);
  if (Status s = checkChoices(side.lowering); !s) return s.error();
  if (auto target = targetNamed(side.target); !target) return target.error();
  return side;
}

// A side that was read: a saved snapshot, or a program.
struct Side {
  SideFlags flags;
  std::string label;
  std::optional<ProgramSnapshot> snapshot;
  std::optional<Module> written;
  FuncId entry;
  bool wrong = false; // its text has errors, which are reported
  Diagnostics diags;
};

Status savedTakesNoFlags(const SideFlags& flags) {
  if (flags.given.empty()) return Ok{};
  return usageError(flags.given.front() + " has no effect on " + flags.program.file +
                    ", which is saved as it was compiled: name a program, or give the flag in --a or --b to "
                    "the one that is a program");
}

Result<Side> readSide(Environment& env, SideFlags flags, std::string label) {
  Side side;
  side.label = std::move(label);
  const std::string& file = flags.program.file;
  if (file == "-" || file.ends_with(".json")) {
    DTC_TRY(const auto source, env.read(file, kMaxProgramBytes));
    if (source.text.size() > kMaxProgramBytes)
      return inputError(file + " is too long: at most 256 MiB are read");
    if (looksLikeSnapshot(source.text) || file.ends_with(".json")) {
      DTC_TRY(side.snapshot, readSnapshot(source));
      if (Status s = savedTakesNoFlags(flags); !s) return s.error();
      side.snapshot->name = side.label;
      return side;
    }
  }
  Diagnostics read;
  Result<Module> written = loadPartly(env, flags.program, read);
  if (!written) // which of the two programs it is
    return Error{written.error().kind,
                 side.label + ": " +
                     (written.error().message.empty()
                          ? "nothing can be compared, because no statement could be read"
                          : written.error().message)};
  side.written = *std::move(written);
  side.wrong = read.hasErrors();
  if (side.wrong) side.diags = std::move(read);
  DTC_TRY(side.entry, entryOf(*side.written, flags.program.entry));
  if (!side.wrong && levelOf(*side.written, side.entry) >= Level::Local)
    return inputError(file +
                      ": diff needs a global program, but this one is partitioned and has no shardings left");
  side.flags = std::move(flags);
  return side;
}

void compile(Side& side) {
  if (!side.written) return;
  const auto extent = side.wrong ? ProgramSnapshot::Written : ProgramSnapshot::Compiled;
  side.snapshot =
      takeSnapshot(*side.written, side.entry, side.flags.lowering, side.flags.target, extent, side.diags);
  side.snapshot->name = side.label;
}

// Reports the diagnostics of compiling it. False if there are errors.
bool isGood(Environment& env, const Side& side) {
  if (side.wrong) return false;
  return !side.written || env.report(side.diags, side.written->source) == kExitDone;
}

// The terminal's width, else $COLUMNS, else wide enough for a log.
size_t columnsOfOutput() {
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  const char* set = std::getenv("COLUMNS");
  const long columns = set ? std::strtol(set, nullptr, 10) : 0;
  return columns > 0 && columns < 10000 ? static_cast<size_t>(columns) : 110;
}

Result<std::vector<DiffBudget>> budgetsOf(const DiffFlags& o) {
  std::vector<DiffBudget> out;
  const std::pair<DiffBudget::Of, const std::string*> given[] = {
      {DiffBudget::Bytes, &o.maxBytes}, {DiffBudget::Time, &o.maxTime}, {DiffBudget::Memory, &o.maxMemory}};
  for (const auto& [of, text] : given) {
    if (text->empty()) continue;
    DTC_TRY(auto budget, parseBudget(of, *text));
    out.push_back(budget);
  }
  return out;
}

// Compiles both at the same time.
bool compileBoth(Environment& env, Side& a, Side& b) {
  env.status.at("compiling both programs");
  auto first = std::async(std::launch::async, [&] { compile(a); });
  compile(b);
  first.get();
  const bool goodA = isGood(env, a);
  return isGood(env, b) && goodA;
}

Result<int> saveSnapshot(Environment& env, const DiffFlags& o) {
  DTC_TRY(auto flags, sideOf(o, "--a", o.flagsA));
  DTC_TRY(auto side, readSide(env, std::move(flags), o.both.program.file));
  compile(side);
  if (!isGood(env, side)) return kExitInput;
  return writeOut(env, o.save, snapshotJson(*side.snapshot));
}

Result<int> runDiff(Environment& env, DiffFlags& o) {
  if (Status s = checkPageName(o.out); !s) return s.error();
  o.both.given = givenFlags(o.sideOptions);
  DTC_TRY(const auto budgets, budgetsOf(o));
  const bool alone = o.fileB.empty() && o.flagsA.empty() && o.flagsB.empty();
  if (!o.save.empty() && alone && budgets.empty()) return saveSnapshot(env, o);
  if (!o.both.program.file.empty() && alone)
    return usageError("missing second program: name a file, or other flags for the same one, such as "
                      "--b '--mesh pod=dp:8,tp:1'");
  DTC_TRY(auto flagsA, sideOf(o, "--a", o.flagsA));
  DTC_TRY(auto flagsB, sideOf(o, "--b", o.flagsB));
  if (!o.fileB.empty()) flagsB.program.file = o.fileB;
  for (const SideFlags* side : {&flagsA, &flagsB}) // before either is read
    if (side->program.file.ends_with(".json"))
      if (Status s = savedTakesNoFlags(*side); !s) return s.error();
  const auto label = [](const SideFlags& side, const std::string& flags) {
    return side.program.file + (flags.empty() ? "" : " " + flags);
  };
  const std::string labelA = label(flagsA, o.flagsA), labelB = label(flagsB, o.flagsB);
  DTC_TRY(auto a, readSide(env, std::move(flagsA), labelA));
  DTC_TRY(auto b, readSide(env, std::move(flagsB), labelB));
  const bool good = compileBoth(env, a, b);
  if (!o.save.empty())
    if (const int code = writeOut(env, o.save, snapshotJson(*b.snapshot)); code != kExitDone) return code;
  ProgramDiff diff = diffPrograms(*a.snapshot, *b.snapshot);
  if (a.written) diff.problemsA = recordsOf(a.diags, a.written->source);
  if (b.written) diff.problemsB = recordsOf(b.diags, b.written->source);
  if (!o.out.empty()) {
    const auto text = [](const Side& side) { return side.written ? &side.written->source : nullptr; };
    const DiffPageInput page{diff, budgets, *a.snapshot, *b.snapshot, text(a), text(b)};
    const std::string made = o.out.ends_with(".json") ? diffPageJson(page) : diffPage(page);
    if (const int code = writeOut(env, o.out, made); code != kExitDone) return code;
  }
  if (o.json)
    env.out(diffJson(diff, budgets));
  else if (o.out.empty())
    env.out(diffText(
        diff, {columnsOfOutput(), o.full ? SIZE_MAX : o.top, env.color && isatty(STDOUT_FILENO) != 0}));
  bool holds = true;
  for (const DiffBudget& budget : budgets) {
    const auto why = exceeded(budget, diff);
    if (why) holds = false, (void)env.fail(inputError(*why), "budget");
    if (const std::string assumed = assumptionOf(budget, diff); !assumed.empty())
      env.err("note: " + assumed + "\n");
  }
  return good && holds ? kExitDone : kExitInput;
}

} // namespace

Verb diffVerb() {
  Verb v;
  v.name = "diff";
  v.usage = "A [B] [--a FLAGS] [--b FLAGS] [flags]";
  v.summary = "what changed between two programs: shardings, collectives, time, memory";
  v.examples = "  dtc diff examples/mlp.dt --b '--mesh pod=dp:8,tp:1'    (two meshes of one program)\n"
               "  dtc diff examples/mlp.dt --b '--sharding w1=@pod{_,_}' (two shardings)\n"
               "  dtc diff old.dt new.dt -o diff.html                   (a page)\n"
               "  git show main:gpt.dt | dtc diff - gpt.dt --max-bytes +1% --max-memory +0\n"
               "  dtc diff gpt.dt --save gpt.json && dtc diff gpt.json gpt.dt   (with a later version)";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<DiffFlags>();
    const auto sideOptions = [&](auto&& add) {
      const size_t others = app.get_options().size();
      add();
      const auto all = std::as_const(app).get_options();
      o->sideOptions.insert(o->sideOptions.end(), all.begin() + static_cast<ptrdiff_t>(others), all.end());
    };
    sideOptions([&] { addProgramOptions(app, o->both.program); });
    app.add_option("B", o->fileB, "the second program; default: FILE, with the flags of --b")->type_name("");
    app.add_option("--a", o->flagsA, "flags for the first program alone: '--mesh pod=dp:2,tp:4'")
        ->type_name("FLAGS");
    app.add_option("--b", o->flagsB, "flags for the second program alone")->type_name("FLAGS");
    app.add_option("--max-bytes", o->maxBytes,
                   "exit 1 if the received bytes grew by more, or are more: +1%, 2GiB")
        ->type_name("+P%|+BYTES|BYTES");
    app.add_option("--max-time", o->maxTime,
                   "the same for the time of a step on the nominal machine: +2%, 20ms")
        ->type_name("+P%|+TIME|TIME");
    app.add_option("--max-memory", o->maxMemory, "the same for the peak memory of a device")
        ->type_name("+P%|+BYTES|BYTES");
    app.add_option("-o", o->out,
                   "write a page that shows both programs side by side; with .json the data of the page")
        ->type_name("OUT.html");
    app.add_option("--save", o->save,
                   "write the second program as data, to compare it later in place of a program")
        ->type_name("FILE.json");
    app.add_option("--top", o->top, "rows of each section (8)")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    app.add_flag("--full", o->full, "all rows");
    app.add_flag("--json", o->json, "print the changes as JSON");
    sideOptions([&] { addSideOptions(app, o->both); });
    return [o](Environment& env) { return runDiff(env, *o); };
  };
  return v;
}

} // namespace dtc
