#include "dtc/Support/Lines.h"

#include <algorithm>

namespace dtc {

LineTable::LineTable(const SourceText& source) : source_(source), begins_{0} {
  const std::string_view text = source.text;
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    begins_.push_back(static_cast<uint32_t>(at + 1));
}

SourcePlace LineTable::at(uint32_t offset) const {
  const std::string_view text = source_.text;
  offset = std::min(offset, static_cast<uint32_t>(text.size()));
  const auto line = std::ranges::upper_bound(begins_, offset) - 1;
  const SourceText::Imported whole{source_.name, 0};
  const auto next = std::ranges::upper_bound(source_.imported, offset, {}, &SourceText::Imported::begin);
  const SourceText::Imported& file = next == source_.imported.begin() ? whole : *std::prev(next);
  const auto first = std::ranges::upper_bound(begins_, file.begin) - 1;
  const uint32_t column = lineColumn(text.substr(*line), offset - *line).column;
  return {next == source_.imported.begin() ? std::string_view(source_.name) : file.name,
          {static_cast<uint32_t>(line - first) + 1, column}};
}

std::string LineTable::text(SourceRange range, bool column) const {
  if (!range.valid() || range.begin > source_.text.size() || source_.name.empty()) return "";
  const SourcePlace place = at(range.begin);
  return std::string(place.file) + ":" + std::to_string(place.at.line) +
         (column ? ":" + std::to_string(place.at.column) : "");
}

} // namespace dtc
