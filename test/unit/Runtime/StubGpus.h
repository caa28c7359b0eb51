#pragma once
// GPUs that are stubs of our own (test/stub): while it lives, CUDA's libraries are looked for there first.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

class StubGpus {
public:
  // As many GPUs as the largest mesh of a test has devices: the stub asks once in a process.
  StubGpus() {
    if (const char* before = std::getenv("LD_LIBRARY_PATH")) before_ = before;
    setenv("LD_LIBRARY_PATH", folder().c_str(), 1);
    setenv("DTC_STUB_GPUS", "8", 1);
  }
  ~StubGpus() {
    if (before_)
      setenv("LD_LIBRARY_PATH", before_->c_str(), 1);
    else
      unsetenv("LD_LIBRARY_PATH");
  }
  StubGpus(const StubGpus&) = delete;
  StubGpus& operator=(const StubGpus&) = delete;
  [[nodiscard]] std::string driver() const { return folder() + "/libcuda.so.1"; }
  [[nodiscard]] bool here() const { return std::filesystem::exists(driver()); }

private:
  static std::string folder() {
    const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe");
    return (binary.parent_path().parent_path() / "stub").string();
  }
  std::optional<std::string> before_;
};
