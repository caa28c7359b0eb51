#pragma once
// Exchange of rows with the devices that own their indices in a sharded dim: a data-dependent all_to_all
// (sharding.md, exchange). A round has a fixed capacity for each pair of devices; if the data is uneven,
// more rounds are run until all rows are sent, so that none is dropped and no buffer size depends on the
// data.
#include "dtc/Ops/ShardedOp.h"
#include <functional>

namespace dtc {

class RowExchange {
public:
  // Rows whose index this device owns: sent to itself like any other, or skipped, if most rows are local.
  enum class Own : uint8_t { Goes, Stays, MostStay };
  // `indices`: int[n], the index of each of this device's n rows in a dim of `size` sharded by `factor`; rows
  // with an index out of range are not sent.
  RowExchange(ShardedOp&, Expr indices, Dim size, const ShardedFactor& factor, Own own = Own::Goes);
  // Sizes must be static; n and the dim must not be empty.
  [[nodiscard]] static bool possible(const ShardedOp&, Expr indices, Dim size, const ShardedFactor& factor);

  struct Round {
    Expr at;    // i32[n]: the slot of each row among those sent, or `room()` if it is in another round
    Expr goes;  // bool[n]: whether it is in this round
    Expr rows;  // i32[room()]: the row in each slot, or -1
    Expr asked; // i32[room()]: by sender, the indices of the received rows, or -1
  };
  // Appends to the Builder, which may be that of a loop's body: values made before are bound to it by Expr(in, v).
  using Body = std::function<ValueId(Builder& in, const Round&, Expr before)>;
  // The result of the body, applied to `start` round by round.
  Expr run(ValueId start, const Body&);

  [[nodiscard]] int64_t room() const { return factor_.devices * capacity_; } // rows of one round
  // [.., room(), ..] along `dim`: an equal part for each device; what is received is ordered by sender.
  Expr exchanged(Expr rows, int64_t dim) const;
  // Gathers rows of v along `dim`; an index out of range gives -0.0 (or 0).
  static Expr picked(Builder&, ValueId v, Expr numbers, int64_t dim);

private:
  Round round(Builder&, ValueId number); // invalid: the first

  ShardedOp& op_;
  const ShardedFactor& factor_;
  int64_t rows_, capacity_;
  ValueId indices_, owner_, goes_, rank_, maxRows_;
};

// Shards of equal sizes on all devices: uneven dims are padded with `value`, and trimmed like `like`.
[[nodiscard]] Expr paddedShards(ShardedOp&, Expr, int64_t value, std::span<const size_t> dims);
[[nodiscard]] Expr trimmedShards(ShardedOp&, Expr, TypeId like);

[[nodiscard]] bool shardSelect(ShardedOp&, std::vector<ValueId>& results, size_t source, size_t indices,
                               size_t dim);                                     // index_select, embedding
[[nodiscard]] bool shardScatterRows(ShardedOp&, std::vector<ValueId>& results); // scatter_slices
[[nodiscard]] bool shardGroupedMatmul(ShardedOp&, std::vector<ValueId>& results);

} // namespace dtc
