// A function as a graph: ops in layers, each below all of its operands.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/text/TextNames.h"
#include "dtc/Report/layout/Layout.h"
#include "dtc/Report/view/View.h"
#include "view/Svg.h"

#include <algorithm>
#include <array>
#include <map>

namespace dtc {
namespace {

std::string typeOf(const Module& m, ValueId v) {
  std::string text = printType(m, m[v].type);
  if (m[v].sharding.valid()) text += " " + printSharding(m, m[v].sharding);
  return text;
}

class GraphMaker {
public:
  GraphMaker(const Module& m, FuncId f) : m_(m), f_(f), printed_(m, f), texts_(m) {}

  ViewGraph make() {
    g_.title = "func @" + std::string(m_.strings[m_[f_].name]);
    for (const FuncArg& a : m_[f_].args) {
      nodeOf_[a.value] = g_.nodes.size();
      g_.nodes.push_back({"argument", name(a.value), typeOf(m_, a.value), 0, {}, {}});
    }
    for (OpId o : m_[m_[f_].body].ops) op(o);
    ViewGraph::Node end{"return", "", "", 0, {}, {}};
    for (ValueId v : m_[m_[f_].body].yields) read(v, end);
    add(std::move(end));
    return std::move(g_);
  }

private:
  void op(OpId o) {
    ViewGraph::Node node{std::string(m_.record(o).name), "", "", 0, {}, {}};
    for (ValueId v : m_.operands(o)) read(v, node);
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) readInside(m_.region(o, r), node);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId v = m_.result(o, r);
      node.result += (r ? ", " : "") + name(v);
      node.type += (r ? ", " : "") + typeOf(m_, v);
      nodeOf_[v] = g_.nodes.size();
    }
    add(std::move(node));
  }

  void read(ValueId v, ViewGraph::Node& node) {
    auto it = nodeOf_.find(v);
    if (it == nodeOf_.end()) return; // a literal, or a value of a region
    if (std::find(node.from.begin(), node.from.end(), it->second) == node.from.end())
      node.from.push_back(it->second);
    node.reads.push_back(name(v));
  }
  // The values that a region captures, each once.
  void readInside(BlockId b, ViewGraph::Node& node) {
    auto once = [&](ValueId v) {
      if (nodeOf_.contains(v) && std::ranges::find(node.reads, name(v)) == node.reads.end()) read(v, node);
    };
    forEachOp(m_, b, [&](OpId o) {
      for (ValueId v : m_.operands(o)) once(v);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        for (ValueId v : m_[m_.region(o, r)].yields) once(v);
    });
    for (ValueId v : m_[b].yields) once(v);
  }
  void add(ViewGraph::Node node) {
    for (size_t n : node.from) node.layer = std::max(node.layer, g_.nodes[n].layer + 1);
    g_.nodes.push_back(std::move(node));
  }

  [[nodiscard]] std::string name(ValueId v) const { return texts_.isGenerated(v) ? printed_(v) : texts_(v); }

  const Module& m_;
  FuncId f_;
  Naming printed_;
  TextNames texts_;
  ViewGraph g_;
  std::unordered_map<ValueId, size_t> nodeOf_;
};

std::vector<std::vector<size_t>> layersOf(const ViewGraph& g) {
  std::vector<std::vector<size_t>> layers;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    layers.resize(std::max(layers.size(), g.nodes[n].layer + 1));
    layers[g.nodes[n].layer].push_back(n);
  }
  return layers;
}

// "%h = matmul %x, %w1", "argument %x", "return %y".
std::string statement(const ViewGraph::Node& n) {
  std::string text = n.op == "argument" || n.op == "return" ? n.op + " " + n.result
                     : n.result.empty()                     ? n.op + " "
                                                            : n.result + " = " + n.op + " ";
  for (size_t i = 0; i < n.reads.size(); ++i) text += (i ? ", " : "") + n.reads[i];
  return text;
}

std::string quotedDot(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// "blocks_0" of "%blocks_0_attn_q": the layer that a value's name states.
std::string layerName(const ViewGraph::Node& n) {
  const std::string_view name = std::string_view(n.result).substr(0, n.result.find(','));
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t at = name.find('_'); at != name.npos; at = name.find('_', at + 1)) {
    size_t end = at + 1;
    while (end < name.size() && digit(name[end])) ++end;
    if (end > at + 1 && end < name.size() && name[end] == '_') return std::string(name.substr(1, end - 1));
  }
  return "";
}

// A large graph with each layer as one box, so that it is a picture that a page has room for.
ViewGraph folded(const ViewGraph& g) {
  constexpr size_t kLarge = 60, kMinLayer = 4; // nodes
  if (g.nodes.size() <= kLarge) return g;
  struct Layer {
    size_t statements = 0, arguments = 0, node = 0;
    bool placed = false;
  };
  std::map<std::string, Layer> layers;
  for (const ViewGraph::Node& n : g.nodes)
    if (const std::string name = layerName(n); !name.empty())
      ++(n.op == "argument" ? layers[name].arguments : layers[name].statements);
  ViewGraph out{g.title, {}};
  std::vector<size_t> at;
  for (const ViewGraph::Node& n : g.nodes) {
    const auto layer = layers.find(layerName(n));
    if (layer == layers.end() || layer->second.statements + layer->second.arguments < kMinLayer) {
      at.push_back(out.nodes.size());
      out.nodes.push_back({n.op, n.result, n.type, n.layer, {}, n.reads});
      continue;
    }
    Layer& l = layer->second;
    if (!l.placed) {
      const std::string statements = l.statements ? std::to_string(l.statements) + " statements" : "",
                        arguments = l.arguments ? std::to_string(l.arguments) + " arguments" : "";
      l.placed = true, l.node = out.nodes.size();
      out.nodes.push_back({"layer",
                           layer->first,
                           statements + (statements.empty() || arguments.empty() ? "" : ", ") + arguments,
                           n.layer,
                           {},
                           {}});
    }
    at.push_back(l.node);
  }
  for (size_t n = 0; n < g.nodes.size(); ++n)
    for (size_t from : g.nodes[n].from) {
      std::vector<size_t>& own = out.nodes[at[n]].from;
      if (at[from] != at[n] && std::ranges::find(own, at[from]) == own.end()) own.push_back(at[from]);
    }
  return out;
}

} // namespace

ViewGraph viewGraph(const Module& m, FuncId f) { return GraphMaker(m, f).make(); }

std::string graphText(const ViewGraph& g, size_t columns) {
  std::string text = g.title + "\nlayer  statement\n";
  for (const auto& layer : layersOf(g))
    for (size_t n : layer) {
      std::string number = std::to_string(g.nodes[n].layer), line = statement(g.nodes[n]);
      line = std::string(5 - std::min<size_t>(5, number.size()), ' ') + number + "  " + line;
      if (!g.nodes[n].type.empty()) line += " : " + g.nodes[n].type;
      text += shortened(line, std::max<size_t>(columns, 20)) + "\n";
    }
  return text;
}

std::string graphDot(const ViewGraph& g) {
  std::string text = "digraph " + quotedDot(g.title) + " {\n  node [shape=box, fontname=monospace];\n";
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const ViewGraph::Node& node = g.nodes[n];
    std::string label = node.op + (node.result.empty() ? "" : " " + node.result) +
                        (node.type.empty() ? "" : "\n" + node.type);
    std::string quoted = quotedDot(label);
    if (size_t at = quoted.find('\n'); at != std::string::npos) quoted.replace(at, 1, "\\n");
    text += "  n" + std::to_string(n) + " [label=" + quoted + "];\n";
    for (size_t from : node.from) text += "  n" + std::to_string(from) + " -> n" + std::to_string(n) + ";\n";
  }
  return text + "}\n";
}

std::string graphSvg(const ViewGraph& whole) {
  const ViewGraph g = folded(whole);
  constexpr double kHeight = 44, kTop = 40, kLeft = 10;
  constexpr size_t kMaxLetters = 36;
  Svg svg;
  svg.text(10, 20, g.title, "title");
  LayoutGraph graph;
  std::vector<std::array<std::string, 2>> texts;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const ViewGraph::Node& node = g.nodes[n];
    texts.push_back({shortened(node.op + (node.result.empty() ? "" : " " + node.result), kMaxLetters),
                     shortened(node.type, kMaxLetters)});
    const size_t letters = std::max(texts[n][0].size(), texts[n][1].size()) + 2;
    graph.nodes.push_back(
        {static_cast<double>(letters * kLetterWidth), node.type.empty() ? kHeight - kLineHeight : kHeight});
    for (size_t from : node.from) graph.edges.emplace_back(from, n);
  }
  const GraphLayout layout = layoutGraph(graph);
  for (const auto& line : layout.edges) {
    std::vector<Svg::Point> points;
    for (const LayoutPoint& p : line) points.push_back({p.x + kLeft, p.y + kTop});
    svg.curve(points, "arrow");
  }
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const LayoutGraph::Node& size = graph.nodes[n];
    const auto x = static_cast<size_t>(std::max(layout.nodes[n].x - size.width / 2 + kLeft, 0.0)),
               y = static_cast<size_t>(std::max(layout.nodes[n].y - size.height / 2 + kTop, 0.0));
    svg.box(x, y, static_cast<size_t>(size.width), static_cast<size_t>(size.height), "cell",
            statement(g.nodes[n]) + "\n" + g.nodes[n].type);
    svg.text(x + kLetterWidth, y + 17, texts[n][0]);
    if (!texts[n][1].empty()) svg.text(x + kLetterWidth, y + 35, texts[n][1], "fact");
  }
  return svg.finish();
}

} // namespace dtc
