#include "import/OnnxGraph.h"
#include "dtc/Import/program/GraphImport.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <map>
#include <set>

namespace dtc::onnx {

namespace {

constexpr size_t kMaxNodes = 1u << 20; // after inlining, which can multiply
constexpr int kMaxCalls = 64;
constexpr int64_t kNewestOpset = 28;

class Graphs {
public:
  Graphs(const ModelProto& model, const ModelPlace& place, const ImportOptions& options, Module& m,
         Program& out, std::vector<std::string>& symbols)
      : model_(model), place_(place), options_(options), m_(m), out_(out), file_(out.file),
        symbols_(symbols) {
    for (const FunctionProto& f : model.functions) functions_[{f.domain, f.name, f.overload}] = &f;
  }

  Status run();

private:
  // Names of a graph or function body, and of those around it.
  struct Scope {
    std::map<std::string, uint32_t, std::less<>> names;
    const Scope* outer = nullptr;
    [[nodiscard]] std::optional<uint32_t> find(std::string_view name) const {
      for (const Scope* s = this; s; s = s->outer)
        if (auto found = s->names.find(name); found != s->names.end()) return found->second;
      return std::nullopt;
    }
  };
  // What the body of a function is inlined with.
  struct Call {
    const FunctionProto* function = nullptr;
    std::map<std::string, const AttributeProto*, std::less<>> attributes;
    std::string prefix; // of names
    int depth = 0;
  };

  uint32_t newValue(const std::string& name);
  Status declareWeights();
  Status declareInput(const ValueInfo&, size_t graph, Scope&);
  Dim symbolic(const std::string& name);
  void declareType(const ValueInfo&, uint32_t value);
  static std::optional<DeclaredType> declaredType(const ValueInfo&);
  Status nodes(const std::vector<NodeProto>&, size_t graph, Scope&, const Call&);
  Status node(const NodeProto&, size_t graph, Scope&, const Call&);
  Status inlineCall(const NodeProto&, const FunctionProto&, size_t graph, Scope&, const Call&);
  Result<ImportAttribute> attribute(const AttributeProto&, Scope&, const Call&);
  Result<ImportAttribute> nested(const GraphProto&, Scope&, const Call&);
  Status outputs(const GraphProto&, size_t graph, const Scope&);
  ImportValueRef use(const std::string& name, const Scope&);
  int64_t opsetOf(const std::string& domain, const Call&) const;
  Status constantNode(size_t graph, const std::string& name, Tensor value, int32_t element, Scope&);

  const ModelProto& model_;
  const ModelPlace& place_;
  const ImportOptions& options_;
  Module& m_;
  Program& out_;
  ImportFile& file_;
  std::vector<std::string>& symbols_;
  std::map<std::tuple<std::string, std::string, std::string>, const FunctionProto*> functions_;
  std::unordered_map<const TensorProto*, uint32_t> weights_; // value of a weight's argument
  std::set<std::string, std::less<>> taken_;
  size_t count_ = 0;
  int graphDepth_ = 0;
  // Of the nodes of each graph, in order; filled into Program::nodes when the graphs no longer move.
  std::vector<std::vector<NodeInfo>> infos_;
  std::vector<std::vector<std::pair<size_t, Program::Annotation>>> annotations_; // by graph: (node, …)
};

uint32_t Graphs::newValue(const std::string& name) {
  std::string unique = name.empty() ? "unnamed" : name;
  for (int i = 1; !taken_.insert(unique).second; ++i) unique = name + "_" + std::to_string(i);
  file_.values.emplace_back().name = unique;
  out_.elements.push_back(kUndefined);
  return static_cast<uint32_t>(file_.values.size() - 1);
}

// --- inputs ---

// A symbolic size, or the number that it is bound to.
Dim Graphs::symbolic(const std::string& name) {
  if (std::ranges::find(symbols_, name) == symbols_.end()) symbols_.push_back(name);
  for (const auto& [bound, size] : options_.sizes)
    if (bound == name) return size;
  return m_.dims.intern({1, {m_.strings.intern(name)}, {}});
}

// Fills in the dtype and the shape of a value.
void Graphs::declareType(const ValueInfo& info, uint32_t value) {
  static constexpr const char* kinds[] = {
      "no type",       "", "the type sequence", "the type optional", "the type map", "the type sparse tensor",
      "an opaque type"};
  ImportValue& v = file_.values[value];
  const ElementInfo* e = findElement(info.elementType);
  if (info.kind != ValueInfo::Tensor) {
    v.unsupported = std::string("has ") + kinds[info.kind];
    return;
  }
  if (!e || !e->held) {
    v.unsupported = "has the element type " + elementName(info.elementType);
    return;
  }
  if (!info.shape) {
    v.unsupported = "has no shape in the file; run onnx.shape_inference or export the model with shapes";
    return;
  }
  Type type{*e->held, {}};
  for (size_t i = 0; i < info.shape->size(); ++i) {
    const DimProto& d = (*info.shape)[i];
    if (d.value >= 0) {
      type.dims.emplace_back(d.value);
      continue;
    }
    std::string symbol = importedName(d.param);
    if (symbol.empty()) symbol = importedName(info.name) + "_d" + std::to_string(i);
    type.dims.push_back(symbolic(symbol));
  }
  out_.elements[value] = info.elementType;
  v.type = std::move(type);
}

// The dtype and shape of an output; a size that is not a number is -1. Nothing if the file does not say.
std::optional<DeclaredType> Graphs::declaredType(const ValueInfo& info) {
  const ElementInfo* e = findElement(info.elementType);
  if (info.kind != ValueInfo::Tensor || !e || !e->held || !info.shape) return std::nullopt;
  DeclaredType type{*e->held, {}};
  for (const DimProto& d : *info.shape) type.sizes.push_back(d.value >= 0 ? d.value : -1);
  return type;
}

Status Graphs::constantNode(size_t g, const std::string& name, Tensor value, int32_t element, Scope& scope) {
  ImportNode made;
  made.target = "Constant";
  made.arguments.push_back({"value", std::move(value)});
  const uint32_t index = newValue(name);
  out_.elements[index] = element;
  made.results.push_back({index});
  scope.names[name] = index;
  file_.graphs[g].nodes.push_back(std::move(made));
  static const NodeProto none;
  infos_[g].push_back({&none});
  return Ok{};
}

Status Graphs::declareWeights() {
  for (const Weight& w : weightsOf(model_)) {
    if (Status good = checkTensor(*w.tensor); !good) return good;
    const uint32_t value = newValue(w.name);
    const ElementInfo& e = *findElement(w.tensor->dataType);
    file_.values[value].type = Type{*e.held, {w.tensor->dims.begin(), w.tensor->dims.end()}};
    out_.elements[value] = w.tensor->dataType;
    file_.graphs[0].inputs.push_back({{value}, "", w.name, true, {}});
    weights_[w.tensor] = value;
  }
  return Ok{};
}

Status Graphs::declareInput(const ValueInfo& info, size_t g, Scope& scope) {
  if (scope.names.contains(info.name)) return Ok{}; // an initializer: its default value
  const auto bound = std::ranges::find(options_.bindings, info.name, &std::pair<std::string, Tensor>::first);
  if (bound != options_.bindings.end()) {
    const ElementInfo* e = findElement(info.elementType);
    Tensor value = bound->second;
    const DType stored = value.dtype();
    // NumPy lacks bf16 and f8: their bits are stored as unsigned integers (TensorFiles.h).
    if (e && e->held &&
        ((*e->held == DType::BF16 && stored == DType::U16) || (isF8(*e->held) && stored == DType::U8))) {
      Tensor bits(*e->held, value.shape());
      std::ranges::copy(value.bytes(), bits.bytes().begin());
      value = std::move(bits);
    }
    if (e && e->held && *e->held != value.dtype())
      return inputError("--bind " + info.name + ": the file has dtype " + std::string(dtypeName(stored)) +
                        ", but the input has " + std::string(dtypeName(*e->held)));
    return constantNode(g, info.name, std::move(value), info.elementType, scope);
  }
  const uint32_t value = newValue(info.name);
  declareType(info, value);
  scope.names[info.name] = value;
  file_.graphs[g].inputs.push_back(
      {{value}, info.name, importedName(info.name) == info.name ? "" : info.name, false, {}});
  return Ok{};
}

// --- nodes ---

ImportValueRef Graphs::use(const std::string& name, const Scope& scope) {
  if (name.empty()) return {};
  if (const auto found = scope.find(name)) return {*found};
  const uint32_t missing = newValue(name);
  file_.values[missing].unsupported = "is not defined before this node";
  return {missing};
}

int64_t Graphs::opsetOf(const std::string& domain, const Call& call) const {
  const std::vector<OpsetId>& opsets =
      call.function && !call.function->opsets.empty() ? call.function->opsets : model_.opsets;
  for (const OpsetId& o : opsets)
    if (o.domain == domain || (isDefaultDomain(o.domain) && isDefaultDomain(domain))) return o.version;
  return 0;
}

Status Graphs::nodes(const std::vector<NodeProto>& list, size_t g, Scope& scope, const Call& call) {
  for (const NodeProto& n : list)
    if (Status good = node(n, g, scope, call); !good) return good;
  return Ok{};
}

Status Graphs::node(const NodeProto& n, size_t g, Scope& scope, const Call& call) {
  if (++count_ > kMaxNodes)
    return inputError("the model has more than " + std::to_string(kMaxNodes) +
                      " nodes (with functions inlined)");
  for (const std::string& output : n.outputs)
    if (!output.empty() && scope.names.contains(output))
      return inputError("'" + output + "' has two definitions: the second is by " +
                        (n.name.empty() ? "an op" : "the node '" + n.name + "', an op") + " '" + n.opType +
                        "', but each name of a graph is defined once");
  if (const TensorProto* t = constantTensor(n); t && !n.outputs.empty()) {
    if (const auto weight = weights_.find(t); weight != weights_.end()) {
      scope.names[n.outputs[0]] = weight->second;
      return Ok{};
    }
    if (Status good = checkTensor(*t); !good) return good;
    DTC_TRY(auto value, tensorOf(*t, place_));
    return constantNode(g, n.outputs[0], std::move(value), t->dataType, scope);
  }
  if (const auto f = functions_.find({n.domain, n.opType, n.overload}); f != functions_.end())
    return inlineCall(n, *f->second, g, scope, call);
  ImportNode made;
  made.target = isDefaultDomain(n.domain) ? n.opType : n.domain + "." + n.opType;
  made.name = call.prefix + n.name;
  if (made.name.ends_with('/')) made.name.pop_back(); // a node without a name in a function
  for (const std::string& input : n.inputs) made.arguments.push_back({"", use(input, scope)});
  for (const AttributeProto& a : n.attributes) {
    DTC_TRY(auto value, attribute(a, scope, call));
    if (a.name.empty()) continue;
    made.arguments.push_back({a.name, std::move(value)});
  }
  ImportGraph& own = file_.graphs[g];
  for (const std::string& output : n.outputs) {
    if (output.empty()) {
      made.results.emplace_back();
      continue;
    }
    const uint32_t value = newValue(call.prefix + output);
    scope.names[output] = value;
    made.results.push_back({value});
  }
  made.version = opsetOf(n.domain, call);
  for (const NodeDeviceConfiguration& d : n.devices)
    for (const ShardingSpec& s : d.shardings)
      if (const auto value = scope.find(s.tensorName))
        annotations_[g].push_back({own.nodes.size(), {*value, &s, nullptr}});
  own.nodes.push_back(std::move(made));
  infos_[g].push_back({&n});
  return Ok{};
}

Status Graphs::inlineCall(const NodeProto& n, const FunctionProto& f, size_t g, Scope& scope,
                          const Call& call) {
  if (call.depth >= kMaxCalls)
    return inputError("function '" + f.name + "' is called more than " + std::to_string(kMaxCalls) +
                      " levels deep (functions cannot be recursive)");
  Call inner{&f, {}, call.prefix + (n.name.empty() ? f.name : n.name) + "/", call.depth + 1};
  for (const AttributeProto& a : f.defaults) inner.attributes[a.name] = &a;
  for (const AttributeProto& a : n.attributes) {
    const AttributeProto* given = &a;
    if (!a.refAttrName.empty()) {
      const auto found = call.attributes.find(a.refAttrName);
      if (found == call.attributes.end()) continue;
      given = found->second;
    }
    inner.attributes[a.name] = given;
  }
  Scope body;
  for (size_t i = 0; i < f.inputs.size(); ++i)
    if (i < n.inputs.size() && !n.inputs[i].empty())
      body.names[f.inputs[i]] = use(n.inputs[i], scope).index;
    else
      body.names[f.inputs[i]] = ImportValueRef::kNone; // an optional input that is absent
  if (Status good = nodes(f.nodes, g, body, inner); !good) return good;
  for (size_t i = 0; i < n.outputs.size() && i < f.outputs.size(); ++i)
    if (!n.outputs[i].empty()) scope.names[n.outputs[i]] = use(f.outputs[i], body).index;
  return Ok{};
}

Result<ImportAttribute> Graphs::attribute(const AttributeProto& given, Scope& scope, const Call& call) {
  const AttributeProto* a = &given;
  if (!a->refAttrName.empty()) {
    const auto found = call.attributes.find(a->refAttrName);
    if (found == call.attributes.end()) return ImportAttribute(); // not given: the op's default
    a = found->second;
  }
  switch (a->type) {
  case AttributeProto::Float: return ImportAttribute(static_cast<double>(a->f));
  case AttributeProto::Int: return ImportAttribute(ImportInt(a->i));
  case AttributeProto::String: return ImportAttribute(a->s);
  case AttributeProto::Floats:
    return ImportAttribute(std::vector<double>(a->floats.begin(), a->floats.end()));
  case AttributeProto::Ints: return ImportAttribute(std::vector<ImportInt>(a->ints.begin(), a->ints.end()));
  case AttributeProto::Strings: return ImportAttribute(a->strings);
  case AttributeProto::Tensor: {
    if (!a->t) break;
    if (Status good = checkTensor(*a->t); !good)
      return ImportAttribute(ImportUnsupported{"is unsupported: " + good.error().message});
    DTC_TRY(auto value, tensorOf(*a->t, place_));
    return ImportAttribute(std::move(value));
  }
  case AttributeProto::Graph:
    if (!a->g) break;
    return nested(*a->g, scope, call);
  default: break;
  }
  return ImportAttribute(ImportUnsupported{"has an unsupported type of attribute"});
}

Result<ImportAttribute> Graphs::nested(const GraphProto& g, Scope& scope, const Call& call) {
  const size_t index = file_.graphs.size();
  if (++graphDepth_ > kMaxCalls)
    return inputError("graphs are nested deeper than " + std::to_string(kMaxCalls));
  file_.graphs.emplace_back().name = g.name;
  infos_.emplace_back();
  annotations_.emplace_back();
  Scope inner;
  inner.outer = &scope;
  for (const TensorProto& t : g.initializers) {
    if (const auto weight = weights_.find(&t); weight != weights_.end()) {
      inner.names[t.name] = weight->second;
      continue;
    }
    if (Status good = checkTensor(t); !good) return good.error();
    DTC_TRY(auto value, tensorOf(t, place_));
    (void)constantNode(index, t.name, std::move(value), t.dataType, inner);
  }
  for (const ValueInfo& info : g.inputs) {
    const uint32_t value = newValue(info.name);
    inner.names[info.name] = value;
    file_.graphs[index].inputs.push_back({{value}, "", "", false, {}});
  }
  if (Status good = nodes(g.nodes, index, inner, call); !good) return good.error();
  if (Status good = outputs(g, index, inner); !good) return good.error();
  --graphDepth_;
  return ImportAttribute(ImportGraphRef{static_cast<uint32_t>(index)});
}

Status Graphs::outputs(const GraphProto& g, size_t out, const Scope& scope) {
  for (const ValueInfo& info : g.outputs) {
    ImportOutput& o = file_.graphs[out].outputs.emplace_back();
    o.value = use(info.name, scope), o.label = info.name;
    if (importedName(info.name) != info.name) o.name = info.name;
    if (out == 0) o.declared = declaredType(info);
  }
  return Ok{};
}

Status Graphs::run() {
  const GraphProto& g = *model_.graph;
  for (const auto& b : options_.bindings)
    if (std::ranges::find(g.inputs, b.first, &ValueInfo::name) == g.inputs.end()) {
      std::vector<std::string_view> names;
      for (const ValueInfo& i : g.inputs) names.push_back(i.name);
      return usageError("--bind " + b.first + ": the model has no such input; its inputs are " +
                        joined(names, ", ", [](std::string_view n) { return std::string(n); }));
    }
  file_.graphs.emplace_back().name = g.name;
  infos_.emplace_back();
  annotations_.emplace_back();
  Scope scope;
  // Weights come after the inputs among the arguments, but are known to them.
  if (Status good = declareWeights(); !good) return good;
  std::vector<ImportInput> weights = std::move(file_.graphs[0].inputs);
  file_.graphs[0].inputs.clear();
  for (const TensorProto& t : g.initializers) {
    if (const auto weight = weights_.find(&t); weight != weights_.end()) {
      scope.names[t.name] = weight->second;
      continue;
    }
    if (Status good = checkTensor(t); !good) return good;
    DTC_TRY(auto value, tensorOf(t, place_));
    (void)constantNode(0, t.name, std::move(value), t.dataType, scope);
  }
  for (const ValueInfo& info : g.inputs)
    if (Status good = declareInput(info, 0, scope); !good) return good;
  std::ranges::move(weights, std::back_inserter(file_.graphs[0].inputs));
  if (Status good = nodes(g.nodes, 0, scope, {}); !good) return good;
  if (Status good = outputs(g, 0, scope); !good) return good;
  for (size_t i = 0; i < file_.graphs.size(); ++i) {
    for (size_t k = 0; k < infos_[i].size(); ++k) out_.nodes[&file_.graphs[i].nodes[k]] = infos_[i][k];
    for (auto& [node, annotation] : annotations_[i]) {
      annotation.node = &file_.graphs[i].nodes[node];
      out_.annotations.push_back(annotation);
    }
  }
  return Ok{};
}

} // namespace

Status buildProgram(const ModelProto& model, const ModelPlace& place, const ImportOptions& options, Module& m,
                    Program& out, std::vector<std::string>& symbols) {
  if (!model.graph) return inputError("the model has no graph");
  for (const OpsetId& o : model.opsets)
    if (isDefaultDomain(o.domain) && o.version > kNewestOpset)
      return inputError("the model is of opset " + std::to_string(o.version) +
                        ", but dtc reads opsets up to " + std::to_string(kNewestOpset) +
                        ": convert it with onnx.version_converter.convert_version");
  if (model.graph->sparseInitializer >= 0)
    return inputError("byte " + std::to_string(model.graph->sparseInitializer) +
                      ": sparse initializers are not supported; store the tensor as a dense initializer");
  return Graphs(model, place, options, m, out, symbols).run();
}

} // namespace dtc::onnx
