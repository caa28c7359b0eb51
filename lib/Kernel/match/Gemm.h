#pragma once
// Recognizes matrix products that a library supports.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/schedule/Schedule.h"
#include "lower/Lower.h"
#include <memory>

namespace dtc {

// An axis of the matrix product: its extent, its strides in each matrix, and the kernel's axes it consists of,
// outermost first.
struct GemmAxis {
  loops::Size extent, a{0, {}}, b{0, {}}, y{0, {}}, residual{0, {}}, aux{0, {}};
  std::vector<loops::AxisId> parts;
};

struct GemmMatch {
  GemmCall call;                         // without its epilogue and its plain form
  std::optional<loops::Kernel> epilogue; // the epilogue: the rest of the kernel
  std::vector<uint32_t> inputs, outputs; // of the epilogue: GemmEpilogue
  std::shared_ptr<GemmMatch> plain;      // the same with less in the call, for a library that refuses it
  std::optional<loops::Kernel> scales;   // NarrowFactors::scales, which is not filled in
  std::vector<uint32_t> scaleInputs;     // its operands
};

// The kernel as one library call: stores of elementwise functions of one sum of products of two views of
// buffers (strides from an offset that is constant, or gathered by a row index), with or without a bias along
// n. The matrix product itself is stored by one of them, or computed in the memory of a result of its dtype.
// Works on loops, so that matmul, linear and einsum, with the transposes and reshapes around them, are one
// case.
// `libraryGelu`: the call may include gelu's tanh form or its gradient.
[[nodiscard]] std::optional<GemmMatch> matchGemm(const Lowered&, const KernelOptions&, bool libraryGelu);

// One scalar by which a matrix product is multiplied, or divided.
struct GemmScale {
  loops::NodeId number; // a load whose address does not depend on axes, or a constant
  bool divides = false;
};

// The elements that a call of an epilogue computes.
enum class EpilogueRange : uint8_t {
  Windows, // of each axis: two more size arguments, begin and count
  All,
};

// The matrix product of which all stores are functions, with the part of them that the library computes.
struct GemmProduct {
  loops::NodeId sum, scaled, value; // the sum, times its scales; value: the value that the library stores
  bool narrow = false;              // of f8, i8 or u8 operands, stored as `dtype`
  DType dtype = DType::F32;         // of bias, residual and the result
  std::vector<GemmScale> aScales, bScales; // of narrow matrix products; those of the sum itself are a's
  const loops::Node *a = nullptr, *b = nullptr, *bias = nullptr, *residual = nullptr;
  GemmActivation activation = GemmActivation::None;
  double alpha = 1, beta = 1;           // of the sum and of the residual
  std::optional<loops::Store> aux;      // where the library also stores gelu's operand
  const loops::Node* auxRead = nullptr; // what gelu's gradient reads
  bool extended = false;                // by extendLinear or extendActivation: all of it is needed
  GemmCall::Begin aBegin, bBegin;
  loops::Store at; // where `value` is stored
  // A CPU computes the epilogue of a block of the product while it is cached, a GPU after all of the product: with
  // constant extents, its indices are cheap and its accesses wide.
  EpilogueRange range = EpilogueRange::Windows;
};
// An unguarded load whose address is strides times axes.
[[nodiscard]] const loops::Node* plainLoad(const loops::Kernel&, loops::NodeId);
// Advances `scaled` over multiplications by constants: alpha.
void findAlpha(const loops::Kernel&, GemmProduct&);
// Advances `value` over ops that cuBLASLt fuses. False where there is none of them.
// Multiplications by constants, and an addition of a multiple of a residual.
[[nodiscard]] bool extendLinear(const loops::Kernel&, GemmProduct&);
// gelu's tanh form, whose operand may be stored as well, its gradient, or relu.
[[nodiscard]] bool extendActivation(const loops::Kernel&, GemmProduct&, bool gelu, bool relu);
// True if all stores, except one, depend on `from` only through `to`.
[[nodiscard]] bool onlyThrough(const loops::Kernel&, loops::NodeId from, loops::NodeId to,
                               const std::optional<loops::Store>& except = std::nullopt);
template <class Fits> loops::NodeId findNode(const loops::Kernel& k, const Fits& fits) {
  loops::NodeId found;
  forEachNode(k, rootsOf(k, k.nests[0]), [&](loops::NodeId n) {
    if (!found.valid() && fits(n)) found = n;
  });
  return found;
}

// Strips conversions and scales from a factor, where the rest is a load of f8, or a conversion to i32 from one of
// i8 or u8: that load, else the factor unchanged.
[[nodiscard]] loops::NodeId unscaled(const loops::Kernel&, loops::NodeId factor,
                                     std::vector<GemmScale>& scales);
// Sets `narrow` of a matrix product of narrow factors with a wider result. Advances `scaled` over
// multiplications by scalars, and fills in the dtypes.
void findScales(const loops::Kernel&, GemmProduct& p);
// The kernel that computes the scales, and their operand numbers where nothing is to be computed.
void describeScales(const Lowered&, const GemmProduct& p, GemmMatch& match);
// The only user of a value, if nothing else reads it and it is not stored; else invalid.
[[nodiscard]] loops::NodeId onlyReader(const loops::Kernel&, loops::NodeId value);

// The rest of the kernel if `product` is already stored by `at`, and what the library also stores by `aux`.
// `inputs` and `outputs`: the old numbers of its buffers.
struct EpilogueKernel {
  loops::Kernel kernel;
  std::vector<uint32_t> inputs, outputs;
};
// No rest: nothing.
[[nodiscard]] std::optional<EpilogueKernel> epilogueOf(const loops::Kernel&, loops::NodeId product,
                                                       const loops::Store& at,
                                                       const std::optional<loops::Store>& aux,
                                                       std::span<const GemmAxis> axes, EpilogueRange);
// True if the axes, outermost first, can be windows of one axis of the epilogue.
[[nodiscard]] bool joinsInEpilogue(const loops::Kernel&, loops::NodeId product,
                                   const std::vector<loops::AxisId>& parts);

// The kernel as a view of its only input.
[[nodiscard]] std::optional<ViewCall> matchView(const Lowered&);

} // namespace dtc
