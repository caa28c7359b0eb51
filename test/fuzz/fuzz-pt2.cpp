// The reader of `.pt2` files and the importer of their programs: no bytes may crash them. The input is an archive,
// or the text of its program.

#include "dtc/Files/Pt2.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Torch/import/Pt2Import.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

// What is imported and verifies must print as a program that parses.
void print(const dtc::Module& m) {
  const std::string text = dtc::printModule(m);
  dtc::Diagnostics diags;
  dtc::Module again(dtc::standardOps());
  if (dtc::parseModule({"printed.dt", text}, dtc::standardOps(), again, diags)) return;
  std::fprintf(stderr, "the print does not parse\n%s\n%s\n", text.c_str(),
               dtc::renderDiagnostics(diags, {"printed.dt", text}, false).c_str());
  std::abort();
}

void import(std::string_view text, const dtc::ImportOptions& options,
            std::map<std::string, std::string> sizeNames = {}, const dtc::Pt2Archive* archive = nullptr) {
  dtc::Diagnostics diags;
  auto imported = dtc::importTorchProgram("fuzz.pt2", std::string(text), dtc::standardOps(), options, diags,
                                          std::move(sizeNames), archive);
  if (!imported) {
    if (imported.error().message.empty()) std::abort(); // rejected without a word
    return;
  }
  if (!imported->complete && !diags.hasErrors() && imported->problems.empty()) std::abort();
  const bool verified = imported->complete && dtc::verifyModule(imported->module, diags);
  (void)dtc::renderDiagnostics(diags, imported->module.source, false);
  if (verified) print(imported->module);
}

const dtc::ImportOptions kBound{.sizes = {{"s0", 3}, {"s1", 2}}, .report = false};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('{')) {
    import(bytes, kBound);
    import(bytes, {.sizes = {}, .report = true});
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
  const auto names = (*archive)->sizeNames();
  if (const auto text = (*archive)->program()) {
    import(*text, kBound, {}, archive->get());
    if (names) import(*text, {}, *names, archive->get());
  }
  return 0;
}
