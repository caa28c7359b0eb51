#pragma once
// What the processes of a run have in common.
#include "dtc/Runtime/comm/Processes.h"
#include <string_view>

namespace dtc {

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/)
[[nodiscard]] uint64_t hashOfText(std::string_view text);

// "p.dt:1: line\n…": so that a difference is named with its line.
[[nodiscard]] std::string numberedLines(const std::string& name, std::string_view text);

// "rank 0 on a: line\n  rank 1 on a: line": the first line that differs between the document of process 0 and the first
// other one. `all`: by rank, not all equal.
[[nodiscard]] std::string firstDifference(const Processes& processes, const std::vector<std::string>& all);

// The text of an error without the word itself, to follow the name of a process: "p.dt:3:8: unknown op 'x'" of
// "p.dt:3:8: error: unknown op 'x'\n".
[[nodiscard]] std::string withoutErrorWord(std::string text);

// Worker threads for each process of this host: the cores that it is bound to, else its share of the host's.
[[nodiscard]] int threadsOfProcess(const Processes& processes);

// Error (Usage): the processes cannot have equally many of the mesh's devices.
[[nodiscard]] Status checkShares(int64_t numDevices, int64_t numProcesses);

} // namespace dtc
