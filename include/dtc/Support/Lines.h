#pragma once
// Lines and columns of many locations in one text; for a single one use lineColumn.
#include "dtc/Support/Diagnostics.h"
#include <vector>

namespace dtc {

class LineTable {
public:
  // `text` must outlive this object.
  explicit LineTable(std::string_view text);
  // As lineColumn, in logarithmic time.
  [[nodiscard]] LineCol at(uint32_t offset) const;

private:
  std::string_view text_;
  std::vector<uint32_t> begins_; // of each line
};

} // namespace dtc
