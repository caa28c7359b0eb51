// The checks of cuda-emu before an access.
#include "EmuCluster.h"
#include <algorithm>
#include <cstdlib>

namespace dtc {
namespace {

std::string bytesText(uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

uintptr_t number(const void* p) { return reinterpret_cast<uintptr_t>(p); }

constexpr size_t kFrameRoom = size_t{16}
                              << 10; // what is left of a stack for a function's variables and for the checks

} // namespace

EmuActor EmuCluster::actor() const {
  const EmuThread& t = threads_[current_];
  return {number_,
          current_,
          blockOf(current_) * perBlock_,
          perBlock_,
          t.clock,
          t.blockClock,
          clusterClock_,
          t.laneClocks ? t.laneClocks->data() : nullptr,
          t.warpClocks ? t.warpClocks->data() : nullptr,
          t.known.get()};
}

void EmuCluster::access(const void* p, uint64_t code, const char* place) {
  const Access a{p, static_cast<uint32_t>(code), 1u << (code >> 32 & 0xff),
                 static_cast<emu::AccessKind>(code >> 40), place};
  if (a.bytes == 0) return;
  if (running_->holds(p)) return ownAccess(a);
  if (a.kind == emu::Update || a.kind == emu::VolatileRead) {
    looks_ = a.at == watched_ ? looks_ + 1 : 0;
    watched_ = a.at;
    if (looks_ > emu::kLooksAtOnce && (head_ < ready_.size() || next_ < threads_.size())) yield();
    if (failed()) return;
    if (looks_ > emu::kMostLooks || yields_ > emu::kMostLooks / emu::kLooksAtOnce)
      return failAccess(a,
                        std::to_string(emu::kMostLooks) +
                            " times at one place while no other thread runs: what it waits for never comes");
  }
  if (number(p) - number(workspace_.shared.get()) < stride_ * numBlocks_)
    sharedAccess(a);
  else
    globalAccess(a);
  if (!failed() && a.kind != emu::Read && a.kind != emu::Write) publish(a.at, a.kind);
}

// Constants of one loaded object lie within 2 GiB of its code.
int32_t EmuCluster::placeNumber(const char* place) const {
  return static_cast<int32_t>(place - reinterpret_cast<const char*>(kernel_.call));
}

// --- messages ---

void EmuCluster::failAccess(const Access& a, const std::string& text) {
  const char* verb = a.kind == emu::Read || a.kind == emu::VolatileRead ? "reads "
                     : a.kind == emu::Update                            ? "updates "
                                                                        : "writes ";
  failAt(a.place, verb + bytesText(a.bytes) + " " + text);
}

void EmuCluster::failAt(const char* place, const std::string& text) {
  std::string message =
      "thread " + emuTuple(threads_[current_].view.thread) + " at line " + place + " " + text;
  const auto line = static_cast<size_t>(std::strtoul(place, nullptr, 10));
  if (line >= 1 && line <= kernel_.lines.size()) {
    std::string source = kernel_.lines[line - 1];
    source.erase(0, source.find_first_not_of(' '));
    message += "\n  " + std::to_string(line) + " | " + source.substr(0, 200);
  }
  fail(current_, message);
}

void EmuCluster::failConflict(const Access& a, const EmuConflict& c, const std::string& what) {
  const char* place = reinterpret_cast<const char*>(kernel_.call) + c.place; // placeNumber
  if (c.foreign)
    return failAccess(a, "(" + what + ") that another block has read, too: blocks have no order");
  const bool own = c.cluster == (number_ & 0xffffff);
  const uint32_t block = c.thread / perBlock_;
  std::string who = "thread " + emuTuple(threads_[c.thread].view.thread);
  if (c.several && own && c.thread == current_) who = "another thread";
  const bool otherBlock = !own || block != current_ / perBlock_;
  if (otherBlock) who += " of block " + emuTuple(blockIndex(c.cluster, block));
  failAccess(a, "(" + what + ") that " + who + " has " + (c.wrote ? "written" : "read") + " at line " +
                    place +
                    (!own         ? ": blocks have no order"
                     : otherBlock ? ", without a cluster barrier between the two"
                                  : ", without a barrier between the two"));
}

void EmuCluster::failCopier(const Access& a, const EmuCell& cell, const std::string& what) {
  const char* place = reinterpret_cast<const char*>(kernel_.call) + cell.copierPlace; // placeNumber
  failAccess(a, "(" + what + ") that an asynchronous copy of thread " +
                    emuTuple(threads_[cell.copier - 1].view.thread) + " at line " + place +
                    " is under way to: that thread has not waited for it");
}

bool EmuCluster::aligned(const Access& a) const { return (number(a.at) & (a.align - 1)) == 0; }

void EmuCluster::failAlignment(const Access& a, const std::string& what) {
  failAccess(a, "at an address that is no multiple of " + std::to_string(a.align) + " (" + what + ")");
}

// "shared variable 'row', byte 12"
std::string EmuCluster::sharedText(size_t offset, uint32_t block) const {
  const EmuKernel::Variable* best = nullptr;
  for (const EmuKernel::Variable& v : kernel_.variables)
    if (v.offset <= offset && (!best || v.offset >= best->offset)) best = &v;
  std::string text =
      best ? "shared variable '" + best->name + "', byte " + std::to_string(offset - best->offset)
           : "shared memory, byte " + std::to_string(offset);
  if (block != blockOf(current_)) text += " in block " + emuTuple(blocks_[block].index);
  return text;
}

void EmuCluster::fault(emu::Fault what, int64_t number, const char* variable, const char* place) {
  switch (what) {
  case emu::LocalBounds:
    return failAt(place, std::string("is outside of its own variable '") + variable + "' (byte " +
                             std::to_string(number) + ")");
  case emu::LocalUnset:
    return failAt(place, std::string("reads what nothing has set of its own variable '") + variable + "'");
  case emu::Overflow:
    return failAt(place,
                  "has a result that no signed integer of its type holds, which a GPU's compiler takes "
                  "for impossible");
  case emu::ArrayBounds:
    return failAt(place, "points at element " + std::to_string(number) + " of an array of " + variable);
  case emu::Shift:
    return failAt(place, "shifts by " + std::to_string(number) + ", which is no less than the number's bits");
  case emu::Division: return failAt(place, "divides by zero, or the least number by -1");
  case emu::EndlessLoop:
    return failAt(place, "is in a loop that does not end (" + std::to_string(emu::kMostRounds) +
                             " rounds): what it waits for may never come");
  }
}

// --- a thread's own memory ---

void EmuCluster::ownAccess(const Access& a) {
  const EmuThread& thread = threads_[current_];
  if (!thread.own) return; // nothing is known of it
  const emu::OwnVariable* nearest = nullptr;
  int64_t byte = 0;
  for (const emu::OwnVariable* v = thread.own; v != thread.own + thread.numOwn; ++v) {
    const auto offset = static_cast<int64_t>(number(a.at) - number(v->at));
    if (offset >= 0 && static_cast<uint64_t>(offset) + a.bytes <= v->bytes) {
      if (!aligned(a)) failAlignment(a, std::string("its own variable '") + v->name + "'");
      return;
    }
    if (!nearest || std::abs(offset) < std::abs(byte)) nearest = v, byte = offset;
  }
  failAccess(a, std::string("outside of its own variables (variable '") + nearest->name + "', byte " +
                    std::to_string(byte) + " of " + std::to_string(nearest->bytes) + ")");
}

void EmuCluster::enter(const void* frame, const char* place) {
  if (running_->roomBelow(frame) < kFrameRoom)
    failAt(place, "calls itself too often: there is no room for its variables");
}

// --- shared memory ---

// Shared memory of another block of the cluster: it must be there, and stay.
void EmuCluster::remoteAccess(const Access& a, uint32_t block) {
  const std::string index = emuTuple(blocks_[block].index);
  if (clusterClock_ == 0)
    return failAccess(a, "of shared memory of block " + index +
                             " before a cluster barrier: that block need not have begun");
  if (blocks_[block].done == perBlock_)
    return failAccess(a, "of shared memory of block " + index + ", which has ended");
  blocks_[block].used = true;
  blocks_[block].user = current_;
  blocks_[block].userPlace = a.place;
}

void EmuCluster::sharedAccess(const Access& a) {
  const size_t from = number(a.at) - number(workspace_.shared.get());
  const uint32_t block = numBlocks_ == 1 ? 0 : static_cast<uint32_t>(from / stride_);
  const auto offset = static_cast<int64_t>(from - block * stride_) - static_cast<int64_t>(kSharedAlign);
  if (block != blockOf(current_)) remoteAccess(a, block);
  if (failed()) return;
  if (offset < 0)
    return failAccess(a, "before the begin of shared memory (byte " + std::to_string(offset) + ")");
  const auto at = static_cast<size_t>(offset);
  const bool inside = std::any_of(kernel_.variables.begin(), kernel_.variables.end(), [&](const auto& v) {
    return at >= v.offset && at + a.bytes <= v.offset + (v.bytes ? v.bytes : launch_.sharedBytes);
  });
  if (!inside) return failAccess(a, "outside of shared memory's variables (" + sharedText(at, block) + ")");
  if (!aligned(a)) return failAlignment(a, sharedText(at, block));
  const bool reads = a.kind != emu::Write && a.kind != emu::VolatileWrite;
  const EmuActor me = actor();
  const int32_t place = placeNumber(a.place);
  EmuCell* const cells = workspace_.sharedCells.data() + block * sharedCells_;
  for (size_t i = at >> granuleShift_; i <= (at + a.bytes - 1) >> granuleShift_; ++i) {
    EmuCell& cell = cells[i];
    if (cell.tag != workspace_.tag) cell = {}, cell.tag = workspace_.tag;
    if (cell.copier) return failCopier(a, cell, sharedText(at, block));
    if (reads && !cell.writer.any())
      return failAccess(a, "that nothing has written (" + sharedText(at, block) + ")");
    const auto kind = a.kind == emu::VolatileWrite ? emu::Write : a.kind; // no flag for others to wait for
    if (const auto conflict = touch(cell, me, kind, place))
      return failConflict(a, *conflict, sharedText(at, block));
  }
}

// --- global memory ---

void EmuCluster::trustedAccess(const Access& a, bool reads, bool writes) {
  if (!aligned(a)) return failAlignment(a, "global memory");
  EmuMemory* memory = launch_.memory;
  if (!memory) return;
  if (!memory->holds(a.at, a.bytes)) return failAccess(a, "outside of the device's memory");
  if (reads && !memory->defined(a.at, a.bytes))
    return failAccess(a, "that nothing has written (global memory)");
  if (writes) memory->set(a.at, a.bytes, true);
}

void EmuCluster::globalAccess(const Access& a) {
  const bool reads = a.kind != emu::Write && a.kind != emu::VolatileWrite;
  const bool writes = a.kind != emu::Read && a.kind != emu::VolatileRead;
  if (!global_) return trustedAccess(a, reads, writes);
  if (!region_ || number(a.at) - region_->work >= region_->bytes) region_ = global_->nearest(number(a.at));
  const EmuGlobal::Region* const r = region_;
  if (!r) return failAccess(a, "of global memory, but the launch has no buffers");
  const auto offset = static_cast<int64_t>(number(a.at) - r->work);
  const auto within = [&] { return number(a.at) - r->work < r->bytes; };
  if (!within() && !writes && kernel_.object->holds(a.at)) return; // a constant
  auto what = [&] {
    return "argument " + std::to_string(r->argument) + ", byte " + std::to_string(offset) + " of " +
           std::to_string(r->bytes);
  };
  if (offset < 0) return failAccess(a, "before the begin of a buffer (" + what() + ")");
  const auto at = static_cast<size_t>(offset);
  if (at + a.bytes > r->bytes) return failAccess(a, "past the end of a buffer (" + what() + ")");
  if (!r->strips.holds(at, a.bytes))
    return failAccess(a, "between the parts of a buffer that it may touch (" + what() + ")");
  if (writes && !r->written)
    return failAccess(a, "of a buffer that the kernel is only to read (" + what() + ")");
  if (!aligned(a)) return failAlignment(a, what());
  if (!r->written && r->defined) return; // reads alone do not race
  const size_t g = kernel_.granule;
  const EmuActor me = actor();
  const int32_t place = placeNumber(a.place);
  for (size_t i = at >> granuleShift_; i <= (at + a.bytes - 1) >> granuleShift_; ++i) {
    EmuCell& cell = r->cells[i];
    if (reads && !cell.writer.any() && !global_->defined(*r, i * g, std::min(g, r->bytes - i * g)))
      return failAccess(a, "that nothing has written (" + what() + ")");
    if (const auto conflict = touch(cell, me, a.kind, place)) return failConflict(a, *conflict, what());
  }
}

} // namespace dtc
