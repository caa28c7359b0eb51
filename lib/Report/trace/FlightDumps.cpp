#include "dtc/Report/trace/FlightDumps.h"

#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

namespace dtc {
namespace {

using DumpValue = nlohmann::ordered_json;

std::vector<int64_t> ranksIn(const std::string& list) { // "[0, 2]"
  std::vector<int64_t> ranks;
  for (size_t at = list.find_first_of("0123456789"); at != list.npos;) {
    ranks.push_back(std::atoll(list.c_str() + at));
    at = list.find_first_of("0123456789", list.find_first_not_of("0123456789", at));
  }
  std::ranges::sort(ranks);
  return ranks;
}

FlightEntry flightEntryOf(DumpValue& e, int64_t offsetNs) {
  FlightEntry out;
  out.group = e.at("process_group").at(0).get<std::string>();
  out.number = e.at("collective_seq_id").get<int64_t>();
  const std::string state = e.at("state").get<std::string>();
  out.completed = state == "completed", out.started = state == "started" || out.completed;
  if (e.contains("frames") && !e["frames"].empty()) {
    const DumpValue& frame = e["frames"][0];
    const auto line = frame.value("line", int64_t{0});
    out.name = frame.value("name", "");
    out.where = frame.value("filename", "") + (line > 0 ? ":" + std::to_string(line) : "");
  } else {
    out.name = e.at("profiling_name").get<std::string>();
  }
  for (const char* time : {"time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns"})
    if (e.contains(time) && e[time].is_number_integer()) e[time] = e[time].get<int64_t>() - offsetNs;
  out.arrivedNs = e.at("time_created_ns").get<int64_t>();
  return out;
}

FlightDump dumpOf(DumpValue& d) {
  FlightDump out;
  out.rank = d.at("rank").get<int64_t>();
  out.size = d.value("world_size", int64_t{0});
  out.host = d.value("host", "");
  out.clockErrorNs = d.value("clock_error_ns", int64_t{0});
  for (const auto& [name, group] : d.at("pg_config").items()) {
    out.groups[name] = ranksIn(group.at("ranks").get<std::string>());
    out.about[name] = group.value("desc", "");
  }
  const auto offset = d.value("clock_offset_ns", int64_t{0});
  if (d.contains("clock_offset_ns")) d["clock_offset_ns"] = 0;
  for (DumpValue& e : d.at("entries")) out.entries.push_back(flightEntryOf(e, offset));
  if (d.contains("failure")) {
    out.failure = d["failure"].at("why").get<std::string>();
    out.waitsAt = d["failure"].value("waits_at", "");
    out.waitsFor = d["failure"].value("waits_for", std::vector<int64_t>());
  }
  out.json = d.dump();
  return out;
}

std::string textOfNs(int64_t ns) {
  char text[48];
  std::snprintf(text, sizeof text,
                ns < 1'000'000       ? "%.0f us"
                : ns < 1'000'000'000 ? "%.1f ms"
                                     : "%.1f s",
                static_cast<double>(ns) / (ns < 1'000'000       ? 1e3
                                           : ns < 1'000'000'000 ? 1e6
                                                                : 1e9));
  return text;
}

class FlightReporter {
public:
  explicit FlightReporter(std::vector<FlightDump> dumps) : dumps_(std::move(dumps)) {}

  Status index() {
    std::ranges::sort(dumps_, {}, &FlightDump::rank);
    for (const FlightDump& d : dumps_) {
      if (!byRank_.emplace(d.rank, &d).second)
        return inputError("two of the dumps are of rank " + std::to_string(d.rank));
      if (d.size && size_ && d.size != size_)
        return inputError("the dumps are of different runs: of " + std::to_string(size_) + " and of " +
                          std::to_string(d.size) + " processes");
      size_ = std::max(size_, d.size);
      errorNs_ = std::max(errorNs_, d.clockErrorNs);
      for (const auto& [name, ranks] : d.groups) groups_[name] = ranks;
      for (const auto& [name, about] : d.about) about_[name] = about;
      for (const FlightEntry& e : d.entries)
        if (e.started) met_[{e.group, e.number}][d.rank] = &e;
    }
    return Ok{};
  }

  std::string text() {
    std::string out = std::to_string(dumps_.size()) + (dumps_.size() == 1 ? " dump" : " dumps");
    std::vector<std::string> missing;
    for (int64_t r = 0; r < size_; ++r)
      if (!byRank_.contains(r)) missing.push_back(std::to_string(r));
    if (size_) out += " of " + std::to_string(size_) + " processes";
    if (!missing.empty())
      out += "; no dump of " + std::string(missing.size() == 1 ? "rank " : "ranks ") + joined(missing);
    if (errorNs_) out += "; clocks agree within " + textOfNs(errorNs_);
    out += "\n";
    const std::string open = openText();
    const auto outside = [](const FlightDump& d) {
      return !d.waitsAt.empty() && d.waitsAt.find('\'') == std::string::npos;
    };
    const bool told = !open.empty() && std::ranges::none_of(dumps_, outside); // by the collectives
    return out + (told ? "" : failureText()) + (open.empty() ? "all collectives have completed\n" : open) +
           usualText();
  }

private:
  using Members = std::map<int64_t, const FlightEntry*>; // by rank

  [[nodiscard]] std::string nameOf(int64_t rank) const {
    const auto at = byRank_.find(rank);
    const bool known = at != byRank_.end() && !at->second->host.empty();
    return "rank " + std::to_string(rank) + (known ? " on " + at->second->host : "");
  }
  // The first to arrive first.
  static std::vector<std::pair<int64_t, int64_t>> arrivals(const Members& members) {
    std::vector<std::pair<int64_t, int64_t>> out; // time, rank
    for (const auto& [rank, e] : members) out.emplace_back(e->arrivedNs, rank);
    std::ranges::sort(out);
    return out;
  }

  // Waits outside of collectives too: at the end of a step, at the writing of a checkpoint.
  std::string failureText() {
    std::string out;
    std::map<std::string, std::set<int64_t>> absent; // by place
    for (const FlightDump& d : dumps_) {
      if (out.empty() && !d.failure.empty()) out = "the run failed: " + d.failure + "\n";
      if (d.waitsAt.empty()) continue;
      absent[d.waitsAt].insert(d.waitsFor.begin(), d.waitsFor.end());
    }
    for (const FlightDump& d : dumps_)
      if (!d.waitsAt.empty()) {
        out += "  " + nameOf(d.rank) + " waits for " + (d.waitsFor.size() == 1 ? "rank " : "ranks ") +
               joined(d.waitsFor) + " at " + d.waitsAt + "\n";
        absent[d.waitsAt].erase(d.rank);
      }
    for (const auto& [place, ranks] : absent)
      for (const int64_t rank : ranks)
        out += "  " + nameOf(rank) + " has not come to " + place +
               (byRank_.contains(rank) ? "" : ": it has no dump") + "\n";
    return out;
  }

  // Collectives that did not complete, in the order in which their first process arrived.
  std::string openText() {
    std::vector<std::pair<int64_t, const std::pair<const std::pair<std::string, int64_t>, Members>*>> open;
    for (const auto& one : met_)
      if (std::ranges::any_of(one.second, [](const auto& m) { return !m.second->completed; }))
        open.emplace_back(arrivals(one.second)[0].first, &one);
    std::ranges::sort(open);
    std::string out;
    for (const auto& [at, one] : open) out += collectiveText(one->first.first, one->second);
    return out;
  }

  std::string collectiveText(const std::string& group, const Members& members) {
    const FlightEntry& any = *members.begin()->second;
    std::string out = (any.where.empty() ? "" : any.where + ": ") + "'" + any.name + "' of " + about_[group] +
                      " did not complete\n";
    const auto order = arrivals(members);
    for (size_t i = 0; i < order.size(); ++i) {
      const auto [ns, rank] = order[i];
      out += "  " + nameOf(rank) + " arrived " +
             (i == 0 ? "first" : textOfNs(ns - order[0].first) + " later") +
             (i > 0 && i + 1 == order.size() ? ", last" : "") + "\n";
    }
    for (int64_t rank : groups_[group])
      if (!members.contains(rank)) out += "  " + nameOf(rank) + " has not arrived: " + lastOf(rank) + "\n";
    return out;
  }

  [[nodiscard]] std::string lastOf(int64_t rank) const {
    const auto at = byRank_.find(rank);
    if (at == byRank_.end()) return "it has no dump";
    const FlightEntry* last = nullptr;
    for (const FlightEntry& e : at->second->entries)
      if (e.started && (!last || e.arrivedNs >= last->arrivedNs)) last = &e;
    if (!last) return "it has come to no collective";
    const std::string what = "'" + last->name + "'" + (last->where.empty() ? "" : " at " + last->where);
    return last->completed ? "its last is " + what + ", which completed" : "it waits in " + what;
  }

  // Who is late where nothing hangs.
  std::string usualText() const {
    std::map<int64_t, std::vector<int64_t>> late; // by rank: how much later than the one before
    size_t count = 0;
    for (const auto& [key, members] : met_) {
      const auto at = groups_.find(key.first);
      if (at == groups_.end() || members.size() != at->second.size() || members.size() < 2) continue;
      const auto order = arrivals(members);
      late[order.back().second].push_back(order.back().first - order[0].first);
      ++count;
    }
    std::string out;
    for (auto& [rank, times] : late) {
      std::ranges::sort(times);
      out += nameOf(rank) + " arrived last in " + std::to_string(times.size()) + " of " +
             std::to_string(count) + " collectives, " + textOfNs(times[times.size() / 2]) +
             " after the first (median)\n";
    }
    return out;
  }

  std::vector<FlightDump> dumps_;
  std::map<int64_t, const FlightDump*> byRank_;
  int64_t size_ = 0, errorNs_ = 0;
  std::map<std::string, std::vector<int64_t>> groups_;
  std::map<std::string, std::string> about_;
  std::map<std::pair<std::string, int64_t>, Members> met_; // by group and number
};

} // namespace

Result<std::vector<FlightDump>> readFlightDumps(const std::string& name, std::string_view text) {
  std::vector<FlightDump> out;
  try {
    DumpValue all = DumpValue::parse(text);
    if (all.is_object() && all.contains("traceEvents"))
      return inputError(
          name + " is a trace, not a dump: `dtc run --comm mpi --trace` writes one trace of all processes");
    if (!all.is_array()) all = DumpValue::array({std::move(all)});
    for (DumpValue& d : all) out.push_back(dumpOf(d));
  } catch (const nlohmann::json::parse_error& e) {
    return inputError(name + " is not a dump of `dtc run --comm-dump`: it is not valid JSON at byte " +
                      std::to_string(e.byte));
  } catch (const nlohmann::json::exception&) {
    return inputError(name +
                      " is not a dump of `dtc run --comm-dump`: a field is missing or has the wrong type");
  }
  return out;
}

Result<std::string> flightReport(std::vector<FlightDump> dumps) {
  FlightReporter report(std::move(dumps));
  if (Status s = report.index(); !s) return s.error();
  return report.text();
}

std::string mergedDumps(const std::vector<FlightDump>& dumps) {
  return "[" + joined(dumps, ",\n ", [](const FlightDump& d) { return d.json; }) + "]\n";
}

} // namespace dtc
