#include "EmuGlobal.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace dtc {
// Between copies: the distance up to which a wild index is not attributed to another copy.
constexpr size_t kApart = size_t{64} << 10;
constexpr size_t kAlike = 1024;            // copies have the alignment of the buffers, modulo this
constexpr size_t kSmall = size_t{1} << 20; // cleared by writing; larger blocks are returned to the system

static uintptr_t begin(const EmuLaunch& launch, const EmuBuffer& b) {
  void* p;
  std::memcpy(static_cast<void*>(&p), launch.args[b.argument], sizeof p);
  return reinterpret_cast<uintptr_t>(p);
}

static void* pointer(uintptr_t p) { return reinterpret_cast<void*>(p); } // NOLINT(performance-no-int-to-ptr)

EmuGlobal::Pool::~Pool() {
  if (memory_) munmap(memory_, size_);
}

bool EmuGlobal::Pool::reserve(size_t bytes) {
  if (bytes <= size_) return true;
  if (memory_) munmap(memory_, size_);
  const size_t size = (bytes + (size_t{1} << 20)) & ~((size_t{1} << 20) - 1);
  memory_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED) memory_ = nullptr;
  size_ = memory_ ? size : 0;
  return memory_ != nullptr;
}

void EmuGlobal::Pool::clear(size_t bytes) {
  if (bytes <= kSmall)
    std::memset(memory_, 0, bytes);
  else
    madvise(memory_, size_, MADV_DONTNEED);
}

EmuGlobal::EmuGlobal(Memory& memory, const EmuLaunch& launch, size_t granule)
    : memory_(memory), launch_(launch), granule_(granule) {}

void EmuGlobal::joinOverlapping() {
  for (const EmuBuffer& b : launch_.buffers)
    if (b.bytes) {
      Region& r = regions_.emplace_back();
      r.real = begin(launch_, b), r.bytes = b.bytes, r.read = b.read, r.written = b.written,
      r.argument = b.argument, r.strips = b.strips;
    }
  std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) {
    return a.real != b.real ? a.real < b.real : a.argument < b.argument;
  });
  size_t kept = 0;
  for (size_t i = 1; i < regions_.size(); ++i) {
    Region& last = regions_[kept];
    const Region& r = regions_[i];
    if (r.real >= last.real + last.bytes) {
      regions_[++kept] = r;
      continue;
    }
    last.strips = {}; // bytes that one excludes may belong to the other
    last.bytes = std::max(last.bytes, r.real + r.bytes - last.real);
    last.read |= r.read, last.written |= r.written, last.argument = std::min(last.argument, r.argument);
  }
  if (!regions_.empty()) regions_.resize(kept + 1);
}

Status EmuGlobal::prepare() {
  joinOverlapping();
  size_t bytes = kApart, cells = 0;
  for (const Region& r : regions_) bytes += r.bytes + kApart + 2 * kAlike, cells += r.bytes / granule_ + 1;
  if (!memory_.copies.reserve(bytes) || !memory_.cells.reserve(cells * sizeof(EmuCell)))
    return machineError("no memory for the copies and shadows of a checked launch");
  memory_.cells.clear(cells * sizeof(EmuCell));
  auto* cell = reinterpret_cast<EmuCell*>(memory_.cells.data());
  uintptr_t at = reinterpret_cast<uintptr_t>(memory_.copies.data()) + kApart;
  for (Region& r : regions_) {
    r.work = (at & ~(kAlike - 1)) + kAlike + r.real % kAlike;
    at = r.work + r.bytes + kApart;
    r.cells = cell;
    cell += r.bytes / granule_ + 1;
    std::memcpy(pointer(r.work), pointer(r.real), r.bytes);
    r.defined = r.read && (!launch_.memory || launch_.memory->defined(pointer(r.real), r.bytes));
  }
  pointers_.resize(launch_.buffers.size());
  arguments_.assign(launch_.args, launch_.args + launch_.numArgs);
  for (size_t i = 0; i < launch_.buffers.size(); ++i) {
    const EmuBuffer& b = launch_.buffers[i];
    const uintptr_t p = begin(launch_, b);
    pointers_[i] = pointer(p);
    if (b.bytes == 0) continue;
    for (const Region& r : regions_)
      if (p >= r.real && p < r.real + r.bytes) pointers_[i] = pointer(p - r.real + r.work);
    arguments_[b.argument] = static_cast<void*>(&pointers_[i]);
  }
  return Ok{};
}

const EmuGlobal::Region* EmuGlobal::nearest(uintptr_t p) const {
  for (const Region& r : regions_)
    if (p - r.work < r.bytes) return &r;
  const Region* best = nullptr;
  uintptr_t distance = UINTPTR_MAX;
  for (const Region& r : regions_) {
    const uintptr_t d = p < r.work ? r.work - p : p - (r.work + r.bytes) + 1;
    if (d < distance) best = &r, distance = d;
  }
  return best;
}

bool EmuGlobal::defined(const Region& r, size_t offset, size_t bytes) const {
  if (r.defined) return true;
  return r.read && launch_.memory->defined(pointer(r.real + offset), bytes);
}

std::string EmuGlobal::unwritten() const {
  for (const EmuBuffer& b : launch_.buffers) {
    if (!b.writtenFully || b.bytes == 0) continue;
    const uintptr_t p = begin(launch_, b);
    for (const Region& r : regions_) {
      if (p < r.real || p >= r.real + r.bytes) continue;
      for (size_t at = p - r.real; at < p - r.real + b.bytes; at = (at / granule_ + 1) * granule_)
        if (r.strips.holds(at, 1) && !r.cells[at / granule_].writer.any())
          return "no thread has written byte " + std::to_string(at - (p - r.real)) + " of " +
                 std::to_string(b.bytes) + " of argument " + std::to_string(b.argument) +
                 ", which is a result";
    }
  }
  return {};
}

std::string EmuGlobal::differs(const EmuGlobal& other) const {
  for (size_t i = 0; i < regions_.size(); ++i) {
    const auto* a = static_cast<const uint8_t*>(pointer(regions_[i].work));
    const auto* b = static_cast<const uint8_t*>(pointer(other.regions_[i].work));
    if (!regions_[i].written || std::memcmp(a, b, regions_[i].bytes) == 0) continue;
    const size_t at = static_cast<size_t>(std::mismatch(a, a + regions_[i].bytes, b).first - a);
    return "the result depends on the order of threads and blocks: argument " +
           std::to_string(regions_[i].argument) + ", byte " + std::to_string(at);
  }
  return {};
}

void EmuGlobal::markDefined(const Region& r) {
  if (!launch_.memory) return;
  if (!r.read && r.strips.run == 0) launch_.memory->set(pointer(r.real), r.bytes, false);
  const size_t count = (r.bytes + granule_ - 1) / granule_;
  for (size_t i = 0; i < count;) {
    size_t end = i;
    while (end < count && r.cells[end].writer.any()) ++end;
    const size_t from = i * granule_, to = std::min(end * granule_, r.bytes);
    if (end > i) launch_.memory->set(pointer(r.real + from), to - from, true);
    i = end + 1;
  }
}

void EmuGlobal::commit() {
  for (const Region& r : regions_) {
    if (!r.written) continue;
    std::memcpy(pointer(r.real), pointer(r.work), r.bytes);
    markDefined(r);
  }
}

} // namespace dtc
