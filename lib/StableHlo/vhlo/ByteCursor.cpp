#include "vhlo/ByteCursor.h"

#include <bit>

namespace dtc {

ByteCursor::ByteCursor(std::string_view file, std::string_view part, ByteFault& fault)
    : file_(file), fault_(&fault) {
  if (part.empty()) return;
  at_ = static_cast<size_t>(part.data() - file.data());
  end_ = at_ + part.size();
}

bool ByteCursor::fail(std::string message) {
  if (!fault_->found) *fault_ = {true, at_, std::move(message)};
  at_ = end_;
  return false;
}

uint8_t ByteCursor::byte() {
  if (at_ >= end_) {
    fail("unexpected end of the data");
    return 0;
  }
  return static_cast<uint8_t>(file_[at_++]);
}

uint64_t ByteCursor::number() {
  const uint8_t first = byte();
  const int more = std::countr_zero(first); // 8 for a byte of zero
  if (!ok()) return 0;
  if (left() < static_cast<size_t>(more)) {
    fail("a number is incomplete");
    return 0;
  }
  uint64_t value = 0;
  for (int i = more; i-- > 0;) value = value << 8 | static_cast<uint8_t>(file_[at_ + static_cast<size_t>(i)]);
  at_ += static_cast<size_t>(more);
  // The bits above the prefix of the first byte are the lowest ones of the value.
  return more >= 7 ? value : value << (7 - more) | static_cast<uint64_t>(first >> (more + 1));
}

int64_t ByteCursor::signedNumber() {
  const uint64_t v = number();
  return static_cast<int64_t>(v >> 1 ^ (0 - (v & 1)));
}

uint64_t ByteCursor::flagged(bool& flag) {
  const uint64_t v = number();
  flag = v & 1;
  return v >> 1;
}

uint64_t ByteCursor::count() {
  const uint64_t n = number();
  if (n <= left()) return n;
  fail("a list of " + std::to_string(n) + " elements is longer than the data");
  return 0;
}

uint64_t ByteCursor::index(size_t of, const char* what) {
  const uint64_t i = number();
  if (!ok() || i < of) return i;
  fail(std::string(what) + " " + std::to_string(i) + " does not exist: there are " + std::to_string(of));
  return 0;
}

std::string_view ByteCursor::bytes(uint64_t n) {
  if (n > left()) {
    fail("expected " + std::to_string(n) + " bytes, but " + std::to_string(left()) + " are left");
    return {};
  }
  const std::string_view part = file_.substr(at_, n);
  at_ += n;
  return part;
}

std::string_view ByteCursor::text() {
  const size_t end = file_.substr(0, end_).find('\0', at_);
  if (end == std::string_view::npos) {
    fail("a text is not terminated");
    return {};
  }
  const std::string_view text = file_.substr(at_, end - at_);
  at_ = end + 1;
  return text;
}

void ByteCursor::align(uint64_t to) {
  if (!std::has_single_bit(to) || to > 1u << 20) {
    fail("an alignment of " + std::to_string(to) + " is not a power of two of at most 2^20");
    return;
  }
  while (ok() && at_ % to) byte();
}

ByteCursor::Section ByteCursor::section() {
  const uint8_t id = byte();
  const uint64_t size = number();
  if (id & 0x80) align(number());
  return {static_cast<uint8_t>(id & 0x7f), bytes(size)};
}

} // namespace dtc
