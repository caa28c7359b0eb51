// `dtc explain 'bi,oi->bo' 'x {_, _}' 'w {tp, _}'`. Writes the equation and its gradients as small programs,
// propagates them, and reports the resulting shardings and communication.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Report/explain/Explain.h"
#include "dtc/Sharding/Reshard.h"
#include "dtc/Support/Words.h"
#include <algorithm>
#include <nlohmann/json.hpp>

namespace dtc {

namespace {

constexpr int kAxisSize = 4;  // nominal: the answer holds for any size that divides
constexpr int kDimSize = 256; // divisible by four axes of that size

struct Operand {
  std::string name, labels, sharding; // "x", "bi", "{_, _}"
};

// One line of the answer.
struct Line {
  std::string name, equation, runs; // the sharding that the op produces: "{_, _ | sum(tp)}"
  std::string result;               // the required sharding: "{_, _}"
  std::vector<std::string> communication;
};

bool isWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Names inside braces that are axes: all but the pending kinds, rep, `_` and priorities.
void collectAxes(const std::string& sharding, std::vector<std::string>& axes) {
  static const std::vector<std::string> kNotAxes = {"sum", "avg", "prod", "max", "min",
                                                    "any", "all", "rep",  "_"};
  for (size_t i = 0; i < sharding.size();) {
    if (!isWordChar(sharding[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < sharding.size() && isWordChar(sharding[end])) ++end;
    std::string word = sharding.substr(i, end - i);
    i = end;
    if (std::isdigit(static_cast<unsigned char>(word[0]))) continue;
    if (std::find(kNotAxes.begin(), kNotAxes.end(), word) != kNotAxes.end()) continue;
    if (std::find(axes.begin(), axes.end(), word) == axes.end()) axes.push_back(word);
  }
}

std::string trim(std::string_view s) { return std::string(trimmed(s)); }

std::string typeText(const std::string& labels) {
  return "f32[" + joined(std::vector(labels.size(), kDimSize)) + "]";
}

// The errors, without locations in the generated program.
std::string messagesOf(const Diagnostics& diags) {
  return joined(diags.all(), "; ", [](const Diagnostic& d) { return d.message(); });
}

bool isLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }

// A term of the equation: index letters, each once.
Status checkTerm(const std::string& what, const std::string& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string letter(1, labels[i]);
    if (!isLetter(labels[i]))
      return usageError("the equation's " + what + " '" + labels + "' contains '" + letter +
                        "': write its index letters side by side, as in 'bi,oi->bo'");
    if (labels.find(labels[i]) < i)
      return usageError("the equation's " + what + " '" + labels + "' has the index '" + letter +
                        "' twice: diagonals are not supported here");
  }
  return Ok{};
}

Status checkResult(const std::string& output, const std::vector<Operand>& operands) {
  if (Status s = checkTerm("result", output); !s) return s;
  for (char c : output)
    if (std::ranges::none_of(operands,
                             [&](const Operand& t) { return t.labels.find(c) != std::string::npos; }))
      return usageError("the equation's result '" + output + "' has the index '" + std::string(1, c) +
                        "', which is not in any operand");
  return Ok{};
}

// The sharding given for one operand, on a mesh of the axes named on the command line.
Status checkSharding(const Operand& t, const std::vector<std::string>& axes, const OpRegistry& registry) {
  Module m(registry);
  Mesh mesh;
  mesh.name = m.strings.intern("m");
  for (const std::string& a : axes) mesh.axes.push_back({m.strings.intern(a), kAxisSize});
  const MeshId id = m.shardings.addMesh(std::move(mesh));
  const std::string written = "'" + t.name + " " + t.sharding + "'";
  Diagnostics diags;
  Sharding sharding;
  if (!parseSharding(t.sharding, m, id, sharding, diags))
    return usageError(written + ": " + messagesOf(diags));
  if (sharding.dims.size() != t.labels.size())
    return usageError(written + " has " + std::to_string(sharding.dims.size()) +
                      (sharding.dims.size() == 1 ? " dim" : " dims") + ", but '" + t.labels +
                      "' in the equation has " + std::to_string(t.labels.size()));
  const std::vector<Dim> sizes(t.labels.size(), Dim(kDimSize));
  const std::string problem = validateSharding(sharding, m.shardings.mesh(id), sizes, m.dims, m.strings);
  return problem.empty() ? Status(Ok{}) : Status(usageError(written + ": " + problem));
}

class EquationExplainer {
public:
  EquationExplainer(std::vector<Operand> operands, std::string output, std::vector<std::string> axes,
                    const OpRegistry& registry)
      : operands_(std::move(operands)), output_(std::move(output)), axes_(std::move(axes)),
        registry_(registry) {}

  Result<std::vector<Line>> run() {
    std::vector<Line> lines;
    DTC_TRY(auto forward, solve("y", operands_, output_, "", &ySharding_));
    lines.push_back(std::move(forward));
    for (size_t k = 0; k < operands_.size(); ++k) {
      std::vector<Operand> inputs = {{"dy", output_, ySharding_}};
      std::string known = output_;
      for (size_t j = 0; j < operands_.size(); ++j)
        if (j != k) inputs.push_back(operands_[j]), known += operands_[j].labels;
      const Operand& x = operands_[k];
      auto missing = std::find_if(x.labels.begin(), x.labels.end(),
                                  [&](char c) { return known.find(c) == std::string::npos; });
      if (missing != x.labels.end()) {
        lines.push_back({"d" + x.name,
                         "",
                         "",
                         "",
                         {"its dim '" + std::string(1, *missing) +
                          "' is summed alone: the gradient "
                          "is a broadcast of dy, without communication"}});
        continue;
      }
      DTC_TRY(auto line, solve("d" + x.name, inputs, x.labels, withoutPending(x.sharding), nullptr));
      lines.push_back(std::move(line));
    }
    return lines;
  }

private:
  static std::string withoutPending(const std::string& s) {
    size_t bar = s.find('|');
    return bar == std::string::npos ? s : trim(std::string_view(s).substr(0, bar)) + "}";
  }

  // Propagates `name = einsum(inputs)`; the result is constrained to `wanted` where that is not empty.
  Result<Line> solve(const std::string& name, const std::vector<Operand>& inputs, const std::string& output,
                     const std::string& wanted, std::string* reducedTo) {
    Line line;
    line.name = name;
    std::string text = "mesh @m = [", args, values;
    for (size_t i = 0; i < axes_.size(); ++i)
      text += (i ? ", " : "") + axes_[i] + "=" + std::to_string(kAxisSize);
    for (const Operand& t : inputs) {
      args += (args.empty() ? "%" : ", %") + t.name + ": " + typeText(t.labels) + " @m" + t.sharding;
      values += (values.empty() ? "%" : ", %") + t.name;
      line.equation += (line.equation.empty() ? "" : ",") + t.labels;
    }
    line.equation += "->" + output;
    text += "]\nfunc @f(" + args + ") -> (%" + name + ": " + typeText(output) +
            (wanted.empty() ? "" : " @m" + wanted) + ") {\n  %0 = einsum " + values + " {equation = \"" +
            line.equation + "\"}\n  return %0\n}\n";
    Module m(registry_);
    Diagnostics diags;
    SourceText source{"<equation>", text};
    if (!parseModule(source, registry_, m, diags) || !verifyModule(m, diags) || !propagate(m, diags))
      return inputError("'" + line.equation + "': " + messagesOf(diags));
    fill(m, line, reducedTo);
    return line;
  }

  void fill(Module& m, Line& line, std::string* reducedTo) {
    const Function& f = m[m.order[0]];
    OpId op;
    forEachOp(m, f.body, [&](OpId o) {
      if (m.record(o).constraint == Constraint::None) op = o;
    });
    const ShardingId runs = m[m.result(op)].sharding, result = f.results[0].sharding;
    auto bare = [&](ShardingId s) {
      return printSharding(m.shardings[s], m.shardings.meshOf(s), m.strings, ShardingStyle::Dim);
    };
    line.runs = bare(runs);
    line.result = bare(result);
    if (reducedTo) *reducedTo = line.result;
    forEachOp(m, f.body, [&](OpId o) {
      if (m.record(o).constraint != Constraint::Reshard) return;
      ValueId from = m.operand(o, 0), to = m.result(o);
      bool ofResult = from == m.result(op);
      const Type& t = m.typeOf(from);
      ReshardPlan plan = planReshard(m.shardings[m[from].sharding], m.shardings[m[to].sharding],
                                     m.shardings.mesh(MeshId(0)), plannedSizes(t.dims, m.dims), t.dtype);
      std::string what = ofResult ? line.name : std::string(m.strings[m[from].name]);
      for (const ReshardStep& s : plan.steps) line.communication.push_back(stepText(m, s, what));
    });
  }

  static std::string stepText(Module& m, const ReshardStep& s, const std::string& what) {
    std::string axes;
    for (const AxisRef& a : s.axes) axes += (axes.empty() ? "" : ", ") + printAxis(a, m.strings);
    std::string text = std::string(stepName(s.kind)) + "(" + axes + ") of " + what;
    switch (s.kind) {
    case StepKind::AllReduce: return text + ", 2(n-1)/n of its local bytes";
    case StepKind::AllGather:
    case StepKind::ReduceScatter: return text + ", (n-1)/n of its gathered bytes";
    case StepKind::AllToAll: return text + ", (n-1)/n of its local bytes";
    case StepKind::Permute: return text + ", its local bytes";
    case StepKind::AllSlice:
    case StepKind::MakePending: return text + ", no communication";
    }
    return text;
  }

  std::vector<Operand> operands_;
  std::string output_;
  std::vector<std::string> axes_;
  const OpRegistry& registry_;
  std::string ySharding_;
};

std::string renderText(const std::vector<Line>& lines) {
  size_t nameWidth = 0, equationWidth = 0, runsWidth = 0;
  for (const Line& l : lines) {
    nameWidth = std::max(nameWidth, l.name.size());
    equationWidth = std::max(equationWidth, l.equation.size());
    runsWidth = std::max(runsWidth, (l.runs == l.result ? l.runs : l.runs + " -> " + l.result).size());
  }
  auto pad = [](std::string s, size_t width) {
    return s.append(width > s.size() ? width - s.size() : 0, ' ');
  };
  std::string out;
  for (const Line& l : lines) {
    std::string runs = l.runs == l.result ? l.runs : l.runs + " -> " + l.result;
    out +=
        pad(l.name, nameWidth) + " = " + pad(l.equation, equationWidth) + "  " + pad(runs, runsWidth) + "  ";
    if (l.communication.empty()) out += "no communication";
    for (size_t i = 0; i < l.communication.size(); ++i) out += (i ? "; " : "") + l.communication[i];
    while (out.back() == ' ') out.pop_back();
    out += "\n";
  }
  return out;
}

std::string renderJson(const std::vector<Line>& lines) {
  auto out = nlohmann::ordered_json::array();
  for (const Line& l : lines)
    out.push_back({{"name", l.name},
                   {"equation", l.equation},
                   {"runs", l.runs},
                   {"result", l.result},
                   {"communication", l.communication}});
  return out.dump(2) + "\n";
}

} // namespace

Result<std::string> explainEquation(std::string_view equation, const std::vector<std::string>& operands,
                                    const OpRegistry& registry, bool json) {
  size_t arrow = equation.find("->");
  if (arrow == std::string_view::npos)
    return usageError("the equation '" + std::string(equation) + "' has no '->': write it as in 'bi,oi->bo'");
  std::vector<Operand> terms;
  std::vector<std::string> axes;
  std::string inputs(equation.substr(0, arrow));
  for (size_t begin = 0; begin <= inputs.size();) {
    size_t comma = std::min(inputs.find(',', begin), inputs.size());
    Operand t{"", trim(std::string_view(inputs).substr(begin, comma - begin)), ""};
    begin = comma + 1;
    if (terms.size() == operands.size())
      return usageError(
          "the equation has more operands than the command line: pass 'NAME {SHARDING}' for each");
    const std::string& text = operands[terms.size()];
    size_t brace = text.find('{');
    if (brace == std::string::npos)
      return usageError("'" + text + "' has no sharding: write it as in 'w {tp, _}'");
    t.name = trim(std::string_view(text).substr(0, brace));
    t.sharding = trim(std::string_view(text).substr(brace));
    bool named = !t.name.empty() && std::all_of(t.name.begin(), t.name.end(), isWordChar);
    if (!named) return usageError("'" + text + "' must begin with a name, as in 'w {tp, _}'");
    if (Status s = checkTerm("operand", t.labels); !s) return s.error();
    for (const Operand& other : terms)
      if (other.name == t.name) return usageError("two operands have the name '" + t.name + "'");
    if (t.name == "dy" || t.name == "y")
      return usageError("'" + t.name + "' is the name of the result" + (t.name == "y" ? "" : "'s gradient") +
                        ": rename the operand");
    collectAxes(t.sharding, axes);
    terms.push_back(std::move(t));
  }
  if (terms.size() != operands.size())
    return usageError("the equation has " + std::to_string(terms.size()) +
                      " operands, but the command line has " + std::to_string(operands.size()));
  const std::string output = trim(equation.substr(arrow + 2));
  if (Status s = checkResult(output, terms); !s) return s.error();
  for (const Operand& t : terms)
    if (Status s = checkSharding(t, axes, registry); !s) return s.error();
  EquationExplainer explainer(std::move(terms), output, axes, registry);
  DTC_TRY(auto lines, explainer.run());
  return json ? renderJson(lines) : renderText(lines);
}

} // namespace dtc
