#pragma once
// Cotangents in local text.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/infer/Varying.h"

namespace dtc {

class Builder;
class GradientPaths;
class GradientSweep;

// The state of the cotangents of a `local` region's values along each mesh axis (sharding.md). A value
// that varies along an axis is a separate value on each device, and so is its cotangent. An invariant value
// has one cotangent: invariant too (I), or pending, a sum over the devices (R: some use differs between
// devices). A value is pending along an axis as soon as one of its uses makes it so; other contributions are
// then made pending, kept on index 0.
class LocalCotangents {
public:
  LocalCotangents(const Module&, OpId local, const GradientPaths&);

  [[nodiscard]] AxisSet pending(ValueId v) const {
    auto it = pending_.find(v);
    return it == pending_.end() ? 0 : it->second;
  }
  // The axes along which cotangents of operands differ between devices: those of the results', plus those
  // that the op adds.
  [[nodiscard]] AxisSet givenBy(OpId) const;
  // The axes along which the cotangent of `v` differs between devices.
  [[nodiscard]] AxisSet along(ValueId v) const { return varying(v) | pending(v); }
  // Converts a cotangent of `v` that differs along `from` to the state that all cotangents of `v` have.
  [[nodiscard]] ValueId brought(Builder&, ValueId v, ValueId cotangent, AxisSet from) const;
  // `x` on the device with this index along `axes`, zeros elsewhere.
  [[nodiscard]] ValueId onlyAt(Builder&, ValueId x, std::span<const AxisRef> axes, int64_t index) const;

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

// The gradient of a collective. False, with a diagnostic, if it has none.
[[nodiscard]] bool collectiveGradient(GradientSweep&, OpId, std::span<const ValueId> results);

} // namespace dtc
