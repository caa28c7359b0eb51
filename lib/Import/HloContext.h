#pragma once
// What a converter sees of the op that it converts, and what it writes our IR with (docs/adding-an-import.md). A converter
// is `bool convertX(HloContext& c)`: it reads operands and attributes, emits ops, gives the results, and returns what
// `give` returned. Everything that does not fit is reported where it stands in the text; whatever returns an invalid id,
// nothing or false has reported, and what takes an invalid id passes it on without a word.
#include "HloNumbers.h"
#include "MlirTree.h"
#include "dtc/IR/OpRecord.h"
#include <initializer_list>
#include <span>

namespace dtc {

class HloImporter;

// A value of the text: one of ours; those of a tuple's elements, in order; none for a token.
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
  tensors(size_t first = 0); // of all operands from there on; tokens vanish
  [[nodiscard]] const HloValue& value(size_t i) const { return operands_[i]; }
  [[nodiscard]] bool expectOperands(size_t count); // an error unless there are so many
  [[nodiscard]] const Type& typeOf(ValueId v) const { return module.typeOf(v); }
  [[nodiscard]] std::vector<int64_t> shapeOf(ValueId v) const; // empty for an invalid one
  [[nodiscard]] size_t rankOf(ValueId v) const { return shapeOf(v).size(); }
  [[nodiscard]] DType dtypeOf(ValueId v) const { return v.valid() ? typeOf(v).dtype : DType::F32; }

  // --- results, as the text declares them. In a region that is applied elementwise (lifted) a declared type is that of
  // one element: only its dtype counts there. ---
  [[nodiscard]] size_t numResults() const { return op.resultTypes.size(); }
  [[nodiscard]] TypeId resultType(size_t i = 0); // invalid and an error where it has no meaning here
  [[nodiscard]] std::vector<int64_t> resultShape(size_t i = 0);
  [[nodiscard]] DType resultDType(size_t i = 0);
  [[nodiscard]] bool lifted() const;
  // The type of the text as ours.
  [[nodiscard]] TypeId typeFrom(const MlirType* t, SourceRange where);

  // --- attributes, by their generic names; what is absent takes the fallback ---
  [[nodiscard]] const MlirAttr* attr(std::string_view name) const; // aliases followed; nullptr if absent
  [[nodiscard]] bool has(std::string_view name) const { return attr(name) != nullptr; }
  // Lists and tensors of integers, whatever their form: [0, 1], array<i64: 0, 1>, dense<[0, 1]>. Nothing and an error where
  // it is no such thing. `count`: so many there must be, and a splat is that many; -1: any number.
  [[nodiscard]] std::optional<std::vector<int64_t>> ints(std::string_view name, int64_t count = -1);
  [[nodiscard]] std::optional<std::vector<int64_t>> intsOr(std::string_view name,
                                                           std::vector<int64_t> fallback, int64_t count = -1);
  [[nodiscard]] std::optional<int64_t> integer(std::string_view name); // required
  [[nodiscard]] std::optional<int64_t> integerOr(std::string_view name, int64_t fallback);
  [[nodiscard]] std::optional<double> real(std::string_view name);
  [[nodiscard]] std::optional<bool> flagOr(std::string_view name, bool fallback);
  // "lhs_contracting_dimensions = [1]" in the body of #stablehlo.dot<…> and its kin; empty where the name is not there.
  [[nodiscard]] std::optional<std::vector<int64_t>> bodyInts(const MlirAttr& dialect, std::string_view name);
  [[nodiscard]] const MlirTree& tree() const;
  // A word, whether it stands bare (LT), in #stablehlo<comparison_direction LT> or in quotes; "" if absent.
  [[nodiscard]] std::string_view word(std::string_view name) const;
  // A string or symbol with its escapes undone; "" if absent.
  [[nodiscard]] std::string text(std::string_view name) const;

  // --- emitting ---
  struct Attribute {
    const char* name;
    AttrId value;
    bool optional = false; // left out where the value is invalid
  };
  using Attributes = std::initializer_list<Attribute>;
  // An op of ours, placed and named as the op of the text. `types`: the result types of ops that want them written.
  OpId emitOp(std::string_view name, std::span<const ValueId> operands, Attributes attrs = {},
              std::span<const TypeId> types = {});
  // The only (first) result of one.
  ValueId emit(std::string_view name, std::initializer_list<ValueId> operands, Attributes attrs = {});
  ValueId emit(std::string_view name, std::span<const ValueId> operands, Attributes attrs = {});
  ValueId emitTyped(std::string_view name, std::initializer_list<ValueId> operands, Attributes attrs,
                    TypeId type);
  AttrId intAttr(int64_t v) { return module.attrs.integer(v); }
  AttrId realAttr(double v) { return module.attrs.real(v); }
  AttrId boolAttr(bool v) { return module.attrs.boolean(v); }
  AttrId intsAttr(std::span<const int64_t> v) { return module.attrs.integers(v); }
  AttrId wordAttr(std::string_view w) { return module.attrs.word(module.strings.intern(w)); }
  AttrId stringAttr(std::string_view s) { return module.attrs.string(module.strings.intern(s)); }
  AttrId listAttr(std::span<const AttrId> v);
  AttrId dtypeAttr(DType d) { return wordAttr(dtypeName(d)); }
  [[nodiscard]] TypeId tensorType(DType d, std::span<const int64_t> shape);
  // A number as an operand, in the dtype.
  ValueId literal(double v, DType dtype);
  // A tensor of one value, and of many.
  ValueId splat(double v, DType dtype, std::span<const int64_t> shape);
  ValueId constant(const HloNumbers& numbers, TypeId type);
  // Common moves; each gives its operand back where there is nothing to do.
  ValueId reshape(ValueId x, std::span<const int64_t> shape);
  ValueId broadcastTo(ValueId x, std::span<const int64_t> shape); // as NumPy does
  ValueId transpose(ValueId x, std::span<const int64_t> perm);
  ValueId convert(ValueId x, DType dtype);

  // --- results ---
  // What result i is. An error where the type is not the declared one.
  bool give(size_t i, ValueId v);
  bool give(ValueId v) { return give(0, v); }
  bool giveAll(std::span<const ValueId> values);        // one per result
  bool giveParts(size_t i, std::vector<ValueId> parts); // a tuple's or a token's

  // --- regions ---
  [[nodiscard]] bool expectRegions(size_t count);
  // The region's ops applied to each element of whole tensors: its scalar arguments stand for `operands` (which broadcast
  // against each other), and so do its results, which come back broadcast to `shape`. Empty where something in it cannot
  // be applied so. reduce, sort, map, scatter are made of this.
  [[nodiscard]] std::vector<ValueId> inlineRegion(const MlirRegion& region, std::span<const ValueId> operands,
                                                  std::span<const int64_t> shape);
  // The single op that a region of two scalar arguments applies to them in this order ("add"), without its dialect; "" where it
  // does more. `swapped`: the arguments may stand the other way round.
  [[nodiscard]] std::string_view regionOp(const MlirRegion& region) const;

  // --- errors ---
  // "'stablehlo.fft' …" at the op. Always false.
  bool fail(const std::string& why);
  bool failAt(SourceRange where, const std::string& why);
  bool failAttr(std::string_view name, const std::string& why); // at the attribute

private:
  friend class HloImporter;
  std::vector<HloValue> operands_;
  std::vector<HloValue> results_; // given so far
  std::vector<bool> given_;
};

} // namespace dtc
