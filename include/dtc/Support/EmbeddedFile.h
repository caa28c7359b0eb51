#pragma once
// Files of the tree whose text is part of the binary (dtc_embed in cmake/DtcLibraries.cmake).
#include <string_view>

namespace dtc {

struct EmbeddedFile {
  std::string_view name; // "cpu.h"
  std::string_view text;
};

} // namespace dtc
