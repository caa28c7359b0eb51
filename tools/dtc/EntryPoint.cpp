#include "EntryPoint.h"

#include "Verbs.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Support/OutOfMemory.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <new>
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

static int runMain(int argc, char** argv) {
  Environment env;
  env.commandLine.assign(argv, argv + argc);
  if (env.commandLine.empty()) env.commandLine.emplace_back("dtc");
  const char* level = std::getenv(kCpuLevelVariable);
  if (level && *level && !parseCpuLevel(level))
    return env.fail(usageError(std::string(kCpuLevelVariable) + "=" + level +
                               " is not an instruction set; expected generic, avx2 or avx512"));
  return runDtc(env);
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
