// The scalar language: parser, typing, evaluation, printing.
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace dtc {

namespace {

class Parser {
public:
  // `names`: the operands by name (gradients) instead of by letter.
  explicit Parser(std::string_view text, const std::vector<std::string_view>* names = nullptr)
      : text_(text), names_(names) {}
  ScalarExpr parse() {
    comparison();
    space();
    DTC_CHECK(at_ == text_.size(), "scalar expression: unexpected text at the end");
    return std::move(out_);
  }

private:
  void space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) {
    space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  uint16_t push(ScalarNode n) {
    out_.nodes.push_back(std::move(n));
    return static_cast<uint16_t>(out_.nodes.size() - 1);
  }
  uint16_t call(std::string_view name, std::array<uint16_t, 3> args, size_t count = 0) {
    ScalarNode n;
    n.kind = ScalarNode::Call;
    n.fn = findIntrinsic(name);
    DTC_CHECK(n.fn || names_, "scalar expression: unknown function");
    if (names_) n.name = name;
    n.arity = n.fn ? n.fn->arity : static_cast<uint8_t>(count);
    n.args = args;
    return push(std::move(n));
  }
  uint16_t comparison() {
    static constexpr std::pair<const char*, const char*> ops[] = {{"<=", "le"}, {">=", "ge"}, {"==", "eq"},
                                                                  {"!=", "ne"}, {"<", "lt"},  {">", "gt"}};
    uint16_t left = sum();
    for (auto& [symbol, name] : ops)
      if (take(symbol)) return call(name, {left, sum()});
    return left;
  }
  uint16_t sum() {
    uint16_t left = product();
    while (true) {
      if (take("+"))
        left = call("add", {left, product()});
      else if (take("-"))
        left = call("sub", {left, product()});
      else
        return left;
    }
  }
  uint16_t product() {
    uint16_t left = unary();
    while (true) {
      if (take("*"))
        left = call("mul", {left, unary()});
      else if (take("/"))
        left = call("div", {left, unary()});
      else
        return left;
    }
  }
  uint16_t unary() {
    if (take("-")) return call("neg", {unary()});
    return atom();
  }
  std::string_view word() {
    size_t begin = at_;
    auto inWord = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
    while (at_ < text_.size() && inWord(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  uint16_t number(double v) {
    ScalarNode n;
    n.number = v;
    return push(std::move(n));
  }
  uint16_t atom() {
    if (take("(")) {
      uint16_t inner = comparison();
      DTC_CHECK(take(")"), "scalar expression: expected )");
      return inner;
    }
    space();
    if (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      std::string rest(text_.substr(at_));
      char* end;
      double v = std::strtod(rest.c_str(), &end);
      at_ += static_cast<size_t>(end - rest.c_str());
      return number(v);
    }
    bool attribute = take("$");
    std::string_view name = word();
    DTC_CHECK(!name.empty(), "scalar expression: expected a value");
    ScalarNode n;
    if (attribute) {
      n.kind = ScalarNode::Attribute;
      n.name = name;
      return push(std::move(n));
    }
    if (name == "inf") return number(std::numeric_limits<double>::infinity());
    if (name == "nan") return number(std::numeric_limits<double>::quiet_NaN());
    if (name == "acc") {
      n.kind = ScalarNode::Accumulator;
      return push(std::move(n));
    }
    if (names_)
      if (const auto known = std::ranges::find(*names_, name); known != names_->end()) {
        n.kind = ScalarNode::Operand;
        n.position = static_cast<uint16_t>(known - names_->begin());
        return push(std::move(n));
      }
    if (name.size() == 1 && !names_) {
      n.kind = ScalarNode::Operand;
      n.position = static_cast<uint16_t>(name[0] - 'a');
      return push(std::move(n));
    }
    return function(name);
  }
  uint16_t function(std::string_view name) {
    DTC_CHECK(take("("), "scalar expression: expected (");
    std::array<uint16_t, 3> args{};
    size_t n = 0;
    do {
      DTC_CHECK(n < 3, "scalar expression: too many arguments");
      args[n++] = comparison();
    } while (take(","));
    DTC_CHECK(take(")"), "scalar expression: expected )");
    if (name == "index") {
      ScalarNode node;
      node.kind = ScalarNode::Index;
      node.args = args;
      return push(std::move(node));
    }
    const Intrinsic* fn = findIntrinsic(name);
    DTC_CHECK(fn ? fn->arity == n : names_ != nullptr,
              "scalar expression: unknown function or wrong number of arguments");
    return call(name, args, n);
  }

  std::string_view text_;
  const std::vector<std::string_view>* names_;
  size_t at_ = 0;
  ScalarExpr out_;
};

// Assigns dtypes, bottom up and then down into the literals, while copying the needed nodes.
class Typer {
public:
  Typer(const ScalarExpr& in, std::span<const DType> operands, DType result, const OpQuery& q, DType acc)
      : in_(in), operands_(operands), result_(result), q_(q), acc_(acc) {}

  ScalarExpr run() {
    Typed root = visit(static_cast<uint16_t>(in_.nodes.size() - 1));
    if (!root.known) setNumber(root.node, result_);
    return needed(root.node);
  }

private:
  struct Typed {
    uint16_t node = 0;
    bool known = false; // a literal takes the dtype of the expression around it
  };
  const ScalarNode& node(Typed t) const { return out_.nodes[t.node]; }
  DType dtype(Typed t) const { return out_.nodes[t.node].dtype; }

  // The nodes that the root needs, in order.
  ScalarExpr needed(uint16_t root) const {
    std::vector<bool> used(root + size_t(1));
    used[root] = true;
    for (size_t i = root + size_t(1); i-- > 0;)
      if (used[i] && out_.nodes[i].kind == ScalarNode::Call)
        for (size_t k = 0; k < out_.nodes[i].fn->arity; ++k) used[out_.nodes[i].args[k]] = true;
    std::vector<uint16_t> newIndex(used.size());
    ScalarExpr result;
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      newIndex[i] = static_cast<uint16_t>(result.nodes.size());
      result.nodes.push_back(out_.nodes[i]);
      for (uint16_t& a : result.nodes.back().args) a = a < i ? newIndex[a] : uint16_t(0);
    }
    return result;
  }
  Typed push(ScalarNode n, bool known) {
    out_.nodes.push_back(std::move(n));
    return {static_cast<uint16_t>(out_.nodes.size() - 1), known};
  }
  Typed number(double v) {
    ScalarNode n;
    n.number = v;
    return push(std::move(n), false);
  }
  void setNumber(uint16_t at, DType d) {
    ScalarNode& n = out_.nodes[at];
    n.dtype = d;
    if (isFloat(d)) return;
    n.integer = n.exact ? convertScalar({0, n.integer}, DType::I64, d).i
                        : convertScalar({n.number, 0}, DType::F64, d).i;
  }
  // The common dtype of all known arguments: theirs, i64 for mixed integers, the float among integers.
  DType common(std::span<const Typed> args) const {
    bool any = false;
    DType d = result_;
    for (Typed t : args) {
      if (!t.known) continue;
      DType here = dtype(t);
      if (!any)
        d = here;
      else if (here != d)
        d = isFloat(here) ? here : isFloat(d) ? d : DType::I64;
      any = true;
    }
    return d;
  }
  Typed bring(Typed t, DType d) {
    if (!t.known) {
      setNumber(t.node, d);
      return {t.node, true};
    }
    if (dtype(t) == d) return t;
    static const Intrinsic* const cast = findIntrinsic("cast");
    ScalarNode n;
    n.kind = ScalarNode::Call;
    n.fn = cast;
    n.args = {t.node};
    n.dtype = d;
    return push(std::move(n), true);
  }
  Typed visit(uint16_t at) {
    const ScalarNode& n = in_.nodes[at];
    switch (n.kind) {
    case ScalarNode::Number: return number(n.number);
    case ScalarNode::Attribute: {
      auto v = q_.numberOf(n.name);
      DTC_CHECK(v.has_value(), "scalar expression: an attribute without a number");
      Typed t = number(*v);
      AttrId raw = q_.rawAttr(n.name);
      if (!q_.record->derive && raw.valid() && q_.module->attrs[raw].kind == Attr::Int) {
        out_.nodes[t.node].exact = true;
        out_.nodes[t.node].integer = q_.module->attrs[raw].i;
      }
      return t;
    }
    case ScalarNode::Operand: {
      if (n.position >= operands_.size()) return number(0);
      ScalarNode copy = n;
      copy.dtype = operands_[n.position];
      return push(std::move(copy), true);
    }
    case ScalarNode::Accumulator: {
      ScalarNode copy = n;
      copy.dtype = acc_;
      return push(std::move(copy), true);
    }
    case ScalarNode::Index: {
      const ScalarNode& dim = in_.nodes[n.args[0]];
      double d = dim.kind == ScalarNode::Attribute ? q_.numberOf(dim.name).value_or(0) : dim.number;
      ScalarNode copy = n;
      copy.position = static_cast<uint16_t>(d);
      copy.dtype = DType::I64;
      return push(std::move(copy), true);
    }
    case ScalarNode::Call: break;
    }
    return visitCall(n);
  }
  Typed visitCall(const ScalarNode& n) {
    if (n.fn->result == Intrinsic::Select) {
      Typed c = visit(n.args[0]);
      if (!c.known) return visit(node(c).number != 0 ? n.args[1] : n.args[2]);
      return finish(n, {c, visit(n.args[1]), visit(n.args[2])});
    }
    std::array<Typed, 3> args{};
    for (size_t i = 0; i < n.fn->arity; ++i) args[i] = visit(n.args[i]);
    bool constant = true;
    for (size_t i = 0; i < n.fn->arity; ++i) constant &= !args[i].known;
    if (constant && n.fn->onFloats)
      return number(n.fn->onFloats(node(args[0]).number, node(args[1]).number, node(args[2]).number));
    return finish(n, args);
  }
  Typed finish(const ScalarNode& n, std::array<Typed, 3> args) {
    ScalarNode copy = n;
    std::span<Typed> all(args.data(), n.fn->arity);
    switch (n.fn->result) {
    case Intrinsic::Same:
    case Intrinsic::Bool:
      copy.dtype = common(all);
      for (Typed& t : all) t = bring(t, copy.dtype);
      if (n.fn->result == Intrinsic::Bool) copy.dtype = DType::Bool;
      break;
    case Intrinsic::Select:
      copy.dtype = common(all.subspan(1));
      all[0] = bring(all[0], DType::Bool);
      for (Typed& t : all.subspan(1)) t = bring(t, copy.dtype);
      break;
    case Intrinsic::First:
      copy.dtype = all[0].known ? dtype(all[0]) : result_;
      all[0] = bring(all[0], copy.dtype);
      for (Typed& t : all.subspan(1))
        if (!t.known || isFloat(copy.dtype)) t = bring(t, copy.dtype);
      break;
    case Intrinsic::Part: copy.dtype = partType(dtype(all[0])); break;
    case Intrinsic::Complex: copy.dtype = complexType(dtype(all[0])).value_or(DType::C64); break;
    case Intrinsic::Cast:
      if (!all[0].known) all[0] = bring(all[0], result_);
      copy.dtype = result_;
      break;
    }
    for (size_t i = 0; i < all.size(); ++i) copy.args[i] = all[i].node;
    return push(std::move(copy), true);
  }

  const ScalarExpr& in_;
  std::span<const DType> operands_;
  DType result_;
  const OpQuery& q_;
  DType acc_;
  ScalarExpr out_;
};

// The dtype in which onInts is evaluated: that of the arguments (a comparison's own is bool).
DType argType(const ScalarExpr& e, const ScalarNode& n) { return e.nodes[n.args[0]].dtype; }

ScalarValue bitcastScalar(ScalarValue v, DType from, DType to) {
  Tensor source(from, {}), target(to, {});
  isFloat(from) ? source.setFloat(0, v.f) : source.setInt(0, v.i);
  DTC_CHECK(source.bytes().size() == target.bytes().size(), "bitcast between sizes");
  std::ranges::copy(source.bytes(), target.bytes().begin());
  return isFloat(to) ? ScalarValue{target.getFloat(0), 0} : ScalarValue{0, target.getInt(0)};
}

ScalarValue evalCall(const ScalarExpr& e, const ScalarNode& n, const std::vector<ScalarValue>& v) {
  const ScalarValue& a = v[n.args[0]];
  if (n.fn->result == Intrinsic::Cast) {
    bool bits = std::string_view(n.fn->name) == "bitcast";
    return bits ? bitcastScalar(a, argType(e, n), n.dtype) : convertScalar(a, argType(e, n), n.dtype);
  }
  if (n.fn->result == Intrinsic::Select) return v[a.i ? n.args[1] : n.args[2]];
  const ScalarValue& b = n.fn->arity > 1 ? v[n.args[1]] : a;
  const ScalarValue& c = n.fn->arity > 2 ? v[n.args[2]] : a;
  DType d = argType(e, n);
  if (isFloat(d)) {
    DTC_CHECK(n.fn->onFloats, "a scalar function that is not defined on floats");
    double r = n.fn->onFloats(a.f, b.f, c.f);
    return {r, n.dtype == DType::Bool ? static_cast<int64_t>(r) : 0};
  }
  DTC_CHECK(n.fn->onInts, "a scalar function that is not defined on integers");
  int64_t second = b.i;
  // An exponent of 2^63 or more: only its residue mod 2^62 and its being large matter in a ring of 2^64.
  if (n.fn->result == Intrinsic::First && second < 0 && e.nodes[n.args[1]].dtype == DType::U64)
    second = (second & ((int64_t(1) << 62) - 1)) | (int64_t(1) << 62);
  return {0, n.fn->onInts(d, a.i, second, c.i)};
}

std::string printNode(const ScalarExpr& e, uint16_t at) {
  const ScalarNode& n = e.nodes[at];
  switch (n.kind) {
  case ScalarNode::Operand: return std::string(1, static_cast<char>('a' + n.position));
  case ScalarNode::Accumulator: return "acc";
  case ScalarNode::Attribute: return "$" + n.name;
  case ScalarNode::Index: return "index(" + std::to_string(n.position) + ")";
  case ScalarNode::Number: {
    char text[40];
    snprintf(text, sizeof text, "%.17g", n.number);
    return text;
  }
  case ScalarNode::Call: break;
  }
  if (n.fn->infix)
    return "(" + printNode(e, n.args[0]) + " " + n.fn->infix + " " + printNode(e, n.args[1]) + ")";
  std::string text = std::string(n.fn->name) + "(";
  for (size_t i = 0; i < n.fn->arity; ++i) text += (i ? ", " : "") + printNode(e, n.args[i]);
  return text + ")";
}

} // namespace

ScalarExpr parseScalar(std::string_view text) { return Parser(text).parse(); }

ScalarExpr parseNamed(std::string_view text, const std::vector<std::string_view>& names) {
  return Parser(text, &names).parse();
}

ScalarExpr typeScalar(const ScalarExpr& e, std::span<const DType> operandTypes, DType result,
                      const OpQuery& q, DType accumulator) {
  return Typer(e, operandTypes, result, q, accumulator).run();
}

std::string scalarText(const OpQuery& q) {
  if (q.record->scalarFor) return q.record->scalarFor(q);
  return q.record->scalar ? q.record->scalar : "a";
}

ScalarExpr scalarOf(const OpQuery& q, DType result) {
  std::vector<DType> dtypes;
  for (size_t i = 0; i < q.operandTypes.size(); ++i) dtypes.push_back(q.type(i).dtype);
  return typeScalar(parseScalar(scalarText(q)), dtypes, result, q);
}

ScalarValue evalScalar(const ScalarExpr& e, std::span<const ScalarValue> operands,
                       std::span<const int64_t> index, std::vector<ScalarValue>& scratch, ScalarValue acc) {
  scratch.resize(e.nodes.size());
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ScalarNode& n = e.nodes[i];
    switch (n.kind) {
    case ScalarNode::Operand: scratch[i] = operands[n.position]; break;
    case ScalarNode::Accumulator: scratch[i] = acc; break;
    case ScalarNode::Attribute: DTC_CHECK(false, "an untyped scalar expression is evaluated"); break;
    case ScalarNode::Index: scratch[i] = {0, index[n.position]}; break;
    case ScalarNode::Number: scratch[i] = {n.number, n.integer}; break;
    case ScalarNode::Call: scratch[i] = evalCall(e, n, scratch); break;
    }
  }
  return scratch.back();
}

ScalarValue convertScalar(ScalarValue v, DType from, DType to) {
  if (isFloat(from)) {
    if (isFloat(to)) return v;
    return {0, isBool(to) ? int64_t(v.f != 0) : floatToInt(to, v.f)};
  }
  if (isFloat(to))
    return {from == DType::U64 ? static_cast<double>(static_cast<uint64_t>(v.i)) : static_cast<double>(v.i),
            0};
  return {0, isBool(to) ? int64_t(v.i != 0) : wrapToInt(to, v.i)};
}

std::string printScalar(const ScalarExpr& e) {
  return printNode(e, static_cast<uint16_t>(e.nodes.size() - 1));
}

} // namespace dtc
