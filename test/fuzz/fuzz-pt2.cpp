// The reader of `.pt2` files and the importer of their programs: no bytes may crash them. The input is an archive,
// or the text of its program.

#include "dtc/Files/Pt2.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Torch/import/Pt2Import.h"

#include <cstdint>
#include <cstdlib>

static void import(std::string_view text, bool report) {
  dtc::Diagnostics diags;
  auto imported = dtc::importTorchProgram("fuzz.pt2", std::string(text), dtc::standardOps(),
                                          {{{"s0", 3}}, report}, diags);
  if (!imported) {
    if (imported.error().message.empty()) std::abort(); // rejected without a word
    return;
  }
  if (!imported->complete && !diags.hasErrors() && imported->problems.empty()) std::abort();
  if (imported->complete) (void)dtc::verifyModule(imported->module, diags);
  (void)dtc::renderDiagnostics(diags, imported->module.source, false);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('{')) {
    import(bytes, false);
    import(bytes, true);
    return 0;
  }
  auto archive = dtc::openPt2(dtc::InputFile::inMemory("fuzz.pt2", bytes));
  if (!archive) {
    if (archive.error().message.empty()) std::abort();
    return 0;
  }
  for (const std::string& name : (*archive)->names()) {
    auto source = (*archive)->tensor(name, {});
    if (source && source->shape().size() < 4) (void)source->tensor();
  }
  (void)(*archive)->sizeNames();
  if (const auto text = (*archive)->program()) import(*text, false);
  return 0;
}
