#pragma once
// Sums of floats in a fixed number of chunks (private to lib/Passes): the partial sum of each chunk, then a tree over chunk
// numbers. What a chunk is depends on the shape alone, never on the mesh.
#include "dtc/IR/Builder.h"
#include <functional>

namespace dtc {

// Into how many chunks a dim of `n` elements is cut, at most `most`: the divisor of n that has the most divisors itself, so
// that as many meshes as possible have whole chunks on each device; the greatest of those.
[[nodiscard]] int64_t chunksOf(int64_t n, int64_t most);

// Puts `v`, a tensor that `op` reads, under a sharding whose dims `whole` are not cut, and whose other dims are free.
using Constrain = std::function<ValueId(ValueId v, std::span<const int64_t> whole)>;

// Writes what `op` does to `b`, in chunks, and returns its result; invalid, and nothing written, where it is no reduction or
// contraction whose dims can be cut into chunks.
[[nodiscard]] ValueId writeInChunks(Builder& b, OpId op, const Constrain&);

} // namespace dtc
