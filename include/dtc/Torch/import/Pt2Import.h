#pragma once
// PyTorch programs: what `torch.export.save` writes (docs/from-pytorch.md).
#include "dtc/Import/program/Format.h"

#include <map>

namespace dtc {

[[nodiscard]] const GraphFormat& pt2Format();

// The same for the text of models/model.json, as torch.compile's backend writes it. `name`: of the listing.
// `sizeNames`: what symbols are called instead, {"s77": "batch"}.
[[nodiscard]] Result<ImportedProgram> importTorchProgram(const std::string& name, const std::string& text,
                                                         const OpRegistry&, const ImportOptions&,
                                                         Diagnostics& diags,
                                                         std::map<std::string, std::string> sizeNames = {});

} // namespace dtc
