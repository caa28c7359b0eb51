#include "Columns.h"

#include <algorithm>
#include <string_view>

namespace dtc {
namespace {

template <class T, class To>
void loadAs(const Tensor& t, int64_t offset, int64_t stride, int64_t n, To* out) {
  const T* in = t.as<T>() + offset;
  for (int64_t k = 0; k < n; ++k) out[k] = static_cast<To>(in[k * stride]);
}

template <class T, class From>
void storeAs(Tensor& t, int64_t offset, int64_t stride, int64_t n, const From* in) {
  T* out = t.as<T>() + offset;
  for (int64_t k = 0; k < n; ++k) out[k * stride] = static_cast<T>(in[k]);
}

} // namespace

void loadColumn(const Tensor& t, int64_t offset, int64_t stride, int64_t n, double* f, int64_t* i) {
  switch (t.dtype()) {
  case DType::F64: return loadAs<double>(t, offset, stride, n, f);
  case DType::F32: return loadAs<float>(t, offset, stride, n, f);
  case DType::I32: return loadAs<int32_t>(t, offset, stride, n, i);
  default:
    for (int64_t k = 0; k < n; ++k) {
      if (isFloat(t.dtype()))
        f[k] = t.getFloat(offset + k * stride);
      else
        i[k] = t.getInt(offset + k * stride);
    }
  }
}

void storeColumn(Tensor& t, int64_t offset, int64_t stride, int64_t n, DType from, const double* f,
                 const int64_t* i) {
  if (isFloat(from) && t.dtype() == DType::F64) return storeAs<double>(t, offset, stride, n, f);
  if (isFloat(from) && t.dtype() == DType::F32) return storeAs<float>(t, offset, stride, n, f);
  for (int64_t k = 0; k < n; ++k) {
    ScalarValue v = convertScalar({isFloat(from) ? f[k] : 0, isFloat(from) ? 0 : i[k]}, from, t.dtype());
    if (isFloat(t.dtype()))
      t.setFloat(offset + k * stride, v.f);
    else
      t.setInt(offset + k * stride, v.i);
  }
}

ColumnProgram::ColumnProgram(const ScalarExpr& expr) : expr_(expr) {
  floats_.resize(expr.nodes.size() * kColumn);
  ints_.resize(expr.nodes.size() * kColumn);
  static const Intrinsic* const neg = findIntrinsic("neg");
  for (const ScalarNode& n : expr.nodes) {
    const std::string_view infix = n.fn && n.fn->infix ? n.fn->infix : "";
    codes_.push_back(infix == "+"   ? Code::Add
                     : infix == "-" ? Code::Sub
                     : infix == "*" ? Code::Mul
                     : infix == "/" ? Code::Div
                     : n.fn == neg  ? Code::Neg
                                    : Code::Other);
  }
}

void ColumnProgram::runLeaf(size_t node, const Point& p, int64_t n) {
  const ScalarNode& s = expr_.nodes[node];
  double* f = floatsOf(node);
  int64_t* i = intsOf(node);
  switch (s.kind) {
  case ScalarNode::Operand:
    return loadColumn(*p.operands[s.position], p.operandOffsets[s.position], p.operandStrides[s.position], n,
                      f, i);
  case ScalarNode::Accumulator:
    if (isFloat(s.dtype))
      std::copy_n(p.accFloats, n, f);
    else
      std::copy_n(p.accInts, n, i);
    return;
  case ScalarNode::Index:
    for (int64_t k = 0; k < n; ++k) i[k] = p.indexStarts[s.position] + k * p.indexStrides[s.position];
    return;
  default: std::fill_n(f, n, s.number); std::fill_n(i, n, s.integer);
  }
}

void ColumnProgram::runFloatCall(size_t node, int64_t n) {
  const ScalarNode& s = expr_.nodes[node];
  const double* a = floatsOf(s.args[0]);
  const double* b = floatsOf(s.args[s.fn->arity > 1 ? 1 : 0]);
  const double* c = floatsOf(s.args[s.fn->arity > 2 ? 2 : 0]);
  double* out = floatsOf(node);
  if (s.dtype == DType::Bool) {
    int64_t* truth = intsOf(node);
    for (int64_t k = 0; k < n; ++k) truth[k] = s.fn->onFloats(a[k], b[k], c[k]) != 0;
    return;
  }
  switch (codes_[node]) {
  case Code::Add:
    for (int64_t k = 0; k < n; ++k) out[k] = a[k] + b[k];
    return;
  case Code::Sub:
    for (int64_t k = 0; k < n; ++k) out[k] = a[k] - b[k];
    return;
  case Code::Mul:
    for (int64_t k = 0; k < n; ++k) out[k] = a[k] * b[k];
    return;
  case Code::Div:
    for (int64_t k = 0; k < n; ++k) out[k] = a[k] / b[k];
    return;
  case Code::Neg:
    for (int64_t k = 0; k < n; ++k) out[k] = -a[k];
    return;
  case Code::Other:
    for (int64_t k = 0; k < n; ++k) out[k] = s.fn->onFloats(a[k], b[k], c[k]);
  }
}

// Integers and mixed dtypes use evalScalar, one element at a time.
void ColumnProgram::runIntCall(size_t node, int64_t n) {
  const ScalarNode& s = expr_.nodes[node];
  ScalarExpr one;
  std::array<DType, 3> dtypes{};
  for (uint16_t k = 0; k < s.fn->arity; ++k) {
    dtypes[k] = expr_.nodes[s.args[k]].dtype;
    ScalarNode leaf;
    leaf.kind = ScalarNode::Operand;
    leaf.position = k;
    leaf.dtype = dtypes[k];
    one.nodes.push_back(leaf);
  }
  one.nodes.push_back(s);
  for (uint16_t k = 0; k < s.fn->arity; ++k) one.nodes.back().args[k] = k;
  std::vector<ScalarValue> scratch;
  std::array<ScalarValue, 3> values;
  for (int64_t k = 0; k < n; ++k) {
    for (uint16_t a = 0; a < s.fn->arity; ++a)
      values[a] =
          isFloat(dtypes[a]) ? ScalarValue{floatsOf(s.args[a])[k], 0} : ScalarValue{0, intsOf(s.args[a])[k]};
    ScalarValue v = evalScalar(one, values, {}, scratch);
    floatsOf(node)[k] = v.f;
    intsOf(node)[k] = v.i;
  }
}

void ColumnProgram::runCall(size_t node, int64_t n) {
  const ScalarNode& s = expr_.nodes[node];
  if (s.fn->result == Intrinsic::Select) {
    const int64_t* p = intsOf(s.args[0]);
    for (int64_t k = 0; k < n; ++k) {
      size_t taken = p[k] ? s.args[1] : s.args[2];
      floatsOf(node)[k] = floatsOf(taken)[k];
      intsOf(node)[k] = intsOf(taken)[k];
    }
    return;
  }
  bool floats = s.fn->result != Intrinsic::Cast && s.fn->onFloats;
  for (uint16_t k = 0; k < s.fn->arity; ++k) floats = floats && isFloat(expr_.nodes[s.args[k]].dtype);
  if (floats)
    runFloatCall(node, n);
  else
    runIntCall(node, n);
}

void ColumnProgram::run(const Point& p, int64_t n) {
  for (size_t node = 0; node < expr_.nodes.size(); ++node) {
    if (expr_.nodes[node].kind == ScalarNode::Call)
      runCall(node, n);
    else
      runLeaf(node, p, n);
  }
}

} // namespace dtc
