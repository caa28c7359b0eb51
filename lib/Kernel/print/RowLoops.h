#pragma once
// The loops over a thread's packs of a row (RowSchedule.h), as text.
#include "print/Text.h"
#include "schedule/RowSchedule.h"

namespace dtc {

class RowLoops {
public:
  // `index`: the type of loop variables.
  RowLoops(const loops::Kernel& k, const RowNest& row, const RowSchedule& s, std::string index)
      : k_(k), row_(row), s_(s), index_(std::move(index)) {}

  // The coordinate of a pack's first element along the last axis.
  [[nodiscard]] std::string first() const { return axisName(row_.axes.back()) + "_at"; }
  // `body` for each of the thread's packs: `step` counts them.
  void eachPack(Text& home, const Text& body) const;
  // `body`, the work on a pack's first element, for the edges: one for each of the first threads, after its
  // packs.
  void eachEdge(Text& home, const Text& body) const;
  // A pass: `body` for each pack, `one` for each edge; where nothing is kept, a loop over all with as many
  // packs as are read at a time, for which `arrays` are declared and loaded by `loads`.
  void pass(Text& home, const Text& arrays, const Text& loads, const Text& body, const Text& one) const;

private:
  void coordinates(Text& step, const Text& body) const;
  [[nodiscard]] bool streamed() const { return s_.keep == RowSchedule::Keep::Nothing; }

  const loops::Kernel& k_;
  const RowNest& row_;
  const RowSchedule& s_;
  std::string index_;
};

} // namespace dtc
