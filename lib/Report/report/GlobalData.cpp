#include "report/GlobalData.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Region.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Passes/propagate/Reasons.h"
#include "dtc/Support/Words.h"
#include "explain/UserNames.h"

#include <map>

namespace dtc {

namespace {

ReportValue axisData(const AxisRef& a, const StringTable& strings) {
  std::string name(strings[a.name]);
  if (a.isFullAxis()) return name;
  return {{"axis", std::move(name)}, {"pre", a.pre}, {"size", a.size}};
}

} // namespace

ReportValue shardingData(const Module& m, ShardingId id) {
  const Sharding& s = m.shardings[id];
  ReportValue dims = ReportValue::array(), pending = ReportValue::array();
  for (const DimSharding& d : s.dims) {
    ReportValue parts = ReportValue::array();
    for (const DimPart& p : d.parts)
      parts.push_back(p.isAxis() ? axisData(p.axis, m.strings) : ReportValue{{"blocks", p.blocks}});
    dims.push_back(std::move(parts));
  }
  for (const PendingAxis& p : s.pending)
    pending.push_back({{"axis", axisData(p.axis, m.strings)}, {"kind", std::string(pendingName(p.kind))}});
  ReportValue out = {{"text", printSharding(m, id)}, {"mesh", s.mesh.index}, {"dims", std::move(dims)}};
  if (!pending.empty()) out["pending"] = std::move(pending);
  return out;
}

ReportValue meshData(const Module& m) {
  ReportValue out = ReportValue::array();
  for (uint32_t i = 0; i < m.shardings.numMeshes(); ++i) {
    const Mesh& mesh = m.shardings.mesh(MeshId(i));
    ReportValue axes = ReportValue::array();
    for (const MeshAxis& a : mesh.axes)
      axes.push_back({{"name", std::string(m.strings[a.name])}, {"size", a.size}});
    ReportValue one = {
        {"name", std::string(m.strings[mesh.name])}, {"axes", axes}, {"devices", mesh.numDevices()}};
    if (!mesh.devices.empty()) one["order"] = mesh.devices;
    out.push_back(std::move(one));
  }
  return out;
}

std::string collectiveKey(const Module& m, OpId o, const Mesh& mesh, const NominalMachine& machine) {
  const auto price = priceOfCollective(m, o, mesh, machine);
  return std::string(collectiveName(m.record(o).collective)) + " " +
         joined(collectiveAxes(m, o), ",", [&](const AxisRef& a) { return printAxis(a, m.strings); }) + " " +
         std::to_string(price ? price->bytesReceived : -1);
}

namespace {

constexpr int kMaxCalls = 8;         // of a line, that are listed separately
constexpr ptrdiff_t kMaxSources = 4; // of a message that serves many

class GlobalMaker {
public:
  GlobalMaker(CollectiveTrace& t, const ProgramReport& report, const SourceIndex& index)
      : t_(t), m_(t.propagated), report_(report), index_(index), reasons_(t.propagated, t.report) {
    out_.lines.resize(index.size());
    for (FuncId f : m_.order)
      if (m_[f].body.valid()) function_ = f;
    if (const FuncId main = entryOfTrace(); main.valid()) function_ = main;
  }

  GlobalData make() {
    for (size_t i = 0; i < t_.collectives.size(); ++i)
      for (OpId source : t_.collectives[i].sources)
        groupsOf_[source].insert(static_cast<int>(report_.collectives[i].group));
    arguments();
    ops(m_[function_].body, -1);
    results();
    collectives();
    costs();
    nameLines();
    return std::move(out_);
  }

private:
  // The only function with a body, or the one whose local form has collectives.
  FuncId entryOfTrace() const {
    FuncId only;
    size_t count = 0;
    for (FuncId f : m_.order)
      if (m_[f].body.valid()) only = f, ++count;
    if (count == 1) return only;
    return m_.findFunction("main");
  }

  LineFacts* lineOf(SourceRange r) {
    const int line = index_.at(r);
    return line < 0 ? nullptr : &out_.lines[static_cast<size_t>(line)];
  }

  // The name that the text gives to the statement or argument at a location: "%h". Inlined functions have others.
  std::string textName(ValueId v, SourceRange loc, bool statement) const {
    const std::string text = statement ? statementAt(m_.source, loc) : nameAt(m_.source, loc);
    return text.empty() || m_[v].position > 0 ? reasons_.lookupName(v) : text;
  }

  // An op of the text, and not one that was generated for it, for example by autodiff.
  bool isWritten(OpId o) const {
    if (m_[o].numResults == 0) return true;
    const ValueId v = m_.result(o);
    if (reasons_.isGenerated(v)) return false;
    const std::string name = reasons_.lookupName(v), text = statementAt(m_.source, m_[o].loc);
    return text.empty() || !name.starts_with("%d_") || text.starts_with("%d_");
  }

  // Adds a value that the text names.
  int addValue(ValueId v, SourceRange loc, const std::string& op, TypeId type, bool statement) {
    const auto id = static_cast<int>(out_.values.size());
    const std::string name = textName(v, loc, statement), path = reasons_.lookupName(v);
    ReportValue one = {{"name", name}, {"line", index_.at(loc)}, {"op", op}, {"type", printType(m_, type)}};
    if (path != name) one["path"] = path;
    const Type& t = m_.types[type];
    ReportValue dims = ReportValue::array();
    for (Dim d : t.dims)
      dims.push_back(d.isStatic() ? ReportValue(d.value()) : ReportValue(printDim(d, m_.dims, m_.strings)));
    one["dims"] = std::move(dims);
    const ValueId shown = reasons_.shown(v);
    std::string shape = one["type"].get<std::string>();
    if (m_[shown].sharding.valid()) {
      one["sharding"] = shardingData(m_, m_[shown].sharding);
      shape += " " + one["sharding"]["text"].get<std::string>();
      if (m_[v].sharding.valid() && m_[v].sharding != m_[shown].sharding)
        one["before"] = shardingData(m_, m_[v].sharding);
    }
    if (const auto n = t.numElements()) one["bytes"] = *n * dtypeBytes(t.dtype);
    const double local = deviceBytes(type, m_[shown].sharding);
    if (local >= 0) one["device_bytes"] = local;
    bytes_.push_back(std::max(local, 0.0));
    out_.values.push_back(std::move(one));
    out_.valueLines.push_back(index_.at(loc));
    if (LineFacts* line = lineOf(loc)) {
      line->values.push_back(id);
      if (line->name.empty()) line->name = name.substr(name.rfind('%') + 1);
      line->statement = line->statement || statement;
      line->shape += shape + ";";
      if (statement) line->resultBytes += std::max(local, 0.0);
    }
    valueId_[v] = valueId_[shown] = id;
    return id;
  }

  double deviceBytes(TypeId type, ShardingId s) {
    if (!s.valid()) {
      const auto n = m_.types[type].numElements();
      return n ? static_cast<double>(*n) * dtypeBytes(m_.types[type].dtype) : -1;
    }
    const auto bytes = largestBytes(m_, localTypeOf(m_, type, m_.shardings[s]), m_.shardings.meshOf(s));
    return bytes ? static_cast<double>(*bytes) : -1;
  }

  void arguments() {
    const Function& f = m_[function_];
    for (const FuncArg& a : f.args) {
      const int id = addValue(a.value, m_[a.value].loc, "argument",
                              a.globalType ? a.globalType : m_[a.value].type, false);
      if (const std::string user = userName(m_, a.attrs); !user.empty())
        out_.values.back()["user_name"] = user;
      GraphNode n{
          GraphNode::Argument, "argument", out_.values.back()["name"], {id}, index_.at(m_[a.value].loc)};
      nodeOf_[a.value] = addNode(std::move(n));
    }
  }

  int addNode(GraphNode n) {
    out_.graph.nodes.push_back(std::move(n));
    return static_cast<int>(out_.graph.nodes.size()) - 1;
  }

  void ops(BlockId b, int region) {
    for (OpId o : m_[b].ops) {
      if (reasons_.reshard(o)) continue; // drawn on edges
      const bool generated = !isWritten(o);
      int node = -1;
      if (generated && m_[o].numRegions == 0)
        gradient(o, region);
      else
        node = op(o, region);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
        for (ValueId a : m_[m_.region(o, r)].args)
          if (!nodeOf_.contains(a) && node >= 0) nodeOf_[a] = node;
        ops(m_.region(o, r), node);
      }
    }
  }

  // Of a function that is called often, all calls are one: the first one's values and node.
  bool merges(OpId o) {
    const int line = index_.at(m_[o].loc);
    if (line < 0 || ++instances_[line] <= kMaxCalls || m_[o].numRegions != 0) return false;
    const auto first = firstAt_.find({line, m_[o].kind});
    if (first == firstAt_.end() || m_[first->second].numResults != m_[o].numResults) return false;
    const int node = nodeOf_.at(m_.result(first->second));
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId v = m_.result(o, r), same = m_.result(first->second, r);
      nodeOf_[v] = node;
      valueId_[v] = valueId_[reasons_.shown(v)] = valueId_.at(same);
    }
    if (auto it = groupsOf_.find(o); it != groupsOf_.end())
      out_.graph.nodes[static_cast<size_t>(node)].collectives.insert(it->second.begin(), it->second.end());
    for (ValueId v : m_.operands(o)) edge(v, node);
    return true;
  }

  int op(OpId o, int region) {
    if (m_[o].numResults > 0) {
      if (merges(o)) return nodeOf_.at(m_.result(o));
      firstAt_.emplace(std::pair(index_.at(m_[o].loc), m_[o].kind), o);
    }
    GraphNode n{GraphNode::Op, m_.record(o).name, "", {}, index_.at(m_[o].loc)};
    n.region = region;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId v = m_.result(o, r);
      n.values.push_back(addValue(v, m_[o].loc, m_.record(o).name, m_[v].type, true));
      if (n.label.empty()) n.label = out_.values.back()["name"];
    }
    if (LineFacts* line = lineOf(m_[o].loc); line && line->user.empty()) {
      const UserPlace user = userPlace(m_, o);
      line->user = userLocation(m_, o), line->userPath = user.path;
    }
    if (auto it = groupsOf_.find(o); it != groupsOf_.end()) n.collectives = it->second;
    const int id = addNode(std::move(n));
    for (ValueId v : m_.operands(o)) edge(v, id);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) nodeOf_[m_.result(o, r)] = id;
    return id;
  }

  // The ops that are generated for a line are one node of a region: the backward part of its statements. Constants are
  // not drawn.
  void gradient(OpId o, int region) {
    ++out_.graph.gradientOps;
    if (m_[o].numOperands == 0) return; // a constant
    const int line = index_.at(m_[o].loc);
    const auto [at, isNew] = gradientAt_.try_emplace({line, region}, 0);
    if (isNew) {
      const std::string name = statementAt(m_.source, m_[o].loc);
      GraphNode n{GraphNode::Op, "gradient of", name.empty() ? "other ops" : name, {}, line};
      n.region = region;
      at->second = addNode(std::move(n));
    }
    const int node = at->second;
    for (ValueId v : m_.operands(o)) gradientEdge(v, node);
    GraphNode& n = out_.graph.nodes[static_cast<size_t>(node)];
    ++n.gradientOps;
    if (auto it = groupsOf_.find(o); it != groupsOf_.end())
      n.collectives.insert(it->second.begin(), it->second.end());
    for (uint32_t r = 0; r < m_[o].numResults; ++r) nodeOf_[m_.result(o, r)] = node;
  }

  // Arguments, such as weights, are drawn where the forward part reads them.
  void gradientEdge(ValueId v, int node) {
    ValueId source = v;
    for (OpId by = m_.definingOp(v); by.valid() && reasons_.reshard(by); by = m_.definingOp(source))
      source = m_.operand(by, 0);
    const auto from = nodeOf_.find(source);
    if (from != nodeOf_.end() &&
        out_.graph.nodes[static_cast<size_t>(from->second)].kind != GraphNode::Argument)
      edge(v, node);
  }

  // From the node that defines `v`, through reshards, to the node.
  void edge(ValueId v, int to) {
    std::set<int> collectives;
    for (OpId by = m_.definingOp(v); by.valid() && reasons_.reshard(by); by = m_.definingOp(v)) {
      if (auto it = groupsOf_.find(by); it != groupsOf_.end())
        collectives.insert(it->second.begin(), it->second.end());
      v = m_.operand(by, 0);
    }
    const auto from = nodeOf_.find(v);
    if (from == nodeOf_.end() || from->second == to) return;
    const auto value = valueId_.find(v);
    if (!edges_.emplace(from->second, to).second) return;
    const int id = value == valueId_.end() ? -1 : value->second;
    const double bytes =
        id >= 0 ? bytes_[static_cast<size_t>(id)] : std::max(0.0, deviceBytes(m_[v].type, m_[v].sharding));
    out_.graph.edges.push_back({from->second, to, id, bytes, std::move(collectives)});
  }

  void results() {
    const int id = addNode(
        {GraphNode::Results, "return", "results", {}, index_.at(m_[m_[function_].body].terminatorLoc)});
    for (ValueId v : m_[m_[function_].body].yields) edge(v, id);
  }

  // Line numbers of the ops that need a collective.
  std::set<int> linesOf(const TracedCollective& c) const {
    std::set<int> lines;
    for (OpId source : c.sources) {
      OpId op = source;
      if (const ReshardReason* r = reasons_.reshard(source)) {
        const bool pending = !m_.shardings[m_[m_.operand(source, 0)].sharding].pending.empty();
        op = r->cause.valid() && (pending || !r->needs.valid()) ? r->cause : r->needs;
      }
      const int line = op.valid() ? index_.at(m_[op].loc) : -1;
      if (line >= 0) lines.insert(line);
    }
    return lines;
  }

  void collectives() {
    const auto all = ReportValue::parse(programJson(report_, {}, {}));
    out_.summary = all["summary"];
    out_.summary["axis_limits"] = all["limits"];
    if (all.contains("pipeline")) out_.summary["pipeline"] = all["pipeline"];
    std::vector<std::set<int>> lines(report_.groups.size());
    std::unordered_map<FuncId, Mesh> meshes;
    for (size_t i = 0; i < t_.collectives.size(); ++i) {
      const TracedCollective& c = t_.collectives[i];
      const auto group = report_.collectives[i].group;
      const std::set<int> own = linesOf(c);
      lines[group].insert(own.begin(), own.end());
      for (int l : own) {
        LineFacts& facts = out_.lines[static_cast<size_t>(l)];
        facts.collectives.insert(static_cast<int>(group));
        if (!c.price) continue;
        const double share = static_cast<double>(c.count.value_or(1)) / static_cast<double>(own.size());
        facts.commBytes += share * static_cast<double>(c.price->bytesReceived);
        facts.commSeconds += share * c.price->seconds;
      }
      const auto mesh = meshes.try_emplace(c.function, meshValueOf(t_.local, c.function)).first;
      out_.identities.push_back({collectiveKey(t_.local, c.op, mesh->second, {}), t_.local[c.op].loc.begin,
                                 static_cast<int>(group)});
    }
    for (size_t g = 0; g < report_.groups.size(); ++g) {
      const ExplainGroup& group = report_.groups[g];
      ReportValue one = all["collectives"][group.members[0]];
      one.erase("group");
      if (const size_t all = one["sources"].size(); all > static_cast<size_t>(kMaxSources)) {
        one["more_sources"] = all - static_cast<size_t>(kMaxSources);
        one["sources"].erase(one["sources"].begin() + kMaxSources, one["sources"].end());
      }
      one["messages"] = group.total.count;
      one["members"] = group.members.size();
      if (!group.value.empty()) one["value"] = group.value;
      if (!group.layer.empty()) one["layer"] = group.layer;
      one["total_bytes"] = group.total.bytes;
      one["total_seconds"] = group.total.seconds;
      one["lines"] = lines[g];
      out_.collectives.push_back(std::move(one));
    }
  }

  // Lines without values of their own, such as calls and the results of a function: the name that they begin with.
  void nameLines() {
    for (size_t l = 0; l < out_.lines.size(); ++l) {
      if (!out_.lines[l].name.empty()) continue;
      const std::string_view text = index_.text(l);
      const size_t at = text.find_first_not_of(" ->(");
      if (at == std::string_view::npos || text[at] != '%') continue;
      const size_t end = text.find_first_of(" ,:=)", at);
      out_.lines[l].name = text.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
      out_.lines[l].statement = text.find(" = ") != std::string_view::npos;
    }
  }

  void costs() {
    for (FuncId f : t_.local.order) {
      if (!t_.local[f].spmd || !t_.local[f].body.valid()) continue;
      mesh_ = meshValueOf(t_.local, f);
      block(t_.local[f].body, 1);
    }
    for (LineFacts& l : out_.lines)
      if (l.seconds > 0 || l.commSeconds > 0)
        l.shape +=
            std::to_string(l.flops) + " " + std::to_string(l.bytes) + " " + std::to_string(l.commBytes);
  }

  void block(BlockId b, double times) {
    for (OpId o : t_.local[b].ops) {
      const OpRecord& record = t_.local.record(o);
      double inside = times;
      if (record.regions == RegionKind::For)
        if (const auto n = iterationCount(t_.local, o); n && n->isStatic())
          inside = boundedProduct(times, static_cast<double>(n->value()));
      for (uint32_t r = 0; r < t_.local[o].numRegions; ++r) block(t_.local.region(o, r), inside);
      if (t_.local[o].numRegions != 0 || record.isCollective() || record.lowering == Lowering::Annotation)
        continue;
      LineFacts* line = lineOf(t_.local[o].loc);
      const auto work = line ? localWork(t_.local, o, mesh_) : std::nullopt;
      if (!work) continue;
      line->flops += times * work->flops;
      line->bytes += times * work->bytes;
      line->seconds += times * work->seconds(NominalMachine());
    }
  }

  CollectiveTrace& t_;
  Module& m_;
  const ProgramReport& report_;
  const SourceIndex& index_;
  Reasons reasons_;
  FuncId function_;
  GlobalData out_;
  Mesh mesh_;
  std::vector<double> bytes_; // by value: on one device
  std::unordered_map<ValueId, int> valueId_, nodeOf_;
  std::set<std::pair<int, int>> edges_;
  std::unordered_map<int, int> instances_;         // by line: its ops so far
  std::map<std::pair<int, OpKind>, OpId> firstAt_; // by line and kind
  std::map<std::pair<int, int>, int> gradientAt_;  // by line and region: the node of generated ops
  std::unordered_map<OpId, std::set<int>> groupsOf_;
};

} // namespace

GlobalData globalData(CollectiveTrace& t, const ProgramReport& report, const SourceIndex& index) {
  return GlobalMaker(t, report, index).make();
}

} // namespace dtc
