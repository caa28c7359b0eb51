#include "StatusLine.h"

#include <cstdio>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>

namespace dtc {

constexpr std::chrono::seconds kSilent(1);
constexpr std::chrono::milliseconds kEvery(500);

static size_t terminalColumns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

StatusLine::~StatusLine() {
  {
    std::lock_guard lock(mutex_);
    end_ = true;
    erase();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StatusLine::at(std::string_view what) {
  if (!terminal_) return;
  std::lock_guard lock(mutex_);
  what_ = what;
  if (thread_.joinable()) return;
  began_ = Clock::now();
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error&) { // no thread available: show nothing
    terminal_ = false;
  }
}

void StatusLine::at(std::string_view what, size_t done, size_t of) {
  if (terminal_) at(std::string(what) + ", " + std::to_string(done) + " of " + std::to_string(of));
}

void StatusLine::loop() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kSilent, [&] { return end_; });
  for (; !end_; changed_.wait_for(lock, kEvery, [&] { return end_; })) show();
}

void StatusLine::show() {
  if (!free_) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_).count();
  const std::string text = "dtc: " + what_ + " (" + std::to_string(seconds) + " s)";
  write("\r\x1b[K" + text.substr(0, terminalColumns() - 1)); // a line that wraps could not be erased
  shown_ = true;
}

void StatusLine::erase() {
  if (shown_) write("\r\x1b[K");
  shown_ = false;
}

StatusLine::Writing::Writing(StatusLine& line) : line_(line), lock_(line.mutex_) { line_.erase(); }

} // namespace dtc
