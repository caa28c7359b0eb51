// dtc: the distributed tensor compiler's one binary.

#include "Verbs.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Support/OutOfMemory.h"
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

// A standard stream that was closed stays one on which nothing can be read or written: a file that is opened must not get
// its number, and what is said to a person must not land in a result.
static void keepClosedStreams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static int runMain(int argc, char** argv) {
  dtc::Environment env;
  env.commandLine.assign(argv, argv + argc);
  if (env.commandLine.empty()) env.commandLine.emplace_back("dtc");
  const char* level = std::getenv(dtc::kCpuLevelVariable);
  if (level && *level && !dtc::parseCpuLevel(level))
    return env.fail(dtc::usageError(std::string(dtc::kCpuLevelVariable) + "=" + level +
                                    " is not an instruction set; there are generic, avx2 and avx512"));
  return dtc::runDtc(env);
}

// Before any constructor of a global runs out of memory.
__attribute__((constructor(101))) static void beforeGlobals() { dtc::installTerminateHandler(); }

int main(int argc, char** argv) {
  keepClosedStreams();
  (void)std::signal(SIGXFSZ, SIG_IGN); // a write past `ulimit -f` is an error of that write
  int code = dtc::kExitMachine;
  try {
    code = runMain(argc, argv);
  } catch (const std::bad_alloc&) { // while an error was told
    dtc::endOutOfMemory();
  }
  dtc::returnsFromMain();
  return code;
}
