#pragma once
// Lines and columns of many locations in one text; for a single one use placeOf.
#include "dtc/Support/Diagnostics.h"
#include <vector>

namespace dtc {

class LineTable {
public:
  // `source` must outlive this object.
  explicit LineTable(const SourceText& source);
  // As placeOf and placeText, in logarithmic time.
  [[nodiscard]] SourcePlace at(uint32_t offset) const;
  [[nodiscard]] std::string text(SourceRange, bool column = false) const;

private:
  const SourceText& source_;
  std::vector<uint32_t> begins_; // of each line
};

} // namespace dtc
