#pragma once
// The texts of which all printers compose kernels: statements, types, sizes, literals and combinations.
#include "dtc/Kernel/Kernel.h"
#include <set>
#include <string>
#include <vector>

namespace dtc {

struct PrintedKernel {
  std::string body; // between the braces
  SizeFormula units, unitElements, scratchBytes, blocks;
  int threadsPerBlock = 0, sharedBytes = 0, cluster = 1;
  // for CUDA: blocks per multiprocessor that registers must allow; 0: the compiler's choice
  int minBlocks = 0;
  std::string schedule;
};

// Statements at one depth of braces, and the names in them that their surroundings declare only if used.
struct Text {
  int indent = 1;
  std::string text;
  std::set<std::string> used;
  [[nodiscard]] bool uses(const std::string& name) const { return used.contains(name); }
};
void line(Text& t, const std::string& statement);
inline void lineIf(Text& text, const std::string& statement) { // none where it is empty
  if (!statement.empty()) line(text, statement);
}
void append(Text& t, const Text& inner);           // its statements, unchanged
std::string use(Text& t, const std::string& name); // the name, now used by `t`
[[nodiscard]] std::string indentText(int depth);

[[nodiscard]] inline std::string typeText(DType d) { return std::string(dtypeName(d)); }
[[nodiscard]] std::string sizeText(const loops::Size& s);
[[nodiscard]] std::string bufferText(const loops::Kernel& k, uint32_t buffer); // "in0", "out0"
// "in0 + at"
[[nodiscard]] std::string pointerText(const loops::Kernel& k, uint32_t buffer, const std::string& at);
// "i3"; "j8" and the like where that would be the name of a type.
[[nodiscard]] inline std::string axisName(loops::AxisId a) {
  return (a == 8 || a == 16 || a == 32 || a == 64 ? "j" : "i") + std::to_string(a);
}
[[nodiscard]] std::string literalText(const loops::Node& n);

[[nodiscard]] const char* reduceName(loops::ReduceKind kind); // "sum"
// An accumulator's initial value: for a sum 0, like an empty sum.
[[nodiscard]] std::string identityText(loops::ReduceKind kind, DType type);
// The identity of a combination: for sums -0.0, since 0.0 would turn -0.0 into 0.0.
[[nodiscard]] std::string neutralText(loops::ReduceKind kind, DType type);
[[nodiscard]] const char* combineName(loops::ReduceKind kind); // of two partial results: "add"
// Two partial results as one; the statement that adds `x` to `acc`.
[[nodiscard]] std::string combined(loops::ReduceKind kind, DType type, const std::string& a,
                                   const std::string& b);
[[nodiscard]] std::string accumulated(loops::ReduceKind kind, DType type, const std::string& acc,
                                      const std::string& x);

} // namespace dtc
