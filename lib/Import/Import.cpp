#include "dtc/Import/Import.h"
#include "CountedLoops.h"
#include "GspmdManual.h"
#include "HloImporter.h"
#include "MlirLexer.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kNotWhole{"import-function", "this does not import: the text is not whole"};

bool importInto(const MlirTree& tree, Module& module, Diagnostics& diags,
                std::vector<ImportProblem>* problems) {
  HloImporter importer(tree, module, diags);
  importer.problems = problems;
  if (importer.run()) return true;
  if (!problems && !diags.hasErrors()) diags.error(kNotWhole, SourceRange{0, 0});
  return false;
}

} // namespace

bool importMlir(SourceText source, const OpRegistry& registry, Module& out, Diagnostics& diags) {
  out = Module(registry);
  out.source = std::move(source);
  MlirTree tree;
  if (!parseMlir(out.source.text, tree, diags) || !formManualComputations(tree, diags) ||
      !importInto(tree, out, diags, nullptr))
    return false;
  countLoops(out, diags);
  return true;
}

// Calls of what the text does not define: they are kept for the sake of what is around them.
static void listKept(const Module& m, std::vector<ImportProblem>& kept) {
  const OpKind custom = m.registry->find("custom");
  for (FuncId f : m.order)
    if (m[f].body.valid())
      forEachOp(m, m[f].body, [&](OpId o) {
        if (m[o].kind != custom) return;
        const std::string target(m.strings[m.attrs[m.attr(o, "target")].text]);
        kept.push_back({"stablehlo.custom_call", m[o].loc,
                        "@" + target + " is kept as 'custom', which `dtc run` cannot run" +
                            (isPythonCallback(target) ? ": " + std::string(kPythonCallback) : "")});
      });
}

bool reportMlir(SourceText source, const OpRegistry& registry, std::vector<ImportProblem>& problems,
                std::vector<ImportProblem>& kept, Diagnostics& diags) {
  Module scratch(registry);
  scratch.source = std::move(source);
  MlirTree tree;
  if (!parseMlir(scratch.source.text, tree, diags)) return false;
  if (!formManualComputations(tree, diags)) { // its calls stay as they are, and are reported where they stand
    for (const Diagnostic& d : diags.all())
      problems.push_back({"stablehlo.custom_call", d.range, d.message()});
    diags.clear();
  }
  const bool whole = importInto(tree, scratch, diags, &problems) && problems.empty() && !diags.hasErrors();
  listKept(scratch, kept);
  return whole;
}

bool looksLikeMlir(std::string_view text) {
  MlirLexer lex(text.substr(0, std::min<size_t>(text.size(), 1u << 16)));
  const MlirToken& t = lex.peek();
  if (t.kind == MlirTok::Hash || t.kind == MlirTok::Bang || t.kind == MlirTok::String || t.is('{'))
    return true;
  if (t.kind == MlirTok::Word && t.text == "func")
    return lex.second().kind == MlirTok::Word; // func private @f
  return t.isWord("module") || t.isWord("builtin.module") || t.isWord("func.func") ||
         (t.kind == MlirTok::Word && t.text.find('.') != std::string_view::npos);
}

} // namespace dtc
