#include "EntryPoint.h"

#include "ExitReports.h"
#include "Verbs.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Runtime/comm/Processes.h"
#include "dtc/Support/OutOfMemory.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <new>
#include <thread>
#include <unistd.h>

namespace dtc {

// Reopens closed standard streams on /dev/null, so that no opened file gets their descriptor and messages
// cannot be written into a result.
static void keepClosedStreams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Tables of a large program grow to hundreds of megabytes and are freed between passes. glibc would return that
// memory to the kernel, which clears each page again at its next use, and would coalesce all small free blocks
// of its fastbins at each large one: together about a fifth of a compilation.
static void keepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kLargeBlocks = 32 << 20, kKept = 1 << 30, kGrowth = 16 << 20; // 32 MiB is the max
  mallopt(M_MMAP_THRESHOLD, kLargeBlocks);
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_TOP_PAD, kGrowth);
  mallopt(M_MXFAST, 0);
#endif
}

// The number of this process in a run of several, by the variables of its launcher; 0 also if it is alone.
static int rankInRun(const std::vector<std::string>& words) {
  const auto flag = std::ranges::find(words, "--comm");
  std::string comm = flag != words.end() && flag + 1 != words.end() ? flag[1] : "";
  for (const std::string& word : words)
    if (word.starts_with("--comm=")) comm = word.substr(7);
  if (comm.empty() || comm == "local") return 0; // unknown ones are errors of all processes, too
  if (comm == "nccl") {
    const ProcessTransport by = transportOfLauncher();
    if (by == ProcessTransport::None) return 0;
    if (by == ProcessTransport::Tcp) return std::max(0, std::atoi(std::getenv("RANK")));
  }
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::max(0, std::atoi(rank));
  return 0;
}

// All processes of a run have the same errors of the command line, before they know each other. The first one writes
// them, and mpirun then ends the others; what only another one has found is written a little later, in order of rank.
static int runOnce(Environment& env) {
  const int rank = rankInRun(env.commandLine);
  if (rank == 0) return runDtc(env);
  env.mute();
  const int code = runDtc(env);
  if (env.connected) return code;
  constexpr int kLast = 5; // further ones wait as long as this one
  if (code != kExitDone)
    std::this_thread::sleep_for(std::chrono::milliseconds(500 + 1500 * std::min(rank, kLast)));
  std::fputs(env.mutedText().c_str(), stderr);
  return code;
}

static int runMain(int argc, char** argv) {
  Environment env;
  env.commandLine.assign(argv, argv + argc);
  if (env.commandLine.empty()) env.commandLine.emplace_back("dtc");
  const char* level = std::getenv(kCpuLevelVariable);
  if (level && *level && !parseCpuLevel(level))
    return env.fail(usageError(std::string(kCpuLevelVariable) + "=" + level +
                               " is not an instruction set; expected generic, avx2 or avx512"));
  const int code = runOnce(env);
  if (argc > 1 && std::strcmp(argv[1], "run") == 0) reportExit(code);
  return code;
}

int mainOfDtc(int argc, char** argv) {
  keepFreedMemory();
  keepClosedStreams();
  (void)std::signal(SIGXFSZ, SIG_IGN); // a write past `ulimit -f` is an error of that write
  // Programs that ignore it, such as Python, pass that on. A reader that stops early ends dtc quietly instead.
  (void)std::signal(SIGPIPE, SIG_DFL);
  int code = kExitMachine;
  try {
    code = runMain(argc, argv);
  } catch (const std::bad_alloc&) { // while an error was reported
    endOutOfMemory();
  }
  returnsFromMain();
  return code;
}

} // namespace dtc
