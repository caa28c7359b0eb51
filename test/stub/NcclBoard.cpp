#include "NcclBoard.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace stub {
namespace {

namespace fs = std::filesystem;
constexpr char kPrefix[] = "dtc-nccl-stub-";

fs::path root() {
  static const fs::path where = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  return where;
}

bool isGone(pid_t process) { return kill(process, 0) != 0 && errno == ESRCH; }

void removeStale() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && isGone(std::atoi(name.c_str() + sizeof kPrefix - 1)))
      fs::remove_all(entry.path(), error);
  }
}

} // namespace

std::string Board::newId() {
  static std::atomic<int> next = 0;
  return kPrefix + std::to_string(getpid()) + "-" + std::to_string(++next);
}

std::string Board::path(const std::string& name) const { return (root() / id_ / name).string(); }

void Board::open() const {
  removeStale();
  std::error_code error;
  fs::create_directory(root() / id_, error);
}

void Board::post(const std::string& name, const std::string& bytes) const {
  static std::atomic<int> next = 0;
  const std::string unfinished = path("." + std::to_string(getpid()) + "-" + std::to_string(++next));
  std::ofstream(unfinished, std::ios::binary) << bytes;
  std::error_code error;
  fs::rename(unfinished, path(name), error);
}

bool Board::has(const std::string& name) const { return access(path(name).c_str(), F_OK) == 0; }

std::optional<std::string> Board::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void Board::remove(const std::string& name) const { unlink(path(name).c_str()); }

void Board::removeAll() const {
  std::error_code error;
  fs::remove_all(root() / id_, error);
}

} // namespace stub
