#include "dtc/Import/program/GraphImport.h"

#include "dtc/IR/text/Text.h"

#include <new>
#include <stdexcept>
#include <unordered_map>

namespace dtc {
namespace {

constexpr int kMaxDepth = 64;        // of nested graphs
constexpr size_t kMaxOps = 1u << 22; // inlined graphs can multiply

class GraphImporter : public ImportScope {
public:
  GraphImporter(Module& m, const ImportFile& file, const ImportTable& table, Diagnostics& diags,
                std::vector<ImportProblem>* problems)
      : m_(m), file_(file), table_(table), diags_(diags), problems_(problems), values_(file.values.size()),
        reported_(file.values.size()) {}

  bool run();
  ValueId value(ImportValueRef ref) const override { return ref.valid() ? values_[ref.index] : ValueId(); }
  bool reported(ImportValueRef ref) const override { return ref.valid() && reported_[ref.index]; }
  std::vector<ValueId> inlined(ImportGraphRef, std::span<const ValueId> inputs, Builder& in) override;

private:
  using Labels = std::unordered_map<std::string, uint32_t>;
  StrId label(const std::string& wanted, Labels&);
  AttrList userAttrs(const std::string& name, const std::string& location);
  void problem(const std::string& op, SourceRange, const DiagKind&, std::initializer_list<std::string> args);
  bool declareInputs(FuncId);
  void declareResults(FuncId, const ImportGraph&, std::span<const ValueId>);
  void compareType(const ImportOutput&, const Type&);
  std::vector<ValueId> outputs(const ImportGraph&, Builder&);
  void convert(const ImportNode&, Builder&);
  std::optional<ImportResults> resultsOf(ImportContext&);
  void setResults(const ImportContext&, std::vector<Expr>);
  void setResult(const ImportNode&, size_t i, ValueId);
  void placeholders(const ImportNode&, Builder&);
  static std::string textOf(const Module&, const Type&);

  Module& m_;
  const ImportFile& file_;
  const ImportTable& table_;
  Diagnostics& diags_;
  std::vector<ImportProblem>* problems_;
  std::vector<ValueId> values_; // of ImportFile::values
  std::vector<bool> reported_;
  std::vector<StrId> arguments_; // names
  std::string where_;            // of the node
  bool good_ = true;
  int depth_ = 0;
};

void GraphImporter::problem(const std::string& op, SourceRange range, const DiagKind& kind,
                            std::initializer_list<std::string> args) {
  good_ = false;
  Diagnostic d;
  d.kind = &kind, d.range = range, d.args = args;
  if (problems_) {
    problems_->push_back({op, range, d.message(), where_});
    return;
  }
  const std::vector<std::string>& list = d.args;
  const auto arg = [&](size_t i) { return i < list.size() ? list[i] : std::string(); };
  Diagnostic& made = diags_.error(kind, range, arg(0), arg(1), arg(2), arg(3));
  // The listing's line ends with it, but may be cut off.
  if (!where_.empty()) made.note(range, "at " + where_);
}

StrId GraphImporter::label(const std::string& wanted, Labels& taken) {
  std::string name = wanted;
  for (uint32_t& n = taken[wanted]; n > 0 && taken.contains(name); ++n)
    name = wanted + "_" + std::to_string(n);
  ++taken[name];
  return m_.strings.intern(name);
}

AttrList GraphImporter::userAttrs(const std::string& name, const std::string& location) {
  AttrList out;
  const auto add = [&](const char* key, const std::string& text) {
    if (!text.empty()) out.push_back({m_.strings.intern(key), m_.attrs.string(m_.strings.intern(text))});
  };
  add("name", name);
  add("loc", location);
  return out;
}

std::string GraphImporter::textOf(const Module& m, const Type& t) {
  std::string out = std::string(dtypeName(t.dtype)) + "[";
  for (size_t i = 0; i < t.dims.size(); ++i) out += (i ? ", " : "") + printDim(t.dims[i], m.dims, m.strings);
  return out + "]";
}

// --- the function ---

// A buffer that the model changes.
static bool isUpdated(const ImportGraph& g, size_t input) {
  return std::ranges::any_of(g.outputs, [&](const ImportOutput& o) { return o.carriedTo == input; });
}

bool GraphImporter::declareInputs(FuncId f) {
  Labels taken;
  for (const ImportInput& input : file_.graphs[0].inputs) {
    const ImportValue& v = file_.values[input.value.index];
    const std::string name = importedName(input.label.empty() ? v.name : input.label);
    arguments_.push_back(label(name.empty() ? "x" : name, taken));
    if (!v.type) {
      problem("input", input.range, kImportUnsupported,
              {"%" + v.name, v.unsupported.empty() ? "has no declared type" : v.unsupported});
      continue;
    }
    const BlockId body = m_[f].body;
    const ValueId argument = m_.makeBlockArg(body, m_.types.intern(*v.type), arguments_.back());
    m_[argument].loc = input.range;
    m_[f].args.push_back({argument, {}, userAttrs(input.name, "")});
    if (input.weight && !isUpdated(file_.graphs[0], m_[f].args.size() - 1))
      m_[f].args.back().attrs.push_back({m_.strings.intern("frozen"), m_.attrs.boolean(true)});
    values_[input.value.index] = argument;
  }
  return good_;
}

void GraphImporter::compareType(const ImportOutput& o, const Type& type) {
  const DeclaredType& declared = *o.declared;
  bool same = declared.dtype == type.dtype && declared.sizes.size() == type.rank();
  std::string text = std::string(dtypeName(declared.dtype)) + "[";
  for (size_t i = 0; i < declared.sizes.size(); ++i) {
    const int64_t size = declared.sizes[i];
    text += (i ? ", " : "") + (size < 0 ? "?" : std::to_string(size));
    same = same && (size < 0 || !type.dims[i].isStatic() || type.dims[i].value() == size);
  }
  if (!same) diags_.warning(kImportOutputType, o.range, o.label, text + "]", textOf(m_, type));
}

void GraphImporter::declareResults(FuncId f, const ImportGraph& g, std::span<const ValueId> yields) {
  Labels taken;
  for (const ImportOutput& o : g.outputs)
    if (o.carriedTo) ++taken[std::string(m_.strings[arguments_[*o.carriedTo]])];
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const ImportOutput& o = g.outputs[i];
    FuncResult& r = m_[f].results.emplace_back();
    const std::string name = importedName(o.label);
    if (o.carriedTo)
      r.label = arguments_[*o.carriedTo];
    else
      r.label = label(name.empty() ? "y" : name, taken);
    r.type = m_[yields[i]].type;
    r.loc = o.range;
    r.attrs = userAttrs(o.name, "");
    if (o.declared) compareType(o, m_.types[r.type]);
    if (o.carriedTo) r.attrs.push_back({m_.strings.intern("carry"), m_.attrs.boolean(true)});
  }
}

std::vector<ValueId> GraphImporter::outputs(const ImportGraph& g, Builder& b) {
  std::vector<ValueId> out;
  for (const ImportOutput& o : g.outputs) {
    ImportNode node; // so that constants are read as a row reads them
    node.target = "output", node.range = o.range;
    node.arguments.push_back({"value", o.value});
    b.loc = o.range;
    b.common.clear();
    ImportContext c(file_, node, b, *this);
    Expr x;
    if (c.is<double>("value"))
      x = filled(b, DType::F32, {}, c.real("value"));
    else if (c.is<ImportInt>("value"))
      x = c.integerOperand(std::get<ImportInt>(o.value), DType::I64);
    else if (c.is<bool>("value"))
      x = filled(b, DType::Bool, {}, c.flag("value", false));
    else
      x = c.tensor("value");
    out.push_back(materialized(x));
  }
  return out;
}

bool GraphImporter::run() {
  const ImportGraph& g = file_.graphs[0];
  const FuncId f(static_cast<uint32_t>(m_.functions.size()));
  Function& made = m_.functions.emplace_back();
  made.name = m_.strings.intern("main");
  made.body = m_.makeBlock();
  const BlockId body = made.body;
  m_[body].parentFunc = f;
  if (!declareInputs(f)) return false;
  std::vector<OpId> ops;
  Builder b(m_, body, ops, diags_);
  b.forFile = true;
  for (const ImportNode& node : g.nodes) {
    if (diags_.full()) break;
    convert(node, b);
  }
  where_.clear();
  try {
    std::vector<ValueId> yields = outputs(g, b);
    declareResults(f, g, yields);
    m_[body].yields = std::move(yields);
  } catch (const ImportError& e) {
    if (!e.why.empty()) problem("output", b.loc, kImportUnsupported, {"output", e.why});
    good_ = false;
  } catch (const BuildError& e) {
    problem("output", b.loc, kImportUnsupported, {"output", "does not match its operands: " + e.what});
  }
  m_[body].ops = std::move(ops);
  m_.order.push_back(f);
  return good_;
}

std::vector<ValueId> GraphImporter::inlined(ImportGraphRef ref, std::span<const ValueId> inputs,
                                            Builder& in) {
  const ImportGraph& g = file_.graphs[ref.index];
  if (depth_ == kMaxDepth) throw ImportError{"has more than 64 levels of nested graphs"};
  if (inputs.size() != g.inputs.size())
    throw ImportError{"passes " + std::to_string(inputs.size()) + " values to a graph with " +
                      std::to_string(g.inputs.size()) + " inputs"};
  for (size_t i = 0; i < inputs.size(); ++i)
    if (g.inputs[i].value.valid()) values_[g.inputs[i].value.index] = inputs[i];
  const SourceRange loc = in.loc;
  const AttrList common = in.common;
  ++depth_;
  for (const ImportNode& node : g.nodes) convert(node, in);
  --depth_;
  std::vector<ValueId> out = outputs(g, in);
  in.loc = loc, in.common = common;
  return out;
}

// --- nodes ---

// The op as the user's file has it.
static const std::string& opOf(const ImportNode& node) {
  return node.written.empty() ? node.target : node.written;
}

void GraphImporter::convert(const ImportNode& node, Builder& b) {
  b.loc = node.range;
  b.common = userAttrs(node.name, node.location);
  where_ = node.location + (node.location.empty() || node.name.empty() ? "" : " (" + node.name + ")");
  const size_t before = b.out.size();
  const int depth = depth_;
  std::string why;
  try {
    if (!node.refused.empty()) throw ImportError{node.refused};
    if (m_.ops.size() > kMaxOps) throw ImportError{"makes the program larger than 4 million ops"};
    ImportContext c(file_, node, b, *this);
    if (const auto results = resultsOf(c)) return setResults(c, results->values);
    problem(opOf(node), node.range, kImportUnknownOp, {opOf(node), table_.remark(node)});
  } catch (const ImportError& e) {
    why = e.why;
  } catch (const BuildError& e) {
    why = "does not match its operands: " + e.what;
  } catch (const std::out_of_range&) { // of a list of dims or sizes
    why = "has an operand or a list with too few elements";
  } catch (const std::bad_alloc&) {
    why = "needs too much memory";
  } catch (const std::length_error&) {
    why = "needs too much memory";
  }
  good_ = false;
  depth_ = depth;
  if (!why.empty()) problem(opOf(node), node.range, kImportUnsupported, {opOf(node), why});
  b.out.resize(before);
  b.loc = node.range;
  placeholders(node, b);
}

std::optional<ImportResults> GraphImporter::resultsOf(ImportContext& c) {
  if (table_.convert) return table_.convert(c);
  const ImportRow* row = table_.find(c.node);
  if (!row) return std::nullopt;
  ImportResults results = row->convert(c);
  if (table_.unread)
    for (const ImportArgument& a : c.node.arguments)
      if (!c.wasRead(a))
        if (std::string why = table_.unread(c, a); !why.empty()) throw ImportError{std::move(why)};
  return results;
}

void GraphImporter::setResults(const ImportContext& c, std::vector<Expr> results) {
  const ImportNode& node = c.node;
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (!node.results[i].valid()) continue;
    Expr x = i < results.size() ? results[i] : Expr();
    if (!x.valid()) {
      values_[node.results[i].index] = {};
      continue;
    }
    const Type* declared = c.declared(i);
    x = materialized(x);
    // Index results are i32 in dtc and i64 elsewhere.
    if (declared && isInteger(declared->dtype) && isInteger(x.dtype())) x = x.as(declared->dtype);
    if (declared && *declared != x.type()) {
      problem(opOf(node), node.range, kImportStatedType,
              {opOf(node), file_.values[node.results[i].index].name, textOf(m_, *declared),
               textOf(m_, x.type())});
      throw ImportError{};
    }
    setResult(node, i, x);
  }
}

void GraphImporter::setResult(const ImportNode& node, size_t i, ValueId v) {
  const uint32_t index = node.results[i].index;
  values_[index] = v;
  if (m_[v].kind != ValueKind::OpResult || m_[v].name.valid()) return;
  if (const std::string name = importedName(file_.values[index].name); !name.empty())
    m_[v].name = m_.strings.intern(name);
}

// Results of a node that was reported, so that the nodes after it can be checked, too.
void GraphImporter::placeholders(const ImportNode& node, Builder& b) {
  for (ImportValueRef ref : node.results) {
    if (!ref.valid()) continue;
    values_[ref.index] = {};
    reported_[ref.index] = true;
    if (const std::optional<Type>& type = file_.values[ref.index].type) try {
        values_[ref.index] = filled(b, type->dtype, type->dims, 0);
      } catch (const BuildError&) {}
  }
}

} // namespace

std::string importedName(std::string_view name) {
  constexpr size_t kLongest = 80;
  std::string out;
  for (char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (good)
      out.push_back(c);
    else if (!out.empty() && out.back() != '_')
      out.push_back('_');
    if (out.size() > kLongest) break;
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (!out.empty() && out[0] >= '0' && out[0] <= '9') out.insert(0, "v_");
  return out;
}

bool importGraph(Module& m, const ImportFile& file, const ImportTable& table, Diagnostics& diags,
                 std::vector<ImportProblem>* problems) {
  return GraphImporter(m, file, table, diags, problems).run();
}

} // namespace dtc
