#pragma once
// What the schedule calls the collectives that explain, report and diff list: one name for a message everywhere.
#include "dtc/Report/explain/ExplainProgram.h"

#include <map>
#include <span>

namespace dtc {

// What identifies a collective of the traced program in later text.
struct MessageIdentity {
  std::string key;       // "all_reduce tp 4096": kind, axes and bytes received
  uint32_t location = 0; // of its op
  int collective = 0;    // an index, or any other number of it
};
// By index of CollectiveTrace::collectives.
[[nodiscard]] std::vector<MessageIdentity> messageIdentities(const CollectiveTrace&);

class MessageMatcher {
public:
  explicit MessageMatcher(std::vector<MessageIdentity>);
  // For messages of a function, in order: the collective of each, or -1. Messages with the same key and location, such
  // as that of a line and that of its gradient, come in the same order as those of the traced program.
  [[nodiscard]] std::vector<int> collectivesOf(const Module&, FuncId, std::span<const OpId> messages) const;

private:
  std::vector<MessageIdentity> identities_;
  std::map<std::string, std::vector<size_t>> byKey_;
};

// "%blocks_{0..3}_q and 2 more": the first of the values, with those that differ in numbers only.
[[nodiscard]] std::string namesOfSteps(const std::vector<std::string>&);

// By collective: the names of its steps in a placed program.
[[nodiscard]] std::map<int, std::vector<std::string>> messageNames(const Module& placed, FuncId entry,
                                                                   const MessageMatcher&);
// Fills `name` of the collectives and of their groups.
void nameMessages(ProgramReport&, const CollectiveTrace&, const Module& placed, FuncId entry);

} // namespace dtc
