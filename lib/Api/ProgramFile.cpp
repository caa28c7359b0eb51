#include "dtc/Api/ProgramFile.h"

#include "dtc/Files/Package.h"
#include "dtc/Session/GraphFiles.h"

namespace dtc {

std::unique_ptr<CompiledProgram> compileFile(const std::string& path, CompileOptions options,
                                             std::shared_ptr<Machine> machine, ApiError& error) {
  const auto failed = [&](const Error& why) {
    error = apiError(why);
    return nullptr;
  };
  const GraphFormat* format = graphFormatOf(path);
  if (!format) {
    auto text = readFile(path);
    if (!text) return failed(text.error());
    if (looksLikePackage((*text).text)) return CompiledProgram::loadPackage(path, std::move(machine), error);
    return CompiledProgram::compile(*std::move(text), options, std::move(machine), error);
  }
  const auto read = parseOptionsOf(options.program);
  if (!read) return failed(read.error());
  Diagnostics diags;
  SourceText listing;
  auto text = graphText(*format, path, *read, diags, listing);
  if (!text) {
    error = apiError(text.error(), diags, listing);
    return nullptr;
  }
  options.program.dims.clear(); // the text has the sizes already
  return CompiledProgram::compile(*std::move(text), options, std::move(machine), error);
}

} // namespace dtc
