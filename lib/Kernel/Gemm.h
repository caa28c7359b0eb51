#pragma once
// Which loops are a matrix product that a library takes (private to lib/Kernel).
#include "Lower.h"
#include "dtc/Kernel/Kernel.h"
#include <memory>

namespace dtc {

// An axis of the product: its extent, its strides in a, b and y, and the kernel's axes that it is made of, outermost first.
struct GemmAxis {
  loops::Size extent, a{0, {}}, b{0, {}}, y{0, {}}, residual{0, {}};
  std::vector<loops::AxisId> parts;
};

struct GemmMatch {
  GemmCall call;                         // its epilogue and its plain form are not filled in
  std::optional<loops::Kernel> epilogue; // what is left of the kernel behind the product
  std::vector<uint32_t> inputs, outputs; // of the epilogue: GemmEpilogue
  std::shared_ptr<GemmMatch> plain;      // where the call has a residual or an activation
  std::optional<loops::Kernel> scales;   // NarrowFactors::scales, which is not filled in
  std::vector<uint32_t> scaleInputs;     // its operands
};

// The kernel as one library call: stores of elementwise functions of one sum of products of two views of buffers (strides from a
// beginning that is known, or is a row that is looked up), with or without a bias along n. The product itself is stored by one of them, or made in the place of a result of its dtype. Works on the loops,
// so that matmul, linear and einsum, with the transposes and reshapes around them, are one case.
[[nodiscard]] std::optional<GemmMatch> matchGemm(const Lowered&, const KernelOptions&);

// One number that a product is multiplied by, or divided.
struct GemmScale {
  loops::NodeId number; // a load at a place that no axis moves, or a constant
  bool divides = false;
};

// The product that all stores are functions of, as far as the library makes it.
struct GemmProduct {
  loops::NodeId sum, scaled, value;        // the sum, times its scales; value: what the library stores
  bool narrow = false;                     // of f8 operands, stored as `dtype`
  DType dtype = DType::F32;                // of bias, residual and the result
  std::vector<GemmScale> aScales, bScales; // of narrow products; those of the sum itself are a's
  const loops::Node *a = nullptr, *b = nullptr, *bias = nullptr, *residual = nullptr;
  GemmActivation activation = GemmActivation::None;
  GemmCall::Begin aBegin, bBegin;
  loops::Store at; // where `value` lies afterwards
};
// An unguarded load whose place is strides times axes.
[[nodiscard]] const loops::Node* plainLoad(const loops::Kernel&, loops::NodeId);
// Moves `value` on over what cuBLASLt does beside a product: an addition of a residual, then gelu's tanh form (of bf16 and f16) or relu
// (where it is asked for). False where there is none of them.
[[nodiscard]] bool extendProduct(const loops::Kernel&, const KernelOptions&, GemmProduct&);

// Takes conversions and scales off a factor, where what is left is a load of f8: that load, else the factor as it is.
[[nodiscard]] loops::NodeId unscaled(const loops::Kernel&, loops::NodeId factor,
                                     std::vector<GemmScale>& scales);
// Is `p` a product of f8 that is stored wider? Moves `scaled` on over multiplications by one number, and fills in the dtypes.
void findScales(const loops::Kernel&, GemmProduct& p);
// What computes the scales, and which operands they are where nothing is to be computed.
void describeScales(const Lowered&, const GemmProduct& p, GemmMatch& match);
// The only node that reads a value, if nothing else does and it is not stored; else invalid.
[[nodiscard]] loops::NodeId onlyReader(const loops::Kernel&, loops::NodeId value);

// What the kernel still does where `product` is already stored by `at`: a kernel over windows of the axes, with two more size
// arguments, begin and count, for each. `inputs` and `outputs`: the old numbers of its buffers.
struct EpilogueKernel {
  loops::Kernel kernel;
  std::vector<uint32_t> inputs, outputs;
};
// Nothing is left: nothing.
[[nodiscard]] std::optional<EpilogueKernel> epilogueOf(const loops::Kernel&, loops::NodeId product,
                                                       const loops::Store& at,
                                                       std::span<const GemmAxis> axes);
// Can the axes, outermost first, be windows of one axis of the epilogue?
[[nodiscard]] bool joinsInEpilogue(const loops::Kernel&, loops::NodeId product,
                                   const std::vector<loops::AxisId>& parts);

// The kernel as another view of its only input.
[[nodiscard]] std::optional<ViewCall> matchView(const Lowered&);

} // namespace dtc
