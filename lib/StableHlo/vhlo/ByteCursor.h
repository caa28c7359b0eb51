#pragma once
// Reads the primitives of MLIR bytecode from a range of a file. The first fault is kept, and every read after
// it yields zero, so that callers check once per loop.
#include <cstdint>
#include <string>
#include <string_view>

namespace dtc {

struct ByteFault {
  bool found = false;
  size_t offset = 0; // in the file
  std::string message;
};

class ByteCursor {
public:
  // `part` is a part of `file`; offsets count from the file's begin.
  ByteCursor(std::string_view file, std::string_view part, ByteFault& fault);

  [[nodiscard]] bool ok() const { return !fault_->found; }
  [[nodiscard]] bool atEnd() const { return at_ >= end_; }
  [[nodiscard]] size_t left() const { return end_ - at_; }
  [[nodiscard]] size_t offset() const { return at_; }

  uint8_t byte();
  uint64_t number();       // PrefixVarInt: the number of low zero bits is that of the bytes that follow
  int64_t signedNumber();  // zigzag
  uint64_t flagged(bool&); // the lowest bit is a flag
  uint64_t count();        // of things that take at least one byte each
  uint64_t index(size_t of, const char* what);
  std::string_view bytes(uint64_t n);
  std::string_view text(); // up to a zero byte
  void align(uint64_t to); // padding, from the file's begin
  struct Section {
    uint8_t id = 0;
    std::string_view data;
  };
  Section section();
  [[nodiscard]] ByteCursor over(std::string_view part) const { return {file_, part, *fault_}; }
  // False, after keeping the fault unless there was one before.
  bool fail(std::string message);

private:
  std::string_view file_;
  size_t at_ = 0, end_ = 0;
  ByteFault* fault_;
};

} // namespace dtc
