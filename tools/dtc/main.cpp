// dtc: the distributed tensor compiler's one binary.

#include "Verbs.h"

int main(int argc, char** argv) {
  dtc::Environment env;
  env.commandLine.assign(argv, argv + argc);
  if (env.commandLine.empty()) env.commandLine.emplace_back("dtc");
  return dtc::runDtc(env);
}
