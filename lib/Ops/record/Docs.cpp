// Generates docs/ops.md from the records.
#include "dtc/Ops/record/GradientText.h"
#include "dtc/Ops/record/OpText.h"
#include "dtc/Ops/record/Samples.h"
#include "dtc/Support/Words.h"
#include <algorithm>

namespace dtc {

namespace {

const char* typeWord(AttrType t) {
  static constexpr const char* words[] = {"integer", "number",   "bool", "string",
                                          "dtype",   "dim",      "size", "integers",
                                          "dims",    "sizes",    "axes", "lists of integers",
                                          "value",   "@function"};
  return words[static_cast<size_t>(t)];
}

const char* kindWord(FactorKind k) {
  static constexpr const char* words[] = {"pass",   "reduce", "place", "permute",  "merge", "prefix",
                                          "select", "window", "owner", "exchange", "whole"};
  return words[static_cast<size_t>(k)];
}

std::string dimText(const Rule& rule, const DimMap& m) {
  auto name = [&](const Term& t) {
    const std::string& n = rule.factors[t.factor].name;
    return n.empty() ? "d" + std::to_string(t.factor) : n;
  };
  std::string text;
  if (m.form == DimMap::Affine) {
    for (const Term& t : m.terms)
      text += (text.empty() ? "" : "+") + (t.stride == 1 ? std::string() : std::to_string(t.stride) + "*") +
              name(t);
    return text + (m.offset ? (m.offset > 0 ? "+" : "") + std::to_string(m.offset) : "");
  }
  if (m.form == DimMap::Free) return "?" + (m.terms.empty() ? std::string() : name(m.terms[0]));
  if (m.terms.empty()) return "1";
  if (m.plain()) return name(m.terms[0]);
  for (const Term& t : m.terms) text += (text.empty() ? "(" : " ") + name(t);
  return text + ")";
}

// "[m k], [k n] -> [m n]; k: sum"
std::string ruleText(const Rule& rule) {
  auto side = [&](const std::vector<TensorMap>& tensors) {
    std::string text;
    for (const TensorMap& t : tensors) {
      text += text.empty() ? "[" : ", [";
      for (size_t d = 0; d < t.dims.size(); ++d) text += (d ? " " : "") + dimText(rule, t.dims[d]);
      text += "]";
    }
    return text;
  };
  std::string text = side(rule.operands) + " -> " + side(rule.results);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.kind == FactorKind::Pass) continue;
    std::string kind =
        factor.kind == FactorKind::Reduce ? std::string(pendingName(factor.reduce)) : kindWord(factor.kind);
    text += "; " + (factor.name.empty() ? "d" + std::to_string(f) : factor.name) + ": " + kind;
    for (const Join& j : rule.joins)
      if (j.factor == f) text += " joins " + std::to_string(j.operand);
  }
  return text;
}

// Operands of a bit set: "a, b".
std::string operandSet(const OpRecord& r, uint32_t set) {
  Arity arity = operandArity(r);
  uint32_t n = arity.max == ~0u ? std::max(arity.min, 1u) : arity.max;
  if (arity.max == ~0u) return "operands";
  std::string text;
  for (uint32_t i = 0; i < n; ++i)
    if ((set >> i) & 1) text += (text.empty() ? "" : ", ") + std::string(operandName(r, i));
  return text;
}

std::string rowText(const OpRecord& r, const Through& t) {
  std::string who = operandSet(r, t.operands), text;
  switch (t.row) {
  case ThroughRow::Linear: text = "linear in (" + who + ")"; break;
  case ThroughRow::Bilinear: text = "linear in each of " + who; break;
  case ThroughRow::Affine: text = "affine in " + who; break;
  case ThroughRow::Monotone: text = "monotone in " + who; break;
  case ThroughRow::LatticeMax: text = "max in (" + who + ")"; break;
  case ThroughRow::LatticeMin: text = "min in (" + who + ")"; break;
  case ThroughRow::LatticeAny: text = "any in (" + who + ")"; break;
  case ThroughRow::LatticeAll: text = "all in (" + who + ")"; break;
  case ThroughRow::Multiplicative: text = "multiplicative in (" + who + ")"; break;
  case ThroughRow::Moving: text = "moves (" + who + ")"; break;
  case ThroughRow::Choosing: text = "chooses from (" + who + ")"; break;
  case ThroughRow::BoolToNumber: text = "any becomes max, all min"; break;
  case ThroughRow::IsNan: text = "max and min become any"; break;
  case ThroughRow::Compare:
    text = std::string(t.swap ? "min becomes all, max any" : "max becomes all, min any") + " in " + who;
    break;
  }
  if (t.swap && t.row != ThroughRow::Compare) text += ", swapped";
  if (t.kinds) {
    std::string kinds;
    for (int k = 1; k < 8; ++k)
      if (t.kinds & (1 << k))
        kinds += (kinds.empty() ? "" : " ") + std::string(pendingName(static_cast<PendingKind>(k)));
    text += " (" + kinds + ")";
  }
  static constexpr const char* classes[] = {
      "", "bool", "integers", "bool and integers", "floats", "bool and floats", "integers and floats", ""};
  if (t.classes && t.classes != 7)
    text += std::string(" for ") + classes[t.classes & 7] + (t.classes & 8 ? " and complex numbers" : "");
  return text;
}

std::string throughText(const OpRecord& r) {
  if (r.through.empty()) return "none";
  return joined(r.through, "; ", [&](const Through& t) { return rowText(r, t); }) +
         (r.throughWhen ? " (as attributes, literals and dtypes allow)" : "");
}

std::string gradientText(const OpRecord& r) {
  const bool moves = r.isCollective() && operandArity(r).max > 0;
  if (moves && r.async == AsyncForm::None) return "the transposed collective, along the varying axes";
  if (r.gradNone) return "none";
  if (r.gradFromRule) return "from the rule";
  if (r.gradFn) return "yes";
  if (!r.grad) return r.decompose ? "through its decomposition" : "none";
  return std::ranges::none_of(GradientText(r.grad).cotangents, GradientText::isFormula) ? "zero" : "yes";
}

const char* loweringText(const OpRecord& r) {
  static constexpr const char* words[] = {"generated loops", "a row kernel", "library", "decomposed",
                                          "collective",      "control flow", "no code", "host"};
  return words[static_cast<size_t>(r.lowering)];
}

// The default documentation of attributes by name.
std::string_view usualMeaning(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> meanings[] = {
      {"dim", "the dim to operate on"},
      {"dims", "the dims to operate on"},
      {"eps", "added to the variance, so that its square root is not 0"},
      {"sizes", "the size of each result, or of each dim of the window"},
      {"shape", "the sizes of the result"},
      {"low", "padding before each dim"},
      {"high", "padding after each dim"},
      {"descending", "largest first"},
      {"start", "the first index of each dim"},
      {"limit", "the index past the last of each dim"},
      {"shifts", "the shift along each of `dims`"},
      {"repeats", "the number of copies along each dim"},
      {"reach", "the extent of a window along each dim"},
      {"perm", "for each dim of the result, the dim of x"},
      {"p", "the order of the norm"},
      {"mode", "`constant`, `reflect`, `replicate` or `circular`"},
      {"label_smoothing", "the weight distributed over all classes"},
      {"k", "the number of elements to keep"},
      {"ignore_index", "rows with this label are ignored"},
      {"dtype", "the dtype of the result"},
      {"depth", "the number of classes"},
      {"base", "the base of the frequencies"},
  };
  for (const auto& [known, meaning] : meanings)
    if (known == name) return meaning;
  return "";
}

std::string attributesText(const OpRecord& r) {
  std::string text;
  for (const AttrSpec& a : r.attrs) {
    std::string fallback = !a.fallback   ? "required"
                           : *a.fallback ? "default `" + std::string(a.fallback) + "`"
                                         : "optional";
    text += "- `" + std::string(a.name) + "` (" + typeWord(a.type) + ", " + fallback +
            "): " + std::string(*a.doc ? std::string_view(a.doc) : usualMeaning(a.name)) + "\n";
  }
  return text;
}

// Empty if the op does not take complex operands.
const char* complexText(const OpRecord& r) {
  switch (r.complex) {
  case OpRecord::ComplexForm::Planes: return "plane by plane";
  case OpRecord::ComplexForm::Product: return "products of each pair of planes";
  case OpRecord::ComplexForm::Function: return "real functions of the planes";
  case OpRecord::ComplexForm::Own: return r.complexFn ? "custom planes" : "unchanged";
  case OpRecord::ComplexForm::None: break;
  }
  return nullptr;
}

// The rule of the first sample: the text or function applied to these shapes.
std::string ruleLine(const OpRegistry& ops, OpKind kind) {
  for (DType d : {DType::F32, DType::I32, DType::Bool, DType::C64})
    for (OpSample& s : opSamples(ops, kind, d)) {
      Diagnostics diags;
      OpQuery q = queryOf(s.module, s.op, diags);
      Rule rule;
      if (ruleOf(q, rule)) return "- rule: `" + ruleText(rule) + "` for `" + s.text + "`\n";
    }
  return "";
}

std::string recordText(const OpRegistry& ops, OpKind kind) {
  const OpRecord& r = ops[kind];
  std::string text = "### `" + std::string(r.name) + "`\n\n`" + r.name;
  if (*r.operands) text += std::string(" ") + r.operands;
  std::string results; // "u?compute_uv" is u?
  for (std::string_view rest = r.results; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size()), mark = std::min(rest.find('?') + 1, comma);
    results += std::string(rest.substr(0, mark == 0 ? comma : mark)) + (comma < rest.size() ? "," : "");
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  text += "`" + (results.empty() ? results : " → `" + results + "`") + " — " + r.summary + ".\n\n";
  text += attributesText(r) + ruleLine(ops, kind);
  text += "- pending values: " + throughText(r) + "\n";
  text += "- gradient: " + gradientText(r) + "; lowering: " + loweringText(r) + "\n";
  if (const char* complex = complexText(r)) text += std::string("- complex numbers: ") + complex + "\n";
  text += "\n";
  return text;
}

} // namespace

std::string opMarkdown(const OpRegistry& ops, OpKind kind) { return recordText(ops, kind); }

std::string opExample(const OpRegistry& ops, OpKind kind) {
  for (DType d : {DType::F32, DType::I32, DType::Bool, DType::C64})
    for (OpSample& s : opSamples(ops, kind, d)) return printModule(s.module);
  return "";
}

std::string opsMarkdown(const OpRegistry& ops) {
  std::string text =
      "# Ops\n\nFor users who write programs, and for developers: every op with its operands, attributes and "
      "rule.\n[sharding.md](sharding.md) explains factors and pending values, and [ir.md](ir.md) the "
      "language. The page is\ngenerated by `dtc opt --ops-page` from the records in `lib/Ops`.\n\n";
  for (const OpFamily& f : opFamilies()) {
    text += "## " + std::string(f.name) + ": " + f.summary + "\n\n";
    for (size_t k = 0; k < ops.size(); ++k)
      if (std::string_view(ops[static_cast<OpKind>(k)].family) == f.name)
        text += recordText(ops, static_cast<OpKind>(k));
  }
  return text;
}

} // namespace dtc
