#include "EmuChecks.h"

#include <algorithm>
#include <cstdlib>

namespace dtc {

Dim3 emuBlockIndex(const EmuKernel& kernel, const EmuLaunch& launch, uint64_t cluster, uint32_t rank) {
  const Dim3 c = kernel.cluster;
  const uint64_t wide = launch.grid.x / c.x, high = launch.grid.y / c.y;
  return {static_cast<uint32_t>(cluster % wide) * c.x + rank % c.x,
          static_cast<uint32_t>(cluster / wide % high) * c.y + rank / c.x % c.y,
          static_cast<uint32_t>(cluster / wide / high) * c.z + rank / c.x / c.y};
}

static std::string misaligned(const EmuAccess& a, const std::string& what) {
  return "at an address that is not a multiple of " + std::to_string(a.align) + " (" + what + ")";
}

std::string EmuChecks::conflictText(const EmuConflict& c, const EmuActor& me, const std::string& what) const {
  if (c.foreign) return "(" + what + ") that another block has read, too: blocks are not ordered";
  const bool own = c.cluster == (me.cluster & 0xffffff);
  const uint32_t block = c.thread / perBlock();
  std::string who = threadText(c.thread);
  if (c.several && own && c.thread == me.thread) who = "another thread";
  const bool otherBlock = !own || !me.ownBlock(c.thread);
  if (otherBlock) who += " of block " + emuTuple(emuBlockIndex(kernel_, launch_, c.cluster, block));
  return "(" + what + ") that " + who + " has " + (c.wrote ? "written" : "read") + " at line " +
         locationOf(c.location) +
         (!own         ? ": blocks are not ordered"
          : otherBlock ? ", without a cluster barrier in between"
                       : ", without a barrier in between");
}

std::string EmuChecks::own(const EmuAccess& a, const EmuThread& thread) {
  if (!thread.own) return ""; // nothing is known about it
  const emu::OwnVariable* nearest = nullptr;
  int64_t byte = 0;
  for (const emu::OwnVariable* v = thread.own; v != thread.own + thread.numOwn; ++v) {
    const auto offset = static_cast<int64_t>(addressOf(a.at) - addressOf(v->at));
    if (offset >= 0 && static_cast<uint64_t>(offset) + a.bytes <= v->bytes)
      return a.aligned() ? "" : misaligned(a, std::string("its local variable '") + v->name + "'");
    if (!nearest || std::abs(offset) < std::abs(byte)) nearest = v, byte = offset;
  }
  return std::string("outside of its local variables (variable '") + nearest->name + "', byte " +
         std::to_string(byte) + " of " + std::to_string(nearest->bytes) + ")";
}

// --- shared memory ---

// "shared variable 'row', byte 12"
std::string EmuChecks::sharedText(size_t offset, uint32_t block, const EmuActor& me) const {
  const EmuKernel::Variable* best = nullptr;
  for (const EmuKernel::Variable& v : kernel_.variables)
    if (v.offset <= offset && (!best || v.offset >= best->offset)) best = &v;
  std::string text =
      best ? "shared variable '" + best->name + "', byte " + std::to_string(offset - best->offset)
           : "shared memory, byte " + std::to_string(offset);
  if (!me.ownBlock(block * perBlock()))
    text += " in block " + emuTuple(emuBlockIndex(kernel_, launch_, me.cluster, block));
  return text;
}

std::string EmuChecks::shared(const EmuAccess& a, const EmuActor& me) {
  const uint32_t block = shared_.blockOf(a.at);
  const int64_t offset = shared_.offsetIn(block, a.at);
  if (offset < 0) return "before the start of shared memory (byte " + std::to_string(offset) + ")";
  const auto at = static_cast<size_t>(offset);
  const bool inside = std::any_of(kernel_.variables.begin(), kernel_.variables.end(), [&](const auto& v) {
    return at >= v.offset && at + a.bytes <= v.offset + (v.bytes ? v.bytes : launch_.sharedBytes);
  });
  if (!inside) return "outside of the variables in shared memory (" + sharedText(at, block, me) + ")";
  if (!a.aligned()) return misaligned(a, sharedText(at, block, me));
  const int32_t location = locationNumber(a.location);
  std::string wrong;
  shared_.eachCell(block, at, a.bytes, [&](EmuCell& cell) {
    if (cell.copier) {
      wrong = "(" + sharedText(at, block, me) + ") that an asynchronous copy of " +
              threadText(cell.copier - 1) + " at line " + locationOf(cell.copierLocation) +
              " is in flight to: that thread has not waited for it";
      return false;
    }
    if (a.reads() && !cell.writer.any()) {
      wrong = "that nothing has written (" + sharedText(at, block, me) + ")";
      return false;
    }
    const auto kind = a.kind == emu::VolatileWrite ? emu::Write : a.kind; // not a flag on which others wait
    const auto conflict = touch(cell, me, kind, location);
    if (conflict) wrong = conflictText(*conflict, me, sharedText(at, block, me));
    return !conflict;
  });
  return wrong;
}

void EmuChecks::noteCopier(const uint8_t* to, uint32_t copier, const char* location) {
  const uint32_t block = shared_.blockOf(to);
  shared_.eachCell(block, static_cast<size_t>(shared_.offsetIn(block, to)), 16, [&](EmuCell& cell) {
    cell.copier = copier;
    if (copier) cell.copierLocation = locationNumber(location);
    return true;
  });
}

// --- global memory ---

std::string EmuChecks::trusted(const EmuAccess& a) const {
  if (!a.aligned()) return misaligned(a, "global memory");
  EmuMemory* memory = launch_.memory;
  if (!memory) return "";
  if (!memory->holds(a.at, a.bytes)) return "outside of the device's memory";
  if (a.reads() && !memory->defined(a.at, a.bytes)) return "that nothing has written (global memory)";
  if (a.writes()) memory->set(a.at, a.bytes, true);
  return "";
}

std::string EmuChecks::global(const EmuAccess& a, const EmuActor& me) {
  if (!global_) return trusted(a);
  if (!region_ || addressOf(a.at) - region_->work >= region_->bytes)
    region_ = global_->nearest(addressOf(a.at));
  const EmuGlobal::Region* const r = region_;
  if (!r) return "of global memory, but the launch has no buffers";
  const auto offset = static_cast<int64_t>(addressOf(a.at) - r->work);
  const bool within = addressOf(a.at) - r->work < r->bytes;
  if (!within && !a.writes() && kernel_.object->holds(a.at)) return ""; // a constant
  auto what = [&] {
    return "argument " + std::to_string(r->argument) + ", byte " + std::to_string(offset) + " of " +
           std::to_string(r->bytes);
  };
  if (offset < 0) return "before the start of a buffer (" + what() + ")";
  const auto at = static_cast<size_t>(offset);
  if (at + a.bytes > r->bytes) return "past the end of a buffer (" + what() + ")";
  if (!r->strips.holds(at, a.bytes))
    return "between the parts of a buffer that it may access (" + what() + ")";
  if (a.writes() && !r->written) return "of a read-only buffer of the kernel (" + what() + ")";
  if (!a.aligned()) return misaligned(a, what());
  if (!r->written && r->defined) return ""; // reads alone do not race
  const size_t g = kernel_.granule;
  const int32_t location = locationNumber(a.location);
  for (size_t i = at >> granuleShift_; i <= (at + a.bytes - 1) >> granuleShift_; ++i) {
    EmuCell& cell = r->cells[i];
    if (a.reads() && !cell.writer.any() && !global_->defined(*r, i * g, std::min(g, r->bytes - i * g)))
      return "that nothing has written (" + what() + ")";
    if (const auto conflict = touch(cell, me, a.kind, location)) return conflictText(*conflict, me, what());
  }
  return "";
}

} // namespace dtc
