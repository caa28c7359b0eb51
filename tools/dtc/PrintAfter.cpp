#include "PrintAfter.h"
#include "Verbs.h"
#include "dtc/Passes/pipeline/PassText.h"
#include <CLI/CLI.hpp>
#include <algorithm>

namespace dtc {

void addPrintAfterOptions(CLI::App& app, PrintAfterFlags& flags, const char* group) {
  CLI::Option* some =
      app.add_option("--print-after", flags.passes, "print the IR after these passes to stderr")
          ->delimiter(',')
          ->type_name("PASS")
          ->allow_extra_args(false);
  CLI::Option* all = app.add_flag("--print-after-all", flags.all, "print the IR after each pass to stderr");
  if (group) some->group(group), all->group(group);
}

Status checkPasses(const PrintAfterFlags& flags) {
  std::vector<std::string_view> names;
  for (const PassInfo& p : passTable()) names.emplace_back(p.name);
  for (const std::string& name : flags.passes)
    if (!findPass(name)) return usageError("--print-after: " + unknownWord("pass", name, names));
  return Ok{};
}

void PassPrinter::operator()(const PassStep& step, const Module& m) {
  const std::string_view name = step.pass->name;
  ran_.push_back(name);
  if (flags_.all || std::ranges::find(flags_.passes, name) != flags_.passes.end())
    env_.err("// after " + std::string(name) + "\n" + printModule(m, print_));
}

void PassPrinter::finish() {
  for (const std::string& name : flags_.passes)
    if (std::ranges::find(ran_, name) == ran_.end())
      env_.err("note: --print-after " + name + " has no effect: this pass does not run\n");
}

} // namespace dtc
