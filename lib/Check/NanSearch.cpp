#include "dtc/Check/NanSearch.h"

#include "dtc/Check/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/IR/Text.h"
#include "dtc/Runtime/TensorText.h"
#include "dtc/Support/Json.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace dtc {
namespace {

constexpr DiagKind kNanMade{"nan-made", "'{0}' makes the first NaN: {1} on device {2}{3}"};
constexpr DiagKind kNanGiven{"nan-given", "{0} has {1} NaN of {2} elements, the first at {3}{4}"};

// In the place of a NaN: a number that no op is undefined at.
constexpr double kOrdinary = 0.7310585786300049;

bool isNanAt(const Tensor& t, int64_t i) {
  if (isFloat(t.dtype())) return std::isnan(t.getFloat(i));
  const std::complex<double> z = t.getComplex(i);
  return std::isnan(z.real()) || std::isnan(z.imag());
}

bool mayBeNan(const Tensor& t) { return isFloat(t.dtype()) || isComplex(t.dtype()); }

Tensor withoutNans(Tensor t) {
  if (countNonFinite(t).nan == 0) return t;
  if (isComplex(t.dtype())) return Tensor::fromParts(withoutNans(t.parts()));
  for (int64_t i = 0; i < t.numElements(); ++i)
    if (std::isnan(t.getFloat(i))) t.setFloat(i, kOrdinary);
  return t;
}

// What the evaluator leaves of a kernel's ops, up to the first NaN.
struct Inner {
  Module& m;
  OpId kernel;
  std::unordered_map<ValueId, Tensor> values = {};
  std::optional<OpId> op = {};
  size_t result = 0;
  std::vector<Tensor> operands = {};

  Tensor valueOf(ValueId v) const {
    if (auto it = values.find(v); it != values.end()) return it->second;
    Tensor t(m.typeOf(v).dtype, {});
    if (m[v].kind != ValueKind::Literal) return t;
    const Attr& a = m.attrs[m[v].literal];
    isFloat(t.dtype()) && a.kind == Attr::Float ? t.setFloat(0, a.f)
    : isFloat(t.dtype())                        ? t.setFloat(0, static_cast<double>(a.i))
                                                : t.setInt(0, a.i);
    return t;
  }
  static void look(void* self, OpId op, int64_t, std::span<const Tensor> results) {
    auto& inner = *static_cast<Inner*>(self);
    if (inner.op || (op == inner.kernel && inner.m[op].numRegions)) return;
    for (size_t r = 0; r < results.size() && !inner.op; ++r)
      if (mayBeNan(results[r]) && countNonFinite(results[r]).nan > 0) {
        inner.op = op, inner.result = r;
        for (ValueId v : inner.m.operands(op)) inner.operands.push_back(inner.valueOf(v));
      }
    for (size_t r = 0; r < results.size(); ++r)
      inner.values.insert_or_assign(inner.m.result(op, static_cast<uint32_t>(r)), results[r]);
  }
};

std::vector<int64_t> indexOf(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) index[d] = flat % shape[d], flat /= shape[d];
  return index;
}

// Which elements of an operand one element of the result is made of, as far as the op's rule says: a coordinate per dim, or
// nothing for all of the dim.
std::vector<std::optional<int64_t>> read(const Rule& rule, size_t operand, size_t result,
                                         const std::vector<int64_t>& at, size_t rank) {
  std::vector<std::optional<int64_t>> out(rank);
  if (operand >= rule.operands.size() || result >= rule.results.size()) return out;
  const TensorMap &in = rule.operands[operand], &made = rule.results[result];
  if (in.dims.size() != rank || made.dims.size() != at.size()) return out;
  for (size_t d = 0; d < rank; ++d) {
    const int factor = rule.factorOf(in, d);
    if (in.dims[d].form == DimMap::Compound && in.dims[d].terms.empty()) out[d] = 0;
    for (size_t r = 0; r < at.size() && factor >= 0; ++r)
      if (rule.factorOf(made, r) == factor) out[d] = at[r];
  }
  return out;
}

// "%x[3, *]: 512 elements from -inf to 4, 2 of them infinite", "%x[3, 1] = -2"
std::string operandText(const std::string& name, const Tensor& t,
                        const std::vector<std::optional<int64_t>>& at) {
  if (t.rank() == 0) return name + " = " + elementText(t, 0);
  std::string where;
  for (const auto& i : at) where += (where.empty() ? "[" : ", ") + (i ? std::to_string(*i) : "*");
  int64_t count = 0, infinite = 0, least = -1, most = -1, only = -1;
  for (int64_t i = 0; i < t.numElements(); ++i) {
    const std::vector<int64_t> index = indexOf(i, t.shape());
    bool in = true;
    for (size_t d = 0; d < at.size(); ++d) in = in && (!at[d] || *at[d] == index[d]);
    if (!in) continue;
    only = i;
    ++count;
    if (isComplex(t.dtype())) continue;
    auto value = [&](int64_t k) {
      return isFloat(t.dtype()) ? t.getFloat(k) : static_cast<double>(t.getInt(k));
    };
    infinite += std::isinf(value(i));
    if (least < 0 || value(i) < value(least)) least = i;
    if (most < 0 || value(i) > value(most)) most = i;
  }
  if (count == 1) return name + where + "] = " + elementText(t, only);
  std::string text = name + where + "]: " + std::to_string(count) + " elements";
  if (least < 0) return text;
  text += " from " + elementText(t, least) + " to " + elementText(t, most);
  return infinite ? text + ", " + std::to_string(infinite) + " infinite" : text;
}

// The name that the value has in the user's text. Values within kernels have lost theirs, but not the place where they are
// defined; an argument of a kernel is what is passed for it. Empty for what passes have made.
std::string userName(const Module& m, ValueId v) {
  if (m[v].kind == ValueKind::BlockArg) {
    const OpId kernel = m[BlockId(m[v].owner)].parentOp;
    if (kernel.valid() && m.record(kernel).regions == RegionKind::Fused &&
        m[v].position < m[kernel].numOperands)
      return userName(m, m.operand(kernel, m[v].position));
  }
  if (m[v].name) return printValueName(m, v);
  const std::string_view text = m.source.text;
  const SourceRange at = m[v].loc;
  if (m[v].kind != ValueKind::OpResult || !at.valid() || at.end > text.size() || text[at.begin] != '%')
    return "";
  return std::string(text.substr(at.begin, at.end - at.begin));
}

std::string operandNameOf(const Module& m, OpId op, size_t operand) {
  const ValueId v = m.operand(op, static_cast<uint32_t>(operand));
  if (std::string name = userName(m, v); !name.empty()) return name;
  const std::string_view name = operandName(m.record(op), operand);
  return "operand " + (name.empty() ? std::to_string(operand) : std::string(name));
}

std::string lineText(const Module& m, OpId op) {
  if (!m[op].loc.valid()) return "";
  return " at " + m.source.name + ":" + std::to_string(lineColumn(m.source.text, m[op].loc.begin).line);
}

} // namespace

NonFinite countNonFinite(const Tensor& t) {
  NonFinite n;
  if (!mayBeNan(t)) return n;
  auto count = [&](auto&& isNan, auto&& isInfinite) {
    for (int64_t i = 0; i < t.numElements(); ++i) {
      if (isNan(i)) n.firstNan = n.nan++ ? n.firstNan : i;
      n.infinite += isInfinite(i);
    }
  };
  if (t.dtype() == DType::F32) {
    const float* p = t.as<float>();
    count([p](int64_t i) { return std::isnan(p[i]); }, [p](int64_t i) { return std::isinf(p[i]); });
  } else {
    count([&](int64_t i) { return isNanAt(t, i); },
          [&](int64_t i) {
            if (!isComplex(t.dtype())) return std::isinf(t.getFloat(i));
            const std::complex<double> z = t.getComplex(i);
            return std::isinf(z.real()) || std::isinf(z.imag());
          });
  }
  return n;
}

NanSearch::NanSearch(Module& m, FuncId f, const Executable& ran)
    : m_(m), func_(f), ran_(ran), order_(static_cast<size_t>(ran.mesh().numDevices())) {
  sources();
}

// Arguments and constants that have NaNs from the start.
void NanSearch::sources() {
  auto look = [&](ValueId v, SourceRange loc, const std::string& what) {
    for (int64_t p = 0; p < ran_.mesh().numDevices(); ++p) {
      auto t = ran_.value(v, p);
      if (!t || !mayBeNan(*t)) return;
      const NonFinite n = countNonFinite(*t);
      if (n.nan == 0) continue;
      sources_.push_back({v, loc, what, n.nan, t->numElements(), p, indexText(n.firstNan, t->shape())});
      return;
    }
  };
  for (const FuncArg& a : m_[func_].args)
    look(a.value, m_[a.value].loc, "argument " + printValueName(m_, a.value));
  for (const StepInfo& s : ran_.loadTimeSteps())
    for (ValueId v : s.results) look(v, m_[s.id].loc, "constant " + printValueName(m_, v));
}

std::string NanSearch::iterations(int64_t place) const {
  std::string text;
  for (const Executable::Iteration& i : ran_.iterations(place))
    text += (text.empty() ? "" : ", ") + ("iteration " + std::to_string(i.number)) + " of '" +
            m_.record(i.loop).name + "'" + lineText(m_, i.loop);
  return text;
}

NanSearch::Found NanSearch::describe(OpId op, size_t result, const Tensor& value,
                                     const std::vector<Tensor>& operands) const {
  const NonFinite n = countNonFinite(value);
  Found f;
  f.op = op;
  const ValueId made = m_.result(op, static_cast<uint32_t>(result));
  f.value = userName(m_, made);
  if (f.value.empty()) f.value = "its result";
  f.element = value.rank() == 0 ? "" : indexText(n.firstNan, value.shape());
  f.nan = n.nan, f.elements = value.numElements();
  Rule rule;
  Diagnostics quiet;
  const OpQuery query = queryOf(m_, op, quiet);
  if (!m_[op].numRegions && !ruleOf(query, rule)) rule = {};
  const std::vector<int64_t> at = indexOf(n.firstNan, value.shape());
  const auto ids = m_.operands(op);
  for (size_t i = 0; i < operands.size() && i < ids.size(); ++i)
    f.operands.push_back(
        operandText(operandNameOf(m_, op, i), operands[i], read(rule, i, result, at, operands[i].rank())));
  return f;
}

std::optional<NanSearch::Found> NanSearch::inKernel(OpId op, int64_t place,
                                                    const std::vector<Tensor>& operands) {
  std::vector<Tensor> clean;
  bool given = false;
  for (const Tensor& t : operands) {
    given = given || (mayBeNan(t) && countNonFinite(t).nan > 0);
    clean.push_back(mayBeNan(t) ? withoutNans(t) : t);
  }
  Inner inner{m_, op};
  const auto ids = m_.operands(op);
  if (m_[op].numRegions)
    for (size_t i = 0; i < clean.size(); ++i)
      inner.values.insert_or_assign(m_[m_.region(op, 0)].args[i], clean[i]);
  for (size_t i = 0; i < clean.size(); ++i) inner.values.insert_or_assign(ids[i], clean[i]);
  EvalOptions options;
  options.trace = &Inner::look;
  options.traceSelf = &inner;
  auto done = evaluateOpAt(m_, op, ran_.mesh(), place, clean, options);
  if (inner.op) {
    const ValueId v = m_.result(*inner.op, static_cast<uint32_t>(inner.result));
    return describe(*inner.op, inner.result, inner.values.at(v), inner.operands);
  }
  if (given || !done) return std::nullopt;
  for (uint32_t r = 0; r < m_[op].numResults;
       ++r) // the kernel's own doing: another order of its sums, an fma
    if (auto t = ran_.value(m_.result(op, r), place); t && mayBeNan(*t) && countNonFinite(*t).nan > 0) {
      Found f = describe(op, r, *t, operands);
      f.evaluated = false;
      return f;
    }
  return std::nullopt;
}

// A collective makes a NaN where no device of the mesh has one in the element (inf and -inf are summed); those that only move
// data never do.
std::optional<NanSearch::Found> NanSearch::inCollective(const StepInfo& step, int64_t place) {
  if (m_[step.id].numOperands == 0) return std::nullopt;
  auto made = ran_.value(step.results[0], place);
  if (!made || !mayBeNan(*made)) return std::nullopt;
  const int64_t element = countNonFinite(*made).firstNan;
  if (element < 0) return std::nullopt;
  std::vector<std::string> operands;
  const ValueId operand = m_.operand(step.id, 0);
  for (int64_t p = 0; p < ran_.mesh().numDevices(); ++p) {
    auto t = ran_.value(operand, p);
    if (!t) return std::nullopt;
    const bool same = t->shape() == made->shape();
    if (same ? isNanAt(*t, element) : countNonFinite(*t).nan > 0) return std::nullopt;
    const std::string name = printValueName(m_, operand);
    const std::string what = same && t->rank()
                                 ? name + indexText(element, t->shape()) + " = " + elementText(*t, element)
                                 : operandText(name, *t, std::vector<std::optional<int64_t>>(t->rank()));
    operands.push_back(what + " on device " + deviceText(ran_.mesh(), m_.strings, p));
  }
  Found f = describe(step.id, 0, *made, {});
  f.operands = std::move(operands);
  return f;
}

std::optional<NanSearch::Found> NanSearch::looked(const StepInfo& step, int64_t place) {
  bool any = false;
  for (ValueId v : step.results)
    if (auto t = ran_.value(v, place); t && mayBeNan(*t)) any = any || countNonFinite(*t).nan > 0;
  if (!any) return std::nullopt;
  if (step.what == "collective") return inCollective(step, place);
  std::vector<Tensor> operands;
  for (ValueId v : m_.operands(step.id)) {
    auto t = ran_.value(v, place);
    if (!t) return std::nullopt;
    operands.push_back(std::move(*t));
  }
  return inKernel(step.id, place, operands);
}

void NanSearch::afterStep(uint32_t step, int64_t place) {
  const int64_t order = order_[static_cast<size_t>(place)]++;
  const StepInfo& s = ran_.steps()[step];
  // Copies and control flow move what other steps have made.
  if ((s.what != "kernel" && s.what != "library" && s.what != "collective") || !s.id.valid()) return;
  if (found_ && (found_->order < order || (found_->order == order && found_->place <= place))) return;
  auto f = looked(s, place);
  if (!f) return;
  f->place = place, f->order = order;
  f->iteration = iterations(place);
  found_ = std::move(f);
}

bool NanSearch::report(Diagnostics& diags) const {
  const Mesh& mesh = ran_.mesh();
  for (const Source& s : sources_)
    diags.warning(
        kNanGiven, s.loc, s.what, s.nan, s.elements, s.first,
        mesh.numDevices() > 1 ? " of what device " + deviceText(mesh, m_.strings, s.place) + " holds" : "");
  if (!found_) return false;
  const Found& f = *found_;
  Diagnostic& d =
      diags.error(kNanMade, m_[f.op].loc, m_.record(f.op).name,
                  (f.element.empty() ? "" : "element " + f.element + " of ") + f.value,
                  deviceText(mesh, m_.strings, f.place), f.iteration.empty() ? "" : ", in " + f.iteration);
  for (const std::string& text : f.operands) d.note(m_[f.op].loc, text);
  d.note(m_[f.op].loc, std::to_string(f.nan) + " of the " + std::to_string(f.elements) + " elements of " +
                           f.value + " on this device are NaN" +
                           (f.evaluated ? "" : "; the reference evaluator makes none of the same operands"));
  return true;
}

std::string NanSearch::json() const {
  std::string text = "{\"given\": [";
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source& s = sources_[i];
    text += (i ? ", " : "") + ("{\"what\": " + jsonString(s.what)) + ", \"nan\": " + std::to_string(s.nan) +
            ", \"elements\": " + std::to_string(s.elements) + ", \"first\": " + jsonString(s.first) + "}";
  }
  text += "], \"made\": ";
  if (!found_) return text + "null}";
  const Found& f = *found_;
  const LineCol at = m_[f.op].loc.valid() ? lineColumn(m_.source.text, m_[f.op].loc.begin) : LineCol{0, 0};
  text += "{\"op\": " + jsonString(m_.record(f.op).name) + ", \"line\": " + std::to_string(at.line) +
          ", \"column\": " + std::to_string(at.column) + ", \"value\": " + jsonString(f.value) +
          ", \"element\": " + jsonString(f.element) +
          ", \"device\": " + jsonString(deviceText(ran_.mesh(), m_.strings, f.place)) +
          ", \"iteration\": " + jsonString(f.iteration) + ", \"nan\": " + std::to_string(f.nan) +
          ", \"elements\": " + std::to_string(f.elements) + ", \"operands\": [";
  for (size_t i = 0; i < f.operands.size(); ++i) text += (i ? ", " : "") + jsonString(f.operands[i]);
  return text + "]}}";
}

} // namespace dtc
