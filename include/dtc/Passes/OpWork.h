#pragma once
// What one op computes and moves on one device: the two numbers of its roofline. The prices of whole programs and of single
// shardings are made of them.
#include "dtc/IR/OpRecord.h"
#include "dtc/Sharding/Machine.h"
#include <functional>

namespace dtc {

// Both are finite and not negative, whatever the sizes are.
struct OpWork {
  double flops = 0;
  double bytes = 0; // read from memory and written to it, each element that is used once

  // The roofline: the longer of the arithmetic and the traffic.
  [[nodiscard]] double seconds(const NominalMachine&) const;
};

// Sizes on one device; nothing where one is not known.
struct OpSizes {
  std::function<std::optional<double>(size_t factor)> factor;          // of the rule
  std::function<std::optional<double>(size_t tensor, size_t dim)> dim; // operands, then results
};

// What one op does at any sizes: made once, asked often. Keeps references to the query and the rule.
class OpWorkModel {
public:
  OpWorkModel(const OpQuery&, const Rule&, std::span<const TypeId> results);

  // Nothing where a size is not known. An op that only moves data reads of each operand what its results take from there: a
  // slice the part that it gives, a gather the rows that it looks up.
  [[nodiscard]] std::optional<OpWork> at(const OpSizes&) const;

private:
  struct Tensor {
    const TensorMap* map = nullptr;
    double bytesPerElement = 0;
    bool lookedUp = false; // the op decides which of its elements are read
  };
  [[nodiscard]] static std::optional<double> elements(const Tensor&, size_t index, const OpSizes&);

  std::vector<Tensor> tensors_; // operands, then results
  size_t numOperands_ = 0;
  bool moves_ = false; // data, and computes nothing
  double flopsPerPoint_ = 0;
  std::vector<size_t> axes_; // the factors that span the iteration space
};

// A product that stays a number: what is too large is kMostWork.
inline constexpr double kMostWork = 1e30;
[[nodiscard]] double boundedProduct(double a, double b);

} // namespace dtc
