#pragma once
// `jax.export` artifacts: a flatbuffer whose root table has the module as a field.
#include <string_view>

namespace dtc {

// The bytecode of the module, a part of the content; empty if the content is something else.
[[nodiscard]] std::string_view jaxExportModule(std::string_view content);

} // namespace dtc
