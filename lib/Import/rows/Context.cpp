#include "dtc/Import/rows/Context.h"

#include "dtc/IR/text/Text.h"

#include <cmath>

namespace dtc {

// --- arguments ---

const ImportArgument* ArgumentKey::find(const ImportNode& node) const {
  int at = 0;
  for (const ImportArgument& a : node.arguments)
    if (position_ < 0 ? a.name == name_ : a.name.empty() && at++ == position_) return &a;
  return nullptr;
}

std::string ArgumentKey::text() const {
  return position_ < 0 ? "argument '" + std::string(name_) + "'" : "operand " + std::to_string(position_);
}

void ImportContext::countAsRead(const ImportContext& other) {
  for (const ImportArgument& a : node.arguments)
    if (other.wasRead(a)) read_.insert(a.name);
}

void ImportContext::fail(const std::string& why) const { throw ImportError{why}; }

void ImportContext::wrongKind(ArgumentKey key, const char* expected) const {
  const ImportAttribute* a = attribute(key);
  if (!a) fail("has no " + key.text() + ", which must be " + expected);
  if (const auto* unsupported = std::get_if<ImportUnsupported>(a))
    fail("has the " + key.text() + ", which " + unsupported->why);
  fail("has the " + key.text() + ", which must be " + expected);
}

const ImportAttribute* ImportContext::attribute(ArgumentKey key) const {
  const ImportArgument* a = key.find(node);
  if (a) read_.insert(a->name);
  if (!a || std::holds_alternative<std::monostate>(a->value)) return nullptr;
  if (const auto* ref = std::get_if<ImportValueRef>(&a->value); ref && !ref->valid()) return nullptr;
  return &a->value;
}

Expr ImportContext::tensor(ArgumentKey key) const {
  const Expr x = optional(key);
  if (!x.valid()) wrongKind(key, "a tensor");
  return x;
}

static ValueId valueOf(const ImportContext& c, ImportValueRef ref) {
  const ValueId v = c.scope.value(ref);
  if (v.valid()) return v;
  if (c.scope.reported(ref)) throw ImportError{};
  const ImportValue& declared = c.file.values[ref.index];
  if (!declared.unsupported.empty()) c.fail("reads %" + declared.name + ", which " + declared.unsupported);
  c.fail("reads %" + declared.name + ", which dtc does not compute");
}

Expr ImportContext::optional(ArgumentKey key) const {
  const ImportAttribute* a = attribute(key);
  if (!a) return {};
  if (const auto* t = std::get_if<Tensor>(a)) return constantOf(b, *t);
  const auto* ref = std::get_if<ImportValueRef>(a);
  if (!ref) wrongKind(key, "a tensor");
  return bound(valueOf(*this, *ref));
}

std::vector<Expr> ImportContext::tensors(ArgumentKey key) const {
  const ImportAttribute* a = attribute(key);
  const auto* refs = a ? std::get_if<std::vector<ImportValueRef>>(a) : nullptr;
  if (!refs && a && std::holds_alternative<std::vector<ImportInt>>(*a) &&
      std::get<std::vector<ImportInt>>(*a).empty())
    return {};
  if (!refs) wrongKind(key, "a list of tensors");
  std::vector<Expr> out;
  for (ImportValueRef ref : *refs) out.push_back(ref.valid() ? bound(valueOf(*this, ref)) : Expr());
  return out;
}

std::vector<Expr> ImportContext::operands(int first) const {
  std::vector<Expr> out;
  int at = 0;
  for (const ImportArgument& a : node.arguments)
    if (a.name.empty() && at++ >= first) out.push_back(optional(at - 1));
  return out;
}

const Tensor* ImportContext::constant(ArgumentKey key) const {
  const ImportAttribute* a = attribute(key);
  if (!a) return nullptr;
  if (const auto* t = std::get_if<Tensor>(a)) return t;
  const auto* ref = std::get_if<ImportValueRef>(a);
  if (!ref) return nullptr;
  const std::optional<Tensor>& elements = file.values[ref->index].constant;
  return elements ? &*elements : nullptr;
}

int64_t ImportContext::number(ArgumentKey key, const ImportInt& i) const {
  if (i.isNumber()) return i.number;
  if (i.size)
    fail("has the " + key.text() + ", which must be a number, but is the symbolic size " +
         printDim(*i.size, module.dims, module.strings) + ": bind it with --dim");
  if (!i.expression.empty())
    fail("has the " + key.text() + ", which depends on the symbolic size " + i.expression +
         ": bind its symbols with --dim");
  fail("has the " + key.text() + ", which must be a number, but is computed by the program");
}

int64_t ImportContext::integer(ArgumentKey key) const {
  const std::vector<int64_t> list = ints(key);
  if (list.size() != 1) wrongKind(key, "an integer");
  return list[0];
}

int64_t ImportContext::integer(ArgumentKey key, int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

std::vector<int64_t> ImportContext::ints(ArgumentKey key) const {
  std::vector<int64_t> out;
  for (const ImportInt& i : sizes(key)) out.push_back(number(key, i));
  return out;
}

std::vector<int64_t> ImportContext::ints(ArgumentKey key, std::vector<int64_t> fallback) const {
  return has(key) ? ints(key) : fallback;
}

std::vector<ImportInt> ImportContext::sizes(ArgumentKey key) const {
  const ImportAttribute* a = attribute(key);
  if (a) {
    if (const auto* one = std::get_if<ImportInt>(a)) return {*one};
    if (const auto* list = std::get_if<std::vector<ImportInt>>(a)) return *list;
    if (const auto* flag = std::get_if<bool>(a)) return {ImportInt(*flag ? 1 : 0)};
    if (const auto* real = std::get_if<double>(a);
        real && std::abs(*real) < 1e15 && std::trunc(*real) == *real)
      return {ImportInt(static_cast<int64_t>(*real))};
    if (const Tensor* t = constant(key); t && (isInteger(t->dtype()) || isBool(t->dtype()))) {
      std::vector<ImportInt> out;
      for (int64_t i = 0; i < t->numElements(); ++i) out.emplace_back(t->getInt(i));
      return out;
    }
    if (std::holds_alternative<ImportValueRef>(*a))
      fail("has the " + key.text() + ", which must be known at import, but is computed by the program");
  }
  wrongKind(key, "a list of integers");
}

Dim ImportContext::size(const ImportInt& i) const {
  if (i.size) return *i.size;
  if (!i.expression.empty())
    fail("depends on the symbolic size " + i.expression + ": bind its symbols with --dim");
  if (i.value.valid()) fail("has a size that is computed by the program");
  if (i.number < 0) fail("has the negative size " + std::to_string(i.number));
  return i.number;
}

double ImportContext::real(ArgumentKey key) const {
  const std::vector<double> list = reals(key);
  if (list.size() != 1) wrongKind(key, "a number");
  return list[0];
}

double ImportContext::real(ArgumentKey key, double fallback) const { return has(key) ? real(key) : fallback; }

std::vector<double> ImportContext::reals(ArgumentKey key) const {
  const ImportAttribute* a = attribute(key);
  if (a) {
    if (const auto* one = std::get_if<double>(a)) return {*one};
    if (const auto* list = std::get_if<std::vector<double>>(a)) return *list;
    if (const Tensor* t = constant(key); t && isFloat(t->dtype())) {
      std::vector<double> out;
      for (int64_t i = 0; i < t->numElements(); ++i) out.push_back(t->getFloat(i));
      return out;
    }
  }
  std::vector<double> out;
  for (int64_t i : ints(key)) out.push_back(static_cast<double>(i));
  return out;
}

bool ImportContext::flag(ArgumentKey key, bool fallback) const {
  const ImportAttribute* a = attribute(key);
  if (!a) return fallback;
  if (const auto* flag = std::get_if<bool>(a)) return *flag;
  return integer(key) != 0;
}

std::string ImportContext::text(ArgumentKey key, std::string_view fallback) const {
  const ImportAttribute* a = attribute(key);
  if (!a) return std::string(fallback);
  if (const auto* text = std::get_if<std::string>(a)) return *text;
  wrongKind(key, "a string");
}

std::optional<DType> ImportContext::dtype(ArgumentKey key) const {
  const ImportAttribute* a = attribute(key);
  if (!a) return std::nullopt;
  if (const auto* dtype = std::get_if<DType>(a)) return *dtype;
  wrongKind(key, "a dtype");
}

ImportGraphRef ImportContext::graph(ArgumentKey key) const {
  const ImportAttribute* a = attribute(key);
  if (const auto* g = a ? std::get_if<ImportGraphRef>(a) : nullptr) return *g;
  wrongKind(key, "a graph");
}

// --- results ---

const Type* ImportContext::declared(size_t i) const {
  if (i >= node.results.size() || !node.results[i].valid()) return nullptr;
  const std::optional<Type>& type = file.values[node.results[i].index].type;
  return type ? &*type : nullptr;
}

const Type& ImportContext::result(size_t i) const {
  if (const Type* type = declared(i)) return *type;
  if (i < node.results.size() && node.results[i].valid())
    if (const ImportValue& v = file.values[node.results[i].index]; !v.unsupported.empty())
      fail("returns %" + v.name + ", which " + v.unsupported);
  fail("has no declared type of its result " + std::to_string(i));
}

// --- emitting ---

Expr ImportContext::literal(double v, DType dtype) const { return bound(b.literal(v, dtype)); }

Expr ImportContext::literal(int64_t v, DType dtype) const { return bound(ops::Arg(v).literal(b, dtype)); }

Expr ImportContext::integerOperand(const ImportInt& i, DType dtype) const {
  if (i.value.valid()) return bound(valueOf(*this, i.value)).as(dtype);
  if (i.size) return bound(module.makeSymbol(*i.size, dtype, b.loc));
  if (!i.expression.empty())
    fail("depends on the symbolic size " + i.expression + ": bind its symbols with --dim");
  return literal(i.number, dtype);
}

} // namespace dtc
