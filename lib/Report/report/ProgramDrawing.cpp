// The graph of a program as the report has it, as a drawing for documents: layers are folded, equal ones are one box.
#include "dtc/Report/report/Report.h"
#include "report/Closed.h"
#include "report/GraphData.h"
#include "view/Palette.h"
#include "view/Svg.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dtc {

namespace {

std::string styleOfAxes(size_t count) {
  std::string style =
      "text{font:11px "
      "ui-monospace,Menlo,Consolas,monospace;fill:#1f2328}.title{font-size:13px}.title,.strong{font-weight:"
      "600}.fact{fill:#57606a}.page{fill:#fff}rect{stroke:#8c959f}.op{fill:#e8ecf5}.plain{fill:#fff}.layer{"
      "fill:#f6f8fa}"
      ".backward{fill:#d9f2ea}.edge{fill:none;stroke:#7d8899}.head{fill:#7d8899;stroke:none}"
      "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.fact{fill:#9da7b3}.page{fill:#0d1117}rect{stroke:"
      "#5f6b7a}"
      ".op{fill:#1f2a44}.plain{fill:#0d1117}.layer{fill:#161b22}.backward{fill:#12382d}}";
  for (size_t a = 0; a < count; ++a) {
    const std::string name = ".axis" + std::to_string(a), color = kAxisColors[a];
    style += "text" + name + "," + name + ".head{fill:" + color + "}.edge" + name + "{stroke:" + color +
             ";stroke-dasharray:6 3}";
  }
  return style + ".page{stroke:none}";
}

class GraphDrawing {
public:
  GraphDrawing(const ReportValue& graph, const std::vector<ReportValue>& values,
               const ReportValue& collectives, const ReportValue& meshes)
      : drawings_(graph["drawings"]), values_(values), collectives_(collectives) {
    for (const auto& mesh : meshes)
      for (const auto& axis : mesh["axes"])
        if (std::ranges::find(axes_, axis["name"].get<std::string>()) == axes_.end())
          axes_.push_back(axis["name"]);
  }

  std::string draw(const std::string& title) {
    svg_.text(kLeft, 22, title, "title");
    size_t y = drawing(drawings_[0], kTitle);
    for (const auto& n : drawings_[0]["nodes"]) // what runs in a loop is below
      if (n.contains("region")) {
        svg_.text(kLeft, y + 36, "in " + n["name"].get<std::string>(), "title");
        y = drawing(drawings_[n["drawing"].get<size_t>()], y + 36 + 14);
      }
    legend(y + 30);
    return svg_.finish(styleOfAxes(kAxisColors.size()));
  }

private:
  static constexpr size_t kLeft = 12, kTitle = 36, kLine = 15;
  static constexpr std::string_view kUnfold =
      "▸ "; // the sign of a box that unfolds, which a drawing's do not
  static constexpr size_t kMaxChips = 4;

  [[nodiscard]] std::string axisClass(const ReportValue& collective) const {
    const auto at = std::ranges::find(axes_, collective["axes"][0].get<std::string>());
    return "axis" +
           std::to_string(std::min<size_t>(static_cast<size_t>(at - axes_.begin()), kAxisColors.size() - 1));
  }

  static std::string textOf(const ReportValue& collective) {
    std::string out = collective["kind"];
    for (size_t i = 0; i < collective["axes"].size(); ++i)
      out += (i ? ", " : " ") + collective["axes"][i].get<std::string>();
    return out;
  }

  // Returns the lower end.
  size_t drawing(const ReportValue& one, size_t top) {
    top_ = top;
    edges(one);
    for (const auto& n : one["nodes"]) node(n);
    return top + static_cast<size_t>(one["height"].get<double>());
  }

  void edges(const ReportValue& one) {
    double most = 1;
    for (const auto& e : one["edges"]) most = std::max(most, e["bytes"].get<double>());
    for (const auto& e : one["edges"]) {
      std::vector<Svg::Point> points;
      for (size_t i = 0; i + 1 < e["points"].size(); i += 2)
        points.push_back({e["points"][i].get<double>() + kLeft,
                          e["points"][i + 1].get<double>() + static_cast<double>(top_)});
      std::string cls, tip;
      if (const int v = e["value"]; v >= 0) tip = wordsOf(values_[static_cast<size_t>(v)]);
      if (e.contains("collectives")) {
        cls = axisClass(collectives_[e["collectives"][0].get<size_t>()]);
        for (const auto& c : e["collectives"])
          tip += "\nresharded by " + textOf(collectives_[c.get<size_t>()]);
      }
      svg_.arrow(points, cls, 1 + 3 * std::sqrt(e["bytes"].get<double>() / most), tip);
    }
  }

  static std::string wordsOf(const ReportValue& v) {
    return v["name"].get<std::string>() + ": " + v["type"].get<std::string>() +
           (v.contains("sharding") ? " " + v["sharding"]["text"].get<std::string>() : "");
  }

  void node(const ReportValue& n) {
    const std::string kind = n["kind"];
    const auto at = [&](size_t i) { return static_cast<size_t>(std::max(n["box"][i].get<double>(), 0.0)); };
    const size_t x = at(0) + kLeft, y = at(1) + top_;
    std::string tip;
    if (n.contains("values") && kind != "cluster")
      for (const auto& v : n["values"]) tip += (tip.empty() ? "" : "\n") + wordsOf(values_[v.get<size_t>()]);
    svg_.box(x, y, at(2), at(3),
             n.contains("backward") ? "backward"
             : kind == "op"         ? "op"
             : kind == "cluster"    ? "layer"
                                    : "plain",
             tip);
    size_t line = 0;
    const auto text = [&](std::string_view what, std::string_view cls) {
      svg_.text(x + 8, y + kLine * ++line, what, cls);
    };
    for (const auto& t : n["text"]) {
      std::string words = t;
      if (words.starts_with(kUnfold)) words.erase(0, kUnfold.size());
      text(words, line == 0 ? "strong" : "fact");
    }
    if (n.contains("collectives")) messages(n["collectives"], n["messages"], text);
  }

  // As lines of a node: those that are written alike are one.
  template <class Text>
  void messages(const ReportValue& rows, const ReportValue& counts, const Text& text) const {
    std::map<std::string, std::pair<int64_t, std::string>> found; // messages in a run, and class
    for (size_t i = 0; i < rows.size(); ++i) {
      const ReportValue& c = collectives_[rows[i].get<size_t>()];
      auto& one = found[textOf(c)];
      one.first += counts[i].get<int64_t>(), one.second = axisClass(c);
    }
    std::vector<std::pair<std::string, std::pair<int64_t, std::string>>> list(found.begin(), found.end());
    std::ranges::sort(
        list, {}, [](const auto& one) { return std::pair(-one.second.first, std::string_view(one.first)); });
    const size_t shown = list.size() > kMaxChips ? kMaxChips - 1 : list.size();
    for (size_t i = 0; i < shown; ++i) {
      const auto& [count, cls] = list[i].second;
      text("● " + list[i].first + (count > 1 ? " ×" + std::to_string(count) : ""), cls);
    }
    if (shown < list.size()) text("+ " + std::to_string(list.size() - shown) + " more", "fact");
  }

  void legend(size_t y) {
    size_t x = kLeft;
    if (!collectives_.empty())
      for (size_t a = 0; a < axes_.size() && a < kAxisColors.size(); ++a) {
        svg_.text(x, y, "■ " + axes_[a], "axis" + std::to_string(a));
        x += (axes_[a].size() + 4) * 7;
      }
    svg_.text(x, y,
              collectives_.empty()
                  ? "line width: bytes"
                  : "collectives; ×N: N messages in one run; dashed: resharded; line width: bytes",
              "fact");
  }

  Svg svg_;
  const ReportValue& drawings_;
  const std::vector<ReportValue>& values_;
  const ReportValue& collectives_;
  std::vector<std::string> axes_;
  size_t top_ = 0; // of what is being drawn
};

} // namespace

Result<std::string> programGraphSvg(const Module& m, FuncId entry, const PropagateOptions& propagation,
                                    Diagnostics& diags) {
  std::optional<Module> written;
  auto prepared = closedModule(m, entry, diags, &written);
  if (!prepared) return inputError("");
  const FuncId own = prepared->findFunction(m.strings[m[entry].name]);
  auto trace = traceCollectives(*prepared, propagation, {}, diags, own);
  if (!trace || diags.hasErrors()) return inputError("");
  ExplainOptions how;
  how.propagation = propagation;
  how.changes = how.chains = false;
  const ProgramReport report = explainCollectives(*prepared, *trace, how, {});
  const SourceIndex index(m.source);
  const GlobalData data =
      globalData(*trace, report, index, written ? &*written : nullptr, callResults(m, entry));
  const ReportValue graph =
      graphData(data.graph, layersOf(index, data.lines), data.values, data.collectives, index.files(), true);
  return GraphDrawing(graph, data.values, data.collectives, meshData(trace->propagated))
      .draw("func @" + std::string(m.strings[m[entry].name]));
}

} // namespace dtc
