#pragma once
// Flight recorders' dumps (`dtc run --comm-dump`) of the processes or devices of a run, merged: which collectives did not
// complete, who arrived last and who has not arrived.
#include "dtc/Support/Result.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtc {

struct FlightEntry {
  std::string group;       // "process_group": of devices
  int64_t number = 0;      // in the group
  std::string name, where; // "all_reduce"; "gpt.dt:12"
  int64_t arrivedNs = 0;   // time of day by the clock of process 0
  bool completed = false, started = false;
};

struct FlightDump {
  int64_t rank = 0, size = 0; // size: number of ranks of the run; 0: unknown
  std::string host;           // empty: unknown
  int64_t clockErrorNs = 0;
  std::map<std::string, std::vector<int64_t>> groups; // the ranks of each, ascending
  std::map<std::string, std::string> about;           // the devices of each
  std::vector<FlightEntry> entries;
  // Why the run failed, and where the process waited then, for which ranks; empty: unknown.
  std::string failure, waitsAt;
  std::vector<int64_t> waitsFor;
  std::string json; // with times by the clock of process 0
};

// One dump, or a list of them. Error (Input): not a dump.
[[nodiscard]] Result<std::vector<FlightDump>> readFlightDumps(const std::string& name, std::string_view text);

// The report, by lines. Error (Input): two dumps are of one rank, or of different runs.
[[nodiscard]] Result<std::string> flightReport(std::vector<FlightDump> dumps);
// All dumps as one list.
[[nodiscard]] std::string mergedDumps(const std::vector<FlightDump>& dumps);

} // namespace dtc
