#include "dtc/Session/Imports.h"

#include "dtc/Files/InputFile.h"
#include "dtc/IR/text/Imports.h"
#include "dtc/Session/ProgramText.h"
#include "dtc/Support/Suggest.h"

#include <filesystem>
#include <unordered_set>

namespace dtc {

namespace {

constexpr DiagKind kUnknownModule{
    "unknown-module",
    "the library has no module '{0}' (a file is imported by its name, as in \"{0}.dt\"){1}"};
constexpr DiagKind kCannotImport{"import", "cannot import '{0}': {1}"};

constexpr size_t kMaxImports = 1000;

class Importer {
public:
  Importer(SourceText& source, Diagnostics& diags) : source_(source), diags_(diags) {
    const std::string& name = source.name;
    hasFolder_ = name == "<stdin>" || (!name.empty() && !name.starts_with('<'));
    if (hasFolder_ && name != "<stdin>") root_ = std::filesystem::path(name).parent_path().string();
  }

  bool run() {
    seen_.insert(source_.name);
    bool ok = scan(0, source_.text.size(), "");
    for (size_t i = 0; ok && i < source_.imported.size(); ++i) {
      const size_t end =
          i + 1 < source_.imported.size() ? source_.imported[i + 1].begin : source_.text.size();
      ok = scan(source_.imported[i].begin, end, std::string(folders_[i]));
    }
    return ok;
  }

private:
  // The imports of one text of `folder`, which is below the root.
  bool scan(uint32_t begin, size_t end, const std::string& folder) {
    bool ok = true;
    for (const ImportStatement& i : importsOf(std::string_view(source_.text).substr(begin, end - begin))) {
      const SourceRange at{begin + i.range.begin, begin + i.range.end};
      ok &= i.name.ends_with(".dt") ? file(i.name, folder, at) : module(i.name, at);
    }
    return ok;
  }

  bool module(const std::string& name, SourceRange at) {
    std::vector<std::string_view> known;
    for (const EmbeddedFile& f : libraryModules()) {
      known.push_back(f.name.substr(0, f.name.size() - 3));
      if (known.back() == name) return append("<" + name + ">", "", std::string(f.text), at);
    }
    return diags_.fail(kUnknownModule, at, name, suggestion(Vocabulary::Plain, name, known));
  }

  bool file(const std::string& name, const std::string& folder, SourceRange at) {
    if (!hasFolder_) return diags_.fail(kCannotImport, at, name, "the program is not in a file");
    const std::filesystem::path path = (std::filesystem::path(folder) / name).lexically_normal();
    const auto input = InputFile::openBeneath(root_, path.string());
    if (!input) return diags_.fail(kCannotImport, at, name, input.error().message);
    if (input->size() > static_cast<int64_t>(kMaxProgramBytes))
      return diags_.fail(kCannotImport, at, name, "it is too long for a program");
    auto text = input->text(0, input->size());
    if (!text) return diags_.fail(kCannotImport, at, name, text.error().message);
    return append((std::filesystem::path(root_) / path).string(), path.parent_path().string(),
                  std::move(*text), at);
  }

  bool append(std::string name, std::string folder, std::string text, SourceRange at) {
    if (!seen_.insert(name).second) return true;
    if (seen_.size() > kMaxImports || source_.text.size() + text.size() > kMaxProgramBytes)
      return diags_.fail(kCannotImport, at, name, "the program imports too much");
    source_.text += '\n';
    source_.imported.push_back({std::move(name), static_cast<uint32_t>(source_.text.size())});
    source_.text += text;
    folders_.push_back(std::move(folder));
    return true;
  }

  SourceText& source_;
  Diagnostics& diags_;
  std::string root_; // the program's folder
  bool hasFolder_ = false;
  std::vector<std::string> folders_; // of each imported file, below the root
  std::unordered_set<std::string> seen_;
};

} // namespace

bool appendImports(SourceText& source, Diagnostics& diags) {
  return !source.imported.empty() || Importer(source, diags).run();
}

} // namespace dtc
