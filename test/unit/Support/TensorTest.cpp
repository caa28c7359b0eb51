#include "dtc/Support/Tensor.h"
#include "dtc/Support/Bug.h"
#include "dtc/Support/Result.h"
#include <cstdio>
#include <gtest/gtest.h>

using namespace dtc;

TEST(Tensor, ElementsOfEveryDType) {
  for (int i = 0; i < kNumDTypes; ++i) {
    Tensor t(DType(i), {2, 3});
    EXPECT_EQ(t.numElements(), 6);
    EXPECT_EQ(t.bytes().size(), 6u * static_cast<size_t>(dtypeBytes(DType(i))));
    t.setFloat(4, 1);
    if (isComplex(DType(i))) {
      t.setComplex(2, {3, -4});
      EXPECT_EQ(t.getComplex(2), (std::complex<double>{3, -4}));
      EXPECT_EQ(t.getComplex(4), 1.0);
      EXPECT_EQ(t.plane(1).getFloat(2), -4);
      EXPECT_EQ(Tensor::fromPlanes(t.plane(0), t.plane(1)), t);
      EXPECT_EQ(Tensor::fromParts(t.parts()), t);
      continue;
    }
    EXPECT_EQ(t.getFloat(4), 1) << dtypeName(DType(i));
    EXPECT_EQ(t.getInt(4), 1);
    EXPECT_EQ(t.getFloat(5), 0);
    EXPECT_EQ(t.getFloat(3), 0);
  }
}

TEST(Tensor, SetWrapsAndRounds) {
  Tensor t(DType::U64, {1});
  t.setInt(0, -1);
  EXPECT_EQ(t.getFloat(0), 0x1p64);
  Tensor b(DType::BF16, {1});
  b.setFloat(0, 1 + 0x1p-9);
  EXPECT_EQ(b.getFloat(0), 1);
}

TEST(Tensor, ScalarsAndEmpties) {
  EXPECT_EQ(Tensor(DType::F64, {}).numElements(), 1);
  EXPECT_EQ(Tensor(DType::F64, {3, 0, 2}).bytes().size(), 0u);
  EXPECT_EQ(Tensor(DType::I8, {2, 3, 4}).strides(), (std::vector<int64_t>{12, 4, 1}));
}

TEST(Bug, CallsTheHandlerAndExits70) {
  BugHandler h{[](void* self, const char*, int, const char* what) {
                 std::fprintf(stderr, "%s:%s\n", static_cast<const char*>(self), what);
               },
               const_cast<char*>("handled")};
  BugHandlerScope scope(h);
  EXPECT_EXIT(DTC_CHECK(1 + 1 == 3, "sums"), testing::ExitedWithCode(70), "handled:sums");
}
