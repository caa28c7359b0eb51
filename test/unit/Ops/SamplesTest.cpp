// Every op can be tried: its samples parse, and none is idle.
#include "dtc/Ops/record/Samples.h"
#include "dtc/Ops/record/Ops.h"
#include <algorithm>
#include <cstring>
#include <set>

namespace dtc::test {
namespace {

TEST(Samples, EveryLineFitsSomeDType) {
  const OpRegistry& ops = standardOps();
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpRecord& r = ops[static_cast<OpKind>(k)];
    if (!r.samples) continue;
    std::set<std::string> tried;
    for (int d = 0; d < kNumDTypes; ++d)
      for (const OpSample& s : opSamples(ops, static_cast<OpKind>(k), static_cast<DType>(d))) {
        EXPECT_TRUE(s.module.record(s.op).name == std::string_view(r.name));
        EXPECT_EQ(s.ranges.size(), s.module[s.func].args.size());
        tried.insert(s.text);
      }
    size_t lines = 1 + static_cast<size_t>(std::count(r.samples, r.samples + std::strlen(r.samples), '\n'));
    EXPECT_GE(tried.size(), lines) << r.name;
  }
}

TEST(Samples, EveryOpOfAGlobalProgramHasOne) {
  const OpRegistry& ops = standardOps();
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpRecord& r = ops[static_cast<OpKind>(k)];
    if (r.isCollective() || r.regions != RegionKind::None || r.isCall) continue;
    if (std::string_view(r.name) == "custom") continue; // nothing can be computed with it
    size_t found = 0;
    for (int d = 0; d < kNumDTypes; ++d)
      found += opSamples(ops, static_cast<OpKind>(k), static_cast<DType>(d)).size();
    EXPECT_GT(found, 0u) << r.name;
  }
}

} // namespace
} // namespace dtc::test
