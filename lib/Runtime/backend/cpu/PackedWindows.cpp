#include "backend/cpu/PackedWindows.h"

#include "backend/HostMemory.h"

#include <algorithm>

namespace dtc {

void PackedWindows::add(const DtcOneDnnTable& oneDnn, void* conv, const void* at, size_t range) {
  oneDnn_ = &oneDnn;
  const size_t bytes = oneDnn.packedBytes(conv);
  if (bytes == 0) return;
  if (windowsOf_.size() <= range) windowsOf_.resize(range + 1);
  for (Window& w : windowsOf_[range])
    if (w.at == at && w.bytes == bytes && oneDnn.packAlike(w.convs[0], conv)) {
      w.convs.push_back(conv);
      oneDnn.usePacked(conv, w.packed.get());
      return;
    }
  windowsOf_[range].push_back({at, bytes, {conv}, nullptr});
}

bool PackedWindows::pack(Window& w) {
  if (!w.packed) {
    if (static_cast<int64_t>(w.bytes) > left_) return false;
    w.packed.reset(static_cast<std::byte*>(allocateAligned(w.bytes)));
    if (!w.packed) return false;
    left_ -= static_cast<int64_t>(w.bytes);
  }
  if (oneDnn_->packWindow(w.convs[0], w.packed.get()) != 0) return false;
  for (void* conv : w.convs) oneDnn_->usePacked(conv, w.packed.get());
  return true;
}

void PackedWindows::unpack(Window& w) {
  if (!w.packed) return;
  for (void* conv : w.convs) oneDnn_->usePacked(conv, nullptr);
  w.packed.reset();
  left_ += static_cast<int64_t>(w.bytes);
}

void PackedWindows::keep(size_t range) {
  if (range >= windowsOf_.size()) return;
  for (Window& w : windowsOf_[range])
    if (!pack(w)) unpack(w);
}

void PackedWindows::release(size_t range) {
  if (range >= windowsOf_.size()) return;
  for (Window& w : windowsOf_[range]) unpack(w);
}

bool PackedWindows::isPacked(const void* conv, size_t range) const {
  return range < windowsOf_.size() &&
         std::ranges::any_of(
             windowsOf_[range],
             [&](const Window& w) { return w.packed && std::ranges::find(w.convs, conv) != w.convs.end(); });
}

} // namespace dtc
