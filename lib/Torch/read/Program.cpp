#include "read/Program.h"

#include "dtc/Files/Pt2.h"
#include "dtc/Import/program/GraphImport.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"
#include "read/Arguments.h"
#include "read/Outputs.h"

#include <algorithm>
#include <cctype>
#include <new>
#include <unordered_map>

namespace dtc {
namespace {

using nlohmann::json;

constexpr int kMaxGraphDepth = 64;
constexpr int64_t kSchemaMajor = 8;
constexpr size_t kMaxRank = 64;

[[noreturn]] void malformed(const std::string& what) { throw TorchSchemaError{what}; }

class ProgramReader {
public:
  explicit ProgramReader(TorchSymbols& symbols) : symbols_(symbols) {}
  ImportFile run(const json& program);

private:
  // The names of one graph.
  struct Names {
    const json* tensors = nullptr; // metadata
    const json* sizes[3] = {};     // sym_int_values, sym_float_values, sym_bool_values
    std::unordered_map<std::string, uint32_t> values;
  };
  uint32_t graph(const json& g, std::string name, int depth);
  ImportValueRef value(Names&, const std::string& name);
  ImportInt size(Names&, const std::string& name);
  std::optional<Type> typeOf(const json& meta, std::string& why);
  void readStrides(const json& meta, ImportValue&);
  void node(Names&, const TorchNames&, const json&, ImportGraph&);
  bool results(Names&, const json& output, std::vector<ImportValueRef>& out);
  void inputs(Names&, const json& list, ImportGraph&);
  void signature(const json& signature, const json& graph, uint32_t main);
  void inputSpec(const json& spec, ImportInput& input);
  void outputSpec(const json& spec, const ImportGraph&, ImportOutput& output);

  TorchSymbols& symbols_;
  ImportFile file_;
};

// --- values ---

// True for an expression with symbols such as u0 and zuf0: sizes that the program computes.
static bool dependsOnData(std::string_view expression) {
  const auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t i = 0; i < expression.size(); ++i) {
    const size_t begin = i;
    while (i < expression.size() && isWord(expression[i])) ++i;
    const std::string_view word = expression.substr(begin, i - begin);
    if ((word.starts_with('u') || word.starts_with("zu")) &&
        std::isdigit(static_cast<unsigned char>(word.back())))
      return true;
  }
  return false;
}

std::optional<Type> ProgramReader::typeOf(const json& meta, std::string& why) {
  Type out;
  const int64_t number = integerOf(memberOf(meta, "dtype"));
  const auto dtype = torchDType(number);
  if (!dtype) {
    why = "has the dtype " + torchDTypeName(number) + ", which dtc lacks";
    return std::nullopt;
  }
  out.dtype = *dtype;
  const json& sizes = listOf(meta, "sizes");
  if (sizes.size() > kMaxRank) malformed("has a tensor of more than 64 dims");
  int64_t bytes = dtypeBytes(*dtype);
  for (const json& j : sizes) {
    const auto [key, written] = unionOf(j);
    const ImportInt i = key == "as_expr" ? symbols_.read(stringOf(memberOf(*written, "expr_str"), "a size"))
                                         : ImportInt(integerOf(*written));
    if (!i.expression.empty()) {
      why =
          "has the size " + i.expression +
          (dependsOnData(i.expression) ? ", which depends on data, and dtc has static sizes"
                                       : ", which is not a product of symbolic sizes: bind them with --dim");
      return std::nullopt;
    }
    if (!i.size && i.number < 0) malformed("has a tensor with a negative size");
    out.dims.push_back(i.size ? *i.size : Dim(i.number));
    const auto product = checkedMul(bytes, i.size ? 1 : std::max<int64_t>(i.number, 1));
    if (!product) malformed("has a tensor of more than 2^63-1 bytes");
    bytes = *product;
  }
  return out;
}

// Sets what the strides say. Symbolic ones count as row-major. Those of dims of size 1 say nothing.
void ProgramReader::readStrides(const json& meta, ImportValue& v) {
  const json* strides = findMember(meta, "strides");
  const std::vector<Dim>& dims = v.type->dims;
  if (!strides || !strides->is_array() || strides->size() != dims.size()) return;
  v.strides.emplace();
  for (const json& j : *strides) {
    const auto [key, written] = unionOf(j);
    v.strides->push_back(key == "as_expr"
                             ? symbols_.read(stringOf(memberOf(*written, "expr_str"), "a stride"))
                             : ImportInt(integerOf(*written)));
  }
  if (const json* offset = findMember(meta, "storage_offset")) {
    const auto [key, written] = unionOf(*offset);
    v.storageOffset = key == "as_expr" ? symbols_.read(stringOf(memberOf(*written, "expr_str"), "an offset"))
                                       : ImportInt(integerOf(*written));
  }
  v.contiguous = true;
  std::optional<Dim> expected = Dim(1);
  for (size_t i = dims.size(); i-- > 0;) {
    const ImportInt& s = (*v.strides)[i];
    if (dims[i] == Dim(1)) continue;
    const bool equal = expected && s.expression.empty() && (s.size ? *s.size : Dim(s.number)) == *expected;
    v.contiguous &= equal;
    if (s.isNumber() && expected && expected->isStatic() && dims[i].isStatic() && !equal) v.rowMajor = false;
    if (expected && dims[i] != Dim(0)) expected = symbols_.product(*expected, dims[i]);
  }
}

ImportValueRef ProgramReader::value(Names& names, const std::string& name) {
  const auto [found, fresh] = names.values.try_emplace(name, static_cast<uint32_t>(file_.values.size()));
  if (!fresh) return {found->second};
  ImportValue& v = file_.values.emplace_back();
  v.name = name;
  if (const json* meta = findMember(*names.tensors, name.c_str())) {
    v.type = typeOf(*meta, v.unsupported);
    v.rowMajor = v.type.has_value();
    if (v.type) readStrides(*meta, v);
    if (const json* device = findMember(*meta, "device")) v.device = device->dump();
  }
  return {found->second};
}

ImportInt ProgramReader::size(Names& names, const std::string& name) {
  for (const json* table : names.sizes) {
    const json* meta = table ? findMember(*table, name.c_str()) : nullptr;
    if (!meta) continue;
    const auto [key, written] = unionOf(*meta);
    if (key == "as_int") return integerOf(*written);
    if (key == "as_bool" && written->is_boolean()) return written->get<bool>() ? 1 : 0;
    if (key != "as_expr") continue;
    ImportInt out = symbols_.read(stringOf(memberOf(*written, "expr_str"), "a size"));
    if (!out.expression.empty()) out.value = value(names, name);
    return out;
  }
  ImportInt out;
  out.expression = name.substr(0, 80);
  out.value = value(names, name);
  return out;
}

// --- nodes ---

// The user's line: the innermost frame that is not PyTorch's own.
std::string userLine(std::string_view trace) {
  std::string own, any;
  size_t at = 0;
  while ((at = trace.find("File \"", at)) != trace.npos) {
    at += 6;
    const size_t end = trace.find("\", line ", at);
    if (end == trace.npos) break;
    const std::string_view file = trace.substr(at, end - at);
    const auto line = leadingNumber<int64_t>(trace.substr(end + 8));
    at = end;
    if (!line || file.size() > 1000) continue;
    const std::string text = std::string(file) + ":" + std::to_string(*line);
    any = text;
    const bool library =
        file.find("-packages/torch/") != file.npos || file.starts_with("torch/") || file.starts_with('<');
    if (!library) own = text;
  }
  return own.empty() && !any.starts_with("torch/") && !any.starts_with('<') ? any : own;
}

// "L__self__,,__main__.Mlp;L__self__up,up,torch.nn.modules.linear.Linear" -> "up"
std::string modulePath(std::string_view stack) {
  const size_t last = stack.rfind(';');
  std::string_view entry = last == stack.npos ? stack : stack.substr(last + 1);
  const size_t first = entry.find(',');
  if (first == entry.npos) return "";
  entry.remove_prefix(first + 1);
  std::string_view path = entry.substr(0, entry.find(','));
  return path.starts_with("_empty_nn_module_stack") ? "" : std::string(path.substr(0, 200));
}

// Adds the values of one output. False for a symbolic size that is known without the node.
bool ProgramReader::results(Names& names, const json& output, std::vector<ImportValueRef>& out) {
  const auto [key, written] = unionOf(output);
  if (key == "as_tensor") {
    out.push_back(value(names, stringOf(memberOf(*written, "name"), "a name")));
  } else if (key == "as_tensors") {
    if (!written->is_array()) malformed("has as_tensors that is not a list");
    for (const json& t : *written) out.push_back(value(names, stringOf(memberOf(t, "name"), "a name")));
  } else if (key == "as_optional_tensor" || key == "as_optional_tensors") {
    const json list = written->is_array() ? *written : json::array({*written});
    for (const json& t : list) {
      const auto [kind, tensor] = unionOf(t);
      out.push_back(kind == "as_none" ? ImportValueRef()
                                      : value(names, stringOf(memberOf(*tensor, "name"), "a name")));
    }
  } else if (key == "as_sym_int" || key == "as_sym_float" || key == "as_sym_bool") {
    const auto [kind, name] = unionOf(*written);
    if (kind != "as_name") return false;
    const ImportInt known = size(names, stringOf(*name, "a name"));
    if (!known.value.valid()) return false;
    out.push_back(known.value);
  } else {
    out.emplace_back(); // none, a number
    return key != "as_int";
  }
  return true;
}

void ProgramReader::node(Names& names, const TorchNames& torch, const json& j, ImportGraph& g) {
  ImportNode n;
  n.target = stringOf(memberOf(j, "target"), "a target");
  for (const std::string_view prefix : {"torch.ops.", "torch._ops."})
    if (n.target.starts_with(prefix)) n.target = n.target.substr(prefix.size());
  bool known = !listOf(j, "outputs").empty();
  for (const json& output : listOf(j, "outputs")) known &= !results(names, output, n.results);
  if (known) return; // sizes, which have their expressions
  for (const json& input : listOf(j, "inputs"))
    n.arguments.push_back(
        {stringOf(memberOf(input, "name"), "a name"), readTorchArgument(memberOf(input, "arg"), torch)});
  if (const json* metadata = findMember(j, "metadata")) {
    if (const json* trace = findMember(*metadata, "stack_trace"))
      n.location = userLine(stringOf(*trace, "a stack trace"));
    if (const json* stack = findMember(*metadata, "nn_module_stack"))
      n.name = modulePath(stringOf(*stack, "a module stack"));
  }
  g.nodes.push_back(std::move(n));
}

// --- graphs ---

void ProgramReader::inputs(Names& names, const json& list, ImportGraph& g) {
  for (const json& j : list) {
    const auto [key, written] = unionOf(j);
    ImportInput& input = g.inputs.emplace_back();
    if (key == "as_tensor") input.value = value(names, stringOf(memberOf(*written, "name"), "a name"));
  }
}

uint32_t ProgramReader::graph(const json& j, std::string name, int depth) {
  if (depth > kMaxGraphDepth) malformed("has more than 64 levels of nested graphs");
  const auto index = static_cast<uint32_t>(file_.graphs.size());
  file_.graphs.emplace_back();
  ImportGraph g;
  g.name = std::move(name);
  Names names;
  names.tensors = &memberOf(j, "tensor_values");
  const char* tables[] = {"sym_int_values", "sym_float_values", "sym_bool_values"};
  for (size_t i = 0; i < std::size(tables); ++i) names.sizes[i] = findMember(j, tables[i]);
  const TorchNames torch{
      [&](const std::string& n) { return value(names, n); },
      [&](const std::string& n) { return size(names, n); },
      [&](const json& inner) {
        return ImportGraphRef{
            graph(memberOf(inner, "graph"), stringOf(memberOf(inner, "name"), "a name"), depth + 1)};
      },
  };
  inputs(names, listOf(j, "inputs"), g);
  for (const json& n : listOf(j, "nodes")) node(names, torch, n, g);
  for (const json& o : listOf(j, "outputs")) g.outputs.emplace_back().value = readTorchArgument(o, torch);
  file_.graphs[index] = std::move(g);
  return index;
}

// --- the signature ---

void ProgramReader::inputSpec(const json& spec, ImportInput& input) {
  const auto [kind, written] = unionOf(spec);
  const std::pair<std::string_view, const char*> weights[] = {{"parameter", "parameter_name"},
                                                              {"buffer", "buffer_name"},
                                                              {"tensor_constant", "tensor_constant_name"}};
  for (const auto& [name, key] : weights)
    if (kind == name) {
      input.name = stringOf(memberOf(*written, key), "a name");
      input.weight = true;
    }
  if (kind == "token") input.value = {}; // orders ops with effects, of which dtc keeps none
  if (kind == "custom_obj") malformed("has an input of the kind custom_obj");
}

void ProgramReader::outputSpec(const json& spec, const ImportGraph& g, ImportOutput& output) {
  const auto [kind, written] = unionOf(spec);
  const std::pair<std::string_view, const char*> carried[] = {{"buffer_mutation", "buffer_name"},
                                                              {"parameter_mutation", "parameter_name"},
                                                              {"user_input_mutation", "user_input_name"}};
  for (const auto& [name, key] : carried) {
    if (kind != name) continue;
    const std::string& target = stringOf(memberOf(*written, key), "a name");
    const auto to = std::ranges::find_if(g.inputs, [&](const ImportInput& i) {
      return i.name == target || (i.value.valid() && file_.values[i.value.index].name == target);
    });
    if (to == g.inputs.end()) malformed("changes the input " + jsonString(target) + ", which does not exist");
    output.carriedTo = static_cast<size_t>(to - g.inputs.begin());
  }
  if (kind == "gradient_to_parameter")
    output.name = "grad." + stringOf(memberOf(*written, "parameter_name"), "a name");
  if (kind == "token") output.value = std::monostate();
}

void ProgramReader::signature(const json& signature, const json& graph, uint32_t main) {
  ImportGraph& g = file_.graphs[main];
  const json &in = listOf(signature, "input_specs"), &out = listOf(signature, "output_specs");
  if (in.size() != g.inputs.size() || out.size() != g.outputs.size() ||
      listOf(graph, "inputs").size() != in.size())
    malformed("has a signature that does not match its graph");
  for (size_t i = 0; i < in.size(); ++i) inputSpec(in[i], g.inputs[i]);
  for (size_t i = 0; i < out.size(); ++i) outputSpec(out[i], g, g.outputs[i]);
}

// Outputs that are values of a dict have the names of its keys.
void nameOutputs(ImportGraph& g, const json& program, const json& specs) {
  const std::vector<std::string> paths = outputPaths(program);
  const auto ofUser = [](const json& spec) { return unionOf(spec).first == "user_output"; };
  if (static_cast<size_t>(std::ranges::count_if(specs, ofUser)) != paths.size()) return;
  size_t next = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!ofUser(specs[i])) continue;
    const std::string& path = paths[next++];
    if (path.empty()) continue;
    g.outputs[i].label = path;
    if (importedName(path) != path) g.outputs[i].name = path;
  }
}

// Removes inputs that are not tensors, and outputs that are none.
void dropConstants(ImportFile& file) {
  ImportGraph& g = file.graphs[0];
  std::vector<size_t> kept(g.inputs.size());
  std::vector<ImportInput> inputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    kept[i] = inputs.size();
    if (g.inputs[i].value.valid()) inputs.push_back(std::move(g.inputs[i]));
  }
  g.inputs = std::move(inputs);
  std::erase_if(g.outputs, [](const ImportOutput& o) {
    const auto* ref = std::get_if<ImportValueRef>(&o.value);
    return std::holds_alternative<std::monostate>(o.value) || std::holds_alternative<std::string>(o.value) ||
           (ref && !ref->valid());
  });
  for (ImportOutput& o : g.outputs) {
    if (o.carriedTo) o.carriedTo = kept[*o.carriedTo];
    if (const auto* ref = std::get_if<ImportValueRef>(&o.value); ref && o.label.empty())
      o.label = file.values[ref->index].name;
  }
}

ImportFile ProgramReader::run(const json& program) {
  const json& version = memberOf(program, "schema_version");
  if (const int64_t major = integerOf(memberOf(version, "major")); major != kSchemaMajor)
    malformed("has the schema version " + std::to_string(major) +
              ", but dtc reads version 8: save the program "
              "with PyTorch 2.5 or later");
  const json& module = memberOf(program, "graph_module");
  const json& main = memberOf(module, "graph");
  const uint32_t index = graph(main, "main", 0);
  signature(memberOf(module, "signature"), main, index);
  nameOutputs(file_.graphs[index], program, listOf(memberOf(module, "signature"), "output_specs"));
  dropConstants(file_);
  return std::move(file_);
}

} // namespace

Result<ImportFile> readTorchProgram(const std::string& text, TorchSymbols& symbols,
                                    TorchPlacement& placement) {
  try {
    const json program = json::parse(text, nullptr, false);
    if (program.is_discarded()) return inputError("is not JSON");
    placement = readPlacement(program);
    return ProgramReader(symbols).run(program);
  } catch (const TorchSchemaError& e) {
    return inputError(e.what);
  } catch (const std::bad_alloc&) {
    return machineError("not enough memory");
  }
}

} // namespace dtc
