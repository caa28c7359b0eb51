#pragma once
// A pass is a free function on a module, and one row of a table (architecture.md).
#include "dtc/IR/Module.h"
#include "dtc/Support/DType.h"
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace dtc {

// A decision of a pass and its reason, shown by `--stats`. `what` is short and equal for similar cases:
// "matmul -> gelu".
struct PassRemark {
  std::string what, why;
  SourceRange loc;
  int64_t bytes = 0; // the cost on one device; 0 if unknown
};

// The program before `propagate`, from which later passes derive the reasons of shardings for diagnostics.
struct Unpropagated {
  const Module* module = nullptr;
  std::string policy; // of propagate, as given
};

struct PassOptions {
  std::map<std::string, std::string> values;  // fuse{limit=4}: {"limit", "4"}; checkOptions() checks them
  std::vector<PassRemark>* remarks = nullptr; // receives remarks; may be null
  const Unpropagated* unpropagated = nullptr; // set if functions have communication contracts; may be null
  // The memory per device, in bytes, that the rest of the pipeline plans for a program at this point. Nothing if
  // a size is unknown. May be empty.
  std::function<std::optional<int64_t>(const Module&)> plannedPeak = {};

  // Values accepted by checkOptions(). For a word of no such option, and an integer or a dtype that is a
  // word: the fallback, or nothing.
  [[nodiscard]] bool flag(const char* name, bool fallback) const;
  [[nodiscard]] std::string_view word(const char* name, std::string_view fallback) const;
  [[nodiscard]] std::optional<int64_t> integer(const char* name) const;
  [[nodiscard]] std::optional<DType> dtype(const char* name) const;
  [[nodiscard]] std::optional<int64_t> bytes(const char* name) const;
};

struct PassOption {
  const char* name;
  const char* fallback; // "": the option may be left empty
  // The allowed values: one of these words, an integer of at least `min`, a float dtype, or a number of bytes.
  std::vector<const char*> words = {};
  std::optional<int64_t> min = std::nullopt;
  bool isDType = false;
  bool isBytes = false;  // a number of bytes: "8GiB"
  bool isTarget = false; // a name that targetNamed() knows
  bool isName = false;   // the name of a mesh axis
  std::string doc = {};  // from docs/passes.md
};
[[nodiscard]] std::string valuesText(const PassOption&); // "any or fixed"

struct PassExample {
  std::string_view title; // what it shows, a sentence without its period; empty for a pass's first example
  std::string_view before, after;
};

struct PassInfo {
  const char* name; // "propagate": the -p name, the test folder, the file
  bool (*run)(Module&, const PassOptions&, Diagnostics&);
  Level needs = Level::Global;    // the min level of its input …
  Level produces = Level::Global; // … and the level of its output
  std::vector<PassOption> options = {};
  bool standard = true;         // part of the standard pipeline; others run only if -p names them
  bool takesBoundSizes = false; // runs if calls bind sizes of their callees; others need inline first
  bool anyLevel = false;        // runs on text of every level, if the pipeline begins there

  // The rest is read from the pass's section of docs/passes.md (PassText.h).
  std::string summary = {}; // one line
  std::string why = {};     // why it runs here: after X because, before Y because; pre- and postconditions
  std::vector<PassExample> examples = {}; // run as tests; at least one
};

// True if every option has an allowed value. Each other one is an error [pass-option] with the nearest word.
[[nodiscard]] bool checkOptions(const PassInfo&, const PassOptions&, Diagnostics&);

// The standard pipeline in order, then the other passes (PassTable.cpp).
[[nodiscard]] const std::vector<PassInfo>& passTable();
[[nodiscard]] const PassInfo* findPass(std::string_view name);

} // namespace dtc
