#include "comm/FlightRecorder.h"

#include "dtc/Support/Json.h"

#include <algorithm>
#include <chrono>

namespace dtc {
constexpr size_t kKept = 2000; // entries per device

static std::string listText(const std::vector<int64_t>& coordinates) { // "devices 0, 1 and 3"
  std::string out = coordinates.size() == 1 ? "device " : "devices ";
  for (size_t i = 0; i < coordinates.size(); ++i)
    out += (i == 0 ? "" : i + 1 == coordinates.size() ? " and " : ", ") + std::to_string(coordinates[i]);
  return out;
}

std::pair<std::string, int> fileAndLine(const std::string& where) {
  std::string file = where.substr(0, where.find(": "));
  int line = 0;
  for (int fields = 0; fields < 2; ++fields) { // the column, then the line
    const size_t colon = file.rfind(':');
    if (colon == std::string::npos || colon + 1 == file.size() ||
        file.find_first_not_of("0123456789", colon + 1) != std::string::npos)
      break;
    line = std::atoi(file.c_str() + colon + 1);
    file.resize(colon);
  }
  return line > 0 ? std::pair(file, line) : std::pair(where, 0);
}

uint32_t FlightRecorder::declare(const CollectivePlan& plan) {
  Kind kind;
  kind.name = collectiveName(plan.kind);
  kind.where = plan.where.empty() ? "'" + kind.name + "'" : plan.where;
  kind.dtype = plan.dtype;
  kind.isMove = plan.kind == CollectiveKind::P2p || plan.kind == CollectiveKind::Permute;
  for (const CollectiveGroup& g : plan.groups) kind.groups.push_back(g.coordinates);
  if (!plan.groups.empty()) kind.resultElements = plan.groups[0].members[0].resultElements;
  kinds_.push_back(std::move(kind));
  return static_cast<uint32_t>(kinds_.size() - 1);
}

void FlightRecorder::add(size_t coordinate, uint32_t collective) {
  DeviceLog& p = devices_[coordinate];
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  p.ring.push_back(
      {collective, p.count++, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()});
  if (p.ring.size() > kKept) p.ring.pop_front();
}

void FlightRecorder::started(uint32_t collective, const std::vector<int64_t>& coordinates) {
  for (int64_t p : coordinates) {
    if (inGraph_)
      capturing_.emplace_back(static_cast<size_t>(p), collective);
    else
      add(static_cast<size_t>(p), collective);
  }
}

void FlightRecorder::endGraph() {
  inGraph_ = false;
  graphs_.push_back(std::move(capturing_));
  capturing_.clear();
}

void FlightRecorder::replayed(size_t graph) {
  for (auto [coordinate, collective] : graphs_[graph]) add(coordinate, collective);
}

int64_t FlightRecorder::newest(size_t coordinate, uint32_t word) const {
  if (word == 0) return -1;
  const auto& ring = devices_[coordinate].ring;
  for (size_t i = ring.size(); i-- > 0;)
    if (ring[i].collective == (word - 1) / 2) return static_cast<int64_t>(i);
  return -1;
}

std::optional<FlightRecorder::Place> FlightRecorder::placeOf(int64_t coordinate, uint32_t word) const {
  if (word % 2 == 0) return std::nullopt;
  const Kind& kind = kinds_[(word - 1) / 2];
  for (const auto& group : kind.groups)
    if (std::ranges::find(group, coordinate) != group.end()) return Place{kind.where, group};
  return std::nullopt;
}

std::string FlightRecorder::diagnosis(const std::vector<uint32_t>& words) const {
  for (size_t p = 0; p < devices_.size(); ++p) {
    if (words[p] == 0 || words[p] % 2 == 0) continue; // not in a collective
    const uint32_t collective = (words[p] - 1) / 2;
    for (const auto& group : kinds_[collective].groups) {
      std::vector<int64_t> waiting, absent;
      bool mine = false;
      for (int64_t o : group) {
        mine |= o == static_cast<int64_t>(p);
        (words[static_cast<size_t>(o)] == words[p] ? waiting : absent).push_back(o);
      }
      if (!mine) continue;
      const std::string& where = kinds_[collective].where;
      if (absent.empty())
        return "all of " + listText(waiting) + " have arrived at " + where + ", but it does not complete";
      return listText(absent) + (absent.size() == 1 ? " has" : " have") + " not arrived at " + where + "; " +
             listText(waiting) + (waiting.size() == 1 ? " waits" : " wait") + " there";
    }
  }
  return "no device is waiting in a collective";
}

std::string FlightRecorder::entryJson(size_t coordinate, size_t index, int64_t newest, uint32_t word,
                                      double timeoutSeconds) const {
  const Entry& e = devices_[coordinate].ring[index];
  const Kind& kind = kinds_[e.collective];
  auto [file, line] = fileAndLine(kind.where);
  const auto at = static_cast<int64_t>(index);
  const char* state = at < newest || (at == newest && word % 2 == 0) ? "completed"
                      : at == newest                                 ? "started"
                                                                     : "scheduled";
  std::string sizes, types;
  for (int64_t n : kind.resultElements) {
    sizes += (sizes.empty() ? "[" : ", [") + std::to_string(n) + "]";
    types += (types.empty() ? "" : ", ") + jsonString(dtypeName(kind.dtype));
  }
  return "{\"frames\": [{\"name\": " + jsonString(kind.name) + ", \"filename\": " + jsonString(file) +
         ", \"line\": " + std::to_string(line) + "}], \"record_id\": " + std::to_string(e.number) +
         ", \"pg_id\": 0, \"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": " +
         std::to_string(e.number) + ", \"p2p_seq_id\": 0, \"op_id\": " + std::to_string(e.number) +
         ", \"profiling_name\": " + jsonString("nccl:" + kind.name) +
         ", \"time_created_ns\": " + std::to_string(e.createdNs) + ", \"input_sizes\": [" + sizes +
         "], \"input_dtypes\": [" + types + "], \"output_sizes\": [" + sizes + "], \"output_dtypes\": [" +
         types + "], \"state\": \"" + state +
         "\", \"time_discovered_started_ns\": null, "
         "\"time_discovered_completed_ns\": null, \"retired\": " +
         (std::string_view(state) == "completed" ? "true" : "false") +
         ", \"timeout_ms\": " + std::to_string(static_cast<int64_t>(timeoutSeconds * 1000)) +
         ", \"is_p2p\": " + (kind.isMove ? "true" : "false") + "}";
}

std::string FlightRecorder::json(const std::vector<uint32_t>& words, const std::string& library,
                                 double timeoutSeconds) const {
  std::string out = "[";
  for (size_t p = 0; p < devices_.size(); ++p) {
    const int64_t last = newest(p, words[p]);
    out += (p ? ",\n " : "") + ("{\"version\": \"2.10\", \"rank\": " + std::to_string(p)) +
           ", \"nccl_version\": " + jsonString(library) +
           ", \"pg_config\": {\"0\": {\"name\": \"0\", \"desc\": \"default_pg\", \"ranks\": \"[";
    for (size_t o = 0; o < devices_.size(); ++o) out += (o ? ", " : "") + std::to_string(o);
    out += "]\"}}, \"pg_status\": {}, \"entries\": [";
    for (size_t i = 0; i < devices_[p].ring.size(); ++i)
      out += (i ? ",\n  " : "\n  ") + entryJson(p, i, last, words[p], timeoutSeconds);
    out += "]}";
  }
  return out + "]\n";
}

} // namespace dtc
