#include "dtc/Report/layout/Layout.h"

#include "dtc/Support/LibraryIdentity.h"
#include "layout/GraphvizPlugin.h"

#include <algorithm>
#include <dlfcn.h>
#include <mutex>

namespace dtc {

namespace {

// Above this many nodes or edges Graphviz takes too long.
constexpr size_t kMaxGraphviz = 3000;

// Graphviz keeps its state in global variables.
std::mutex& graphvizLock() {
  static std::mutex lock;
  return lock;
}

GraphvizLayoutFunction* graphviz() {
  static GraphvizLayoutFunction* const function = []() -> GraphvizLayoutFunction* {
    for (const std::string& folder : pluginFolders())
      if (void* library = dlopen((folder + "/dtc-graphviz.so").c_str(), RTLD_NOW | RTLD_LOCAL))
        return reinterpret_cast<GraphvizLayoutFunction*>(dlsym(library, kGraphvizSymbol));
    return nullptr;
  }();
  return function;
}

bool layOut(const LayoutGraph& g, GraphLayout& out) {
  std::vector<GraphvizNode> nodes;
  std::vector<GraphvizEdge> edges;
  std::vector<LayoutPoint> points;
  for (const LayoutGraph::Node& n : g.nodes) nodes.push_back({n.width, n.height});
  for (const auto& [from, to] : g.edges) edges.push_back({from, to});
  GraphvizJob job{nodes.data(), nodes.size(), edges.data(), edges.size()};
  job.self = &points;
  job.point = [](void* self, double x, double y) {
    static_cast<std::vector<LayoutPoint>*>(self)->push_back({x, y});
  };
  {
    const std::lock_guard lock(graphvizLock());
    if (!graphviz()(&job)) return false;
  }
  out.engine = "graphviz", out.width = job.width, out.height = job.height;
  for (const GraphvizNode& n : nodes) out.nodes.push_back({n.x, n.y});
  for (const GraphvizEdge& e : edges) {
    const auto first = points.begin() + static_cast<ptrdiff_t>(e.firstPoint);
    out.edges.emplace_back(first, first + static_cast<ptrdiff_t>(e.numPoints));
  }
  return true;
}

// Each node's layer: below its inputs. Edges that close a circle are left out.
std::vector<size_t> layersOfGraph(const LayoutGraph& g) {
  std::vector<std::vector<size_t>> out(g.nodes.size());
  std::vector<size_t> inputs(g.nodes.size(), 0), layer(g.nodes.size(), 0), ready;
  for (const auto& [from, to] : g.edges) out[from].push_back(to), ++inputs[to];
  std::vector<bool> done(g.nodes.size(), false);
  size_t left = g.nodes.size();
  while (left > 0) {
    for (size_t n = 0; n < g.nodes.size(); ++n)
      if (!done[n] && inputs[n] == 0) ready.push_back(n), done[n] = true;
    if (ready.empty()) // a circle: its first node is placed as if it had no further inputs
      ready.push_back(static_cast<size_t>(std::ranges::find(done, false) - done.begin())),
          done[ready[0]] = true;
    while (!ready.empty()) {
      const size_t n = ready.back();
      ready.pop_back();
      --left;
      for (size_t to : out[n]) {
        if (done[to]) continue;
        layer[to] = std::max(layer[to], layer[n] + 1);
        if (--inputs[to] == 0) ready.push_back(to), done[to] = true;
      }
    }
  }
  return layer;
}

} // namespace

GraphLayout layeredLayout(const LayoutGraph& g) {
  constexpr double kAcross = 24, kDown = 40;
  GraphLayout out;
  out.engine = "layers";
  out.nodes.resize(g.nodes.size());
  const std::vector<size_t> layer = layersOfGraph(g);
  std::vector<std::vector<size_t>> rows;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    rows.resize(std::max(rows.size(), layer[n] + 1));
    rows[layer[n]].push_back(n);
  }
  double y = 0;
  std::vector<double> widths;
  for (const auto& row : rows) {
    double x = 0, height = 0;
    for (size_t n : row) {
      out.nodes[n] = {x + g.nodes[n].width / 2, y};
      x += g.nodes[n].width + kAcross;
      height = std::max(height, g.nodes[n].height);
    }
    for (size_t n : row) out.nodes[n].y = y + height / 2;
    widths.push_back(std::max(x - kAcross, 0.0));
    out.width = std::max(out.width, widths.back());
    y += height + kDown;
  }
  out.height = std::max(y - kDown, 0.0);
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t n : rows[r]) out.nodes[n].x += (out.width - widths[r]) / 2;
  for (const auto& [from, to] : g.edges) {
    const LayoutPoint a{out.nodes[from].x, out.nodes[from].y + g.nodes[from].height / 2},
        b{out.nodes[to].x, out.nodes[to].y - g.nodes[to].height / 2};
    const double bend = (b.y - a.y) / 2;
    out.edges.push_back({a, {a.x, a.y + bend}, {b.x, b.y - bend}, b});
  }
  return out;
}

bool hasGraphviz() { return graphviz() != nullptr; }

namespace {

GraphLayout layoutConnected(const LayoutGraph& g) {
  GraphLayout out;
  if (hasGraphviz() && g.nodes.size() <= kMaxGraphviz && g.edges.size() <= kMaxGraphviz && layOut(g, out))
    return out;
  return layeredLayout(g);
}

// The connected parts, each a list of nodes, in the order of their first nodes.
std::vector<std::vector<size_t>> partsOf(const LayoutGraph& g) {
  std::vector<size_t> root(g.nodes.size());
  for (size_t n = 0; n < root.size(); ++n) root[n] = n;
  const auto find = [&](size_t n) {
    while (root[n] != n) n = root[n] = root[root[n]];
    return n;
  };
  for (const auto& [from, to] : g.edges) {
    const size_t a = find(from), b = find(to);
    root[std::max(a, b)] = std::min(a, b);
  }
  std::vector<std::vector<size_t>> all(g.nodes.size());
  for (size_t n = 0; n < root.size(); ++n) all[find(n)].push_back(n);
  std::erase_if(all, [](const auto& part) { return part.empty(); });
  return all;
}

} // namespace

GraphLayout layoutGraph(const LayoutGraph& g) {
  constexpr double kGap = 30, kWide = 1000;
  const auto parts = partsOf(g);
  if (parts.size() == 1) return layoutConnected(g);
  GraphLayout out;
  out.engine = hasGraphviz() ? "graphviz" : "layers";
  out.nodes.resize(g.nodes.size());
  out.edges.resize(g.edges.size());
  std::vector<size_t> own(g.nodes.size()), partOf(g.nodes.size());
  std::vector<LayoutGraph> graphs(parts.size());
  std::vector<std::vector<size_t>> edges(parts.size());
  for (size_t p = 0; p < parts.size(); ++p)
    for (size_t n : parts[p])
      own[n] = graphs[p].nodes.size(), partOf[n] = p, graphs[p].nodes.push_back(g.nodes[n]);
  for (size_t e = 0; e < g.edges.size(); ++e) {
    const size_t p = partOf[g.edges[e].first];
    graphs[p].edges.emplace_back(own[g.edges[e].first], own[g.edges[e].second]);
    edges[p].push_back(e);
  }
  double x = 0, y = 0, row = 0; // parts side by side, in rows
  for (size_t p = 0; p < parts.size(); ++p) {
    const GraphLayout one = layoutConnected(graphs[p]);
    if (x > 0 && x + one.width > kWide) x = 0, y += row + kGap, row = 0;
    const auto moved = [&](LayoutPoint at) { return LayoutPoint{at.x + x, at.y + y}; };
    for (size_t n : parts[p]) out.nodes[n] = moved(one.nodes[own[n]]);
    for (size_t e = 0; e < edges[p].size(); ++e)
      for (const LayoutPoint& point : one.edges[e]) out.edges[edges[p][e]].push_back(moved(point));
    x += one.width + kGap;
    row = std::max(row, one.height);
    out.width = std::max(out.width, x - kGap), out.height = std::max(out.height, y + row);
  }
  return out;
}

} // namespace dtc
