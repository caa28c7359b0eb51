#include "dtc/Check/run/NanSearch.h"

#include "dtc/Check/run/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Files/TensorText.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Support/Json.h"
#include "run/NonFiniteGuarantees.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace dtc {
namespace {

constexpr DiagKind kNanMade{"nan-made", "'{0}' produces the first NaN: {1} on device {2}{3}"};
constexpr DiagKind kNanGiven{"nan-given", "{0} has {1} NaN of {2} elements, the first at {3}{4}"};

// Replaces a NaN: a number at which no op is undefined.
constexpr double kOrdinary = 0.7310585786300049;

bool mayBeNan(const Tensor& t) { return isFloat(t.dtype()) || isComplex(t.dtype()); }

Tensor withoutNans(Tensor t) {
  if (countNonFinite(t).nan == 0) return t;
  if (isComplex(t.dtype())) return Tensor::fromParts(withoutNans(t.parts()));
  for (int64_t i = 0; i < t.numElements(); ++i)
    if (std::isnan(t.getFloat(i))) t.setFloat(i, kOrdinary);
  return t;
}

// The evaluator's values for the ops of a kernel, up to the first NaN.
struct Inner {
  Module& m;
  OpId kernel;
  std::unordered_map<ValueId, Tensor> values = {};
  std::optional<OpId> op = {};
  size_t result = 0;
  std::vector<Tensor> operands = {};

  Tensor valueOf(ValueId v) const {
    if (auto it = values.find(v); it != values.end()) return it->second;
    return m[v].kind == ValueKind::Literal ? literalTensor(m, v) : Tensor(m.typeOf(v).dtype, {});
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

// The elements of an operand that one element of the result depends on, according to the op's rule: a
// coordinate per dim, or nothing for the whole dim.
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
  int64_t count = 0, infinite = 0, smallest = -1, largest = -1, only = -1;
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
    if (smallest < 0 || value(i) < value(smallest)) smallest = i;
    if (largest < 0 || value(i) > value(largest)) largest = i;
  }
  if (count == 1) return name + where + "] = " + elementText(t, only);
  std::string text = name + where + "]: " + std::to_string(count) + " elements";
  if (smallest < 0) return text;
  text += " from " + elementText(t, smallest) + " to " + elementText(t, largest);
  return infinite ? text + ", " + std::to_string(infinite) + " infinite" : text;
}

// The value's name in the user's text. Values within kernels have lost theirs, but not the location of their
// definition; an argument of a kernel has the name of the value passed. Empty for values created by passes.
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
  const std::string place = placeText(m.source, m[op].loc);
  return place.empty() ? "" : " at " + place;
}

} // namespace

NonFiniteCount countNonFinite(const Tensor& t) {
  NonFiniteCount n;
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

// Arguments and constants that contain NaN initially.
void NanSearch::sources() {
  auto look = [&](FuncId f, ValueId v, SourceRange loc, const std::string& what) {
    for (int64_t p = 0; p < ran_.mesh().numDevices(); ++p) {
      if (ran_.functionAt(p) != f || !ran_.devices().contains(p)) continue;
      auto t = ran_.value(v, p);
      if (!t || !mayBeNan(*t)) return;
      const NonFiniteCount n = countNonFinite(*t);
      if (n.nan == 0) continue;
      sources_.push_back({v, loc, what, n.nan, t->numElements(), p, indexText(n.firstNan, t->shape())});
      return;
    }
  };
  for (FuncId f : functionsOfProgram(m_, func_))
    for (const FuncArg& a : m_[f].args)
      look(f, a.value, m_[a.value].loc, "argument " + printValueName(m_, a.value));
  for (const StepInfo& s : ran_.loadTimeSteps())
    for (ValueId v : s.results) look(s.function, v, m_[s.id].loc, "constant " + printValueName(m_, v));
}

std::string NanSearch::iterations(int64_t device) const {
  std::string text;
  for (const Executable::Iteration& i : ran_.iterations(device))
    text += (text.empty() ? "" : ", ") + ("iteration " + std::to_string(i.number)) + " of '" +
            m_.record(i.loop).name + "'" + lineText(m_, i.loop);
  return text;
}

NanSearch::Found NanSearch::describe(OpId op, size_t result, const Tensor& value,
                                     const std::vector<Tensor>& operands) const {
  const NonFiniteCount n = countNonFinite(value);
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

std::optional<NanSearch::Found> NanSearch::inKernel(OpId op, int64_t device,
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
  auto done = evaluateOpAt(m_, op, ran_.mesh(), device, clean, options);
  if (inner.op) {
    const ValueId v = m_.result(*inner.op, static_cast<uint32_t>(inner.result));
    return describe(*inner.op, inner.result, inner.values.at(v), inner.operands);
  }
  if (given || !done) return std::nullopt;
  for (uint32_t r = 0; r < m_[op].numResults;
       ++r) // caused by the kernel itself: another order of its sums, an fma
    if (auto t = ran_.value(m_.result(op, r), device); t && mayBeNan(*t) && countNonFinite(*t).nan > 0) {
      Found f = describe(op, r, *t, operands);
      f.evaluated = false;
      return f;
    }
  return std::nullopt;
}

// A collective produces a NaN where no device of the mesh has one in the element (inf and -inf are summed);
// data-movement collectives never do.
std::optional<NanSearch::Found> NanSearch::inCollective(const StepInfo& step, int64_t device) {
  if (m_[step.id].numOperands == 0) return std::nullopt;
  if (const DeviceSlice here = ran_.devices(); here.end - here.begin < ran_.mesh().numDevices())
    return std::nullopt; // operands may be in other processes
  auto made = ran_.value(step.results[0], device);
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
    operands.push_back(what + " on device " + deviceName(p));
  }
  Found f = describe(step.id, 0, *made, {});
  f.operands = std::move(operands);
  return f;
}

std::optional<NanSearch::Found> NanSearch::inspect(const StepInfo& step, int64_t device) {
  bool any = false;
  for (ValueId v : step.results)
    if (auto t = ran_.value(v, device); t && mayBeNan(*t)) any = any || countNonFinite(*t).nan > 0;
  if (!any) return std::nullopt;
  if (step.what == "collective") return inCollective(step, device);
  std::vector<Tensor> operands;
  for (ValueId v : m_.operands(step.id)) {
    auto t = ran_.value(v, device);
    if (!t) return std::nullopt;
    operands.push_back(std::move(*t));
  }
  return inKernel(step.id, device, operands);
}

void NanSearch::afterStep(uint32_t step, int64_t device) {
  const int64_t order = order_[static_cast<size_t>(device)]++;
  const StepInfo& s = ran_.steps()[step];
  // Copies and control flow forward results of other steps.
  if ((s.what != "kernel" && s.what != "library" && s.what != "collective") || !s.id.valid()) return;
  if (found_ && (found_->order < order || (found_->order == order && found_->device <= device))) return;
  auto f = inspect(s, device);
  if (!f) return;
  f->device = device, f->order = order;
  f->iteration = iterations(device);
  found_ = std::move(f);
}

// "dp=0 of rank 1 on node2"
std::string NanSearch::deviceName(int64_t device) const {
  return deviceText(ran_.mesh(), m_.strings, device) + ran_.ofProcess(device);
}

bool NanSearch::report(Diagnostics& diags) const {
  for (const Source& s : sources_)
    diags.warning(kNanGiven, s.loc, s.what, s.nan, s.elements, s.first,
                  ran_.mesh().numDevices() > 1 ? " on device " + deviceName(s.device) : "");
  if (!found_) return false;
  const Found& f = *found_;
  Diagnostic& d = diags.error(kNanMade, m_[f.op].loc, m_.record(f.op).name,
                              (f.element.empty() ? "" : "element " + f.element + " of ") + f.value,
                              deviceName(f.device), f.iteration.empty() ? "" : ", in " + f.iteration);
  for (const std::string& text : f.operands) d.note(m_[f.op].loc, text);
  d.note(m_[f.op].loc,
         std::to_string(f.nan) + " of the " + std::to_string(f.elements) + " elements of " + f.value +
             " on this device are NaN" +
             (f.evaluated ? "" : "; the reference evaluator produces none from the same operands"));
  return true;
}

// Records end with a form feed, their fields with a line feed: no field has one.
std::string NanSearch::text() const {
  std::string text;
  for (const Source& s : sources_) {
    for (const int64_t n :
         {int64_t{s.value.index}, int64_t{s.loc.begin}, int64_t{s.loc.end}, s.nan, s.elements, s.device})
      text += std::to_string(n) + "\n";
    text += s.what + "\n" + s.first + "\n\f";
  }
  if (!found_) return text;
  const Found& f = *found_;
  for (const int64_t n : {int64_t{f.op.index}, f.device, f.order, f.nan, f.elements, int64_t{f.evaluated}})
    text += std::to_string(n) + "\n";
  text += f.value + "\n" + f.element + "\n" + f.iteration + "\n";
  for (const std::string& operand : f.operands) text += operand + "\n";
  return text + "\f";
}

static std::vector<std::string> partsOf(std::string_view text, char end) {
  std::vector<std::string> parts;
  for (size_t at = text.find(end); at != text.npos; at = text.find(end)) {
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  return parts;
}

void NanSearch::join(const std::vector<std::string>& texts) {
  constexpr size_t kNumbers = 6, kSource = 8; // fields
  found_.reset(), sources_.clear();
  for (const std::string& text : texts)
    for (const std::string& record : partsOf(text, '\f')) {
      const std::vector<std::string> fields = partsOf(record, '\n');
      int64_t n[kNumbers];
      for (size_t i = 0; i < kNumbers; ++i) n[i] = std::atoll(fields[i].c_str());
      if (fields.size() == kSource) {
        const Source s{ValueId(static_cast<uint32_t>(n[0])),
                       {static_cast<uint32_t>(n[1]), static_cast<uint32_t>(n[2])},
                       fields[6],
                       n[3],
                       n[4],
                       n[5],
                       fields[7]};
        if (std::ranges::find(sources_, s.value, &Source::value) == sources_.end()) sources_.push_back(s);
        continue;
      }
      Found f{OpId(static_cast<uint32_t>(n[0])),  n[1],      n[2],     fields[6], fields[7], n[3], n[4],
              {fields.begin() + 9, fields.end()}, fields[8], n[5] != 0};
      if (!found_ || std::pair(f.order, f.device) < std::pair(found_->order, found_->device))
        found_ = std::move(f);
    }
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
  const LineCol at = m_[f.op].loc.valid() ? placeOf(m_.source, m_[f.op].loc.begin).at : LineCol{0, 0};
  text += "{\"op\": " + jsonString(m_.record(f.op).name) + ", \"line\": " + std::to_string(at.line) +
          ", \"column\": " + std::to_string(at.column) + ", \"value\": " + jsonString(f.value) +
          ", \"element\": " + jsonString(f.element) +
          ", \"device\": " + jsonString(deviceText(ran_.mesh(), m_.strings, f.device)) +
          ", \"iteration\": " + jsonString(f.iteration) + ", \"nan\": " + std::to_string(f.nan) +
          ", \"elements\": " + std::to_string(f.elements) + ", \"operands\": [";
  for (size_t i = 0; i < f.operands.size(); ++i) text += (i ? ", " : "") + jsonString(f.operands[i]);
  return text + "]}}";
}

} // namespace dtc
