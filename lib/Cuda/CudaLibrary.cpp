#include "CudaLibrary.h"
#include "dtc/Support/OutOfMemory.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sys/stat.h>
#include <vector>

namespace dtc {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Folders in `parent` whose name begins with `prefix`, in descending order of names (cuda-13.0 before
// cuda-12.8).
std::vector<std::string> foldersLike(const std::string& parent, std::string_view prefix) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(prefix)) out.push_back(it->path().string());
  std::sort(out.rbegin(), out.rend());
  return out;
}

void addWheels(const std::string& root, std::vector<std::string>& out) {
  if (root.empty()) return;
  for (const std::string& python : foldersLike(root + "/lib", "python3"))
    for (const char* packages : {"/site-packages", "/dist-packages"})
      for (const std::string& package : foldersLike(python + packages + "/nvidia", ""))
        out.push_back(package + "/lib");
}

std::vector<std::string> foldersOf(const char* name) {
  std::vector<std::string> out;
  const std::string path = environment(name);
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    if (end > at) out.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// The Python environments to which the shell's `python3` may belong: their wheels were most likely installed
// on purpose. A link may lead to an environment's python3, and that one to the system's, so each link is
// followed.
std::vector<std::string> pythonsOnPath() {
  std::error_code error;
  std::vector<std::string> out;
  for (const std::string& folder : foldersOf("PATH")) {
    fs::path python = folder + "/python3";
    if (!fs::exists(python, error)) continue;
    for (int links = 0; links < 8; ++links) {
      out.push_back(python.parent_path().parent_path().string());
      const fs::path to = fs::read_symlink(python, error);
      if (error) break;
      python = (python.parent_path() / to).lexically_normal();
    }
    break;
  }
  return out;
}

std::vector<std::string> searchFolders() {
  std::vector<std::string> out = foldersOf("LD_LIBRARY_PATH");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string root = environment(name); !root.empty())
      out.push_back(root + "/lib64"), out.push_back(root + "/lib");
  for (const std::string& root : foldersLike("/usr/local", "cuda"))
    out.push_back(root + "/lib64"), out.push_back(root + "/lib");
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/cuda/lib64"})
    out.emplace_back(folder);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) addWheels(environment(name), out);
  for (const std::string& root : pythonsOnPath()) addWheels(root, out);
  if (const std::string home = environment("HOME"); !home.empty()) addWheels(home + "/.local", out);
  addWheels("/usr/local", out), addWheels("/usr", out);
  return out;
}

// The driver's major CUDA version, 0 without a driver. Libraries of a later version do not start with it, and
// it does not load the output of a later NVRTC ("CUDA Compatibility").
int driverMajor() {
  static const int major = [] {
    int version = 0;
    int (*ask)(int*) = nullptr;
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return driver && bindSymbol(driver, "cuDriverGetVersion", ask) && ask(&version) == 0 ? version / 1000 : 0;
  }();
  return major;
}

// The supported versions, the newest first, in search order. Each library has its own numbering.
std::vector<std::vector<std::string>> suffixesOf(std::string_view stem) {
  if (stem == "nccl") return {{".so.2", ".so"}};
  if (stem == "rccl") return {{".so.1", ".so"}};
  if (stem == "cudnn") return {{".so.9", ".so.8", ".so"}};
  if (stem == "cusolver") // CUDA 12 has libcusolver.so.11, CUDA 13 libcusolver.so.12
    return driverMajor() == 12 ? std::vector<std::vector<std::string>>{{".so.11"}, {".so.12", ".so"}}
                               : std::vector<std::vector<std::string>>{{".so.12", ".so.11", ".so"}};
  if (driverMajor() == 12) return {{".so.12"}, {".so.13", ".so"}};
  return {{".so.13", ".so.12", ".so"}};
}

bool isFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

} // namespace

std::string findCudaLibrary(std::initializer_list<std::string_view> stems) {
  const std::vector<std::string> folders = searchFolders();
  const size_t rounds = suffixesOf(*stems.begin()).size();
  for (size_t round = 0; round < rounds; ++round)
    for (const std::string& folder : folders)
      for (std::string_view stem : stems) {
        const std::vector<std::string> suffixes = suffixesOf(stem)[round];
        for (const std::string& suffix : suffixes)
          if (std::string path = folder + "/lib" + std::string(stem).append(suffix); isFile(path))
            return path;
      }
  return {};
}

std::string findCudaLibrary(std::string_view stem) { return findCudaLibrary({stem}); }

Result<void*> openLibrary(const std::string& path, std::string_view companion) {
  const fs::path folder = fs::path(path).parent_path();
  if (!companion.empty())
    for (const std::string& file : foldersLike(folder.string(), "lib" + std::string(companion) + ".so."))
      if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) break;
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return machineError("cannot open " + path + ": " + whyNotOpened(dlerror()));
}

void keepNvrtcOpen() {
  if (const std::string path = findCudaLibrary("nvrtc"); !path.empty())
    (void)openLibrary(path, "nvrtc-builtins"); // optional: its users report an error without it
}

} // namespace dtc
