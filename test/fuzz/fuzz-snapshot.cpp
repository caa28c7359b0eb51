// The reader of saved programs, and what diff makes of them: no input may crash it, and what it refuses it says.

#include "dtc/Report/diff/ProgramDiff.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dtc::SourceText source{"fuzz.json", std::string(reinterpret_cast<const char*>(data), size)};
  (void)dtc::looksLikeSnapshot(source.text);
  const auto read = dtc::readSnapshot(source);
  if (!read) {
    if (read.error().message.empty()) std::abort(); // rejected without a word
    return 0;
  }
  const std::string written = dtc::snapshotJson(*read);
  const auto again = dtc::readSnapshot({"fuzz.json", written});
  if (!again || !dtc::diffPrograms(*read, *again).empty()) {
    std::fprintf(stderr, "a saved program differs from itself\n%s\n", written.c_str());
    std::abort();
  }
  dtc::ProgramSnapshot other = *read;
  if (!other.statements.empty()) other.statements[other.statements.size() / 2].sharding += "x";
  if (!other.written.empty()) other.written.back().op += "x";
  if (!other.collectives.empty()) other.collectives.erase(other.collectives.begin());
  const dtc::ProgramDiff diff = dtc::diffPrograms(*read, other);
  (void)dtc::diffText(diff, {40, 3, true});
  (void)dtc::diffJson(diff, {});
  return 0;
}
