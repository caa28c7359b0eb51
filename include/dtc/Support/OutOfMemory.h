#pragma once
// Memory that runs out where no Result can say so: in a worker thread, in a destructor, in a library that does not unwind.
// All of it ends as a process with exit code 3 and one sentence on standard error.
#include <string>

namespace dtc {

inline constexpr int kMachineExitCode = 3; // as Error::Machine
inline constexpr const char* kOutOfMemory =
    "out of memory: use smaller sizes or fewer devices, or raise the limit (`ulimit -v`)";

// Ends the process: the sentence, exit code 3. Allocates nothing, runs no destructors, removes the PendingFiles.
[[noreturn]] void endOutOfMemory() noexcept;

// From now on std::terminate ends the process so where memory ran out, and as a bug (exit code 70) otherwise. A library that
// calls exit() ends it with exit code 3 until returnsFromMain() is called: libgomp does where it gets no memory.
void installTerminateHandler();
void returnsFromMain();

// A temporary file until it has its final name: removed by the destructor, and where the process ends as above.
class PendingFile {
public:
  explicit PendingFile(const std::string& path); // must outlive this object
  ~PendingFile();                                // removes the file unless kept
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  void keep() { keep_ = true; }

private:
  const char* path_;
  int slot_ = -1;
  bool keep_ = false;
};

// Does a message of dlerror() (null: it had no memory for one) say that memory ran out?
[[nodiscard]] bool saysOutOfMemory(const char* message);
// Why a library could not be opened: dlerror's message, or that there is not enough memory.
[[nodiscard]] std::string whyNotOpened(const char* message);
// Is an errno the machine's doing (memory, descriptors, a broken disk) and not that of the name given?
[[nodiscard]] bool isMachineErrno(int number);

} // namespace dtc
