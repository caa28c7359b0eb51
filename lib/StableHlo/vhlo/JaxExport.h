#pragma once
// `jax.export` artifacts: a flatbuffer whose root table has the module as a field.
#include "vhlo/ByteCursor.h"

#include <string_view>

namespace dtc {

// The bytecode of the module, a part of the content, as far as that goes; empty if the content is something else.
[[nodiscard]] std::string_view jaxExportModule(std::string_view content);
// False if the artifact is cut off: its other fields are not read, but such a file is not what was saved.
[[nodiscard]] bool isWholeJaxExport(std::string_view content, ByteFault& fault);

} // namespace dtc
