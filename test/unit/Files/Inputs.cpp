// --input: who binds what, and what is said where it does not fit.
#include "dtc/Files/Inputs.h"
#include "dtc/Files/TensorFiles.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace dtc;

namespace {
const std::vector<InputArgument> kArguments = {{"tokens", "", DType::U8, {4}},
                                               {"w1", "blocks.0.w", DType::F32, {2}},
                                               {"w2", "blocks.1.w", DType::F32, {2}},
                                               {"mask", "", DType::Bool, {3}}};

Result<std::vector<Tensor>> bind(std::vector<const char*> texts,
                                 std::vector<InputArgument> arguments = kArguments) {
  std::vector<InputBinding> bindings;
  for (const char* t : texts) {
    auto b = parseInputBinding(t);
    if (!b) return b.error();
    bindings.push_back(*b);
  }
  auto sources = bindInputs(bindings, arguments);
  if (!sources) return sources.error();
  std::vector<Tensor> values;
  for (const TensorSource& source : *sources) {
    auto t = source.tensor();
    if (!t) return t.error();
    values.push_back(*t);
  }
  return values;
}
} // namespace

TEST(Inputs, NamesBindBeforePatternsWhateverTheirOrder) {
  auto v = bind({"*=const(5)", "blocks.*=const(2)", "w1=const(1)", "tokens=iota"});
  ASSERT_TRUE(v) << v.error().message;
  EXPECT_EQ((*v)[0].getInt(3), 3);
  EXPECT_EQ((*v)[1].getFloat(0), 1);
  EXPECT_EQ((*v)[2].getFloat(0), 2);
  EXPECT_EQ((*v)[3].getInt(0), 1);
}

TEST(Inputs, WeightsAreTheFloatsThatAreLeft) {
  auto v = bind({"weights=const(3)", "w2=zeros", "*=zeros"});
  ASSERT_TRUE(v) << v.error().message;
  EXPECT_EQ((*v)[1].getFloat(0), 3);
  EXPECT_EQ((*v)[2].getFloat(0), 0);
  EXPECT_EQ((*v)[0].getInt(0), 0);
  auto named = bind({"weights=const(3)"}, {{"weights", "", DType::I32, {1}}});
  ASSERT_TRUE(named);
  EXPECT_EQ((*named)[0].getInt(0), 3);
}

TEST(Inputs, ArgumentsHaveStreamsOfTheirOwn) {
  auto v = bind({"*=randn(1)"});
  ASSERT_TRUE(v);
  EXPECT_NE((*v)[1].getFloat(0), (*v)[2].getFloat(0));
}

TEST(Inputs, WhatIsLeftUnboundIsNamedWithTheForms) {
  auto v = bind({"tokens=zeros"});
  ASSERT_FALSE(v);
  EXPECT_EQ(v.error().kind, Error::Usage);
  EXPECT_NE(v.error().message.find("%w1: f32[2]"), std::string::npos);
  EXPECT_NE(v.error().message.find("randn(SEED"), std::string::npos);
}

TEST(Inputs, MistakesAreNamed) {
  EXPECT_NE(bind({"toekns=zeros"}).error().message.find("did you mean 'tokens'"), std::string::npos);
  EXPECT_FALSE(bind({"*=zeros", "w1=zeros", "%w1=iota"}));
  EXPECT_FALSE(bind({"*=zeros", "layers.*=zeros"}));
  for (const char* bad : {"x", "=zeros", "x=", "x=randn(", "x=file.txt"})
    EXPECT_FALSE(parseInputBinding(bad)) << bad;
}

TEST(Inputs, FilesMustFit) {
  std::string path =
      (std::filesystem::temp_directory_path() / ("dtc-inputs-" + std::to_string(getpid()) + ".npy")).string();
  Tensor t(DType::F32, {2});
  t.setFloat(1, 7);
  ASSERT_TRUE(writeNpy(path, t));
  std::string w1 = "w1=" + path, tokens = "tokens=" + path, raw = "w2=raw:" + path, mask = "m=" + path;
  EXPECT_EQ((*bind({"*=zeros", w1.c_str()}))[1].getFloat(1), 7);
  EXPECT_FALSE(bind({"*=zeros", tokens.c_str()}));
  EXPECT_TRUE(bind({"*=zeros", raw.c_str()}));
  auto bools = bind({mask.c_str()}, {{"m", "", DType::Bool, {2}}});
  ASSERT_TRUE(bools) << bools.error().message;
  EXPECT_EQ((*bools)[0].getInt(1), 1);
  EXPECT_FALSE(bind({mask.c_str()}, {{"m", "", DType::F32, {3}}}));
  std::filesystem::remove(path);
}

TEST(Inputs, Patterns) {
  EXPECT_TRUE(matchesPattern("a*c", "abbc"));
  EXPECT_TRUE(matchesPattern("*", ""));
  EXPECT_TRUE(matchesPattern("?b**", "ab"));
  EXPECT_FALSE(matchesPattern("a*c", "abcd"));
  EXPECT_FALSE(matchesPattern("?", ""));
}

TEST(Inputs, ValuesThatTheDtypeDoesNotHaveAreRefused) {
  auto fits = [](const char* value, DType dtype, int64_t elements = 4) {
    auto v = bind({(std::string("x=") + value).c_str()}, {{"x", "", dtype, {elements}}});
    if (!v) EXPECT_EQ(v.error().kind, Error::Usage) << value;
    if (!v)
      EXPECT_NE(v.error().message.find("argument %x is " + std::string(dtypeName(dtype))), std::string::npos);
    return v.ok();
  };
  EXPECT_FALSE(fits("const(3000000000)", DType::I32));
  EXPECT_TRUE(fits("const(3000000000)", DType::U32));
  EXPECT_TRUE(fits("const(-2147483648)", DType::I32));
  EXPECT_FALSE(fits("const(-1)", DType::U8));
  EXPECT_TRUE(fits("const(18446744073709551615)", DType::U64));
  EXPECT_FALSE(fits("const(9223372036854775808)", DType::I64));
  EXPECT_FALSE(fits("const(1.5)", DType::I64));
  EXPECT_TRUE(fits("const(2e3)", DType::I16));
  EXPECT_FALSE(fits("const(nan)", DType::I8));
  EXPECT_FALSE(fits("const(inf)", DType::U16));
  EXPECT_TRUE(fits("const(nan)", DType::F8E4M3));
  EXPECT_FALSE(fits("const(inf)", DType::F8E4M3)); // it has no infinity
  EXPECT_TRUE(fits("const(-inf)", DType::F8E5M2));
  EXPECT_FALSE(fits("const(1e5)", DType::F16));
  EXPECT_TRUE(fits("const(0.1)", DType::BF16)); // rounding is allowed
  EXPECT_FALSE(fits("const(1e300)", DType::C64));
  EXPECT_TRUE(fits("const(7)", DType::Bool));
  EXPECT_FALSE(fits("randn(1,1e38)", DType::F32));
  EXPECT_TRUE(fits("randn(1,1e38)", DType::I32)); // 0 … 7, whatever the deviation
  EXPECT_FALSE(fits("uniform(1,-1,1)", DType::U8));
  EXPECT_FALSE(fits("randint(1,0,257)", DType::U8));
  EXPECT_TRUE(fits("randint(1,0,256)", DType::U8));
  EXPECT_FALSE(fits("iota", DType::I8, 129));
  EXPECT_TRUE(fits("iota", DType::I8, 128));
  EXPECT_FALSE(fits("iota", DType::F16, 70000));
  auto exact = bind({"x=const(9007199254740993)"}, {{"x", "", DType::I64, {1}}});
  ASSERT_TRUE(exact);
  EXPECT_EQ((*exact)[0].getInt(0), 9007199254740993);
}

TEST(Inputs, RangesOfNumbersAreChecked) {
  for (const char* wrong :
       {"x=uniform(1,5,2)", "x=uniform(1,nan,inf)", "x=uniform(1,-1e308,1e308)", "x=randn(1,-1)",
        "x=randn(1,nan)", "x=randn(1,inf)", "x=randint(1,5,2)", "x=randint(1,0,1e300)"})
    EXPECT_FALSE(parseInputBinding(wrong)) << wrong;
  EXPECT_TRUE(parseInputBinding("x=uniform(1,2,2)"));
  EXPECT_TRUE(parseInputBinding("x=randn(1,0)"));
}

TEST(Inputs, PartsOfMadeInputsHaveTheBytesOfTheWhole) {
  for (const DType dtype :
       {DType::F32, DType::F16, DType::F64, DType::I8, DType::I64, DType::Bool, DType::C64})
    for (const char* text :
         {"x=randn(7)", "x=uniform(7,0,3)", "x=randint(7,0,9)", "x=iota", "x=const(3)", "x=zeros"}) {
      auto binding = parseInputBinding(text);
      ASSERT_TRUE(binding);
      const std::vector<InputArgument> argument = {{"x", "", dtype, {9, 11}}};
      const auto whole = bindInputs({&*binding, 1}, argument),
                 parts = bindInputs({&*binding, 1}, argument, {1, 2});
      ASSERT_TRUE(whole && parts) << text;
      EXPECT_FALSE((*whole)[0].inFile());
      EXPECT_TRUE((*parts)[0].inFile());
      const auto same = [&](const Result<Tensor>& a, const Result<Tensor>& b) {
        return a && b && a->dtype() == b->dtype() && std::ranges::equal(a->bytes(), b->bytes());
      };
      const TensorBox box{{3, 5}, {4, 3}};
      EXPECT_TRUE(same((*whole)[0].tensor(), (*parts)[0].tensor())) << text << " " << dtypeName(dtype);
      EXPECT_TRUE(same((*whole)[0].box(box), (*parts)[0].box(box))) << text << " " << dtypeName(dtype);
    }
}
