#pragma once
// What propagation says of a program: its values, collectives and costs by line, and its graph.
#include "dtc/Passes/analysis/ValuePrograms.h"
#include "dtc/Passes/trace/TraceCollectives.h"
#include "dtc/Report/explain/ExplainProgram.h"
#include "explain/MessageNames.h"
#include "report/SourceIndex.h"
#include "report/Written.h"

#include <unordered_map>

namespace dtc {

// "@pod{dp, _ | sum(tp)}" as data: {"text", "mesh", "dims", "pending"}.
[[nodiscard]] ReportValue shardingData(const Module&, ShardingId);
// [{"name", "axes": [{"name", "size"}], "devices"}]
[[nodiscard]] ReportValue meshData(const Module&);

// A node of the graph: an op of the text, the ops that are generated for it, an argument or the results. Ops of a region are inside of it.
struct GraphNode {
  enum Kind : uint8_t { Op, Argument, Results } kind = Op;
  std::string op, label;
  std::vector<int> values; // that it defines
  int line = -1, layer = -1;
  int region = -1;                     // the node of the op whose region has it
  std::set<int> collectives;           // indices of ReportGraph::collectives
  std::vector<std::string> parameters; // arguments that only this op reads, such as weights
  size_t gradientOps = 0;              // of the ops that are generated for a statement, such as its gradient
  bool constant = false;               // it reads nothing
};
struct GraphEdge {
  int from = 0, to = 0, value = -1;
  double bytes = 0;
  std::set<int> collectives; // of reshards between the two
};
struct ReportGraph {
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
  std::vector<MessageCount> collectives;
  size_t gradientOps = 0; // of all nodes
};

struct GlobalData {
  std::vector<LineFacts> lines;
  std::vector<ReportValue> values;
  std::vector<int> valueLines;      // by value
  std::vector<ValueOrigin> origins; // by value
  int64_t numStageMarks = 0;
  ReportValue collectives = ReportValue::array();
  ReportValue summary;
  ReportGraph graph;
  std::vector<MessageIdentity> identities; // their `collective` is a row of `collectives`
};

// `written`: the module before canonicalize, if that has run. `calls`: results of the text's calls (Written.h).
[[nodiscard]] GlobalData globalData(CollectiveTrace&, const ProgramReport&, const SourceIndex&,
                                    Module* written,
                                    const std::unordered_map<std::string, CallResult>& calls);

} // namespace dtc
