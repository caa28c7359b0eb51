// dtc launch: starts a command again when it fails, from the last checkpoint, on fewer hosts if need be.
#include "CommandLine.h"
#include "ExitReports.h"
#include "Launcher.h"
#include "Verbs.h"
#include "dtc/Files/Checkpoint.h"
#include "dtc/Support/Words.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

namespace dtc {

namespace {

struct LaunchOptions {
  int restarts = 0;
  double delay = 2; // seconds
  std::vector<int> processes;
  std::string hosts, probe = "ssh -o BatchMode=yes -o ConnectTimeout=5 {host} true";
  std::vector<std::string> command;
};

struct Host {
  std::string name;
  int slots = 1;
};

Result<std::vector<Host>> hostsOf(const std::string& list) { // "node1:4,node2:4"
  std::vector<Host> out;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    std::string one = list.substr(at, end - at);
    at = end + 1;
    const size_t colon = one.rfind(':');
    const int slots = colon == one.npos ? 1 : std::atoi(one.c_str() + colon + 1);
    one.resize(std::min(colon, one.size()));
    if (one.empty() || slots < 1) return usageError("--hosts expects HOST:SLOTS,…, got '" + list + "'");
    out.push_back({std::move(one), slots});
  }
  return out;
}

void replaceAll(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// Where the attempts write checkpoints: the value of --checkpoint; empty: nowhere.
std::string checkpointFolder(const std::vector<std::string>& command) {
  for (size_t i = 0; i < command.size(); ++i) {
    if (command[i] == "--checkpoint" && i + 1 < command.size()) return command[i + 1];
    if (command[i].starts_with("--checkpoint=")) return command[i].substr(13);
  }
  return "";
}

// Whether a program starts processes on several hosts. It returns 1 if a process does, and if it cannot start or loses
// one.
bool isStarter(const std::string& program) {
  constexpr std::string_view kNames[] = {"mpirun", "mpiexec", "orterun", "prterun", "srun"};
  const std::string name = program.substr(program.rfind('/') + 1); // also mpiexec.hydra
  return std::ranges::count(kNames, std::string_view(name).substr(0, name.find('.'))) > 0;
}

class Launch {
public:
  Launch(Environment& env, const LaunchOptions& o, std::vector<Host> hosts)
      : env_(env), o_(o), hosts_(std::move(hosts)), folder_(checkpointFolder(o.command)) {}

  Result<int> run() {
    int64_t step = newestStep();
    for (int number = 0;; ++number) {
      DTC_TRY(const std::vector<std::string> words, commandOf(number > 0));
      if (number > 0)
        note("attempt " + std::to_string(number + 1) + " of " + std::to_string(o_.restarts + 1) + ": " +
             joined(words, " ", shellWord));
      DTC_TRY(const Attempt attempt, launcher_.run(words));
      if (attempt.code == 0) return kExitDone;
      const std::string how = howText(attempt);
      const std::vector<int> reports = reports_.take();
      if (attempt.stopped && has(reports, kReportStopped))
        return note(how + " after a signal to stop, with a checkpoint"), kExitDone;
      const bool wrong = attempt.code == kExitInput || attempt.code == kExitUsage;
      // No process has found the program or the command line to be wrong.
      const bool own = wrong && isStarter(words[0]) && !has(reports, kExitInput) && !has(reports, kExitUsage);
      if (attempt.stopped) {
        note(how + " after a signal to stop");
        return own ? kExitMachine : codeOf(attempt);
      }
      // The program or the command line is wrong, and would be in the next attempt.
      if ((wrong && !own) || attempt.code == kExitBug)
        return ended(attempt, how + ", which no restart changes");
      if (own) note("no dtc run on this host has ended with this code: it is one of " + words[0] + " itself");
      if (number == o_.restarts) return ended(attempt, how + (number ? "; no restart is left" : ""));
      note(how);
      const int64_t now = newestStep();
      if (now <= step && hosts_.empty()) ++smaller_; // it has made no progress
      step = now;
      if (!launcher_.pause(o_.delay)) return ended(attempt, "ended by a signal before the next attempt");
    }
  }

private:
  void note(const std::string& text) { env_.err("note: " + text + "\n"); }
  Result<int> ended(const Attempt& attempt, const std::string& how) {
    note(how);
    return codeOf(attempt);
  }
  static int codeOf(const Attempt& attempt) {
    return attempt.code > 128 ? kExitMachine : attempt.code;
  } // killed
  static bool has(const std::vector<int>& reports, int code) {
    return std::ranges::find(reports, code) != reports.end();
  }
  static std::string howText(const Attempt& attempt) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", attempt.seconds);
    const int signal = attempt.code - 128; // mpirun has codes above those of signals
    return "the command ended with code " + std::to_string(attempt.code) +
           (signal > 0 && signal <= SIGRTMAX ? " (signal " + std::to_string(signal) + ")" : "") + " after " +
           seconds + " s";
  }
  // The step of the newest checkpoint; -1: none.
  [[nodiscard]] int64_t newestStep() const {
    if (folder_.empty()) return -1;
    const auto found = checkpointsIn(folder_);
    int64_t newest = -1;
    if (found)
      for (const CheckpointFolder::Found& f : *found) newest = std::max(newest, f.step);
    return newest;
  }

  // The hosts that answer; all processes of the largest number in --processes that they have room for.
  Result<std::vector<std::string>> commandOf(bool again) {
    std::vector<std::string> names;
    int slots = 0;
    for (const Host& h : hosts_) {
      std::string probe = o_.probe;
      replaceAll(probe, "{host}", shellWord(h.name));
      if (!succeeds(probe)) {
        note("host " + h.name + " does not answer: " + probe);
        continue;
      }
      names.push_back(h.name + ":" + std::to_string(h.slots));
      slots += h.slots;
    }
    DTC_TRY(const int count, processesFor(slots));
    std::vector<std::string> words = o_.command;
    for (std::string& word : words) {
      replaceAll(word, "{hosts}", joined(names, ","));
      if (Status s = placeCount(word, count); !s) return s.error();
    }
    if (again && !folder_.empty() && std::ranges::find(words, "--resume") == words.end())
      words.emplace_back("--resume");
    return words;
  }

  Result<int> processesFor(int slots) {
    if (hosts_.empty())
      return o_.processes.empty() ? 1 : o_.processes[std::min(smaller_, o_.processes.size() - 1)];
    if (o_.processes.empty() && slots > 0) return slots;
    for (int n : o_.processes)
      if (n <= slots) return n;
    return machineError(
        "the hosts that answer have " + std::to_string(slots) + " slots, too few for " +
        (o_.processes.empty() ? "a process" : std::to_string(o_.processes.back()) + " processes"));
  }

  // "{n}" and "{n/4}"
  static Status placeCount(std::string& word, int count) {
    for (size_t at = word.find("{n"); at != word.npos; at = word.find("{n", at)) {
      const size_t end = word.find('}', at);
      const int by = end == at + 2 ? 1 : word[at + 2] == '/' ? std::atoi(word.c_str() + at + 3) : 0;
      if (end == word.npos || by < 1) return usageError("expected {n} or {n/N}, got '" + word + "'");
      if (count % by)
        return usageError(std::to_string(count) + " processes cannot be divided by " + std::to_string(by) +
                          ": '" + word + "'");
      word.replace(at, end + 1 - at, std::to_string(count / by));
    }
    return Ok{};
  }

  Environment& env_;
  const LaunchOptions& o_;
  std::vector<Host> hosts_;
  std::string folder_;
  size_t smaller_ = 0; // index in --processes
  ExitReports reports_;
  Launcher launcher_;
};

Result<int> runLaunch(Environment& env, const LaunchOptions& o) {
  if (o.command.empty()) return usageError("missing command: dtc launch [flags] -- COMMAND …");
  const auto has = [&](const char* what) {
    return std::ranges::any_of(o.command, [&](const std::string& w) { return w.find(what) != w.npos; });
  };
  if (!has("{n") && o.processes.size() > 1)
    return usageError("--processes needs {n}, the number of processes, in the command");
  if (has("{n") && o.processes.empty() && o.hosts.empty())
    return usageError("{n} in the command needs --processes or --hosts");
  if (!has("{hosts}") && !o.hosts.empty()) return usageError("--hosts needs {hosts} in the command");
  if (!std::ranges::is_sorted(o.processes, std::greater())) return usageError("--processes must decrease");
  DTC_TRY(auto hosts, hostsOf(o.hosts));
  return Launch(env, o, std::move(hosts)).run();
}

} // namespace

Verb launchVerb() {
  Verb v;
  v.name = "launch";
  v.usage = "[flags] -- COMMAND ...";
  v.summary = "run a job, and start it again from its last checkpoint if it fails";
  v.examples =
      "  dtc launch --restarts 3 -- mpirun -n 4 dtc run train.dt --comm mpi --loop 1000 --checkpoint DIR\n"
      "  dtc launch --restarts 3 --processes 4,2 -- mpirun -n {n} dtc run train.dt --mesh pod=dp:{n} …\n"
      "  dtc launch --restarts 3 --hosts node1:4,node2:4 -- mpirun --host {hosts} -n {n} dtc run … --mesh "
      "pod=dp:{n}\n"
      "in the command, {n} is the number of processes, {n/4} a quarter of it, {hosts} the hosts that answer";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<LaunchOptions>();
    app.add_option("--restarts", o->restarts, "start the command again, at most N times (0)")
        ->type_name("N")
        ->check(CLI::Range(0, 1000000));
    app.add_option("--processes", o->processes,
                   "numbers of processes, the largest first: the next one after an attempt without a new "
                   "checkpoint, or as many as the hosts have slots for")
        ->type_name("N,N,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--hosts", o->hosts, "before each attempt, keep those hosts that answer")
        ->type_name("HOST:SLOTS,...");
    app.add_option("--probe", o->probe, "how to ask a host (ssh {host} true)")->type_name("COMMAND");
    app.add_option("--delay", o->delay, "wait before the next attempt (2)")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.0, 1e6));
    app.add_option("COMMAND", o->command, "the job, with mpirun or srun if it has several processes")
        ->type_name("COMMAND");
    return [o](Environment& env) {
      if (!o->command.empty())
        return Result<int>(usageError("unexpected argument '" + o->command[0] +
                                      "': the command follows after --, as in dtc launch -- mpirun …"));
      o->command = env.operands;
      return runLaunch(env, *o);
    };
  };
  return v;
}

} // namespace dtc
