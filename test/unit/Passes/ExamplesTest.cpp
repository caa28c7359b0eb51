// Each pass does to its examples (`dtc opt --help-pass`, docs/passes.md) what they say.
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Support/EmbeddedFile.h"

#include <gtest/gtest.h>
#include <ostream>
#include <span>

namespace dtc {

std::span<const EmbeddedFile> passPages(); // generated: docs/passes.md

void PrintTo(const PassInfo& pass, std::ostream* out) { *out << pass.name; }

namespace {

class PassExampleTest : public testing::TestWithParam<PassInfo> {};

std::string canonical(const std::string& text) {
  Module module(standardOps());
  Diagnostics diagnostics;
  SourceText source{"example.dt", text};
  EXPECT_TRUE(parseModule(source, standardOps(), module, diagnostics))
      << renderDiagnostics(diagnostics, source, false);
  return diagnostics.hasErrors() ? "" : printModule(module);
}

void givesWhatItShows(const PassInfo& pass, const std::string& before, const std::string& after) {
  Module module(standardOps());
  Diagnostics diagnostics;
  SourceText source{"before.dt", before};
  ASSERT_TRUE(parseModule(source, standardOps(), module, diagnostics))
      << renderDiagnostics(diagnostics, source, false);
  ASSERT_TRUE(pass.run(module, {}, diagnostics)) << renderDiagnostics(diagnostics, source, false);
  EXPECT_TRUE(verifyModule(module, diagnostics)) << renderDiagnostics(diagnostics, source, false);
  EXPECT_EQ(printModule(module), after);
  EXPECT_EQ(canonical(after), after) << "the example shows text that is not canonical";
}

TEST_P(PassExampleTest, GivesWhatItsRowSays) {
  const PassInfo& pass = GetParam();
  EXPECT_FALSE(pass.examples.empty());
  for (const PassExample& e : pass.examples) {
    SCOPED_TRACE(e.title);
    givesWhatItShows(pass, std::string(e.before), std::string(e.after));
  }
  EXPECT_EQ(findPass(pass.name),
            &*std::find_if(passTable().begin(), passTable().end(),
                           [&](const PassInfo& p) { return std::string_view(p.name) == pass.name; }));
}

INSTANTIATE_TEST_SUITE_P(Table, PassExampleTest, testing::ValuesIn(passTable()), [](const auto& row) {
  std::string name = row.param.name;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

// The page lists the passes of the table, in its order.
TEST(PassPage, HasASectionPerPass) {
  std::string_view page = passPages().front().text;
  constexpr std::string_view kHeading = "\n## `";
  std::vector<std::string> titles, names;
  for (size_t at = page.find(kHeading); at != page.npos; at = page.find(kHeading, at + 1)) {
    const size_t name = at + kHeading.size();
    titles.emplace_back(page.substr(name, page.find('`', name) - name));
  }
  for (const PassInfo& pass : passTable()) names.emplace_back(pass.name);
  EXPECT_EQ(titles, names);
}

} // namespace
} // namespace dtc
