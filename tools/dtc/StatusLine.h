#pragma once
// A status line for tasks longer than a second: the last line of standard error if that is a terminal,
// updated in place twice a second and erased before other output.
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Progress.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace dtc {

class StatusLine : NonCopyable {
public:
  explicit StatusLine(bool terminal) : terminal_(terminal) {}
  ~StatusLine(); // erases the line

  // Sets the current phase. Cheap enough for a loop; a no-op without a terminal.
  void at(std::string_view what);
  // "what, 3 of 34"
  void at(std::string_view what, size_t done, size_t of);
  // The same as a callback, for code that does not depend on StatusLine.
  Progress progress() {
    if (!terminal_) return {};
    return [this](std::string_view what, size_t done, size_t of) { at(what, done, of); };
  }
  // Held while other output is written; endsLine() records whether the cursor is then at the start of a line.
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
  void show();  // requires mutex_
  void erase(); // requires mutex_
  void loop();

  bool terminal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_; // started by the first at()
  bool end_ = false, shown_ = false;
  bool free_ = true; // the cursor is at the start of a line; else the line must not be overwritten
  std::string what_;
  Clock::time_point began_; // start of the whole task
};

} // namespace dtc
