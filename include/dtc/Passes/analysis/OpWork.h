#pragma once
// The arithmetic and memory traffic of one op on one device, the inputs of its roofline. Prices of programs
// and of shardings are sums of these.
#include "dtc/IR/OpRecord.h"
#include "dtc/Sharding/Machine.h"
#include <functional>

namespace dtc {

// Both are finite and non-negative for all sizes.
struct OpWork {
  double flops = 0;
  double bytes = 0; // read from and written to memory, each used element once

  // The roofline: the max of the compute time and the memory time.
  [[nodiscard]] double seconds(const NominalMachine&) const;
};

// Sizes on one device; nothing if unknown.
struct OpSizes {
  std::function<std::optional<double>(size_t factor)> factor;          // of the rule
  std::function<std::optional<double>(size_t tensor, size_t dim)> dim; // operands, then results
};

// The work of one op as a function of sizes: built once, evaluated often. Keeps references to the query and
// the rule.
class OpWorkModel {
public:
  OpWorkModel(const OpQuery&, const Rule&, std::span<const TypeId> results);

  // Nothing if a size is unknown. A data-movement op reads only the elements that its results use: a slice
  // its result's size, a gather the rows that it looks up.
  [[nodiscard]] std::optional<OpWork> at(const OpSizes&) const;

private:
  struct Tensor {
    const TensorMap* map = nullptr;
    double bytesPerElement = 0;
    bool lookedUp = false; // the op's data decides which elements are read
  };
  [[nodiscard]] static std::optional<double> elements(const Tensor&, size_t index, const OpSizes&);

  std::vector<Tensor> tensors_; // operands, then results
  size_t numOperands_ = 0;
  bool moves_ = false; // a data-movement op without arithmetic
  double flopsPerPoint_ = 0;
  std::vector<size_t> axes_; // the factors that span the iteration space
};

// The work of a local op on one device. For unevenly sharded dims, arithmetic is that of the smallest shard,
// and buffers have the size of the largest. A fused region computes what its ops compute, and reads its
// operands and writes its results once, and nothing if it is a view; an op without a rule counts operands and
// results only. Nothing if a size is unknown.
[[nodiscard]] std::optional<OpWork> localWork(Module&, OpId, const Mesh&);

// How often the blocks of an op run: 1 if it is not a loop, nothing if that is unknown.
[[nodiscard]] std::optional<int64_t> executionsOf(const Module&, OpId);

// Executions of the blocks of an op that runs `times` times, in sums: an unknown iteration count counts once. At most
// kMostExecutions, so that counts can be summed.
inline constexpr int64_t kMostExecutions = 1'000'000'000'000'000;
[[nodiscard]] int64_t countedExecutions(const Module&, OpId, int64_t times);

// A saturating multiplication: larger results are kMostWork.
inline constexpr double kMaxWork = 1e30;
[[nodiscard]] double boundedProduct(double a, double b);

} // namespace dtc
