#include "dtc/Api/ProgramFile.h"

#include "dtc/Files/Package.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Session/GraphFiles.h"

namespace dtc {

// The program of another framework as text. Empty: see `error`.
static std::optional<SourceText> importedText(const GraphFormat& format, Result<InputFile> file,
                                              CompileOptions& options, ApiError& error) {
  const auto failed = [&](const Error& why) {
    error = apiError(why);
    return std::nullopt;
  };
  if (!file) return failed(file.error());
  const auto read = parseOptionsOf(options.program);
  if (!read) return failed(read.error());
  Diagnostics diags;
  SourceText listing;
  auto text = graphText(format, *std::move(file), *read, diags, listing);
  if (!text) {
    error = apiError(text.error(), diags, listing);
    return std::nullopt;
  }
  options.program.dims.clear(); // the text has the sizes already
  return *std::move(text);
}

static std::unique_ptr<CompiledProgram> compileGraph(const GraphFormat& format, Result<InputFile> file,
                                                     CompileOptions options, std::shared_ptr<Machine> machine,
                                                     ApiError& error) {
  auto text = importedText(format, std::move(file), options, error);
  if (!text) return nullptr;
  return CompiledProgram::compile(*std::move(text), options, std::move(machine), error);
}

static std::optional<ProgramSignature> signatureOfText(std::optional<SourceText> text,
                                                       const CompileOptions& options, ApiError& error) {
  if (!text) return std::nullopt;
  Module m(standardOps());
  FuncId entry;
  ReadOptions parse;
  SourceText source;
  Diagnostics diags;
  const Status read = readEntry(*std::move(text), options, parse, m, entry, source, diags);
  if (read) return signatureOf(m, entry);
  error = apiError(read.error(), diags, source);
  return std::nullopt;
}

std::optional<ProgramSignature> signatureOfFile(const std::string& path, CompileOptions options,
                                                ApiError& error) {
  if (const GraphFormat* format = graphFormatOf(path)) {
    auto text = importedText(*format, InputFile::open(path), options, error);
    return signatureOfText(std::move(text), options, error);
  }
  auto text = readFile(path);
  if (text && !looksLikePackage(text->text)) return signatureOfText(*std::move(text), options, error);
  error = apiError(text ? usageError("'" + path + "' is a package: its sizes are bound, so load it instead")
                        : text.error());
  return std::nullopt;
}

std::optional<ProgramSignature> signatureOfBytes(const std::string& name, std::string_view bytes,
                                                 CompileOptions options, ApiError& error) {
  if (const GraphFormat* format = graphFormatOfBytes(bytes)) {
    auto text = importedText(*format, InputFile::inMemory(name, bytes), options, error);
    return signatureOfText(std::move(text), options, error);
  }
  return signatureOfText(SourceText{name, std::string(bytes)}, options, error);
}

static std::unique_ptr<CompiledProgram> loadedPackage(const std::string& path, const CompileOptions& options,
                                                      std::shared_ptr<Machine> machine, ApiError& error) {
  if (options.given.empty()) return CompiledProgram::loadPackage(path, std::move(machine), error);
  error = apiError(usageError(quotedPath(path) +
                              " is a package, which runs as it was compiled: it takes no option '" +
                              options.given.front() + "'"));
  return nullptr;
}

std::unique_ptr<CompiledProgram> compileFile(const std::string& path, CompileOptions options,
                                             std::shared_ptr<Machine> machine, ApiError& error) {
  if (const GraphFormat* format = graphFormatOf(path))
    return compileGraph(*format, InputFile::open(path), std::move(options), std::move(machine), error);
  if (isPackageFile(path)) return loadedPackage(path, options, std::move(machine), error);
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
