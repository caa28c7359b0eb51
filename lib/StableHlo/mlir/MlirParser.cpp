// Files, functions, regions, generic ops.
#include "mlir/MlirPretty.h"

namespace dtc {

bool parseMlir(std::string_view source, MlirTree& out, Diagnostics& diags) {
  return MlirParser(source, out, diags).file();
}

const MlirAttr* MlirTree::resolve(const MlirAttr& a) const {
  const MlirAttr* at = &a;
  for (int hops = 0; at->kind == MlirAttr::Alias; ++hops) {
    auto found = aliases.find(at->text);
    if (found == aliases.end() || hops > 16) return nullptr;
    at = &found->second;
  }
  return at;
}

// --- the file ---

bool MlirParser::file() {
  while (!lex_.atEnd()) {
    if (tok().kind == MlirTok::Hash || tok().kind == MlirTok::Bang) {
      if (!alias()) return false;
    } else if (tok().is('{') && lex_.second().is('-')) {
      if (!resources()) return false;
    } else if (tok().isWord("module") || tok().isWord("builtin.module")) {
      if (!moduleOp()) return false;
    } else if (tok().kind == MlirTok::String && tok().text == "builtin.module") {
      if (!genericModule()) return false;
    } else if (!statement(tree_.ops.emplace_back())) {
      return false;
    }
  }
  return true;
}

// "#loc3 = loc(…)", "#map = …", "!t = tensor<…>"
bool MlirParser::alias() {
  MlirToken name = take();
  if (!expect('=')) return false;
  if (name.kind == MlirTok::Bang) {
    const MlirType* t = type();
    if (!t) return false;
    tree_.typeAliases[name.text] = t;
    return true;
  }
  if (tok().isWord("loc")) {
    uint32_t loc = 0;
    if (!location(loc)) return false;
    tree_.locAliases[name.text] = loc;
    return true;
  }
  return attribute(tree_.aliases[name.text], true);
}

bool MlirParser::moduleOp() {
  take();
  if (tok().kind == MlirTok::Symbol) take();
  if (acceptWord("attributes") && !dictionary(tree_.moduleAttrs)) return false;
  if (!expect('{')) return false;
  while (!tok().is('}')) {
    if (lex_.atEnd()) return unexpected("'}' at the end of the module");
    if (!statement(tree_.ops.emplace_back())) return false;
  }
  take();
  uint32_t loc = 0;
  return !tok().isWord("loc") || location(loc);
}

bool MlirParser::genericModule() {
  MlirOp op;
  if (!statement(op)) return false;
  tree_.moduleAttrs = std::move(op.attrs);
  if (!op.regions.empty())
    for (MlirOp& inner : op.regions[0].ops) tree_.ops.push_back(std::move(inner));
  return true;
}

// {-# dialect_resources: { builtin: { name: "0x…", … } } … #-}
bool MlirParser::resources() {
  uint32_t begin = tok().begin;
  if (lex_.source().substr(begin, 3) != "{-#") return unexpected("'{-#'");
  size_t end = lex_.source().find("#-}", begin);
  if (end == std::string_view::npos) return unexpected("a resource section that ends with '#-}'");
  lex_.seek(begin + 3);
  bool ok = true;
  while (ok && tok().begin < end) {
    bool blobs = tok().isWord("dialect_resources");
    take();
    ok = expect(':');
    if (ok && blobs)
      ok = resourceBlobs();
    else if (ok && !lex_.skipBalanced())
      ok = unexpected("'{'");
    accept(',');
  }
  lex_.seek(static_cast<uint32_t>(end) + 3);
  return ok;
}

bool MlirParser::resourceBlobs() {
  if (!expect('{')) return false;
  while (!accept('}')) {
    if (tok().kind != MlirTok::Word && tok().kind != MlirTok::String) return unexpected("a dialect");
    take();
    if (!expect(':') || !expect('{')) return false;
    while (!accept('}')) {
      if (tok().kind != MlirTok::Word && tok().kind != MlirTok::String)
        return unexpected("the name of a resource");
      std::string_view name = take().text;
      if (!expect(':')) return false;
      if (tok().kind != MlirTok::String) return unexpected("\"0x…\"");
      tree_.resources[name] = take().text;
      accept(',');
    }
    accept(',');
  }
  return true;
}

// --- functions ---

bool MlirParser::function(MlirOp& op) {
  op.name = "func.func";
  op.nameRange = take().range();
  for (std::string_view visibility : {"public", "private", "nested"})
    if (tok().isWord(visibility)) {
      MlirNamedAttr& a = op.attrs.emplace_back();
      a.name = "sym_visibility";
      a.value.kind = MlirAttr::String;
      a.value.text = take().text;
    }
  if (tok().kind != MlirTok::Symbol) return unexpected("the function's name, as in @main");
  MlirNamedAttr& name = op.attrs.emplace_back();
  name.name = "sym_name";
  name.nameRange = name.value.range = tok().range();
  name.value.kind = MlirAttr::String;
  name.value.text = take().text;
  op.regions.emplace_back();
  if (!functionArgs(op) || !functionResults(op)) return false;
  if (acceptWord("attributes") && !dictionary(op.attrs)) return false;
  if (!tok().is('{')) { // a declaration: no body
    op.regions.clear();
    return trailingLoc(op);
  }
  return region(op.regions[0]) && trailingLoc(op);
}

bool MlirParser::functionArgs(MlirOp& op) {
  if (!expect('(')) return false;
  while (!accept(')')) {
    MlirArg& arg = op.regions[0].args.emplace_back();
    if (!countNode()) return false;
    arg.range = tok().range();
    if (tok().kind == MlirTok::Value) {
      arg.name = take().text;
      if (!expect(':')) return false;
    }
    arg.type = type();
    if (!arg.type) return false;
    if (tok().is('{') && !dictionary(arg.attrs)) return false;
    if (tok().isWord("loc") && !location(arg.loc)) return false;
    if (!tok().is(')') && !expect(',')) return false;
  }
  return true;
}

bool MlirParser::functionResults(MlirOp& op) {
  if (tok().kind != MlirTok::Arrow) return true;
  take();
  if (!accept('(')) {
    op.resultRanges.push_back(tok().range());
    op.resultTypes.push_back(type());
    op.resultAttrs.emplace_back();
    return op.resultTypes.back() != nullptr;
  }
  while (!accept(')')) {
    if (!countNode()) return false;
    op.resultRanges.push_back(tok().range());
    op.resultTypes.push_back(type());
    op.resultAttrs.emplace_back();
    if (!op.resultTypes.back()) return false;
    if (tok().is('{') && !dictionary(op.resultAttrs.back())) return false;
    if (!tok().is(')') && !expect(',')) return false;
  }
  return true;
}

// Brings "func.func"() <{function_type = …, arg_attrs = […]}> ({…}) to the form that function() produces.
bool MlirParser::genericFunction(MlirOp& op) {
  op.resultTypes.clear();
  for (MlirNamedAttr& a : op.attrs) {
    if (a.name == "function_type" && a.value.kind == MlirAttr::TypeRef && a.value.type) {
      op.resultTypes = a.value.type->results;
      op.resultRanges.assign(op.resultTypes.size(), a.value.range);
    }
  }
  op.resultAttrs.resize(op.resultTypes.size());
  for (MlirNamedAttr& a : op.attrs) {
    if (a.value.kind != MlirAttr::List) continue;
    for (size_t i = 0; i < a.value.list.size(); ++i) {
      if (a.name == "arg_attrs" && !op.regions.empty() && i < op.regions[0].args.size())
        op.regions[0].args[i].attrs = a.value.list[i].dict;
      if (a.name == "res_attrs" && i < op.resultAttrs.size()) op.resultAttrs[i] = a.value.list[i].dict;
    }
  }
  if (op.regions.size() == 1 && op.regions[0].ops.empty()) op.regions.clear();
  return true;
}

// --- regions ---

bool MlirParser::region(MlirRegion& out) {
  Deeper deeper(*this);
  if (!deeper.allowed()) return false;
  uint32_t begin = tok().begin;
  if (!expect('{')) return false;
  if (tok().kind == MlirTok::Block && !blockHeader(out)) return false;
  if (!regionBody(out)) return false;
  out.range = since(begin);
  return true;
}

bool MlirParser::regionBody(MlirRegion& out) {
  while (!accept('}')) {
    if (lex_.atEnd()) return unexpected("'}' at the end of the region");
    if (tok().kind == MlirTok::Block)
      return fail(tok().range(),
                  "a region with several blocks is unsupported: expected structured control flow");
    if (!statement(out.ops.emplace_back())) return false;
  }
  return true;
}

// "^bb0(%a: t, %b: t loc(…)):"
bool MlirParser::blockHeader(MlirRegion& out) {
  take();
  if (accept('(')) {
    out.args.clear();
    while (!accept(')')) {
      if (!countNode()) return false;
      MlirArg& arg = out.args.emplace_back();
      arg.range = tok().range();
      if (tok().kind != MlirTok::Value) return unexpected("an argument of the block");
      arg.name = take().text;
      if (!expect(':')) return false;
      arg.type = type();
      if (!arg.type || (tok().isWord("loc") && !location(arg.loc))) return false;
      if (!tok().is(')') && !expect(',')) return false;
    }
  }
  return expect(':');
}

// --- ops ---

bool MlirParser::statement(MlirOp& op) {
  if (!countNode() || !results(op)) return false;
  if (tok().kind == MlirTok::String) return genericOp(op);
  if (tok().isWord("func.func") || (tok().isWord("func") && lex_.second().kind != MlirTok::Punct))
    return function(op);
  if (tok().kind != MlirTok::Word) return unexpected("an op");
  return PrettyOp(*this, op).parse();
}

bool MlirParser::results(MlirOp& op) {
  if (tok().kind != MlirTok::Value) return true;
  do {
    if (tok().kind != MlirTok::Value) return unexpected("the name of a result");
    MlirResult& r = op.results.emplace_back();
    r.range = tok().range();
    r.name = take().text;
    if (accept(':')) {
      auto count = tok().kind == MlirTok::Int ? mlirInteger(tok().text) : std::nullopt;
      if (!count || *count < 1 || *count > 65536) return unexpected("the number of results");
      r.count = static_cast<uint32_t>(*count);
      take();
    }
    for (uint32_t i = 0; i < r.count; ++i)
      if (!countNode()) return false;
  } while (accept(','));
  return expect('=');
}

bool MlirParser::use(MlirUse& out) {
  if (tok().kind != MlirTok::Value) return unexpected("a value");
  out.range = tok().range();
  MlirToken t = take();
  out.name = t.text;
  out.number = t.number;
  return countNode();
}

bool MlirParser::operandList(MlirOp& op, char closer) {
  while (!accept(closer)) {
    if (!use(op.operands.emplace_back())) return false;
    if (!tok().is(closer) && !expect(',')) return false;
  }
  return true;
}

bool MlirParser::genericOp(MlirOp& op) {
  op.nameRange = tok().range();
  op.name = take().text;
  if (!expect('(') || !operandList(op, ')')) return false;
  if (tok().is('['))
    return fail(tok().range(), "branches to other blocks are unsupported: expected structured control flow");
  for (;;) {
    if (tok().is('<')) {
      take();
      if (!tok().is('{')) return unexpected("'{' after '<'");
      if (!dictionary(op.attrs) || !expect('>')) return false;
    } else if (tok().is('{')) {
      if (!dictionary(op.attrs)) return false;
    } else if (tok().is('(')) {
      if (!genericRegions(op)) return false;
    } else {
      break;
    }
  }
  if (!signature(op, nullptr)) return false;
  return op.name != "func.func" || genericFunction(op);
}

bool MlirParser::genericRegions(MlirOp& op) {
  take();
  while (!accept(')')) {
    if (!region(op.regions.emplace_back())) return false;
    if (!tok().is(')') && !expect(',')) return false;
  }
  return true;
}

bool MlirParser::signature(MlirOp& op, PrettyOp* pretty) {
  bool arrow = false;
  if (accept(':')) {
    bool many = tok().is('(');
    if (!typeList(op.operandTypes)) return false;
    while (!many && accept(',')) {
      if (pretty && tok().kind == MlirTok::Word && lex_.second().is('=')) { // ", tolerance = 0.1"
        if (!pretty->word()) return false;
        break;
      }
      op.operandTypes.push_back(type());
      if (!op.operandTypes.back()) return false;
    }
    if (tok().kind == MlirTok::Arrow) {
      take();
      arrow = true;
      if (!typeList(op.resultTypes)) return false;
    }
  } else if (!pretty) {
    return unexpected("':' and the op's types");
  }
  return resultTypes(op, arrow) && (!pretty || pretty->afterSignature()) && trailingLoc(op);
}

// Only operand types, or one type shared by all, are written.
bool MlirParser::resultTypes(MlirOp& op, bool arrow) {
  uint32_t n = op.numResults();
  if (!arrow && n > 0 && !op.operandTypes.empty()) {
    if (op.operandTypes.size() == n)
      op.resultTypes = op.operandTypes;
    else
      op.resultTypes.assign(n, op.operandTypes.back());
  }
  if (op.resultTypes.size() == n || n == 0) return true;
  SourceRange range = op.results.front().range;
  return fail(range, "'" + std::string(op.name) + "' has " + std::to_string(op.resultTypes.size()) +
                         " result types, but " + std::to_string(n) + " result names");
}

bool MlirParser::trailingLoc(MlirOp& op) { return !tok().isWord("loc") || location(op.loc); }

} // namespace dtc
