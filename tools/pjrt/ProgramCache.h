#pragma once
// The compiled programs of a client, by their text: equal programs are compiled once.
#include "Program.h"

#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace dtc {

// Keeps the small programs that were used last. Thread-safe.
class ProgramCache {
public:
  // Null: it is not there.
  [[nodiscard]] std::shared_ptr<const PjrtProgram> find(std::string_view text, int64_t numPartitions);
  void add(std::shared_ptr<const PjrtProgram> program);

  static constexpr size_t kMostPrograms = 512;
  static constexpr size_t kLongestText = 64 << 10;
  static constexpr int64_t kMostMemory = 1 << 20; // bytes of intermediate values of one program

private:
  using Programs = std::list<std::shared_ptr<const PjrtProgram>>;
  Programs programs_;                                                    // the last used first
  std::unordered_multimap<std::string_view, Programs::iterator> byText_; // the text is the program's
  std::mutex mutex_;
};

} // namespace dtc
