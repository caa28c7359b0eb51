#include "dtc/Support/Lines.h"

#include <gtest/gtest.h>

using namespace dtc;

namespace {

TEST(LineTable, SaysWhatPlaceOfSays) {
  for (std::string_view text : {"", "a", "\n", "ab\n\nc\n", "\xc3\xa4x\ny\xe2\x82\xacz"})
    for (size_t parts = 0; parts < 3; ++parts) { // with as many imported files
      SourceText source{"a.dt", std::string(text)};
      for (size_t i = 0; i < parts; ++i) {
        source.text += "\n";
        source.imported.push_back({"b.dt", static_cast<uint32_t>(source.text.size())});
        source.text += text;
      }
      LineTable lines(source);
      for (uint32_t i = 0; i <= source.text.size(); ++i) {
        const SourcePlace want = placeOf(source, i), got = lines.at(i);
        EXPECT_EQ(got.file, want.file) << text << " at " << i;
        EXPECT_EQ(got.at.line, want.at.line) << text << " at " << i;
        EXPECT_EQ(got.at.column, want.at.column) << text << " at " << i;
        EXPECT_EQ(lines.text({i, i}, true), placeText(source, {i, i}, true)) << text << " at " << i;
      }
    }
}

TEST(PlaceText, CountsLinesOfTheImportedFile) {
  const SourceText source{"a.dt", "one\ntwo\nthree\nfour", {{"b.dt", 8}}};
  EXPECT_EQ(placeText(source, {4, 5}, true), "a.dt:2:1");
  EXPECT_EQ(placeText(source, {15, 16}, true), "b.dt:2:2");
  EXPECT_EQ(placeText(source, {15, 16}), "b.dt:2");
  EXPECT_EQ(placeText(source, SourceRange()), "");
}

} // namespace
