#include "dtc/Support/Suggest.h"

#include "dtc/Ops/Ops.h"
#include "dtc/Support/DType.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

using namespace dtc;

namespace {

std::set<std::string> namesIn(std::string_view list) {
  std::set<std::string> out;
  while (!list.empty()) {
    const size_t end = std::min(list.find('|'), list.size());
    out.emplace(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

std::set<std::string> known(Vocabulary v) {
  std::set<std::string> out;
  const OpRegistry& ops = standardOps();
  if (v == Vocabulary::Op)
    for (size_t k = 0; k < ops.size(); ++k) out.emplace(ops[static_cast<OpKind>(k)].name);
  if (v == Vocabulary::Attribute)
    for (size_t k = 0; k < ops.size(); ++k)
      for (const AttrSpec& a : ops[static_cast<OpKind>(k)].attrs) out.emplace(a.name);
  if (v == Vocabulary::DType)
    for (int d = 0; d < kNumDTypes; ++d) out.emplace(dtypeName(static_cast<DType>(d)));
  if (v == Vocabulary::Keyword) out = {"func", "mesh", "return", "yield", "spmd"};
  return out;
}

} // namespace

TEST(Suggest, AliasesNameWhatExists) {
  for (Vocabulary v : {Vocabulary::Op, Vocabulary::Attribute, Vocabulary::DType, Vocabulary::Keyword}) {
    const std::set<std::string> names = known(v);
    for (const Alias& a : aliasTable()) {
      if (a.vocabulary != v) continue;
      const std::set<std::string> here = namesIn(a.here);
      EXPECT_TRUE(std::any_of(here.begin(), here.end(), [&](const auto& n) { return names.contains(n); }))
          << a.elsewhere << " -> " << a.here;
      if (v == Vocabulary::Op || v == Vocabulary::DType)
        EXPECT_FALSE(names.contains(a.elsewhere)) << a.elsewhere;
    }
  }
}

TEST(Suggest, AliasesAreWrittenOnce) {
  std::set<std::pair<Vocabulary, std::string>> seen;
  for (const Alias& a : aliasTable())
    EXPECT_TRUE(seen.emplace(a.vocabulary, a.elsewhere).second) << a.elsewhere;
}

TEST(Suggest, Answers) {
  const std::vector<std::string_view> ops = {"mul", "add", "relu", "concat", "sum"};
  EXPECT_EQ(suggestion(Vocabulary::Op, "multiply", ops), "; dtc calls it 'mul'");
  EXPECT_EQ(suggestion(Vocabulary::Op, "stablehlo.multiply", ops), "; dtc calls it 'mul'");
  EXPECT_EQ(suggestion(Vocabulary::Op, "ReLU", ops), "; dtc calls it 'relu'");
  EXPECT_EQ(suggestion(Vocabulary::Op, "rleu", ops), "; did you mean 'relu'?");
  EXPECT_EQ(suggestion(Vocabulary::Attribute, "axis", {"dims", "keepdim"}), "; dtc calls it 'dims'");
  EXPECT_EQ(suggestion(Vocabulary::Attribute, "axis", {"dim"}), "; dtc calls it 'dim'");
  EXPECT_EQ(suggestion(Vocabulary::Plain, "inptu", {"input", "w"}, "%"), "; did you mean %input?");
  EXPECT_EQ(suggestion(Vocabulary::Plain, "zebra", {"dp", "tp"}), "; there are dp, tp");
  EXPECT_EQ(suggestion(Vocabulary::Plain, "zebra", {}), "");
}
