#include "report/CollectivePlaces.h"

namespace dtc {

void placeCollectives(ReportGraph& g, const std::vector<int>& elsewhere) {
  std::vector<int> node(g.collectives.size(), -1), edge = node;
  std::vector<std::set<int>> from(g.collectives.size());
  std::vector<size_t> readers(g.collectives.size());
  for (size_t n = 0; n < g.nodes.size(); ++n)
    for (int c : g.nodes[n].collectives)
      if (int& at = node[static_cast<size_t>(c)]; at < 0) at = static_cast<int>(n);
  for (size_t e = 0; e < g.edges.size(); ++e)
    for (int c : g.edges[e].collectives) {
      const auto id = static_cast<size_t>(c);
      if (edge[id] < 0) edge[id] = static_cast<int>(e);
      from[id].insert(g.edges[e].from), ++readers[id];
    }
  for (GraphNode& n : g.nodes) n.collectives.clear();
  for (GraphEdge& e : g.edges) e.collectives.clear();
  for (size_t c = 0; c < node.size(); ++c) {
    const bool shared = readers[c] > 1 && from[c].size() == 1; // one message for several readers
    int at = node[c];
    if (at < 0 && shared) at = *from[c].begin();
    if (at < 0 && edge[c] < 0) at = elsewhere[c];
    if (at >= 0)
      g.nodes[static_cast<size_t>(at)].collectives.insert(static_cast<int>(c));
    else
      g.edges[static_cast<size_t>(edge[c])].collectives.insert(static_cast<int>(c));
  }
}

} // namespace dtc
