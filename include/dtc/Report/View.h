#pragma once
// view: programs, meshes and shardings as drawings, in text that fits a terminal and as one self-contained SVG or HTML file.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include <functional>

namespace dtc {

// A tensor cut into pieces, or a mesh, as a matrix of matrices: the last dim goes across, the one before it down, the one
// before that across again, and so on. Dims may have more segments than anyone could draw: they are asked for one by one.
struct ViewGrid {
  struct Dim {
    std::string name; // "dim 0"; "" where the labels say it
    int64_t count = 1;
    std::function<std::string(int64_t)> label; // "0..31"
  };
  std::string title;              // "%h: f32[64, 512] @pod{dp, _}"
  std::vector<std::string> facts; // lines below it
  std::vector<Dim> dims;
  std::function<std::string(std::span<const int64_t>)> cell; // one index per dim
  std::function<bool(std::span<const int64_t>)> marked;      // pending: drawn so that it shows
};

// The pieces of a value that has a sharding, and who holds them. `global` is the type of the whole.
[[nodiscard]] ViewGrid shardingGrid(const Module&, std::string_view name, TypeId global, ShardingId);
// The devices of a mesh, by their coordinates.
[[nodiscard]] ViewGrid meshGrid(const Module&, MeshId);

// "dim 0: 0..31", above the matrices of one index.
[[nodiscard]] std::string headingOf(const ViewGrid::Dim&, int64_t index);
// What is left out for want of room is shown by "...".
[[nodiscard]] std::string gridText(const ViewGrid&, size_t columns);
[[nodiscard]] std::string gridsSvg(std::span<const ViewGrid>);

// The function's ops in layers, each below all that it reads. Regions are one node.
struct ViewGraph {
  struct Node {
    std::string op, result, type; // "matmul", "%h", "f32[64, 512] @pod{dp, tp}"
    size_t layer = 0;
    std::vector<size_t> from; // nodes that it reads, in the order of its operands
    std::vector<std::string>
        reads; // the values of them: its operands, then what its regions read of the outside
  };
  std::string title;
  std::vector<Node> nodes;
};
[[nodiscard]] ViewGraph viewGraph(const Module&, FuncId);
[[nodiscard]] std::string graphText(const ViewGraph&, size_t columns);
[[nodiscard]] std::string graphDot(const ViewGraph&);
[[nodiscard]] std::string graphSvg(const ViewGraph&);

// What each device does, step by step, and what lies in its memory meanwhile.
struct ViewSchedule {
  struct Step {
    std::string stream; // "compute", "comm tp"
    std::string what;   // "gemm", "all_reduce"
    std::string result; // "%h, %b"
    int64_t live = 0;   // bytes in use during the step
  };
  struct Buffer {
    std::string value;
    int64_t offset = 0, bytes = 0;
    std::vector<std::pair<size_t, size_t>> live; // first and last step, both included
  };
  std::string title;
  int64_t arena = 0;
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
};
// Of a scheduled function. Input errors: sizes that are not bound.
[[nodiscard]] Result<ViewSchedule> viewSchedule(const Module&, FuncId);
[[nodiscard]] std::string scheduleText(const ViewSchedule&, size_t columns);
[[nodiscard]] std::string scheduleSvg(const ViewSchedule&);

// Where the elements of a value lie: from global coordinates to the place of the device and to the offset in its buffer, as
// layouts (Support/Layout.h) whose modes are the mesh axes and what is left of each dim. In words where pieces are uneven.
[[nodiscard]] std::string layoutView(const Module&, std::string_view name, TypeId global, ShardingId);

// An SVG as a page of its own.
[[nodiscard]] std::string htmlPage(std::string_view title, std::string_view svg);

} // namespace dtc
