#pragma once
// PyTorch programs: what `torch.export.save` writes (docs/from-pytorch.md).
#include "dtc/Import/program/Format.h"

#include <map>

namespace dtc {

class Pt2Archive;

[[nodiscard]] const GraphFormat& pt2Format();

// The same for the text of models/model.json, as torch.compile's backend writes it. `name`: of the listing.
// `sizeNames`: what symbols are called instead, {"s77": "batch"}. `archive`: of the program; it says which weights
// share memory.
[[nodiscard]] Result<ImportedProgram> importTorchProgram(const std::string& name, const std::string& text,
                                                         const OpRegistry&, const ImportOptions&,
                                                         Diagnostics& diags,
                                                         std::map<std::string, std::string> sizeNames = {},
                                                         const Pt2Archive* archive = nullptr);

} // namespace dtc
