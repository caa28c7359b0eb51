// Counting what is not finite, in each kind of dtype. The search itself has tests in test/Driver/run-nan*.dt.
#include "dtc/Check/run/NanSearch.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace dtc;

TEST(NanSearch, CountsWhatIsNotFinite) {
  for (DType d : {DType::F8E5M2, DType::BF16, DType::F16, DType::F32, DType::F64}) {
    Tensor t(d, {2, 3});
    t.setFloat(2, NAN);
    t.setFloat(3, INFINITY);
    t.setFloat(4, -NAN);
    t.setFloat(5, -INFINITY);
    const NonFiniteCount n = countNonFinite(t);
    EXPECT_EQ(n.nan, 2) << dtypeName(d);
    EXPECT_EQ(n.infinite, 2) << dtypeName(d);
    EXPECT_EQ(n.firstNan, 2) << dtypeName(d);
  }
  Tensor z(DType::C64, {2});
  z.setComplex(1, {INFINITY, NAN});
  EXPECT_EQ(countNonFinite(z).nan, 1);
  EXPECT_EQ(countNonFinite(z).infinite, 1);
  EXPECT_EQ(countNonFinite(Tensor(DType::I32, {4})).nan, 0);
  EXPECT_EQ(countNonFinite(Tensor(DType::F32, {0})).firstNan, -1);
}
