// dtc cache: what is in the kernel cache, and how to empty it.
#include "Verbs.h"
#include "dtc/Jit/KernelCache.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Units.h"
#include <CLI/CLI.hpp>
#include <charconv>
#include <ctime>
#include <map>
#include <memory>

namespace dtc {

namespace {

struct Options {
  std::string action, olderThan, maxSize;
  bool json = false;
};

// "7d", "12h", "30m", "10s": seconds.
std::optional<int64_t> parseAge(std::string_view text) {
  int64_t n = 0;
  auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (bad != std::errc() || n < 0 || end + 1 != text.data() + text.size()) return std::nullopt;
  constexpr std::pair<char, int64_t> kUnits[] = {
      {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
  for (auto [unit, seconds] : kUnits)
    if (*end == unit && n <= INT64_MAX / 2 / seconds) return n * seconds;
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

int list(Environment& env, const Options& o, const std::string& folder, const KernelCache& cache) {
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

int clean(Environment& env, const Options& o, const KernelCache& cache) {
  const auto age = parseAge(o.olderThan);
  if (!o.olderThan.empty() && !age)
    return env.fail(
        usageError("--older-than takes a time such as 7d, 12h or 30m, not '" + o.olderThan + "'"));
  const auto most = parseBytes(o.maxSize);
  if (!o.maxSize.empty() && !most)
    return env.fail(usageError("--max-size takes a size such as 100MiB or 2GiB, not '" + o.maxSize + "'"));
  const int64_t oldest = age ? static_cast<int64_t>(std::time(nullptr)) - *age : 0;
  Sum removed, left;
  bool failed = false;
  for (const CacheEntry& e : cache.entries()) {
    if (age ? e.used > oldest : most.has_value()) continue;
    const bool gone = cache.remove(e);
    failed = failed || !gone;
    if (gone) removed.add(e);
  }
  if (most)
    for (const CacheEntry& e : cache.shrinkTo(*most)) removed.add(e);
  for (const CacheEntry& e : cache.entries()) left.add(e);
  env.out(o.json ? "{\"removed\": {" + sumJson(removed) + "}, \"left\": {" + sumJson(left) + "}}\n"
                 : "removed " + entriesText(removed) + "; left " + entriesText(left) + "\n");
  return failed || (most && left.bytes > *most) ? env.fail(machineError("some entries could not be removed"))
                                                : kExitDone;
}

int run(Environment& env, const Options& o) {
  if (o.action != "ls" && o.action != "clean")
    return env.fail(usageError(o.action.empty()
                                   ? "which action? There are `dtc cache ls` and `dtc cache clean`"
                                   : unknownWord("action", o.action, {"ls", "clean"})));
  if (o.action == "ls" && !(o.olderThan.empty() && o.maxSize.empty()))
    return env.fail(usageError("--older-than and --max-size belong to `dtc cache clean`"));
  const std::string folder = KernelCache::defaultFolder();
  if (folder.empty())
    return env.fail(machineError("there is no kernel cache: neither XDG_CACHE_HOME nor HOME names a folder"));
  const KernelCache cache = KernelCache::existing(folder); // where there is none, one without entries
  return o.action == "ls" ? list(env, o, folder, cache) : clean(env, o, cache);
}

} // namespace

Verb cacheVerb() {
  Verb v;
  v.name = "cache";
  v.usage = "ls|clean [flags]";
  v.summary = "what is in the kernel cache; empties it";
  v.examples = "  dtc cache ls\n"
               "  dtc cache clean                     (all of it)\n"
               "  dtc cache clean --older-than 30d    (entries that were not used for so long)\n"
               "  dtc cache clean --max-size 100MiB   (the least recently used ones)";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    app.add_option("ACTION", o->action,
                   "ls: where it is, entries and bytes by target; clean: removes entries")
        ->type_name("ls|clean");
    app.add_option("--older-than", o->olderThan, "clean: only entries that were not used for so long")
        ->type_name("7d|12h|30m");
    app.add_option("--max-size", o->maxSize, "clean: only until the others have no more bytes")
        ->type_name("SIZE");
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
