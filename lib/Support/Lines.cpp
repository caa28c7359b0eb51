#include "dtc/Support/Lines.h"

#include <algorithm>

namespace dtc {

LineTable::LineTable(std::string_view text) : text_(text), begins_{0} {
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    begins_.push_back(static_cast<uint32_t>(at + 1));
}

LineCol LineTable::at(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  const auto line = std::upper_bound(begins_.begin(), begins_.end(), offset) - 1;
  const LineCol within = lineColumn(text_.substr(*line), offset - *line);
  return {static_cast<uint32_t>(line - begins_.begin()) + 1, within.column};
}

} // namespace dtc
