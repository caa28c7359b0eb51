#include "dtc/Torch/import/Pt2Import.h"

#include "aten/Table.h"
#include "dtc/Files/Pt2.h"
#include "dtc/Import/graph/Listing.h"
#include "dtc/Import/program/GraphImport.h"
#include "read/Functional.h"
#include "read/Program.h"
#include "read/Random.h"
#include "read/Storage.h"

#include <new>

namespace dtc {
namespace {

Result<ImportedProgram> importPt2(InputFile file, const OpRegistry& registry, const ImportOptions& options,
                                  Diagnostics& diags) {
  if (!options.bindings.empty())
    return usageError("--bind " + options.bindings[0].first +
                      ": only inputs of ONNX models are bound at import");
  const std::string path = file.path();
  DTC_TRY(const auto archive, openPt2(std::move(file)));
  DTC_TRY(const auto text, archive->program());
  DTC_TRY(auto sizes, archive->sizeNames());
  return importTorchProgram(path, text, registry, options, diags, std::move(sizes), archive.get());
}

constexpr GraphFormat kPt2{
    "pt2", "a PyTorch program, as torch.export.save writes it",
    [](std::string_view path, std::string_view head) { return path.ends_with(".pt2") || looksLikePt2(head); },
    importPt2};

} // namespace

const GraphFormat& pt2Format() { return kPt2; }

Result<ImportedProgram> importTorchProgram(const std::string& name, const std::string& text,
                                           const OpRegistry& registry, const ImportOptions& options,
                                           Diagnostics& diags, std::map<std::string, std::string> sizeNames,
                                           const Pt2Archive* archive) {
  ImportedProgram out(registry);
  TorchSymbols symbols(out.module, {options.sizes.begin(), options.sizes.end()}, std::move(sizeNames));
  TorchPlacement placement;
  auto file = readTorchProgram(text, symbols, placement);
  if (!file)
    return Error{file.error().kind,
                 quotedPath(name) + " is not a valid .pt2 file: its program " + file.error().message};
  makeFunctional(*file, archive ? sharedWeights(*file, *archive) : std::vector<SharedWeight>());
  addSeed(*file);
  nameGroups(*file, placement);
  declareMesh(out.module, placement);
  out.module.source = {name, writeListing(out.module, *file)};
  const TorchOrigin origin = !placement.captured      ? TorchOrigin::Export
                             : placement.mesh.empty() ? TorchOrigin::Compile
                                                      : TorchOrigin::Plan;
  out.complete =
      importGraph(out.module, *file, atenTable(origin), diags, options.report ? &out.problems : nullptr);
  if (out.complete) markFrozen(out.module, *file, placement);
  if (out.complete)
    if (Status s = placeArguments(out.module, *file, placement); !s)
      return Error{s.error().kind,
                   quotedPath(name) + " is not a valid .pt2 file: its program " + s.error().message};
  out.symbols.assign(symbols.names().begin(), symbols.names().end());
  return out;
}

} // namespace dtc
