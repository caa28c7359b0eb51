#include "explain/StepParts.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Support/Words.h"

namespace dtc {

// "pp 0 to 1", "pp 0 to 1, 1 to 2", "8 pairs along cp".
static std::string pairsText(const Module& m, OpId o) {
  constexpr size_t kMaxPairs = 2;
  std::vector<std::string> pairs;
  for (const P2pSend& s : sendsOf(m, o)) {
    std::string pair = std::to_string(s.from) + " to " + std::to_string(s.to);
    if (s.from != s.to && std::ranges::find(pairs, pair) == pairs.end()) pairs.push_back(std::move(pair));
  }
  const std::string axes =
      joined(collectiveAxes(m, o), ",", [&](const AxisRef& a) { return printAxis(a, m.strings); });
  if (pairs.empty()) return "";
  return pairs.size() > kMaxPairs ? std::to_string(pairs.size()) + " pairs along " + axes
                                  : axes + " " + joined(pairs);
}

std::string stepPart(const Module& m, OpId o) {
  const AttrId microbatch = m.attr(o, "microbatch"), phase = m.attr(o, "phase"), stage = m.attr(o, "stage");
  if (!microbatch.valid() || !phase.valid() || !stage.valid()) return "";
  const std::string_view word = m.strings[m.attrs[phase].text];
  const std::string letter = word.empty() ? "" : std::string(1, static_cast<char>(word[0] - 'a' + 'A'));
  std::string out =
      letter + std::to_string(m.attrs[microbatch].i) + " stage " + std::to_string(m.attrs[stage].i);
  if (m.record(o).collective == CollectiveKind::P2p)
    if (const std::string pairs = pairsText(m, o); !pairs.empty()) out += ", " + pairs;
  return out;
}

} // namespace dtc
