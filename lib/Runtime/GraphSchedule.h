#pragma once
// A program on a backend with graphs (-O2): stretches of steps that the host has no part in are kept as graphs the second time
// that they run, and started as one from then on; an op of the host (print) stands between two of them. A `for` starts its body's
// graph once a trip, without waiting. `while` and `cond`, and all that is within, are conditional nodes of a graph where the backend
// has them (GraphDecisions.cpp); else the host reads their predicates. Either way one device is asked for all that meet within, so
// that devices never part.
#include "Program.h"

#include <map>
#include <unordered_map>

namespace dtc {

class GraphSchedule {
public:
  struct Options {
    bool hostPredicates = false; // all predicates are read by the host
  };
  // Null where the backend has no graphs. Error (Machine): the backend cannot make a step ready.
  [[nodiscard]] static Result<std::unique_ptr<GraphSchedule>> make(Module& m, const Program& program,
                                                                   Backend& backend, Options options);
  [[nodiscard]] Status run(const RunHooks& hooks);
  [[nodiscard]] const HostCost& cost() const { return cost_; } // of the last run

private:
  using Places = std::vector<int64_t>; // in order
  struct Item {
    std::vector<const Step*> steps;
    size_t work = 0;               // steps but for joins
    bool kept = false;             // in a graph; else one step, done by the host each time
    bool warm = false;             // has run once: libraries have made what they make at their first use
    std::optional<uint32_t> graph; // of all places
  };
  using List = std::vector<Item>;
  // A number that the host reads for each place: by place, the place whose number it takes.
  using Leaders = std::vector<int64_t>;

  GraphSchedule(Module& m, const Program& program, Backend& backend, GraphBackend& graphs, Options options);
  // `within`: the loop whose body this is, or null.
  [[nodiscard]] Status compile(const StepList& steps, const ForStep* within);
  [[nodiscard]] Status placeStacked(const Step& step, const ForStep& loop);
  [[nodiscard]] bool canKeep(const Step& step);
  void meetWithin(const StepList& steps, Leaders& leaders) const;
  [[nodiscard]] const Leaders& leadersOf(const Step& step);

  [[nodiscard]] Status runList(const StepList& steps, const Places& active, int64_t trip);
  [[nodiscard]] Status runItem(Item& item, const Places& active, int64_t trip);
  [[nodiscard]] Status keep(Item& item);
  [[nodiscard]] Status runDirect(const Step& step, const Places& active, int64_t trip);
  [[nodiscard]] Status runHost(const Step& step, const Places& active);
  [[nodiscard]] Status runCollective(const MeetingStep& m, const Places& active);
  [[nodiscard]] Status runControl(const Step& step, const Places& active);
  [[nodiscard]] Status runCond(const Step& step, const Places& active);
  [[nodiscard]] Status runWhile(const Step& step, const Places& active);
  [[nodiscard]] Status runFor(const Step& step, const Places& active);
  // Of those that decide together one after the other.
  [[nodiscard]] std::vector<Places> groupsOf(const Step& step, const Places& active);
  [[nodiscard]] bool canDecide(const Step& step);
  [[nodiscard]] size_t depthOf(const Step& step) const;
  [[nodiscard]] Status warm(const Step& step);
  [[nodiscard]] Status prepareDecisions();
  [[nodiscard]] Status captureList(const StepList& steps, const Places& active);
  [[nodiscard]] Status captureControl(const Step& step, const Places& active);
  [[nodiscard]] Status captureFor(const Step& step, const Places& group);
  [[nodiscard]] Status askGraphs();
  // The active places whose number at `offset` is not 0; the others go to `rest`.
  [[nodiscard]] Result<Places> choose(const Step& step, int64_t offset, const Places& active, Places* rest);
  [[nodiscard]] Result<int64_t> number(int64_t place, int64_t offset, DType dtype);
  [[nodiscard]] Status located(const Step& step, const Status& s) const;

  Module& m_;
  const Program& program_;
  Backend& backend_;
  GraphBackend& graphs_;
  Options options_;
  Places all_;
  std::unordered_map<const StepList*, List> lists_;
  std::unordered_map<const Step*, Leaders> leaders_; // of control steps
  // Copies to stacked results that the device finds the row of: by place, a kernel of the backend.
  std::unordered_map<const Step*, std::vector<uint32_t>> stacked_;
  const RunHooks* hooks_ = nullptr;
  bool capturing_ = false;
  bool decides_ = false; // some graph has conditional nodes
  int direct_ = 0;       // within control flow that is going to be part of a graph: no graph is begun
  std::map<uint32_t, const Step*> limited_; // captured loops, by the number that graphs name them by
  HostCost cost_;
};

} // namespace dtc
