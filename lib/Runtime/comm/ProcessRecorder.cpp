#include "comm/ProcessRecorder.h"

#include "comm/FlightRecorder.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <chrono>

namespace dtc {

constexpr size_t kKeptByProcess = 2000;

static int64_t timeOfDayNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

uint32_t ProcessRecorder::declare(const CollectivePlan& plan, const CollectiveGroup& group,
                                  std::vector<int> processes, const std::string& library) {
  std::ranges::sort(processes);
  processes.erase(std::ranges::unique(processes).begin(), processes.end());
  const auto [at, isNew] = groupOf_.try_emplace(group.coordinates, groups_.size());
  if (isNew) groups_.push_back({group.coordinates, std::move(processes)});
  Kind kind;
  kind.name = collectiveName(plan.kind);
  kind.where = plan.where.empty() ? "'" + kind.name + "'" : plan.where;
  kind.library = library;
  kind.dtype = plan.dtype;
  kind.resultElements = group.members[0].resultElements;
  kind.group = at->second;
  kind.isMove = plan.kind == CollectiveKind::P2p || plan.kind == CollectiveKind::Permute;
  kinds_.push_back(std::move(kind));
  return static_cast<uint32_t>(kinds_.size() - 1);
}

uint64_t ProcessRecorder::arrived(uint32_t number) {
  const std::lock_guard lock(mutex_);
  ring_.push_back({number, count_++, groups_[kinds_[number].group].count++, timeOfDayNs()});
  if (ring_.size() > kKeptByProcess) ring_.pop_front();
  return count_ - 1;
}

void ProcessRecorder::completedArrival(uint64_t arrival) {
  const std::lock_guard lock(mutex_);
  for (Entry& e : ring_)
    if (e.number == arrival) e.completedNs = timeOfDayNs();
}

void ProcessRecorder::completed(uint32_t number) {
  const std::lock_guard lock(mutex_);
  for (auto e = ring_.rbegin(); e != ring_.rend(); ++e)
    if (e->kind == number) {
      e->completedNs = timeOfDayNs();
      return;
    }
}

std::string ProcessRecorder::entryJson(const Entry& e) const {
  const Kind& kind = kinds_[e.kind];
  const auto [file, line] = fileAndLine(kind.where);
  std::string sizes, types;
  for (int64_t n : kind.resultElements) {
    sizes += (sizes.empty() ? "[" : ", [") + std::to_string(n) + "]";
    types += (types.empty() ? "" : ", ") + jsonString(dtypeName(kind.dtype));
  }
  const std::string group = std::to_string(kind.group), done = std::to_string(e.completedNs);
  const std::string devices = "devices " + joined(groups_[kind.group].devices);
  return "{\"frames\": [{\"name\": " + jsonString(kind.name) + ", \"filename\": " + jsonString(file) +
         ", \"line\": " + std::to_string(line) + "}], \"record_id\": " + std::to_string(e.number) +
         ", \"pg_id\": " + group + ", \"process_group\": [\"" + group + "\", " + jsonString(devices) + "]" +
         ", \"collective_seq_id\": " + std::to_string(e.inGroup) +
         ", \"p2p_seq_id\": 0, \"op_id\": " + std::to_string(e.number) +
         ", \"profiling_name\": " + jsonString(kind.library + ":" + kind.name) +
         ", \"time_created_ns\": " + std::to_string(e.arrivedNs) + ", \"input_sizes\": [" + sizes +
         "], \"input_dtypes\": [" + types + "], \"output_sizes\": [" + sizes + "], \"output_dtypes\": [" +
         types + "], \"state\": \"" + (e.completedNs ? "completed" : "started") +
         "\", \"time_discovered_started_ns\": " + std::to_string(e.arrivedNs) +
         ", \"time_discovered_completed_ns\": " + (e.completedNs ? done : "null") +
         ", \"retired\": " + (e.completedNs ? "true" : "false") +
         ", \"timeout_ms\": 0, \"is_p2p\": " + (kind.isMove ? "true" : "false") + "}";
}

std::string ProcessRecorder::json(const Processes& processes, const ProcessClocks& clocks) const {
  const std::lock_guard lock(mutex_);
  std::string out = "{\"version\": \"2.10\", \"rank\": " + std::to_string(processes.rank()) +
                    ", \"world_size\": " + std::to_string(processes.size()) +
                    ", \"host\": " + jsonString(processes.host(processes.rank())) +
                    ", \"clock_offset_ns\": " + std::to_string(clocks.timeOfDayOffsetNs()) +
                    ", \"clock_error_ns\": " + std::to_string(clocks.errorNs()) +
                    ", \"nccl_version\": " + jsonString(processes.version()) + ",\n \"pg_config\": {";
  for (size_t g = 0; g < groups_.size(); ++g)
    out += (g ? ", " : "") + ("\"" + std::to_string(g) + "\": {\"name\": \"" + std::to_string(g)) +
           "\", \"desc\": \"devices " + joined(groups_[g].devices) + "\", \"ranks\": \"[" +
           joined(groups_[g].processes) + "]\"}";
  out += "}, \"pg_status\": {}, \"entries\": [";
  for (size_t i = 0; i < ring_.size(); ++i) out += (i ? ",\n  " : "\n  ") + entryJson(ring_[i]);
  out += "]";
  if (const Status failure = processes.failure(); !failure) {
    const std::string& why = failure.error().message;
    const auto wait = processes.waitAtFailure();
    out +=
        ",\n \"failure\": {\"why\": " + jsonString(why.substr(0, why.find('\n'))) +
        (wait ? ", \"waits_at\": " + jsonString(wait->at) + ", \"waits_for\": [" + wait->peers + "]" : "") +
        "}";
  }
  return out + "}\n";
}

} // namespace dtc
