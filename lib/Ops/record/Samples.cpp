// Builds modules from OpRecord::samples.
#include "dtc/Ops/record/Samples.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Words.h"
#include <algorithm>
#include <cstdlib>

namespace dtc {

namespace {

// Splits at commas outside of brackets.
std::vector<std::string_view> commaParts(std::string_view s) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && s[i] == '[') ++depth;
    if (i < s.size() && s[i] == ']') --depth;
    if (i < s.size() && (s[i] != ',' || depth)) continue;
    if (auto part = trimmed(s.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

// The word of OpRecord::operandTypes for an operand, as a dtype in the sample's text.
std::string_view sampleDType(const OpRecord& r, size_t operand) {
  if (literalTypeAt(r, operand) == OpRecord::LiteralType::Bool && r.operandTypes) return "bool";
  return "T";
}

std::string defaultSamples(const OpRecord& r) {
  if (!r.ruleText || std::string_view(r.ruleText) != "pointwise" || operandArity(r).max > 3) return {};
  static constexpr const char* shapes[][3] = {
      {"[5, 3]", "[5, 3]", "[5, 3]"}, {"[5, 3]", "[1, 3]", "[5, 1]"}, {"[3]", "[5, 3]", "[5, 3]"}};
  uint32_t n = operandArity(r).min;
  std::string text;
  for (auto& row : shapes) {
    for (uint32_t i = 0; i < n; ++i) text += (i ? ", " : "") + std::string(sampleDType(r, i)) + row[i];
    text += '\n';
    if (n == 1) break;
  }
  return text;
}

std::string withDType(std::string_view text, DType t) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool alone = text[i] == 'T' &&
                 (i + 1 == text.size() || text[i + 1] == '[' || text[i + 1] == '}' || text[i + 1] == ' ') &&
                 (i == 0 || text[i - 1] == ' ');
    if (alone)
      out += dtypeName(t);
    else
      out += text[i];
  }
  return out;
}

struct Line {
  std::string args, values, rest; // of the function, of the op, and attributes with types
  std::vector<OpSample::Range> ranges;
};

Line parseLine(std::string_view text) {
  Line line;
  size_t brace = text.find('{');
  size_t colon = text.find(" : ", brace == std::string_view::npos ? 0 : text.rfind('}'));
  if (text.substr(0, 2) == ": ") colon = 0;
  size_t end = std::min({brace, colon, text.size()});
  line.rest = text.substr(end);
  for (std::string_view part : commaParts(text.substr(0, end))) {
    if (!line.values.empty()) line.values += ", ";
    if (part.find('[') == std::string_view::npos) {
      line.values += part; // a literal
      continue;
    }
    OpSample::Range range;
    size_t in = part.find(" in ");
    if (in != std::string_view::npos) {
      std::string bounds(part.substr(in + 4));
      size_t dots = std::min(bounds.find(".."), bounds.size() - 1);
      range.lo = std::strtoll(bounds.c_str(), nullptr, 10);
      range.hi = std::strtoll(bounds.c_str() + dots + (dots + 2 <= bounds.size() ? 2 : 0), nullptr, 10);
    }
    std::string name = "%x" + std::to_string(line.ranges.size());
    line.args += (line.ranges.empty() ? "" : ", ") + name + ": " + std::string(trimmed(part.substr(0, in)));
    line.values += name;
    line.ranges.push_back(range);
  }
  return line;
}

// The function is parsed without results: their types follow from the op. A line that is invalid for the
// dtype (or that lacks an attribute, as the defaults of `convert` do) gives no sample; a unit test checks
// that every line is used for some dtype. `problem`, if given, receives an error that is not about the number
// of results.
bool makeSample(const OpRegistry& ops, OpKind kind, std::string_view text, std::vector<OpSample>& out,
                std::string* problem = nullptr) {
  Line line = parseLine(text);
  const OpRecord& r = ops[kind];
  // The number of results is known only after parsing.
  for (std::string_view results : {"%y = ", "%y, %z = ", "%y, %z, %w = ", "%y, %z, %w, %v = ", ""}) {
    std::string source = "func @sample(" + line.args + ") -> () {\n  " + std::string(results) + r.name + " " +
                         line.values + " " + line.rest + "\n  return\n}\n";
    OpSample s{Module(ops), {}, {}, line.ranges, r.name + (" " + std::string(text)), {}};
    Diagnostics diags;
    if (!parseModule({"sample", source}, ops, s.module, diags)) {
      const Diagnostic& first = diags.all().front();
      if (problem && std::string_view(first.kind->id) != "result-count") *problem = first.message();
      continue;
    }
    s.func = s.module.order.front();
    Module& m = s.module;
    Block& body = m[m[s.func].body];
    s.op = body.ops.back();
    for (uint32_t i = 0; i < m[s.op].numResults; ++i) {
      ValueId v = m.result(s.op, i);
      m[m[s.func].body].yields.push_back(v);
      m[s.func].results.push_back({{}, m[v].type});
    }
    out.push_back(std::move(s));
    return true;
  }
  return false;
}

bool takes(const OpRecord& r, DType t) {
  return r.allClasses() & (isBool(t) ? 1 : isInteger(t) ? 2 : isFloat(t) ? 4 : 8);
}

} // namespace

std::string sampleText(const OpRecord& r) { return defaultSamples(r) + (r.samples ? r.samples : ""); }

std::vector<OpSample> opSamples(const OpRegistry& ops, OpKind kind, DType t) {
  return opSamples(ops, kind, t, sampleText(ops[kind]));
}

std::vector<OpSample> opSamples(const OpRegistry& ops, OpKind kind, DType t, std::string_view text) {
  std::vector<OpSample> out;
  if (!takes(ops[kind], t)) return out;
  for (size_t i = 0; i < text.size();) {
    size_t end = std::min(text.find('\n', i), text.size());
    std::string line = withDType(trimmed(text.substr(i, end - i)), t);
    if (!line.empty() && makeSample(ops, kind, line, out))
      out.back().pattern = trimmed(text.substr(i, end - i));
    i = end + 1;
  }
  return out;
}

std::string validateSample(const OpRegistry& ops, OpKind kind, DType t, std::string_view sample) {
  if (!takes(ops[kind], t))
    return "'" + std::string(ops[kind].name) + "' does not take " + std::string(dtypeName(t)) + " operands";
  std::vector<OpSample> out;
  std::string problem;
  makeSample(ops, kind, withDType(trimmed(sample), t), out, &problem);
  return out.empty() ? problem : "";
}

} // namespace dtc
