#pragma once
// view: programs, meshes and shardings as drawings, as text for a terminal and as one self-contained SVG or
// HTML file.
#include "dtc/IR/Module.h"
#include "dtc/Passes/analysis/PipelineText.h"
#include "dtc/Support/Result.h"
#include <functional>
#include <span>

namespace dtc {

// A sharded tensor, or a mesh, as a matrix of matrices: the last dim goes across, the one before it down, the
// one before that across again, and so on. Dims may have too many segments to draw: they are requested one by
// one.
struct ViewGrid {
  struct Dim {
    std::string name; // "dim 0"; "" where the labels contain it
    int64_t count = 1;
    std::function<std::string(int64_t)> label; // "0..31"
    std::function<int64_t(int64_t)> size;      // of a segment, for drawings to scale; none: not known
  };
  std::string title;              // "%h: f32[64, 512] @pod{dp, _}"
  std::vector<std::string> facts; // lines below it
  std::vector<Dim> dims;
  std::function<std::string(std::span<const int64_t>)> cell; // one index per dim
  std::function<bool(std::span<const int64_t>)> marked;      // pending: drawn differently
};

// The devices that have a value.
struct ViewHolders {
  std::vector<bool> devices; // by coordinate; empty: all, or not known
  bool known = true;
  bool computed = false; // they compute it; false: they hold it as an argument or a result
};
// The shards of a value that has a sharding, and their device coordinates. `global` is the global type; `before`: the
// sharding that the value's op computes, if it is resharded then.
[[nodiscard]] ViewGrid shardingGrid(const Module&, std::string_view name, TypeId global, ShardingId,
                                    ViewHolders = {}, ShardingId before = {});
// The devices of a mesh, by their coordinates.
[[nodiscard]] ViewGrid meshGrid(const Module&, MeshId);

// "dim 0: 0..31", above the matrices of one index.
[[nodiscard]] std::string headingOf(const ViewGrid::Dim&, int64_t index);
// Segments omitted for lack of space are shown as "...".
[[nodiscard]] std::string gridText(const ViewGrid&, size_t columns);
[[nodiscard]] std::string gridsSvg(std::span<const ViewGrid>);

// The function's ops in layers, each below all of its operands. Regions are one node.
struct ViewGraph {
  struct Node {
    std::string op, result, type; // "matmul", "%h", "f32[64, 512] @pod{dp, tp}"
    size_t layer = 0;
    std::vector<size_t> from;       // the nodes of its operands, in order
    std::vector<std::string> reads; // their values: its operands, then those captured by its regions
  };
  std::string title;
  std::vector<Node> nodes;
};
[[nodiscard]] ViewGraph viewGraph(const Module&, FuncId);
[[nodiscard]] std::string graphText(const ViewGraph&, size_t columns);
[[nodiscard]] std::string graphDot(const ViewGraph&);
[[nodiscard]] std::string graphSvg(const ViewGraph&);

// The steps of each device in order, those of loops and branches behind them, and the buffers live at each.
struct ViewSchedule {
  struct Step {
    std::string stream; // "compute", "comm tp"
    std::string what;   // "gemm", "all_reduce"
    std::string result; // "%h, %b"
    // In the user's names: "matmul", "partial %h", and both.
    std::string kind, value, label;
    int64_t live = 0; // the most live bytes during the step
    int64_t number =
        -1; // of reports: in the order of execution; -1: not part of it, such as a constant or a loop
    size_t depth = 0;         // of loops and branches around it
    std::string part;         // of the first step of a block that is one of several: "condition", "body"
    std::string pipelinePart; // "F2 stage 0", of a pipeline
  };
  struct Buffer {
    std::string value, label;
    int64_t offset = 0, bytes = 0;
    bool argument = false, returned = false;
    std::vector<std::pair<size_t, size_t>> live; // first and last step, inclusive
  };
  std::string title;
  int64_t arena = 0;
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
};
// The steps of the functions of a program over time, on the nominal machine.
struct ViewTimeline {
  struct Bar {
    size_t stream = 0; // of `streams`
    std::string text;  // "gemm %h"
    double begin = 0, seconds = 0;
    double exposed = 0;   // of a message: the device waits for it, up to its end
    double waited = 0;    // before a message: the device waits for those of other functions to come
    bool repeats = false; // the further iterations of a loop
  };
  std::string title; // "devices [0]"
  std::vector<std::string> streams;
  std::vector<std::string> colors; // of each stream: of its first mesh axis, or ""
  std::vector<Bar> bars;
  double seconds = 0; // of the program
  double computing = 0, exposed = 0, waiting = 0;
};
struct StepCost;
struct ViewTimelines {
  std::vector<ViewTimeline> functions;
  double idleShare =
      0; // of the devices' time, in which they compute nothing: of a pipeline, its bubble with messages
};
// For a placed program.
[[nodiscard]] ViewTimelines viewTimelines(Module&, FuncId entry);
[[nodiscard]] std::string timelinesText(const ViewTimelines&, size_t columns);

// For a placed function. Input errors: sizes that are not bound.
// By function of the program. Error (Input): it has no memory plan.
[[nodiscard]] Result<std::vector<ViewSchedule>> viewSchedules(Module&, FuncId entry);
[[nodiscard]] std::string scheduleText(const ViewSchedule&, size_t columns);
// {"step": …, "functions": [{"title", "arena_bytes", "steps"}]}: docs/cli.md.
[[nodiscard]] std::string scheduleJson(std::span<const ViewSchedule>, const StepCost&);
// `pipeline`: drawn above; may be null.
[[nodiscard]] std::string scheduleSvg(std::span<const ViewSchedule>, const ViewTimelines&,
                                      const PipelineRun* pipeline = nullptr);

// The diagram of a pipeline: a row per device, with the forward (F), backward (B) and weight (W) parts of micro-batches
// over time. Text shows the order alone where `columns` are too few for the times.
[[nodiscard]] std::string pipelineText(const PipelineRun&, size_t columns);

// The positions of a value's elements: maps from global coordinates to the device coordinate and to the
// offset in its buffer, as layouts (Support/Layout.h) whose modes are the mesh axes and the rest of each dim.
// In words where shards are uneven.
[[nodiscard]] std::string layoutView(const Module&, std::string_view name, TypeId global, ShardingId);

// An SVG as a standalone HTML page.
[[nodiscard]] std::string htmlPage(std::string_view title, std::string_view svg);

} // namespace dtc
