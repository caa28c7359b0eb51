#pragma once
// A converter's view of the op it converts, and its interface for writing dtc IR (docs/adding-an-import.md).
// A converter is `bool convertX(HloContext& c)`: it reads operands and attributes, emits ops, calls `setResult`
// with the results, and returns what `setResult` returned. Every error is reported at its location in the text; a
// function that returns an invalid id, nothing or false has reported, and a function that takes an invalid id
// returns one without a further report.
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpName.h"
#include "import/HloNumbers.h"
#include "mlir/MlirTree.h"
#include <functional>
#include <initializer_list>
#include <span>

namespace dtc {

class HloImporter;

// A value of the text: one dtc value; for a tuple those of its elements, in order; none for a token.
struct HloValue {
  const MlirType* type = nullptr;
  std::vector<ValueId> parts;
};

class HloContext {
public:
  HloContext(HloImporter& importer, const MlirOp& op);

  HloImporter& importer;
  Module& module;
  Diagnostics& diags;
  const MlirOp& op;

  // --- operands ---
  [[nodiscard]] size_t numOperands() const { return operands_.size(); }
  [[nodiscard]] ValueId operand(size_t i); // a tensor; invalid and an error if there is none
  [[nodiscard]] std::vector<ValueId>
  tensors(size_t first = 0); // of all operands from that one on; tokens are dropped
  [[nodiscard]] const HloValue& value(size_t i) const { return operands_[i]; }
  [[nodiscard]] bool expectOperands(size_t count); // reports an error unless the count matches
  [[nodiscard]] const Type& typeOf(ValueId v) const { return module.typeOf(v); }
  [[nodiscard]] std::vector<int64_t> shapeOf(ValueId v) const; // empty for an invalid one
  [[nodiscard]] size_t rankOf(ValueId v) const { return shapeOf(v).size(); }
  [[nodiscard]] DType dtypeOf(ValueId v) const { return v.valid() ? typeOf(v).dtype : DType::F32; }

  // --- results, as the text declares them. In a region that is applied elementwise (lifted) a declared type
  // is that of one element: only its dtype counts there. ---
  [[nodiscard]] size_t numResults() const { return op.resultTypes.size(); }
  [[nodiscard]] TypeId resultType(size_t i = 0); // invalid and an error where it is unsupported
  [[nodiscard]] std::vector<int64_t> resultShape(size_t i = 0);
  [[nodiscard]] DType resultDType(size_t i = 0);
  [[nodiscard]] bool lifted() const;
  // The dtc type of a type of the text.
  [[nodiscard]] TypeId typeFrom(const MlirType* t, SourceRange where);

  // --- attributes, by their generic names; absent ones take the fallback ---
  [[nodiscard]] const MlirAttr* attr(std::string_view name) const; // aliases followed; nullptr if absent
  [[nodiscard]] bool has(std::string_view name) const { return attr(name) != nullptr; }
  // Lists and tensors of integers, in any form: [0, 1], array<i64: 0, 1>, dense<[0, 1]>. Nothing and an error
  // for anything else. `count`: the required length, to which a splat is expanded; -1: any length.
  [[nodiscard]] std::optional<std::vector<int64_t>> ints(std::string_view name, int64_t count = -1);
  [[nodiscard]] std::optional<std::vector<int64_t>> intsOr(std::string_view name,
                                                           std::vector<int64_t> fallback, int64_t count = -1);
  [[nodiscard]] std::optional<int64_t> integer(std::string_view name); // required
  [[nodiscard]] std::optional<int64_t> integerOr(std::string_view name, int64_t fallback);
  [[nodiscard]] std::optional<double> real(std::string_view name);
  [[nodiscard]] std::optional<bool> flagOr(std::string_view name, bool fallback);
  // "lhs_contracting_dimensions = [1]" in the body of #stablehlo.dot<…> and similar; empty where the name is
  // absent.
  [[nodiscard]] std::optional<std::vector<int64_t>> bodyInts(const MlirAttr& dialect, std::string_view name);
  [[nodiscard]] const MlirTree& tree() const;
  // A keyword, written bare (LT), in #stablehlo<comparison_direction LT> or in quotes; "" if absent.
  [[nodiscard]] std::string_view word(std::string_view name) const;
  // A string or symbol with its escapes decoded; "" if absent.
  [[nodiscard]] std::string text(std::string_view name) const;

  // --- emitting ---
  struct Attribute {
    AttributeName name;
    AttrId value;
    bool optional = false; // omitted where the value is invalid
  };
  using Attributes = std::initializer_list<Attribute>;
  // A dtc op with the location and name of the op of the text. `types`: the result types of ops that state
  // them.
  OpId emitOp(OpName name, std::span<const ValueId> operands, Attributes attrs = {},
              std::span<const TypeId> types = {});
  // Emits an op and returns its only (first) result.
  ValueId emit(OpName name, std::initializer_list<ValueId> operands, Attributes attrs = {});
  ValueId emit(OpName name, std::span<const ValueId> operands, Attributes attrs = {});
  ValueId emitTyped(OpName name, std::initializer_list<ValueId> operands, Attributes attrs, TypeId type);
  // Appends what a function writes with a Builder, and returns its result.
  ValueId build(const std::function<ValueId(Builder&)>& write);
  AttrId intAttr(int64_t v) { return module.attrs.integer(v); }
  AttrId realAttr(double v) { return module.attrs.real(v); }
  AttrId boolAttr(bool v) { return module.attrs.boolean(v); }
  AttrId intsAttr(std::span<const int64_t> v) { return module.attrs.integers(v); }
  AttrId wordAttr(std::string_view w) { return module.attrs.word(module.strings.intern(w)); }
  AttrId stringAttr(std::string_view s) { return module.attrs.string(module.strings.intern(s)); }
  AttrId listAttr(std::vector<AttrId> v) { return module.attrs.list(std::move(v)); }
  AttrId dtypeAttr(DType d) { return wordAttr(dtypeName(d)); }
  [[nodiscard]] TypeId tensorType(DType d, std::span<const int64_t> shape);
  // A scalar constant of the given dtype.
  ValueId literal(double v, DType dtype);
  // A tensor filled with one value, and a tensor of many.
  ValueId splat(double v, DType dtype, std::span<const int64_t> shape);
  ValueId constant(const HloNumbers& numbers, TypeId type);
  // Common data-movement ops; each returns its operand where there is nothing to do.
  ValueId reshape(ValueId x, std::span<const int64_t> shape);
  ValueId broadcastTo(ValueId x, std::span<const int64_t> shape); // NumPy broadcasting
  ValueId transpose(ValueId x, std::span<const int64_t> perm);
  ValueId convert(ValueId x, DType dtype);

  // --- results ---
  //
  // Sets result i. An error where the type differs from the declared one.
  bool setResult(size_t i, ValueId v);
  bool setResult(ValueId v) { return setResult(0, v); }
  bool setResults(std::span<const ValueId> values);          // one per result
  bool setResultParts(size_t i, std::vector<ValueId> parts); // for a tuple or a token

  // --- regions ---
  [[nodiscard]] bool expectRegions(size_t count);
  // Applies the region's ops elementwise to whole tensors: its scalar arguments become `operands` (which
  // broadcast against each other), and its results are broadcast to `shape`. Empty where an op cannot be
  // applied elementwise. Used by reduce, sort, map and scatter.
  [[nodiscard]] std::vector<ValueId> inlineRegion(const MlirRegion& region, std::span<const ValueId> operands,
                                                  std::span<const int64_t> shape);
  // The single op that a region applies to its two scalar arguments in this order ("add"), without its
  // dialect; "" where it does more. `swapped`: the arguments may be swapped.
  [[nodiscard]] std::string_view regionOp(const MlirRegion& region) const;

  // --- errors ---
  // "'stablehlo.fft' …" at the op. Always false.
  bool fail(const std::string& why);
  bool failAt(SourceRange where, const std::string& why);
  bool failAttr(std::string_view name, const std::string& why); // at the attribute

private:
  friend class HloImporter;
  std::vector<HloValue> operands_;
  std::vector<HloValue> results_; // results set so far
  std::vector<bool> given_;
};

} // namespace dtc
