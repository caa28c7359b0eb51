#include "ProgramCache.h"

namespace dtc {

std::shared_ptr<const PjrtProgram> ProgramCache::find(std::string_view text, int64_t numPartitions) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = byText_.equal_range(text);
  for (auto at = begin; at != end; ++at)
    if ((*at->second)->numPartitions() == numPartitions) {
      programs_.splice(programs_.begin(), programs_, at->second);
      return *at->second;
    }
  return nullptr;
}

// The targets of custom calls that are functions of the process. Such a function may run an equal program, but not
// the same one.
constexpr std::string_view kHostFunction = "dtc.host";

void ProgramCache::add(std::shared_ptr<const PjrtProgram> program) {
  const std::string_view text = program->text();
  if (text.size() > kLongestText || program->arenaBytes() > kMostMemory ||
      text.find(kHostFunction) != text.npos)
    return;
  const std::lock_guard lock(mutex_);
  programs_.push_front(std::move(program));
  byText_.emplace(text, programs_.begin());
  if (programs_.size() <= kMostPrograms) return;
  const auto last = std::prev(programs_.end());
  const auto [begin, end] = byText_.equal_range((*last)->text());
  for (auto at = begin; at != end; ++at)
    if (at->second == last) {
      byText_.erase(at);
      break;
    }
  programs_.pop_back();
}

} // namespace dtc
