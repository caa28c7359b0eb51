#pragma once
// The option `limit` of passes that have one. Private to lib/Passes.
#include "dtc/Passes/Pass.h"
#include <charconv>

namespace dtc {

inline constexpr DiagKind kBadLimit{"pass-option", "'{0}': limit is a number, 0 or more; found '{1}'"};

// Its value, or `fallback` where it is not given. Nothing, with a diagnostic, where it is no such number.
[[nodiscard]] inline std::optional<int64_t> limitOption(const PassOptions& options, const char* pass,
                                                        int64_t fallback, Diagnostics& diags) {
  auto it = options.values.find("limit");
  if (it == options.values.end()) return fallback;
  int64_t n = 0;
  const char* last = it->second.data() + it->second.size();
  auto [end, bad] = std::from_chars(it->second.data(), last, n);
  if (bad == std::errc() && end == last && n >= 0) return n;
  diags.error(kBadLimit, {}, pass, it->second);
  return std::nullopt;
}

} // namespace dtc
