#pragma once
// Cotangents in local text. Private to lib/Passes.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Varying.h"

namespace dtc {

class Builder;
class GradientPaths;
class GradientSweep;

// What the cotangents of a `local` region's values are along each mesh axis (sharding.md §3). Each device's value counts as
// one of its own where it varies, and so does its cotangent. A value that is the same everywhere has one cotangent: the same
// everywhere too (I), or pending, a sum over what the devices have (R: somewhere it is used differently on each). A value
// is pending along an axis as soon as one of its uses makes it so; the other contributions are made pending, kept on index 0.
class LocalCotangents {
public:
  LocalCotangents(const Module&, OpId local, const GradientPaths&);

  [[nodiscard]] AxisSet pending(ValueId v) const {
    auto it = pending_.find(v);
    return it == pending_.end() ? 0 : it->second;
  }
  // Along these, cotangents of operands differ between devices: those of the op's results do, or the op makes it so.
  [[nodiscard]] AxisSet givenBy(OpId) const;
  // The axes along which the cotangent of `v` differs between devices.
  [[nodiscard]] AxisSet along(ValueId v) const { return varying(v) | pending(v); }
  // A cotangent of `v` that differs along `from`, as all cotangents of `v` are to be.
  [[nodiscard]] ValueId brought(Builder&, ValueId v, ValueId cotangent, AxisSet from) const;
  // `x` on the device with this index along `axes`, zeros elsewhere.
  [[nodiscard]] ValueId onlyAt(Builder&, ValueId x, std::span<const AxisRef> axes, int64_t index) const;
  [[nodiscard]] AttrId axesAttr(Module&, std::span<const AxisRef>) const;

  Varying varying;

private:
  void block(BlockId);
  void regions(OpId);
  void require(ValueId, AxisSet from);
  void alike(ValueId, ValueId);

  const Module& m_;
  const GradientPaths& paths_;
  std::unordered_map<ValueId, AxisSet> pending_;
  bool changed_ = false;
};

// The gradient of a collective. False, with a diagnostic, where it has none.
[[nodiscard]] bool collectiveGradient(GradientSweep&, OpId, std::span<const ValueId> results);

} // namespace dtc
