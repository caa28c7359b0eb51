#pragma once
// Shared by the records of shape, index and normalize: lists of sizes, loops over host tensors, attributes
// set by code.
#include "dtc/IR/Element.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Support/Tensor.h"
#include "record/RecordParts.h"
#include <cstring>

namespace dtc {

// Reports "'op' what" at the op.
bool reportShape(const OpQuery&, std::string_view what);
// Whether i32 holds all indices along a dim of operand 0; else reports it.
bool indexesWithI32(const OpQuery&, size_t dim);

void addPoolingOps(OpRegistry&);     // of the family `window`
void addChannelNormOps(OpRegistry&); // group_norm batch_norm, of the family `normalize`

// The files of the family `shape`.
void addViewOps(OpRegistry&);    // reshape transpose broadcast expand_dims squeeze tile
void addSliceOps(OpRegistry&);   // concat stack split slice pad
void addReorderOps(OpRegistry&); // flip roll tril triu
void addDynamicSliceOps(OpRegistry&);

// --- attributes ---
// A list of sizes. -1 becomes kInferred and other negative numbers kNegative, which are not sizes and must
// not be used as such. Empty if the attribute is absent.
[[nodiscard]] std::optional<std::vector<Dim>> sizesAttr(const OpQuery&, std::string_view name);
inline constexpr Dim kInferred{INT64_MIN}, kNegative{INT64_MIN + 1};
[[nodiscard]] inline bool isSize(Dim d) { return !(d == kInferred) && !(d == kNegative); }
void setListed(AttrList&, StrId name, AttrId value); // replaces or adds
// For OpRecord::localize: sets "shape" to the local result's.
void localizeShape(const OpQuery&, std::span<const TypeId> operands, std::span<const TypeId> results,
                   AttrList&);
[[nodiscard]] std::string dimText(const OpQuery&, Dim);

// --- rules ---
// A dim that must be unsharded: it gets its own factor, which sharding gathers first.
uint16_t addUnsharded(Rule&, Dim size, std::string name = {});
[[nodiscard]] inline DimMap freeDim(uint16_t factor) { return {DimMap::Free, {{factor, 1}}, 0}; }
[[nodiscard]] inline bool isOneDim(Dim d) { return d.isStatic() && d.value() == 1; }

// --- evaluation ---
// Both have the same dtype (the evaluator stores all floats alike).
inline void copyElement(Tensor& to, int64_t i, const Tensor& from, int64_t j) {
  auto bytes = static_cast<size_t>(dtypeBytes(to.dtype()));
  std::memcpy(to.bytes().data() + static_cast<size_t>(i) * bytes,
              from.bytes().data() + static_cast<size_t>(j) * bytes, bytes);
}
// fn(coordinates, row-major index) for every element.
template <class Fn> void forEachElement(const std::vector<int64_t>& shape, Fn&& fn) {
  std::vector<int64_t> at(shape.size());
  for (int64_t n : shape)
    if (n == 0) return;
  for (int64_t flat = 0;; ++flat) {
    fn(std::span<const int64_t>(at), flat);
    size_t d = shape.size();
    while (d-- > 0) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}
[[nodiscard]] inline int64_t flatten(std::span<const int64_t> at, std::span<const int64_t> strides) {
  int64_t flat = 0;
  for (size_t d = 0; d < at.size(); ++d) flat += at[d] * strides[d];
  return flat;
}

// --- elements ---
using ElementNode = ElementBuilder::Node;
// The result's own coordinates.
[[nodiscard]] std::vector<ElementNode> ownCoordinates(ElementBuilder&, size_t rank);

} // namespace dtc
