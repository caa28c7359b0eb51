// The table of families.
#include "dtc/Ops/Ops.h"
#include "Families.h"

namespace dtc {

namespace {

constexpr OpFamily kFamilies[] = {
    {"make", "tensors out of nothing", addMakeOps},
    {"random", "numbers that depend on a seed and on their place in the whole tensor alone", addRandomOps},
    {"unary", "functions of one element", addUnaryOps},
    {"binary", "functions of two elements, broadcast as NumPy does", addBinaryOps},
    {"special", "functions of mathematical physics, and of the bits of numbers", addSpecialOps},
    {"ternary", "functions of three elements, broadcast as NumPy does", addTernaryOps},
    {"contract", "sums of products", addContractOps},
    {"linear algebra", "matrices factored, and systems of equations solved", addLinearAlgebraOps},
    {"reduce", "one value out of many, over some or all dims", addReduceOps},
    {"normalise", "softmax, norms and the losses over them", addNormaliseOps},
    {"window", "sums and extremes over a moving window", addConvolutionOps},
    {"shape", "elements moved, repeated, put together and taken apart", addShapeOps},
    {"index", "elements chosen by number", addIndexOps},
    {"attention", "attention and positions", addAttentionOps},
    {"control", "regions and calls", addControlOps},
    {"sharding", "constraints and changes of sharding", addShardingOps},
    {"custom", "calls of what is not known here", addCustomOps},
    {"collective", "communication between the devices of a mesh, in `spmd` functions and `local` regions",
     addCollectiveOps},
    {"check", "checks and output in the middle of a program", addCheckOps},
};

} // namespace

std::span<const OpFamily> opFamilies() { return kFamilies; }

const OpRegistry& standardOps() {
  static const OpRegistry registry = [] {
    OpRegistry r;
    for (const OpFamily& f : kFamilies) f.add(r);
    return r;
  }();
  return registry;
}

} // namespace dtc
