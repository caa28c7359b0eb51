#include "dtc/StableHlo/import/Import.h"
#include "dtc/Ops/OpName.h"
#include "import/CountedLoops.h"
#include "import/HloImporter.h"
#include "import/HloManualResults.h"
#include "mlir/MlirLexer.h"
#include "sharding/GspmdManual.h"

#include <algorithm>

namespace dtc {

constexpr DiagKind kIncomplete{"import-function", "this does not import: the text is incomplete"};

static bool importInto(const MlirTree& tree, Module& module, Diagnostics& diags,
                       std::vector<ImportProblem>* problems) {
  HloImporter importer(tree, module, diags);
  importer.problems = problems;
  if (importer.run()) return true;
  if (!problems && !diags.hasErrors()) diags.error(kIncomplete, SourceRange{0, 0});
  return false;
}

bool importMlir(SourceText source, const OpRegistry& registry, Module& out, Diagnostics& diags) {
  out = Module(registry);
  out.source = std::move(source);
  MlirTree tree;
  if (!parseMlir(out.source.text, tree, diags) || !formManualComputations(tree, diags) ||
      !importInto(tree, out, diags, nullptr))
    return false;
  countLoops(out, diags);
  agreeOnResults(out, diags);
  return true;
}

// Calls of functions that the text does not define are kept as `custom`.
static void listKept(const Module& m, std::vector<ImportProblem>& kept) {
  const OpKind custom = m.registry->find(OpName("custom"));
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
  // its calls stay unchanged, and are reported at their locations
  if (!formManualComputations(tree, diags)) {
    for (const Diagnostic& d : diags.all())
      problems.push_back({"stablehlo.custom_call", d.range, d.message()});
    diags.clear();
  }
  const bool complete = importInto(tree, scratch, diags, &problems) && problems.empty() && !diags.hasErrors();
  listKept(scratch, kept);
  return complete;
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
