// The table of families.
#include "dtc/Ops/record/Ops.h"
#include "record/Families.h"

namespace dtc {

constexpr OpFamily kFamilies[] = {
    {"make", "constants and other ops without tensor operands", addMakeOps},
    {"random", "random numbers that depend only on a seed and on the index in the global tensor",
     addRandomOps},
    {"unary", "elementwise functions of one operand", addUnaryOps},
    {"binary", "elementwise functions of two operands, with NumPy broadcasting", addBinaryOps},
    {"special", "special functions, and functions of the bits of numbers", addSpecialOps},
    {"ternary", "elementwise functions of three operands, with NumPy broadcasting", addTernaryOps},
    {"complex", "composition and decomposition of complex numbers", addComplexOps},
    {"contract", "contractions: matrix products and einsum", addContractOps},
    {"linear algebra", "matrix factorizations and linear solvers", addLinearAlgebraOps},
    {"reduce", "reductions over some or all dims", addReduceOps},
    {"scan", "prefix scans along a dim", addScanOps},
    {"normalize", "softmax, norms and the losses over them", addNormalizeOps},
    {"window", "convolution and pooling", addConvolutionOps},
    {"shape", "views and data movement", addShapeOps},
    {"index", "gather, scatter, sort and other indexed ops", addIndexOps},
    {"attention", "attention and position embeddings", addAttentionOps},
    {"control", "regions and calls", addControlOps},
    {"sharding", "sharding constraints and resharding", addShardingOps},
    {"custom", "calls to unknown targets", addCustomOps},
    {"collective", "communication between the devices of a mesh, in `spmd` functions and `local` regions",
     addCollectiveOps},
    {"check", "checks and output inside a program", addCheckOps},
};

std::span<const OpFamily> opFamilies() { return kFamilies; }

const OpRegistry& standardOps() {
  static const OpRegistry registry = [] {
    OpRegistry r;
    for (const OpFamily& f : kFamilies) f.add(r);
    r.complete();
    return r;
  }();
  return registry;
}

} // namespace dtc
