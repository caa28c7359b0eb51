#include "report/GraphData.h"

#include "dtc/Report/layout/Layout.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dtc {

namespace {

// The page's font of nodes, in pixels.
constexpr double kLetter = 6.7, kLine = 15, kPadding = 8;
constexpr size_t kMaxLetters = 34, kMaxTypeLetters = 46, kMaxChips = 4;

// The ends of a long name: "%blocks_0_at…_product".
std::string shortName(const std::string& name, size_t limit) {
  if (name.size() <= limit) return name;
  return name.substr(0, limit / 2) + "…" + name.substr(name.size() - (limit - limit / 2 - 1));
}

size_t lettersOf(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

// One node of a drawing.
struct Drawn {
  ReportValue data;
  double width = 0, height = 0;
};

class GraphMaker {
public:
  GraphMaker(ReportGraph g, const SourceLayers& layers, const std::vector<ReportValue>& values,
             const ReportValue& collectives, const ReportValue& files, bool folded)
      : g_(std::move(g)), layers_(layers), values_(values), collectives_(collectives), files_(files),
        folded_(folded) {}

  ReportValue make() {
    findParameters();
    for (size_t n = 0; n < g_.nodes.size(); ++n) clusterOf_.push_back(clusterOf(n));
    placeArguments();
    ReportValue drawings = ReportValue::array({nullptr});
    for (const auto& [key, cluster] : clusters_)
      drawingOf_[cluster] = drawings.size(), drawings.push_back(inside(cluster, key));
    drawings[0] = whole();
    return {{"engine", engine_}, {"gradient_ops", g_.gradientOps}, {"drawings", std::move(drawings)}};
  }

private:
  static constexpr int kTop = -1, kHidden = -2;
  static constexpr int kBackward = 3; // of a layer: in the key of a cluster

  // Arguments that ops read beside other operands, such as weights, are lines of those ops' nodes.
  void findParameters() {
    constexpr size_t kMaxReaders = 4;
    std::map<int, std::vector<const GraphEdge*>> out, in;
    for (const GraphEdge& e : g_.edges) out[e.from].push_back(&e), in[e.to].push_back(&e);
    for (auto& [from, edges] : out) {
      const GraphNode& a = g_.nodes[static_cast<size_t>(from)];
      if (a.kind != GraphNode::Argument || edges.size() > kMaxReaders || in[edges[0]->to][0] == edges[0])
        continue;
      const auto beside = [&](const GraphEdge* e) {
        return g_.nodes[static_cast<size_t>(e->to)].kind == GraphNode::Op && in[e->to].size() > 1;
      };
      if (!std::ranges::all_of(edges, beside)) continue;
      std::string text = a.label;
      const ReportValue& v = values_[static_cast<size_t>(a.values[0])];
      if (v.contains("sharding")) text += " " + axesText(v["sharding"]["text"]);
      for (const GraphEdge* e : edges) {
        GraphNode& reader = g_.nodes[static_cast<size_t>(e->to)];
        reader.parameters.push_back(text);
        reader.values.push_back(a.values[0]);
        reader.collectives.insert(e->collectives.begin(), e->collectives.end());
      }
      hidden_.insert(from);
    }
    std::set<int> read, joined;
    for (const GraphEdge& e : g_.edges) read.insert(e.from), joined.insert(e.from), joined.insert(e.to);
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const GraphNode& node = g_.nodes[n];
      // Ops that only join gradients, which are not drawn, would be boxes without an edge.
      const bool alone =
          node.kind == GraphNode::Op && !joined.contains(static_cast<int>(n)) && !g_.edges.empty();
      if (alone) ++g_.gradientOps;
      if (alone || (node.kind == GraphNode::Argument && !read.contains(static_cast<int>(n))))
        hidden_.insert(static_cast<int>(n));
    }
  }

  // "{dp, _}" of "@pod{dp, _}".
  static std::string axesText(const std::string& sharding) {
    const size_t at = sharding.find_first_of("{[");
    return at == std::string::npos ? sharding : sharding.substr(at);
  }

  int clusterOf(size_t n) {
    if (hidden_.contains(static_cast<int>(n))) return kHidden;
    const GraphNode& node = g_.nodes[n];
    const int loop = outermostRegion(node);
    // What runs in a loop is in its box, layers too.
    if (loop >= 0 && clusterOf_[static_cast<size_t>(loop)] == kTop)
      return clusters_.emplace(std::pair(1, loop), static_cast<int>(clusters_.size())).first->second;
    if (node.line >= 0 && node.kind != GraphNode::Results) {
      int layer = layers_.of.empty() ? -1 : layers_.of[static_cast<size_t>(node.line)];
      if (layer >= 0) {
        if (const int equal = layers_.layers[static_cast<size_t>(layer)].equalTo; folded_ && equal >= 0)
          layer = equal, skipped_.insert(static_cast<int>(n));
        const int kind = node.gradientOps > 0 ? kBackward : 0;
        return clusters_.emplace(std::pair(kind, layer), static_cast<int>(clusters_.size())).first->second;
      }
    }
    if (const int file = fileOf(node.line); file > 0)
      return clusters_.emplace(std::pair(2, file), static_cast<int>(clusters_.size())).first->second;
    return loop < 0 ? kTop : clusterOf_[static_cast<size_t>(loop)]; // in a layer, or hidden
  }

  // The op of the outermost region that a node is in, or -1.
  int outermostRegion(const GraphNode& node) const {
    int region = node.region;
    while (region >= 0 && g_.nodes[static_cast<size_t>(region)].region >= 0)
      region = g_.nodes[static_cast<size_t>(region)].region;
    return region;
  }

  // 0 is the program itself.
  int fileOf(int line) const {
    int file = 0;
    while (static_cast<size_t>(file) + 1 < files_.size() &&
           files_[static_cast<size_t>(file) + 1]["first"].get<int>() <= line)
      ++file;
    return file;
  }

  // An argument that only one cluster reads belongs to it.
  void placeArguments() {
    std::map<int, std::set<int>> readers;
    std::set<int>
        files; // clusters of imported files, which have as many arguments as they have calls: not drawn
    for (const auto& [key, cluster] : clusters_)
      if (key.first == 2) files.insert(cluster);
    for (const GraphEdge& e : g_.edges) readers[e.from].insert(clusterOf_[static_cast<size_t>(e.to)]);
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const auto& r = readers[static_cast<int>(n)];
      if (g_.nodes[n].kind != GraphNode::Argument || clusterOf_[n] == kHidden || r.size() != 1 ||
          *r.begin() < 0)
        continue;
      const bool file = files.contains(*r.begin());
      if (clusterOf_[n] == kTop || file) clusterOf_[n] = file ? kHidden : *r.begin();
      if (file) hidden_.insert(static_cast<int>(n));
    }
    for (const auto& [key, cluster] : clusters_)
      if (key.first == 1) standsFor_[key.second] = cluster; // the op whose region it is
  }

  Drawn drawn(std::vector<std::string> text, const char* kind, const std::set<int>& collectives) const {
    Drawn d;
    size_t letters = 4;
    std::set<std::string> chips; // equal ones are one line
    for (const std::string& t : text) letters = std::max(letters, lettersOf(t));
    for (int c : collectives)
      if (chips.insert(chipOf(c)).second) letters = std::max(letters, chipOf(c).size() + 6);
    d.width = std::ceil(static_cast<double>(letters) * kLetter + 2 * kPadding);
    d.height = kLine * static_cast<double>(text.size() + std::min(chips.size(), kMaxChips)) + kPadding;
    d.data = {{"kind", kind}, {"text", std::move(text)}};
    if (!collectives.empty()) d.data["collectives"] = collectives;
    return d;
  }

  std::string chipOf(int c) const {
    const ReportValue& one = collectives_[static_cast<size_t>(c)];
    std::string text = one["kind"].get<std::string>();
    for (const auto& a : one["axes"]) text += ", " + a.get<std::string>();
    return text;
  }

  static std::string opsText(size_t n) { return std::to_string(n) + (n == 1 ? " op" : " ops"); }

  Drawn nodeOf(size_t n) const {
    const GraphNode& node = g_.nodes[n];
    std::vector<std::string> text;
    if (node.kind == GraphNode::Results) return drawn({"results"}, "results", node.collectives);
    text.push_back(shortName(node.kind == GraphNode::Argument
                                 ? node.label
                                 : node.op + (node.label.empty() ? "" : " " + node.label),
                             kMaxLetters));
    if (!node.values.empty()) {
      const ReportValue& v = values_[static_cast<size_t>(node.values[0])];
      std::string type = v["type"];
      if (v.contains("sharding")) type += " " + axesText(v["sharding"]["text"]);
      text.push_back(shortName(type, kMaxTypeLetters));
    }
    for (size_t i = 0; i < node.parameters.size() && i < 3; ++i)
      text.push_back(shortName("+ " + node.parameters[i], kMaxLetters));
    if (node.parameters.size() > 3)
      text.push_back("+ " + std::to_string(node.parameters.size() - 3) + " more");
    if (node.gradientOps > 0) text.push_back(opsText(node.gradientOps));
    Drawn d = drawn(std::move(text), node.kind == GraphNode::Argument ? "argument" : "op", node.collectives);
    if (node.gradientOps > 0) d.data["backward"] = true;
    if (!node.values.empty()) d.data["values"] = node.values;
    if (node.line >= 0) d.data["line"] = node.line;
    return d;
  }

  std::string nameOf(std::pair<int, int> key, size_t& equal) const {
    equal = 1;
    if (key.first == 2) return files_[static_cast<size_t>(key.second)]["name"];
    if (key.first == 1) {
      const GraphNode& op = g_.nodes[static_cast<size_t>(key.second)];
      return op.op + (op.label.empty() ? "" : " " + op.label);
    }
    const SourceLayer& layer = layers_.layers[static_cast<size_t>(key.second)];
    if (folded_)
      for (const SourceLayer& other : layers_.layers) equal += other.equalTo == key.second;
    return key.first == kBackward ? "backward of " + layer.name() : layer.name();
  }

  ReportValue whole() {
    std::vector<Drawn> nodes;
    std::map<int, size_t> ofNode, ofCluster;
    std::map<int, std::set<int>> collectives, lines, values;
    std::map<int, size_t> gradientOps;
    for (size_t n = 0; n < g_.nodes.size(); ++n)
      if (const int c = clusterOf_[n]; c >= 0) {
        if (!skipped_.contains(static_cast<int>(n))) gradientOps[c] += g_.nodes[n].gradientOps;
        collectives[c].insert(g_.nodes[n].collectives.begin(), g_.nodes[n].collectives.end());
        if (!skipped_.contains(static_cast<int>(n)))
          lines[c].insert(g_.nodes[n].line),
              values[c].insert(g_.nodes[n].values.begin(), g_.nodes[n].values.end());
      }
    for (const GraphEdge& e : g_.edges)
      if (const int c = clusterOf_[static_cast<size_t>(e.to)]; c >= 0)
        collectives[c].insert(e.collectives.begin(), e.collectives.end());
    for (const auto& [key, cluster] : clusters_) {
      size_t equal = 1;
      const std::string name = nameOf(key, equal);
      std::vector<std::string> text = {shortName("▸ " + name, kMaxLetters)};
      const bool backward = key.first == kBackward;
      text.push_back(backward ? opsText(gradientOps[cluster])
                              : std::to_string(std::max<size_t>(lines[cluster].size(), 1)) + " statements");
      if (equal > 1) text.push_back(std::to_string(equal) + " equal layers");
      Drawn d = drawn(std::move(text), "cluster", collectives[cluster]);
      d.data["name"] = name, d.data["drawing"] = drawingOf_.at(cluster);
      if (backward) d.data["backward"] = true;
      d.data["lines"] = lines[cluster], d.data["values"] = values[cluster], d.data["equal"] = equal;
      ofCluster[cluster] = nodes.size();
      nodes.push_back(std::move(d));
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n)
      if (clusterOf_[n] == kTop && !standsFor_.contains(static_cast<int>(n)))
        ofNode[static_cast<int>(n)] = nodes.size(), nodes.push_back(nodeOf(n));
    const auto vertex = [&](int n) -> int {
      const int c = clusterOf_[static_cast<size_t>(n)];
      if (c == kHidden) return -1;
      if (c >= 0) return static_cast<int>(ofCluster[c]);
      if (const auto s = standsFor_.find(n); s != standsFor_.end())
        return static_cast<int>(ofCluster[s->second]);
      return static_cast<int>(ofNode[n]);
    };
    return drawing("", nodes, vertex);
  }

  ReportValue inside(int cluster, std::pair<int, int> key) {
    size_t equal = 1;
    std::vector<Drawn> nodes;
    std::map<int, size_t> ofNode, inputs;
    for (size_t n = 0; n < g_.nodes.size(); ++n)
      if (clusterOf_[n] == cluster && !skipped_.contains(static_cast<int>(n)))
        ofNode[static_cast<int>(n)] = nodes.size(), nodes.push_back(nodeOf(n));
    for (const GraphEdge& e : g_.edges) // values from outside, and those that are read outside
      for (const bool out : {false, true}) {
        const int inner = out ? e.from : e.to, outer = out ? e.to : e.from;
        const int at = out ? -2 - inner : outer;
        if (key.first == 2 || !ofNode.contains(inner) || ofNode.contains(outer) || hidden_.contains(outer) ||
            inputs.contains(at))
          continue;
        if (standsFor_.contains(outer) && standsFor_[outer] == cluster) continue;
        const GraphNode& source = g_.nodes[static_cast<size_t>(e.from)];
        const std::string name = e.value < 0
                                     ? source.op + " " + source.label
                                     : values_[static_cast<size_t>(e.value)]["name"].get<std::string>();
        Drawn d =
            drawn({(out ? "to " : "from ") + std::string(out ? "outside" : shortName(name, kMaxLetters))},
                  "port", {});
        if (e.value >= 0) d.data["values"] = {e.value};
        inputs[at] = nodes.size();
        nodes.push_back(std::move(d));
      }
    const std::string name = nameOf(key, equal);
    return drawing(
        name, nodes,
        [&](int n) -> int {
          if (const auto it = ofNode.find(n); it != ofNode.end()) return static_cast<int>(it->second);
          if (const auto it = inputs.find(n); it != inputs.end()) return static_cast<int>(it->second);
          return -1;
        },
        [&](int from) -> int {
          const auto it = inputs.find(-2 - from);
          return it == inputs.end() ? -1 : static_cast<int>(it->second);
        });
  }

  struct Joined {
    int value = -1;
    double bytes = 0;
    std::set<int> collectives;
  };

  // `exit`: the node for readers outside of the drawing.
  ReportValue drawing(const std::string& title, const std::vector<Drawn>& nodes,
                      const std::function<int(int)>& vertex, const std::function<int(int)>& exit = {}) {
    std::map<std::pair<size_t, size_t>, Joined> joined;
    for (const GraphEdge& e : g_.edges) {
      const int from = vertex(e.from);
      int to = vertex(e.to);
      const bool inner =
          !exit || clusterOf_[static_cast<size_t>(e.from)] == clusterOf_[static_cast<size_t>(e.to)];
      if (exit && from >= 0 && !inner && nodes[static_cast<size_t>(from)].data["kind"] != "port")
        to = exit(e.from);
      if (exit && from >= 0 && to >= 0 && nodes[static_cast<size_t>(from)].data["kind"] == "port" &&
          nodes[static_cast<size_t>(to)].data["kind"] == "port")
        continue;
      if (from < 0 || to < 0 || from == to) continue;
      Joined& j = joined[{static_cast<size_t>(from), static_cast<size_t>(to)}];
      if (j.value < 0 || e.bytes > j.bytes) j.value = e.value;
      j.bytes = std::max(j.bytes, e.bytes);
      j.collectives.insert(e.collectives.begin(), e.collectives.end());
    }
    LayoutGraph g;
    for (const Drawn& d : nodes) g.nodes.push_back({d.width, d.height});
    // Edges of the backward part go up, so that each of its nodes is beside its forward part.
    const auto backward = [&](size_t n) { return nodes[n].data.contains("backward"); };
    const auto goesUp = [&](const std::pair<size_t, size_t>& e) {
      return !exit && backward(e.first) && backward(e.second);
    };
    for (const auto& [ends, j] : joined)
      g.edges.push_back(goesUp(ends) ? std::pair(ends.second, ends.first) : ends);
    GraphLayout layout = layoutGraph(g);
    for (size_t index = 0; const auto& [ends, j] : joined) {
      if (goesUp(ends)) std::ranges::reverse(layout.edges[index]);
      ++index;
    }
    engine_ = layout.engine;
    ReportValue out = {{"title", title},
                       {"width", std::round(layout.width)},
                       {"height", std::round(layout.height)},
                       {"nodes", ReportValue::array()},
                       {"edges", ReportValue::array()}};
    for (size_t n = 0; n < nodes.size(); ++n) {
      ReportValue one = nodes[n].data;
      one["box"] = {std::round(layout.nodes[n].x - nodes[n].width / 2),
                    std::round(layout.nodes[n].y - nodes[n].height / 2), nodes[n].width, nodes[n].height};
      out["nodes"].push_back(std::move(one));
    }
    size_t index = 0;
    for (const auto& [ends, j] : joined) {
      ReportValue points = ReportValue::array();
      for (const LayoutPoint& p : layout.edges[index])
        points.push_back(std::round(p.x)), points.push_back(std::round(p.y));
      ReportValue one = {{"from", ends.first},
                         {"to", ends.second},
                         {"value", j.value},
                         {"bytes", j.bytes},
                         {"points", std::move(points)}};
      if (!j.collectives.empty()) one["collectives"] = j.collectives;
      out["edges"].push_back(std::move(one));
      ++index;
    }
    return out;
  }

  ReportGraph g_;
  const SourceLayers& layers_;
  const std::vector<ReportValue>& values_;
  const ReportValue& collectives_;
  const ReportValue& files_;
  bool folded_;
  std::string engine_ = "none";
  std::set<int> hidden_, skipped_; // nodes: parameters and unread arguments; those of folded layers
  std::vector<int> clusterOf_;     // by node
  std::map<std::pair<int, int>, int> clusters_; // {0 or kBackward, layer}, {1, region's op}, {2, file}
  std::map<int, int> standsFor_;                // by node of a region's op: its cluster
  std::map<int, size_t> drawingOf_;             // by cluster
};

} // namespace

ReportValue graphData(const ReportGraph& g, const SourceLayers& layers,
                      const std::vector<ReportValue>& values, const ReportValue& collectives,
                      const ReportValue& files, bool folded) {
  return GraphMaker(g, layers, values, collectives, files, folded).make();
}

} // namespace dtc
