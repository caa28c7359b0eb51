#include "report/GlobalData.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Region.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/propagate/Reasons.h"
#include "dtc/Support/Words.h"
#include "explain/UserNames.h"
#include "report/CollectivePlaces.h"
#include "report/GradientRuns.h"
#include "report/LineCosts.h"
#include "report/NominalSizes.h"

#include <map>
#include <tuple>

namespace dtc {

namespace {

ReportValue staticDims(const Type& t) {
  ReportValue dims = ReportValue::array();
  for (Dim d : t.dims) dims.push_back(d.value());
  return dims;
}

constexpr int kMaxCalls = 8;         // of a line, that are listed separately
constexpr ptrdiff_t kMaxSources = 4; // of a message that serves many

class GlobalMaker {
public:
  using Calls = std::unordered_map<std::string, CallResult>;
  GlobalMaker(CollectiveTrace& t, const ProgramReport& report, const SourceIndex& index, Module* written,
              const Calls& calls)
      : t_(t), m_(t.propagated), report_(report), index_(index), reasons_(t.propagated, t.report),
        calls_(calls) {
    out_.lines.resize(index.size());
    for (FuncId f : m_.order)
      if (m_[f].body.valid()) function_ = f;
    if (const FuncId main = entryOfTrace(); main.valid()) function_ = main;
    written_.emplace(written ? *written : m_, m_, function_, reasons_);
    differentiates_ = std::ranges::any_of(calls, [](const auto& call) { return call.second.isGradient; });
  }

  GlobalData make() {
    for (size_t i = 0; i < t_.collectives.size(); ++i) {
      const TracedCollective& c = t_.collectives[i];
      for (OpId source : c.sources) collectivesOf_[source].insert(static_cast<int>(i));
      out_.graph.collectives.push_back({static_cast<int>(report_.collectives[i].group), c.counted});
    }
    arguments();
    writtenOps(written_->body(), -1);
    countGradientRuns(m_[function_].body, -1);
    generatedOps(m_[function_].body, -1);
    for (const auto& [op, node] : drawn_) operandEdges(op, node);
    for (const auto& [op, node] : generated_)
      for (ValueId v : m_.operands(op)) gradientEdge(v, node);
    placeCollectives(out_.graph, producers(results()));
    collectives();
    addLineCosts(t_, index_, out_.lines);
    nameLines(index_, out_.lines);
    out_.numStageMarks = numStageMarks(m_, function_);
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
    std::string text = statement ? statementAt(m_.source, loc) : nameAt(m_.source, loc);
    if (text.empty()) return written_->names()(v);
    if (statement && isPassed(v)) return pathOf(passedValue(v)) + " in " + text;
    if (std::string result = index_.resultAt(loc, pathOf(v)); !result.empty()) return result;
    if (m_[v].position == 0) return text;
    // Such as what an op keeps for its gradient.
    return written_->names().isGenerated(v) ? "result " + std::to_string(m_[v].position) + " of " + text
                                            : written_->names()(v);
  }

  // An op of the text, and not one that was generated for it, for example by autodiff.
  bool isWritten(OpId o) const {
    const Module& m = written_->module();
    if (m[o].numResults == 0) return true;
    const ValueId v = m.result(o);
    const bool kept = written_->isKept(o);
    if (written_->has(o) && !differentiates_) return true;
    const auto isGenerated = [&](uint32_t r) {
      return kept ? reasons_.isGenerated(m.result(o, r)) : written_->names().isGenerated(m.result(o, r));
    };
    uint32_t unnamed = 0;
    while (unnamed < m[o].numResults && isGenerated(unnamed)) ++unnamed;
    if (unnamed == m[o].numResults) return false;
    if (const CallResult* call = callOf(v); call && call->isGradient) return false;
    const std::string name = kept ? reasons_.lookupName(v) : written_->names()(v),
                      text = statementAt(m.source, m[o].loc);
    return text.empty() || !name.starts_with("%d_") || text.starts_with("%d_");
  }

  // Such as the zeros that sums begin with.
  bool isUnnamedConstant(OpId o) const {
    const Module& m = written_->module();
    return m[o].numOperands == 0 && m[o].numResults == 1 && !m[m.result(o)].name.valid() &&
           !nameAt(m.source, m[m.result(o)].loc).starts_with('%');
  }

  // The sharding of a value of the text, and the one that its op computes if that is another one.
  struct Shown {
    ShardingId sharding, before;
  };
  Shown shardingsOf(ValueId v) {
    const WrittenProgram::Replaced* r = written_->replaced(v);
    const ValueId is = r ? r->value : v, shown = reasons_.shown(is);
    const ShardingId own = m_[is].sharding;
    if (r && !r->dims.empty()) { // before the transpose that it was merged with
      if (!own.valid()) return {};
      Sharding s = m_.shardings[own];
      for (size_t d = 0; d < r->dims.size(); ++d)
        s.dims[d] = m_.shardings[own].dims[static_cast<size_t>(r->dims[d])];
      return {m_.shardings.intern(std::move(s)), {}};
    }
    return {m_[shown].sharding, own.valid() && own != m_[shown].sharding ? own : ShardingId()};
  }

  // Adds a value that the text names.
  int addValue(ValueId v, SourceRange loc, const std::string& op, TypeId type, bool statement) {
    const auto id = static_cast<int>(out_.values.size());
    const std::string name = textName(v, loc, statement), path = pathOf(v);
    ReportValue one = {{"name", name}, {"line", index_.at(loc)}, {"op", op}, {"type", printType(m_, type)}};
    if (path != name) one["path"] = path;
    const Type& t = m_.types[type];
    ReportValue dims = ReportValue::array();
    for (Dim d : t.dims)
      dims.push_back(d.isStatic() ? ReportValue(d.value()) : ReportValue(printDim(d, m_.dims, m_.strings)));
    one["dims"] = std::move(dims);
    if (const OpId maker = written_->module().definingOp(v); v.index < written_->module().values.size() &&
                                                             maker.valid() && !written_->isKept(maker) &&
                                                             !written_->replaced(v))
      one["unused"] = true;
    const Shown shown = shardingsOf(v);
    std::string shape = one["type"].get<std::string>();
    if (shown.sharding.valid()) {
      one["sharding"] = shardingData(m_, shown.sharding);
      shape += " " + one["sharding"]["text"].get<std::string>();
      if (shown.before.valid()) one["before"] = shardingData(m_, shown.before);
    }
    const TypeId sized = nominalType(m_, type);
    if (sized.valid() && sized != type) one["nominal_dims"] = staticDims(m_.types[sized]);
    if (sized.valid()) one["bytes"] = *m_.types[sized].numElements() * dtypeBytes(m_.types[sized].dtype);
    const double local = sized.valid() ? deviceBytes(sized, shown.sharding) : -1;
    if (local >= 0) one["device_bytes"] = local;
    if (const int same = isAnnotation(v) ? annotated(one) : -1; same >= 0) {
      valueId_[v] = valueId_[reasons_.shown(v)] = same;
      return same;
    }
    nameEarlier(one, statement);
    bytes_.push_back(std::max(local, 0.0));
    out_.values.push_back(std::move(one));
    out_.valueLines.push_back(index_.at(loc));
    const Module& text = written_->module();
    const bool ofText = v.index < text.values.size() && text.definingOp(v).valid();
    out_.origins.push_back(ValueOrigin::of(ofText ? text : m_, v));
    if (LineFacts* line = statement && isPassed(v) ? nullptr : lineOf(loc)) {
      line->values.push_back(id);
      if (line->name.empty()) line->name = name.substr(name.rfind('%') + 1);
      line->statement = line->statement || statement;
      line->shape += shape + ";";
      if (statement) line->resultBytes += std::max(local, 0.0);
    }
    valueId_[v] = valueId_[reasons_.shown(v)] = id;
    callResult(v, id);
    return id;
  }

  // Of the ops that a statement is decomposed into, the last one computes the value: "argsort in %0" is before it.
  void nameEarlier(const ReportValue& last, bool statement) {
    const int line = last["line"];
    if (!statement || line < 0) return;
    for (const int id : out_.lines[static_cast<size_t>(line)].values)
      if (ReportValue& v = out_.values[static_cast<size_t>(id)];
          v["name"] == last["name"] && v["op"] != last["op"] && v.contains("path") == last.contains("path") &&
          (!v.contains("path") || v["path"] == last["path"]))
        v["name"] = v["op"].get<std::string>() + " in " + v["name"].get<std::string>();
  }

  const Module& moduleOf(ValueId v) const {
    return v.index < written_->module().values.size() ? written_->module() : m_;
  }
  // What a call passes, with the sharding that the callee's argument states: at the place of the call.
  bool isPassed(ValueId v) const {
    if (!isAnnotation(v) || !pathOf(v).starts_with('@')) return false;
    const uint32_t at = moduleOf(v)[moduleOf(v).definingOp(v)].loc.begin;
    return std::ranges::any_of(calls_, [&](const auto& call) { return call.second.loc.begin == at; });
  }
  ValueId passedValue(ValueId v) const { return moduleOf(v).operand(moduleOf(v).definingOp(v), 0); }
  bool isAnnotation(ValueId v) const {
    const Module& m = moduleOf(v);
    const OpId by = m.definingOp(v);
    return by.valid() && m.record(by).lowering == Lowering::Annotation;
  }
  // The value itself that an inlined function's argument annotates on its line without another sharding; or -1.
  int annotated(const ReportValue& one) const {
    const int line = one["line"];
    if (line < 0 || !one.contains("sharding")) return -1;
    for (const int id : out_.lines[static_cast<size_t>(line)].values)
      if (const ReportValue& v = out_.values[static_cast<size_t>(id)];
          v["name"] == one["name"] && v["type"] == one["type"] && v.contains("sharding") &&
          v["sharding"] == one["sharding"])
        return id;
    return -1;
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

  // The statements of the text, also those that canonicalize has merged or rewritten.
  void writtenOps(BlockId b, int region) {
    const Module& m = written_->module();
    for (OpId o : m[b].ops) {
      if (m.record(o).constraint == Constraint::Reshard && reasons_.reshard(o)) continue; // drawn on edges
      if ((!isWritten(o) || isUnnamedConstant(o)) && m[o].numRegions == 0) continue;
      const int node = op(o, region);
      nodeOfOp_[o] = node;
      for (uint32_t r = 0; r < m[o].numRegions; ++r) {
        for (ValueId a : m[m.region(o, r)].args) nodeOf_.emplace(a, node);
        writtenOps(m.region(o, r), node);
      }
    }
  }

  // The ops that passes add, for gradients or in place of statements.
  void generatedOps(BlockId b, int region) {
    for (OpId o : m_[b].ops) {
      if (reasons_.reshard(o)) continue; // drawn on edges
      const auto drawn = nodeOfOp_.find(o);
      int node = drawn == nodeOfOp_.end() ? -1 : drawn->second;
      if (node < 0 && !replaces(o)) {
        if (m_[o].numRegions == 0)
          gradient(o, region);
        else
          node = op(o, region);
      }
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
        for (ValueId a : m_[m_.region(o, r)].args)
          if (node >= 0) nodeOf_.emplace(a, node);
        generatedOps(m_.region(o, r), node);
      }
    }
  }

  void addCollectives(OpId o, int node) {
    if (const auto it = collectivesOf_.find(o); it != collectivesOf_.end()) addCollectives(it->second, node);
  }
  void addCollectives(const std::set<int>& some, int node) {
    out_.graph.nodes[static_cast<size_t>(node)].collectives.insert(some.begin(), some.end());
  }

  // An op that computes what a statement did: drawn as that.
  bool replaces(OpId o) {
    if (m_[o].numResults != 1) return false;
    const ValueId result = m_.result(o), written = written_->replacedBy(result);
    const auto node = nodeOf_.find(written);
    if (!written.valid() || node == nodeOf_.end()) return false;
    nodeOf_[result] = node->second;
    if (const auto id = valueId_.find(written); id != valueId_.end())
      valueId_[result] = valueId_[reasons_.shown(result)] = id->second;
    addCollectives(o, node->second);
    return true;
  }

  // Of a function that is called often, all calls are one: the first one's values and node.
  bool merges(const Module& m, OpId o) {
    const int line = index_.at(m[o].loc);
    if (line < 0 || ++instances_[line] <= kMaxCalls || m[o].numRegions != 0) return false;
    const auto first = firstAt_.find({line, m[o].kind});
    if (first == firstAt_.end() || m[first->second].numResults != m[o].numResults) return false;
    const int node = nodeOf_.at(m.result(first->second));
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      const ValueId v = m.result(o, r), same = m.result(first->second, r);
      nodeOf_[v] = node;
      valueId_[v] = valueId_[reasons_.shown(v)] = valueId_.at(same);
    }
    addCollectives(o, node);
    drawn_.emplace_back(o, node);
    return true;
  }

  int op(OpId o, int region) {
    const Module& m = written_->has(o) ? written_->module() : m_;
    if (m[o].numResults > 0) {
      if (merges(m, o)) return nodeOf_.at(m.result(o));
      firstAt_.emplace(std::pair(index_.at(m[o].loc), m[o].kind), o);
    }
    GraphNode n{GraphNode::Op, m.record(o).name, "", {}, index_.at(m[o].loc)};
    n.region = region;
    n.constant = m[o].numOperands == 0 && m[o].numRegions == 0;
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      const ValueId v = m.result(o, r);
      n.values.push_back(addValue(v, m[o].loc, m.record(o).name, m[v].type, true));
      if (n.label.empty()) n.label = out_.values[static_cast<size_t>(n.values.back())]["name"];
    }
    if (LineFacts* line = lineOf(m[o].loc); line && line->user.empty()) {
      const UserPlace user = userPlace(m, o);
      line->user = userLocation(m, o), line->userPath = user.path;
    }
    const int id = addNode(std::move(n));
    addCollectives(o, id);
    drawn_.emplace_back(o, id);
    for (uint32_t r = 0; r < m[o].numResults; ++r) nodeOf_[m.result(o, r)] = id;
    return id;
  }

  // An op that is drawn in the node of a gradient.
  [[nodiscard]] bool isGradient(OpId o) const {
    return !reasons_.reshard(o) && !nodeOfOp_.contains(o) && m_[o].numRegions == 0 && m_[o].numOperands > 0 &&
           !(m_[o].numResults == 1 && written_->replacedBy(m_.result(o)).valid());
  }
  void countGradientRuns(BlockId b, int region) {
    GradientRuns& runs = gradientRuns_[region];
    for (OpId o : m_[b].ops)
      if (isGradient(o)) runs.add(index_.at(m_[o].loc), m_[o].kind);
  }
  // The call that the next generated op of a line is for, or 0.
  int callOf(int line, int region) {
    const auto calls = instances_.find(line);
    if (calls == instances_.end() || calls->second > kMaxCalls) return 0;
    return gradientRuns_[region].next(line, static_cast<size_t>(calls->second));
  }

  // The ops that are generated for a line are one node of a region and call: the backward part of its statements.
  // Constants are not drawn.
  void gradient(OpId o, int region) {
    out_.graph.gradientOps += differentiates_;
    if (m_[o].numOperands == 0) return; // a constant
    const int line = index_.at(m_[o].loc);
    const auto [at, isNew] = gradientAt_.try_emplace({line, region, callOf(line, region)}, 0);
    if (isNew) {
      const std::string name = statementAt(m_.source, m_[o].loc);
      GraphNode n{GraphNode::Op,
                  differentiates_ ? "gradient of" : std::string(m_.record(o).name) + " in",
                  name.empty() ? "other ops" : name,
                  {},
                  line};
      n.region = region;
      at->second = addNode(std::move(n));
    }
    const int node = at->second;
    generated_.emplace_back(o, node);
    GraphNode& n = out_.graph.nodes[static_cast<size_t>(node)];
    n.gradientOps += differentiates_;
    addCollectives(o, node);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId v = m_.result(o, r);
      nodeOf_[v] = node;
      gradientResult(v);
    }
  }

  // A result of value_and_grad, which the text names.
  void gradientResult(ValueId v) {
    const auto call = callOf(v);
    if (!call || !lineOf(call->loc)) return;
    const int id = addValue(v, call->loc, "value_and_grad", m_[v].type, true);
    out_.values[static_cast<size_t>(id)]["name"] = call->name;
  }

  // The call of the text that a value is a result of.
  const CallResult* callOf(ValueId v) const {
    const Module& m = written_->module();
    const StrId name =
        v.index < m.values.size() && m[v].name.valid() ? m[v].name : m_[reasons_.shown(v)].name;
    const auto it = name.valid() ? calls_.find(std::string(m_.strings[name])) : calls_.end();
    if (it == calls_.end()) return nullptr;
    // A later statement of the caller may have the same name: the call is in a loop.
    const OpId by = v.index < m.values.size() ? m.definingOp(v) : OpId();
    const int own = by.valid() ? index_.at(m[by].loc) : -1, call = index_.at(it->second.loc);
    return own >= 0 && own != call && index_.functionOf(own) == index_.functionOf(call) ? nullptr
                                                                                        : &it->second;
  }

  // The line of a call has the value that its callee computes, too.
  void callResult(ValueId v, int id) {
    const CallResult* call = callOf(v);
    LineFacts* line = call ? lineOf(call->loc) : nullptr;
    if (line && std::ranges::find(line->values, id) == line->values.end()) line->values.push_back(id);
  }

  // "%loss_eq_h": the name in the inlined program.
  std::string pathOf(ValueId v) const {
    return written_->replaced(v) ? written_->names()(v) : reasons_.lookupName(v);
  }

  // Arguments, such as weights, are drawn where the forward part reads them.
  void gradientEdge(ValueId v, int node) {
    const auto [source, collectives] = beforeReshards(v);
    const auto from = nodeOf_.find(source);
    if (from == nodeOf_.end() ||
        out_.graph.nodes[static_cast<size_t>(from->second)].kind == GraphNode::Argument)
      addCollectives(collectives, node);
    else
      edge(v, node);
  }

  // The value that reshards read, and their collectives.
  std::pair<ValueId, std::set<int>> beforeReshards(ValueId v) const {
    std::set<int> collectives;
    for (OpId by = v.valid() ? m_.definingOp(v) : OpId(); by.valid() && reasons_.reshard(by);
         by = m_.definingOp(v)) {
      if (auto it = collectivesOf_.find(by); it != collectivesOf_.end())
        collectives.insert(it->second.begin(), it->second.end());
      v = m_.operand(by, 0);
    }
    return {v, std::move(collectives)};
  }

  // Of an op that is kept, with the reshards of its operands in the propagated program.
  void operandEdges(OpId o, int node) {
    const Module& m = written_->has(o) ? written_->module() : m_;
    const bool both = !written_->has(o) || (written_->isKept(o) && m_[o].numOperands == m[o].numOperands);
    for (uint32_t i = 0; i < m[o].numOperands; ++i)
      edge(m.operand(o, i), node, both ? m_.operand(o, i) : ValueId());
  }

  void edge(ValueId v, int to) { edge(v, to, v); }
  // From the node that defines `written` to the node, through the reshards of `propagated`.
  void edge(ValueId written, int to, ValueId propagated) {
    auto [v, collectives] = beforeReshards(propagated);
    ValueId source = nodeOf_.contains(written) || !v.valid() ? written : v;
    const auto from = nodeOf_.find(source);
    if (from == nodeOf_.end() || from->second == to) {
      addCollectives(collectives, to);
      return;
    }
    const auto value = valueId_.find(source);
    const auto [known, isNew] = edges_.emplace(std::pair(from->second, to), out_.graph.edges.size());
    if (!isNew) {
      out_.graph.edges[known->second].collectives.merge(collectives);
      return;
    }
    const int id = value == valueId_.end() ? -1 : value->second;
    const double bytes = id >= 0 ? bytes_[static_cast<size_t>(id)]
                                 : std::max(0.0, deviceBytes(m_[source].type, m_[source].sharding));
    out_.graph.edges.push_back({from->second, to, id, bytes, std::move(collectives)});
  }

  // Where collectives are drawn that no drawn op needs: at what computes their operand.
  std::vector<int> producers(int results) const {
    std::vector<int> out;
    for (const TracedCollective& c : t_.collectives) {
      int node = results;
      for (OpId source : c.sources)
        for (uint32_t i = 0; i < m_[source].numOperands && node == results; ++i)
          if (const auto at = nodeOf_.find(beforeReshards(m_.operand(source, i)).first); at != nodeOf_.end())
            node = at->second;
      out.push_back(node);
    }
    return out;
  }

  int results() {
    const int id = addNode(
        {GraphNode::Results, "return", "results", {}, index_.at(m_[m_[function_].body].terminatorLoc)});
    const std::vector<ValueId>&now = m_[m_[function_].body].yields,
          &written = written_->module()[written_->body()].yields;
    for (size_t i = 0; i < now.size(); ++i)
      edge(written.size() == now.size() ? written[i] : now[i], id, now[i]);
    return id;
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
    out_.identities = messageIdentities(t_);
    for (size_t i = 0; i < t_.collectives.size(); ++i) {
      const TracedCollective& c = t_.collectives[i];
      const auto group = report_.collectives[i].group;
      const std::set<int> own = linesOf(c);
      lines[group].insert(own.begin(), own.end());
      for (int l : own) {
        LineFacts& facts = out_.lines[static_cast<size_t>(l)];
        facts.messages[static_cast<int>(group)] += c.counted;
        if (!c.price) continue;
        const double share = static_cast<double>(c.counted) / static_cast<double>(own.size());
        facts.commBytes += share * static_cast<double>(c.price->bytesReceived);
        facts.commSeconds += share * c.price->seconds;
      }
      out_.identities[i].collective = static_cast<int>(group);
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
      if (group.purpose.empty())
        one.erase("for");
      else
        one["for"] = group.purpose;
      if (!group.layer.empty()) one["layer"] = group.layer;
      const auto& source = t_.collectives[group.members[0]].sources;
      const std::string_view family = source.empty() ? "" : m_.record(source[0]).family;
      if (one["kind"] == "p2p" && family == "window") one["halo"] = true;
      one["total_bytes"] = group.total.bytes;
      one["total_seconds"] = group.total.seconds;
      one["lines"] = lines[g];
      out_.collectives.push_back(std::move(one));
    }
  }

  CollectiveTrace& t_;
  Module& m_;
  const ProgramReport& report_;
  const SourceIndex& index_;
  Reasons reasons_;
  const Calls& calls_;
  bool differentiates_ = false; // the text has gradients
  std::optional<WrittenProgram> written_;
  FuncId function_;
  GlobalData out_;
  std::vector<double> bytes_; // by value: on one device
  std::unordered_map<ValueId, int> valueId_, nodeOf_;
  std::unordered_map<OpId, int> nodeOfOp_;
  std::vector<std::pair<OpId, int>> drawn_, generated_; // ops and their nodes, whose edges are made last
  std::map<std::pair<int, int>, size_t> edges_;         // by their ends
  std::unordered_map<int, int> instances_;              // by line: its ops so far
  std::map<std::pair<int, OpKind>, OpId> firstAt_;      // by line and kind
  std::map<std::tuple<int, int, int>, int> gradientAt_; // by line, region and call: the node of generated ops
  std::map<int, GradientRuns> gradientRuns_;            // by region
  std::unordered_map<OpId, std::set<int>> collectivesOf_;
};

} // namespace

GlobalData globalData(CollectiveTrace& t, const ProgramReport& report, const SourceIndex& index,
                      Module* written, const std::unordered_map<std::string, CallResult>& calls) {
  return GlobalMaker(t, report, index, written, calls).make();
}

} // namespace dtc
