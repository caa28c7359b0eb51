#include "dtc/Cuda/Nvrtc.h"
#include "CudaLibrary.h"
#include "dtc/Jit/KernelCache.h"
#include "dtc/Jit/KernelScan.h"
#include "dtc/Jit/Prologue.h"
#include "dtc/Jit/UnitName.h"
#include "dtc/Support/LibraryIdentity.h"
#include "dtc/Support/ParallelFor.h"
#include "dtc/Support/Sha256.h"
#include "dtc/Target/Target.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

namespace dtc {
namespace {

constexpr size_t kLongestBatch = 8; // units per program
// the first with architecture-specific instructions ("sm_90a")
constexpr int kOldestGpu = 80, kOldestOwn = 90;

// NVRTC's C interface, declared here so that dtc builds without CUDA's headers.
using Program = void*;
struct Table {
  int (*version)(int*, int*);
  int (*numArchs)(int*);
  int (*archs)(int*);
  int (*create)(Program*, const char* source, const char* name, int, const char* const*, const char* const*);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char* const*);
  int (*ptxSize)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*cubinSize)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*logSize)(Program, size_t*);
  int (*log)(Program, char*);
  const char* (*errorString)(int);
  int major = 0, minor = 0;
};
constexpr int kCompilationError = 6; // NVRTC_ERROR_COMPILATION

Result<Table> openTable(const std::string& path) {
  if (path.empty())
    return machineError(
        "compiling CUDA kernels needs NVRTC (libnvrtc.so.13 or .12), which is not in LD_LIBRARY_PATH, "
        "CUDA_HOME, "
        "/usr/local/cuda*, the system's folders or a Python environment; install the CUDA toolkit's "
        "package cuda-nvrtc-13-0, or `pip install nvidia-cuda-nvrtc`");
  DTC_TRY(auto library, openLibrary(path, "nvrtc-builtins"));
  Table t{};
  const bool bound = bindSymbol(library, "nvrtcVersion", t.version) &&
                     bindSymbol(library, "nvrtcGetNumSupportedArchs", t.numArchs) &&
                     bindSymbol(library, "nvrtcGetSupportedArchs", t.archs) &&
                     bindSymbol(library, "nvrtcCreateProgram", t.create) &&
                     bindSymbol(library, "nvrtcDestroyProgram", t.destroy) &&
                     bindSymbol(library, "nvrtcCompileProgram", t.compile) &&
                     bindSymbol(library, "nvrtcGetPTXSize", t.ptxSize) &&
                     bindSymbol(library, "nvrtcGetPTX", t.ptx) &&
                     bindSymbol(library, "nvrtcGetCUBINSize", t.cubinSize) &&
                     bindSymbol(library, "nvrtcGetCUBIN", t.cubin) &&
                     bindSymbol(library, "nvrtcGetProgramLogSize", t.logSize) &&
                     bindSymbol(library, "nvrtcGetProgramLog", t.log) &&
                     bindSymbol(library, "nvrtcGetErrorString", t.errorString);
  if (!bound) return machineError(path + " is too old: dtc needs NVRTC 12 or later");
  if (t.version(&t.major, &t.minor) != 0) return machineError(path + " does not report its version");
  return t;
}

// The architectures that it compiles for: 80, 90, 100, …
std::vector<int> archsOf(const Table& table) {
  int count = 0;
  if (table.numArchs(&count) != 0 || count <= 0) return {};
  std::vector<int> archs(static_cast<size_t>(count));
  if (table.archs(archs.data()) != 0) return {};
  return archs;
}

bool supports(const Table& table, std::string_view arch) {
  const std::vector<int> archs = archsOf(table);
  return std::find(archs.begin(), archs.end(), std::atoi(arch.data() + 3)) != archs.end();
}

std::string archsText(const Table& table) {
  std::string text;
  for (int arch : archsOf(table))
    if (arch >= kOldestGpu) text += (text.empty() ? "sm_" : ", sm_") + std::to_string(arch);
  return text;
}

std::string readLog(const Table& table, Program program) {
  size_t size = 0;
  if (table.logSize(program, &size) != 0 || size == 0) return {};
  std::string log(size, '\0');
  if (table.log(program, log.data()) != 0) return {};
  log.resize(std::strlen(log.c_str()));
  // Compile times differ from run to run, and in a cached log they would be wrong.
  for (size_t at; (at = log.find("ptxas info    : Compile time = ")) != std::string::npos;)
    log.erase(at, std::min(log.find('\n', at), log.size() - 1) + 1 - at);
  return log;
}

// The number before `word` in `line`, or 0: "12 bytes spill stores".
int numberBefore(std::string_view line, std::string_view word) {
  size_t end = line.find(word);
  if (end == std::string_view::npos || end == 0) return 0;
  size_t begin = end - 1; // the blank
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  return std::atoi(std::string(line.substr(begin, end - begin)).c_str());
}

std::vector<KernelUsage> parseUsage(std::string_view log) {
  std::vector<KernelUsage> out;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (const size_t at = line.find("Compiling entry function '"); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + 26);
      out.emplace_back().kernel = std::string(rest.substr(0, rest.find('\'')));
    } else if (!out.empty() && line.find(" stack frame") != std::string_view::npos) {
      out.back().stackBytes = numberBefore(line, " bytes stack frame");
      out.back().spillStoreBytes = numberBefore(line, " bytes spill stores");
      out.back().spillLoadBytes = numberBefore(line, " bytes spill loads");
    } else if (!out.empty() && line.find(" registers") != std::string_view::npos) {
      out.back().registers = numberBefore(line, " registers");
      out.back().barriers = numberBefore(line, " barriers");
      out.back().sharedBytes = numberBefore(line, " bytes smem");
      out.back().constantBytes = numberBefore(line, " bytes cmem[0]");
    }
  }
  return out;
}

// A cache entry: the log's length in 8 bytes, the log, the image.
std::string pack(const CudaBinary& binary) {
  const uint64_t size = binary.log.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  return out + binary.log + binary.image;
}

std::optional<CudaBinary> unpack(const std::string& bytes) {
  uint64_t size;
  if (bytes.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size > bytes.size() - sizeof size) return std::nullopt;
  CudaBinary out;
  out.log = bytes.substr(sizeof size, size);
  out.image = bytes.substr(sizeof size + size);
  return out;
}

// Packaged kernels do not depend on the NVRTC that compiled them. The value of a unit's key is that of its image, 64
// digits, and the log; units compiled together share the image.
std::string packageKey(const std::string& prologue, std::string_view arch, const SourceUnit& unit) {
  return toHex(Sha256()
                   .field("cuda package 1")
                   .field(prologue)
                   .field(arch)
                   .field(safeUnitName(unit.name))
                   .field(unit.text)
                   .finish());
}

void collect(KernelObjects& to, const std::string& key, const CudaBinary& binary) {
  const std::string image = toHex(Sha256().field("cuda image").field(binary.image).finish());
  const std::lock_guard lock(to.mutex);
  to.byKey[key] = image + binary.log;
  to.byKey[image] = binary.image;
}

std::optional<CudaBinary> packaged(const KernelObjects& from, const std::string& key) {
  const auto at = from.byKey.find(key);
  if (at == from.byKey.end() || at->second.size() < key.size()) return std::nullopt;
  const auto image = from.byKey.find(at->second.substr(0, key.size()));
  if (image == from.byKey.end()) return std::nullopt;
  CudaBinary out;
  out.image = image->second;
  out.log = at->second.substr(key.size());
  return out;
}

// Several units as one program, which share the cost of the prologue. One image contains the kernels of all.
Result<CudaBinary> compileProgram(const Table& table, std::span<const SourceUnit* const> units,
                                  std::string_view arch, CudaImage image) {
  const std::string name = safeUnitName(units[0]->name);
  std::vector<std::string_view> texts;
  for (const SourceUnit* unit : units) texts.emplace_back(unit->text);
  std::string source = cudaPrologue().of(texts);
  for (const SourceUnit* unit : units)
    source += "\n#line 1 \"" + safeUnitName(unit->name) + "\"\n" + unit->text;
  const std::string target =
      image == CudaImage::Cubin ? std::string(arch) : "compute_" + std::string(arch.substr(3));
  const std::string architecture = "--gpu-architecture=" + target;
  std::vector<const char*> options = {architecture.c_str(), "--std=c++17", "--ptxas-options=-v",
                                      "--no-source-include", "-w"};
  if (table.major >= 13) options.push_back("--minimal"); // neither textures nor surfaces: 8 % less time
  Program program = nullptr;
  if (int code = table.create(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr); code != 0)
    return machineError("NVRTC cannot create a program for '" + name + "': " + table.errorString(code));
  const int code = table.compile(program, static_cast<int>(options.size()), options.data());
  CudaBinary out;
  out.log = readLog(table, program);
  size_t size = 0;
  if (code == 0 && (image == CudaImage::Ptx ? table.ptxSize : table.cubinSize)(program, &size) == 0 &&
      size > 0) {
    out.image.resize(size);
    if ((image == CudaImage::Ptx ? table.ptx : table.cubin)(program, out.image.data()) != 0)
      out.image.clear();
  }
  if (image == CudaImage::Ptx && !out.image.empty()) out.image.resize(std::strlen(out.image.c_str()));
  table.destroy(&program);
  if (!out.image.empty()) return out;
  if (code != kCompilationError)
    return machineError("NVRTC failed on '" + name + "' for " + target + ": " + table.errorString(code) +
                        "\n" + out.log);
  return Error{Error::Bug, "the generated CUDA source of '" + name + "' does not compile for " + target +
                               ":\n" + out.log + "\n--- source of " + name + " ---\n" + units[0]->text};
}

// The part of a program's log that belongs to one unit.
CudaBinary partOf(const CudaBinary& program, const SourceUnit& unit) {
  CudaBinary part{program.image, {}, program.log};
  std::vector<KernelUsage> all = parseUsage(program.log);
  for (const ScannedKernel& kernel : scanKernels(unit.text))
    for (KernelUsage& usage : all)
      if (usage.kernel == kernel.name) part.usage.push_back(std::move(usage));
  return part;
}

// One binary per unit. Where a program of several units fails, each unit is compiled alone and reports its
// own error.
std::vector<Result<CudaBinary>> compileBatch(const Table& table, std::span<const SourceUnit* const> units,
                                             std::string_view arch, CudaImage image) {
  std::vector<Result<CudaBinary>> out;
  auto program = compileProgram(table, units, arch, image);
  if (program)
    for (const SourceUnit* unit : units) out.emplace_back(partOf(*program, *unit));
  else if (units.size() == 1)
    out.emplace_back(program.error());
  else
    for (size_t i = 0; i < units.size(); ++i)
      out.push_back(std::move(compileBatch(table, units.subspan(i, 1), arch, image)[0]));
  return out;
}

} // namespace

struct Nvrtc::Impl {
  explicit Impl(JitConfig c)
      : config(std::move(c)), path(findCudaLibrary("nvrtc")), identity(libraryIdentity(path)),
        cache(config.useCache && !identity.empty() ? KernelCache(config.cacheDir) : KernelCache()) {}

  Result<const Table*> table() const {
    std::lock_guard lock(mutex);
    if (!opened) opened.emplace(openTable(path));
    if (!*opened) return opened->error();
    return &**opened;
  }

  JitConfig config;
  std::string path, identity;
  KernelCache cache;
  mutable std::mutex mutex;
  mutable std::optional<Result<Table>> opened;
};

Nvrtc::Nvrtc(JitConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Nvrtc::~Nvrtc() = default;

Result<std::string> Nvrtc::version() const {
  DTC_TRY(auto table, impl_->table());
  return std::to_string(table->major) + "." + std::to_string(table->minor);
}

std::optional<std::string> Nvrtc::recall(std::string_view question) const {
  return impl_->cache.load(toHex(Sha256().field("answer 1").field(impl_->identity).field(question).finish()));
}

void Nvrtc::remember(std::string_view question, std::string_view answer) const {
  impl_->cache.store(toHex(Sha256().field("answer 1").field(impl_->identity).field(question).finish()),
                     answer);
}

// Whether a GPU runs a cubin: one of its generation that is not newer, and with "a" of exactly this one.
static bool runsCubin(std::string_view arch, int number) {
  const int of = std::atoi(arch.data() + 3);
  return arch.ends_with('a') ? of == number : of / 10 == number / 10 && of <= number;
}

Result<CudaCode> Nvrtc::codeFor(int major, int minor) const {
  const int number = 10 * major + minor;
  if (const std::string& arch = impl_->config.cudaArch; !arch.empty()) {
    if (runsCubin(arch, number)) return CudaCode{arch, CudaImage::Cubin};
    return machineError("the package is compiled for " + arch + ", but this GPU is of compute capability " +
                        std::to_string(major) + "." + std::to_string(minor) +
                        ": compile it again for this GPU with --target sm_" + std::to_string(number));
  }
  if (number < kOldestGpu)
    return machineError("dtc's kernels need a GPU of compute capability 8.0 or later; this one is of " +
                        std::to_string(major) + "." + std::to_string(minor));
  // Uses cached answers of an earlier run before it opens NVRTC.
  const std::string question = "code for " + std::to_string(number);
  auto answer = recall(question);
  if (!answer) {
    DTC_TRY(auto table, impl_->table());
    int best = 0;
    for (int known : archsOf(*table))
      if (known >= kOldestGpu && known <= number) best = std::max(best, known);
    if (best == 0)
      return machineError("NVRTC " + std::to_string(table->major) + "." + std::to_string(table->minor) +
                          " (" + impl_->path + ") has no target compatible with compute capability " +
                          std::to_string(major) + "." + std::to_string(minor));
    remember(question, std::to_string(best));
    answer = std::to_string(best);
  }
  const int best = std::atoi(answer->c_str());
  if (best == number) return CudaCode{"sm_" + *answer + (number >= kOldestOwn ? "a" : ""), CudaImage::Cubin};
  return CudaCode{"sm_" + *answer, best / 10 == major ? CudaImage::Cubin : CudaImage::Ptx};
}

Result<std::vector<CudaBinary>> Nvrtc::compile(std::span<const SourceUnit> units, std::string_view arch,
                                               CudaImage image) const {
  if (!isCudaArch(arch)) return usageError("'" + std::string(arch) + "' is not a CUDA target known to dtc");
  const std::string prologue = toHex(Sha256().field(cudaPrologue().complete()).finish());
  std::vector<std::string> keys(units.size());
  std::map<std::string, std::optional<Result<CudaBinary>>> byKey;
  for (size_t i = 0; i < units.size(); ++i) {
    keys[i] = toHex(Sha256()
                        .field("cuda 2")
                        .field(impl_->identity)
                        .field(prologue)
                        .field(arch)
                        .field(image == CudaImage::Ptx ? "ptx" : "cubin")
                        .field(safeUnitName(units[i].name))
                        .field(units[i].text)
                        .finish());
    auto& entry = byKey[keys[i]];
    if (entry) continue;
    if (impl_->config.packaged)
      if (auto binary = packaged(*impl_->config.packaged, packageKey(prologue, arch, units[i]))) {
        entry.emplace(partOf(*binary, units[i]));
        continue;
      }
    if (auto bytes = impl_->cache.load(keys[i], arch))
      if (auto binary = unpack(*bytes)) entry.emplace(partOf(*binary, units[i]));
  }
  std::vector<size_t> missing;
  for (size_t i = 0; i < units.size(); ++i)
    if (!byKey[keys[i]] && std::ranges::none_of(missing, [&](size_t m) { return keys[m] == keys[i]; }))
      missing.push_back(i);
  if (!missing.empty()) {
    auto opened = impl_->table();
    if (!opened && impl_->config.packaged)
      return machineError("the package has no code for the kernel '" + units[missing[0]].name + "', and " +
                          opened.error().message);
    DTC_TRY(auto table, opened);
    if (!supports(*table, arch))
      return machineError("NVRTC " + std::to_string(table->major) + "." + std::to_string(table->minor) +
                          " (" + impl_->path + ") cannot compile for " + std::string(arch) + ": it knows " +
                          archsText(*table));
    std::vector<std::optional<Result<CudaBinary>>*> slots;
    for (size_t i : missing) slots.push_back(&byKey[keys[i]]);
    // Enough programs to occupy all threads, each short enough for good load balance.
    const size_t batches = std::max((missing.size() + kLongestBatch - 1) / kLongestBatch,
                                    std::min(missing.size(), threadCount(impl_->config.threads)));
    parallelFor(batches, impl_->config.threads, [&](size_t b) {
      const size_t begin = missing.size() * b / batches, end = missing.size() * (b + 1) / batches;
      std::vector<const SourceUnit*> batch;
      for (size_t m = begin; m < end; ++m) batch.push_back(&units[missing[m]]);
      auto made = compileBatch(*table, batch, arch, image);
      for (size_t m = begin; m < end; ++m) {
        slots[m]->emplace(std::move(made[m - begin]));
        if (**slots[m]) impl_->cache.store(keys[missing[m]], pack(***slots[m]), arch);
      }
    });
  }
  std::vector<CudaBinary> out;
  for (size_t i = 0; i < units.size(); ++i) {
    auto& result = *byKey[keys[i]];
    if (!result) return result.error();
    out.push_back(*result);
    if (impl_->config.collected)
      collect(*impl_->config.collected, packageKey(prologue, arch, units[i]), *result);
  }
  return out;
}

} // namespace dtc
