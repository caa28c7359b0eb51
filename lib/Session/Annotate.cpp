#include "dtc/Session/Annotate.h"

#include "dtc/Files/Inputs.h"
#include "dtc/IR/text/GivenNames.h"
#include "dtc/Support/Counted.h"
#include "dtc/Support/Suggest.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace dtc {

namespace {

// What the text's grammar calls a name.
bool isName(std::string_view word) {
  const auto letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !word.empty() && letter(word[0]) &&
         std::ranges::all_of(word, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string flagText(const ReadOptions::ArgumentSharding& s) {
  return "--sharding '" + s.argument + "=" + s.sharding + "': ";
}

// The arguments of the entries that a name or a pattern stands for.
std::vector<const FuncArg*> argumentsOf(const Module& m, std::span<const FuncId> entries,
                                        std::string_view pattern) {
  if (pattern.starts_with('%')) pattern.remove_prefix(1);
  std::vector<const FuncArg*> out;
  for (FuncId f : entries)
    for (const FuncArg& a : m[f].args)
      if (std::ranges::any_of(argumentNames(m, a),
                              [&](const std::string& name) { return matchesPattern(pattern, name); }))
        out.push_back(&a);
  return out;
}

Error unknownArgument(const Module& m, std::span<const FuncId> entries,
                      const ReadOptions::ArgumentSharding& s) {
  std::vector<std::string> names;
  for (FuncId f : entries)
    for (const FuncArg& a : m[f].args) std::ranges::move(argumentNames(m, a), std::back_inserter(names));
  const std::vector<std::string_view> known(names.begin(), names.end());
  return usageError(flagText(s) + "no argument '" + s.argument + "'" +
                    suggestion(Vocabulary::Choice, s.argument, known));
}

} // namespace

Status declareMeshes(Module& m, const ReadOptions& options) {
  if (m.shardings.numMeshes() > 0) return Ok{};
  for (const ParseOptions::MeshSizes& sizes : options.meshes) {
    Mesh mesh;
    int64_t devices = 1;
    if (!isName(sizes.mesh)) return usageError("--mesh: '" + sizes.mesh + "' is not a name");
    mesh.name = m.strings.intern(sizes.mesh);
    for (const auto& [name, size] : sizes.axes) {
      if (!isName(name)) return usageError("--mesh: '" + name + "' is not a name");
      if (size > INT32_MAX / devices)
        return usageError("--mesh: mesh @" + sizes.mesh + " has more than 2^31-1 devices");
      devices *= size;
      mesh.axes.push_back({m.strings.intern(name), size});
    }
    m.shardings.addMesh(std::move(mesh));
  }
  return Ok{};
}

Status shardArguments(Module& m, std::span<const FuncId> entries, const ReadOptions& options) {
  for (const ReadOptions::ArgumentSharding& s : options.shardings) {
    if (m.shardings.numMeshes() == 0)
      return usageError(flagText(s) + "the program has no mesh; declare one, as in --mesh pod=dp:2,tp:4");
    Sharding sharding;
    Diagnostics diags;
    if (!parseSharding(s.sharding, m, MeshId(0), sharding, diags))
      return usageError(flagText(s) +
                        (diags.all().empty() ? "expected a sharding" : diags.all()[0].message()));
    const std::vector<const FuncArg*> arguments = argumentsOf(m, entries, s.argument);
    if (arguments.empty()) return unknownArgument(m, entries, s);
    const auto fits = [&](const FuncArg* a) { return m.typeOf(a->value).rank() == sharding.dims.size(); };
    const bool pattern = s.argument.find('*') != std::string::npos && std::ranges::any_of(arguments, fits);
    for (const FuncArg* a : arguments) {
      if (pattern && !fits(a)) continue; // '*.weight': matrices, but not the vectors of norms
      const std::string name = "%" + argumentNames(m, *a).front();
      if (!fits(a))
        return usageError(flagText(s) + "the sharding has " + counted(sharding.dims.size(), "dim") +
                          ", but " + name + " has " + std::to_string(m.typeOf(a->value).rank()));
      if (!sharding.pending.empty())
        return usageError(flagText(s) + "an argument cannot be a pending sum of the devices");
      m[a->value].sharding = m.shardings.intern(sharding);
    }
  }
  return Ok{};
}

} // namespace dtc
