#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dtc {

// SHA-256 (FIPS 180-4), with the instructions of x86 for it where the CPU has them.
class Sha256 {
public:
  Sha256() : Sha256(hasInstructions()) {}
  explicit Sha256(bool instructions) : instructions_(instructions) {}
  [[nodiscard]] static bool hasInstructions();

  Sha256& add(std::string_view bytes);
  // The length precedes the bytes, so that different lists of fields give different streams.
  Sha256& field(std::string_view bytes);
  [[nodiscard]] std::array<uint8_t, 32> finish(); // once

private:
  void blocks(const char* p, size_t count);
  bool instructions_;
  uint32_t h_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  char pending_[64];
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

[[nodiscard]] std::string toHex(const std::array<uint8_t, 32>& digest);

} // namespace dtc
