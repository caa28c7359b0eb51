// Walks the IR section of a VHLO program and writes it as StableHLO text.
#include "dtc/StableHlo/vhlo/Vhlo.h"

#include "vhlo/JaxExport.h"
#include "vhlo/VhloOps.h"

#include <algorithm>
#include <map>

namespace dtc {

namespace {

enum OpMask : uint8_t {
  kHasAttrs = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseLists = 32,
  kHasProperties = 64
};

// The values of a function or module. Those of a region begin after all values of the regions around it.
struct Values {
  struct Value {
    std::string name; // empty before the definition
    uint32_t type = 0;
  };
  std::vector<Value> all;
};

// The names that a function has used.
struct Names {
  std::map<std::string, uint32_t, std::less<>> constants; // how many there are of a name
  uint32_t nextNumber = 0, nextArg = 0;

  std::string constant(const std::string& base) {
    const uint32_t n = constants[base]++;
    return base + (n ? "_" + std::to_string(n - 1) : "");
  }
};

// A region whose ops are being read.
struct Frame {
  Values& values;
  Names& names;
  size_t next;  // value
  size_t depth; // of the text
  std::string_view parent;
};

class ProgramWriter {
public:
  ProgramWriter(std::string_view file, const Bytecode& bc, BcText& text, ByteFault& fault)
      : file_(file), bc_(bc), text_(text), fault_(fault) {}

  bool write() {
    ByteCursor c(file_, bc_.ir, fault_);
    Values none;
    Names names;
    Frame top{none, names, 0, 0, ""};
    bool hasArgs = false;
    const uint64_t ops = c.flagged(hasArgs);
    if (c.ok() && (ops != 1 || hasArgs)) return c.fail("expected one op, a module");
    if (!op(c, top)) return false;
    text_.locations();
    return text_.ok() || c.fail(text_.why());
  }

private:
  struct Op {
    std::string name; // "vhlo.add_v1"
    uint32_t loc = 0;
    std::vector<VhloAttr> attrs, properties;
    std::vector<uint32_t> results;
    std::vector<uint64_t> operands; // values
    uint64_t numRegions = 0;
    bool isolated = false;
  };

  bool readAttributes(ByteCursor& c, Op& o) const {
    const uint64_t i = c.index(bc_.attrs.size(), "attribute");
    if (!c.ok()) return false;
    const BcNode& d = bc_.attrs[i];
    if (!d.is(BcKind::Dict)) return c.fail("the attributes of an op are not a dictionary");
    for (size_t k = 0; k + 1 < d.attrs.size(); k += 2)
      o.attrs.push_back({text_.stringOf(d.attrs[k]), d.attrs[k + 1]});
    return true;
  }

  // The properties of an op, whose names its row lists.
  bool readProperties(ByteCursor& c, Op& o, bool registered) const {
    if (!registered) return c.fail("'" + o.name + "' has properties of an unregistered op");
    const uint64_t i = c.index(bc_.properties.size(), "properties");
    const BcOpRow* row = findBcOp(o.name);
    if (!row) return c.fail("op '" + o.name + "' is unknown: its attributes cannot be read");
    if (!c.ok()) return false;
    ByteCursor p = c.over(bc_.properties[i]);
    for (std::string_view rest = row->attrs; !rest.empty() && p.ok();) {
      std::string_view name = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      bool given = true;
      const bool optional = name.ends_with('?');
      if (optional) name.remove_suffix(1);
      const uint64_t attr = optional ? p.flagged(given) : p.number();
      if (p.ok() && given && attr >= bc_.attrs.size())
        p.fail("attribute " + std::to_string(attr) + " does not exist");
      if (p.ok() && given) o.properties.push_back({name, static_cast<uint32_t>(attr)});
    }
    return p.ok() && (p.atEnd() || p.fail("'" + o.name + "' has more properties than expected"));
  }

  static void skipUseLists(ByteCursor& c, size_t values) {
    for (uint64_t n = values > 1 ? c.count() : 1; n > 0 && c.ok(); --n) {
      if (values > 1) (void)c.number();
      bool pairs = false;
      const uint64_t indices = c.flagged(pairs);
      if (indices > c.left()) c.fail("a list of uses is longer than the data");
      for (uint64_t k = 0; k < indices && c.ok(); ++k) (void)c.number();
    }
  }

  bool header(ByteCursor& c, Op& o, const Values& values) const {
    const uint64_t name = c.index(bc_.ops.size(), "op");
    const uint8_t mask = c.byte();
    o.loc = static_cast<uint32_t>(c.index(bc_.attrs.size(), "location"));
    if (!c.ok()) return false;
    o.name = std::string(bc_.ops[name].dialect) + "." + std::string(bc_.ops[name].name);
    if (mask & kHasAttrs && !readAttributes(c, o)) return false;
    if (mask & kHasProperties && !readProperties(c, o, bc_.ops[name].registered)) return false;
    if (mask & kHasResults)
      for (uint64_t n = c.count(); n > 0 && c.ok(); --n)
        o.results.push_back(static_cast<uint32_t>(c.index(bc_.types.size(), "type")));
    if (mask & kHasOperands)
      for (uint64_t n = c.count(); n > 0 && c.ok(); --n) {
        const uint64_t v = c.number();
        if (c.ok() && (v >= values.all.size() || values.all[v].name.empty()))
          return c.fail("value " + std::to_string(v) + " is used before its definition");
        o.operands.push_back(v);
      }
    if (mask & kHasSuccessors) return c.fail("branches to other blocks are unsupported");
    if (mask & kHasUseLists) skipUseLists(c, o.results.size());
    if (mask & kHasRegions) o.numRegions = c.flagged(o.isolated);
    if (o.numRegions > c.left()) return c.fail("an op has too many regions");
    return c.ok();
  }

  void line(size_t depth) {
    if (!text_.out.empty()) text_.out += '\n';
    text_.out.append(2 * depth, ' ');
  }

  [[nodiscard]] bool good(ByteCursor& c) const {
    return c.ok() && ((text_.withinLimit() && text_.ok()) || c.fail(text_.why()));
  }

  bool define(ByteCursor& c, Frame& f, std::string name, uint32_t type) {
    if (f.next >= f.values.all.size()) return c.fail("a region has more values than it says");
    f.values.all[f.next++] = {std::move(name), type};
    return true;
  }

  // "vhlo.add_v1" is "stablehlo.add".
  static std::string stableName(const std::string& name, std::string_view parent) {
    if (!name.starts_with("vhlo.")) return name;
    std::string stem = name.substr(5);
    if (const size_t v = stem.rfind("_v"); v != std::string::npos) stem.resize(v);
    const bool ofFunctions = stem == "call" || stem == "func" || (stem == "return" && parent == "func.func");
    return (ofFunctions ? "func." : "stablehlo.") + stem;
  }

  bool op(ByteCursor& c, Frame& f) {
    Op o;
    if (!header(c, o, f.values)) return false;
    o.properties.insert(o.properties.end(), o.attrs.begin(), o.attrs.end());
    const std::string name = stableName(o.name, f.parent);
    if (name == "builtin.unrealized_conversion_cast") return cast(c, o, f);
    line(f.depth);
    if (name == "builtin.module") return module(c, o, f);
    if (name == "func.func") return function(c, o, f);
    if (!o.results.empty() && !defineResults(c, o, f)) return false;
    text_.out += '"' + name + "\"(";
    for (size_t i = 0; i < o.operands.size(); ++i)
      text_.out += (i ? ", %" : "%") + f.values.all[o.operands[i]].name;
    text_.out += ')';
    attributes(o, name);
    if (o.numRegions && !regions(c, o, f, name)) return false;
    signature(o, f.values);
    text_.loc(o.loc);
    return good(c);
  }

  // Between types of VHLO and of another dialect, which are the same in the text.
  bool cast(ByteCursor& c, const Op& o, Frame& f) {
    if (o.results.size() != o.operands.size() || o.numRegions)
      return c.fail("a cast has other results than operands");
    for (size_t i = 0; i < o.results.size(); ++i)
      if (!define(c, f, f.values.all[o.operands[i]].name, o.results[i])) return false;
    return true;
  }

  // "%0:2 = "
  bool defineResults(ByteCursor& c, const Op& o, Frame& f) {
    const bool constant = o.name == "vhlo.constant_v1" && o.results.size() == 1;
    const std::string base =
        constant
            ? f.names.constant(text_.typeText(o.results[0]).find('f') == std::string_view::npos ? "c" : "cst")
            : std::to_string(f.names.nextNumber++);
    const bool several = o.results.size() > 1;
    for (size_t i = 0; i < o.results.size(); ++i)
      if (!define(c, f, several ? base + "#" + std::to_string(i) : base, o.results[i])) return false;
    text_.out += "%" + base + (several ? ":" + std::to_string(o.results.size()) : "") + " = ";
    return true;
  }

  void attributes(const Op& o, std::string_view name) {
    if (o.properties.empty()) return;
    const size_t begin = text_.out.size();
    text_.out += " <{";
    const size_t empty = text_.out.size();
    writeStableHloAttrs(text_, bc_, name.substr(name.find('.') + 1), o.properties);
    if (text_.out.size() == empty)
      text_.out.resize(begin);
    else
      text_.out += "}>";
  }

  void signature(const Op& o, const Values& values) {
    text_.out += " : (";
    for (size_t i = 0; i < o.operands.size(); ++i) {
      if (i) text_.out += ", ";
      text_.type(values.all[o.operands[i]].type);
    }
    text_.out += ") -> (";
    for (size_t i = 0; i < o.results.size(); ++i) {
      if (i) text_.out += ", ";
      text_.type(o.results[i]);
    }
    text_.out += ')';
  }

  // The regions of an op, in a section of their own if they are isolated.
  bool regions(ByteCursor& c, const Op& o, Frame& f, std::string_view name) {
    text_.out += " (";
    const bool read = inRegions(c, o, f, [&](ByteCursor& r, Frame& inner, uint64_t i) {
      text_.out += i ? ", {" : "{";
      if (!region(r, inner, name)) return false;
      line(f.depth);
      text_.out += '}';
      return good(r);
    });
    text_.out += ')';
    return read;
  }

  template <class Each> bool inRegions(ByteCursor& c, const Op& o, Frame& f, Each each) {
    if (f.depth > kMaxDepth) return c.fail("regions are nested too deep");
    ByteCursor inside = c;
    const bool section = o.isolated && bc_.version >= kBcIsolatedSections;
    if (section) {
      const ByteCursor::Section s = c.section();
      if (c.ok() && s.id != kIrSection) return c.fail("expected the section of a region");
      inside = c.over(s.data);
    }
    Values own;
    Names fresh;
    const bool function = o.name == "vhlo.func_v1";
    Frame inner{o.isolated ? own : f.values, function ? fresh : f.names, 0, f.depth + 1, f.parent};
    for (uint64_t i = 0; i < o.numRegions; ++i)
      if (!each(inside, inner, i)) return false;
    if (!section) c = inside;
    return c.ok();
  }

  // A region of one block (or none); `header` writes its arguments.
  template <class Header> bool region(ByteCursor& c, Frame& f, std::string_view parent, Header header) {
    const uint64_t blocks = c.number();
    if (!c.ok() || blocks == 0) return c.ok();
    if (blocks > 1) return c.fail("a region with several blocks is unsupported");
    const uint64_t numValues = c.count();
    const size_t begin = f.values.all.size();
    f.values.all.resize(begin + numValues);
    Frame inner{f.values, f.names, begin, f.depth, parent};
    bool hasArgs = false;
    uint64_t ops = c.flagged(hasArgs);
    std::vector<uint32_t> locs;
    if (hasArgs && !arguments(c, inner, locs)) return false;
    if (!header(inner, begin, locs)) return false;
    for (; ops > 0 && c.ok(); --ops)
      if (!op(c, inner)) return false;
    f.values.all.resize(begin);
    return c.ok();
  }

  bool region(ByteCursor& c, Frame& f, std::string_view parent) {
    return region(c, f, parent, [&](Frame& inner, size_t begin, const std::vector<uint32_t>& locs) {
      if (locs.empty()) return true;
      line(f.depth - 1);
      text_.out += "^bb0(";
      argumentList(inner, begin, locs, {});
      text_.out += "):";
      return true;
    });
  }

  bool arguments(ByteCursor& c, Frame& f, std::vector<uint32_t>& locs) {
    for (uint64_t n = c.count(); n > 0 && c.ok(); --n) {
      bool hasLoc = true;
      const uint64_t type = bc_.version >= kBcElidedLocations ? c.flagged(hasLoc) : c.number();
      if (c.ok() && type >= bc_.types.size()) return c.fail("the type of an argument does not exist");
      locs.push_back(hasLoc ? static_cast<uint32_t>(c.index(bc_.attrs.size(), "location")) : Bytecode::kNone);
      if (!c.ok() || !define(c, f, "arg" + std::to_string(f.names.nextArg++), static_cast<uint32_t>(type)))
        return false;
    }
    if (bc_.version >= kBcUseLists && c.byte() != 0) skipUseLists(c, locs.size());
    return c.ok();
  }

  // "%arg0: tensor<f32> {name = value} loc(#loc1), …"
  void argumentList(const Frame& f, size_t begin, const std::vector<uint32_t>& locs,
                    const std::vector<uint32_t>& attrs) {
    for (size_t i = 0; i < locs.size(); ++i) {
      const Values::Value& v = f.values.all[begin + i];
      text_.out += (i ? ", %" : "%") + v.name + ": ";
      text_.type(v.type);
      dictionary(attrs, i);
      text_.loc(locs[i]);
    }
  }

  void dictionary(const std::vector<uint32_t>& attrs, size_t i) {
    if (i >= attrs.size() || !bc_.attrs[attrs[i]].is(BcKind::Dict) || bc_.attrs[attrs[i]].attrs.empty())
      return;
    text_.out += ' ';
    text_.dictionary(bc_.attrs[attrs[i]]);
  }

  static const VhloAttr* find(const Op& o, std::string_view name) {
    const auto found = std::ranges::find(o.properties, name, &VhloAttr::name);
    return found == o.properties.end() ? nullptr : &*found;
  }
  // The elements of a list, or none.
  std::vector<uint32_t> list(const Op& o, std::string_view name) {
    const VhloAttr* a = find(o, name);
    return a && bc_.attrs[a->attr].is(BcKind::List) ? bc_.attrs[a->attr].attrs : std::vector<uint32_t>();
  }

  bool module(ByteCursor& c, const Op& o, Frame& f) {
    text_.out += "module";
    if (const VhloAttr* name = find(o, "sym_name")) {
      text_.out += ' ';
      text_.symbol(text_.stringOf(name->attr));
    }
    std::string separator = " attributes {";
    for (const VhloAttr& a : o.attrs) {
      text_.out += separator + std::string(a.name) + " = ";
      text_.attr(a.attr);
      separator = ", ";
    }
    text_.out += separator == ", " ? "} {" : " {";
    if (!inRegions(c, o, f,
                   [&](ByteCursor& r, Frame& inner, uint64_t) { return region(r, inner, "builtin.module"); }))
      return false;
    line(f.depth);
    text_.out += "}\n";
    return good(c);
  }

  // func.func public @main(%arg0: tensor<f32>) -> (tensor<f32>) {
  bool function(ByteCursor& c, const Op& o, Frame& f) {
    const VhloAttr* name = find(o, "sym_name");
    const VhloAttr* type = find(o, "function_type");
    if (!name || !type || !bc_.attrs[type->attr].is(BcKind::TypeRef) || o.numRegions != 1)
      return c.fail("a function has no name, no type, or no region");
    const BcNode& signature = bc_.types[bc_.attrs[type->attr].types[0]];
    if (!signature.is(BcKind::Function)) return c.fail("the type of a function is not a function");
    text_.out += "func.func ";
    if (const VhloAttr* visibility = find(o, "sym_visibility"))
      if (const std::string_view word = text_.stringOf(visibility->attr);
          word == "private" || word == "public")
        text_.out += std::string(word) + " ";
    text_.symbol(text_.stringOf(name->attr));
    const auto header = [&](Frame& inner, size_t begin, const std::vector<uint32_t>& locs) {
      text_.out += '(';
      argumentList(inner, begin, locs, list(o, "arg_attrs"));
      text_.out += ") -> (";
      const auto inputs = static_cast<size_t>(signature.ints[0]);
      for (size_t i = inputs; i < signature.types.size(); ++i) {
        if (i > inputs) text_.out += ", ";
        text_.type(signature.types[i]);
        dictionary(list(o, "res_attrs"), i - inputs);
      }
      text_.out += ')';
      otherAttributes(o);
      text_.out += " {";
      return true;
    };
    if (!inRegions(c, o, f, [&](ByteCursor& r, Frame& inner, uint64_t) {
          return region(r, inner, "func.func", header);
        }))
      return false;
    line(f.depth);
    text_.out += '}';
    text_.loc(o.loc);
    return good(c);
  }

  void otherAttributes(const Op& o) {
    std::string separator = " attributes {";
    for (const VhloAttr& a : o.attrs) {
      if (findBcOp("vhlo.func_v1")->attrs.find(a.name) != std::string_view::npos) continue; // before 0.15.0
      text_.out += separator + std::string(a.name) + " = ";
      text_.attr(a.attr);
      separator = ", ";
    }
    if (separator == ", ") text_.out += '}';
  }

  static constexpr size_t kMaxDepth = 100;
  static constexpr uint8_t kIrSection = 4;

  std::string_view file_;
  const Bytecode& bc_;
  BcText& text_;
  ByteFault& fault_;
};

Error located(const std::string& name, size_t base, const ByteFault& fault) {
  return inputError(name + ": byte " + std::to_string(base + fault.offset) + ": " + fault.message);
}

constexpr std::string_view kBytecodeMagic = "ML\xefR";

} // namespace

bool looksLikeVhlo(std::string_view content) {
  return content.starts_with(kBytecodeMagic) || !jaxExportModule(content).empty();
}

Result<std::string> vhloText(const std::string& name, std::string_view content) {
  std::string_view module = content;
  if (!content.starts_with(kBytecodeMagic)) module = jaxExportModule(content);
  const size_t base = module.empty() ? 0 : static_cast<size_t>(module.data() - content.data());
  ByteFault fault;
  if (base != 0 && !isWholeJaxExport(content, fault)) return located(name, 0, fault);
  Bytecode bc;
  if (!readBytecode(module, bc, fault)) return located(name, base, fault);
  BcText text(bc, (size_t{1} << 20) + 256 * content.size());
  if (!ProgramWriter(module, bc, text, fault).write()) return located(name, base, fault);
  return std::move(text.out);
}

} // namespace dtc
