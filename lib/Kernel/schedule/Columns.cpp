// Rows and columns in one walk: each unit takes a run of rows, reduces each row, and updates the reductions
// of columns over the run at the same time. The columns of several units are combined by another kernel.
#include "dtc/Kernel/schedule/Schedule.h"
#include <algorithm>

namespace dtc::loops {
static AxisSet setOf(std::span<const AxisId> axes) {
  AxisSet set = 0;
  for (AxisId a : axes) set |= AxisSet(1) << a;
  return set;
}

// True if the store's partial value may be kept in its buffer until it is complete.
static bool keeps(const Kernel& k, const Store& s) {
  const Node& value = k[s.value];
  return value.kind == NodeKind::Reduce && value.reduce <= ReduceKind::Min && !s.when.valid() &&
         s.combine.empty() && !s.copied && k.buffers[s.buffer].dtype == value.type;
}

// The axes that the nest's units would walk: of the first store that reduces over axes that the rows of
// others depend on.
static std::vector<AxisId> walkedAxes(const Kernel& k, const Nest& nest) {
  for (const Store& s : nest.stores) {
    if (!keeps(k, s)) continue;
    const std::vector<AxisId>& axes = k[s.value].axes;
    bool rows = false;
    forEachNode(k, std::span(&s.value, 1), [&](NodeId n) {
      rows |= k[n].kind == NodeKind::Reduce && (k.dependsOn(n) & setOf(axes)) != 0;
    });
    for (const Store& other : nest.stores) rows |= (k.dependsOn(other.address) & setOf(axes)) != 0;
    if (rows) return axes;
  }
  return {};
}

// True if each store is a column's or a row's, each other reduction a row's, and there is one.
static bool fitsWalk(const Kernel& k, const Nest& nest) {
  const AxisSet walked = setOf(nest.walked);
  bool fits = true, reduces = false;
  std::vector<NodeId> columns;
  for (const Store& s : nest.stores) {
    if (isColumn(k, nest, s))
      columns.push_back(s.value), fits &= keeps(k, s);
    else
      fits &=
          (k.dependsOn(s.address) & walked) == walked && !s.when.valid() && s.combine.empty() && !s.copied;
  }
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    for (NodeId a : k[n].args) // nothing else may use a column before it is complete
      fits &= std::find(columns.begin(), columns.end(), a) == columns.end();
    if (k[n].kind == NodeKind::Running) fits = false;
    if (k[n].kind != NodeKind::Reduce || std::find(columns.begin(), columns.end(), n) != columns.end())
      return;
    reduces = true;
    fits &= (k.dependsOn(n) & walked) == walked && (setOf(k[n].axes) & walked) == 0;
  });
  return fits && reduces && nest.ordered == 0 && !nest.sorts();
}

bool isColumn(const Kernel& k, const Nest& nest, const Store& s) {
  const Node& value = k[s.value];
  return !nest.walked.empty() && value.kind == NodeKind::Reduce && value.axes == nest.walked;
}

void walkRows(Kernel& k) {
  if (k.inOrder) return;
  for (Nest& nest : k.nests) {
    nest.walked = walkedAxes(k, nest);
    if (nest.walked.empty()) continue;
    if (!fitsWalk(k, nest)) {
      nest.walked.clear();
      continue;
    }
    const AxisSet walked = setOf(nest.walked);
    std::erase_if(nest.domain, [&](AxisId a) { return walked >> a & 1; });
    // Parts outermost, then the rows of one, then the rows' own elements.
    AxisSet parts = ~AxisSet(0);
    for (const Store& s : nest.stores) parts &= k.dependsOn(s.address);
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      if (k[n].kind == NodeKind::Reduce && k[n].axes != nest.walked) parts &= k.dependsOn(n);
    });
    const auto inner =
        std::find_if(nest.domain.begin(), nest.domain.end(), [&](AxisId a) { return !(parts >> a & 1); });
    nest.domain.insert(inner, nest.walked.begin(), nest.walked.end());
  }
}

} // namespace dtc::loops
