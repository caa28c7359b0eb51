#pragma once
// Emits one reshard as ops of the local program.
#include "dtc/IR/build/Builder.h"
#include "dtc/Sharding/Reshard.h"
#include <unordered_map>

namespace dtc {

// The reshard plans of a module, cached: even a long program has few different ones.
class ReshardPlans {
public:
  explicit ReshardPlans(Module& m) : m_(m) {}
  std::optional<DType> reduceDType; // of PartitionOptions
  // The plan for a tensor of this global type; valid until the next call.
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

// Appends the collectives that reshard local values.
class ReshardEmitter {
public:
  ReshardEmitter(Builder& b, ReshardPlans& plans) : b_(b), m_(b.module), plans_(plans) {}
  // `v` is the local shard, under `from`, of a tensor of type `global`; returns the shard under `to`.
  ValueId emit(ValueId v, TypeId global, ShardingId from, ShardingId to);
  // Makes a replicated value pending along `axes`.
  ValueId makePending(ValueId v, std::span<const AxisRef> axes, PendingKind);

private:
  ValueId step(ValueId v, TypeId global, const ReshardStep&);
  ValueId collective(ValueId v, TypeId result, const ReshardStep&);
  ValueId permute(ValueId v, TypeId result, const ReshardStep&);
  ValueId isFirst(std::span<const AxisRef>);
  [[nodiscard]] AttrId commDTypeAttr(ValueId, PendingKind); // or none: the default
  Builder& b_;
  Module& m_;
  ReshardPlans& plans_;
  std::vector<std::pair<std::vector<AxisRef>, ValueId>>
      isFirst_; // by axes: "this device's index along them is 0"
};

} // namespace dtc
