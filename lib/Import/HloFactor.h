#pragma once
// Factorisations of matrices as programs of ours: loops over columns, of [batch, rows, columns]. Private to lib/Import.
#include "HloContext.h"

namespace dtc {

struct HloReflectors {
  ValueId matrix,
      factors; // R on and above the diagonal, the vectors below it; one factor per vector, [batch, count]
};
// A = QR by A. Householder's reflections (1958), with LAPACK's signs and its way to keep them.
[[nodiscard]] HloReflectors householderQr(HloContext&, ValueId matrix);
// The first columns of Q = H_1 H_2 …, as many as the result has.
[[nodiscard]] ValueId householderProduct(HloContext&, const HloReflectors&, int64_t columns);

// IR text with $name replaced by values, inlined with its %names bound; what it yields, empty after a report.
struct HloTextValue {
  std::string_view name, value;
};
[[nodiscard]] std::vector<ValueId>
inlineProgram(HloContext&, std::string_view text, std::span<const HloTextValue> values,
              std::span<const std::pair<std::string_view, ValueId>> bindings);

// --- what calls of LAPACK share ---
// An argument that is a letter: a number in mhlo.backend_config. Nothing after a report.
[[nodiscard]] std::optional<char> letterOf(HloContext&, std::string_view name);
// The tensors of floats among the operands.
[[nodiscard]] std::vector<ValueId> matricesOf(HloContext&);
[[nodiscard]] bool isEmptyMatrix(HloContext&, ValueId);
// Result i, brought to its shape and dtype.
[[nodiscard]] bool giveAs(HloContext&, size_t i, ValueId);
// Results that only say how the call went, and working memory of older calls: 0.
[[nodiscard]] bool giveZeros(HloContext&, size_t from);
// [batch…, m, n] as [batch, m, n].
[[nodiscard]] ValueId flatBatch(HloContext&, ValueId);

} // namespace dtc
