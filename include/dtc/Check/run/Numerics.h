#pragma once
// `dtc check FILE --numerics` (cli.md): the same results for every sharding, and gradients that match finite
// differences.
//
// Uses random inputs and the reference evaluator only, no backend.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include <string>

namespace dtc {

// One tensor compared.
struct NumericsRow {
  std::string name; // "%dw"
  bool pass = true;
  double error = 0, allowed = 0; // the largest difference, and the tolerance there
  std::string where;             // its element, or "along a direction"; "" where nothing differs
  std::string detail;            // the number of elements; actual and expected value where it fails
};

struct NumericsSection {
  enum Kind : uint8_t {
    Sharded,     // every result of the sharded program against the unsharded one, by the rule of --check
    Differences, // gradients against central differences in f64
    Derived,     // a custom gradient against the derived one
  } kind = Sharded;
  std::string function; // "@main"
  std::string title;    // "sharded against unsharded, on @m of 4 devices"
  std::vector<NumericsRow> rows;
  std::string note; // the reason why nothing can be compared, or ""
};

struct NumericsReport {
  std::vector<NumericsSection> sections;
  [[nodiscard]] bool pass() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
};

// Compares each of `entries` sharded against unsharded; every function that a `value_and_grad` in the module
// differentiates with central differences; every function with a custom gradient with the derived gradient,
// or where there is none with central differences. False, with diagnostics, where a pass rejects the program.
// Errors: Input where a function cannot be evaluated (sizes not bound, more than kMaxEquivalenceElements of
// input).
[[nodiscard]] Result<NumericsReport> checkNumerics(const Module&, std::span<const FuncId> entries,
                                                   Diagnostics&);

} // namespace dtc
