// Module to canonical text (ir.md).
#include "AttrTypes.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Naming.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Support/Utf8.h"
#include "infer/LocalTypes.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr size_t kHeadColumns = 110; // longer function signatures are broken into lines

// Bytes that are not UTF-8 or not printable are escaped.
std::string quoted(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const size_t length = utf8Length(text, i);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (length == 0 || byte < 0x20 || byte == 0x7f) {
      ((out += "\\x") += digits[byte >> 4]) += digits[byte & 15];
    } else {
      out += text.substr(i, length);
    }
    i += length ? length : 1;
  }
  return out + '"';
}

class Printer {
public:
  Printer(const Module& m, const PrintOptions& options) : m_(m), options_(options) {}

  std::string out;

  void mesh(const Mesh& mesh) {
    out += "mesh @";
    out += m_.strings[mesh.name];
    out += " = [";
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      if (i) out += ", ";
      out += m_.strings[mesh.axes[i].name];
      out += '=';
      out += std::to_string(mesh.axes[i].size);
    }
    out += ']';
    if (!mesh.devices.empty()) {
      out += " {devices = [";
      for (size_t i = 0; i < mesh.devices.size(); ++i)
        out += (i ? ", " : "") + std::to_string(mesh.devices[i]);
      out += "]}";
    }
    out += '\n';
  }

  void function(FuncId id) {
    const Function& f = m_[id];
    Naming naming(m_, id);
    naming_ = &naming;
    if (options_.types && f.spmd) types_.emplace(tables(), id);
    functionHead(f);
    out += " {\n";
    block(f.body, 1, "return");
    out += "}\n";
    types_.reset();
    naming_ = nullptr;
  }

  void op(OpId o, const Naming& naming) {
    naming_ = &naming;
    statement(o, 0);
    naming_ = nullptr;
  }

  void type(TypeId id) {
    const Type& t = m_.types[id];
    out += dtypeName(t.dtype);
    out += '[';
    for (size_t d = 0; d < t.dims.size(); ++d) {
      if (d) out += ", ";
      out += printDim(t.dims[d], m_.dims, m_.strings);
    }
    out += ']';
  }

  void sharding(ShardingId id) {
    const Sharding& s = m_.shardings[id];
    out += '@';
    const Mesh& mesh = m_.shardings.mesh(s.mesh);
    out += m_.strings[mesh.name];
    out += dtc::printSharding(s, mesh, m_.strings, options_.style);
  }

private:
  // --- function signatures ---

  // "%x: T of G sharding attrs" in three parts, so that lines can be aligned.
  struct HeadPart {
    std::string name, type, rest;
  };

  std::string captured(auto&& print) {
    std::string kept;
    std::swap(kept, out);
    print();
    std::swap(kept, out);
    return kept;
  }

  HeadPart headPart(std::string name, TypeId local, TypeId global, ShardingId s, const AttrList& attributes) {
    HeadPart p;
    p.name = std::move(name);
    p.type = captured([&] {
      type(local);
      if (!global.valid()) return;
      out += " of ";
      type(global);
    });
    p.rest = captured([&] {
      if (s.valid()) sharding(s);
      if (attributes.empty()) return;
      if (s.valid()) out += ' ';
      attrs(attributes, nullptr, DType::F64);
    });
    return p;
  }

  static std::string flat(const std::vector<HeadPart>& parts) {
    std::string text;
    for (const HeadPart& p : parts) {
      if (!text.empty()) text += ", ";
      text += p.name + (p.name.empty() ? "" : " ") + p.type + (p.rest.empty() ? "" : " ") + p.rest;
    }
    return text;
  }

  // One part per line, with names and types aligned; all but the first are indented by `indent`.
  static std::string stacked(const std::vector<HeadPart>& parts, size_t indent) {
    size_t names = 0, types = 0;
    for (const HeadPart& p : parts) {
      names = std::max(names, p.name.size());
      if (!p.rest.empty()) types = std::max(types, p.type.size());
    }
    std::string text;
    for (const HeadPart& p : parts) {
      if (&p != &parts.front()) text += ",\n" + std::string(indent, ' ');
      text += p.name + std::string(names - p.name.size() + (names ? 1 : 0), ' ') + p.type;
      if (!p.rest.empty()) text += std::string(types - p.type.size() + 1, ' ') + p.rest;
    }
    return text;
  }

  void functionHead(const Function& f) {
    std::vector<HeadPart> args, results;
    for (const FuncArg& a : f.args)
      args.push_back(
          headPart((*naming_)(a.value) + ":", m_[a.value].type, a.globalType, m_[a.value].sharding, a.attrs));
    for (const FuncResult& r : f.results) {
      std::string label = r.label.valid() ? "%" + std::string(m_.strings[r.label]) + ":" : "";
      results.push_back(headPart(std::move(label), r.type, r.globalType, r.sharding, r.attrs));
    }
    std::string tail = captured([&] {
      if (f.attrs.empty()) return;
      out += ' ';
      attrs(f.attrs, nullptr, DType::F64);
    });
    std::string head = (f.spmd ? "spmd func @" : "func @") + std::string(m_.strings[f.name]) + "(";
    std::string line = head + flat(args) + ") -> (" + flat(results) + ")" + tail;
    if (line.size() + 2 <= kHeadColumns) {
      out += line;
      return;
    }
    std::string before = head + stacked(args, head.size()) + ")";
    std::string after = " -> (" + flat(results) + ")" + tail;
    size_t lastLine = before.size() - (before.rfind('\n') + 1);
    if (lastLine + after.size() + 2 > kHeadColumns) {
      before += '\n';
      after = "    -> (";
      after += (after.size() + flat(results).size() + tail.size() + 3 <= kHeadColumns
                    ? flat(results)
                    : stacked(results, after.size()));
      after += ")" + tail;
    }
    out += before + after;
  }

  // --- statements ---

  void indent(size_t level) { out.append(level * 2, ' '); }

  void block(BlockId b, size_t level, std::string_view terminator) {
    for (OpId o : m_[b].ops) {
      indent(level);
      statement(o, level);
      if (types_ && m_[o].numResults) typesComment(o);
      out += '\n';
    }
    indent(level);
    out += terminator;
    values(m_[b].yields, " ");
    out += '\n';
  }

  void values(std::span<const ValueId> list, std::string_view before) {
    for (size_t i = 0; i < list.size(); ++i) {
      out += i ? ", " : before;
      value(list[i]);
    }
  }

  void value(ValueId v) {
    const Value& value = m_[v];
    if (value.kind == ValueKind::Literal)
      attr(m_.attrs[value.literal], value.type.valid() ? m_.types[value.type].dtype : DType::F64);
    else if (value.kind == ValueKind::Symbol)
      out += printDim(value.symbol, m_.dims, m_.strings);
    else
      naming_->append(out, v);
  }

  void statement(OpId o, size_t level) {
    const Op& op = m_[o];
    const OpRecord& record = m_.record(o);
    for (uint32_t i = 0; i < op.numResults; ++i) {
      if (i) out += ", ";
      naming_->append(out, m_.result(o, i));
    }
    if (op.numResults) out += " = ";
    out += record.name;
    operandsOf(o, record);
    if (!op.attrs.empty()) {
      out += ' ';
      attrs(op.attrs, &record, op.numResults ? resultDType(o) : DType::F64);
    }
    bool local = options_.types && record.regions == RegionKind::Local;
    if (local) types_.emplace(tables(), o);
    for (uint32_t r = 0; r < op.numRegions; ++r) {
      out += " {\n";
      block(m_.region(o, r), level + 1, "yield");
      indent(level);
      out += '}';
    }
    if (local) types_.reset();
    for (uint32_t i = 0; i < op.numResults; ++i) {
      const Value& v = m_[m_.result(o, i)];
      out += i ? ", " : " : ";
      if (v.type.valid()) type(v.type);
      if (!v.sharding.valid()) continue;
      out += ' ';
      sharding(v.sharding);
    }
  }

  // --types: the type of each result along each axis.
  void typesComment(OpId o) {
    for (uint32_t i = 0; i < m_[o].numResults; ++i)
      if (std::string text = types_->text(m_.result(o, i)); !text.empty()) out += (i ? "; " : "  // ") + text;
  }
  // The analysis may intern into the module's tables, so it runs on a copy.
  Module& tables() {
    if (!copy_) copy_ = std::make_unique<Module>(m_);
    return *copy_;
  }

  DType resultDType(OpId o) const {
    TypeId t = m_[m_.result(o)].type;
    return t.valid() ? m_.types[t].dtype : DType::F64;
  }

  void operandsOf(OpId o, const OpRecord& record) {
    std::span<const ValueId> operands = m_.operands(o);
    if (record.isCall) {
      out += " @";
      out += m_.strings[m_[o].callee];
      out += '(';
      values(operands, "");
      out += ')';
      return;
    }
    switch (record.regions) {
    case RegionKind::None:
    case RegionKind::Cond: values(operands, " "); return;
    case RegionKind::For: {
      const Block& body = m_[m_.region(o)];
      out += ' ';
      naming_->append(out, body.args[0]);
      out += " in ";
      value(operands[0]);
      out += "..";
      value(operands[1]);
      if (operands.size() > 2) binds(body, 1, operands.subspan(2));
      return;
    }
    default: binds(m_[m_.region(o)], 0, operands);
    }
  }

  // " (%a = %x : T sharding, …)" for a block's arguments from `first` on.
  void binds(const Block& b, size_t first, std::span<const ValueId> starts) {
    out += " (";
    for (size_t i = 0; i < starts.size(); ++i) {
      if (i) out += ", ";
      ValueId arg = b.args[first + i];
      naming_->append(out, arg);
      out += " = ";
      value(starts[i]);
      ShardingId s = m_[arg].sharding;
      bool isNumber = m_[starts[i]].kind == ValueKind::Literal || m_[starts[i]].kind == ValueKind::Symbol;
      if (isNumber || s.valid()) {
        out += " : ";
        type(m_[starts[i]].type);
      }
      if (!s.valid()) continue;
      out += ' ';
      sharding(s);
    }
    out += ')';
  }

  // --- attributes ---

  // `element`: the dtype of the elements of a `value`.
  void attrs(const AttrList& list, const OpRecord* record, DType element) {
    out += '{';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out += ", ";
      std::string_view name = m_.strings[list[i].name];
      out += name;
      out += " = ";
      bool ofElements =
          record && std::any_of(record->attrs.begin(), record->attrs.end(),
                                [&](const AttrSpec& s) { return isOfElements(s) && name == s.name; });
      attr(m_.attrs[list[i].value], ofElements ? element : DType::F64);
    }
    out += '}';
  }

  void attr(const Attr& a, DType dtype) {
    switch (a.kind) {
    case Attr::Int:
      out += a.isUnsigned ? std::to_string(static_cast<uint64_t>(a.i)) : std::to_string(a.i);
      return;
    case Attr::Float: out += printFloat(a.f, isFloat(partType(dtype)) ? partType(dtype) : DType::F64); return;
    case Attr::Bool: out += a.i ? "true" : "false"; return;
    case Attr::String: out += quoted(m_.strings[a.text]); return;
    case Attr::Word: out += m_.strings[a.text]; return;
    case Attr::Size: out += printDim(a.dim, m_.dims, m_.strings); return;
    case Attr::Axis: out += printAxis(a.axis, m_.strings); return;
    case Attr::Symbol:
      out += '@';
      out += m_.strings[a.text];
      return;
    case Attr::List: break;
    }
    out += '[';
    for (size_t i = 0; i < a.list.size(); ++i) {
      if (i) out += ", ";
      attr(m_.attrs[a.list[i]], dtype);
    }
    out += ']';
  }

  const Module& m_;
  PrintOptions options_;
  const Naming* naming_ = nullptr;
  std::optional<LocalTypes> types_; // with --types, in local text
  std::unique_ptr<Module> copy_;    // the module that types_ analyzes
};

// The function that contains a block; invalid for a block that is not in a function yet.
FuncId functionOf(const Module& m, BlockId b) {
  while (!m[b].parentFunc.valid() && m[b].parentOp.valid() && m[m[b].parentOp].parent.valid())
    b = m[m[b].parentOp].parent;
  return m[b].parentFunc;
}

} // namespace

std::string printModule(const Module& m, const PrintOptions& options) {
  Printer p(m, options);
  for (uint32_t i = 0; i < m.shardings.numMeshes(); ++i) p.mesh(m.shardings.mesh(MeshId(i)));
  for (FuncId f : m.order) {
    if (!m[f].body.valid()) continue;
    if (!p.out.empty()) p.out += '\n';
    p.function(f);
  }
  return std::move(p.out);
}

std::string printOp(const Module& m, OpId o, const PrintOptions& options) {
  Printer p(m, options);
  p.op(o, Naming(m, m[o].parent.valid() ? functionOf(m, m[o].parent) : FuncId()));
  return std::move(p.out);
}

std::string printType(const Module& m, TypeId t) {
  Printer p(m, {});
  p.type(t);
  return std::move(p.out);
}

std::string printSharding(const Module& m, ShardingId s, const PrintOptions& options) {
  Printer p(m, options);
  p.sharding(s);
  return std::move(p.out);
}

// The function that contains v; if v has no name in one, empty, and `text` is set.
static FuncId namingFunction(const Module& m, ValueId v, std::string& text) {
  const Value& value = m[v];
  if (value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) {
    text = value.kind == ValueKind::Symbol ? printDim(value.symbol, m.dims, m.strings) : "a number";
    return {};
  }
  BlockId b = value.kind == ValueKind::OpResult ? m[OpId(value.owner)].parent : BlockId(value.owner);
  FuncId f = b.valid() ? functionOf(m, b) : FuncId();
  if (!f.valid()) text = value.name.valid() ? "%" + std::string(m.strings[value.name]) : "a value";
  return f;
}

std::string printValueName(const Module& m, ValueId v) {
  std::string text;
  const FuncId f = namingFunction(m, v, text);
  return f.valid() ? Naming(m, f)(v) : text;
}

std::string ValueNames::operator()(ValueId v) const {
  std::string text;
  const FuncId f = namingFunction(m_, v, text);
  if (!f.valid()) return text;
  auto it = functions_.find(f);
  if (it == functions_.end()) it = functions_.emplace(f, Naming(m_, f)).first;
  return it->second(v);
}

} // namespace dtc
