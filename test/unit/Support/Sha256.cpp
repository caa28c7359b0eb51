// SHA-256 with and without the CPU's instructions, against the examples of FIPS 180-4 and against each other.
#include "dtc/Support/Sha256.h"

#include <gtest/gtest.h>

namespace dtc {
namespace {

std::string hashOf(bool instructions, std::string_view bytes, size_t part) {
  Sha256 hash(instructions && Sha256::hasInstructions());
  for (size_t at = 0; at < bytes.size(); at += part) hash.add(bytes.substr(at, part));
  return toHex(hash.finish());
}

TEST(Sha256, KnownDigests) {
  const std::pair<std::string, const char*> known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [bytes, digest] : known)
    for (bool instructions : {false, true})
      for (size_t part : {1, 64, 1000}) EXPECT_EQ(hashOf(instructions, bytes, part), digest) << bytes.size();
}

TEST(Sha256, EqualWithAndWithoutInstructions) {
  std::string bytes;
  for (unsigned i = 0; i < 300; ++i) {
    EXPECT_EQ(hashOf(true, bytes, 7 + i), hashOf(false, bytes, 300)) << i;
    bytes += static_cast<char>(i * 151 + 17);
  }
}

} // namespace
} // namespace dtc
