#pragma once
// Sizes of tensor dims: a number, or a product of a number and symbols, possibly divided among devices
// (n/axes).
#include "dtc/Support/InternIndex.h"
#include "dtc/Support/StringTable.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

// A mesh axis by name, or a sub-axis a:(pre)size of it: with the full axis of size pre*size*post, the index
// along the sub-axis is (index / post) % size. A full axis has pre = 1 and size = 0, whatever its size.
struct AxisRef {
  StrId name;
  int64_t pre = 1;
  int64_t size = 0; // 0: the full axis
  [[nodiscard]] bool isFullAxis() const { return size == 0; }
  friend bool operator==(const AxisRef&, const AxisRef&) = default;
  friend auto operator<=>(const AxisRef&, const AxisRef&) = default;
};

// A dim. Static sizes are stored inline; others (symbols, shards) are interned in a DimTable, so that == is
// exact: true iff number, symbols and axes are the same (ir.md).
class Dim {
public:
  constexpr Dim() = default;
  constexpr Dim(int64_t staticSize) : raw_(staticSize) {}
  [[nodiscard]] static constexpr Dim fromTable(uint32_t index) {
    return Dim(-1 - static_cast<int64_t>(index));
  }
  [[nodiscard]] constexpr bool isStatic() const { return raw_ >= 0; }
  [[nodiscard]] constexpr int64_t value() const { return raw_; } // of a static dim
  [[nodiscard]] constexpr uint32_t tableIndex() const { return static_cast<uint32_t>(-1 - raw_); }
  friend constexpr bool operator==(Dim, Dim) = default;

private:
  int64_t raw_ = 0;
};

// coefficient * product of symbols (sorted by id, with repeats), sharded along `axes` (major to minor; empty:
// unsharded).
struct DimExpr {
  int64_t coefficient = 1;
  std::vector<StrId> symbols;
  std::vector<AxisRef> axes;
  friend bool operator==(const DimExpr&, const DimExpr&) = default;
};

class DimTable {
public:
  // Interns; static expressions become plain numbers. A coefficient of 0 drops the symbols.
  Dim intern(DimExpr expr);
  [[nodiscard]] DimExpr expr(Dim d) const; // also of a static dim
  [[nodiscard]] const DimExpr& dynamic(Dim d) const { return exprs_[d.tableIndex()]; }
  // a*b; empty on overflow or if either is sharded (a local reshape neither merges nor splits sharded dims).
  [[nodiscard]] std::optional<Dim> mul(Dim a, Dim b);
  // a/b if exact: both static, or with symbols cancelled.
  [[nodiscard]] std::optional<Dim> divExact(Dim a, Dim b);
  // The unsharded dim: 11/b -> 11.
  [[nodiscard]] Dim unsharded(Dim d);

private:
  std::vector<DimExpr> exprs_;
  InternIndex index_;
};

// "512", "4*B", "11/b", "7/(a, b)", "a:(1)2"
[[nodiscard]] std::string printDim(Dim, const DimTable&, const StringTable&);
[[nodiscard]] std::string printAxis(const AxisRef&, const StringTable&);

} // namespace dtc
