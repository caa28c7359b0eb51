#pragma once
// Ops with internal communication (ShardedOp.h) as programs of their own, for pricing and for the prover.
#include "dtc/Ops/ShardedOp.h"
#include <map>

namespace dtc {

// The program of one op on shards: a module of its own with one spmd function, @sharded, whose arguments and
// results are the op's.
struct ShardedOpProgram {
  Module module;
  FuncId func;
  bool written = false; // the record has a sharded program for this sharding
  std::string choice;   // the variant chosen, see ShardedOp
  double seconds = 0;
};

// The bytes that the program receives on one device (with nominal sizes for symbols), and the time of that on
// the nominal machine.
struct ShardedOpPrice {
  bool possible = false;
  int64_t bytes = 0;
  double seconds = 0;      // of the messages
  double withWork = 0;     // of messages overlapped with compute, if the op gives it; otherwise 0
  std::string choice = {}; // the op's description of its variant
};

// Prices and programs for the ops of one module, cached.
class ShardedOpPrograms {
public:
  explicit ShardedOpPrograms(const Module& m) : m_(m) {}
  // `factors`: by factor of the op's rule, disjoint.
  [[nodiscard]] ShardedOpPrice price(OpId, const Rule&, std::span<const PartList> factors, MeshId);
  std::optional<DType> reduceDType; // communication dtype of float sums; set before the first query

private:
  [[nodiscard]] ShardedOpPrice priceOfProgram(const ShardedOpProgram&) const;
  const Module& m_;
  std::map<std::vector<uint64_t>, ShardedOpPrice> prices_;
};

// The op of `m`, sharded so. The module shares m's tables, so that ids of types, attributes and meshes are
// valid in both.
[[nodiscard]] ShardedOpProgram shardedOpProgram(const Module& m, OpId, const Rule&,
                                                std::span<const PartList> factors, MeshId,
                                                std::optional<DType> reduceDType = {});

} // namespace dtc
