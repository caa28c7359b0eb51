// dtc cache: lists and cleans the kernel cache.
#include "Verbs.h"
#include "dtc/Jit/KernelCache.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include <CLI/CLI.hpp>
#include <ctime>
#include <map>
#include <memory>

namespace dtc {

namespace {

struct CacheOptions {
  std::string action, olderThan, maxSize;
  bool json = false;
};

// Parses "7d", "12h", "30m" or "10s" into seconds.
std::optional<int64_t> parseAge(std::string_view text) {
  const auto n = takeNumber<int64_t>(text);
  if (!n || *n < 0 || text.size() != 1) return std::nullopt;
  constexpr std::pair<char, int64_t> kUnits[] = {
      {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
  for (auto [unit, seconds] : kUnits)
    if (text[0] == unit && *n <= INT64_MAX / 2 / seconds) return *n * seconds;
  return std::nullopt;
}

struct Sum {
  int64_t entries = 0, bytes = 0;
  void add(const CacheEntry& e) { ++entries, bytes += e.bytes; }
};

std::string entriesText(const Sum& s) {
  return std::to_string(s.entries) + (s.entries == 1 ? " entry, " : " entries, ") + bytesText(s.bytes);
}

std::string sumJson(const Sum& s) {
  return "\"entries\": " + std::to_string(s.entries) + ", \"bytes\": " + std::to_string(s.bytes);
}

Result<int> list(Environment& env, const CacheOptions& o, const std::string& folder,
                 const KernelCache& cache) {
  Sum all;
  std::map<std::string, Sum> byTarget;
  for (const CacheEntry& e : cache.entries()) {
    all.add(e);
    byTarget[e.target.empty() ? "other" : e.target].add(e);
  }
  std::string text;
  if (o.json) {
    for (const auto& [target, sum] : byTarget)
      text += (text.empty() ? "" : ", ") + jsonString(target) + ": {" + sumJson(sum) + "}";
    env.out("{\"folder\": " + jsonString(folder) + ", " + sumJson(all) +
            ", \"max_bytes\": " + std::to_string(cacheMaxBytes()) + ", \"targets\": {" + text + "}}\n");
    return kExitDone;
  }
  for (const auto& [target, sum] : byTarget)
    text += "  " + target + std::string(target.size() < 12 ? 12 - target.size() : 1, ' ') + entriesText(sum) +
            "\n";
  env.out(folder + ": " + entriesText(all) + " of at most " + bytesText(cacheMaxBytes()) + "\n" + text);
  return kExitDone;
}

Result<int> clean(Environment& env, const CacheOptions& o, const KernelCache& cache) {
  const auto age = parseAge(o.olderThan);
  if (!o.olderThan.empty() && !age)
    return usageError("--older-than: expected a duration such as 7d, 12h or 30m, got '" + o.olderThan + "'");
  const auto maxBytes = parseBytes(o.maxSize);
  if (!o.maxSize.empty() && !maxBytes)
    return usageError("--max-size: expected a size such as 100MiB or 2GiB, got '" + o.maxSize + "'");
  const int64_t oldest = age ? static_cast<int64_t>(std::time(nullptr)) - *age : 0;
  Sum removed, left;
  bool failed = false;
  for (const CacheEntry& e : cache.entries()) {
    if (age ? e.used > oldest : maxBytes.has_value()) continue;
    const bool gone = cache.remove(e);
    failed = failed || !gone;
    if (gone) removed.add(e);
  }
  if (maxBytes)
    for (const CacheEntry& e : cache.shrinkTo(*maxBytes)) removed.add(e);
  for (const CacheEntry& e : cache.entries()) left.add(e);
  env.out(o.json ? "{\"removed\": {" + sumJson(removed) + "}, \"left\": {" + sumJson(left) + "}}\n"
                 : "removed " + entriesText(removed) + "; left " + entriesText(left) + "\n");
  return failed || (maxBytes && left.bytes > *maxBytes)
             ? env.fail(machineError("some entries could not be removed"))
             : kExitDone;
}

Result<int> runCache(Environment& env, const CacheOptions& o) {
  if (o.action != "ls" && o.action != "clean")
    return usageError(o.action.empty() ? "missing action: use `dtc cache ls` or `dtc cache clean`"
                                       : unknownWord("action", o.action, {"ls", "clean"}));
  if (o.action == "ls" && !(o.olderThan.empty() && o.maxSize.empty()))
    return usageError("--older-than and --max-size are flags of `dtc cache clean`");
  const std::string folder = KernelCache::defaultFolder();
  if (folder.empty()) return machineError("no kernel cache: set XDG_CACHE_HOME or HOME to a folder");
  const KernelCache cache = KernelCache::existing(folder); // empty if the folder does not exist
  return o.action == "ls" ? list(env, o, folder, cache) : clean(env, o, cache);
}

} // namespace

Verb cacheVerb() {
  Verb v;
  v.name = "cache";
  v.usage = "ls|clean [flags]";
  v.summary = "list or clean the kernel cache";
  v.examples = "  dtc cache ls\n"
               "  dtc cache clean                     (all of it)\n"
               "  dtc cache clean --older-than 30d    (entries unused for 30 days)\n"
               "  dtc cache clean --max-size 100MiB   (evict the least recently used entries)";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<CacheOptions>();
    app.add_option("ACTION", o->action,
                   "ls: print the folder, and entries and bytes by target; clean: remove entries")
        ->type_name("ls|clean");
    app.add_option("--older-than", o->olderThan, "clean: remove only entries unused for this long")
        ->type_name("7d|12h|30m");
    app.add_option("--max-size", o->maxSize,
                   "clean: evict the least recently used entries until at most SIZE remains")
        ->type_name("SIZE");
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return runCache(env, *o); };
  };
  return v;
}

} // namespace dtc
