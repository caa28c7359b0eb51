// libnvrtc.so.13 of the tests: hands the text of a unit through, without the device header that dtc puts before it. It takes the
// options that NVRTC documents, for the GPUs that it says it knows. Kernels whose text contains DTC_STUB_SPILLS are reported to spill; without the variable nothing is reported.
#include "KernelImage.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#define STUB_NVRTC extern "C" __attribute__((visibility("default"))) int

namespace {
struct Program {
  std::string name, text, log, target;
  [[nodiscard]] std::string image(bool cubin) const {
    return cubin == target.starts_with("sm_") ? stub::KernelImage{target, name, text}.write() : "";
  }
};
constexpr int kInvalidOption = 5; // NVRTC_ERROR_INVALID_OPTION

// What ptxas says of each kernel of a text.
std::string logOf(const std::string& text) {
  const char* spills = std::getenv("DTC_STUB_SPILLS");
  std::string log;
  for (size_t at = spills ? text.find("__global__") : std::string::npos; at != std::string::npos;) {
    const size_t next = text.find("__global__", at + 1);
    const std::string kernel = text.substr(at, next == std::string::npos ? next : next - at);
    const size_t end = kernel.find('(', kernel.find("\nk_")), begin = kernel.find("\nk_") + 1;
    const std::string bytes = kernel.find(spills) == std::string::npos ? "0" : "16";
    log += "ptxas info    : Compiling entry function '" + kernel.substr(begin, end - begin) +
           "' for 'sm_90a'\n    " + bytes + " bytes stack frame, " + bytes + " bytes spill stores, " + bytes +
           " bytes spill loads\nptxas info    : Used 40 registers, used 1 barriers, 64 bytes smem\n";
    at = next;
  }
  return log;
}
constexpr int kArchs[] = {80, 90, 100};
} // namespace

STUB_NVRTC nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
STUB_NVRTC nvrtcGetNumSupportedArchs(int* count) { return *count = 3, 0; }
STUB_NVRTC nvrtcGetSupportedArchs(int* out) { return std::memcpy(out, kArchs, sizeof kArchs), 0; }
STUB_NVRTC nvrtcCreateProgram(Program** out, const char* source, const char* name, int, const char* const*,
                              const char* const*) {
  const std::string text = source, mark = std::string("\n#line 1 \"") + name + "\"\n";
  const size_t at = text.rfind(mark);
  if (at == std::string::npos) return 3; // NVRTC_ERROR_INVALID_INPUT
  const std::string unit = text.substr(at + mark.size());
  *out = new Program{name, unit, logOf(unit), ""};
  return 0;
}
STUB_NVRTC nvrtcDestroyProgram(Program** program) { return delete *program, 0; }
STUB_NVRTC nvrtcCompileProgram(Program* p, int count, const char* const* options) {
  constexpr std::string_view known[] = {"--std=c++17", "--ptxas-options=-v", "--no-source-include", "-w",
                                        "--minimal"};
  constexpr std::string_view architecture = "--gpu-architecture=";
  for (const std::string_view option : std::vector<std::string_view>(options, options + count))
    if (option.starts_with(architecture))
      p->target = option.substr(architecture.size());
    else if (std::find(std::begin(known), std::end(known), option) == std::end(known))
      return kInvalidOption;
  const int number = std::atoi(p->target.c_str() + p->target.find('_') + 1);
  return std::find(std::begin(kArchs), std::end(kArchs), number) == std::end(kArchs) ? kInvalidOption : 0;
}
STUB_NVRTC nvrtcGetPTXSize(Program* p, size_t* out) { return *out = p->image(false).size() + 1, 0; }
STUB_NVRTC nvrtcGetPTX(Program* p, char* out) {
  const std::string image = p->image(false);
  return std::memcpy(out, image.c_str(), image.size() + 1), 0;
}
STUB_NVRTC nvrtcGetCUBINSize(Program* p, size_t* out) { return *out = p->image(true).size(), 0; }
STUB_NVRTC nvrtcGetCUBIN(Program* p, char* out) {
  const std::string image = p->image(true);
  return std::memcpy(out, image.data(), image.size()), 0;
}
STUB_NVRTC nvrtcGetProgramLogSize(Program* p, size_t* out) { return *out = p->log.size() + 1, 0; }
STUB_NVRTC nvrtcGetProgramLog(Program* p, char* out) {
  return std::memcpy(out, p->log.c_str(), p->log.size() + 1), 0;
}
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int) {
  return "an error of the stub";
}
