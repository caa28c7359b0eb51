// Writes the files of PrecompiledPrologue.h: dtc-precompile FOLDER, which has the plugin dtc-jit-clang.
#include "dtc/Jit/CpuJitImpl.h"
#include <cstdio>
#include <fstream>

using namespace dtc;

static Status write(const std::string& folder) {
  JitConfig config;
  config.pluginDir = folder;
  const ClangLibrary clang(config);
  DTC_TRY(auto table, clang.table());
  for (CpuLevel level : {CpuLevel::Generic, CpuLevel::Avx2, CpuLevel::Avx512}) {
    DTC_TRY(auto bytes, precompilePrologue(*table, {cpuPrologue(), cpuFlags(), {level, 1}}));
    const std::string path = folder + "/" + precompiledPrologueName(level);
    std::ofstream out(path, std::ios::binary);
    if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
      return machineError("cannot write " + path);
  }
  return Ok{};
}

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: dtc-precompile FOLDER\n", stderr), 2;
  const Status done = write(argv[1]);
  if (!done) std::fprintf(stderr, "dtc-precompile: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
