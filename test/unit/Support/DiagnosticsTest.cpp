#include "dtc/Support/Diagnostics.h"
#include <gtest/gtest.h>

using namespace dtc;

namespace {
constexpr DiagKind kContract{"contract-mismatch",
                             "'{0}' contracts dim {1} of {2} ({3}) with dim {4} of {5} ({6})"};
constexpr DiagKind kPlain{"plain", "no"};

SourceRange rangeOf(const SourceText& s, std::string_view word) {
  auto at = static_cast<uint32_t>(s.text.rfind(word));
  return {at, at + static_cast<uint32_t>(word.size())};
}
} // namespace

TEST(Diagnostics, RendersAsTheManualShows) {
  SourceText s{"mlp.dt", "mesh @pod = [dp=2, tp=4]\n\n\n// One MLP.\n          %w1: f32[1024, 2048],\n\n\n\n"
                         "  %h = matmul %x, %w1\n"};
  Diagnostics d;
  d.error(kContract, rangeOf(s, "matmul"), "matmul", 1, "%x", 512, 0, "%w1", 1024)
      .alsoAt(rangeOf(s, "%x"))
      .alsoAt(rangeOf(s, "%w1"))
      .note(rangeOf(s, "f32[1024"), "%w1 is f32[1024, 2048]");
  EXPECT_EQ(
      renderDiagnostics(d, s, false),
      "mlp.dt:9:8: error: 'matmul' contracts dim 1 of %x (512) with dim 0 of %w1 (1024) [contract-mismatch]\n"
      "  %h = matmul %x, %w1\n"
      "       ^~~~~~ ~~  ~~~\n"
      "mlp.dt:5:16: note: %w1 is f32[1024, 2048]\n");
}

TEST(Diagnostics, LongLinesAreShortenedAroundTheCaret) {
  SourceText s{"a", std::string(1000, 'x') + "BAD" + std::string(1000, 'y')};
  Diagnostics d;
  d.error(kPlain, rangeOf(s, "BAD"));
  const std::string text = renderDiagnostics(d, s, false);
  const size_t first = text.find('\n') + 1, second = text.find('\n', first) + 1;
  EXPECT_EQ(second - first - 1, 160u);
  EXPECT_EQ(text.find("BAD", first) - first, text.find("^~~", second) - second);
}

TEST(Diagnostics, ColumnsCountCharacters) {
  SourceText s{"a", "\t\"häß\" BAD\r\nnext"};
  Diagnostics d;
  d.error(kPlain, rangeOf(s, "BAD"));
  EXPECT_EQ(renderDiagnostics(d, s, false), "a:1:8: error: no [plain]\n \"häß\" BAD\n       ^~~\n");
}

TEST(Diagnostics, LocationsAtTheEndsOfTheText) {
  SourceText s{"a", "x"};
  Diagnostics d;
  d.error(kPlain, SourceRange{1, 1});
  d.error(kPlain, SourceRange{});
  EXPECT_EQ(renderDiagnostics(d, s, false), "a:1:2: error: no [plain]\nx\n ^\na: error: no [plain]\n");
  EXPECT_EQ(renderDiagnostics(d, {"b", ""}, false), "b:1:1: error: no [plain]\n\n\nb: error: no [plain]\n");
}

TEST(Diagnostics, ReportsAtMostTwenty) {
  Diagnostics d;
  for (int i = 0; i < 50; ++i) d.error(kPlain, {}).note({}, "n");
  d.warning(kPlain, {});
  EXPECT_EQ(d.numErrors(), 20u);
  EXPECT_EQ(d.all().size(), 21u);
  EXPECT_TRUE(d.full());
}

TEST(Diagnostics, NearestWord) {
  const std::vector<std::string_view> words = {"matmul", "gelu", "softmax", "max"};
  EXPECT_EQ(nearestWord("matmlu", words), "matmul");
  EXPECT_EQ(nearestWord("sofmax", words), "softmax");
  EXPECT_EQ(nearestWord("gleu", words), "gelu");
  EXPECT_EQ(nearestWord("qr", words), "");
  EXPECT_EQ(nearestWord(std::string(100000, 'a'), words), "");
}
