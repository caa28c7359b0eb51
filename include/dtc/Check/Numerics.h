#pragma once
// `dtc check FILE --numerics` (cli.md): the same numbers however the program is cut, and gradients that are slopes.
//
// All on random inputs, by the reference evaluator: no backend takes part.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include <string>

namespace dtc {

// One tensor compared.
struct NumericsRow {
  std::string name; // "%dw"
  bool pass = true;
  double error = 0, allowed = 0; // the largest difference, and what it may be there
  std::string where;             // its element, or "along a direction"; "" where nothing differs
  std::string detail;            // how many elements; what was found and expected where it fails
};

struct NumericsSection {
  enum Kind : uint8_t {
    Sharded,     // every result, cut over the mesh, against the unsharded program, by the rule of --check
    Differences, // gradients against central differences in f64
    Derived,     // a function's own gradient against the derived one
  } kind = Sharded;
  std::string function; // "@main"
  std::string title;    // "sharded against unsharded, on @m of 4 devices"
  std::vector<NumericsRow> rows;
  std::string note; // why there is nothing to compare, or ""
};

struct NumericsReport {
  std::vector<NumericsSection> sections;
  [[nodiscard]] bool pass() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
};

// Compares each of `entries` sharded against unsharded; every function that a `value_and_grad` in the module differentiates
// with central differences; every function that has a gradient of its own with the derived gradient, or where there is none
// with differences. False, with diagnostics, where a pass refuses the program.
// Errors: Input where a function cannot be evaluated (sizes not bound, more than kMaxEquivalenceElements of input).
[[nodiscard]] Result<NumericsReport> checkNumerics(const Module&, std::span<const FuncId> entries,
                                                   Diagnostics&);

} // namespace dtc
