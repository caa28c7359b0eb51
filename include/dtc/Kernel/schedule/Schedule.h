#pragma once
// Schedules: transformations of the loop IR that change the order and the location of the work, never its
// results.
#include "dtc/Kernel/LoopIr.h"
#include <optional>
#include <span>

namespace dtc::loops {

// Splits axes wherever an index divides by a factor of their extent, so that the index becomes affine: a
// reshape or transpose fused into its neighbors then costs no arithmetic.
void splitDividedAxes(Kernel&);
// Gives a reduction the axis of the stores that read the same elements again along one of their own, so that
// both are passes over one row (group_norm, whose channels are split into groups).
void shareAxes(Kernel&);
// Joins axes that every access walks as one; a contiguous elementwise kernel ends with one axis.
void joinAxes(Kernel&);

// Finds the nests in which rows are reduced and columns of the same rows are too, and determines the axes
// that their units walk (Nest::walked): each row is then read once for both.
void walkRows(Kernel&);
// True if the store's value is a reduction over the rows that a unit walks.
[[nodiscard]] bool isColumn(const Kernel&, const Nest&, const Store&);

// The loop structure of a nest. Row axes are those that every store and every reduction depends on: they are
// spread over cores or blocks, and all others are looped inside; but rows that a unit walks are looped around
// the rest.
struct NestPlan {
  std::vector<AxisId> grid; // row axes, outermost first, that the unit number decodes to, without walked ones
  std::optional<AxisId>
      blocked; // the last of `grid` counts runs of `block` elements of this axis, not elements
  int64_t block = 1;
  std::vector<AxisId> inner;    // row axes looped inside a unit, outermost first (the blocked one among them)
  std::optional<AxisId> vector; // the axis of `inner` in the lanes (CPU) or the threads (CUDA); the innermost
  AxisSet rows = 0;             // all row axes
};

// `lanes`: elements per step of the vector axis. `unit`: the minimum number of elements of a unit, where the
// nest has that many.
//
// Lanes do not run over ordered axes; in a nest with such axes they run over one along which all addresses
// are strided and all conditions are equal, or, where `independent`, over any.
[[nodiscard]] NestPlan planNest(const Kernel&, const Nest&, int64_t lanes, int64_t unit,
                                bool independent = false);
// The same with the lanes along `lane`, a row axis: each lane does the reductions of its own elements.
[[nodiscard]] NestPlan planNestAlong(const Kernel&, const Nest&, AxisId lane, int64_t lanes, int64_t unit);

// The axis of `axes` along which most bytes of the nest's accesses are contiguous; nothing where `axes` is
// empty.
[[nodiscard]] std::optional<AxisId> mostContiguous(const Kernel&, const Nest&, std::span<const AxisId> axes);

// Calls fn(NodeId) for each node that the roots need, arguments first, each once. Nodes that only `leaf`
// needs are skipped.
template <class Fn>
void forEachNode(const Kernel& k, std::span<const NodeId> roots, Fn&& fn, NodeId leaf = {}) {
  std::vector<bool> seen(k.numNodes());
  std::vector<std::pair<NodeId, bool>> work;
  for (size_t i = roots.size(); i-- > 0;) work.push_back({roots[i], false});
  while (!work.empty()) {
    auto [n, ready] = work.back();
    work.pop_back();
    if (ready) {
      fn(n);
      continue;
    }
    if (seen[n.index]) continue;
    seen[n.index] = true;
    work.push_back({n, true});
    if (n == leaf) continue;
    const Node& node = k[n];
    if (node.affine.valid())
      for (const AffineTerm& t : k[node.affine].terms)
        if (t.kind == AffineTerm::OfNode) work.push_back({NodeId(t.id), false});
    for (size_t i = node.args.size(); i-- > 0;) work.push_back({node.args[i], false});
  }
}
// The values, and the nodes in the addresses, of a nest's stores.
[[nodiscard]] std::vector<NodeId> rootsOf(const Kernel&, const Nest&);

} // namespace dtc::loops
