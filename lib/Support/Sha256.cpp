#include "dtc/Support/Sha256.h"
#include <bit>
#include <cstring>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace dtc {
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static void portableBlock(uint32_t (&h)[8], const uint8_t* p) {
  using std::rotr;
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] =
        uint32_t{p[4 * i]} << 24 | uint32_t{p[4 * i + 1]} << 16 | uint32_t{p[4 * i + 2]} << 8 | p[4 * i + 3];
  for (int i = 16; i < 64; ++i)
    w[i] = w[i - 16] + (rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ (w[i - 15] >> 3)) + w[i - 7] +
           (rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ (w[i - 2] >> 10));
  uint32_t s[8];
  std::memcpy(s, h, sizeof s);
  for (int i = 0; i < 64; i += 8) // the state moves by one in each round, and is in place again after eight
    for (int j = 0; j < 8; ++j) {
      const auto at = [j, &s](int k) -> uint32_t& { return s[(k - j) & 7]; };
      const uint32_t e = at(4), a = at(0);
      const uint32_t t1 = at(7) + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & at(5)) ^ (~e & at(6))) +
                          kRound[i + j] + w[i + j];
      const uint32_t t2 =
          (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & at(1)) ^ (a & at(2)) ^ (at(1) & at(2)));
      at(3) += t1;
      at(7) = t1 + t2;
    }
  for (int i = 0; i < 8; ++i) h[i] += s[i];
}

#ifdef __x86_64__
bool Sha256::hasInstructions() {
  static const bool has = [] {
    constexpr unsigned kSha = 1u << 29; // of EBX
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & kSha);
  }();
  return has;
}

// As in Intel's "New Instructions Supporting the Secure Hash Algorithm" (Gulley et al. 2013): the state is in two
// registers, with words a, b, e, f and c, d, g, h. An instruction computes two rounds.
__attribute__((target("sha,sse4.1"))) static void instructionBlocks(uint32_t (&h)[8], const char* p,
                                                                    size_t count) {
  const auto load = [](const void* from) __attribute__((target("sse4.1"))) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  const __m128i bigEndian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i cdab = _mm_shuffle_epi32(load(h), 0xb1), efgh = _mm_shuffle_epi32(load(h + 4), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count > 0; --count, p += 64) {
    const __m128i abefBefore = abef, cdghBefore = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(p + 16 * i), bigEndian);
#pragma unroll
    for (int i = 0; i < 16; ++i) { // four rounds each
      __m128i &now = w[i & 3], &last = w[(i + 3) & 3];
      const __m128i sums = _mm_add_epi32(now, load(kRound + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sums);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sums, 0x0e));
      now =
          _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) & 3]), _mm_alignr_epi8(last, w[(i + 2) & 3], 4));
      now = _mm_sha256msg2_epu32(now, last);
    }
    abef = _mm_add_epi32(abef, abefBefore);
    cdgh = _mm_add_epi32(cdgh, cdghBefore);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(h), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(h + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#else
bool Sha256::hasInstructions() { return false; }
#endif

void Sha256::blocks(const char* p, size_t count) {
#ifdef __x86_64__
  if (instructions_) return instructionBlocks(h_, p, count);
#endif
  for (; count > 0; --count, p += sizeof pending_) portableBlock(h_, reinterpret_cast<const uint8_t*>(p));
}

Sha256& Sha256::add(std::string_view bytes) {
  total_ += bytes.size();
  while (!bytes.empty()) {
    if (const size_t whole = bytes.size() / sizeof pending_; filled_ == 0 && whole > 0) {
      blocks(bytes.data(), whole);
      bytes.remove_prefix(whole * sizeof pending_);
      continue;
    }
    const size_t n = std::min(bytes.size(), sizeof pending_ - filled_);
    std::memcpy(pending_ + filled_, bytes.data(), n);
    filled_ += n;
    bytes.remove_prefix(n);
    if (filled_ == sizeof pending_) blocks(pending_, 1), filled_ = 0;
  }
  return *this;
}

Sha256& Sha256::field(std::string_view bytes) {
  const uint64_t size = bytes.size();
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(size >> (8 * i));
  return add({length, 8}).add(bytes);
}

std::array<uint8_t, 32> Sha256::finish() {
  const uint64_t bits = total_ * 8;
  const char one = static_cast<char>(0x80), zero = 0;
  add({&one, 1});
  while (filled_ != 56) add({&zero, 1});
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(bits >> (56 - 8 * i));
  add({length, 8});
  std::array<uint8_t, 32> digest;
  for (int i = 0; i < 32; ++i)
    digest[static_cast<size_t>(i)] = static_cast<uint8_t>(h_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string toHex(const std::array<uint8_t, 32>& digest) {
  std::string out;
  for (uint8_t byte : digest) out += "0123456789abcdef"[byte >> 4], out += "0123456789abcdef"[byte & 15];
  return out;
}

} // namespace dtc
