// Each pass does to its example (`dtc opt --help-pass`, docs/passes.md) what its row of the table says.
#include "dtc/IR/Text.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/Pass.h"

#include <gtest/gtest.h>
#include <ostream>

namespace dtc {

void PrintTo(const PassInfo& pass, std::ostream* out) { *out << pass.name; }

namespace {

class PassExampleTest : public testing::TestWithParam<PassInfo> {};

std::string canonical(const char* text) {
  Module module(standardOps());
  Diagnostics diagnostics;
  SourceText source{"example.dt", text};
  EXPECT_TRUE(parseModule(source, standardOps(), module, diagnostics))
      << renderDiagnostics(diagnostics, source, false);
  return diagnostics.hasErrors() ? "" : printModule(module);
}

void givesWhatItShows(const PassInfo& pass, const char* before, const char* after) {
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
  givesWhatItShows(pass, pass.before, pass.after);
  for (const PassExample& e : pass.more) {
    SCOPED_TRACE(e.title);
    givesWhatItShows(pass, e.before, e.after);
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

} // namespace
} // namespace dtc
