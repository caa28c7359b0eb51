#pragma once
// The part of the parser that builders of IR use.
#include "dtc/IR/text/Text.h"

namespace dtc {

// Parses statements up to a `yield` and appends them to `out`; names refer to `bindings`. `none` may be yielded.
[[nodiscard]] bool parseSnippet(std::string_view text, Module& m, BlockId parent,
                                std::span<const std::pair<std::string_view, ValueId>> bindings,
                                std::vector<OpId>& out, std::vector<ValueId>& yields, Diagnostics& diags);

} // namespace dtc
