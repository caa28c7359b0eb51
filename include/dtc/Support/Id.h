#pragma once
// Strongly typed 32-bit indices: the "pointers" of the IR. An Id is valid only in the table that issued it.
#include <cstdint>
#include <functional>

namespace dtc {

template <class Tag> struct Id {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t index = kNone;

  constexpr Id() = default;
  constexpr explicit Id(uint32_t i) : index(i) {}
  [[nodiscard]] constexpr bool valid() const { return index != kNone; }
  constexpr explicit operator bool() const { return valid(); }
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id a, Id b) { return a.index <=> b.index; }
};

using StrId = Id<struct StrTag>;           // an interned string
using MeshId = Id<struct MeshTag>;         // a mesh of the module
using ShardingId = Id<struct ShardingTag>; // an interned sharding
using TypeId = Id<struct TypeTag>;         // an interned tensor type
using AttrId = Id<struct AttrTag>;         // an interned attribute value
using ValueId = Id<struct ValueTag>;
using OpId = Id<struct OpTag>;
using BlockId = Id<struct BlockTag>;
using FuncId = Id<struct FuncTag>;

} // namespace dtc

template <class Tag> struct std::hash<dtc::Id<Tag>> {
  size_t operator()(dtc::Id<Tag> id) const noexcept { return id.index * 0x9E3779B97F4A7C15ull; }
};
