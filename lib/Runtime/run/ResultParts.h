#pragma once
// Where a result is: which devices hold which part of it.
#include "program/Program.h"
#include "run/Transfer.h"

namespace dtc {

struct ResultPart {
  TensorBlock block;            // in the global tensor, and in the shard of a device
  std::vector<int64_t> devices; // that hold it, ascending
};

// Parts that tile a result. Empty: it is a partial value, or has no elements.
[[nodiscard]] std::vector<ResultPart> partsOf(const Module& m, const Program& program,
                                              const FuncResult& result, std::span<const int64_t> shape);
[[nodiscard]] bool isPartial(const Module& m, const FuncResult& result);

} // namespace dtc
