#include "dtc/Report/kinds/KindPages.h"
#include "dtc/Support/EmbeddedFile.h"
#include <algorithm>
#include <vector>

namespace dtc {

std::span<const EmbeddedFile> errorPages(); // generated: docs/errors.md

static std::vector<KindPage> splitPages(std::string_view text) {
  constexpr std::string_view kHeading = "\n## `";
  std::vector<KindPage> pages;
  for (size_t at = text.find(kHeading); at != std::string_view::npos;) {
    const size_t id = at + kHeading.size(), end = text.find('`', id), next = text.find(kHeading, end);
    // From the line after the heading and an empty line; `next` is the end of an empty line.
    pages.push_back({text.substr(id, end - id), text.substr(end + 3, next - (end + 3))});
    at = next;
  }
  return pages;
}

std::span<const KindPage> kindPages() {
  static const std::vector<KindPage> pages = splitPages(errorPages().front().text);
  return pages;
}

const KindPage* findKindPage(std::string_view id) {
  const auto found = std::ranges::find(kindPages(), id, &KindPage::id);
  return found == kindPages().end() ? nullptr : &*found;
}

std::string terminalText(std::string_view markdown) {
  std::string out;
  bool code = false;
  for (std::string_view rest = markdown; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end);
    if (line.starts_with("```"))
      code = !code;
    else if (!code && line.starts_with("`dtc "))
      out += "Example, for " + std::string(line);
    else
      out += (code && line != "\n" ? "    " : "") + std::string(line);
  }
  return out;
}

} // namespace dtc
