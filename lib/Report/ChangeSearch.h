#pragma once
// The cheapest change of annotations that removes a collective: candidates are written into the text, and the passes run on
// that, so that what is suggested has been tried.
#include "ProgramTime.h"
#include "dtc/Passes/Reasons.h"
#include <map>
#include <set>

namespace dtc {

class ChangeSearch {
public:
  ChangeSearch(const Module& prepared, CollectiveTrace& trace, const Reasons& reasons,
               const ExplainOptions& options, const PrepareProgram& prepare);

  // Fills `change` or `noChange`, and what is after it.
  void search(const TracedCollective&, ProgramCollective& out);

private:
  // What a collective is known by in both programs: edits leave lines as they are.
  struct Need {
    uint32_t line = 0;
    std::string op;
    auto operator<=>(const Need&) const = default;
  };
  struct Trial {
    bool valid = false;
    double seconds = 0; // computing and communicating
    size_t collectives = 0;
    std::map<std::pair<Need, std::string>, int> needs; // by axis: how many collectives
    std::set<std::string> keys;
  };
  using Edits = std::vector<AnnotationEdit>;

  void candidates(const TracedCollective&, std::vector<Edits>& single) const;
  void addEdit(const AnnotationUse&, const Sharding& wanted, std::vector<Edits>& out) const;
  const Trial* trial(const Edits&);
  Trial judge(CollectiveTrace&) const;
  [[nodiscard]] static std::vector<Need> needsOf(const CollectiveTrace&, const Reasons&,
                                                 const TracedCollective&);
  [[nodiscard]] static std::string keyOf(const CollectiveTrace&, const Reasons&, const TracedCollective&);
  [[nodiscard]] bool removes(const TracedCollective&, const Trial&) const;
  bool best(const TracedCollective&, const std::vector<Edits>&, ProgramCollective& out);

  const Module& prepared_;
  CollectiveTrace& trace_;
  const Reasons& reasons_;
  const ExplainOptions& options_;
  const PrepareProgram& prepare_;
  mutable std::optional<Module> scratch_; // tables for shardings that are only printed
  Trial now_;
  int64_t work_ = 0;
  bool exhausted_ = false;
  std::map<std::string, Trial> trials_;
};

} // namespace dtc
