#pragma once
// Lines and columns of many places of one text; of a single place: lineColumn.
#include "dtc/Support/Diagnostics.h"
#include <vector>

namespace dtc {

class LineTable {
public:
  // `text` outlives it.
  explicit LineTable(std::string_view text);
  // As lineColumn says it, in logarithmic time.
  [[nodiscard]] LineCol at(uint32_t offset) const;

private:
  std::string_view text_;
  std::vector<uint32_t> begins_; // of each line
};

} // namespace dtc
