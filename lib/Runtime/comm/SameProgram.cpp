#include "dtc/Runtime/comm/SameProgram.h"

#include "dtc/Support/Cores.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <unistd.h>

namespace dtc {

uint64_t hashOfText(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

std::string numberedLines(const std::string& name, std::string_view text) {
  std::string out;
  size_t number = 0;
  for (std::string_view line : linesOf(text))
    out += name + ":" + std::to_string(++number) + ": " + std::string(line) + "\n";
  return out;
}

std::string firstDifference(const Processes& processes, const std::vector<std::string>& all) {
  size_t rank = 1;
  while (rank + 1 < all.size() && all[rank] == all[0]) ++rank;
  const auto first = linesOf(all[0]), other = linesOf(all[rank]);
  size_t at = 0;
  while (at < std::min(first.size(), other.size()) && first[at] == other[at]) ++at;
  const auto line = [&](size_t of, const auto& lines) {
    return "\n  " + processes.name(static_cast<int>(of)) + ": " +
           (at < lines.size() ? std::string(lines[at]) : "nothing more");
  };
  return line(0, first) + line(rank, other);
}

std::string withoutErrorWord(std::string text) {
  constexpr std::string_view kWord = "error: ";
  if (text.starts_with(kWord)) text.erase(0, kWord.size());
  const size_t after = text.find(": " + std::string(kWord));
  if (after < text.find('\n')) text.erase(after + 2, kWord.size());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

int threadsOfProcess(const Processes& processes) {
  const int cores = availableCores();
  const bool bound = cores < sysconf(_SC_NPROCESSORS_ONLN); // to cores of its own
  return bound ? cores : std::max(1, cores / processes.sizeOnHost());
}

Status checkShares(int64_t numDevices, int64_t numProcesses) {
  if (numDevices % numProcesses == 0) return Ok{};
  return usageError("the mesh has " + std::to_string(numDevices) + " devices, which " +
                    std::to_string(numProcesses) + " processes cannot share equally");
}

} // namespace dtc
