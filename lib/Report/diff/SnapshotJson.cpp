// Snapshots as JSON, and the reader of saved ones.
#include "dtc/Report/diff/ProgramSnapshot.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace dtc {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kExtents[] = {"costs", "written", "compiled"};
constexpr double kMaxSeconds = 1e30;

std::string lines(const Json& list) {
  return "[" +
         joined(list, ",",
                [](const Json& one) {
                  return "\n" + one.dump(-1, ' ', false, Json::error_handler_t::replace);
                }) +
         "]";
}

std::string text(const std::string& s) {
  return Json(s).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Without members that have their usual values.
Json json(const SnapshotStatement& s) {
  Json out = {{"name", s.name}, {"op", s.op}, {"type", s.type}};
  const auto add = [&](const char* key, const auto& value) {
    if (!value.empty()) out[key] = value;
  };
  if (s.generated) out["generated"] = true;
  if (s.origin >= 0) out["origin"] = s.origin;
  add("function", s.function);
  add("user_name", s.userName);
  add("attributes", s.attributes);
  add("operands", s.operands);
  add("annotation", s.annotation);
  add("sharding", s.sharding);
  add("from", s.from);
  add("location", s.location);
  add("path", s.path);
  if (s.within >= 0) out["within"] = s.within;
  if (s.executions > 0) out["executions"] = s.executions;
  if (s.seconds != 0) out["seconds"] = s.seconds;
  return out;
}

Json json(const SnapshotCollective& c) {
  return {{"kind", c.kind},
          {"axes", c.axes},
          {"value", c.value},
          {"op", c.op},
          {"from", c.from},
          {"to", c.to},
          {"location", c.location},
          {"layer", c.layer},
          {"bytes", c.bytes},
          {"count", c.count},
          {"seconds", c.seconds},
          {"exposed", c.exposed},
          {"statements", c.statements}};
}

Json json(const SnapshotMessages& s) {
  return {{"kind", s.kind}, {"messages", s.messages}, {"bytes", s.bytes}, {"seconds", s.seconds}};
}

// Reads members of objects; the first problem is kept, with the path of the member.
class Fields {
public:
  std::string problem;

  bool fail(const std::string& path, const char* expected) {
    if (problem.empty()) problem = path + ": expected " + expected;
    return false;
  }
  bool object(const Json& j, const std::string& path) { return j.is_object() || fail(path, "an object"); }
  const Json* list(const Json& j, const char* key, const std::string& path) {
    const auto it = j.find(key);
    if (it == j.end()) return nullptr;
    if (!it->is_array()) fail(path + key, "a list");
    return it->is_array() ? &*it : nullptr;
  }
  void read(const Json& j, const char* key, const std::string& path, std::string& out) {
    if (const auto it = j.find(key); it != j.end() && !it->is_null()) {
      if (it->is_string())
        out = it->get_ref<const std::string&>();
      else
        fail(path + key, "a text");
    }
  }
  void read(const Json& j, const char* key, const std::string& path, bool& out) {
    if (const auto it = j.find(key); it != j.end()) {
      if (it->is_boolean())
        out = it->get<bool>();
      else
        fail(path + key, "true or false");
    }
  }
  void read(const Json& j, const char* key, const std::string& path, int64_t& out, bool negative = false) {
    if (const auto it = j.find(key); it != j.end() && !it->is_null()) {
      const bool fits =
          it->is_number_integer() && !(it->is_number_unsigned() && it->get<uint64_t>() > uint64_t{INT64_MAX});
      if (fits && (negative || it->get<int64_t>() >= 0))
        out = it->get<int64_t>();
      else
        fail(path + key, "an integer of at least 0");
    }
  }
  void read(const Json& j, const char* key, const std::string& path, double& out, bool negative = false) {
    if (const auto it = j.find(key); it != j.end() && !it->is_null()) {
      const double v = it->is_number() ? it->get<double>() : std::nan("");
      if (std::abs(v) <= kMaxSeconds && (negative || v >= 0))
        out = v;
      else
        fail(path + key, "a number of seconds");
    }
  }
  // Indices of statements.
  void read(const Json& j, const char* key, const std::string& path, std::vector<int32_t>& out,
            size_t count) {
    const Json* indices = list(j, key, path);
    for (size_t i = 0; indices && i < indices->size(); ++i) {
      const Json& one = (*indices)[i];
      if (one.is_number_unsigned() && one.get<uint64_t>() < count)
        out.push_back(static_cast<int32_t>(one.get<uint64_t>()));
      else
        fail(path + key, "indices of statements");
    }
  }
};

class SnapshotReader {
public:
  SnapshotReader(const Json& j, const std::string& name) : j_(j) { out_.name = name; }

  Result<ProgramSnapshot> run() {
    if (j_.contains("snapshot"))
      snapshot();
    else
      explained();
    if (!fields_.problem.empty()) return inputError(out_.name + ": " + fields_.problem);
    return std::move(out_);
  }

private:
  void snapshot() {
    int64_t format = 0;
    fields_.read(j_, "snapshot", "", format);
    if (format != kFormat) fields_.fail("snapshot", "format 1: a newer dtc wrote the file");
    fields_.read(j_, "dtc", "", out_.version);
    std::string extent;
    fields_.read(j_, "extent", "", extent);
    const auto found = std::ranges::find(kExtents, extent);
    if (found == std::end(kExtents)) fields_.fail("extent", "compiled, written or costs");
    out_.extent = static_cast<ProgramSnapshot::Extent>(std::min<ptrdiff_t>(found - kExtents, 2));
    fields_.read(j_, "complete", "", out_.complete);
    fields_.read(j_, "other_seconds", "", out_.otherSeconds);
    fields_.read(j_, "pipeline_seconds", "", out_.scheduleSeconds, true); // of an earlier dtc
    fields_.read(j_, "schedule_seconds", "", out_.scheduleSeconds, true);
    fields_.read(j_, "schedule_bytes", "", out_.scheduleBytes, true);
    fields_.read(j_, "no_memory", "", out_.noMemory);
    settings();
    statements("written", out_.written);
    statements("statements", out_.statements);
    each("collectives", [&](const Json& c, const std::string& path) { collective(c, path); });
    if (j_.contains("schedule_messages"))
      messages(j_, "schedule_messages", "", {"kind", "messages", "bytes"});
    memory();
  }

  template <class Read> void each(const char* key, Read&& read) {
    const Json* list = fields_.list(j_, key, "");
    for (size_t i = 0; list && i < list->size(); ++i) {
      const std::string path = std::string(key) + "[" + std::to_string(i) + "]";
      if (fields_.object((*list)[i], path)) read((*list)[i], path + ".");
    }
  }

  struct MessageFields {
    const char *kind, *messages, *bytes;
  };
  void messages(const Json& of, const char* key, const std::string& path, const MessageFields& names) {
    out_.scheduleMessages.emplace();
    const Json* list = fields_.list(of, key, path);
    for (size_t i = 0; list && i < list->size(); ++i) {
      const std::string at = path + key + "[" + std::to_string(i) + "]";
      if (!fields_.object((*list)[i], at)) return;
      SnapshotMessages row;
      fields_.read((*list)[i], names.kind, at + ".", row.kind);
      fields_.read((*list)[i], names.messages, at + ".", row.messages);
      fields_.read((*list)[i], names.bytes, at + ".", row.bytes);
      fields_.read((*list)[i], "seconds", at + ".", row.seconds);
      out_.scheduleMessages->push_back(std::move(row));
    }
  }

  void settings() {
    const auto it = j_.find("settings");
    if (it == j_.end() || !fields_.object(*it, "settings")) return;
    for (const auto& [key, value] : it->items()) {
      std::string text;
      fields_.read(*it, key.c_str(), "settings.", text);
      out_.settings.emplace_back(key, text);
    }
  }

  void statements(const char* key, std::vector<SnapshotStatement>& out) {
    const Json* list = fields_.list(j_, key, "");
    const size_t count = list ? std::min<size_t>(list->size(), INT32_MAX) : 0;
    each(key, [&](const Json& j, const std::string& path) {
      SnapshotStatement s;
      const std::pair<const char*, std::string*> texts[] = {{"name", &s.name},
                                                            {"function", &s.function},
                                                            {"user_name", &s.userName},
                                                            {"op", &s.op},
                                                            {"attributes", &s.attributes},
                                                            {"type", &s.type},
                                                            {"annotation", &s.annotation},
                                                            {"sharding", &s.sharding},
                                                            {"location", &s.location},
                                                            {"path", &s.path}};
      for (const auto& [name, text] : texts) fields_.read(j, name, path, *text);
      fields_.read(j, "generated", path, s.generated);
      fields_.read(j, "operands", path, s.operands, count);
      fields_.read(j, "from", path, s.from, count);
      fields_.read(j, "seconds", path, s.seconds);
      int64_t origin = -1;
      fields_.read(j, "origin", path, origin);
      if (origin >= static_cast<int64_t>(out_.written.size()))
        fields_.fail(path + "origin", "an index of written");
      s.origin = static_cast<int32_t>(std::min<int64_t>(origin, INT32_MAX));
      int64_t within = -1;
      fields_.read(j, "within", path, within);
      if (within >= static_cast<int64_t>(out.size()))
        fields_.fail(path + "within", "the index of an earlier statement");
      s.within = static_cast<int32_t>(std::min<int64_t>(within, INT32_MAX));
      fields_.read(j, "executions", path, s.executions);
      out.push_back(std::move(s));
    });
  }

  void collective(const Json& j, const std::string& path) {
    SnapshotCollective c;
    fields_.read(j, "kind", path, c.kind);
    fields_.read(j, "axes", path, c.axes);
    fields_.read(j, "value", path, c.value);
    fields_.read(j, "op", path, c.op);
    fields_.read(j, "location", path, c.location);
    fields_.read(j, "from", path, c.from);
    fields_.read(j, "to", path, c.to);
    fields_.read(j, "layer", path, c.layer);
    fields_.read(j, "bytes", path, c.bytes);
    fields_.read(j, "count", path, c.count);
    fields_.read(j, "seconds", path, c.seconds);
    fields_.read(j, "exposed", path, c.exposed);
    fields_.read(j, "statements", path, c.statements, out_.statements.size());
    out_.collectives.push_back(std::move(c));
  }

  void memory() {
    const auto it = j_.find("memory");
    if (it == j_.end() || it->is_null() || !fields_.object(*it, "memory")) return;
    SnapshotMemory memory;
    fields_.read(*it, "peak_bytes", "memory.", memory.peakBytes);
    const Json* alive = fields_.list(*it, "alive", "memory.");
    for (size_t i = 0; alive && i < alive->size(); ++i) {
      const Json& j = (*alive)[i];
      const std::string path = "memory.alive[" + std::to_string(i) + "].";
      if (!fields_.object(j, path)) return;
      SnapshotBuffer b;
      fields_.read(j, "value", path, b.value);
      fields_.read(j, "what", path, b.what);
      fields_.read(j, "type", path, b.type);
      fields_.read(j, "where", path, b.location);
      fields_.read(j, "bytes", path, b.bytes);
      memory.alive.push_back(std::move(b));
    }
    out_.memory = std::move(memory);
  }

  // A report of `dtc explain --json`. That of an earlier dtc does not say which collective is exposed: the sum is
  // that of the first.
  void explained() {
    out_.extent = ProgramSnapshot::Costs;
    out_.noMemory = "a report of `dtc explain` does not contain it";
    bool exposedEach = false;
    each("collectives", [&](const Json& j, const std::string& path) {
      SnapshotCollective c;
      fields_.read(j, "kind", path, c.kind);
      const Json* axes = fields_.list(j, "axes", path);
      for (size_t i = 0; axes && i < axes->size(); ++i)
        if ((*axes)[i].is_string())
          c.axes += (i ? ", " : "") + (*axes)[i].get<std::string>();
        else
          fields_.fail(path + "axes", "names");
      fields_.read(j, "value", path, c.value);
      fields_.read(j, "op", path, c.op);
      fields_.read(j, "location", path, c.location);
      fields_.read(j, "bytes_received", path, c.bytes);
      fields_.read(j, j.contains("counted") ? "counted" : "count", path, c.count);
      fields_.read(j, "seconds", path, c.seconds);
      c.seconds *= static_cast<double>(c.count);
      fields_.read(j, "exposed_seconds", path, c.exposed);
      exposedEach = exposedEach || j.contains("exposed_seconds");
      bool generated = false;
      fields_.read(j, "generated", path, generated);
      if (generated) c.value = "in " + c.value;
      out_.collectives.push_back(std::move(c));
    });
    double exposed = 0;
    each("limits", [&](const Json& j, const std::string& path) {
      double one = 0;
      fields_.read(j, "exposed_seconds", path, one);
      exposed += one;
    });
    if (!out_.collectives.empty() && !exposedEach) out_.collectives[0].exposed = exposed;
    const auto total = j_.find("total");
    if (total == j_.end() || !fields_.object(*total, "total")) return;
    fields_.read(*total, "compute_seconds", "total.", out_.otherSeconds);
    fields_.read(*total, "complete", "total.", out_.complete);
    step();
  }

  // The schedule's numbers of `explain --json`.
  void step() {
    const auto step = j_.find("step");
    if (step == j_.end() || step->is_null() || !fields_.object(*step, "step")) return;
    double seconds = out_.otherSeconds, stepSeconds = 0;
    int64_t bytes = 0, stepBytes = 0, memory = 0;
    fields_.read(*step, "seconds", "step.", stepSeconds);
    fields_.read(*step, "bytes_received", "step.", stepBytes);
    fields_.read(*step, "memory_bytes", "step.", memory);
    for (const SnapshotCollective& c : out_.collectives) seconds += c.exposed, bytes += c.bytes * c.count;
    out_.scheduleSeconds = stepSeconds - seconds, out_.scheduleBytes = stepBytes - bytes;
    if (step->contains("memory_bytes")) out_.memory = SnapshotMemory{memory, {}}, out_.noMemory.clear();
    if (step->contains("kinds")) messages(*step, "kinds", "step.", {"label", "count", "bytes_received"});
  }

  const Json& j_;
  Fields fields_;
  ProgramSnapshot out_;
};

} // namespace

std::string snapshotJson(const ProgramSnapshot& p) {
  Json settings = Json::object(), statements = Json::array(), written = Json::array(),
       collectives = Json::array();
  for (const SnapshotStatement& s : p.written) written.push_back(json(s));
  for (const auto& [name, value] : p.settings) settings[name] = value;
  for (const SnapshotStatement& s : p.statements) statements.push_back(json(s));
  for (const SnapshotCollective& c : p.collectives) collectives.push_back(json(c));
  std::string out = "{\"snapshot\": " + std::to_string(kFormat) + ",\n\"dtc\": " + text(p.version) +
                    ",\n\"program\": " + text(p.name) + ",\n\"extent\": " + text(kExtents[p.extent]) +
                    ",\n\"complete\": " + (p.complete ? "true" : "false") +
                    ",\n\"settings\": " + settings.dump(-1, ' ', false, Json::error_handler_t::replace) +
                    ",\n\"written\": " + lines(written) + ",\n\"statements\": " + lines(statements) +
                    ",\n\"collectives\": " + lines(collectives) +
                    ",\n\"other_seconds\": " + Json(p.otherSeconds).dump() +
                    ",\n\"schedule_seconds\": " + Json(p.scheduleSeconds).dump() +
                    ",\n\"schedule_bytes\": " + std::to_string(p.scheduleBytes);
  if (p.scheduleMessages) {
    Json messages = Json::array();
    for (const SnapshotMessages& s : *p.scheduleMessages) messages.push_back(json(s));
    out += ",\n\"schedule_messages\": " + lines(messages);
  }
  if (p.memory) {
    Json alive = Json::array();
    for (const SnapshotBuffer& b : p.memory->alive)
      alive.push_back({{"value", b.value},
                       {"what", b.what},
                       {"type", b.type},
                       {"where", b.location},
                       {"bytes", b.bytes}});
    out += ",\n\"memory\": {\"peak_bytes\": " + std::to_string(p.memory->peakBytes) +
           ", \"alive\": " + lines(alive) + "}";
  } else {
    out += ",\n\"memory\": null,\n\"no_memory\": " + text(p.noMemory);
  }
  return out + "}\n";
}

bool looksLikeSnapshot(std::string_view t) {
  t = t.substr(0, 4096);
  if (const size_t brace = t.find_first_not_of(" \t\r\n"); brace == t.npos || t[brace] != '{') return false;
  const size_t quote = t.find('"');
  return quote != t.npos &&
         (t.substr(quote).starts_with("\"snapshot\"") || t.substr(quote).starts_with("\"collectives\""));
}

Result<ProgramSnapshot> readSnapshot(const SourceText& source) {
  const Json j = Json::parse(source.text, nullptr, false);
  if (!j.is_object() || !(j.contains("snapshot") || j.contains("collectives")))
    return inputError(source.name +
                      " is not a snapshot of `dtc diff --save` or a report of `dtc explain --json`");
  return SnapshotReader(j, source.name).run();
}

} // namespace dtc
