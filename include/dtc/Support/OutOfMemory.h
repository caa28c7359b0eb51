#pragma once
// Out-of-memory conditions that cannot be returned as a Result: in a worker thread, in a destructor, in a
// library that does not unwind. The process exits with code 3 and one sentence on standard error.
#include "dtc/Support/NonCopyable.h"
#include <string>

namespace dtc {

inline constexpr int kMachineExitCode = 3; // as Error::Machine
inline constexpr const char* kOutOfMemory =
    "out of memory: use smaller sizes or fewer devices, or raise the limit (`ulimit -v`)";

// Ends the process with this message and exit code 3. Does not allocate, runs no destructors, removes the
// PendingFiles.
[[noreturn]] void endOutOfMemory() noexcept;

// Makes std::terminate exit this way after an allocation failure, and as a bug (exit code 70) otherwise. If a
// library calls exit(), the exit code is 3 until returnsFromMain() is called: libgomp does that when it runs
// out of memory.
void installTerminateHandler();
void returnsFromMain();

// While it lives, an allocation failure of this thread ends the process this way at once, where
// installTerminateHandler() was called: around calls of a library that crashes when an exception passes it.
class EndsWithoutMemory : NonCopyable {
public:
  EndsWithoutMemory();
  ~EndsWithoutMemory();
};

// A temporary file until it gets its final name: removed by the destructor, and if the process exits as
// above.
class PendingFile : NonCopyable {
public:
  explicit PendingFile(const std::string& path); // must outlive this object
  ~PendingFile();                                // removes the file unless kept
  void keep() { keep_ = true; }

private:
  const char* path_;
  int slot_ = -1;
  bool keep_ = false;
};

// Whether a message of dlerror() reports out of memory (null: there was no memory for the message).
[[nodiscard]] bool saysOutOfMemory(const char* message);
// The reason why a library could not be opened: dlerror's message, or out of memory.
[[nodiscard]] std::string whyNotOpened(const char* message);
// Whether an errno is caused by the machine (memory, descriptors, a broken disk) and not by the given name.
[[nodiscard]] bool isMachineErrno(int number);

} // namespace dtc
