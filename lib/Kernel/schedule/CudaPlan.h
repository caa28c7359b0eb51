#pragma once
// How a kernel's nests are distributed over CUDA blocks and threads.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/schedule/Schedule.h"

namespace dtc {

inline constexpr int kMaxThreads = 256, kWarp = 32;
inline constexpr int64_t kAccessBytes = 16; // the widest access of a thread

[[nodiscard]] loops::NestPlan planForThreads(const loops::Kernel& k, const loops::Nest& nest);
// As many threads as the longest loop over a row keeps busy with four elements each.
[[nodiscard]] int threadsFor(const loops::Kernel& k);
// The number of elements of a row that a block sorts in shared memory: a power of two, 32 KiB at most.
[[nodiscard]] int64_t sortRoom(const loops::Kernel& k, const loops::SortRow& sort);
// The number of blocks of a cluster that sort a row together: 1 where it is short, or rows are many.
[[nodiscard]] int sortBlocks(const loops::Kernel& k, const Target& target);
// The number of neighbors along the threads' axis that one thread processes at once, so that each access has
// up to 16 bytes; 1: none. Only for elements that are computed independently.
[[nodiscard]] int64_t packOf(const loops::Kernel& k, const loops::Nest& nest, const loops::NestPlan& plan);
// The number of packs of a thread, whose reads are all issued before the first is used: 2 where that leaves
// enough blocks for each processor.
[[nodiscard]] int64_t packSteps(const loops::Kernel& k, const loops::Nest& nest, const loops::NestPlan& plan,
                                int64_t count, int threads);
// The number of elements of a nest if one index can walk over all of its rows: sizes are known, and the rows, as
// the lane, consist of whole packs of `count`. Else 0.
[[nodiscard]] int64_t flatElements(const loops::Kernel& k, const loops::NestPlan& plan, int64_t count);
// True if each thread computes elements that one index over all rows numbers: rows are too short for the threads
// of a block.
[[nodiscard]] bool isFlat(const loops::Kernel& k, const loops::Nest& nest, const loops::NestPlan& plan);
// True if neighbors along the lane are contiguous.
[[nodiscard]] bool isContiguous(const loops::Kernel& k, loops::AffineId address, loops::AxisId lane);
// True if `count` neighbors along `lane` are contiguous, the first of them at a multiple of `count`, for all
// values of the other axes.
[[nodiscard]] bool isInPacks(const loops::Kernel& k, loops::AffineId address, loops::AxisId lane,
                             int64_t count);
// True if a condition holds for all elements of a pack or for none: it compares a position along `lane` only with
// multiples of `count`.
[[nodiscard]] bool isUniformInPack(const loops::Kernel& k, loops::NodeId n, loops::AxisId lane,
                                   int64_t count);
// Elements that a thread processes at once where rows may start anywhere in a pack: strided by a warp, so
// that neighboring threads have neighbors, and all are read before the first is used. 1 where packs are
// possible, or where neither applies.
[[nodiscard]] int64_t stridedPack(const loops::Kernel& k, const loops::Nest& nest,
                                  const loops::NestPlan& plan);
// True if 32-bit indices suffice. Not where a size is unknown, or an index is loaded.
[[nodiscard]] bool smallIndices(const loops::Kernel& k);

} // namespace dtc
