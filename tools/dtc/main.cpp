// dtc: the distributed tensor compiler's one binary.

#include "Verbs.h"
#include "dtc/Jit/CpuJit.h"
#include <cstdlib>

int main(int argc, char** argv) {
  dtc::Environment env;
  env.commandLine.assign(argv, argv + argc);
  if (env.commandLine.empty()) env.commandLine.emplace_back("dtc");
  const char* level = std::getenv(dtc::kCpuLevelVariable);
  if (level && *level && !dtc::parseCpuLevel(level))
    return env.fail(dtc::usageError(std::string(dtc::kCpuLevelVariable) + "=" + level +
                                    " is no instruction set; there are generic, avx2 and avx512"));
  return dtc::runDtc(env);
}
