#pragma once
// A row's view of the node that it converts. A row is one expression over it, if possible:
//
//   {"aten.silu", [](ImportContext& c) { return ImportResults(silu(c.tensor("self"))); }},
//
// Ops are appended with Ops/Expr.h. Files are untrusted: an argument that is missing or of another kind, an op
// that does not match its operands, and fail() end the row with an exception, which the importer catches at
// the node and reports there (decision 266).
#include "dtc/Import/graph/Graph.h"
#include "dtc/Import/rows/Shapes.h"
#include <functional>
#include <initializer_list>
#include <set>
#include <span>

namespace dtc {

// Ends a row. `why` completes "'aten.foo' does not import: it …"; empty: reported already.
struct ImportError {
  std::string why;
};

// One value per result of the node. An absent one (Expr()) stands for a result that dtc does not compute: an
// error where it is used.
struct ImportResults {
  ImportResults() = default;
  ImportResults(Expr one) : values{one} {}
  ImportResults(std::vector<Expr> all) : values(std::move(all)) {}
  ImportResults(std::initializer_list<Expr> all) : values(all) {}
  template <size_t n> ImportResults(const std::array<Expr, n>& all) : values(all.begin(), all.end()) {}
  std::vector<Expr> values;
};

// An argument, by its name or by its position among those without a name.
class ArgumentKey {
public:
  ArgumentKey(const char* name) : name_(name) {}
  ArgumentKey(int position) : position_(position) {}
  [[nodiscard]] const ImportArgument* find(const ImportNode&) const;
  [[nodiscard]] std::string text() const; // "argument 'dim'", "operand 2"

private:
  std::string_view name_;
  int position_ = -1;
};

// The values of the file's table that exist so far, and the conversion of nested graphs.
class ImportScope {
public:
  virtual ~ImportScope() = default;
  [[nodiscard]] virtual ValueId value(ImportValueRef) const = 0; // invalid: absent
  [[nodiscard]] virtual bool reported(ImportValueRef) const = 0; // the node that computes it did not import
  // Appends a graph's nodes to `in`, with its inputs bound to these values; returns its outputs.
  [[nodiscard]] virtual std::vector<ValueId> inlined(ImportGraphRef, std::span<const ValueId> inputs,
                                                     Builder& in) = 0;
};

class ImportContext {
public:
  ImportContext(const ImportFile& file, const ImportNode& node, Builder& builder, ImportScope& scope)
      : file(file), node(node), b(builder), module(builder.module), scope(scope) {}

  const ImportFile& file;
  const ImportNode& node;
  Builder& b;
  Module& module;
  ImportScope& scope;

  // --- arguments: those without a fallback are required ---
  [[nodiscard]] const ImportAttribute* attribute(ArgumentKey) const; // nullptr: absent or none
  // Whether a row, or another context of this node's arguments, has read it.
  [[nodiscard]] bool wasRead(const ImportArgument& a) const { return read_.contains(a.name); }
  void countAsRead(const ImportContext& other); // what that one has read
  [[nodiscard]] bool has(ArgumentKey key) const { return attribute(key) != nullptr; }
  template <class T> [[nodiscard]] bool is(ArgumentKey key) const {
    const ImportAttribute* a = attribute(key);
    return a && std::holds_alternative<T>(*a);
  }
  [[nodiscard]] bool isTensor(ArgumentKey key) const { return is<ImportValueRef>(key); }
  // The argument itself; an error where it is absent or of another kind: "a tensor", say, was expected.
  template <class T> [[nodiscard]] const T& as(ArgumentKey key, const char* expected) const {
    const ImportAttribute* a = attribute(key);
    const T* value = a ? std::get_if<T>(a) : nullptr;
    if (!value) wrongKind(key, expected);
    return *value;
  }
  [[nodiscard]] Expr tensor(ArgumentKey) const;
  [[nodiscard]] Expr optional(ArgumentKey) const;                // Expr() if absent
  [[nodiscard]] std::vector<Expr> tensors(ArgumentKey) const;    // of a list; absent elements are Expr()
  [[nodiscard]] std::vector<Expr> operands(int first = 0) const; // all that have no names, from there on
  // The elements of a tensor argument that the file has as a constant; nullptr for others.
  [[nodiscard]] const Tensor* constant(ArgumentKey) const;
  // Integers may be written as booleans, and as constant tensors; symbolic sizes are errors, except in sizes.
  [[nodiscard]] int64_t integer(ArgumentKey) const;
  [[nodiscard]] int64_t integer(ArgumentKey, int64_t fallback) const;
  [[nodiscard]] std::vector<int64_t> ints(ArgumentKey) const; // one integer is a list of one
  [[nodiscard]] std::vector<int64_t> ints(ArgumentKey, std::vector<int64_t> fallback) const;
  [[nodiscard]] std::vector<ImportInt>
      sizes(ArgumentKey) const;                   // numbers (maybe negative) and symbolic sizes
  [[nodiscard]] Dim size(const ImportInt&) const; // an error for a negative or computed one
  [[nodiscard]] double real(ArgumentKey) const;
  [[nodiscard]] double real(ArgumentKey, double fallback) const;
  [[nodiscard]] std::vector<double> reals(ArgumentKey) const;
  [[nodiscard]] bool flag(ArgumentKey, bool fallback) const;
  [[nodiscard]] std::string text(ArgumentKey, std::string_view fallback) const;
  [[nodiscard]] std::optional<DType> dtype(ArgumentKey) const; // empty if absent
  [[nodiscard]] ImportGraphRef graph(ArgumentKey) const;

  // --- results, as the file declares them ---
  [[nodiscard]] const Type* declared(size_t i = 0) const; // nullptr: it does not, or the result is unused
  [[nodiscard]] const Type& result(size_t i = 0) const;   // an error if it does not

  // --- emitting ---
  [[nodiscard]] Expr bound(ValueId v) const { return {b, v}; }
  // A literal operand of that dtype; integers are checked against it.
  [[nodiscard]] Expr literal(double v, DType) const;
  [[nodiscard]] Expr literal(int64_t v, DType) const;
  // A size, or a computed integer, as an operand of that dtype.
  [[nodiscard]] Expr integerOperand(const ImportInt&, DType) const;

  // --- errors ---
  [[noreturn]] void fail(const std::string& why) const; // "has a mask of booleans, …"

private:
  [[noreturn]] void wrongKind(ArgumentKey, const char* expected) const;
  [[nodiscard]] int64_t number(ArgumentKey, const ImportInt&) const;

  mutable std::set<std::string_view, std::less<>> read_; // names
};

struct ImportRow {
  std::string_view target;
  ImportResults (*convert)(ImportContext&);
};

} // namespace dtc
