// The data of the page of diff: the report as JSON, and the lines of both texts side by side.
#include "dtc/Report/diff/DiffPage.h"

#include "diff/Causes.h"
#include "diff/Match.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"
#include "report/PageFiles.h"
#include "report/SourceIndex.h"

#include <algorithm>

namespace dtc {

namespace {

using Json = ReportValue;

// One line of a text, or one statement of a program whose text is unknown.
struct SideLine {
  std::string text;
  std::vector<size_t> statements; // indices of ProgramDiff::statements
};

std::string squeezed(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  return out;
}

// "%y = matmul %x, %w {dim = 1}: f32[64, 512]"
std::string statementText(const ProgramSnapshot& p, const SnapshotStatement& s) {
  std::string out = s.function.empty() ? "" : "@" + s.function + ": ";
  const std::string operands =
      joined(s.operands, ", ", [&](int32_t o) { return p.written[static_cast<size_t>(o)].name; });
  if (s.op == "argument" || s.op == "result")
    out += s.op + " " + s.name;
  else
    out += s.name + " = " + s.op + (operands.empty() ? "" : " " + operands);
  out += (s.attributes.empty() ? "" : " " + s.attributes) + ": " + s.type;
  return out + (s.annotation.empty() ? "" : " " + s.annotation);
}

class PageMaker {
public:
  explicit PageMaker(const DiffPageInput& in)
      : in_(in), asText_(in.sourceA && in.sourceB), equal_(in.a, in.b) {}

  Json run() {
    Json out = {{"format", 1}, {"dtc", DTC_VERSION}};
    out.update(Json::parse(diffJson(in_.diff, in_.budgets)));
    out["meshes"] = meshes();
    if (!in_.diff.comparesStatements) return out;
    lines(in_.a, in_.sourceA, false, a_);
    lines(in_.b, in_.sourceB, true, b_);
    Json rows = alignedRows();
    link(out["causes"], [&](size_t i) { return rowsOfCause(static_cast<int>(i)); });
    link(out["shardings"], [&](size_t i) { return rowsOf(in_.diff.shardings[i].of); });
    link(out["collectives"], [&](size_t i) { return rowsOf(in_.diff.collectives[i].of); });
    for (size_t i = 0; i < out["collectives"].size(); ++i)
      for (const Json& row : out["collectives"][i]["rows"])
        out["collectives"][i]["row_counts"].push_back(countAt(in_.diff.collectives[i].of, row.get<size_t>()));
    link(out["computation"], [&](size_t i) { return rowsOf(in_.diff.computations[i].of); });
    out["source"] = {{"text", asText_},
                     {"files_a", asText_ ? SourceIndex(*in_.sourceA).files() : Json::array()},
                     {"files_b", asText_ ? SourceIndex(*in_.sourceB).files() : Json::array()},
                     {"rows", std::move(rows)}};
    return out;
  }

private:
  static constexpr std::string_view kMesh = "mesh ";

  // {"pod": {"a": "dp=2, tp=4", "b": "dp=8, tp=1"}}
  [[nodiscard]] Json meshes() const {
    Json out = Json::object();
    for (const auto& [side, p] : {std::pair("a", &in_.a), std::pair("b", &in_.b)})
      for (const auto& [name, axes] : p->settings)
        if (name.starts_with(kMesh)) out[name.substr(kMesh.size())][side] = axes;
    return out;
  }

  void lines(const ProgramSnapshot& p, const SourceText* source, bool inB, std::vector<SideLine>& out) const {
    std::vector<int> lineOf(p.written.size(), -1);
    if (asText_) {
      const SourceIndex index(*source);
      for (size_t l = 0; l < index.size(); ++l) out.push_back({std::string(index.text(l)), {}});
      for (size_t i = 0; i < p.written.size(); ++i)
        if (const uint32_t at = p.written[i].offset; at < source->text.size())
          lineOf[i] = index.at({at, at + 1});
    } else {
      for (size_t i = 0; i < p.written.size(); ++i) {
        out.push_back({statementText(p, p.written[i]), {}});
        lineOf[i] = static_cast<int>(i);
      }
    }
    for (size_t s = 0; s < in_.diff.statements.size(); ++s) {
      const int32_t i = inB ? in_.diff.statements[s].b : in_.diff.statements[s].a;
      if (i >= 0 && lineOf[static_cast<size_t>(i)] >= 0)
        out[static_cast<size_t>(lineOf[static_cast<size_t>(i)])].statements.push_back(s);
    }
  }

  // Lines are matched by the first statement of both, or by their text.
  MatchKeys keysOf(const std::vector<SideLine>& lines) {
    MatchKeys out(2);
    const auto id = [&](const std::string& key) {
      return ids_.try_emplace(key, static_cast<uint32_t>(ids_.size()) + 1).first->second;
    };
    for (const SideLine& l : lines) {
      const std::string text = squeezed(l.text);
      const DiffStatement* s = l.statements.empty() ? nullptr : &in_.diff.statements[l.statements[0]];
      const bool matched = s && s->a >= 0 && s->b >= 0;
      out[0].push_back(id(matched ? "statement " + std::to_string(l.statements[0]) : "text " + text));
      out[1].push_back(s || text.empty() ? 0 : id("text " + text));
    }
    return out;
  }

  Json alignedRows() {
    const MatchKeys keysA = keysOf(a_), keysB = keysOf(b_);
    const std::vector<int32_t> ab = matchSequences(keysA, keysB);
    Json rows = Json::array();
    size_t j = 0;
    for (size_t i = 0; i < a_.size(); ++i) {
      if (ab[i] >= 0)
        for (; j < static_cast<size_t>(ab[i]); ++j) addRow(rows, -1, static_cast<int>(j));
      addRow(rows, static_cast<int>(i), ab[i]);
      if (ab[i] >= 0) j = static_cast<size_t>(ab[i]) + 1;
    }
    for (; j < b_.size(); ++j) addRow(rows, -1, static_cast<int>(j));
    return rows;
  }

  void addRow(Json& rows, int a, int b) {
    const SideLine* lineA = a >= 0 ? &a_[static_cast<size_t>(a)] : nullptr;
    const SideLine* lineB = b >= 0 ? &b_[static_cast<size_t>(b)] : nullptr;
    Json row = {{"a", a}, {"b", b}};
    if (lineA && lineB && lineA->text == lineB->text) {
      row["text"] = lineA->text;
    } else {
      if (lineA) row["text_a"] = lineA->text;
      if (lineB) row["text_b"] = lineB->text;
    }
    std::vector<size_t> statements;
    for (const SideLine* line : {lineB, lineA})
      for (size_t s : line ? line->statements : std::vector<size_t>())
        if (std::ranges::find(statements, s) == statements.end()) statements.push_back(s);
    facts(row, statements, lineA, lineB);
    for (size_t s : statements) rowsOfStatement_[s].push_back(rows.size());
    if (asText_)
      for (const SideLine* line : {lineA, lineB})
        if (line && line->text.starts_with("mesh @"))
          if (auto& of = rowsOfMesh_[meshName(line->text)]; of.empty() || of.back() != rows.size())
            of.push_back(rows.size());
    rows.push_back(std::move(row));
  }

  // "pod" of "mesh @pod = [dp=2]".
  static std::string meshName(std::string_view line) {
    const std::string_view name = line.substr(std::string_view("mesh @").size());
    return std::string(name.substr(0, name.find_first_of(" =")));
  }

  void facts(Json& row, const std::vector<size_t>& statements, const SideLine* a, const SideLine* b) const {
    std::vector<int> causes, follows;
    std::string shardingA, shardingB;
    double secondsA = 0, secondsB = 0;
    const auto add = [](std::vector<int>& list, int c) {
      if (c != kNoCause && std::ranges::find(list, c) == list.end()) list.push_back(c);
    };
    const auto append = [](std::string& to, const std::string& text) {
      if (!text.empty()) to += (to.empty() ? "" : ", ") + text;
    };
    for (size_t i : statements) {
      const DiffStatement& s = in_.diff.statements[i];
      for (int c : s.causes) add(causes, c);
      add(follows, s.follows);
      if (a && b && s.a >= 0 && s.b >= 0 && !equal_(s.shardingA, s.shardingB)) row["sharding_changed"] = true;
      if (a) append(shardingA, s.shardingA), secondsA += s.secondsA;
      if (b) append(shardingB, s.shardingB), secondsB += s.secondsB;
    }
    std::erase_if(follows, [&](int c) { return std::ranges::find(causes, c) != causes.end(); });
    if (!causes.empty()) row["causes"] = causes;
    if (!follows.empty()) row["follows"] = follows;
    if (!shardingA.empty()) row["sharding_a"] = shardingA;
    if (!shardingB.empty()) row["sharding_b"] = shardingB;
    if (secondsA > 0) row["seconds_a"] = secondsA;
    if (secondsB > 0) row["seconds_b"] = secondsB;
  }

  std::vector<size_t> rowsOf(const DiffRowsOf& statements) const {
    std::vector<size_t> out;
    for (size_t s : statements)
      if (const auto it = rowsOfStatement_.find(s); it != rowsOfStatement_.end())
        out.insert(out.end(), it->second.begin(), it->second.end());
    std::ranges::sort(out);
    out.erase(std::ranges::unique(out).begin(), out.end());
    return out;
  }

  // The number of its statements that a row has: equal collectives may be of one line.
  size_t countAt(const DiffRowsOf& statements, size_t row) const {
    size_t count = 0;
    for (size_t s : statements)
      if (const auto it = rowsOfStatement_.find(s); it != rowsOfStatement_.end())
        count += static_cast<size_t>(std::ranges::count(it->second, row));
    return count;
  }

  std::vector<size_t> rowsOfCause(int cause) const {
    DiffRowsOf of;
    const DiffCause& c = in_.diff.causes[static_cast<size_t>(cause)];
    if (c.kind == DiffCause::Setting &&
        c.what.starts_with(kMesh)) // the declaration, which a flag may replace
      if (const auto it = rowsOfMesh_.find(c.what.substr(kMesh.size())); it != rowsOfMesh_.end())
        return it->second;
    for (size_t s = 0; s < in_.diff.statements.size(); ++s)
      if (std::ranges::find(in_.diff.statements[s].causes, cause) != in_.diff.statements[s].causes.end())
        of.push_back(s);
    return rowsOf(of);
  }

  template <class Rows> static void link(Json& list, const Rows& rows) {
    for (size_t i = 0; i < list.size(); ++i) list[i]["rows"] = rows(i);
  }

  const DiffPageInput& in_;
  bool asText_;
  ShardingEquality equal_;
  std::vector<SideLine> a_, b_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::unordered_map<size_t, std::vector<size_t>> rowsOfStatement_;
  std::unordered_map<std::string, std::vector<size_t>> rowsOfMesh_;
};

} // namespace

std::string diffPageJson(const DiffPageInput& in) {
  return PageMaker(in).run().dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string diffPage(const DiffPageInput& in) {
  constexpr const char* kScripts[] = {"core.js", "diff.js", "frame.js", "diff-start.js"};
  return pageOf("dtc diff", kScripts, diffPageJson(in));
}

} // namespace dtc
