#include "PartitionText.h"

#include "dtc/Ops/record/Ops.h"
#include "dtc/Session/ProgramText.h"
#include "dtc/Session/Session.h"
#include "dtc/StableHlo/export/Export.h"

#include <string_view>
#include <vector>

namespace dtc {

namespace {

std::string exported(const std::string& text, const std::string& name) {
  Module m(standardOps());
  Diagnostics diags;
  if (!loadText({name, text}, {}, m, diags)) return {};
  auto entry = entryOf(m, "");
  if (!entry) return {};
  Session session(std::move(m), *entry, LoweringFlags{.wholeAxisResults = true}.pipeline());
  if (!session.lower(Stage::Local, diags)) return {};
  return exportStablehlo(session.module(), diags, session.entry());
}

// The text behind the last " : " of a line.
std::string_view typesOf(std::string_view line) {
  const size_t colon = line.rfind(" : ");
  return colon == line.npos ? std::string_view() : line.substr(colon + 3);
}

// The arguments of the region that a manual computation opens at the end of its line.
std::string_view regionArguments(std::string_view line) {
  const size_t begin = line.rfind(" (");
  return begin == line.npos || !line.ends_with(" {") ? std::string_view()
                                                     : line.substr(begin + 1, line.size() - begin - 3);
}

} // namespace

// The export of a partitioned program is a function that is one manual computation: its region is made the
// function.
std::string partitionText(const std::string& text, const std::string& name, int64_t numPartitions) {
  const std::string whole = exported(text, name);
  std::string out = "module @" + name +
                    " attributes {mhlo.num_partitions = " + std::to_string(numPartitions) +
                    " : i32, mhlo.num_replicas = 1 : i32} {\n";
  std::string body;
  std::string_view arguments;
  bool found = false;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const bool opens = line.find("= sdy.manual_computation(") != line.npos ||
                       line.starts_with("    sdy.manual_computation(");
    if (line.starts_with("module ") || line.starts_with("  sdy.mesh ")) continue;
    if (!found && line.starts_with("  func.func public @main(")) continue;
    const std::string_view region = !found && opens ? regionArguments(line) : std::string_view();
    if (!region.empty()) {
      arguments = region;
      found = true;
    } else if (found && line.starts_with("      sdy.return")) {
      out += "  func.func public @main" + std::string(arguments) + " -> (" + std::string(typesOf(line)) +
             ") {\n" + body + "      return" + std::string(line.substr(16)) + "\n  }\n";
      body.clear();
      for (int lines = 0; lines < 3 && !rest.empty(); ++lines) // the ends of the region and of the function
        rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
    } else {
      body += line;
      body += '\n';
    }
  }
  return found ? out + body : std::string();
}

} // namespace dtc
