#include "Verbs.h"

#include "dtc/Runtime/TensorArchive.h"
#include "dtc/Support/Bug.h"
#include "dtc/Support/OutOfMemory.h"
#include "dtc/Version.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace dtc {

// One row a verb; each is made in the file of its name (Opt.cpp, …).
Verb auditVerb();
Verb cacheVerb();
Verb checkVerb();
Verb compileVerb();
Verb devicesVerb();
Verb explainVerb();
Verb exportVerb();
Verb importVerb();
Verb modelVerb();
Verb optVerb();
Verb runVerb();
Verb viewVerb();

const std::vector<Verb>& verbTable() {
  static const std::vector<Verb> table = {
      optVerb(),   compileVerb(), runVerb(),    explainVerb(), viewVerb(),    checkVerb(),
      modelVerb(), importVerb(),  exportVerb(), auditVerb(),   devicesVerb(), cacheVerb(),
  };
  return table;
}

std::string unknownWord(std::string_view kind, std::string_view word,
                        const std::vector<std::string_view>& known) {
  std::string_view near = nearestWord(word, known);
  std::string text = "unknown " + std::string(kind) + " '" + std::string(word) + "'";
  if (!near.empty()) return text + "; did you mean '" + std::string(near) + "'?";
  if (known.empty() || known.size() > 12) return text;
  text += "; there " + std::string(known.size() == 1 ? "is" : "are");
  for (size_t i = 0; i < known.size(); ++i) text += (i ? ", " : " ") + std::string(known[i]);
  return text;
}

namespace {

std::string overview() {
  std::string text = "dtc: a compiler for programs of tensors on meshes of devices.\n\n"
                     "usage: dtc VERB [options] [FILE]\n\nverbs:\n";
  for (const Verb& v : verbTable()) {
    std::string name = v.name;
    text += "  " + name + std::string(name.size() < 10 ? 10 - name.size() : 1, ' ') + v.summary + "\n";
  }
  return text + "\nflags:\n"
                "  --help    this text; `dtc VERB --help` says more of a verb\n"
                "  --version the version\n\nexamples:\n"
                "  dtc opt examples/mlp.dt -p propagate\n"
                "  dtc opt --list-passes\n";
}

// The file that a bug report can be made of: the text and the command line.
struct Reproducer {
  Environment* env = nullptr;

  static void write(void* self, const char* file, int line, const char* what) {
    static_cast<Reproducer*>(self)->writeNow(file, line, what);
  }

  void writeNow(const char* file, int line, const char* what) const {
    std::string head = "// A bug in dtc " DTC_VERSION ": " + std::string(what) + " (" + baseName(file) + ":" +
                       std::to_string(line) + ")\n// Run:";
    for (const std::string& word : env->commandLine) head += " " + word;
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
    env->err("error: this is a bug in dtc, not in your program: " + std::string(what) + "\n");
    env->err(written.empty() ? "note: a file that shows it could not be written\n"
                             : "note: " + written + " has what is needed to report it\n");
  }

  static std::string baseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }
};

// "'--pases' is no flag of `dtc opt`; did you mean '--passes'?"
int badWord(Environment& env, const Verb& verb, const CLI::App& app, const std::string& word) {
  std::vector<std::string> flags;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& name : o->get_lnames()) flags.push_back("--" + name);
  std::vector<std::string_view> known(flags.begin(), flags.end());
  std::string_view bare = std::string_view(word).substr(0, word.find('='));
  std::string usage = " (`dtc " + std::string(verb.name) + " --help` lists them)";
  if (!bare.starts_with('-') || bare == "-")
    return env.fail(usageError("there is one word too many: '" + word + "'"));
  std::string_view near = nearestWord(bare, known);
  return env.fail(usageError("unknown flag '" + std::string(bare) + "' of `dtc " + verb.name + "`" +
                             (near.empty() ? usage : "; did you mean '" + std::string(near) + "'?")));
}

class HelpFormatter : public CLI::Formatter {
public:
  explicit HelpFormatter(const Verb& verb) : verb_(verb) { column_width(30); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return std::string("usage: dtc ") + verb_.name + " " + verb_.usage + "\n";
  }
  // Without what CLI11 adds of its checks: `type_name` says it already.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string name = option->get_type_name();
    name.resize(std::min(name.find(':'), name.size()));
    const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    return (name.empty() ? "" : " " + name) + (many ? " ..." : "");
  }

private:
  const Verb& verb_;
};

// `--input x=iota w=zeros params.npz FILE`: several values behind one flag, each of which has a '=' or is a tensor file. What
// else stands there is the program.
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
  app.formatter(std::make_shared<HelpFormatter>(verb));
  app.set_help_flag("-h,--help", "this text");
  auto action = verb.declare(app);
  app.footer(std::string("examples:\n") + verb.examples);
  spreadInputs(app, words);
  std::reverse(words.begin(), words.end()); // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    env.out(app.help());
    return kExitDone;
  } catch (const CLI::ParseError& e) {
    for (const std::string& word : app.remaining())
      if (word.starts_with("-")) return badWord(env, verb, app, word);
    return env.fail(usageError(std::string(e.what()) + "; see `dtc " + verb.name + " --help`"));
  }
  if (!app.remaining().empty()) return badWord(env, verb, app, app.remaining().front());
  env.status.at(verb.name);
  return action(env);
}

int dispatch(Environment& env) {
  std::vector<std::string> words(env.commandLine.begin() + 1, env.commandLine.end());
  if (words.empty()) {
    env.err(overview());
    return kExitUsage;
  }
  std::string first = words.front();
  words.erase(words.begin());
  if (first == "help" && !words.empty()) {
    first = words.front();
    words = {"--help"};
  }
  if (first == "--version") {
    env.out("dtc " DTC_VERSION "\n");
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
  return env.fail(usageError(unknownWord(first.starts_with("-") ? "flag" : "verb", first, known)));
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
  } catch (const std::length_error&) { // a size that no memory holds
    code = env.fail(machineError(kOutOfMemory));
  } catch (const std::system_error& e) {
    if (!isMachineErrno(e.code().value())) bugAt(__FILE__, __LINE__, e.what());
    code = env.fail(machineError(std::string("the machine could not do it: ") + e.what()));
  }
  if (!env.finish() && code == kExitDone)
    code = env.fail(machineError("standard output could not be written"));
  return code;
}

} // namespace dtc
