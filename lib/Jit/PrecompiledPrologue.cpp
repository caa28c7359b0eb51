#include "dtc/Jit/PrecompiledPrologue.h"
#include "dtc/Jit/CpuJitImpl.h"
#include "dtc/Support/Sha256.h"
#include <fstream>

namespace dtc {
namespace {

// All that the bytes depend on, as hex digits.
std::string keyOf(const DtcClangTable& clang, const CompileMode& mode) {
  Sha256 hash;
  hash.field("prologue 2").field(clang.build).field(mode.prologue.digest());
  hash.field(llvmCpuName(mode.options.level));
  for (const char* flag : mode.flags) hash.field(flag);
  return toHex(hash.finish());
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string bytes(in ? static_cast<size_t>(in.tellg()) : 0, '\0');
  in.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return in ? bytes : "";
}

} // namespace

std::string precompiledPrologueName(CpuLevel level) {
  return "dtc-prologue-" + std::string(cpuLevelName(level)) + ".pch";
}

Result<std::string> precompilePrologue(const DtcClangTable& clang, const CompileMode& mode) {
  const std::string text = mode.prologue.complete();
  DtcClangRequest request = requestOf(mode, text);
  request.output = DtcClangPrologue;
  DtcClangReply reply{};
  clang.compile(&request, &reply);
  std::string out = keyOf(clang, mode);
  if (reply.ok) out.append(reply.data[0], reply.dataSizes[0]);
  const std::string log(reply.log, reply.logSize);
  const bool ok = reply.ok;
  clang.release(&reply);
  if (!ok) return Error{Error::Bug, "the prologue does not compile:\n" + log};
  return out;
}

std::string_view PrecompiledPrologues::find(const std::string& folder, const DtcClangTable& clang,
                                            const CompileMode& mode) const {
  if (&mode.prologue != &cpuPrologue() || !mode.usePrecompiled) return {};
  const std::lock_guard lock(mutex_);
  auto& file = files_[static_cast<int>(mode.options.level)];
  if (!file) {
    file = contents(folder + "/" + precompiledPrologueName(mode.options.level));
    if (!file->starts_with(keyOf(clang, mode))) file->clear();
  }
  return std::string_view(*file).substr(std::min(file->size(), keyOf(clang, mode).size()));
}

} // namespace dtc
