#include "complex/SplitComplexOps.h"
#include "analysis/Within.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Sharding/Rule.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <bit>

namespace dtc {

namespace {

using Form = OpRecord::ComplexForm;
constexpr const char* kSuffix[] = {"_re", "_im"};

bool isComplexValue(const Module& m, ValueId v) { return m[v].type.valid() && isComplex(m.typeOf(v).dtype); }

TypeId partOf(Module& m, TypeId t) {
  const Type type = m.types[t];
  return m.tensorType(partType(type.dtype), type.dims);
}

} // namespace

// --- Values ---

ComplexValues::ComplexValues(Module& m, FuncId f) : m_(m) {
  auto take = [&](ValueId v) {
    if (m_[v].name.valid()) names_.emplace(m_.strings[m_[v].name]);
  };
  for (const FuncArg& a : m_[f].args) take(a.value);
  forEachOp(m_, m_[f].body, [&](OpId o) {
    for (uint32_t r = 0; r < m_[o].numResults; ++r) take(m_.result(o, r));
    for (uint32_t k = 0; k < m_[o].numRegions; ++k)
      for (ValueId a : m_[m_.region(o, k)].args) take(a);
  });
}

void ComplexValues::name(ValueId v, StrId base, const char* suffix) {
  if (!base.valid() || m_[v].name.valid()) return;
  std::string text(m_.strings[base]);
  text += suffix;
  const StrId made = m_.strings.intern(text);
  // Sibling blocks may reuse a name: then so may the planes.
  if (*suffix && names_.contains(text) && !madeFrom_.contains({made.index, base.index})) return;
  names_.emplace(text);
  madeFrom_.insert({made.index, base.index});
  m_[v].name = made;
}

Planes ComplexValues::planes(ValueId v) {
  const Value value = m_[v];
  const DType part = partType(m_.typeOf(v).dtype);
  if (value.kind == ValueKind::Literal)
    return {m_.makeLiteral(value.literal, part, value.loc),
            m_.makeLiteral(m_.attrs.real(0), part, value.loc)};
  if (value.kind == ValueKind::Symbol)
    return {m_.makeSymbol(value.symbol, part, value.loc), m_.makeLiteral(m_.attrs.real(0), part, value.loc)};
  auto [it, isNew] = planes_.try_emplace(v);
  if (!isNew) return it->second;
  Builder b(m_, BlockId(value.owner), prologue_, none_);
  b.loc = value.loc;
  Planes made{ops::real(Expr(b, v)), ops::imag(Expr(b, v))};
  complexValues_[v] = v;
  return planes_[v] = made;
}

ValueId ComplexValues::complexValue(ValueId v, Builder& b) {
  if (!isComplexValue(m_, v)) return real(v);
  if (auto it = complexValues_.find(v); it != complexValues_.end()) return it->second;
  if (m_[v].kind == ValueKind::BlockArg && !planes_.contains(v)) return v;
  if (m_[v].kind == ValueKind::Literal || m_[v].kind == ValueKind::Symbol) return v;
  const Planes p = planes(v);
  const ValueId made = ops::complex(Expr(b, p[0]), p[1]);
  name(made, m_[v].name, "");
  return made;
}

std::vector<ValueId> ComplexValues::expanded(std::span<const ValueId> given) {
  const std::vector<ValueId> values(given.begin(), given.end()); // literals are created below
  std::vector<ValueId> out;
  for (ValueId v : values) {
    if (!isComplexValue(m_, v)) {
      out.push_back(real(v));
      continue;
    }
    const Planes p = planes(v);
    out.insert(out.end(), p.begin(), p.end());
  }
  return out;
}

// An annotation on the old value also applies to the new one.
ValueId ComplexValues::constrained(ValueId old, ValueId now, size_t before, Builder& b) {
  const ShardingId sharding = m_[old].sharding;
  if (!sharding.valid() || m_[now].sharding == sharding) return now;
  if (now.index < before || m_[now].kind != ValueKind::OpResult || m_[now].sharding.valid())
    now = ops::shard(Expr(b, now));
  m_[now].sharding = sharding;
  return now;
}

void ComplexValues::set(ValueId old, ValueId now, size_t before, Builder& b) {
  now = constrained(old, now, before, b);
  name(now, m_[old].name, "");
  map_.set(old, now);
}

// A plane with the shape of the value: that of `complex x, 0.0` is a number, and ops such as reshape and qr take no
// number.
ValueId ComplexValues::widened(ValueId old, ValueId plane, Builder& b) {
  const Type whole = m_.typeOf(old);
  if (m_.typeOf(plane).dims == whole.dims) return plane;
  if (m_[plane].kind != ValueKind::Literal) return ops::broadcast(Expr(b, plane), whole.dims);
  return ops::full(b, partOf(m_, m_[old].type), m_[plane].literal);
}

void ComplexValues::set(ValueId old, Planes now, size_t before, Builder& b) {
  for (size_t p : {0, 1}) {
    now[p] = widened(old, now[p], b);
    now[p] = constrained(old, now[p], before, b);
    if (now[p].index >= before) name(now[p], m_[old].name, kSuffix[p]);
  }
  planes_[old] = now;
}

void ComplexValues::setComplex(ValueId old, ValueId now, Builder& b) {
  complexValues_[old] = now;
  const size_t before = m_.values.size();
  set(old, Planes{ops::real(Expr(b, now)), ops::imag(Expr(b, now))}, before, b);
}

std::vector<ValueId> ComplexValues::splitArgument(ValueId old, BlockId to) {
  const Value source = m_[old];
  const bool complex = isComplexValue(m_, old);
  std::vector<ValueId> made;
  for (const char* suffix : kSuffix) {
    const ValueId v = m_.makeBlockArg(to, complex ? partOf(m_, source.type) : source.type);
    m_[v].sharding = source.sharding;
    m_[v].loc = source.loc;
    name(v, source.name, complex ? suffix : "");
    made.push_back(v);
    if (!complex) break;
  }
  if (complex)
    planes_[old] = {made[0], made[1]};
  else
    map_.set(old, made[0]);
  return made;
}

uint32_t ComplexValues::splitResult(ValueId old, ValueId first) {
  const Value source = m_[old];
  const bool complex = isComplexValue(m_, old);
  const uint32_t count = 1 + complex;
  Planes made;
  for (uint32_t p = 0; p < count; ++p) {
    const ValueId v(first.index + p);
    m_[v].type = complex ? partOf(m_, source.type) : source.type;
    m_[v].sharding = source.sharding;
    m_[v].loc = source.loc;
    name(v, source.name, complex ? kSuffix[p] : "");
    made[p] = v;
  }
  if (complex)
    planes_[old] = made;
  else
    map_.set(old, made[0]);
  return count;
}

// Named last: names of real parts in the program itself take precedence.
std::vector<OpId> ComplexValues::takePrologue() {
  for (size_t i = 0; i < prologue_.size(); ++i) // pairs of real and imag
    name(m_.result(prologue_[i]), m_[m_.operand(prologue_[i], 0)].name, kSuffix[i % 2]);
  return std::move(prologue_);
}

void ComplexValues::clone(OpId o, Builder& b) {
  b.out.push_back(cloneOp(m_, o, b.parent, map_, {.same = true}));
}

// --- Ops ---

namespace {

class OpSplitter {
public:
  OpSplitter(OpId o, Builder& b, ComplexValues& values)
      : m_(b.module), o_(o), record_(m_.record(o)), b_(b), values_(values), before_(m_.values.size()) {
    for (ValueId v : std::vector<ValueId>(m_.operands(o).begin(), m_.operands(o).end())) {
      const bool complex = isComplexValue(m_, v);
      isSplit_.push_back(complex);
      operands_.push_back(complex ? values.planes(v) : Planes{values.real(v), values.real(v)});
    }
  }

  bool run() {
    if (scales()) return planes();
    if (record_.complexFn) return byCode();
    switch (record_.complex) {
    case Form::Planes: return planes();
    case Form::Product: return product();
    case Form::Function: return text();
    case Form::Own:
    case Form::None: break;
    }
    return keep();
  }

private:
  [[nodiscard]] bool splits(uint32_t r) const { return isComplexValue(m_, m_.result(o_, r)); }

  // Clones the op with these operands; complex results become real.
  OpId copy(std::span<const ValueId> operands, bool real) {
    const Op source = m_[o_];
    const OpId made = m_.makeOp(source.kind, operands, source.numResults, source.attrs, 0, source.loc);
    m_[made].parent = b_.parent;
    for (uint32_t r = 0; r < source.numResults; ++r) {
      const Value old = m_[m_.result(o_, r)];
      Value& fresh = m_[m_.result(made, r)];
      fresh.type = real ? partOf(m_, old.type) : old.type;
      fresh.loc = old.loc;
    }
    b_.out.push_back(made);
    return made;
  }

  bool planes() {
    std::vector<OpId> made;
    for (size_t p : {0, 1}) {
      std::vector<ValueId> operands;
      for (const Planes& both : operands_) operands.push_back(both[p]);
      made.push_back(copy(operands, true));
    }
    for (const AttrSpec& spec : record_.attrs) // attribute defaults are real
      if (spec.type == AttrType::Value && m_.attr(made[1], spec.name).valid()) {
        m_.setAttr(made[1], spec.name, m_.attrs.integer(0));
        normalizeAttrs(m_, m_[made[1]].kind, m_[made[1]].attrs);
      }
    for (uint32_t r = 0; r < m_[o_].numResults; ++r) {
      if (splits(r))
        values_.set(m_.result(o_, r), Planes{m_.result(made[0], r), m_.result(made[1], r)}, before_, b_);
      else
        values_.set(m_.result(o_, r), m_.result(made[0], r), before_, b_);
    }
    return true;
  }

  // Scaling by a real value, the same for both planes.
  bool scales() {
    if (!isScaledByNumber(queryOf(m_, o_, b_.diags))) return false;
    for (Planes& p : operands_)
      if (m_[p[0]].kind == ValueKind::Literal || m_[p[0]].kind == ValueKind::Symbol) p[1] = p[0];
    return true;
  }

  // As in the evaluator's definition: every choice of one plane per factor is a term.
  bool product() {
    OpQuery q = queryOf(m_, o_, b_.diags);
    Rule rule;
    if (!ruleOf(q, rule)) return false;
    size_t factors = operands_.size(); // additive operands come last
    for (const Join& j : rule.joins) factors = std::min<size_t>(factors, j.operand);
    Planes sums;
    for (unsigned choice = 0; choice < 1u << factors; ++choice) {
      const auto imaginary = static_cast<unsigned>(std::popcount(choice)), part = imaginary % 2;
      std::vector<ValueId> chosen;
      for (size_t i = 0; i < factors; ++i) chosen.push_back(operands_[i][choice >> i & 1]);
      for (size_t i = factors; choice < 2 && i < operands_.size(); ++i) chosen.push_back(operands_[i][part]);
      const Expr term(b_, m_.result(copy(chosen, true))), sum(b_, sums[part]);
      sums[part] = choice < 2 ? term : imaginary % 4 >= 2 ? sum - term : sum + term;
    }
    values_.set(m_.result(o_), sums, before_, b_);
    return true;
  }

  bool text() {
    std::vector<std::string> names;
    for (size_t i = 0; i < operands_.size(); ++i)
      for (const char* suffix : {"", "_re", "_im"})
        names.push_back(std::string(operandName(record_, i)) + suffix);
    std::vector<std::pair<std::string_view, ValueId>> bindings;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!isSplit_[i]) bindings.emplace_back(names[3 * i], operands_[i][0]);
      for (size_t p : {0, 1})
        if (isSplit_[i]) bindings.emplace_back(names[3 * i + 1 + p], operands_[i][p]);
    }
    std::vector<ValueId> made;
    return b_.inlineText(record_.complexText, bindings, made) && setResults(made);
  }

  bool byCode() {
    std::vector<ValueId> both, made;
    for (const Planes& p : operands_) both.insert(both.end(), p.begin(), p.end());
    return record_.complexFn(b_, o_, both, made) && setResults(made);
  }

  bool setResults(const std::vector<ValueId>& made) {
    size_t next = 0;
    for (uint32_t r = 0; r < m_[o_].numResults; ++r) {
      DTC_CHECK(next + splits(r) < made.size(), "an op has fewer planes than results");
      if (splits(r))
        values_.set(m_.result(o_, r), Planes{made[next], made[next + 1]}, before_, b_);
      else
        values_.set(m_.result(o_, r), made[next], before_, b_);
      next += 1 + splits(r);
    }
    return true;
  }

  // An op that takes complex operands directly.
  bool keep() {
    std::vector<ValueId> operands;
    for (ValueId v : std::vector<ValueId>(m_.operands(o_).begin(), m_.operands(o_).end()))
      operands.push_back(values_.complexValue(v, b_));
    const OpId made = copy(operands, false);
    for (uint32_t r = 0; r < m_[o_].numResults; ++r) {
      if (splits(r))
        values_.setComplex(m_.result(o_, r), m_.result(made, r), b_);
      else
        values_.set(m_.result(o_, r), m_.result(made, r), before_, b_);
    }
    return true;
  }

  Module& m_;
  OpId o_;
  const OpRecord& record_;
  Builder& b_;
  ComplexValues& values_;
  size_t before_;
  std::vector<Planes> operands_;
  std::vector<bool> isSplit_;
};

} // namespace

bool splitOp(OpId o, Builder& b, ComplexValues& values) {
  const Module& m = b.module;
  bool complex = std::ranges::any_of(m.operands(o), [&](ValueId v) { return isComplexValue(m, v); });
  for (uint32_t r = 0; r < m[o].numResults; ++r) complex = complex || isComplexValue(m, m.result(o, r));
  if (!complex) {
    values.clone(o, b);
    return true;
  }
  b.loc = m[o].loc;
  b.common = inheritedAttrs(m, o);
  const bool good = OpSplitter(o, b, values).run();
  b.common.clear();
  return good;
}

} // namespace dtc
