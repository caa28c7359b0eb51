#pragma once
// One change of sharding as ops of the local program.
#include "dtc/IR/Builder.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Reshard.h"
#include <unordered_map>

namespace dtc {

// The plans of a module's changes of sharding, each made once: a program has few different ones, however long it is.
class ReshardPlans {
public:
  explicit ReshardPlans(Module& m) : m_(m) {}
  std::optional<DType> reduceDType; // PartitionOptions'
  // For a tensor of this global type; valid until the next call.
  [[nodiscard]] const ReshardPlan& plan(TypeId global, ShardingId from, ShardingId to);

private:
  struct Key {
    TypeId type;
    ShardingId from, to;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return (size_t{k.type.index} * 31 + k.from.index) * 0x9E3779B97F4A7C15ull + k.to.index;
    }
  };
  Module& m_;
  std::unordered_map<Key, ReshardPlan, KeyHash> plans_;
};

// Appends the collectives that bring local values from one sharding to another.
class ReshardEmitter {
public:
  ReshardEmitter(Builder& b, ReshardPlans& plans) : b_(b), m_(b.module), plans_(plans) {}
  // `v` is the local piece by `from` of a tensor of type `global`; gives the piece by `to`.
  ValueId emit(ValueId v, TypeId global, ShardingId from, ShardingId to);
  // A replicated value as one that is pending along `axes`.
  ValueId makePending(ValueId v, std::span<const AxisRef> axes, PendingKind);

private:
  ValueId step(ValueId v, TypeId global, const ReshardStep&);
  ValueId collective(ValueId v, TypeId result, const ReshardStep&);
  ValueId permute(ValueId v, TypeId result, const ReshardStep&);
  ValueId isFirst(std::span<const AxisRef>);
  [[nodiscard]] AttrId wireAttr(ValueId, PendingKind); // or none: as ever
  Builder& b_;
  Module& m_;
  ReshardPlans& plans_;
  std::vector<std::pair<std::vector<AxisRef>, ValueId>>
      isFirst_; // by axes: "this device's index along them is 0"
};

} // namespace dtc
