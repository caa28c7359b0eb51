#pragma once
// One change of sharding as ops of the local program.
#include "dtc/IR/Builder.h"
#include "dtc/Sharding/Reshard.h"
#include <map>

namespace dtc {

// The local type of a piece (ir.md §2.3); the sharding is closed and valid on the type.
[[nodiscard]] TypeId localTypeOf(Module&, TypeId global, const Sharding&);
[[nodiscard]] AttrId axesAttr(Module&, std::span<const AxisRef>);
[[nodiscard]] AttrId sizesAttr(Module&, std::span<const Dim>);
[[nodiscard]] AttrId sizeAttr(Module&, Dim);

// Appends the collectives that bring local values from one sharding to another.
class ReshardEmitter {
public:
  explicit ReshardEmitter(Builder& b) : b_(b), m_(b.module) {}
  // `v` is the local piece by `from` of a tensor of type `global`; gives the piece by `to`.
  ValueId emit(ValueId v, TypeId global, const Sharding& from, const Sharding& to);
  // A replicated value as one that is pending along `axes`.
  ValueId makePending(ValueId v, std::span<const AxisRef> axes, PendingKind);

private:
  ValueId step(ValueId v, TypeId global, const ReshardStep&);
  ValueId collective(ValueId v, TypeId result, const ReshardStep&);
  ValueId permute(ValueId v, TypeId result, const ReshardStep&);
  ValueId isFirst(std::span<const AxisRef>);
  Builder& b_;
  Module& m_;
  std::vector<std::pair<std::vector<AxisRef>, ValueId>>
      isFirst_; // by axes: "this device's index along them is 0"
};

} // namespace dtc
