#pragma once
// Detects races between devices of a mesh by recording accesses and their happens-before order. Work of one
// device is in order; work of several devices is ordered only by waitFor(), not by the emulator's execution
// order. Thread-safe.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace dtc {

class EmuOrder {
public:
  struct Range {
    const std::byte* at = nullptr;
    size_t bytes = 0;
  };
  void addDevice(int64_t coordinate);
  // Later work of `coordinate` happens after all earlier work of `others`.
  void waitFor(int64_t coordinate, std::span<const int64_t> others);
  // Records that `coordinate` runs `work` with these accesses. Returns "", or a description of an unordered
  // earlier access.
  [[nodiscard]] std::string touch(int64_t coordinate, const std::string& work, std::span<const Range> reads,
                                  std::span<const Range> writes);
  // All devices are synchronized.
  void forget();

private:
  struct Access {
    size_t coordinate = 0;
    uint64_t clock = 0; // of its device; 0: none
    uint32_t work = 0;  // index into works_
  };
  struct Stretch {
    uintptr_t end = 0;
    Access writer;
    std::vector<Access> readers; // since the writer: the last read of each device
  };
  using Memory = std::map<uintptr_t, Stretch>; // disjoint, by begin

  Memory::iterator splitAt(uintptr_t at);
  [[nodiscard]] bool before(const Access& earlier, size_t coordinate) const;
  [[nodiscard]] std::string conflict(const Access& earlier, const Access& now, const Range& range, bool wrote,
                                     bool writes) const;
  [[nodiscard]] std::string read(const Access& now, const Range& range);
  [[nodiscard]] std::string write(const Access& now, const Range& range);
  uint32_t number(const std::string& work);

  std::mutex mutex_;
  std::vector<std::vector<uint64_t>> clocks_; // vector clocks [coordinate][other]
  Memory memory_;
  std::vector<std::string> works_;
  std::map<std::string, uint32_t> numbers_;
};

} // namespace dtc
