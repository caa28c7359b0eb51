// The reader of MLIR bytecode: the container's primitives, and files that are damaged at every byte.
#include "dtc/StableHlo/vhlo/Vhlo.h"

#include "dtc/Ops/record/Ops.h"
#include "dtc/StableHlo/import/Import.h"
#include "vhlo/ByteCursor.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace dtc;

namespace {

std::string inputFile(const std::string& name) {
  std::ifstream file(std::string(DTC_SOURCE_DIR) + "/test/Import/Inputs/" + name, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

uint64_t numberOf(const std::string& bytes, bool expectOk = true) {
  ByteFault fault;
  ByteCursor c(bytes, bytes, fault);
  const uint64_t value = c.number();
  EXPECT_EQ(c.ok(), expectOk);
  return value;
}

} // namespace

TEST(Vhlo, Numbers) {
  EXPECT_EQ(numberOf(std::string("\x01", 1)), 0u);
  EXPECT_EQ(numberOf(std::string("\xff", 1)), 127u);
  EXPECT_EQ(numberOf(std::string("\x02\x02", 2)), 128u);
  EXPECT_EQ(numberOf(std::string("\x80\x01\x00\x00\x00\x00\x00\x00", 8)), 1u);
  EXPECT_EQ(numberOf(std::string("\x00\xff\xff\xff\xff\xff\xff\xff\xff", 9)), ~uint64_t{0});
  EXPECT_EQ(numberOf(std::string("\x02", 1), false), 0u);
  ByteFault fault;
  const std::string bytes("\x03\x05\x07", 3);
  ByteCursor c(bytes, bytes, fault);
  EXPECT_EQ(c.signedNumber(), -1);
  EXPECT_EQ(c.signedNumber(), 1);
  EXPECT_EQ(c.count(), 0u) << "three elements do not fit into no bytes";
  EXPECT_EQ(fault.offset, 3u);
}

TEST(Vhlo, DamagedFiles) {
  for (const char* name :
       {"layer.mlirbc", "layer-0.9.mlirbc", "index.mlirbc", "sharded.mlirbc", "relu.jax_export"}) {
    const std::string whole = inputFile(name);
    ASSERT_TRUE(vhloText(name, whole)) << name;
    for (size_t size = 0; size < whole.size(); ++size) {
      const auto text =
          vhloText(name, whole.substr(0, size)); // of an export, the module is not the last part
      EXPECT_TRUE(!text || std::string_view(name) == "relu.jax_export") << name << " " << size;
    }
    for (size_t i = 0; i < whole.size(); ++i)
      for (int bit : {1, 0x80, 0xff}) {
        std::string damaged = whole;
        damaged[i] = static_cast<char>(damaged[i] ^ bit);
        auto text = vhloText(name, damaged);
        if (!text) EXPECT_NE(text.error().message.find(": byte "), std::string::npos);
      }
  }
}

TEST(Vhlo, ConstantsKeepTheirBits) {
  auto text = vhloText("index.mlirbc", inputFile("index.mlirbc"));
  ASSERT_TRUE(text);
  for (const char* part :
       {"dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>", "dense<[true, false, true]> : tensor<3xi1>",
        "dense<[1.5e+00, -2.5e-01]> : tensor<2xbf16>", "dense<7> : tensor<ui32>"})
    EXPECT_NE(text->find(part), std::string::npos) << part;
}
