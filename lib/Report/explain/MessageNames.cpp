#include "explain/MessageNames.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Support/Words.h"
#include "explain/ExplainGroups.h"
#include "explain/StepNames.h"

namespace dtc {

static std::string keyOf(const Module& m, OpId o, const Mesh& mesh) {
  const auto price = priceOfCollective(m, o, mesh, {});
  return std::string(collectiveName(m.record(o).collective)) + " " +
         joined(collectiveAxes(m, o), ",", [&](const AxisRef& a) { return printAxis(a, m.strings); }) + " " +
         std::to_string(price ? price->bytesReceived : -1);
}

std::vector<MessageIdentity> messageIdentities(const CollectiveTrace& t) {
  std::vector<MessageIdentity> out;
  std::unordered_map<FuncId, Mesh> meshes;
  for (const TracedCollective& c : t.collectives) {
    const auto mesh = meshes.try_emplace(c.function, meshValueOf(t.local, c.function)).first;
    out.push_back(
        {keyOf(t.local, c.op, mesh->second), t.local[c.op].loc.begin, static_cast<int>(out.size())});
  }
  return out;
}

MessageMatcher::MessageMatcher(std::vector<MessageIdentity> identities) : identities_(std::move(identities)) {
  for (size_t i = 0; i < identities_.size(); ++i) byKey_[identities_[i].key].push_back(i);
}

std::vector<int> MessageMatcher::collectivesOf(const Module& m, FuncId f,
                                               std::span<const OpId> messages) const {
  using Alike = std::pair<std::string, uint32_t>; // of any location if there is none of the own
  std::map<Alike, std::vector<size_t>> alike;
  const Mesh mesh = meshValueOf(m, f);
  for (size_t i = 0; i < messages.size(); ++i)
    alike[{keyOf(m, messages[i], mesh), m[messages[i]].loc.begin}].push_back(i);
  std::vector<int> found(messages.size(), -1);
  for (const auto& [what, own] : alike) {
    const auto at = byKey_.find(what.first);
    if (at == byKey_.end()) continue;
    std::vector<int> candidates;
    for (size_t i : at->second)
      if (identities_[i].location == what.second) candidates.push_back(identities_[i].collective);
    if (candidates.empty()) candidates.push_back(identities_[at->second[0]].collective);
    for (size_t k = 0; k < own.size(); ++k) found[own[k]] = candidates[k * candidates.size() / own.size()];
  }
  return found;
}

std::string namesOfSteps(const std::vector<std::string>& names) {
  std::vector<NamePattern> first;
  size_t others = 0;
  for (const std::string& n : names) {
    NamePattern p = patternOf(n);
    if (first.empty() || p.text == first[0].text)
      first.push_back(std::move(p));
    else
      ++others;
  }
  if (first.empty()) return "";
  return rangeText(first) + (others > 0 ? " and " + std::to_string(others) + " more" : "");
}

std::map<int, std::vector<std::string>> messageNames(const Module& m, FuncId entry,
                                                     const MessageMatcher& matcher) {
  std::map<int, std::vector<std::string>> out;
  for (FuncId f : functionsOfProgram(m, entry)) {
    const StepNames names(m, f);
    std::vector<OpId> messages;
    forEachOp(m, m[f].body, [&](OpId o) {
      if (sendsMessages(m.record(o).collective) && m.record(o).async != AsyncForm::Done)
        messages.push_back(o);
    });
    const std::vector<int> collectives = matcher.collectivesOf(m, f, messages);
    for (size_t i = 0; i < messages.size(); ++i)
      if (collectives[i] >= 0) out[collectives[i]].push_back(names.step(messages[i]));
  }
  return out;
}

void nameMessages(ProgramReport& r, const CollectiveTrace& t, const Module& placed, FuncId entry) {
  const auto names = messageNames(placed, entry, MessageMatcher(messageIdentities(t)));
  for (const auto& [collective, steps] : names)
    r.collectives[static_cast<size_t>(collective)].name = namesOfSteps(steps);
  for (ExplainGroup& g : r.groups) {
    std::vector<std::string> all;
    for (size_t member : g.members)
      if (const auto at = names.find(static_cast<int>(member)); at != names.end())
        all.insert(all.end(), at->second.begin(), at->second.end());
    g.name = namesOfSteps(all);
  }
}

} // namespace dtc
