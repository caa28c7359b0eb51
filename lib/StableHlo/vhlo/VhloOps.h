#pragma once
// The ops of a VHLO program as StableHLO text.
#include "vhlo/BcText.h"

namespace dtc {

// An attribute of an op: its name, and its index.
struct VhloAttr {
  std::string_view name;
  uint32_t attr;
};

// Appends "name = value, …" as StableHLO writes the attributes of `op` ("gather"): fields that VHLO keeps
// apart are put together, and defaults are left out.
void writeStableHloAttrs(BcText& text, const Bytecode& bc, std::string_view op,
                         const std::vector<VhloAttr>& attrs);

} // namespace dtc
