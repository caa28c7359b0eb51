// The reader of ONNX models: no bytes may crash it, and what it accepts is a module that verifies or says why not.

#include "dtc/Files/OnnxWeights.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Onnx/Onnx.h"
#include "dtc/Ops/record/Ops.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void fail(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s\n%s\n", what, text.c_str());
  std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // External data are looked for where there are none.
  const auto file = [&] { return dtc::InputFile::inMemory("/proc/self/fdinfo/fuzz.onnx", bytes); };
  if (auto weights = dtc::onnx::openOnnxWeights(file(), "/proc/self/fdinfo"))
    for (const std::string& name : (*weights)->names())
      if (auto source = (*weights)->tensor(name, {})) (void)source->tensor();
  dtc::Diagnostics diagnostics;
  (void)dtc::onnxFormat().detects("", bytes.substr(0, 1 << 16));
  const auto imported = dtc::onnxFormat().import(file(), dtc::standardOps(), {}, diagnostics);
  if (!imported) {
    if (imported.error().message.empty()) fail("rejected without a word", "");
    return 0;
  }
  if (!imported->complete) {
    if (dtc::renderDiagnostics(diagnostics, imported->module.source, false).empty())
      fail("rejected without a word", "");
    return 0;
  }
  dtc::Module module = imported->module;
  if (!dtc::verifyModule(module, diagnostics)) return 0;
  const std::string text = dtc::printModule(module);
  dtc::Diagnostics again;
  dtc::Module second(dtc::standardOps());
  if (!dtc::parseModule({"printed.dt", text}, dtc::standardOps(), second, again))
    fail("the print does not parse", text + dtc::renderDiagnostics(again, {"printed.dt", text}, false));
  return 0;
}
