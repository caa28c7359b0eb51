#pragma once
// A pass is a free function on a module, and one row of a table (architecture.md §3).
#include "dtc/IR/Module.h"
#include <map>
#include <string>

namespace dtc {

// What a pass decided and why, for people: `--stats` shows it. `what` is short and the same for like cases, "matmul -> gelu".
struct PassRemark {
  std::string what, why;
  SourceRange loc;
  int64_t bytes = 0; // that it costs on one device; 0 where that is not known
};

// The program as it was before `propagate`: what a later pass finds the reasons of a sharding in, where it must give them.
struct Unpropagated {
  const Module* module = nullptr;
  std::string policy; // of propagate, as written
};

struct PassOptions {
  std::map<std::string, std::string>
      values; // fuse{limit=4}: {"limit", "4"}; names are checked against PassInfo::options
  std::vector<PassRemark>* remarks = nullptr; // where remarks go; may be null
  const Unpropagated* unpropagated = nullptr; // where functions have communication contracts; may be null
};

struct PassOption {
  const char* name;
  const char* fallback;
  const char* doc;
};

struct PassExample {
  const char* title; // what it shows, in a sentence without its point
  const char* before;
  const char* after;
};

struct PassInfo {
  const char* name;    // "propagate": the -p name, the test folder, the file
  const char* summary; // one line
  const char* why; // why it runs exactly here: after X because, before Y because; what holds before and after
  Level needs;     // the least level of the text that it takes …
  Level gives;     // … and what it leaves
  bool (*run)(Module&, const PassOptions&, Diagnostics&);
  const char* before; // an example, extracted and run as a test: the input …
  const char* after;  // … and what the pass makes of it
  std::vector<PassOption> options = {};
  std::vector<PassExample> more = {}; // further examples, run as tests like the first
  bool standard = true;               // part of the standard pipeline; others run only where -p names them
  bool anyLevel = false;              // runs on text of every level, where the pipeline begins
};

// A pass's own file defines its row (inlineInfo(), propagateInfo(), …: declared in its header); PassTable.cpp lists them.
// The standard pipeline in order, then the passes that stand outside it.
[[nodiscard]] const std::vector<PassInfo>& passTable();
[[nodiscard]] const PassInfo* findPass(std::string_view name);
// docs/passes.md: every pass with its place in the pipeline, its options and its example.
[[nodiscard]] std::string passesMarkdown();

} // namespace dtc
