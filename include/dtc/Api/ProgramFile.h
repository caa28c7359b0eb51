#pragma once
// Programs in files of all formats that `dtc run` reads.
#include "dtc/Api/CompiledProgram.h"

namespace dtc {

// Text, a package, which runs as it was compiled, or the graph of another framework (`.pt2`, `.onnx`), whose weights
// are not bound: see CompiledProgram::bindFile. Null: see `error`. Throws std::bad_alloc only.
[[nodiscard]] std::unique_ptr<CompiledProgram> compileFile(const std::string& path, CompileOptions options,
                                                           std::shared_ptr<Machine> machine, ApiError& error);

// The same of bytes in memory: text, or the graph of another framework. `name`: in messages.
[[nodiscard]] std::unique_ptr<CompiledProgram> compileBytes(const std::string& name, std::string_view bytes,
                                                            CompileOptions options,
                                                            std::shared_ptr<Machine> machine,
                                                            ApiError& error);

// The arguments and results of a program in a file, or in memory, without compiling it: its sizes may be symbolic. Empty:
// see `error`. Throws std::bad_alloc only.
[[nodiscard]] std::optional<ProgramSignature> signatureOfFile(const std::string& path, CompileOptions options,
                                                              ApiError& error);
[[nodiscard]] std::optional<ProgramSignature>
signatureOfBytes(const std::string& name, std::string_view bytes, CompileOptions options, ApiError& error);

} // namespace dtc
