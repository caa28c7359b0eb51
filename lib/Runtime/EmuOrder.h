#pragma once
// Races between the devices of a mesh: who has touched which memory, and what of that has come before what. The work of one place
// runs in its order; that of several only as waitFor() says, whatever order an emulator takes. Safe from several threads.
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
  void addPlace(int64_t place);
  // What `place` does from here on comes behind all that `others` have done so far.
  void waitFor(int64_t place, std::span<const int64_t> others);
  // `place` runs `work`, which reads and writes these. Gives "", or what another place has done there that it is not ordered behind.
  [[nodiscard]] std::string touch(int64_t place, const std::string& work, std::span<const Range> reads,
                                  std::span<const Range> writes);
  // All has ended.
  void forget();

private:
  struct Access {
    size_t place = 0;
    uint64_t clock = 0; // of its place; 0: none
    uint32_t work = 0;  // index into works_
  };
  struct Stretch {
    uintptr_t end = 0;
    Access writer;
    std::vector<Access> readers; // since the writer: the last of each place
  };
  using Memory = std::map<uintptr_t, Stretch>; // by where they begin; none overlap

  Memory::iterator splitAt(uintptr_t at);
  [[nodiscard]] bool before(const Access& earlier, size_t place) const;
  [[nodiscard]] std::string conflict(const Access& earlier, const Access& now, const Range& range, bool wrote,
                                     bool writes) const;
  [[nodiscard]] std::string read(const Access& now, const Range& range);
  [[nodiscard]] std::string write(const Access& now, const Range& range);
  uint32_t number(const std::string& work);

  std::mutex mutex_;
  std::vector<std::vector<uint64_t>>
      clocks_; // [place][other]: how much of the other's work comes before what it does next
  Memory memory_;
  std::vector<std::string> works_;
  std::map<std::string, uint32_t> numbers_;
};

} // namespace dtc
