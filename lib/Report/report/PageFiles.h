#pragma once
// The files that pages consist of, which are embedded: lib/Report/report/page.
#include <span>
#include <string>

namespace dtc {

// A page: its title, scripts in the order in which they use each other, and its data.
[[nodiscard]] std::string pageOf(const std::string& title, std::span<const char* const> scripts,
                                 std::string json);

} // namespace dtc
