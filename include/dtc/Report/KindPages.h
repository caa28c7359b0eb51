#pragma once
// What each kind of diagnostic means: a sentence or two, a program that triggers it, and the same program mended. One entry a
// kind (lib/Report/KindPages*.cpp); the check `kinds` (test/checks/kinds.py) runs every example and fails on a kind without one.
#include <span>
#include <string>
#include <string_view>

namespace dtc {

struct KindPage {
  const char* id;
  const char* means;
  // The command that reads the example from standard input: "opt - -p propagate". Where no short text triggers the kind, `why`
  // says so and there is no example.
  const char* command;
  const char* example;
  // The mended program has `right` in place of the first `wrong`; where `wrong` is empty, `right` is the mended command.
  const char* wrong;
  const char* right;
  const char* why = "";
};

[[nodiscard]] std::span<const KindPage> kindPages(); // in the order of their ids
[[nodiscard]] const KindPage* findKindPage(std::string_view id);
[[nodiscard]] std::string mendedExample(const KindPage&);
// The page as text for a terminal.
[[nodiscard]] std::string kindText(const KindPage&);
// docs/errors.md
[[nodiscard]] std::string kindsMarkdown();

} // namespace dtc
