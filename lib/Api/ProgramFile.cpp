#include "dtc/Api/ProgramFile.h"

#include "dtc/Files/Package.h"
#include "dtc/Session/GraphFiles.h"

namespace dtc {

static std::unique_ptr<CompiledProgram> compileGraph(const GraphFormat& format, Result<InputFile> file,
                                                     CompileOptions options, std::shared_ptr<Machine> machine,
                                                     ApiError& error) {
  const auto failed = [&](const Error& why) {
    error = apiError(why);
    return nullptr;
  };
  if (!file) return failed(file.error());
  const auto read = parseOptionsOf(options.program);
  if (!read) return failed(read.error());
  Diagnostics diags;
  SourceText listing;
  auto text = graphText(format, *std::move(file), *read, diags, listing);
  if (!text) {
    error = apiError(text.error(), diags, listing);
    return nullptr;
  }
  options.program.dims.clear(); // the text has the sizes already
  return CompiledProgram::compile(*std::move(text), options, std::move(machine), error);
}

std::unique_ptr<CompiledProgram> compileFile(const std::string& path, CompileOptions options,
                                             std::shared_ptr<Machine> machine, ApiError& error) {
  if (const GraphFormat* format = graphFormatOf(path))
    return compileGraph(*format, InputFile::open(path), std::move(options), std::move(machine), error);
  if (isPackageFile(path)) return CompiledProgram::loadPackage(path, std::move(machine), error);
  auto text = readFile(path);
  if (!text) {
    error = apiError(text.error());
    return nullptr;
  }
  return CompiledProgram::compile(*std::move(text), options, std::move(machine), error);
}

std::unique_ptr<CompiledProgram> compileBytes(const std::string& name, std::string_view bytes,
                                              CompileOptions options, std::shared_ptr<Machine> machine,
                                              ApiError& error) {
  if (const GraphFormat* format = graphFormatOfBytes(bytes))
    return compileGraph(*format, InputFile::inMemory(name, bytes), std::move(options), std::move(machine),
                        error);
  if (looksLikePackage(bytes)) {
    error = apiError(usageError(name + ": a package is loaded from a file: give its path"));
    return nullptr;
  }
  return CompiledProgram::compile({name, std::string(bytes)}, options, std::move(machine), error);
}

} // namespace dtc
