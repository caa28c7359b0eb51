#include "backend/cpu/PackedOperands.h"

#include "backend/HostMemory.h"

#include <algorithm>

namespace dtc {

void PackedOperands::add(std::shared_ptr<PackableOperand> operand, const void* at, size_t range) {
  const size_t bytes = operand->packedBytes();
  if (bytes == 0) return;
  if (packedOf_.size() <= range) packedOf_.resize(range + 1);
  for (Packed& p : packedOf_[range])
    if (p.at == at && p.bytes == bytes && p.users[0]->packsLike(*operand)) {
      operand->usePacked(p.memory.get());
      p.users.push_back(std::move(operand));
      return;
    }
  packedOf_[range].push_back({at, bytes, {std::move(operand)}, nullptr});
}

bool PackedOperands::pack(Packed& p) {
  if (!p.memory) {
    if (static_cast<int64_t>(p.bytes) > left_) return false;
    p.memory.reset(static_cast<std::byte*>(allocateAligned(p.bytes)));
    if (!p.memory) return false;
    left_ -= static_cast<int64_t>(p.bytes);
  }
  if (!p.users[0]->pack(p.memory.get())) return false;
  for (const auto& user : p.users) user->usePacked(p.memory.get());
  return true;
}

void PackedOperands::unpack(Packed& p) {
  if (!p.memory) return;
  for (const auto& user : p.users) user->usePacked(nullptr);
  p.memory.reset();
  left_ += static_cast<int64_t>(p.bytes);
}

void PackedOperands::keep(size_t range) {
  if (range >= packedOf_.size()) return;
  for (Packed& p : packedOf_[range])
    if (!pack(p)) unpack(p);
}

void PackedOperands::release(size_t range) {
  if (range >= packedOf_.size()) return;
  for (Packed& p : packedOf_[range]) unpack(p);
}

bool PackedOperands::isPacked(const PackableOperand* operand, size_t range) const {
  const auto reads = [&](const auto& user) { return user.get() == operand; };
  return range < packedOf_.size() &&
         std::ranges::any_of(
             packedOf_[range],
             [&](const Packed& p) { return p.memory && std::ranges::any_of(p.users, reads); });
}

} // namespace dtc
