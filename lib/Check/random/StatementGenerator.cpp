#include "random/StatementGenerator.h"

#include "dtc/Support/Words.h"

#include <algorithm>
#include <numeric>

namespace dtc {
static bool narrow(DType d) { return isFloat(d) && d != DType::F32 && d != DType::F64; }

static std::string listText(const std::vector<int64_t>& v) { return "[" + joined(v) + "]"; }

// The offset where the operands of a sample's line end.
static size_t operandsEnd(std::string_view line) {
  size_t brace = line.find('{'), colon = line.starts_with(": ") ? 0 : line.find(" : ");
  return std::min({brace, colon, line.size()});
}

static std::vector<std::string> operandWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  int depth = 0;
  for (char c : std::string(text) + ",") {
    depth += (c == '[') - (c == ']');
    if (c != ',' || depth > 0) {
      if (c != ' ' || !word.empty()) word += c;
      continue;
    }
    while (!word.empty() && word.back() == ' ') word.pop_back();
    if (!word.empty()) words.push_back(word);
    word.clear();
  }
  return words;
}

std::string RandomValue::type() const { return std::string(dtypeName(dtype)) + listText(shape); }
int64_t RandomValue::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

StatementGenerator::StatementGenerator(const OpRegistry& ops, Draw& draw) : ops_(ops), draw_(draw) {
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpRecord& r = ops[static_cast<OpKind>(k)];
    if (r.isCollective() || r.regions != RegionKind::None || r.isCall || r.sideEffect ||
        r.constraint != Constraint::None || r.async != AsyncForm::None || sampleText(r).empty())
      continue;
    sampled_.push_back(static_cast<OpKind>(k));
    const bool pointwise = r.ruleText && std::string_view(r.ruleText) == "pointwise" && r.attrs.empty() &&
                           r.resultType == OpRecord::ResultType::Same && !r.checks.discontinuous;
    if (!pointwise || !(r.operandClasses & 4)) continue;
    const Arity arity = operandArity(r);
    if (arity.min == 1 && arity.max == 1) unary_.push_back(static_cast<OpKind>(k));
    if (arity.min == 2 && arity.max == 2 && !r.operandTypes) binary_.push_back(static_cast<OpKind>(k));
  }
}

std::string StatementGenerator::fresh(const char* prefix) { return prefix + std::to_string(numbers_++); }

DType StatementGenerator::anyDType() {
  static constexpr DType kOften[] = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16,
                                     DType::F16, DType::I32, DType::I32, DType::I64, DType::Bool};
  static constexpr DType kAll[] = {DType::Bool,   DType::I8,   DType::I16, DType::I32, DType::I64,
                                   DType::U8,     DType::U16,  DType::U32, DType::U64, DType::F8E4M3,
                                   DType::F8E5M2, DType::BF16, DType::F16, DType::F32, DType::F64};
  return draw_.below(4) ? kOften[draw_.below(static_cast<int>(std::size(kOften)))]
                        : kAll[draw_.below(static_cast<int>(std::size(kAll)))];
}

RandomValue StatementGenerator::argument(DType d, std::vector<int64_t> shape, int64_t lo, int64_t hi) {
  RandomValue v;
  v.number = numbers_;
  v.name = fresh("x");
  v.dtype = d;
  v.shape = std::move(shape);
  v.exact = true;
  const std::string seed = std::to_string(v.number + 1);
  if (lo < hi)
    v.input = "randint(" + seed + "," + std::to_string(lo) + "," + std::to_string(hi) + ")";
  else if (!isFloat(d) && !isBool(d) && draw_.below(2))
    v.input = "randint(" + seed + "," + (isUnsignedInt(d) ? "0" : "-5") + ",6)";
  else
    v.input = "randn(" + seed + ")";
  v.lo = lo, v.hi = hi;
  arguments_.push_back(v);
  values_.push_back(v);
  return v;
}

void StatementGenerator::begin() {
  std::vector<int64_t> shape = {1 + draw_.below(9), 1 + draw_.below(40)};
  if (draw_.below(4) == 0) shape[1] = shape[0]; // dims of one size are distinguished by their position alone
  RandomValue x = argument(DType::F32, shape);
  if (draw_.below(2)) argument(anyDType(), {shape[1]});
  add("neg " + operandText(x), DType::F32, shape, true);
}

StatementGenerator::Mark StatementGenerator::mark() const {
  return {values_, arguments_, body_.size(), functions_.size(), numbers_};
}

void StatementGenerator::undo(const Mark& m) {
  values_ = m.values;
  arguments_ = m.arguments;
  body_.resize(m.body);
  functions_.resize(m.functions);
  numbers_ = m.numbers;
}

bool StatementGenerator::small() const {
  for (size_t i = values_.size() > 4 ? values_.size() - 4 : 0; i < values_.size(); ++i)
    if (values_[i].elements() > 4000 || values_[i].shape.size() > 6) return false;
  return true;
}

std::vector<RandomValue> StatementGenerator::results() const {
  std::vector<RandomValue> chosen;
  for (size_t i = values_.size(); i-- > 0 && chosen.size() < 8;) {
    const RandomValue& v = values_[i];
    const bool isArgument = v.name[0] == 'x';
    if (!isArgument && (!v.read || chosen.empty())) chosen.push_back(v);
  }
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

std::string StatementGenerator::operandText(const RandomValue& v) {
  for (RandomValue& known : values_)
    if (known.name == v.name) known.read = true;
  return "%" + v.name;
}

RandomValue StatementGenerator::add(const std::string& expression, DType d, std::vector<int64_t> shape,
                                    bool exact) {
  RandomValue v;
  v.number = numbers_;
  v.name = fresh();
  v.dtype = d;
  v.shape = std::move(shape);
  v.exact = exact;
  body_ += "  %" + v.name + " = " + expression + "\n";
  values_.push_back(v);
  return v;
}

RandomValue StatementGenerator::valueOf(DType d, const std::vector<int64_t>& shape, int64_t lo, int64_t hi,
                                        bool exact) {
  std::vector<const RandomValue*> same, larger;
  const int64_t wanted = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  for (const RandomValue& v : values_) {
    const bool inRange = lo >= hi || (v.lo < v.hi && v.lo >= lo && v.hi <= hi);
    if (v.dtype != d || !inRange || (exact && isFloat(d) && !v.exact)) continue;
    for (int k = v.read ? 2 : 0; k < 3; ++k) { // prefers values without users
      if (v.shape == shape) same.push_back(&v);
      if (v.elements() >= wanted && wanted > 0) larger.push_back(&v);
    }
  }
  if (!same.empty() && draw_.below(5))
    return *same[static_cast<size_t>(draw_.below(static_cast<int>(same.size())))];
  if (larger.empty() || draw_.below(4) == 0) return argument(d, shape, lo, hi);
  const RandomValue from = *larger[static_cast<size_t>(draw_.below(static_cast<int>(larger.size())))];
  RandomValue flat = add("reshape " + operandText(from) + " {shape = " + listText({from.elements()}) + "}", d,
                         {from.elements()}, from.exact);
  if (from.elements() > wanted)
    flat = add("slice " + operandText(flat) + " {start = [" + std::to_string((from.elements() - wanted) / 2) +
                   "], limit = [" + std::to_string((from.elements() - wanted) / 2 + wanted) + "]}",
               d, {wanted}, from.exact);
  RandomValue made =
      add("reshape " + operandText(flat) + " {shape = " + listText(shape) + "}", d, shape, from.exact);
  made.lo = values_.back().lo = from.lo;
  made.hi = values_.back().hi = from.hi;
  return made;
}

RandomValue StatementGenerator::intoDomain(const RandomValue& v, const OpRecord& op, size_t operand) {
  if (!isFloat(v.dtype) || op.checks.discontinuous) return v;
  auto mapped = [&](const RandomValue& x, const char* by) {
    return add(by + (" " + operandText(x)), x.dtype, x.shape, false);
  };
  const Domain domain = op.checks.domainOf(operand);
  const bool outside = domain == Domain::All || draw_.below(12) == 0;
  if (!outside && domain == Domain::Positive) return mapped(v, "sigmoid");
  if (!outside && domain == Domain::AboveOne) return mapped(mapped(v, "sigmoid"), "reciprocal");
  return !outside || narrow(v.dtype) ? mapped(v, "tanh") : v;
}

const RandomValue* StatementGenerator::any(bool floats) {
  std::vector<const RandomValue*> fit;
  for (size_t i = 0; i < values_.size(); ++i)
    if (!floats || isFloat(values_[i].dtype)) {
      // Prefers new values, so that chains grow and few values are unused.
      const int weight = 1 + (values_[i].read ? 0 : 3) + (i + 3 > values_.size() ? 2 : 0);
      for (int k = 0; k < weight; ++k) fit.push_back(&values_[i]);
    }
  return fit.empty() ? nullptr : fit[static_cast<size_t>(draw_.below(static_cast<int>(fit.size())))];
}

bool StatementGenerator::fromSample() {
  const OpKind kind = sampled_[static_cast<size_t>(draw_.below(static_cast<int>(sampled_.size())))];
  std::vector<OpSample> samples = opSamples(ops_, kind, anyDType());
  for (DType d : {DType::F32, DType::I32, DType::Bool})
    if (samples.empty()) samples = opSamples(ops_, kind, d);
  if (samples.empty()) return false;
  const OpSample& s = samples[static_cast<size_t>(draw_.below(static_cast<int>(samples.size())))];
  return sampleStatement(
      s, s.text.substr(std::min(s.text.size(), std::string_view(ops_[kind].name).size() + 1)));
}

bool StatementGenerator::sampleStatement(const OpSample& s, const std::string& line) {
  const Module& m = s.module;
  const OpRecord& record = m.record(s.op);
  const size_t end = operandsEnd(line);
  std::string operands;
  size_t argument = 0, position = 0;
  bool exact = true;
  for (const std::string& word : operandWords(std::string_view(line).substr(0, end))) {
    operands += operands.empty() ? " " : ", ";
    const size_t at = position++;
    if (word.find('[') == std::string::npos) {
      operands += word;
      continue;
    }
    const Type& type = m.typeOf(m[s.func].args[argument].value);
    const OpSample::Range range = s.ranges[argument++];
    RandomValue v = valueOf(type.dtype, type.staticShape(), range.lo, range.hi, record.checks.discontinuous);
    v = intoDomain(v, record, at);
    exact = exact && v.exact;
    operands += operandText(v);
  }
  std::string names;
  std::vector<RandomValue> made;
  for (uint32_t r = 0; r < m[s.op].numResults; ++r) {
    const Type& type = m.typeOf(m.result(s.op, r));
    RandomValue v;
    v.number = numbers_;
    v.name = fresh();
    v.dtype = type.dtype;
    v.shape = type.staticShape();
    v.exact = exact && (record.checks.exact || !isFloat(type.dtype));
    names += (r ? ", %" : "%") + v.name;
    made.push_back(v);
  }
  if (made.empty()) return false;
  std::string rest = line.substr(end);
  body_ += "  " + names + " = " + record.name + operands + (rest.empty() || rest[0] == ' ' ? "" : " ") +
           rest + "\n";
  values_.insert(values_.end(), made.begin(), made.end());
  return true;
}

bool StatementGenerator::fromShapes() {
  const RandomValue* drawn = any(draw_.below(8) != 0);
  if (!drawn) return false;
  const RandomValue v = *drawn;
  switch (draw_.below(10)) {
  case 0: return reshaped(v);
  case 1:
  case 2: return moved(v);
  case 3:
  case 4: return reduced(v);
  case 5:
  case 6: return multiplied(v);
  default: return pointwise(v);
  }
}

bool StatementGenerator::reshaped(const RandomValue& v) {
  std::vector<int64_t> shape = v.shape;
  if (shape.size() >= 2 && draw_.below(2)) {
    const size_t d = static_cast<size_t>(draw_.below(static_cast<int>(shape.size()) - 1));
    shape[d] *= shape[d + 1];
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(d) + 1);
  } else if (!shape.empty()) {
    const size_t d = static_cast<size_t>(draw_.below(static_cast<int>(shape.size())));
    for (int64_t f : {2, 3, 5})
      if (shape[d] % f == 0 && shape[d] > f) {
        shape[d] /= f;
        shape.insert(shape.begin() + static_cast<ptrdiff_t>(d) + draw_.below(2), f);
        break;
      }
  }
  add("reshape " + operandText(v) + " {shape = " + listText(shape) + "}", v.dtype, shape, v.exact);
  return true;
}

bool StatementGenerator::moved(const RandomValue& v) {
  const size_t rank = v.shape.size();
  if (rank == 0) return false;
  const size_t d = static_cast<size_t>(draw_.below(static_cast<int>(rank)));
  std::vector<int64_t> shape = v.shape;
  const std::string x = operandText(v), dim = std::to_string(d);
  switch (draw_.below(5)) {
  case 0: {
    std::vector<int64_t> perm(rank);
    for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>((i + 1 + d) % rank);
    for (size_t i = 0; i < rank; ++i) shape[i] = v.shape[static_cast<size_t>(perm[i])];
    add("transpose " + x + " {perm = " + listText(perm) + "}", v.dtype, shape, v.exact);
    return true;
  }
  case 1: {
    if (shape[d] == 0) return false;
    std::vector<int64_t> start(rank), limit = shape;
    start[d] = draw_.below(static_cast<int>(shape[d]));
    limit[d] = start[d] + 1 + draw_.below(static_cast<int>(shape[d] - start[d]));
    shape[d] = limit[d] - start[d];
    add("slice " + x + " {start = " + listText(start) + ", limit = " + listText(limit) + "}", v.dtype, shape,
        v.exact);
    return true;
  }
  case 2: {
    const RandomValue w = valueOf(v.dtype, v.shape, 0, 0, false);
    shape[d] *= 2;
    add("concat " + x + ", " + operandText(w) + " {dim = " + dim + "}", v.dtype, shape, v.exact && w.exact);
    return true;
  }
  case 3: {
    std::vector<int64_t> low(rank), high(rank);
    low[d] = draw_.below(3), high[d] = draw_.below(3);
    shape[d] += low[d] + high[d];
    add("pad " + x + " {low = " + listText(low) + ", high = " + listText(high) + "}", v.dtype, shape,
        v.exact);
    return true;
  }
  default: add("flip " + x + " {dims = [" + dim + "]}", v.dtype, shape, v.exact); return true;
  }
}

bool StatementGenerator::reduced(const RandomValue& v) {
  const size_t rank = v.shape.size();
  if (rank == 0 || isBool(v.dtype)) return false;
  const size_t d = static_cast<size_t>(draw_.below(static_cast<int>(rank)));
  const std::string dims = " {dims = [" + std::to_string(d) + "]";
  if (isFloat(v.dtype) && draw_.below(2)) {
    static constexpr const char* kRows[] = {"softmax", "log_softmax", "layer_norm", "rms_norm"};
    const char* op = kRows[draw_.below(4)];
    add(op + (" " + operandText(intoDomain(v, recordOf(op), 0)) + dims) + "}", v.dtype, v.shape, false);
    return true;
  }
  static constexpr const char* kReductions[] = {"sum", "max", "min", "mean"};
  const char* op = kReductions[draw_.below(isFloat(v.dtype) ? 4 : 3)];
  const bool keep = draw_.below(2);
  std::vector<int64_t> shape = v.shape;
  if (keep)
    shape[d] = 1;
  else
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(d));
  const OpRecord& record = recordOf(op);
  const RandomValue x = intoDomain(v, record, 0);
  const RandomValue y = add(op + (" " + operandText(x) + dims) + (keep ? ", keepdim = true}" : "}"), v.dtype,
                            shape, x.exact && record.checks.exact);
  if (keep || draw_.below(2)) return true;
  // The reduction as a result of its own, next to the value it reduces: one kernel with two results.
  add("neg " + operandText(y), y.dtype, y.shape, y.exact);
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(d), 1);
  const RandomValue wide = add("expand_dims " + operandText(y) + dims + "}", y.dtype, shape, y.exact);
  add("add " + operandText(x) + ", " + operandText(wide), v.dtype, v.shape, x.exact && y.exact);
  return true;
}

void StatementGenerator::notFinite() {
  const std::vector<int64_t> shape = {1 + draw_.below(5), 2 + draw_.below(7)};
  RandomValue x = argument(DType::F32, shape);
  const bool sums = draw_.below(2);
  if (!sums && draw_.below(2)) { // -inf for negative values
    x = add("relu " + operandText(x), DType::F32, shape, false);
    x = add("log " + operandText(x), DType::F32, shape, false);
  }
  RandomValue s;
  if (sums && draw_.below(2)) {
    const RandomValue w = argument(DType::F32, {shape[1], shape[0]});
    s = add("matmul " + operandText(x) + ", " + operandText(w), DType::F32, {shape[0], shape[0]}, false);
  } else {
    const char* reduce = sums ? "sum" : draw_.below(2) ? "max" : "min";
    s = add(reduce + (" " + operandText(x)) + " {dims = [1]}", DType::F32, {shape[0]}, false);
  }
  RandomValue other = argument(DType::F32, s.shape);
  static constexpr const char* kInputs[] = {"zeros", "const(inf)", "const(-inf)", "const(2)", "const(nan)"};
  arguments_.back().input = kInputs[draw_.below(5)];
  const char* op = sums ? draw_.below(2) ? "div " : "mul " : draw_.below(2) ? "add " : "sub ";
  const bool first = draw_.below(3);
  const std::string a = operandText(s), b = operandText(other);
  const RandomValue y = add(op + (first ? a + ", " + b : b + ", " + a), DType::F32, s.shape, false);
  std::string start, limit; // a smaller one: useful for later reductions
  for (size_t d = 0; d < y.shape.size(); ++d) start += d ? ", 0" : "0", limit += d ? ", 1" : "1";
  add("slice " + operandText(y) + " {start = [" + start + "], limit = [" + limit + "]}", DType::F32,
      std::vector<int64_t>(y.shape.size(), 1), false);
}

bool StatementGenerator::multiplied(const RandomValue& v) {
  if (!isFloat(v.dtype) || v.shape.size() < 2) return false;
  const RandomValue x = intoDomain(v, recordOf("matmul"), 0);
  const int64_t k = v.shape.back(), n = 1 + draw_.below(33);
  const bool transposed = draw_.below(2);
  std::vector<int64_t> right = transposed ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
  if (v.shape.size() == 3 && draw_.below(2)) right.insert(right.begin(), draw_.below(2) ? v.shape[0] : 1);
  const RandomValue w = valueOf(v.dtype, right, 0, 0, false);
  std::vector<int64_t> shape = v.shape;
  shape.back() = n;
  if (right.size() == 2 && draw_.below(3) == 0 && transposed) {
    const RandomValue b = valueOf(v.dtype, {n}, 0, 0, false);
    add("linear " + operandText(x) + ", " + operandText(w) + ", " + operandText(b), v.dtype, shape, false);
    return true;
  }
  add("matmul " + operandText(x) + ", " + operandText(w) + (transposed ? " {transpose_b = true}" : ""),
      v.dtype, shape, false);
  return true;
}

bool StatementGenerator::pointwise(const RandomValue& v) {
  if (!isFloat(v.dtype) || draw_.below(2)) {
    const OpRecord& r = ops_[unary_[static_cast<size_t>(draw_.below(static_cast<int>(unary_.size())))]];
    const RandomValue x = intoDomain(v, r, 0);
    add(r.name + (" " + operandText(x)), v.dtype, v.shape, x.exact && r.checks.exact);
    return true;
  }
  const OpRecord& r = ops_[binary_[static_cast<size_t>(draw_.below(static_cast<int>(binary_.size())))]];
  std::vector<int64_t> shape = v.shape; // of the other operand: equal, with dims of 1, or without the first
  if (!shape.empty() && draw_.below(3) == 0)
    shape[static_cast<size_t>(draw_.below(static_cast<int>(shape.size())))] = 1;
  if (!shape.empty() && draw_.below(4) == 0) shape.erase(shape.begin());
  const RandomValue a = intoDomain(v, r, 0), b = intoDomain(valueOf(v.dtype, shape, 0, 0, false), r, 1);
  add(r.name + (" " + operandText(a) + ", " + operandText(b)), v.dtype, v.shape,
      a.exact && b.exact && r.checks.exact);
  return true;
}

bool StatementGenerator::shard(Sharding sharding) {
  const RandomValue* v = any(false);
  if (!v) return false;
  const RandomValue x = *v;
  add("shard " + operandText(x) + " : " + sharding.of(sharding.self, x.shape), x.dtype, x.shape, x.exact);
  return true;
}

// --- statements with blocks, and calls of functions ---

// Smooth elementwise statements that end in `value`; they read it, and enclosing values of its shape.
std::string StatementGenerator::elementwiseBody(const RandomValue& on, std::string& value, int ops,
                                                const std::string& indent) {
  static constexpr const char* kSmooth[] = {"tanh", "sigmoid", "sin", "cos", "neg", "gelu", "silu", "erf"};
  static constexpr const char* kTwo[] = {"add", "mul", "sub"};
  std::string text;
  for (int i = 0; i < ops; ++i) {
    std::string other = value;
    for (const RandomValue& v : values_)
      if (v.dtype == on.dtype && v.shape == on.shape && draw_.below(3) == 0) other = operandText(v);
    const std::string name = "%" + fresh("b");
    if (draw_.below(2))
      text += indent + name + " = " + kSmooth[draw_.below(8)] + " " + value + "\n";
    else
      text += indent + name + " = " + kTwo[draw_.below(3)] + " " + value + ", " + other + "\n";
    value = name;
  }
  const std::string last = "%" + fresh("b"); // so that values stay bounded over iterations
  text += indent + last + " = tanh " + value + "\n";
  value = last;
  return text;
}

bool StatementGenerator::forLoop(const RandomValue& v) {
  const int iterations = draw_.below(5);
  const bool stacked = draw_.below(2);
  const std::string i = fresh("i"), c = fresh("c");
  std::string value = "%" + c, text = elementwiseBody(v, value, 1 + draw_.below(3), "    ");
  const std::string start = operandText(v);
  const size_t end = body_.size();
  std::string names = "%" + add("", v.dtype, v.shape, false).name;
  if (stacked) {
    std::vector<int64_t> shape = v.shape;
    shape.insert(shape.begin(), iterations);
    names += ", %" + add("", v.dtype, shape, false).name;
  }
  body_.resize(end);
  body_ += "  " + names + " = for %" + i + " in 0.." + std::to_string(iterations) + " (%" + c + " = " +
           start + ") {\n" + text + "    yield " + value + (stacked ? ", " + value : "") + "\n  }\n";
  return true;
}

bool StatementGenerator::whileLoop(const RandomValue& v) {
  const RandomValue n = argument(DType::I32, {}, 0, 5);
  const std::string c = fresh("c"), j = fresh("j");
  std::string value = "%" + c, text = elementwiseBody(v, value, 1 + draw_.below(3), "    ");
  const std::string start = operandText(v), count = operandText(n);
  const size_t end = body_.size();
  const std::string names = "%" + add("", v.dtype, v.shape, false).name + ", %" + fresh("k");
  body_.resize(end);
  body_ += "  " + names + " = while (%" + c + " = " + start + ", %" + j + " = " + count + ") {\n    %" + j +
           "_go = gt %" + j + ", 0\n    yield %" + j + "_go\n  } {\n" + text + "    %" + j + "_less = sub %" +
           j + ", 1\n    yield " + value + ", %" + j + "_less\n  }\n";
  return true;
}

bool StatementGenerator::branches(const RandomValue& v) {
  const RandomValue p = argument(DType::Bool, {}, 0, 2);
  std::string one = operandText(v), two = one;
  const std::string first = elementwiseBody(v, one, 1 + draw_.below(2), "    "),
                    second = draw_.below(3) ? elementwiseBody(v, two, draw_.below(2), "    ") : "";
  const std::string predicate = operandText(p);
  const size_t end = body_.size();
  const std::string name = add("", v.dtype, v.shape, false).name;
  body_.resize(end);
  body_ += "  %" + name + " = cond " + predicate + " {\n" + first + "    yield " + one + "\n  } {\n" +
           second + "    yield " + two + "\n  }\n";
  return true;
}

bool StatementGenerator::called(const RandomValue& v) {
  const std::string f = fresh("f"), p = fresh("p");
  std::string value = "%" + p;
  std::vector<RandomValue> outside;
  outside.swap(values_); // a function sees its own arguments alone
  const std::string text = elementwiseBody(v, value, 1 + draw_.below(3), "  ");
  outside.swap(values_);
  functions_ += "func @" + f + "(%" + p + ": " + v.type() + ") -> (" + v.type() + ") {\n" + text +
                "  return " + value + "\n}\n";
  add("call @" + f + "(" + operandText(v) + ")", v.dtype, v.shape, false);
  return true;
}

bool StatementGenerator::gradient(const RandomValue& v) {
  if ((v.dtype != DType::F32 && v.dtype != DType::F64) || v.shape.empty()) return false;
  const RandomValue w = valueOf(v.dtype, v.shape, 0, 0, false);
  const std::string f = fresh("f"), p = fresh("p"), q = fresh("q");
  std::string value = "%" + p;
  std::vector<RandomValue> outside;
  outside.swap(values_);
  RandomValue other = w;
  other.name = q;
  values_.push_back(other);
  std::string text = elementwiseBody(v, value, 2 + draw_.below(3), "  ");
  values_.clear();
  outside.swap(values_);
  const std::string last = std::to_string(v.shape.size() - 1);
  static constexpr const char* kRows[] = {"softmax", "layer_norm", "rms_norm", "log_softmax"};
  if (draw_.below(2)) {
    text += "  %" + f + "_row = " + kRows[draw_.below(4)] + " " + value + " {dims = [" + last + "]}\n";
    value = "%" + f + "_row";
  }
  text += "  %" + f + "_two = mul " + value + ", %" + q + "\n  %" + f +
          "_loss = " + (draw_.below(2) ? "mean" : "sum") + " %" + f + "_two\n";
  const std::string scalar = std::string(dtypeName(v.dtype)) + "[]";
  functions_ += "func @" + f + "(%" + p + ": " + v.type() + ", %" + q + ": " + w.type() + ") -> (" + scalar +
                ") {\n" + text + "  return %" + f + "_loss\n}\n";
  const std::string a = operandText(v), b = operandText(w);
  const size_t end = body_.size();
  std::string names = "%" + add("", v.dtype, {}, false).name;
  names += ", %" + add("", v.dtype, v.shape, false).name;
  names += ", %" + add("", v.dtype, v.shape, false).name;
  body_.resize(end);
  body_ += "  " + names + " = value_and_grad @" + f + "(" + a + ", " + b + ")\n";
  return true;
}

bool StatementGenerator::control(int kind) {
  const RandomValue* drawn = any(true);
  if (!drawn || (drawn->dtype != DType::F32 && drawn->dtype != DType::F64)) return false;
  const RandomValue v = *drawn;
  switch (kind) {
  case 0: return forLoop(v);
  case 1: return whileLoop(v);
  case 2: return branches(v);
  default: return draw_.below(2) ? called(v) : gradient(v);
  }
}

} // namespace dtc
