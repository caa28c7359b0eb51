#pragma once
// --print-after and --print-after-all: the IR after passes, on standard error.
#include "Environment.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/pipeline/Pipeline.h"

namespace CLI {
class App;
}

namespace dtc {

struct PrintAfterFlags {
  std::vector<std::string> passes;
  bool all = false;
};
void addPrintAfterOptions(CLI::App&, PrintAfterFlags&, const char* group = nullptr);
// Error (Usage): there is no such pass.
[[nodiscard]] Status checkPasses(const PrintAfterFlags&);

class PassPrinter {
public:
  PassPrinter(Environment& env, const PrintAfterFlags& flags, PrintOptions print = {})
      : env_(env), flags_(flags), print_(print) {}
  // To be called after each pass.
  void operator()(const PassStep&, const Module&);
  // Notes the given passes that have not run.
  void finish();

private:
  Environment& env_;
  const PrintAfterFlags& flags_;
  PrintOptions print_;
  std::vector<std::string_view> ran_;
};

} // namespace dtc
