#pragma once
// Reader of StableHLO portable artifacts: MLIR bytecode of the VHLO dialect, as JAX writes it into
// `jax.export` artifacts and hands it to PJRT plugins.
#include "dtc/Support/Diagnostics.h"
#include "dtc/Support/Result.h"

namespace dtc {

// True if the content is MLIR bytecode, or a `jax.export` artifact (a flatbuffer) with MLIR bytecode in it.
[[nodiscard]] bool looksLikeVhlo(std::string_view content);

// The program as StableHLO text in the generic form, with locations, for importMlir(). The content may be
// untrusted: nothing outside of it is read, nesting is bounded, and the text has at most 1 MiB + 256 bytes
// per byte of the content. An error names the byte offset: "f.mlirbc: byte 23: ...".
[[nodiscard]] Result<std::string> vhloText(const std::string& name, std::string_view content);

} // namespace dtc
