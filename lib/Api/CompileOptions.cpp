#include "dtc/Api/CompileOptions.h"

#include "dtc/Support/Suggest.h"
#include "dtc/Support/Words.h"

#include <algorithm>

namespace dtc {
namespace {

// How an option of `Options` is set: false if it does not take the value.
template <class Options> struct Row {
  std::string_view name;
  const char* values; // in messages
  bool (*set)(Options&, std::string_view value);
};

bool readFlag(std::string_view value, bool& to) {
  if (value != "true" && value != "false") return false;
  to = value == "true";
  return true;
}

template <class Number> bool readNumber(std::string_view value, Number low, Number high, Number& to) {
  const auto n = parseNumber<Number>(value);
  if (!n || !(*n >= low && *n <= high)) return false;
  to = *n;
  return true;
}

bool readWord(std::string_view value, std::initializer_list<std::string_view> words, std::string& to) {
  to = value;
  return std::ranges::find(words, value) != words.end();
}

constexpr const char* kFlag = "true or false";
constexpr const char* kText = "text";

using O = CompileOptions;
using V = std::string_view;
constexpr Row<O> kCompileRows[] = {
    {"entry", kText, [](O& o, V v) { return o.program.entry = v, true; }},
    {"mesh", kText, [](O& o, V v) { return o.program.meshes.emplace_back(v), true; }},
    {"dim", kText, [](O& o, V v) { return o.program.dims.emplace_back(v), true; }},
    {"bind", kText, [](O& o, V v) { return o.program.bindings.emplace_back(v), true; }},
    {"sharding", kText, [](O& o, V v) { return o.program.shardings.emplace_back(v), true; }},
    {"backend", "cpu, cuda-emu or cuda",
     [](O& o, V v) { return readWord(v, {"cpu", "cuda-emu", "cuda"}, o.backend.name); }},
    {"opt-level", "0, 1, 2 or 3", [](O& o, V v) { return readNumber(v, 0, 3, o.lowering.optLevel); }},
    {"policy", kText, [](O& o, V v) { return o.lowering.policy = v, true; }},
    {"reduce-dtype", kText, [](O& o, V v) { return o.lowering.reduceDType = v, true; }},
    {"recompute", kText, [](O& o, V v) { return o.lowering.recompute = v, true; }},
    {"rings", kText, [](O& o, V v) { return o.lowering.rings = v, true; }},
    {"pipeline-schedule", kText, [](O& o, V v) { return o.lowering.pipelineSchedule = v, true; }},
    {"reduction-order", "any or fixed",
     [](O& o, V v) { return readWord(v, {"any", "fixed"}, o.lowering.reductionOrder); }},
    {"library-gelu", kFlag, [](O& o, V v) { return readFlag(v, o.lowering.libraryGelu); }},
    {"strict-nonfinite", kFlag, [](O& o, V v) { return readFlag(v, o.lowering.strictNonFinite); }},
    {"no-overlap", kFlag, [](O& o, V v) { return readFlag(v, o.lowering.noOverlap); }},
    {"comm", "local or nccl", [](O& o, V v) { return readWord(v, {"local", "nccl"}, o.backend.cuda.comm); }},
    {"comm-timeout", "seconds in (0, 1e9]",
     [](O& o, V v) { return readNumber(v, 1e-9, 1e9, o.backend.cuda.timeoutSeconds); }},
    {"comm-dump", kText, [](O& o, V v) { return o.backend.cuda.dump = v, true; }},
    {"deterministic", kFlag, [](O& o, V v) { return readFlag(v, o.backend.cuda.deterministic); }},
    {"matmul-precision", "highest or tf32",
     [](O& o, V v) { return o.backend.cuda.tf32 = v == "tf32", v == "tf32" || v == "highest"; }},
    {"no-graphs", kFlag,
     [](O& o, V v) {
       bool no = false;
       return readFlag(v, no) && (o.graphs = !no, true);
     }},
    {"host-predicates", kFlag, [](O& o, V v) { return readFlag(v, o.hostPredicates); }},
    {"no-cudnn", kFlag,
     [](O& o, V v) {
       bool no = false;
       return readFlag(v, no) && (o.backend.cuda.cudnn = !no, true);
     }},
    {"library-relu", kFlag, [](O& o, V v) { return readFlag(v, o.backend.cuda.relu); }},
    {"no-emu-checks", kFlag,
     [](O& o, V v) {
       bool no = false;
       return readFlag(v, no) && (o.backend.emulatorChecks = !no, true);
     }},
};

constexpr int kMaxThreads = 1024;
constexpr Row<ContextOptions> kContextRows[] = {
    {"threads", "a number from 0 (one per core) to 1024",
     [](ContextOptions& o, V v) { return readNumber(v, 0, kMaxThreads, o.threads); }},
    {"cache-dir", kText, [](ContextOptions& o, V v) { return o.jit.cacheDir = v, true; }},
    {"plugin-dir", kText, [](ContextOptions& o, V v) { return o.jit.pluginDir = v, true; }},
    {"no-cache", kFlag,
     [](ContextOptions& o, V v) {
       bool no = false;
       return readFlag(v, no) && (o.jit.useCache = !no, true);
     }},
};

template <class Options> Status setIn(std::span<const Row<Options>> rows, Options& options, V name, V value) {
  std::vector<V> names;
  for (const Row<Options>& row : rows) {
    names.push_back(row.name);
    if (row.name != name) continue;
    if (row.set(options, value)) return Ok{};
    return usageError("option '" + std::string(name) + "': expected " + row.values + ", got '" +
                      std::string(value) + "'");
  }
  return usageError(unknownWord("option", name, names));
}

template <class Options> std::vector<V> namesOf(std::span<const Row<Options>> rows) {
  std::vector<V> names;
  for (const Row<Options>& row : rows) names.push_back(row.name);
  return names;
}

} // namespace

Status CompileOptions::set(V name, V value) {
  Status done = setIn<CompileOptions>(kCompileRows, *this, name, value);
  if (done) given.emplace_back(name);
  return done;
}
std::vector<V> CompileOptions::names() { return namesOf<CompileOptions>(kCompileRows); }
Status ContextOptions::set(V name, V value) {
  return setIn<ContextOptions>(kContextRows, *this, name, value);
}
std::vector<V> ContextOptions::names() { return namesOf<ContextOptions>(kContextRows); }

} // namespace dtc
