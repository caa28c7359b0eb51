#pragma once
// The sections of docs/errors.md, one per kind of diagnostic: what it means, a program that triggers it, and the
// corrected program. The check `kinds` (test/checks/kinds.py) runs every example and fails on a kind without one.
#include <span>
#include <string>
#include <string_view>

namespace dtc {

struct KindPage {
  std::string_view id;
  std::string_view markdown; // without the heading
};

[[nodiscard]] std::span<const KindPage> kindPages(); // in the order of the file
[[nodiscard]] const KindPage* findKindPage(std::string_view id);
// Markdown as text for a terminal: code blocks are indented instead of fenced.
[[nodiscard]] std::string terminalText(std::string_view markdown);

} // namespace dtc
