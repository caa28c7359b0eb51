#pragma once
// Rows that travel to the devices which have their places in a cut dim, or from them: an all_to_all shaped by data (sharding.md §2,
// exchange). A round has room for so many rows from each device to each other; where data is uneven, rounds are added until all
// have gone, so that none is ever left out, and no buffer depends on data.
#include "dtc/IR/CutOp.h"
#include <functional>

namespace dtc {

class RowExchange {
public:
  // Rows whose place is this device's own: sent to itself as any other, or left out; most rows may be such.
  enum class Own : uint8_t { Goes, Stays, MostStay };
  // `places`: int[n], for each of this device's n rows its place in a dim of `size` that `cut` cuts; where that is outside, the row
  // goes nowhere.
  RowExchange(CutOp&, ValueId places, Dim size, const CutFactor& cut, Own own = Own::Goes);
  // Sizes must be numbers; n and the dim not empty.
  [[nodiscard]] static bool possible(const CutOp&, ValueId places, Dim size, const CutFactor& cut);

  struct Round {
    ValueId
        at; // i32[n]: where each row stands among those that are sent, or `room()` where it is of another round
    ValueId goes;  // bool[n]: is it of this round?
    ValueId rows;  // i32[room()]: which row each place has, or -1
    ValueId asked; // i32[room()]: by sender, the places of the rows that came, or -1
  };
  using Body = std::function<ValueId(Builder&, const Round&, ValueId before)>;
  // What the body makes of `start`, round by round.
  ValueId run(ValueId start, const Body&);

  [[nodiscard]] int64_t room() const { return cut_.devices * capacity_; } // rows of one round
  // [.., room(), ..] along `dim`: an equal part to each device; what came, by sender.
  ValueId exchanged(Builder&, ValueId rows, int64_t dim) const;
  // Rows of v by number along `dim`; -0.0 (no number: 0) where that is none.
  static ValueId picked(Builder&, ValueId v, ValueId numbers, int64_t dim);

private:
  Round round(Builder&, ValueId number); // invalid: the first

  CutOp& op_;
  const CutFactor& cut_;
  int64_t rows_, capacity_;
  ValueId places_, owner_, goes_, rank_, most_;
};

// Pieces of one size on all devices: along its uneven dims filled with `value`, and trimmed as `like` is.
[[nodiscard]] ValueId filledPieces(CutOp&, ValueId, int64_t value, std::span<const size_t> dims);
[[nodiscard]] ValueId trimmedPieces(CutOp&, ValueId, TypeId like);

[[nodiscard]] bool cutSelect(CutOp&, std::vector<ValueId>& results, size_t source, size_t indices,
                             size_t dim);                                 // index_select, embedding
[[nodiscard]] bool cutScatterRows(CutOp&, std::vector<ValueId>& results); // scatter_slices
[[nodiscard]] bool cutGroupedMatmul(CutOp&, std::vector<ValueId>& results);

} // namespace dtc
