#pragma once
// A program on a backend with graphs (-O2). Runs of steps without host work are captured in graphs when they
// run for the second time, and launched as graphs from then on; a host op (print) separates two graphs. A
// `for` launches its body's graph once per iteration, without waiting. `while` and `cond`, with nested
// control flow, become conditional graph nodes if the backend has them; else the host
// reads their predicates. In both cases one predicate decides for all devices with a rendezvous inside, so
// that they never diverge.
#include "program/StepLists.h"

#include <map>
#include <unordered_map>

namespace dtc {

class GraphSchedule {
public:
  struct Options {
    bool hostPredicates = false; // the host reads all predicates
  };
  // Of a program of one function. Null if the backend has no graphs. Error (Machine): the backend cannot prepare a step.
  [[nodiscard]] static Result<std::unique_ptr<GraphSchedule>> make(Module& m, const Program& program,
                                                                   Backend& backend, Options options);
  [[nodiscard]] Status run(const RunHooks& hooks);
  [[nodiscard]] const HostCost& cost() const { return cost_; } // of the last run

private:
  using Coordinates = std::vector<int64_t>; // ascending
  struct Item {
    std::vector<const Step*> steps;
    size_t work = 0;               // steps other than joins
    bool kept = false;             // captured in a graph; else one step, issued by the host each time
    bool warm = false;             // has run once: libraries are initialized
    std::optional<uint32_t> graph; // over all devices
  };
  using List = std::vector<Item>;

  GraphSchedule(Module& m, const Program& program, Backend& backend, GraphBackend& graphs, Options options);
  // `within`: the loop whose body this is, or null.
  [[nodiscard]] Status compile(const StepList& steps, const ForStep* within);
  [[nodiscard]] Status placeStacked(const Step& step, const ForStep& loop);
  [[nodiscard]] bool canKeep(const Step& step);
  [[nodiscard]] const Leaders& leadersOf(const Step& step);

  [[nodiscard]] Status runList(const StepList& steps, const Coordinates& active, int64_t iteration);
  [[nodiscard]] Status runItem(Item& item, const Coordinates& active, int64_t iteration);
  [[nodiscard]] Status keep(Item& item);
  [[nodiscard]] Status runDirect(const Step& step, const Coordinates& active, int64_t iteration);
  [[nodiscard]] Status runHost(const Step& step, const Coordinates& active);
  [[nodiscard]] Status runCollective(const RendezvousStep& m, const Coordinates& active);
  [[nodiscard]] Status runControl(const Step& step, const Coordinates& active);
  [[nodiscard]] Status runCond(const Step& step, const Coordinates& active);
  [[nodiscard]] Status runWhile(const Step& step, const Coordinates& active);
  [[nodiscard]] Status runFor(const Step& step, const Coordinates& active);
  // Partitions the active devices by leader.
  [[nodiscard]] std::vector<Coordinates> groupsOf(const Step& step, const Coordinates& active);
  [[nodiscard]] bool canDecide(const Step& step);
  [[nodiscard]] size_t depthOf(const Step& step) const;
  [[nodiscard]] Status warm(const Step& step);
  [[nodiscard]] Status prepareDecisions();
  [[nodiscard]] Status captureList(const StepList& steps, const Coordinates& active);
  [[nodiscard]] Status captureControl(const Step& step, const Coordinates& active);
  [[nodiscard]] Status captureFor(const Step& step, const Coordinates& group);
  [[nodiscard]] Status askGraphs();
  // The active devices whose predicate at `offset` is true; the others are appended to `rest`.
  [[nodiscard]] Result<Coordinates> choose(const Step& step, int64_t offset, const Coordinates& active,
                                           Coordinates* rest);
  [[nodiscard]] Result<int64_t> number(int64_t coordinate, int64_t offset, DType dtype);
  [[nodiscard]] Status located(const Step& step, const Status& s) const;

  Module& m_;
  const Program& program_;
  Backend& backend_;
  GraphBackend& graphs_;
  Options options_;
  Coordinates all_;
  std::unordered_map<const StepList*, List> lists_;
  std::unordered_map<const Step*, Leaders> leaders_; // of control steps
  // Copies to stacked results whose row is computed on the device: by device, a kernel of the backend.
  std::unordered_map<const Step*, std::vector<uint32_t>> stacked_;
  const RunHooks* hooks_ = nullptr;
  bool capturing_ = false;
  bool decides_ = false;                    // some graph has conditional nodes
  int direct_ = 0;                          // nesting of directly run items, in which no graph is launched
  std::map<uint32_t, const Step*> limited_; // captured loops, by their number in graphs
  HostCost cost_;
};

} // namespace dtc
