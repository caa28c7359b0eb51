#include "Verbs.h"

#include "CommandLine.h"
#include "Help.h"
#include "Version.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/Support/Bug.h"
#include "dtc/Support/OutOfMemory.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Version.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <new>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace dtc {

// Each verb is defined in the file of its name (Opt.cpp, …).
Verb auditVerb();
Verb cacheVerb();
Verb checkVerb();
Verb checkpointVerb();
Verb compileVerb();
Verb completionVerb();
Verb devicesVerb();
Verb diffVerb();
Verb explainVerb();
Verb exportVerb();
Verb importVerb();
Verb launchVerb();
Verb modelVerb();
Verb optVerb();
Verb pluginVerb();
Verb reportVerb();
Verb runVerb();
Verb traceVerb();
Verb viewVerb();

const std::vector<Verb>& verbTable() {
  static const std::vector<Verb> table = {
      optVerb(),    compileVerb(), runVerb(),        explainVerb(), viewVerb(),
      reportVerb(), diffVerb(),    checkVerb(),      modelVerb(),   importVerb(),
      exportVerb(), auditVerb(),   devicesVerb(),    cacheVerb(),   checkpointVerb(),
      launchVerb(), traceVerb(),   completionVerb(), pluginVerb(),
  };
  return table;
}

namespace {

std::string overview() {
  std::string text = "dtc: a compiler for tensor programs on device meshes.\n\n"
                     "usage: dtc VERB [options] [FILE]\n\nverbs:\n";
  for (const Verb& v : verbTable()) {
    std::string name = v.name;
    text += "  " + name + std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') + v.summary + "\n";
  }
  return text +
         "\nflags:\n"
         "  --help    print this help; `dtc VERB --help` describes a verb, `--help-all` all its flags\n"
         "  --version print the versions of dtc and of its libraries\n\n"
         "`dtc help NAME` describes a verb, an op, a pass, or a diagnostic kind, such as unknown-op for an\n"
         "error that ends with [unknown-op]; `dtc help ops`, `passes` and `kinds` list them.\n\n"
         "examples:\n"
         "  dtc opt examples/mlp.dt -p propagate\n"
         "  dtc help softmax\n";
}

// Writes a reproducer for a bug report: the program text and the command line.
struct Reproducer {
  Environment* env = nullptr;

  static void write(void* self, const char* file, int line, const char* what) {
    static_cast<Reproducer*>(self)->writeNow(file, line, what);
  }

  void writeNow(const char* file, int line, const char* what) const {
    std::string head = "// A bug in dtc " DTC_VERSION ": ";
    for (char c : std::string_view(what)) head += c == '\n' ? "\n// " : std::string(1, c);
    head += " (" + baseName(file) + ":" + std::to_string(line) + ")\n// Run:";
    for (const std::string& word : env->commandLine) head += " " + shellWord(word);
    head += "\n";
    std::string written;
    for (std::string folder : {".", "/tmp"}) {
      std::string path = folder + "/dtc-bug-XXXXXX.dt";
      int fd = mkstemps(path.data(), 3);
      if (fd < 0) continue;
      std::string text = head + env->currentSource.text;
      bool good = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
      ::close(fd);
      if (good) written = path;
      if (good) break;
    }
    env->err("error: internal error (a bug in dtc, not in your program): " + std::string(what) + "\n");
    env->err(written.empty() ? "note: a reproducer could not be written\n"
                             : "note: " + written + " is a reproducer to attach to a bug report\n");
    env->writeDocument();
  }

  static std::string baseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }
};

// Expands `--input x=iota w=zeros params.npz FILE`: one flag with several values, each of which contains '='
// or is a tensor file. Any other argument is the program.
void spreadInputs(const CLI::App& app, std::vector<std::string>& words) {
  if (!app.get_option_no_throw("--input")) return;
  std::vector<std::string> out;
  bool more = false; // a further value may follow
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool value =
        !word.starts_with("-") && (word.find('=') != std::string::npos || isTensorArchive(word));
    if (more && value) out.emplace_back("--input");
    more = (more && value) || word.starts_with("--input=");
    out.push_back(word);
    if (word == "--input" && i + 1 < words.size()) out.push_back(words[++i]), more = true;
  }
  words = std::move(out);
}

int parseAndRun(Environment& env, const Verb& verb, std::vector<std::string> words) {
  CLI::App app(verb.summary, std::string("dtc ") + verb.name);
  app.allow_extras();
  auto action = verb.declare(app);
  addCommonOptions(app);
  app.footer(std::string("examples:\n") + verb.examples);
  if (const auto end = std::ranges::find(words, "--");
      end != words.end() && app.get_option_no_throw("COMMAND")) {
    env.operands.assign(end + 1, words.end());
    words.erase(end, words.end());
  }
  spreadInputs(app, words);
  if (auto wrong = flagWithValue(verb, app, words)) return env.fail(*wrong);
  std::ranges::reverse(words); // CLI11 expects reversed arguments
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    env.out(verbHelp(verb, app, false));
    return kExitDone;
  } catch (const CLI::CallForAllHelp&) {
    env.out(verbHelp(verb, app, true));
    return kExitDone;
  } catch (const CLI::ParseError& e) {
    for (const std::string& word : app.remaining())
      if (word.starts_with("-")) return env.fail(unexpectedWord(verb, app, word));
    return env.fail(commandLineError(verb, app, e));
  }
  if (!app.remaining().empty()) return env.fail(unexpectedWord(verb, app, app.remaining().front()));
  if (verb.name != std::string_view("launch")) env.status.at(verb.name); // its command has the terminal
  const Result<int> code = action(env);
  return code ? *code : env.fail(code.error());
}

int dispatch(Environment& env) {
  std::vector<std::string> words(env.commandLine.begin() + 1, env.commandLine.end());
  if (words.empty()) {
    env.err(overview());
    return kExitUsage;
  }
  std::string first = words.front();
  words.erase(words.begin());
  env.diagnostics = diagnosticsFormatOf(words);
  if (first == "help" && words.size() > 1)
    return env.fail(usageError("unexpected argument '" + words[1] + "': `dtc help` takes one name"));
  if (first == "help" && !words.empty()) {
    if (std::ranges::any_of(verbTable(), [&](const Verb& v) { return words.front() == v.name; })) {
      first = words.front();
      words = {"--help"};
    } else {
      return helpOn(env, words.front());
    }
  }
  if (first == "--version") {
    env.out(versionText());
    return kExitDone;
  }
  if (first == "--help" || first == "-h" || first == "help") {
    env.out(overview());
    return kExitDone;
  }
  std::vector<std::string_view> known;
  for (const Verb& v : verbTable()) {
    if (first == v.name) return parseAndRun(env, v, std::move(words));
    known.emplace_back(v.name);
  }
  if (first.starts_with("-"))
    return env.fail(usageError(unknownWord("flag", first, {"--help", "--version"})));
  if (first.find_first_of("./") != std::string::npos)
    return env.fail(usageError("unknown verb '" + first + "'; to run a program: dtc run " + first));
  known.emplace_back("help");
  std::string message = unknownWord("verb", first, known);
  if (message.ends_with("'")) message += "; `dtc --help` lists all verbs"; // there is no suggestion
  return env.fail(usageError(message));
}

} // namespace

int runDtc(Environment& env) {
  Reproducer reproducer{&env};
  BugHandler handler{&Reproducer::write, &reproducer};
  BugHandlerScope scope(handler);
  int code = kExitBug;
  try {
    code = dispatch(env);
  } catch (const std::bad_alloc&) {
    code = env.fail(machineError(kOutOfMemory));
  } catch (const std::length_error&) { // a size larger than any allocation
    code = env.fail(machineError(kOutOfMemory));
  } catch (const std::system_error& e) {
    if (!isMachineErrno(e.code().value())) bugAt(__FILE__, __LINE__, e.what());
    code = env.fail(machineError(std::string("system error: ") + e.what()));
  }
  if (Status s = env.finish(); !s && code == kExitDone) code = env.fail(s.error());
  env.writeDocument();
  return code;
}

} // namespace dtc
