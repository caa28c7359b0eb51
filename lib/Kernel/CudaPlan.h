#pragma once
// How a kernel's nests are spread over blocks and threads of CUDA (private to lib/Kernel).
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/Schedule.h"

namespace dtc {

inline constexpr int kMostThreads = 256, kWarp = 32;
inline constexpr int64_t kAccessBytes = 16; // the widest access of a thread

[[nodiscard]] loops::NestPlan planForThreads(const loops::Kernel& k, const loops::Nest& nest);
// As many threads as the longest loop over a row keeps busy with four elements each.
[[nodiscard]] int threadsFor(const loops::Kernel& k);
// How many elements of a row a block puts in order in shared memory: a power of two, 32 KiB at most.
[[nodiscard]] int64_t sortRoom(const loops::Kernel& k, const loops::SortRow& sort);
// How many blocks of a cluster put a row in order together: 1 where it is short, or rows are many.
[[nodiscard]] int sortBlocks(const loops::Kernel& k, const CudaTarget& target);
// How many neighbours along the threads' axis one thread takes at once, so that each access has up to 16 bytes; 1: none.
// Only elements that are computed each by itself.
[[nodiscard]] int64_t packOf(const loops::Kernel& k, const loops::Nest& nest, const loops::NestPlan& plan);
// Are neighbours along the lane neighbours in memory.
[[nodiscard]] bool liesTogether(const loops::Kernel& k, loops::AffineId address, loops::AxisId lane);
// Elements that a thread takes at once where rows begin anywhere in a pack: a warp apart, so that neighbouring threads have neighbours, and all
// are read before the first is used. 1 where packs do, or where neither fits.
[[nodiscard]] int64_t apartOf(const loops::Kernel& k, const loops::Nest& nest, const loops::NestPlan& plan);
// Are 32-bit indices enough? Where a size is not known, or an index comes with the data, they are not known to be.
[[nodiscard]] bool smallIndices(const loops::Kernel& k);

} // namespace dtc
