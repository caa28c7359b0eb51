#pragma once
// The verbs. Each is one file with its options, help and action, and one row of the table in Verbs.cpp.
#include "Environment.h"
#include "dtc/Support/Suggest.h"
#include <functional>

namespace CLI {
class App;
}

namespace dtc {

struct Verb {
  const char* name;
  const char* usage;    // after "dtc opt "
  const char* summary;  // one line of `dtc --help`
  const char* examples; // lines below the options in the verb's help
  // Declares the options. Returns the action, which runs after parsing and returns the exit code, or an error that is to be printed.
  std::function<Result<int>(Environment&)> (*declare)(CLI::App&);
};

[[nodiscard]] const std::vector<Verb>& verbTable();

// Runs env.commandLine; returns the exit code.
[[nodiscard]] int runDtc(Environment& env);

} // namespace dtc
