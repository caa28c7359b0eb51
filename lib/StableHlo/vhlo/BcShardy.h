#pragma once
#include "vhlo/BcText.h"

namespace dtc {

// Appends an attribute of Shardy as text: #sdy.sharding<@mesh, [{"x"}, {?}]>.
void shardyText(const Bytecode& bc, uint32_t attr, BcText& text);

} // namespace dtc
