#include "dtc/Passes/pipeline/PassText.h"
#include "dtc/Support/EmbeddedFile.h"
#include "dtc/Support/Result.h"
#include <span>

namespace dtc {

std::span<const EmbeddedFile> passPages(); // generated: docs/passes.md

namespace {

constexpr std::string_view kBefore = "Before:\n\n```dt\n", kAfter = "```\n\nAfter:\n\n```dt\n",
                           kEnd = "```\n";

// Removes the text up to and including the next `end` from `rest`; returns what is before `end`.
std::string_view takeTo(std::string_view& rest, std::string_view end) {
  const size_t at = rest.find(end);
  DTC_CHECK(at != std::string_view::npos, "docs/passes.md does not describe a pass as PassTable.cpp does");
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(at + end.size());
  return taken;
}

// One line per paragraph or item of a list.
std::string unwrapped(std::string_view markdown) {
  std::string text;
  for (size_t i = 0; i < markdown.size(); ++i)
    if (markdown[i] != '\n')
      text += markdown[i];
    else if (markdown.substr(i).starts_with("\n\n"))
      text += markdown[i++];
    else if (markdown.substr(i).starts_with("\n  "))
      i += 1; // its second space remains
    else
      text += ' ';
  return text;
}

std::string valuesAndDefault(const PassOption& o) {
  return valuesText(o) + (*o.fallback ? "; default " + std::string(o.fallback) : "; not set by default");
}

std::string levelsText(const PassInfo& pass) {
  return std::string(levelName(pass.needs)) + " text, leaves " + std::string(levelName(pass.produces)) +
         " text";
}

std::string indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    out += (end > 1 ? "    " : "") + std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

} // namespace

void readPassPage(PassInfo& pass) {
  std::string_view rest = passPages().front().text;
  takeTo(rest, "\n## `" + std::string(pass.name) + "`\n\n");
  rest = rest.substr(0, rest.find("\n## `"));
  pass.summary = unwrapped(takeTo(rest, "\n\n"));
  pass.why = unwrapped(takeTo(rest, "\n\nTakes " + levelsText(pass) + "."));
  if (!pass.standard) takeTo(rest, " Not in the standard pipeline.");
  const std::string options = unwrapped(takeTo(rest, kBefore));
  std::string_view items = options;
  for (PassOption& o : pass.options) {
    takeTo(items, "- `" + std::string(o.name) + "` (" + valuesAndDefault(o) + "): ");
    o.doc = items.substr(0, std::min(items.find(" - `"), items.find('\n')));
  }
  for (std::string_view title;; title = takeTo(rest, ".\n\n" + std::string(kBefore))) {
    const std::string_view before = takeTo(rest, kAfter);
    pass.examples.push_back({title, before, takeTo(rest, kEnd)});
    if (rest.empty()) return;
    rest.remove_prefix(1);
  }
}

std::string passText(const PassInfo& p) {
  std::string text =
      std::string(p.name) + ": " + p.summary + "\n\n" + p.why + "\n\ntakes " + levelsText(p) + "\n";
  if (!p.options.empty()) text += "\noptions:\n";
  for (const PassOption& o : p.options)
    text += "  " + std::string(o.name) + " = " + valuesAndDefault(o) + "\n      " + o.doc + "\n";
  for (const PassExample& e : p.examples)
    text += "\n" + (e.title.empty() ? "" : std::string(e.title) + ".\n\n") + "before:\n" +
            indented(e.before) + "\nafter" +
            (e.title.empty() ? " `dtc opt -p " + std::string(p.name) + "`" : "") + ":\n" + indented(e.after);
  return text;
}

} // namespace dtc
