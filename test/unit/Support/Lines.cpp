#include "dtc/Support/Lines.h"

#include <gtest/gtest.h>

using namespace dtc;

namespace {

TEST(LineTable, SaysWhatLineColumnSays) {
  for (std::string_view text : {"", "a", "\n", "ab\n\nc\n", "\xc3\xa4x\ny\xe2\x82\xacz"}) {
    LineTable lines(text);
    for (uint32_t i = 0; i <= text.size() + 1; ++i) {
      LineCol want = lineColumn(text, i), got = lines.at(i);
      EXPECT_EQ(got.line, want.line) << text << " at " << i;
      EXPECT_EQ(got.column, want.column) << text << " at " << i;
    }
  }
}

} // namespace
