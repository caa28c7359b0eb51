// Random statements with blocks, or calls of functions.
#include "random/StatementGenerator.h"

namespace dtc {

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
