#pragma once
// What the plugin dtc-graphviz exports, as C functions: it is opened at run time, so that dtc needs no Graphviz.
#include <cstddef>

namespace dtc {

struct GraphvizNode {
  double width = 0, height = 0; // given
  double x = 0, y = 0;          // set: the center
};
struct GraphvizEdge {
  size_t from = 0, to = 0;
  size_t firstPoint = 0, numPoints = 0; // set: in the list that `point` receives
};
struct GraphvizJob {
  GraphvizNode* nodes = nullptr;
  size_t numNodes = 0;
  GraphvizEdge* edges = nullptr;
  size_t numEdges = 0;
  void (*point)(void* self, double x, double y) = nullptr; // called for the points of edges, in order
  void* self = nullptr;
  double width = 0, height = 0; // set
};

// Not thread-safe. False if Graphviz fails.
using GraphvizLayoutFunction = bool(GraphvizJob*);
inline constexpr const char* kGraphvizSymbol = "dtcGraphvizLayout";

} // namespace dtc
