#pragma once
// Positions of a graph's nodes and the lines of its edges: by Graphviz where its plugin is built, by layers otherwise.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

struct LayoutPoint {
  double x = 0, y = 0;
};

// Sizes in pixels.
struct LayoutGraph {
  struct Node {
    double width = 0, height = 0;
  };
  std::vector<Node> nodes;
  std::vector<std::pair<size_t, size_t>> edges; // from, to: indices of nodes
};

// y grows downwards; from (0, 0) to (width, height).
struct GraphLayout {
  std::string engine; // "graphviz", "layers"
  double width = 0, height = 0;
  std::vector<LayoutPoint> nodes; // their centers
  // Cubic Bezier curves: the first point, then three for each segment. Empty if the edge has no line.
  std::vector<std::vector<LayoutPoint>> edges;
};

// Thread-safe: Graphviz, whose state is global, is called by one thread at a time.
[[nodiscard]] GraphLayout layoutGraph(const LayoutGraph&);
// Each node below those of its incoming edges, without Graphviz.
[[nodiscard]] GraphLayout layeredLayout(const LayoutGraph&);
// Whether layoutGraph uses Graphviz.
[[nodiscard]] bool hasGraphviz();

} // namespace dtc
