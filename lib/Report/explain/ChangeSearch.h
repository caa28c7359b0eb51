#pragma once
// Searches for the cheapest change of annotations that removes a collective: candidates are written into the
// text and the passes run on it, so that every suggestion has been tried.
#include "dtc/Passes/propagate/Reasons.h"
#include "explain/ProgramTime.h"
#include "explain/UserNames.h"
#include <map>
#include <set>

namespace dtc {

class ChangeSearch {
public:
  ChangeSearch(const Module& prepared, CollectiveTrace& trace, const Reasons& reasons,
               const ExplainOptions& options, const PrepareProgram& prepare);

  // Fills `change` or `noChange`, and the fields after it.
  void search(const TracedCollective&, ProgramCollective& out);
  // After all were searched: tries what removes others, if nothing was found.
  void retry(const TracedCollective&, ProgramCollective& out);

private:
  // Identifies a collective in both programs: edits do not change line numbers.
  struct Need {
    uint32_t line = 0;
    std::string op;
    auto operator<=>(const Need&) const = default;
  };
  struct Trial {
    bool valid = false;
    double seconds = 0;       // computing and communicating
    double argumentBytes = 0; // of a device
    size_t collectives = 0;
    bool priced = false;
    std::optional<ScheduleCost> step;                  // once it was priced
    std::map<std::pair<Need, std::string>, int> needs; // by axis: number of collectives
    std::set<std::string> keys;
  };
  using Edits = std::vector<AnnotationEdit>;
  using Resharded = std::function<Sharding(const Sharding&)>; // the new sharding of one that is written
  struct Candidates {
    std::vector<Edits> tensors;  // each changes all annotations of a tensor
    std::vector<Edits> single;   // one annotation of several
    Edits reaching;              // of all tensors through which the axes reach the op
    std::vector<Edits> boundary; // the axes added to a result, or to an argument without annotation
  };

  void candidates(const TracedCollective&, Candidates&) const;
  void addResult(const TracedCollective&, OpId source, Candidates&) const;
  void addBoundary(const TracedCollective&, Candidates&) const;
  void addReaching(const TracedCollective&, Candidates&) const;
  void add(const AnnotationUse&, const Sharding& written, const Resharded&, Candidates&) const;
  [[nodiscard]] FuncId annotatedFunction(const AnnotationUse&) const;
  [[nodiscard]] std::string annotatedName(const AnnotationUse&) const;
  [[nodiscard]] Sharding writtenSharding(const AnnotationUse&) const;
  [[nodiscard]] std::optional<AnnotationEdit> edit(SourceRange, const Sharding& wanted) const;
  // Writes a sharding after a type that has none.
  [[nodiscard]] std::optional<AnnotationEdit> insertion(SourceRange, const Sharding& wanted) const;
  // One edit of a result or an argument of the entry, which has this sharding in the text or none.
  [[nodiscard]] Edits editOf(SourceRange loc, bool annotated, const Sharding& wanted, std::string of) const;
  [[nodiscard]] std::optional<Module> preparedWith(const Edits&) const;
  Trial* trial(const Edits&);
  void price(const Edits&, Trial&);
  Trial judge(CollectiveTrace&) const;
  [[nodiscard]] static std::vector<Need> needsOf(const CollectiveTrace&, const Reasons&,
                                                 const TracedCollective&);
  [[nodiscard]] static std::string keyOf(const CollectiveTrace&, const Reasons&, const TracedCollective&);
  [[nodiscard]] bool isRemovedBy(const TracedCollective&, const Trial&) const;
  bool best(const TracedCollective&, const std::vector<Edits>&, ProgramCollective& out);

  const Module& prepared_;
  CollectiveTrace& trace_;
  const Reasons& reasons_;
  const ExplainOptions& options_;
  const PrepareProgram& prepare_;
  UserNames userNames_;
  mutable std::optional<Module> scratch_; // tables for shardings that are only printed
  Trial now_;
  int64_t work_ = 0, stepWork_ = 0;
  bool exhausted_ = false,
       tooLarge_ = false; // of the last search: a change does not fit into a device's memory
  std::map<std::string, Trial> trials_;
  std::vector<Edits> found_; // what removes some collective
};

} // namespace dtc
