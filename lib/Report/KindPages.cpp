#include "dtc/Report/KindPages.h"

#include "KindPagesParts.h"

#include <algorithm>
#include <vector>

namespace dtc {

namespace {

std::vector<KindPage> sortedPages() {
  std::vector<KindPage> pages;
  for (std::span<const KindPage> part :
       {kindPagesOfText(), kindPagesOfTypes(), kindPagesOfShardings(), kindPagesOfOps(), kindPagesOfRegions(),
        kindPagesOfPasses(), kindPagesOfFiles()})
    pages.insert(pages.end(), part.begin(), part.end());
  std::sort(pages.begin(), pages.end(),
            [](const KindPage& a, const KindPage& b) { return std::string_view(a.id) < b.id; });
  return pages;
}

std::string shownCommand(std::string_view command) { return "dtc " + std::string(command); }

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

std::span<const KindPage> kindPages() {
  static const std::vector<KindPage> pages = sortedPages();
  return pages;
}

const KindPage* findKindPage(std::string_view id) {
  for (const KindPage& p : kindPages())
    if (id == p.id) return &p;
  return nullptr;
}

std::string mendedExample(const KindPage& page) {
  std::string text = page.example;
  const std::string_view wrong = page.wrong;
  if (wrong.empty()) return text;
  if (size_t at = text.find(wrong); at != std::string::npos) text.replace(at, wrong.size(), page.right);
  return text;
}

std::string kindText(const KindPage& page) {
  std::string text = std::string(page.id) + "\n\n" + page.means + "\n";
  if (!*page.example) return text + (*page.why ? std::string("\nNo example: ") + page.why + ".\n" : "");
  text += "\nExample, for `" + shownCommand(page.command) + "`:\n\n" + indented(page.example);
  if (!*page.wrong) return text + "\nMended: `" + shownCommand(page.right) + "`\n";
  return text + "\nMended:\n\n" + indented(mendedExample(page));
}

std::string kindsMarkdown() {
  std::string text = "# Errors\n\n"
                     "For everyone who reads an error of dtc: what each kind means, an example that triggers "
                     "it, and the example mended.\n"
                     "`dtc help KIND` prints one entry. This page is written by `dtc help errors-page`; a "
                     "test runs every example.\n";
  for (const KindPage& p : kindPages()) {
    text += "\n## `" + std::string(p.id) + "`\n\n" + p.means + "\n";
    if (!*p.example) {
      text += std::string("\nNo example: ") + p.why + ".\n";
      continue;
    }
    text += "\n`" + shownCommand(p.command) + "`:\n\n```text\n" + p.example + "```\n";
    if (*p.wrong)
      text += "\nMended:\n\n```text\n" + mendedExample(p) + "```\n";
    else
      text += "\nMended: `" + shownCommand(p.right) + "`.\n";
  }
  return text;
}

} // namespace dtc
