#pragma once
// Builds IR from C++ expressions. An operator, or a function of OpFunctions.h, appends one op to the Builder of
// its first operand, with the location and the common attributes of the Builder, and infers its types.
//
//   Expr x(b, m.operand(op, 0));
//   Expr y = exp(x - max(x, {.dims = d, .keepdim = true})) / 2;
//
// C++ does not define the order in which the operands of a call or an operator are evaluated. If two of them
// append ops, name one of them first, so that every compiler lists the ops in the same order.
#include "dtc/IR/build/Builder.h"
#include <array>
#include <concepts>

namespace dtc::ops {

// A value, and the Builder that appends its uses.
class Expr {
public:
  Expr() = default; // no value: an absent optional operand or result
  Expr(Builder& b, ValueId id) : builder_(&b), id_(id) {}
  operator ValueId() const { return id_; }
  [[nodiscard]] bool valid() const { return id_.valid(); }
  [[nodiscard]] Builder& builder() const { return *builder_; }
  [[nodiscard]] const Type& type() const { return builder_->module.typeOf(id_); }
  [[nodiscard]] TypeId typeId() const { return builder_->module[id_].type; }
  [[nodiscard]] DType dtype() const { return type().dtype; }
  [[nodiscard]] size_t rank() const { return type().rank(); }
  [[nodiscard]] const std::vector<Dim>& dims() const { return type().dims; }
  [[nodiscard]] Expr as(DType) const;          // converted; the value itself if it has the dtype
  [[nodiscard]] Expr literal(class Arg) const; // a number as a literal of this value's dtype

private:
  Builder* builder_ = nullptr;
  ValueId id_;
};

// An operand: a value, or a number, which becomes a literal of the dtype that the position requires
// (ir.md): mostly that of the other operands. Integers are exact in integer dtypes.
class Arg {
public:
  Arg() {} // an absent optional operand
  Arg(Expr e) : id_(e) {}
  Arg(ValueId id) : id_(id) {}
  template <std::integral T> Arg(T v) : kind_(Integer), integer_(static_cast<int64_t>(v)) {}
  Arg(double v) : kind_(Real), real_(v) {}
  [[nodiscard]] bool isNumber() const { return kind_ != Id; }
  [[nodiscard]] bool isInteger() const { return kind_ == Integer; }
  [[nodiscard]] ValueId id() const { return id_; }      // unless it is a number
  [[nodiscard]] ValueId literal(Builder&, DType) const; // of a number

private:
  enum Kind : uint8_t { Id, Integer, Real } kind_ = Id;
  ValueId id_;
  union {
    int64_t integer_ = 0;
    double real_;
  };
};

// Any number of operands.
class Values {
public:
  Values(std::initializer_list<Arg> values) : args_(values) {}
  Values(std::vector<Arg> values) : args_(std::move(values)) {}
  Values(std::span<const ValueId> values) : args_(values.begin(), values.end()) {}
  Values(const std::vector<ValueId>& values) : args_(values.begin(), values.end()) {}
  Values(const std::vector<Expr>& values) : args_(values.begin(), values.end()) {}
  [[nodiscard]] std::span<const Arg> args() const { return args_; }

private:
  std::vector<Arg> args_;
};

// --- attributes: one class per type, each of which also takes the AttrId of an existing attribute ---
// They refer to lists and texts, which must outlive the call.

inline constexpr struct DefaultAttr {
} kDefault; // not written: the record's default

class AttrValue {
public:
  AttrValue(DefaultAttr) {}
  AttrValue(AttrId id) : id_(id) {} // an invalid one is not written
  [[nodiscard]] AttrId intern(Module&) const;

protected:
  enum Kind : uint8_t { Id, Integer, Real, Bool, String, DTypeName, Size, Integers, Sizes, Axes };
  AttrValue(Kind kind, int64_t v) : kind_(kind), integer_(v) {}
  AttrValue(Kind kind, const void* data, size_t size) : kind_(kind), data_(data), size_(size) {}

  Kind kind_ = Id;
  AttrId id_;
  union {
    int64_t integer_ = 0; // Integer, Bool, DTypeName, Size (a symbolic one as -1 - its index in the DimTable)
    double real_;
    const void* data_; // the others
  };
  size_t size_ = 0;
};

struct IntAttr : AttrValue {
  using AttrValue::AttrValue;
  template <std::integral T> IntAttr(T v) : AttrValue(Integer, static_cast<int64_t>(v)) {}
};
struct FloatAttr : AttrValue {
  using AttrValue::AttrValue;
  FloatAttr(double v) : AttrValue(Real, 0) { real_ = v; }
};
struct BoolAttr : AttrValue {
  using AttrValue::AttrValue;
  BoolAttr(bool v) : AttrValue(Bool, v) {}
};
struct StringAttr : AttrValue {
  using AttrValue::AttrValue;
  StringAttr(std::string_view v) : AttrValue(String, v.data(), v.size()) {}
  StringAttr(const char* v) : StringAttr(std::string_view(v)) {}
  StringAttr(const std::string& v) : StringAttr(std::string_view(v)) {}
};
struct DTypeAttr : AttrValue {
  using AttrValue::AttrValue;
  DTypeAttr(DType v) : AttrValue(DTypeName, static_cast<int64_t>(v)) {}
};
struct SizeAttr : AttrValue {
  using AttrValue::AttrValue;
  SizeAttr(Dim v) : AttrValue(Size, v.isStatic() ? v.value() : -1 - static_cast<int64_t>(v.tableIndex())) {}
  template <std::integral T> SizeAttr(T v) : AttrValue(Size, static_cast<int64_t>(v)) {}
};
struct AnyAttr : AttrValue { // elements, lists of lists
  using AttrValue::AttrValue;
};

template <class List, class T>
concept ListOf = std::convertible_to<const List&, std::span<const T>>;

struct IntsAttr : AttrValue { // integers, dims
  using AttrValue::AttrValue;
  IntsAttr() = delete;
  IntsAttr(std::initializer_list<int64_t> v) : AttrValue(Integers, v.begin(), v.size()) {}
  template <ListOf<int64_t> List> IntsAttr(const List& list) : AttrValue(Integers, nullptr, 0) {
    const std::span<const int64_t> v = list;
    data_ = v.data(), size_ = v.size();
  }
};
struct SizesAttr : AttrValue {
  using AttrValue::AttrValue;
  SizesAttr() = delete;
  SizesAttr(std::initializer_list<Dim> v) : AttrValue(Sizes, v.begin(), v.size()) {}
  template <ListOf<Dim> List> SizesAttr(const List& list) : AttrValue(Sizes, nullptr, 0) {
    const std::span<const Dim> v = list;
    data_ = v.data(), size_ = v.size();
  }
  template <ListOf<int64_t> List> SizesAttr(const List& list) : AttrValue(Integers, nullptr, 0) {
    const std::span<const int64_t> v = list;
    data_ = v.data(), size_ = v.size();
  }
};
struct AxesAttr : AttrValue {
  using AttrValue::AttrValue;
  AxesAttr() = delete;
  AxesAttr(std::span<const AxisRef> v) : AttrValue(Axes, v.data(), v.size()) {}
  AxesAttr(const std::vector<AxisRef>& v) : AttrValue(Axes, v.data(), v.size()) {}
};

// --- what the functions of OpFunctions.h call ---
namespace detail {

struct Site { // the Builder of an op
  Site(Builder& b) : builder(b) {}
  Site(Expr e) : builder(e.builder()) {}
  Builder& builder;
};
struct NamedValue {
  const char* name;
  AttrValue value;
};
using Operands = std::initializer_list<Arg>; // absent ones are skipped
using Attributes = std::initializer_list<NamedValue>;

// Appends an op with these operands and then `rest`. `type`: the result type, if the op's is written.
OpId append(Site, const char* op, Operands, Attributes = {}, const Values* rest = nullptr, TypeId type = {});
// The same for an op with one result.
Expr one(Site, const char* op, Operands, Attributes = {}, const Values* rest = nullptr, TypeId type = {});
// All results; those beyond the op's own are absent.
template <size_t count> std::array<Expr, count> each(Site site, OpId op) {
  const Op& made = site.builder.module[op];
  std::array<Expr, count> out;
  for (uint32_t i = 0; i < count && i < made.numResults; ++i)
    out[i] = Expr(site.builder, ValueId(made.firstResult.index + i));
  return out;
}
std::vector<Expr> all(Site, OpId);

} // namespace detail

// --- operators ---

struct LeftArg : Arg { // a left operand that is not an Expr
  LeftArg(ValueId v) : Arg(v) {}
  LeftArg(double v) : Arg(v) {}
  template <std::integral T> LeftArg(T v) : Arg(v) {}
};

inline Expr operator+(Expr a, Arg b) { return detail::one(a, "add", {a, b}); }
inline Expr operator-(Expr a, Arg b) { return detail::one(a, "sub", {a, b}); }
inline Expr operator*(Expr a, Arg b) { return detail::one(a, "mul", {a, b}); }
inline Expr operator/(Expr a, Arg b) { return detail::one(a, "div", {a, b}); }
inline Expr operator+(LeftArg a, Expr b) { return detail::one(b, "add", {a, b}); }
inline Expr operator-(LeftArg a, Expr b) { return detail::one(b, "sub", {a, b}); }
inline Expr operator*(LeftArg a, Expr b) { return detail::one(b, "mul", {a, b}); }
inline Expr operator/(LeftArg a, Expr b) { return detail::one(b, "div", {a, b}); }
inline Expr operator-(Expr x) { return detail::one(x, "neg", {x}); }
inline Expr operator%(Expr a, Arg b) { return detail::one(a, "rem", {a, b}); }
// Templates, because a ValueId has an order of its own.
template <std::convertible_to<Arg> T> Expr operator<(Expr a, T b) { return detail::one(a, "lt", {a, b}); }
template <std::convertible_to<Arg> T> Expr operator<=(Expr a, T b) { return detail::one(a, "le", {a, b}); }
template <std::convertible_to<Arg> T> Expr operator>(Expr a, T b) { return detail::one(a, "gt", {a, b}); }
template <std::convertible_to<Arg> T> Expr operator>=(Expr a, T b) { return detail::one(a, "ge", {a, b}); }
inline Expr operator&(Expr a, Arg b) { return detail::one(a, "and", {a, b}); }
inline Expr operator|(Expr a, Arg b) { return detail::one(a, "or", {a, b}); }
inline Expr operator^(Expr a, Arg b) { return detail::one(a, "xor", {a, b}); }

} // namespace dtc::ops

namespace dtc {
using ops::Expr;
} // namespace dtc
