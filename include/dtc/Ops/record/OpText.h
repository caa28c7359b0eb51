#pragma once
// The documentation of one op; docs/ops.md is opsMarkdown() (Ops.h).
#include "dtc/Ops/record/Ops.h"

namespace dtc {

// The op's entry in docs/ops.md, and a program of that op alone ("" for ops of local text, which have no
// sample).
[[nodiscard]] std::string opMarkdown(const OpRegistry&, OpKind);
[[nodiscard]] std::string opExample(const OpRegistry&, OpKind);

} // namespace dtc
