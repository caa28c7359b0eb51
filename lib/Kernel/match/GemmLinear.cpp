// cuBLASLt's alpha, beta and C, recognized in the expressions after a matrix product: multiples of the product
// and of another matrix, added before the rounding.
#include "dtc/Kernel/schedule/Schedule.h"
#include "match/Gemm.h"
#include <cmath>

namespace dtc {

using namespace loops;

namespace {

// cuBLASLt does not read what it multiplies by 0, so NaN would be lost.
bool isFactor(double v) { return std::isnormal(static_cast<float>(v)); }

struct Multiple {
  NodeId of;
  double factor = 1;
};
// A negation, or a multiplication or division by a constant, as a multiple of its operand.
std::optional<Multiple> multipleOf(const Kernel& k, NodeId n) {
  const Node& node = k[n];
  if (node.kind != NodeKind::Call) return std::nullopt;
  if (node.function == "neg") return Multiple{node.args[0], -1};
  const bool divides = node.function == "div";
  if (!divides && node.function != "mul") return std::nullopt;
  for (const size_t at : {size_t(1), size_t(0)}) {
    if (divides && at == 0) break;
    const Node& number = k[node.args[at]];
    if (number.kind != NodeKind::Number || !isFloat(number.type)) continue;
    const double factor = divides ? 1 / number.number : number.number;
    if (isFactor(factor)) return Multiple{node.args[1 - at], factor};
  }
  return std::nullopt;
}

// `linear` rounds its product before it adds; cuBLASLt rounds once.
bool isRounding(const Kernel& k, NodeId n, const GemmProduct& p) {
  return k[n].kind == NodeKind::Call && k[n].function == "convert" && k[n].target == p.dtype &&
         k[n].args[0] == p.value;
}

// A bias is added after the scaling.
bool scale(const Kernel& k, GemmProduct& p) {
  if (p.bias || p.narrow) return false;
  const NodeId n = findNode(k, [&](NodeId at) {
    const std::optional<Multiple> m = multipleOf(k, at);
    const bool scales = m && m->of == p.value && isFactor(p.alpha * m->factor) &&
                        (!p.residual || isFactor(p.beta * m->factor));
    return (scales || isRounding(k, at, p)) && onlyThrough(k, p.value, at);
  });
  if (!n.valid()) return false;
  if (const std::optional<Multiple> m = multipleOf(k, n)) {
    p.alpha *= m->factor;
    if (p.residual) p.beta *= m->factor;
  }
  p.value = n;
  return true;
}

struct Added {
  const Node* matrix = nullptr;
  double alpha = 1, beta = 1; // factors of the product and of the matrix
};
// `n` as the product plus or minus a multiple of a matrix of its shape and dtype.
std::optional<Added> addedBy(const Kernel& k, NodeId n, const GemmProduct& p) {
  const Node& node = k[n];
  const bool minus = node.kind == NodeKind::Call && node.function == "sub";
  if (node.kind != NodeKind::Call || (!minus && node.function != "add")) return std::nullopt;
  if ((node.args[0] == p.value) == (node.args[1] == p.value)) return std::nullopt;
  const bool second = node.args[1] == p.value;
  Added added;
  NodeId at = node.args[second ? 0 : 1];
  while (const std::optional<Multiple> m = multipleOf(k, at)) at = m->of, added.beta *= m->factor;
  (second ? added.alpha : added.beta) *= minus ? -1 : 1;
  added.matrix = plainLoad(k, at);
  if (!added.matrix || k.buffers[added.matrix->buffer].dtype != p.dtype || !isFactor(added.beta) ||
      (k.dependsOn(added.matrix->affine) & ~k.dependsOn(p.value)) != 0)
    return std::nullopt;
  if (p.bias && added.alpha != 1) return std::nullopt;
  if (p.narrow && (added.alpha != 1 || added.beta != 1)) return std::nullopt; // its factors are on the device
  return added;
}

bool addMatrix(const Kernel& k, GemmProduct& p) {
  if (p.residual) return false;
  const NodeId sum =
      findNode(k, [&](NodeId n) { return addedBy(k, n, p).has_value() && onlyThrough(k, p.value, n); });
  if (!sum.valid()) return false;
  const Added added = *addedBy(k, sum, p);
  p.residual = added.matrix;
  p.alpha *= added.alpha, p.beta = added.beta;
  p.value = sum;
  return true;
}

} // namespace

void findAlpha(const Kernel& k, GemmProduct& p) {
  p.value = p.scaled;
  while (scale(k, p)) {}
  if (p.alpha != 1) p.scaled = p.value;
}

bool extendLinear(const Kernel& k, GemmProduct& p) {
  const double before = p.alpha;
  while (scale(k, p) || addMatrix(k, p)) {}
  return p.residual || p.alpha != before;
}

} // namespace dtc
