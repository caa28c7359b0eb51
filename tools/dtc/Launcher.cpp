#include "Launcher.h"
#include "dtc/Support/NonCopyable.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <poll.h>
#include <string_view>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

namespace dtc {
namespace {

constexpr int kPassedOn[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT};
int wakeups[2] = {-1, -1}; // a pipe: the numbers of signals, written by their handler
struct sigaction before[std::size(kPassedOn)];

void remember(int signal) {
  const int saved = errno;
  const char byte = static_cast<char>(signal);
  (void)!write(wakeups[1], &byte, 1);
  errno = saved;
}

bool stops(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

// The next signal to this process, or 0 after some time.
int nextSignal(int milliseconds) {
  pollfd p{wakeups[0], POLLIN, 0};
  char byte = 0;
  if (poll(&p, 1, milliseconds) <= 0 || read(wakeups[0], &byte, 1) != 1) return 0;
  return byte;
}

std::vector<pid_t> childrenOf(pid_t parent) {
  std::vector<pid_t> out;
#ifdef __linux__
  const std::string number = std::to_string(parent);
  std::ifstream list("/proc/" + number + "/task/" + number + "/children");
  for (pid_t child = 0; list >> child;) out.push_back(child);
#endif
  return out;
}

bool isRank(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return all.find("OMPI_COMM_WORLD_RANK=") != all.npos || all.find("PMI_RANK=") != all.npos;
}

// An mpirun whose processes on this host have ended some time ago. It waits for a host that it cannot reach, for
// however long.
class StuckMpirun {
public:
  StuckMpirun(pid_t child, const std::string& program)
      : child_(child), is_(std::ranges::count(kNames, program.substr(program.rfind('/') + 1)) > 0) {}
  bool operator()() {
    constexpr std::chrono::seconds kPeriod(1), kPatience(15);
    const auto now = Clock::now();
    if (!is_ || now - looked_ < kPeriod) return false;
    looked_ = now;
    if (std::ranges::any_of(childrenOf(child_), isRank)) seen_ = now;
    return seen_ && now - *seen_ > kPatience;
  }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::string_view kNames[] = {"mpirun", "mpiexec", "orterun", "prterun"};
  pid_t child_;
  bool is_;
  Clock::time_point looked_{};
  std::optional<Clock::time_point> seen_; // a process of it
};

// They get some time to end by themselves: MPI's processes do, when mpirun has ended.
void endRemaining(pid_t group) {
  constexpr int kPeriodMs = 20, kPatienceMs = 3000;
  for (int waited = 0; waited < 2 * kPatienceMs; waited += kPeriodMs) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {}
    const std::vector<pid_t> left = childrenOf(getpid()); // whose own parents have ended
    if (left.empty() && kill(-group, 0) != 0) return;
    if (waited >= kPatienceMs) {
      kill(-group, SIGKILL);
      for (pid_t child : left) kill(child, SIGKILL);
    }
    usleep(kPeriodMs * 1000);
  }
}

// Ends a process group if this process dies without having ended it: a process that is in neither's group, and waits for
// the end of a pipe.
class Guard : NonCopyable {
public:
  explicit Guard(pid_t group) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    guard_ = fork();
    if (guard_ == 0) {
      close(ends[1]);
      watch(ends[0], group);
    }
    close(ends[0]);
    held_ = ends[1];
  }
  ~Guard() {
    if (guard_ > 0) kill(guard_, SIGKILL), waitpid(guard_, nullptr, 0);
    if (held_ >= 0) close(held_);
  }

private:
  [[noreturn]] static void watch(int pipe, pid_t group) {
    constexpr int kPeriodMs = 20, kPatienceMs = 3000; // mpirun ends its processes when it gets SIGTERM
    setsid();
    for (const int signal : kPassedOn) (void)std::signal(signal, SIG_IGN);
    char byte = 0;
    while (read(pipe, &byte, 1) < 0 && errno == EINTR) {}
    kill(-group, SIGTERM);
    for (int waited = 0; waited < kPatienceMs && kill(-group, 0) == 0; waited += kPeriodMs)
      usleep(kPeriodMs * 1000);
    kill(-group, SIGKILL);
    _exit(0);
  }
  pid_t guard_ = -1;
  int held_ = -1;
};

pid_t start(const std::vector<std::string>& words, int& failure) {
  std::vector<char*> arguments;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  int said[2]; // errno of exec
  if (pipe2(said, O_CLOEXEC) != 0) return failure = errno, -1;
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    for (size_t i = 0; i < std::size(kPassedOn); ++i) sigaction(kPassedOn[i], &before[i], nullptr);
    execvp(arguments[0], arguments.data());
    const int why = errno;
    (void)!write(said[1], &why, sizeof why);
    _exit(127);
  }
  if (child < 0) failure = errno;
  close(said[1]);
  if (child > 0) {
    setpgid(child, child); // also here: signals may come before the child has run
    if (read(said[0], &failure, sizeof failure) == sizeof failure) waitpid(child, nullptr, 0);
  }
  close(said[0]);
  return child;
}

} // namespace

Launcher::Launcher() {
  if (pipe2(wakeups, O_CLOEXEC | O_NONBLOCK) != 0) return;
#ifdef __linux__
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
#endif
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kPassedOn); ++i) sigaction(kPassedOn[i], &action, &before[i]);
}

Launcher::~Launcher() {
  for (size_t i = 0; i < std::size(kPassedOn); ++i) sigaction(kPassedOn[i], &before[i], nullptr);
  for (int& fd : wakeups) close(fd), fd = -1;
}

Result<Attempt> Launcher::run(const std::vector<std::string>& words) {
  const auto begin = std::chrono::steady_clock::now();
  Attempt out;
  int failure = 0, status = 0;
  const pid_t child = start(words, failure);
  if (failure) return machineError("cannot run " + words[0] + ": " + std::strerror(failure));
  std::optional<Guard> guard(child);
  StuckMpirun stuck(child, words[0]);
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (stuck()) kill(-child, SIGKILL);
    const int signal = nextSignal(50);
    if (signal == 0) continue;
    out.stopped |= stops(signal);
    kill(-child, signal);
  }
  guard.reset();
  endRemaining(child);
  out.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

bool Launcher::pause(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end)
    if (stops(nextSignal(50))) return false;
  return true;
}

bool succeeds(const std::string& shellCommand) {
  int failure = 0, status = 0;
  const pid_t child = start({"/bin/sh", "-c", shellCommand}, failure);
  if (failure) return false;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace dtc
