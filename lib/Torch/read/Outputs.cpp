#include "read/Outputs.h"

#include "read/Arguments.h"

namespace dtc {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr size_t kMaxPathBytes = 1 << 10, kMaxOutputs = 1 << 16;

// A TreeSpec, {"type", "context", "children_spec"}: a leaf has no type. The keys of a dict are its context, JSON in a
// string.
class PathReader {
public:
  bool add(const json& spec, const std::string& path, bool named, int depth) {
    const json* children = findMember(spec, "children_spec");
    if (!children || !children->is_array() || depth > kMaxDepth || path.size() > kMaxPathBytes) return false;
    if (!findMember(spec, "type")) {
      paths.push_back(named ? path : "");
      return paths.size() <= kMaxOutputs;
    }
    const json keys = keysOf(spec, children->size());
    for (size_t i = 0; i < children->size(); ++i) {
      const std::string own = keys.is_array() ? keys[i].get<std::string>() : std::to_string(i);
      if (!add((*children)[i], path.empty() ? own : path + "." + own, named || keys.is_array(), depth + 1))
        return false;
    }
    return true;
  }
  std::vector<std::string> paths;

private:
  // A list of strings, one per child; else null: not a dict with such keys.
  static json keysOf(const json& spec, size_t count) {
    const json* context = findMember(spec, "context");
    if (!context || !context->is_string()) return nullptr;
    json keys = json::parse(context->get_ref<const std::string&>(), nullptr, false);
    if (!keys.is_array() || keys.size() != count || count == 0) return nullptr;
    for (const json& key : keys)
      if (!key.is_string()) return nullptr;
    return keys;
  }
};

} // namespace

std::vector<std::string> outputPaths(const json& program) {
  const json* module = findMember(program, "graph_module");
  const json* calls = module ? findMember(*module, "module_call_graph") : nullptr;
  const json* main =
      calls && calls->is_array() && !calls->empty() ? findMember((*calls)[0], "signature") : nullptr;
  const json* written = main ? findMember(*main, "out_spec") : nullptr;
  if (!written || !written->is_string()) return {};
  // [1, {"type", …}]: the protocol, and the tree.
  const json spec = json::parse(written->get_ref<const std::string&>(), nullptr, false);
  if (!spec.is_array() || spec.size() != 2) return {};
  PathReader reader;
  if (!reader.add(spec[1], "", false, 0)) return {};
  return std::move(reader.paths);
}

} // namespace dtc
