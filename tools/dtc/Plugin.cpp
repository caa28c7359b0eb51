// dtc plugin: builds the plugins that packages cannot bring, because what they wrap has no stable ABI.
#include "Verbs.h"

#include "dtc/Runtime/comm/MpiPluginFiles.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/LibraryIdentity.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace dtc {

namespace {

namespace fs = std::filesystem;

struct PluginOptions {
  std::string action, name, compiler, to;
};

constexpr const char* kInstall =
    "install an MPI with its headers and a C++ compiler (on Debian and Ubuntu: "
    "apt-get install libopenmpi-dev openmpi-bin g++), or name the MPI's compiler "
    "with --mpicxx";

// A folder that is removed with its contents.
class ScratchFolder {
public:
  static Result<std::unique_ptr<ScratchFolder>> make() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "dtc-plugin-XXXXXX").string();
    if (error || !mkdtemp(path.data())) return machineError("cannot make a temporary folder");
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(path));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const fs::path path;

private:
  explicit ScratchFolder(fs::path at) : path(std::move(at)) {}
};

struct Finished {
  bool started = false;
  int code = 0;
  std::string text; // what it printed
};

// Runs a command, which is looked for in PATH. No shell reads its words.
Finished runCommand(const std::vector<std::string>& words, const fs::path& scratch) {
  const std::string log = (scratch / "output").string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  Finished done;
  pid_t child = 0;
  done.started = posix_spawnp(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!done.started) return done;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  done.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  done.text = text.str();
  return done;
}

std::vector<std::string> wordsOf(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

struct MpiCompiler {
  std::vector<std::string> command, libraries; // before and after the sources
  std::string from;                            // "mpicxx"
};

// The MPI's own compiler command, else the system's with what pkg-config knows of an MPI.
Result<MpiCompiler> findCompiler(const PluginOptions& o, const fs::path& scratch) {
  std::vector<std::string> wrappers = {"mpicxx", "mpic++", "mpicxx.openmpi", "mpicxx.mpich"};
  if (!o.compiler.empty()) wrappers = {o.compiler};
  for (const std::string& wrapper : wrappers)
    if (const Finished done = runCommand({wrapper, "--version"}, scratch); done.started && done.code == 0)
      return MpiCompiler{{wrapper}, {}, wrapper};
  if (!o.compiler.empty()) return machineError("--mpicxx: cannot run " + o.compiler);
  const char* given = std::getenv("CXX");
  const std::string compiler = given && *given ? given : "c++";
  for (const char* package : {"ompi-cxx", "ompi", "mpich"}) {
    const Finished asked = runCommand({"pkg-config", "--cflags", "--libs", package}, scratch);
    if (asked.started && asked.code == 0)
      return MpiCompiler{{compiler}, wordsOf(asked.text), compiler + " and pkg-config " + package};
  }
  return machineError(std::string("no MPI was found (mpicxx, or pkg-config ompi-cxx or mpich): ") + kInstall);
}

// The folder of the installation's plugins if this user may write there, else one of the user.
Result<fs::path> targetFolder(const PluginOptions& o) {
  std::error_code error;
  if (!o.to.empty()) return fs::path(o.to);
  for (const std::string& folder : pluginFolders()) {
    bool plugins = false;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      plugins = plugins || (name.starts_with("dtc-") && name.ends_with(".so"));
    }
    if (plugins && access(folder.c_str(), W_OK) == 0) return fs::path(folder);
  }
  const std::string own = userPluginFolder();
  if (own.empty())
    return machineError(
        "the folder of dtc's plugins is not writable, and neither XDG_DATA_HOME nor HOME is set: name "
        "a folder with --to");
  return fs::path(own);
}

Status writeSources(const fs::path& folder, std::vector<std::string>& sources) {
  std::error_code error;
  fs::create_directory(folder / "mpi", error);
  for (const EmbeddedFile& file : mpiPluginFiles()) {
    const bool source = file.name.ends_with(".cpp");
    const fs::path path = source ? folder / "mpi" / file.name : folder / file.name;
    std::ofstream(path) << file.text;
    if (source) sources.push_back(path.string());
  }
  return sources.empty() ? Status(Error{Error::Bug, "the plugin's sources are missing"}) : Ok{};
}

// Whether it opens: its MPI is found at run time.
Status checkOpens(const fs::path& library) {
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) return machineError("the plugin was built, but does not open: " + std::string(dlerror()));
  const bool has = dlsym(opened, "dtcMpiTable") != nullptr;
  dlclose(opened);
  return has ? Status(Ok{}) : machineError("the plugin was built, but has no dtcMpiTable");
}

Result<int> buildMpi(Environment& env, const PluginOptions& o) {
  DTC_TRY(const auto scratch, ScratchFolder::make());
  DTC_TRY(const MpiCompiler compiler, findCompiler(o, scratch->path));
  DTC_TRY(const fs::path folder, targetFolder(o));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return machineError("cannot create " + folder.string() + ": " + error.message());
  std::vector<std::string> sources;
  if (Status s = writeSources(scratch->path, sources); !s) return s.error();
  const fs::path built = scratch->path / "dtc-mpi.so", target = folder / "dtc-mpi.so",
                 beside = folder / ("dtc-mpi.so." + std::to_string(getpid()));
  std::vector<std::string> command = compiler.command;
  for (const char* flag : {"-std=c++20", "-O2", "-fPIC", "-shared", "-Wl,--as-needed"})
    command.push_back(flag);
  command.insert(command.end(), sources.begin(), sources.end());
  command.insert(command.end(), {"-o", built.string()});
  command.insert(command.end(), compiler.libraries.begin(), compiler.libraries.end());
  const Finished done = runCommand(command, scratch->path);
  if (!done.started || done.code != 0)
    return machineError("cannot build the plugin with " + compiler.from + ": " +
                        (done.started ? done.text : "it was not found") + "\n" + kInstall);
  if (Status s = checkOpens(built); !s) return s.error();
  fs::copy_file(built, beside, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(beside, target, error);
  if (error) return machineError("cannot write " + target.string() + ": " + error.message());
  env.out("built " + target.string() + " with " + compiler.from + "\n");
  return kExitDone;
}

Result<int> runPlugin(Environment& env, const PluginOptions& o) {
  if (o.action != "build")
    return usageError(o.action.empty() ? "missing action: use `dtc plugin build mpi`"
                                       : unknownWord("action", o.action, {"build"}));
  if (o.name != "mpi")
    return usageError(o.name.empty() ? "missing plugin: use `dtc plugin build mpi`"
                                     : unknownWord("plugin", o.name, {"mpi"}));
  return buildMpi(env, o);
}

} // namespace

Verb pluginVerb() {
  Verb v;
  v.name = "plugin";
  v.usage = "build mpi [flags]";
  v.summary = "build the plugin for the MPI of this machine";
  v.examples = "  dtc plugin build mpi\n"
               "  dtc plugin build mpi --mpicxx /opt/mpich/bin/mpicxx";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<PluginOptions>();
    app.add_option("ACTION", o->action, "build: compile and install a plugin")->type_name("build");
    app.add_option("PLUGIN", o->name, "mpi: for --comm mpi, the C API and Python in several processes")
        ->type_name("mpi");
    app.add_option("--mpicxx", o->compiler,
                   "the MPI's C++ compiler command (default: mpicxx, else c++ with pkg-config)")
        ->type_name("COMMAND");
    app.add_option("--to", o->to,
                   "folder of the plugin (default: that of dtc's plugins, or if it is not writable "
                   "$XDG_DATA_HOME/dtc/plugins or ~/.local/share/dtc/plugins, where dtc looks, too)")
        ->type_name("DIR");
    return [o](Environment& env) { return runPlugin(env, *o); };
  };
  return v;
}

} // namespace dtc
