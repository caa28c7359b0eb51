#include "comm/ProcessInquiry.h"

#include <algorithm>

namespace dtc {

bool ProcessInquiry::isComplete() const {
  return std::ranges::all_of(answers, [](const auto& a) { return a.has_value(); });
}

int ProcessInquiry::firstAnswer() const {
  const auto first = std::ranges::find_if(answers, [](const auto& a) { return a.has_value(); });
  return static_cast<int>(first - answers.begin());
}

std::string ProcessInquiry::note(int rank, const std::function<std::string(int)>& nameOf) const {
  const auto waits = [](const auto& a) { return a && !a->empty(); };
  const auto first = std::ranges::find_if(answers, waits);
  if (first - answers.begin() != rank) return ""; // it writes the note
  std::string late;
  for (size_t r = 0; r < answers.size(); ++r)
    if (!waits(answers[r])) late += (late.empty() ? "" : ", ") + nameOf(static_cast<int>(r));
  if (late.empty()) return "";
  return "note: " + reason + ": " + nameOf(rank) + " waits at " +
         first->value().substr(first->value().find(' ') + 1) + ", to which " + late +
         " has not come, but answers\n";
}

std::string ProcessInquiry::diagnosis(const std::function<std::string(int)>& nameOf, bool terminated,
                                      bool onDevices) const {
  std::string silent, late, waits;
  int numLate = 0;
  for (int r = 0; r < static_cast<int>(answers.size()); ++r) {
    const auto& own = answers[static_cast<size_t>(r)];
    if (!own) silent += (silent.empty() ? "" : ", ") + nameOf(r);
    if (own && own->empty()) late += (late.empty() ? "" : ", ") + nameOf(r), ++numLate;
    if (!own || own->empty()) continue;
    const size_t space = own->find(' ');
    std::string peers = own->substr(0, space);
    const bool several = peers.find(',') != peers.npos;
    for (size_t at = peers.find(','); at != peers.npos; at = peers.find(',', at + 1))
      peers.insert(at + 1, " ");
    waits += "\n  " + nameOf(r) + " waits for rank" + (several ? "s " : " ") + peers + " at " +
             own->substr(space + 1);
  }
  if (!silent.empty() && terminated) return "no answer from " + silent + "; " + reason + waits;
  if (!silent.empty()) return reason + ": no answer from " + silent + waits;
  if (terminated) return reason; // in the middle of its work
  if (!late.empty())
    return reason + ": " + late + (numLate == 1 ? " answers, but has" : " answer, but have") +
           " not come to the collective" + waits;
  const auto placeOf = [](const std::optional<std::string>& a) { return a->substr(a->find(' ') + 1); };
  const auto same = [&](const auto& a) { return placeOf(a) == placeOf(answers[0]); };
  if (onDevices && std::ranges::all_of(answers, same))
    return reason + ": all processes have come to the collective, but it does not complete" + waits;
  return reason + ": the processes wait for each other" + waits;
}

} // namespace dtc
