// cuBLASLt's epilogues, applied to a sum before it is rounded, recognized in the expressions after a matrix
// product.
#include "dtc/Kernel/schedule/Schedule.h"
#include "match/Gemm.h"
#include <cmath>

namespace dtc {

using namespace loops;

namespace {

// Matches expressions over one value, whatever the order in which sums and products are written.
class Form {
public:
  Form(const Kernel& k, NodeId x) : k_(k), x_(x) {}

  // The tanh form of gelu as the op defines it: x / (1 + exp(-1.5957691 * (x + 0.044715 * x * x * x))).
  [[nodiscard]] bool isGelu(NodeId n) const {
    if (!is(n, "div") || k_[n].args[0] != x_) return false;
    return pair(k_[n].args[1], "add", [&](NodeId one, NodeId e) {
      return number(one, 1) && is(e, "exp") && pair(k_[e].args[0], "mul", [&](NodeId c, NodeId inner) {
               return number(c, -1.5957691216057308) &&
                      pair(inner, "add", [&](NodeId x, NodeId cube) { return x == x_ && isCube(cube); });
             });
    });
  }

  // max(x, 0), by whatever op.
  [[nodiscard]] bool isRelu(NodeId n) const {
    return pair(n, "max", [&](NodeId x, NodeId zero) { return x == x_ && number(zero, 0); });
  }

private:
  [[nodiscard]] bool is(NodeId n, std::string_view function) const {
    return k_[n].kind == NodeKind::Call && k_[n].function == function;
  }
  [[nodiscard]] bool number(NodeId n, double v) const {
    return k_[n].kind == NodeKind::Number && std::abs(k_[n].number - v) <= 1e-7 * std::abs(v);
  }
  template <class Fits> [[nodiscard]] bool pair(NodeId n, std::string_view function, const Fits& fits) const {
    if (!is(n, function)) return false;
    const std::vector<NodeId>& args = k_[n].args;
    return fits(args[0], args[1]) || fits(args[1], args[0]);
  }
  [[nodiscard]] bool isCube(NodeId n) const { // 0.044715 and three times x, in any order
    std::vector<NodeId> work = {n};
    int values = 0, factors = 0;
    while (!work.empty()) {
      const NodeId at = work.back();
      work.pop_back();
      if (at == x_)
        ++values;
      else if (is(at, "mul"))
        work.insert(work.end(), k_[at].args.begin(), k_[at].args.end());
      else if (number(at, 0.044715))
        ++factors;
      else
        return false;
    }
    return values == 3 && factors == 1;
  }

  const Kernel& k_;
  NodeId x_;
};

} // namespace

bool onlyThrough(const Kernel& k, NodeId from, NodeId to) {
  bool otherwise = false;
  forEachNode(k, rootsOf(k, k.nests[0]), [&](NodeId n) { otherwise |= n == from; }, to);
  return !otherwise;
}

bool extendActivation(const Kernel& k, const KernelOptions& options, GemmProduct& p) {
  const Form form(k, p.value);
  // The precision of cuBLASLt's gelu is not documented: it is used only where the rounding of the result
  // hides the error.
  if (p.dtype == DType::BF16 || p.dtype == DType::F16) {
    const NodeId gelu = findNode(k, [&](NodeId n) { return form.isGelu(n) && onlyThrough(k, p.value, n); });
    if (gelu.valid()) p.value = gelu, p.activation = GemmActivation::GeluTanh;
  }
  if (options.target.gemmRelu && p.activation == GemmActivation::None) {
    const NodeId relu = findNode(k, [&](NodeId n) { return form.isRelu(n) && onlyThrough(k, p.value, n); });
    if (relu.valid()) p.value = relu, p.activation = GemmActivation::Relu;
  }
  return p.activation != GemmActivation::None;
}

} // namespace dtc
