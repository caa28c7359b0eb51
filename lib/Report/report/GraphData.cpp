#include "report/GraphData.h"

#include "dtc/Report/layout/Layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

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
    moveHiddenCollectives();
    ReportValue drawings = ReportValue::array();
    for (int c = kTop; c < static_cast<int>(clusters_.size()); ++c) drawings.push_back(drawCluster(c));
    return {{"engine", engine_}, {"gradient_ops", g_.gradientOps}, {"drawings", std::move(drawings)}};
  }

private:
  static constexpr int kTop = -1, kHidden = -2, kOutside = -3;
  // A box that unfolds: a layer, the gradients of a layer, a region or an imported file.
  struct Cluster {
    enum Kind : uint8_t { Layer, Backward, Region, File } kind;
    int of = 0;        // the layer, the region's op, the file
    int parent = kTop; // the cluster that it is in
  };

  // Arguments and constants that ops read beside other operands, such as weights, are lines of those ops' nodes.
  void findParameters() {
    constexpr size_t kMaxReaders = 4;
    std::map<int, std::vector<const GraphEdge*>> out, in;
    for (const GraphEdge& e : g_.edges) out[e.from].push_back(&e), in[e.to].push_back(&e);
    for (auto& [from, edges] : out) {
      const GraphNode& a = g_.nodes[static_cast<size_t>(from)];
      if ((a.kind != GraphNode::Argument && !a.constant) || edges.size() > kMaxReaders ||
          (in[edges[0]->to][0] == edges[0] && !a.constant))
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
      }
      hidden_.insert(from);
    }
    std::set<int> read, joined;
    for (const GraphEdge& e : g_.edges) read.insert(e.from), joined.insert(e.from), joined.insert(e.to);
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const GraphNode& node = g_.nodes[n];
      // Ops that only join gradients, which are not drawn, would be boxes without an edge.
      const bool alone = node.kind == GraphNode::Op && !joined.contains(static_cast<int>(n)) &&
                         !g_.edges.empty() && node.collectives.empty();
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

  int cluster(Cluster::Kind kind, int of, int parent) {
    const auto [it, isNew] =
        clusterIds_.emplace(std::tuple(parent, kind, of), static_cast<int>(clusters_.size()));
    if (isNew) clusters_.push_back({kind, of, parent});
    return it->second;
  }

  int clusterOf(size_t n) {
    if (hidden_.contains(static_cast<int>(n))) return kHidden;
    const GraphNode& node = g_.nodes[n];
    const int loop = outermostRegion(node);
    if (loop >= 0 && clusterOf_[static_cast<size_t>(loop)] != kTop) // in a layer, or hidden
      return clusterOf_[static_cast<size_t>(loop)];
    // What runs in a loop is in its box, layers too.
    const int parent = loop < 0 ? kTop : cluster(Cluster::Region, loop, kTop);
    if (node.line >= 0 && node.kind != GraphNode::Results) {
      int layer = layers_.of.empty() ? -1 : layers_.of[static_cast<size_t>(node.line)];
      if (layer >= 0) {
        if (const int equal = layers_.layers[static_cast<size_t>(layer)].equalTo; folded_ && equal >= 0)
          layer = equal, skipped_.insert(static_cast<int>(n));
        return cluster(node.gradientOps > 0 ? Cluster::Backward : Cluster::Layer, layer, parent);
      }
    }
    if (const int file = fileOf(node.line); file > 0) return cluster(Cluster::File, file, parent);
    return parent;
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

  // An argument that only one cluster reads belongs to it. Of layers, it is an input, and stays outside.
  void placeArguments() {
    std::map<int, std::set<int>> readers;
    std::set<int>
        files; // clusters of imported files, which have as many arguments as they have calls: not drawn
    for (size_t c = 0; c < clusters_.size(); ++c)
      if (clusters_[c].kind == Cluster::File) files.insert(static_cast<int>(c));
    for (const GraphEdge& e : g_.edges) readers[e.from].insert(clusterOf_[static_cast<size_t>(e.to)]);
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const auto& r = readers[static_cast<int>(n)];
      if (g_.nodes[n].kind != GraphNode::Argument || clusterOf_[n] == kHidden || r.size() != 1 ||
          *r.begin() < 0 || clusters_[static_cast<size_t>(*r.begin())].kind == Cluster::Layer)
        continue;
      const bool file = files.contains(*r.begin());
      if (clusterOf_[n] == kTop || file) clusterOf_[n] = file ? kHidden : *r.begin();
      if (file) hidden_.insert(static_cast<int>(n));
    }
    for (size_t c = 0; c < clusters_.size(); ++c)
      if (clusters_[c].kind == Cluster::Region) standsFor_[clusters_[c].of] = static_cast<int>(c);
  }

  // What a hidden box or its edges need is drawn at the first box beside it that is not hidden, or at the results.
  void moveHiddenCollectives() {
    const auto isHidden = [&](int n) { return clusterOf_[static_cast<size_t>(n)] == kHidden; };
    const auto last = static_cast<int>(g_.nodes.size()) - 1;
    std::map<int, int> beside;
    for (GraphEdge& e : g_.edges) {
      if (isHidden(e.from) == isHidden(e.to)) continue;
      const auto [hidden, seen] = isHidden(e.from) ? std::pair(e.from, e.to) : std::pair(e.to, e.from);
      beside.emplace(hidden, seen);
      g_.nodes[static_cast<size_t>(seen)].collectives.merge(e.collectives);
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      if (!isHidden(static_cast<int>(n))) continue;
      const auto to = beside.find(static_cast<int>(n));
      g_.nodes[static_cast<size_t>(to == beside.end() ? last : to->second)].collectives.merge(
          g_.nodes[n].collectives);
    }
  }

  Drawn drawn(std::vector<std::string> text, const char* kind, const std::set<int>& collectives) const {
    Drawn d;
    size_t letters = 4;
    std::set<std::string> chips; // equal ones are one line
    for (const std::string& t : text) letters = std::max(letters, lettersOf(t));
    const std::map<int, int64_t> rows = rowsOf(collectives);
    for (const auto& [row, messages] : rows)
      if (chips.insert(chipOf(row)).second)
        letters = std::max(letters, chipOf(row).size() + 5 + std::to_string(messages).size());
    d.width = std::ceil(static_cast<double>(letters) * kLetter + 2 * kPadding);
    d.height = kLine * static_cast<double>(text.size() + std::min(chips.size(), kMaxChips)) + kPadding;
    d.data = {{"kind", kind}, {"text", std::move(text)}};
    for (const auto& [row, messages] : rows)
      d.data["collectives"].push_back(row), d.data["messages"].push_back(messages);
    return d;
  }

  // The messages of collectives in one run, by row of `collectives_`.
  std::map<int, int64_t> rowsOf(const std::set<int>& collectives) const {
    std::map<int, int64_t> out;
    for (int c : collectives) {
      const MessageCount& one = g_.collectives[static_cast<size_t>(c)];
      out[one.row] += one.messages;
    }
    return out;
  }

  std::string chipOf(int c) const {
    const ReportValue& one = collectives_[static_cast<size_t>(c)];
    std::string text = one["kind"].get<std::string>();
    if (text == "p2p") text += " halo"; // as long as the page writes it
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

  std::string nameOf(const Cluster& c, size_t& equal) const {
    equal = 1;
    if (c.kind == Cluster::File) return files_[static_cast<size_t>(c.of)]["name"];
    if (c.kind == Cluster::Region) {
      const GraphNode& op = g_.nodes[static_cast<size_t>(c.of)];
      return op.op + (op.label.empty() ? "" : " " + op.label);
    }
    const SourceLayer& layer = layers_.layers[static_cast<size_t>(c.of)];
    if (folded_)
      for (const SourceLayer& other : layers_.layers) equal += other.equalTo == c.of;
    return c.kind == Cluster::Backward ? "backward of " + layer.name() : layer.name();
  }

  // What a node is in the drawing of a cluster: a cluster in that, kTop for the node itself, kOutside or kHidden.
  int childIn(int drawn, int n) const {
    int c = clusterOf_[static_cast<size_t>(n)];
    if (c == kHidden) return kHidden;
    if (const auto s = standsFor_.find(n); s != standsFor_.end()) c = s->second;
    if (c == drawn) return standsFor_.contains(n) ? kHidden : kTop; // not the op of a region in that region
    while (c >= 0 && clusters_[static_cast<size_t>(c)].parent != drawn)
      c = clusters_[static_cast<size_t>(c)].parent;
    return c >= 0 ? c : kOutside;
  }

  // What is known of the nodes of a cluster.
  struct Contents {
    std::set<int> collectives, lines, values,
        statements; // `statements`: those of `lines` that are not arguments
    size_t gradientOps = 0;
  };
  std::map<int, Contents> contentsIn(int drawn) const {
    std::map<int, Contents> out;
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const int c = childIn(drawn, static_cast<int>(n));
      if (c < 0) continue;
      const GraphNode& node = g_.nodes[n];
      Contents& in = out[c];
      in.collectives.insert(node.collectives.begin(), node.collectives.end());
      if (skipped_.contains(static_cast<int>(n))) continue;
      in.gradientOps += node.gradientOps;
      in.lines.insert(node.line);
      if (node.kind == GraphNode::Op) in.statements.insert(node.line);
      in.values.insert(node.values.begin(), node.values.end());
    }
    for (const GraphEdge& e : g_.edges)
      if (const int c = childIn(drawn, e.to); c >= 0)
        out[c].collectives.insert(e.collectives.begin(), e.collectives.end());
    return out;
  }

  Drawn clusterNode(int id, const Contents& in) const {
    const Cluster& cluster = clusters_[static_cast<size_t>(id)];
    size_t equal = 1;
    const std::string name = nameOf(cluster, equal);
    const bool backward = cluster.kind == Cluster::Backward;
    std::vector<std::string> text = {shortName("▸ " + name, kMaxLetters),
                                     backward
                                         ? opsText(in.gradientOps)
                                         : std::to_string(std::max<size_t>(in.statements.size(), 1)) +
                                               (in.statements.size() > 1 ? " statements" : " statement")};
    if (equal > 1) text.push_back(std::to_string(equal) + " equal layers");
    Drawn d = drawn(std::move(text), "cluster", in.collectives);
    d.data["name"] = name, d.data["drawing"] = id + 1;
    if (backward) d.data["backward"] = true;
    if (cluster.kind == Cluster::Region) d.data["region"] = true;
    d.data["lines"] = in.lines, d.data["values"] = in.values, d.data["equal"] = equal;
    return d;
  }

  // The nodes of a drawing, and which of them graph nodes and edges meet.
  struct Vertices {
    std::vector<Drawn> nodes;
    std::map<int, size_t> ofNode, ofCluster, inputs; // inputs: by the node outside
    std::map<size_t, size_t> outputs;                // by the drawn node
  };

  // Nodes of one op that read from the same nodes, and that nothing here reads, such as the sums of all gradients in a
  // loop: by the first of each group, the whole group.
  std::map<int, std::vector<int>> equalLeaves(int drawn) const {
    constexpr size_t kFewest = 4;
    const auto key = [&](int n) {
      const int c = childIn(drawn, n);
      return c >= 0 ? -1 - c : n;
    };
    std::set<int> read;
    std::map<int, std::set<int>> from;
    for (const GraphEdge& e : g_.edges) {
      if (childIn(drawn, e.to) != kOutside) read.insert(e.from);
      from[e.to].insert(key(e.from));
    }
    std::map<std::pair<std::string, std::set<int>>, std::vector<int>> groups;
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const auto id = static_cast<int>(n);
      const GraphNode& node = g_.nodes[n];
      if (node.kind == GraphNode::Op && node.gradientOps == 0 && childIn(drawn, id) == kTop &&
          !read.contains(id) && !skipped_.contains(id) && from.contains(id))
        groups[{node.op, from[id]}].push_back(id);
    }
    std::map<int, std::vector<int>> out;
    for (auto& [what, nodes] : groups)
      if (nodes.size() >= kFewest) out.emplace(nodes[0], nodes);
    return out;
  }

  Drawn leavesNode(const std::vector<int>& group) const {
    std::set<int> collectives, lines;
    std::vector<int> values;
    for (int n : group) {
      const GraphNode& node = g_.nodes[static_cast<size_t>(n)];
      collectives.insert(node.collectives.begin(), node.collectives.end());
      if (node.line >= 0) lines.insert(node.line);
      values.insert(values.end(), node.values.begin(), node.values.end());
    }
    const GraphNode &first = g_.nodes[static_cast<size_t>(group[0])],
                    &last = g_.nodes[static_cast<size_t>(group.back())];
    Drawn d = this->drawn({std::to_string(group.size()) + " of " + first.op,
                           shortName(first.label + " … " + last.label, kMaxTypeLetters)},
                          "op", collectives);
    d.data["values"] = std::move(values), d.data["lines"] = lines;
    return d;
  }

  ReportValue drawCluster(int drawn) {
    Vertices v;
    for (const auto& [c, in] : contentsIn(drawn))
      v.ofCluster[c] = v.nodes.size(), v.nodes.push_back(clusterNode(c, in));
    const std::map<int, std::vector<int>> leaves = equalLeaves(drawn);
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const auto id = static_cast<int>(n);
      if (childIn(drawn, id) != kTop || skipped_.contains(id) || v.ofNode.contains(id)) continue;
      v.ofNode[id] = v.nodes.size();
      const auto alike = leaves.find(id);
      if (alike != leaves.end())
        for (int other : alike->second) v.ofNode[other] = v.nodes.size();
      v.nodes.push_back(alike == leaves.end() ? nodeOf(n) : leavesNode(alike->second));
    }
    if (drawn != kTop && clusters_[static_cast<size_t>(drawn)].kind != Cluster::File) ports(drawn, v);
    size_t equal = 1;
    return drawing(drawn == kTop ? "" : nameOf(clusters_[static_cast<size_t>(drawn)], equal), drawn, v);
  }

  int vertexOf(int drawn, const Vertices& v, int n) const {
    const int c = childIn(drawn, n);
    const auto in = [](const std::map<int, size_t>& m, int key) {
      const auto it = m.find(key);
      return it == m.end() ? -1 : static_cast<int>(it->second);
    };
    return c >= 0 ? in(v.ofCluster, c) : c == kTop ? in(v.ofNode, n) : -1;
  }

  // Where a node is, as the drawing of the program shows it: "backward of blocks_0", "matmul %logits".
  std::string placeOf(int n) const {
    size_t equal = 1;
    if (const int c = childIn(kTop, n); c >= 0) return nameOf(clusters_[static_cast<size_t>(c)], equal);
    const GraphNode& node = g_.nodes[static_cast<size_t>(n)];
    return node.kind == GraphNode::Results ? "results" : node.op + " " + node.label;
  }

  // By drawn node whose value is read outside: where, or "outside" for several places.
  std::map<int, std::string> readersOutside(int drawn, const Vertices& v) const {
    std::map<int, std::string> out;
    for (const GraphEdge& e : g_.edges) {
      const int from = vertexOf(drawn, v, e.from);
      if (from < 0 || childIn(drawn, e.to) != kOutside) continue;
      const std::string place = placeOf(e.to);
      if (const auto [at, isNew] = out.try_emplace(from, place); !isNew && at->second != place)
        at->second = "outside";
    }
    return out;
  }

  // Values from outside, and those that are read outside.
  void ports(int drawn, Vertices& v) {
    const std::map<int, std::string> readers = readersOutside(drawn, v);
    for (const GraphEdge& e : g_.edges) {
      const int from = vertexOf(drawn, v, e.from), to = vertexOf(drawn, v, e.to);
      const bool enters = from < 0 && to >= 0 && childIn(drawn, e.from) == kOutside,
                 leaves = from >= 0 && to < 0 && childIn(drawn, e.to) == kOutside;
      if ((!enters && !leaves) || (enters && v.inputs.contains(e.from)) ||
          (leaves && v.outputs.contains(static_cast<size_t>(from))))
        continue;
      const GraphNode& source = g_.nodes[static_cast<size_t>(e.from)];
      const std::string name = e.value < 0 ? source.op + " " + source.label
                                           : values_[static_cast<size_t>(e.value)]["name"].get<std::string>();
      Drawn d = this->drawn({enters ? "from " + shortName(name, kMaxLetters)
                                    : "to " + shortName(readers.at(from), kMaxLetters)},
                            "port", {});
      if (e.value >= 0) d.data["values"] = {e.value};
      if (enters)
        v.inputs[e.from] = v.nodes.size();
      else
        v.outputs[static_cast<size_t>(from)] = v.nodes.size();
      v.nodes.push_back(std::move(d));
    }
  }

  struct Joined {
    int value = -1;
    double bytes = 0;
    std::set<int> collectives;
  };

  std::map<std::pair<size_t, size_t>, Joined> joinedEdges(int drawn, const Vertices& v) const {
    std::map<std::pair<size_t, size_t>, Joined> out;
    for (const GraphEdge& e : g_.edges) {
      int from = vertexOf(drawn, v, e.from), to = vertexOf(drawn, v, e.to);
      if (from < 0 && to >= 0)
        if (const auto it = v.inputs.find(e.from); it != v.inputs.end()) from = static_cast<int>(it->second);
      if (to < 0 && from >= 0 && childIn(drawn, e.to) == kOutside)
        if (const auto it = v.outputs.find(static_cast<size_t>(from)); it != v.outputs.end())
          to = static_cast<int>(it->second);
      if (from < 0 || to < 0 || from == to) continue;
      Joined& j = out[{static_cast<size_t>(from), static_cast<size_t>(to)}];
      if (j.value < 0 || e.bytes > j.bytes) j.value = e.value;
      j.bytes = std::max(j.bytes, e.bytes);
      j.collectives.insert(e.collectives.begin(), e.collectives.end());
    }
    return out;
  }

  ReportValue drawing(const std::string& title, int drawn, const Vertices& v) {
    const std::vector<Drawn>& nodes = v.nodes;
    const auto joined = joinedEdges(drawn, v);
    LayoutGraph g;
    for (const Drawn& d : nodes) g.nodes.push_back({d.width, d.height});
    // Edges of the backward part go up, so that each of its nodes is beside its forward part, if that is here.
    const auto backward = [&](size_t n) { return nodes[n].data.contains("backward"); };
    const bool both = std::ranges::any_of(
        nodes, [](const Drawn& d) { return d.data["kind"] != "port" && !d.data.contains("backward"); });
    const auto goesUp = [&](const std::pair<size_t, size_t>& e) {
      return both && backward(e.first) && backward(e.second);
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
      for (const auto& [row, messages] : rowsOf(j.collectives))
        one["collectives"].push_back(row), one["messages"].push_back(messages);
      if (!j.collectives.empty() && nodes[ends.second].data["kind"] == "cluster") one["in_box"] = true;
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
  std::vector<Cluster> clusters_;  // a cluster's drawing has the next number
  std::map<std::tuple<int, Cluster::Kind, int>, int> clusterIds_;
  std::map<int, int> standsFor_; // by node of a region's op: its cluster
};

} // namespace

ReportValue graphData(const ReportGraph& g, const SourceLayers& layers,
                      const std::vector<ReportValue>& values, const ReportValue& collectives,
                      const ReportValue& files, bool folded) {
  return GraphMaker(g, layers, values, collectives, files, folded).make();
}

} // namespace dtc
