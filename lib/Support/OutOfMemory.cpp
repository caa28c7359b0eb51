#include "dtc/Support/OutOfMemory.h"

#include "dtc/Support/Result.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace dtc {
namespace {

// Process-wide, like the C++ library hooks that read them.
constexpr int kMaxPending = 16;
std::atomic<const char*> pending[kMaxPending];
std::atomic<bool> ranOut = false;  // operator new failed at least once
std::atomic<bool> returns = false; // main() has returned: exit() is its own
thread_local int fragile = 0;      // EndsWithoutMemory of this thread

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

[[noreturn]] void onNewFailed() {
  ranOut = true;
  if (fragile) endOutOfMemory();
  throw std::bad_alloc();
}

[[noreturn]] void onTerminate() {
  const std::exception_ptr thrown = std::current_exception();
  if (!thrown && ranOut) endOutOfMemory(); // there was not enough memory even for the exception
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    endOutOfMemory();
  } catch (const std::length_error&) { // a size that exceeds any memory
    endOutOfMemory();
  } catch (const std::system_error& e) {
    if (isMachineErrno(e.code().value())) endOutOfMemory();
    endAtBug(__FILE__, __LINE__, e.what());
  } catch (const std::exception& e) {
    endAtBug(__FILE__, __LINE__, e.what());
  } catch (...) {}
  endAtBug(__FILE__, __LINE__, "std::terminate was called");
}

void onExit() {
  if (!returns) endOutOfMemory();
}

} // namespace

void endOutOfMemory() noexcept {
  if (isatty(STDERR_FILENO)) say("\r\x1b[K"); // the status line, if there is one
  say("error: ");
  say(kOutOfMemory);
  say("\n");
  for (std::atomic<const char*>& slot : pending)
    if (const char* path = slot.exchange(nullptr)) unlink(path);
  _exit(kMachineExitCode);
}

void installTerminateHandler() {
  std::set_new_handler(&onNewFailed);
  std::set_terminate(&onTerminate);
  std::atexit(&onExit);
  // glibc opens the unwinder's library when an exception first passes one of its own frames, such as
  // std::call_once, and aborts if it has no memory for that: so open it now.
  void* frame = nullptr;
  (void)backtrace(&frame, 1);
}

void returnsFromMain() { returns = true; }

EndsWithoutMemory::EndsWithoutMemory() { ++fragile; }
EndsWithoutMemory::~EndsWithoutMemory() { --fragile; }

PendingFile::PendingFile(const std::string& path) : path_(path.c_str()) {
  for (int i = 0; i < kMaxPending && slot_ < 0; ++i) {
    const char* none = nullptr;
    if (pending[i].compare_exchange_strong(none, path_)) slot_ = i;
  }
}

PendingFile::~PendingFile() {
  if (slot_ >= 0) pending[slot_] = nullptr;
  if (!keep_) unlink(path_);
}

bool saysOutOfMemory(const char* message) {
  if (!message) return true;
  const std::string_view text = message;
  for (std::string_view sign : {"Cannot allocate memory", "cannot allocate memory", "out of memory"})
    if (text.find(sign) != std::string_view::npos) return true;
  return false;
}

std::string whyNotOpened(const char* message) {
  return saysOutOfMemory(message) ? "not enough memory (`ulimit -v` limits it)" : message;
}

bool isMachineErrno(int number) {
  switch (number) {
  case ENOMEM:
  case EAGAIN:
  case EMFILE:
  case ENFILE:
  case EIO:
  case EBADF:
  case ENOSPC: return true;
  default: return false;
  }
}

} // namespace dtc
