// A disk that fails, to be preloaded: of the calls that write below the folder DTC_FAIL_BELOW (creating, writing, flushing, closing and
// renaming files and folders), the one of number DTC_FAIL_WRITE fails, counted from 1 over the whole process, and with DTC_FAIL_AFTER=1
// every later one too, as on a full disk. A failing write first writes a half. What failed is told on standard error.
// At the call of number DTC_STOP_WRITE the process stops, as by SIGSTOP.
// At its end a process tells how many bytes it has read from files whose path begins with DTC_COUNT_READS.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

std::atomic<long> count = 0;

const char* setting(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

bool below(const char* path) {
  static const char* const folder = setting("DTC_FAIL_BELOW");
  return *folder && std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool begins(int fd, const char* with) {
  char link[32], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return false;
  path[n] = 0;
  return std::strncmp(path, with, std::strlen(with)) == 0;
}

bool below(int fd) { return *setting("DTC_FAIL_BELOW") && begins(fd, setting("DTC_FAIL_BELOW")); }

bool failsNow(const char* call) {
  static const long at = std::strtol(setting("DTC_FAIL_WRITE"), nullptr, 10);
  static const bool after = *setting("DTC_FAIL_AFTER") == '1';
  static const long stop = std::strtol(setting("DTC_STOP_WRITE"), nullptr, 10);
  const long n = ++count;
  if (n == stop) (void)raise(SIGSTOP);
  if (at == 0 || n < at || (n > at && !after)) return false;
  if (n == at) {
    char line[64];
    const int size = std::snprintf(line, sizeof line, "stub: %s fails\n", call);
    (void)!syscall(SYS_write, STDERR_FILENO, line, size);
  }
  errno = after ? ENOSPC : EIO;
  return true;
}

template <class Which> bool fails(const char* call, Which file) { return below(file) && failsNow(call); }

// Of DTC_COUNT_READS: a file, or the beginning of the paths of several.
std::atomic<long> bytesRead = 0;

bool counted(int fd) {
  static const char* const of = setting("DTC_COUNT_READS");
  return *of && begins(fd, of);
}

__attribute__((destructor)) void tellReads() {
  if (!*setting("DTC_COUNT_READS")) return;
  char line[64];
  const int size = std::snprintf(line, sizeof line, "stub: %ld bytes read\n", bytesRead.load());
  (void)!syscall(SYS_write, STDERR_FILENO, line, size);
}

template <class F> F* real(F*, const char* name) { return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name)); }

} // namespace

#define REAL(name) static const auto next = real(&name, #name)

#pragma GCC visibility push(default) // the build hides what is not asked for
extern "C" {
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = flags & O_CREAT ? va_arg(list, int) : 0;
  va_end(list);
  REAL(open);
  return (flags & O_ACCMODE) != O_RDONLY && fails("open", path) ? -1 : next(path, flags, mode);
}

int mkostemp(char* path, int flags) {
  REAL(mkostemp);
  return fails("mkostemp", path) ? -1 : next(path, flags);
}

FILE* fopen(const char* path, const char* mode) {
  REAL(fopen);
  return *mode != 'r' && fails("fopen", path) ? nullptr : next(path, mode);
}

ssize_t write(int fd, const void* data, size_t size) {
  REAL(write);
  if (!fails("write", fd)) return next(fd, data, size);
  const int failed = errno;
  if (size > 1) (void)!next(fd, data, size / 2);
  errno = failed;
  return -1;
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  REAL(pwrite);
  if (!fails("pwrite", fd)) return next(fd, data, size, at);
  const int failed = errno;
  if (size > 1) (void)!next(fd, data, size / 2, at);
  errno = failed;
  return -1;
}

ssize_t pread(int fd, void* data, size_t size, off_t at) {
  REAL(pread);
  const ssize_t n = next(fd, data, size, at);
  if (n > 0 && counted(fd)) bytesRead += n;
  return n;
}

int ftruncate(int fd, off_t size) noexcept {
  REAL(ftruncate);
  return fails("ftruncate", fd) ? -1 : next(fd, size);
}

int fflush(FILE* file) {
  REAL(fflush);
  return file && fails("fflush", fileno(file)) ? EOF : next(file);
}

int fclose(FILE* file) {
  REAL(fclose);
  if (!fails("fclose", fileno(file))) return next(file);
  const int failed = errno;
  (void)next(file);
  errno = failed;
  return EOF;
}

int fsync(int fd) {
  REAL(fsync);
  return fails("fsync", fd) ? -1 : next(fd);
}

int close(int fd) {
  REAL(close);
  struct stat info;
  const bool wrote =
      (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY && fstat(fd, &info) == 0 && info.st_size > 0;
  if (!wrote || !fails("close", fd)) return next(fd);
  const int failed = errno;
  (void)next(fd);
  errno = failed;
  return -1;
}

int rename(const char* from, const char* to) {
  REAL(rename);
  return fails("rename", to) ? -1 : next(from, to);
}

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  return fails("mkdir", path) ? -1 : next(path, mode);
}

int fchmod(int fd, mode_t mode) {
  REAL(fchmod);
  return fails("fchmod", fd) ? -1 : next(fd, mode);
}
}
#pragma GCC visibility pop
