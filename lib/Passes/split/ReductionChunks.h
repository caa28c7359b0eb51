#pragma once
// Sums of floats in a fixed number of chunks: the partial sum of each chunk, then a tree over the chunk
// indices. Chunks depend on the shape alone, never on the mesh.
#include "dtc/IR/build/Builder.h"
#include <functional>

namespace dtc {

// The number of chunks for a dim of `n` elements, at most `maxChunks`: the divisor of n that itself has the most
// divisors, so that on as many meshes as possible each device has an integral number of chunks; the largest
// of those.
[[nodiscard]] int64_t chunksOf(int64_t n, int64_t maxChunks);

// Constrains `v`, an operand of `op`, to a sharding whose dims `unsharded` are unsharded and whose other dims are
// open.
using Constrain = std::function<ValueId(ValueId v, std::span<const int64_t> unsharded)>;

// Appends a chunked form of `op` to `b`, and returns its result; invalid, with nothing appended, if it is not
// a reduction or contraction whose dims can be chunked.
[[nodiscard]] ValueId writeInChunks(Builder& b, OpId op, const Constrain&);

} // namespace dtc
