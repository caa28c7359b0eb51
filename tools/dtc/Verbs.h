#pragma once
// The verbs. A verb is one file: its options, their help and its action together; and one row of the table in Verbs.cpp.
#include "Environment.h"
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
  // Declares the options; what it returns is run once they are parsed, and gives the exit code.
  std::function<int(Environment&)> (*declare)(CLI::App&);
};

[[nodiscard]] const std::vector<Verb>& verbTable();

// The whole program: env.commandLine to an exit code.
[[nodiscard]] int runDtc(Environment& env);

// "unknown pass 'propagat'; did you mean 'propagate'?"
[[nodiscard]] std::string unknownWord(std::string_view kind, std::string_view word,
                                      const std::vector<std::string_view>& known);

} // namespace dtc
