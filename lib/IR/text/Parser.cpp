// The three passes over the tokens of a module: meshes, function signatures, bodies. A name may be used before
// its definition. Also the standalone texts: a sharding, and statements of built-in text.
#include "text/Parser.h"

#include "text/DeclarationParser.h"
#include "text/StatementParser.h"

namespace dtc {

namespace {

// The parsers of one text, and what they share.
struct Parser {
  Parser(Module& m, Diagnostics& diags, const ParseOptions& options)
      : in(stream, m, diags), sizes(in, options), types(in, sizes), scope(in), mistakes(in, scope),
        attrs(in, types, sizes, mistakes), statements(in, types, attrs, scope, mistakes, functions) {}

  TokenStream stream;
  TokenReader in;
  FunctionNames functions;
  GivenSizes sizes;
  TypeParser types;
  ValueScope scope;
  Mistakes mistakes;
  AttrParser attrs;
  StatementParser statements;
};

} // namespace

bool parseModule(SourceText source, const OpRegistry& registry, Module& out, Diagnostics& diags,
                 const ParseOptions& options, std::vector<FuncId>* sound) {
  out = Module(registry);
  out.source = std::move(source);
  Parser p(out, diags, options);
  if (!p.in.lexed(out.source.text)) return false;
  if (!options.sizes.empty()) p.sizes.scanCalls();
  p.mistakes.mistypedKeywords();
  DeclarationParser declared(p.in, p.sizes, p.types, p.attrs, p.functions, options);
  p.functions.instance = [&](auto&&... call) { return declared.instance(call...); };
  declared.meshes();
  declared.signatures();
  for (size_t i = 0; i < declared.bodies().size() && !diags.full();
       ++i) { // a call may append the callee's body
    const DeclarationParser::Body& b = declared.bodies()[i];
    const size_t before = diags.numErrors();
    p.types.localMesh = b.mesh;
    p.types.generic = b.instance ? &b.instance->binding : nullptr;
    p.sizes.enterBody(&b.own);
    declared.enterBody(b.instance);
    p.stream.pos = b.firstToken;
    p.stream.quiet = false;
    p.statements.functionBody(b.func);
    if (b.instance) declared.noteInstance(*b.instance, before);
    if (sound && b.sound && !p.stream.quiet && diags.numErrors() == before) sound->push_back(b.func);
  }
  return !diags.hasErrors();
}

bool parseSharding(std::string_view text, Module& m, MeshId defaultMesh, Sharding& out, Diagnostics& diags) {
  const ParseOptions none;
  Parser p(m, diags, none);
  return p.in.lexed(text) && !diags.hasErrors() && p.types.onlySharding(defaultMesh, out);
}

bool parseSnippet(std::string_view text, Module& m, BlockId parent,
                  std::span<const std::pair<std::string_view, ValueId>> bindings, std::vector<OpId>& out,
                  std::vector<ValueId>& yields, Diagnostics& diags) {
  const ParseOptions none;
  Parser p(m, diags, none);
  p.stream.snippet = true;
  if (!p.in.lexed(text)) return false;
  for (const auto& [name, value] : bindings) p.scope.define({m.strings.intern(name), {}}, value);
  return p.statements.snippet(parent, out, yields) && !diags.hasErrors();
}

} // namespace dtc
