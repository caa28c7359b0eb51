#include "dtc/Jit/CpuJit.h"
#include "dtc/Jit/CpuJitImpl.h"
#include "dtc/Jit/UnitName.h"
#include "dtc/Support/OutOfMemory.h"
#include "dtc/Support/ParallelFor.h"
#include "dtc/Support/Sha256.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace dtc {
constexpr size_t kLongestBatch = 8; // units in one translation unit
constexpr std::string_view kLevelNames[] = {"generic", "avx2", "avx512"};

static std::string cacheKey(const SourceUnit& unit, const CompileMode& mode,
                            const std::string& prologueDigest, const std::string& compiler) {
  Sha256 hash;
  hash.field("cpu object 1").field(compiler).field(prologueDigest);
  hash.field(llvmCpuName(mode.options.level)).field(std::to_string(mode.options.optLevel));
  for (const char* flag : mode.flags) hash.field(flag);
  hash.field(mode.checkAccesses ? "checked" : mode.sharedAsOffsets ? "shared" : "");
  return toHex(hash.field(safeUnitName(unit.name)).field(unit.text).finish());
}

// "cpu-avx2", "cuda-emu": the target of an entry in `dtc cache ls`.
static std::string cacheTarget(const CompileMode& mode) {
  return mode.sharedAsOffsets ? "cuda-emu" : "cpu-" + std::string(cpuLevelName(mode.options.level));
}

static CpuLevel supportedLevel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return CpuLevel::Avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return CpuLevel::Avx2;
#endif
  return CpuLevel::Generic;
}

CpuLevel hostCpuLevel() {
  static const CpuLevel level = [] {
    const char* wish = std::getenv(kCpuLevelVariable);
    return std::min(supportedLevel(), parseCpuLevel(wish ? wish : "").value_or(CpuLevel::Avx512));
  }();
  return level;
}

std::string_view cpuLevelName(CpuLevel level) { return kLevelNames[static_cast<int>(level)]; }

std::optional<CpuLevel> parseCpuLevel(std::string_view name) {
  for (int i = 0; i < 3; ++i)
    if (kLevelNames[i] == name) return static_cast<CpuLevel>(i);
  return std::nullopt;
}

int vectorBytes(CpuLevel level) { return 16 << static_cast<int>(level); }

const char* llvmCpuName(CpuLevel level) {
  constexpr const char* names[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
  return names[static_cast<int>(level)];
}

std::vector<const char*> cpuFlags() { return {}; }

void* CpuModule::find(std::string_view name) const {
  const auto& all = impl_->symbols;
  auto at = std::lower_bound(all.begin(), all.end(), name,
                             [](const auto& s, std::string_view n) { return s.first < n; });
  return at != all.end() && at->first == name ? at->second : nullptr;
}

Result<CpuModule> linkObjects(std::span<const std::string> objects, std::span<const SourceUnit> units,
                              std::span<const HostSymbol> hosts) {
  auto module = std::make_shared<CpuModule::Impl>();
  for (size_t i = 0; i < objects.size(); ++i) {
    auto loaded = loadObject(objects[i], hosts);
    if (!loaded) return Error{loaded.error().kind, units[i].name + ": " + loaded.error().message};
    for (const auto& symbol : (*loaded)->symbols()) module->symbols.push_back(symbol);
    module->objects.push_back(std::move(*loaded));
  }
  std::sort(module->symbols.begin(), module->symbols.end());
  return CpuModule(std::move(module));
}

DtcClangRequest requestOf(const CompileMode& mode, const std::string& prologue) {
  DtcClangRequest request{};
  request.prologue = prologue.data(), request.prologueSize = prologue.size();
  request.flags = mode.flags.data(), request.flagCount = mode.flags.size();
  request.cpu = llvmCpuName(mode.options.level);
  request.optLevel = mode.options.optLevel;
  request.sharedAsOffsets = mode.sharedAsOffsets;
  request.checkAccesses = mode.checkAccesses;
  request.outOfMemory = [] { endOutOfMemory(); };
  request.failed = [](const char* reason) { endAtBug(__FILE__, __LINE__, reason); };
  return request;
}

Result<std::vector<std::string>> CpuJit::Impl::run(std::span<const SourceUnit* const> units,
                                                   const CompileMode& mode, DtcClangOutput output) const {
  DTC_TRY(auto table, clang.table());
  std::vector<std::string> names;
  std::vector<DtcClangUnit> inputs;
  names.reserve(units.size());
  std::vector<std::string_view> texts;
  for (const SourceUnit* unit : units) {
    texts.emplace_back(unit->text);
    names.push_back(safeUnitName(unit->name));
    inputs.push_back({names.back().c_str(), unit->text.data(), unit->text.size()});
  }
  const std::string_view made = precompiled.find(clang.folder(), *table, mode);
  const std::string prologue = made.empty() ? mode.prologue.of(texts) : mode.prologue.complete();
  DtcClangRequest request = requestOf(mode, prologue);
  request.units = inputs.data(), request.unitCount = inputs.size();
  request.precompiled = made.empty() ? nullptr : made.data(), request.precompiledSize = made.size();
  request.output = output;
  DtcClangReply reply{};
  table->compile(&request, &reply);
  std::vector<std::string> data;
  for (size_t i = 0; i < reply.dataCount; ++i) data.emplace_back(reply.data[i], reply.dataSizes[i]);
  const std::string log(reply.log, reply.logSize);
  const bool ok = reply.ok;
  table->release(&reply);
  if (ok) return data;
  return Error{Error::Bug, "the generated source of '" + names[0] + "' does not compile:\n" + log +
                               "\n--- source of " + names[0] + " ---\n" + units[0]->text};
}

// The key of a packaged kernel has this in place of the compiler, which is not there when it is loaded.
constexpr const char* kPackaged = "package";

static Result<std::vector<std::string>> packagedObjects(std::span<const SourceUnit> units,
                                                        const CompileMode& mode, const std::string& prologue,
                                                        const KernelObjects& packaged) {
  std::vector<std::string> out;
  for (const SourceUnit& unit : units) {
    const auto at = packaged.byKey.find(cacheKey(unit, mode, prologue, kPackaged));
    if (at == packaged.byKey.end())
      return inputError("the package has no code for the kernel '" + unit.name +
                        "': it is damaged, or from another build of dtc");
    out.push_back(at->second);
  }
  return out;
}

Result<std::vector<std::string>> CpuJit::Impl::objects(std::span<const SourceUnit> units,
                                                       const CompileMode& mode, size_t* numCompiled) const {
  const std::string& prologue = mode.prologue.digest();
  if (config.packaged) return packagedObjects(units, mode, prologue, *config.packaged);
  std::vector<std::string> out(units.size()), keys(units.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < units.size(); ++i) {
    keys[i] = cacheKey(units[i], mode, prologue, clang.identity());
    if (auto cached = clang.identity().empty() ? std::nullopt : cache.load(keys[i], cacheTarget(mode)))
      out[i] = std::move(*cached);
    else
      missing.push_back(i);
  }
  if (numCompiled) *numCompiled = missing.size();
  // Consecutive units grouped into translation units: enough groups for all threads, each short enough for
  // good load balance.
  const size_t batches = std::max((missing.size() + kLongestBatch - 1) / kLongestBatch,
                                  std::min(missing.size(), threadCount(config.threads)));
  std::vector<std::optional<Error>> errors(batches);
  parallelFor(batches, config.threads, [&](size_t b) {
    const size_t begin = missing.size() * b / batches, end = missing.size() * (b + 1) / batches;
    errors[b] = compileBatch(units, std::span(missing).subspan(begin, end - begin), mode, keys, out);
  });
  for (auto& error : errors)
    if (error) return std::move(*error);
  if (config.collected) {
    const std::lock_guard lock(config.collected->mutex);
    for (size_t i = 0; i < units.size(); ++i)
      config.collected->byKey[cacheKey(units[i], mode, prologue, kPackaged)] = out[i];
  }
  return out;
}

std::optional<Error> CpuJit::Impl::compileBatch(std::span<const SourceUnit> units,
                                                std::span<const size_t> which, const CompileMode& mode,
                                                const std::vector<std::string>& keys,
                                                std::vector<std::string>& out) const {
  std::vector<const SourceUnit*> batch;
  for (size_t i : which) batch.push_back(&units[i]);
  auto objects = run(batch, mode, DtcClangObject);
  if (!objects && which.size() > 1) { // finds the failing unit, and compiles the others
    std::optional<Error> first;
    for (size_t i = 0; i < which.size(); ++i)
      if (auto error = compileBatch(units, which.subspan(i, 1), mode, keys, out); error && !first)
        first = std::move(error);
    return first;
  }
  if (!objects) return objects.error();
  for (size_t i = 0; i < which.size(); ++i) {
    cache.store(keys[which[i]], (*objects)[i], cacheTarget(mode));
    out[which[i]] = std::move((*objects)[i]);
  }
  return std::nullopt;
}

CpuJit::CpuJit(JitConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
CpuJit::~CpuJit() = default;

Result<CpuModule> CpuJit::compile(std::span<const SourceUnit> units, const CpuCompileOptions& options,
                                  CpuCompileReport* report) const {
  using Clock = std::chrono::steady_clock;
  const CompileMode mode{cpuPrologue(), cpuFlags(), options};
  const Clock::time_point begin = Clock::now();
  CpuCompileReport own;
  own.units = units.size();
  DTC_TRY(auto objects, impl_->objects(units, mode, &own.compiled));
  const Clock::time_point compiled = Clock::now();
  auto module = linkObjects(objects, units, {});
  own.compileMs = std::chrono::duration<double, std::milli>(compiled - begin).count();
  if (report) *report = own;
  if (!module && impl_->config.packaged && module.error().kind == Error::Bug) // a file has the code
    return inputError("the package is damaged: " + module.error().message);
  return module;
}

Result<std::string> CpuJit::emit(const SourceUnit& unit, CpuText what,
                                 const CpuCompileOptions& options) const {
  const CompileMode mode{cpuPrologue(), cpuFlags(), options};
  const SourceUnit* const one[] = {&unit};
  DTC_TRY(auto text, impl_->run(one, mode, what == CpuText::Llvm ? DtcClangLlvm : DtcClangAsm));
  return std::move(text.front());
}

} // namespace dtc
