// libnvrtc.so.13 of the tests: hands the text of a unit through, without the device header that dtc puts before it.
#include <cstring>
#include <string>

#define STUB_NVRTC extern "C" __attribute__((visibility("default"))) int

namespace {
struct Program {
  std::string image;
};
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
  *out = new Program{std::string("DTC STUB ") + name + "\n" + text.substr(at + mark.size())};
  return 0;
}
STUB_NVRTC nvrtcDestroyProgram(Program** program) { return delete *program, 0; }
STUB_NVRTC nvrtcCompileProgram(Program*, int, const char* const*) { return 0; }
STUB_NVRTC nvrtcGetPTXSize(Program* p, size_t* out) { return *out = p->image.size() + 1, 0; }
STUB_NVRTC nvrtcGetPTX(Program* p, char* out) {
  return std::memcpy(out, p->image.c_str(), p->image.size() + 1), 0;
}
STUB_NVRTC nvrtcGetCUBINSize(Program* p, size_t* out) { return *out = p->image.size(), 0; }
STUB_NVRTC nvrtcGetCUBIN(Program* p, char* out) {
  return std::memcpy(out, p->image.data(), p->image.size()), 0;
}
STUB_NVRTC nvrtcGetProgramLogSize(Program*, size_t* out) { return *out = 1, 0; }
STUB_NVRTC nvrtcGetProgramLog(Program*, char* out) { return *out = 0, 0; }
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int) {
  return "an error of the stub";
}
