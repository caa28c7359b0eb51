#include "dtc/Api/ProgramFile.h"

#include "dtc/Files/Package.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Session/GraphFiles.h"

#include <algorithm>
#include <functional>

namespace dtc {

namespace {

// A program of another framework.
class Graph {
public:
  Graph(const GraphFormat& format, std::function<Result<InputFile>()> open, const CompileOptions& options)
      : format_(format), open_(std::move(open)), options_(options) {}

  // As text. Sizes that the ops need as numbers are those of the given shapes. Empty: see `error`, whose last
  // record is of kUnboundSizesKind if shapes may be all that it needs; `imported` then has the arguments.
  std::optional<SourceText> text(ApiError& error);
  std::optional<ImportedProgram> imported;

private:
  std::optional<SourceText> read(const ReadOptions&, ApiError& error);
  const GraphFormat& format_;
  std::function<Result<InputFile>()> open_;
  const CompileOptions& options_;
  bool needsSizes_ = false;
};

std::optional<SourceText> Graph::read(const ReadOptions& read, ApiError& error) {
  Diagnostics diags;
  auto file = open_();
  auto text = file ? graphText(format_, *std::move(file), read, diags, imported) : file.error();
  if (text) return *std::move(text);
  error = apiError(text.error(), diags, imported ? imported->module.source : SourceText());
  needsSizes_ = imported && mayNeedSizes(*imported, read, diags);
  return std::nullopt;
}

std::optional<SourceText> Graph::text(ApiError& error) {
  auto options = parseOptionsOf(options_.program);
  if (!options) {
    error = apiError(options.error());
    return std::nullopt;
  }
  if (auto text = read(*options, error); text || !needsSizes_) return text;
  auto sizes = sizesOf(imported->module, imported->module.order[0], options_);
  if (sizes && !sizes->empty()) {
    options->sizes.insert(options->sizes.end(), sizes->begin(), sizes->end());
    options->keepWeights = true; // the shapes are of these arguments
    return read(*options, error);
  }
  if (!sizes)
    error = apiError(sizes.error());
  else if (error.records.back().kind != kUnboundSizesKind) // too many errors
    error.records.push_back({.kind = kUnboundSizesKind, .message = "the file has symbolic sizes"});
  return std::nullopt;
}

} // namespace

static std::unique_ptr<CompiledProgram> compileGraph(Graph graph, CompileOptions options,
                                                     std::shared_ptr<Machine> machine, ApiError& error) {
  auto text = graph.text(error);
  if (!text) return nullptr;
  options.program.dims.clear(), options.program.bindings.clear(); // the text has them already
  return CompiledProgram::compile(*std::move(text), options, std::move(machine), error);
}

static std::optional<ProgramSignature> signatureOfText(SourceText text, const CompileOptions& options,
                                                       ApiError& error) {
  Module m(standardOps());
  FuncId entry;
  ReadOptions parse;
  SourceText source;
  Diagnostics diags;
  const Status read = readEntry(std::move(text), options, parse, m, entry, source, diags);
  if (read) return signatureOf(m, entry);
  error = apiError(read.error(), diags, source);
  return std::nullopt;
}

static std::optional<ProgramSignature> signatureOfGraph(Graph graph, CompileOptions options,
                                                        ApiError& error) {
  auto text = graph.text(error);
  if (!text && error.records.back().kind == kUnboundSizesKind)
    return signatureOf(graph.imported->module, graph.imported->module.order[0]);
  if (!text) return std::nullopt;
  options.program.dims.clear(), options.program.bindings.clear();
  return signatureOfText(*std::move(text), options, error);
}

std::optional<ProgramSignature> signatureOfFile(const std::string& path, CompileOptions options,
                                                ApiError& error) {
  if (const GraphFormat* format = graphFormatOf(path))
    return signatureOfGraph({*format, [&] { return InputFile::open(path); }, options}, options, error);
  auto text = readFile(path);
  if (text && !looksLikePackage(text->text)) return signatureOfText(*std::move(text), options, error);
  error = apiError(text ? usageError("'" + path + "' is a package: its sizes are bound, so load it instead")
                        : text.error());
  return std::nullopt;
}

std::optional<ProgramSignature> signatureOfBytes(const std::string& name, std::string_view bytes,
                                                 CompileOptions options, ApiError& error) {
  if (const GraphFormat* format = graphFormatOfBytes(bytes))
    return signatureOfGraph({*format, [&] { return InputFile::inMemory(name, bytes); }, options}, options,
                            error);
  return signatureOfText(SourceText{name, std::string(bytes)}, options, error);
}

static std::unique_ptr<CompiledProgram> loadedPackage(const std::string& path, const CompileOptions& options,
                                                      std::shared_ptr<Machine> machine, ApiError& error) {
  const auto fits = [](const std::string& name) { return name == "backend" || name == "no-emu-checks"; };
  const auto other = std::ranges::find_if_not(options.given, fits);
  if (other == options.given.end())
    return CompiledProgram::loadPackage(path, std::move(machine), error,
                                        options.given.empty() ? nullptr : &options.backend);
  error = apiError(usageError(quotedPath(path) +
                              " is a package, which runs as it was compiled: it takes no option '" + *other +
                              "'"));
  return nullptr;
}

std::unique_ptr<CompiledProgram> compileFile(const std::string& path, CompileOptions options,
                                             std::shared_ptr<Machine> machine, ApiError& error) {
  if (const GraphFormat* format = graphFormatOf(path))
    return compileGraph({*format, [&] { return InputFile::open(path); }, options}, options,
                        std::move(machine), error);
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
    return compileGraph({*format, [&] { return InputFile::inMemory(name, bytes); }, options}, options,
                        std::move(machine), error);
  if (looksLikePackage(bytes)) {
    error = apiError(usageError(name + ": a package is loaded from a file: give its path"));
    return nullptr;
  }
  return CompiledProgram::compile({name, std::string(bytes)}, options, std::move(machine), error);
}

} // namespace dtc
