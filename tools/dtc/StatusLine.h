#pragma once
// What a task that takes longer than a second is at: one line at the end of standard error where that is a terminal, rewritten
// in place twice a second, and gone before anything else is written.
#include "dtc/Support/Progress.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace dtc {

class StatusLine {
public:
  explicit StatusLine(bool terminal) : terminal_(terminal) {}
  ~StatusLine(); // leaves no line behind
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // From now on it is at this. Cheap enough for a loop; nothing but a copy where there is no terminal.
  void at(std::string_view what);
  // "what, 3 of 34"
  void at(std::string_view what, size_t done, size_t of);
  // The same, for a task that knows nothing of terminals.
  Progress progress() {
    if (!terminal_) return {};
    return [this](std::string_view what, size_t done, size_t of) { at(what, done, of); };
  }
  // Whoever writes to the terminal holds this meanwhile, and says whether the cursor stands at a line's begin then.
  class Writing {
  public:
    explicit Writing(StatusLine& line);
    void endsLine(bool yes) { line_.free_ = yes; }

  private:
    StatusLine& line_;
    std::unique_lock<std::mutex> lock_;
  };

private:
  using Clock = std::chrono::steady_clock;
  void show();  // with the lock
  void erase(); // with the lock
  void loop();

  bool terminal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_; // begun by the first at()
  bool end_ = false, shown_ = false;
  bool free_ = true; // the cursor is at a line's begin: else what stands there is not ours to write over
  std::string what_;
  Clock::time_point began_; // of the whole task
};

} // namespace dtc
