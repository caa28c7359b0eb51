// cuBLASLt's epilogues, applied to a sum before it is rounded, recognized in the expressions after a matrix
// product.
#include "dtc/Kernel/schedule/Schedule.h"
#include "match/Gemm.h"
#include <array>
#include <cmath>

namespace dtc {

using namespace loops;

namespace {

// Matches expressions over one value, whatever the order in which sums and products are written.
class Form {
public:
  // Constants may be rounded to `dtype`.
  Form(const Kernel& k, NodeId x, DType dtype)
      : k_(k), x_(x), near_(dtype == DType::BF16  ? 0x1p-8
                            : dtype == DType::F16 ? 0x1p-11
                                                  : 1e-7) {}

  // The tanh form of gelu as the op defines it: x / (1 + exp(-1.5957691 * (x + 0.044715 * x * x * x))).
  [[nodiscard]] bool isGelu(NodeId n) const {
    if (!is(n, "div") || k_[n].args[0] != x_) return false;
    return pair(k_[n].args[1], "add", [&](NodeId one, NodeId e) {
      return number(one, 1) && is(e, "exp") && pair(k_[e].args[0], "mul", [&](NodeId c, NodeId inner) {
               return number(c, -kScale) &&
                      pair(inner, "add", [&](NodeId x, NodeId cube) { return x == x_ && isCube(cube); });
             });
    });
  }

  // Its derivative as the op's gradient defines it: s (1 + x z' (1 - s)), s the logistic function of z = x (c +
  // 0.044715 c x²), c = 2 sqrt(2 / pi).
  [[nodiscard]] bool isGeluGradient(NodeId n) const {
    NodeId s;
    const bool product = pair(n, "mul", [&](NodeId logistic, NodeId sum) {
      s = logistic;
      return isLogistic(logistic) && pair(sum, "add", [&](NodeId one, NodeId rest) {
               return number(one, 1) && pair(rest, "mul", [&](NodeId slope, NodeId other) {
                        return isCubic(slope, 3 * kCube) && is(other, "sub") &&
                               number(k_[other].args[0], 1) && k_[other].args[1] == s;
                      });
             });
    });
    return product;
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
    return k_[n].kind == NodeKind::Number && std::abs(k_[n].number - v) <= near_ * std::abs(v);
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

  // x (c + cube x²)
  [[nodiscard]] bool isCubic(NodeId n, double cube) const {
    return pair(n, "mul", [&](NodeId x, NodeId sum) {
      return x == x_ && pair(sum, "add", [&](NodeId square, NodeId c) {
               return number(c, kScale) && pair(square, "mul", [&](NodeId q, NodeId factor) {
                        return number(factor, cube) && is(q, "mul") && k_[q].args[0] == x_ &&
                               k_[q].args[1] == x_;
                      });
             });
    });
  }
  // 1 / (1 + exp(-z))
  [[nodiscard]] bool isLogistic(NodeId n) const {
    return is(n, "div") && number(k_[n].args[0], 1) && pair(k_[n].args[1], "add", [&](NodeId one, NodeId e) {
             return number(one, 1) && is(e, "exp") && is(k_[e].args[0], "neg") &&
                    isCubic(k_[k_[e].args[0]].args[0], kCube);
           });
  }

  static constexpr double kScale = 1.5957691216057308, kCube = 0.0713548162726009; // c, 0.044715 c
  const Kernel& k_;
  NodeId x_;
  double near_;
};

// The store of a value as it is, if any.
std::optional<Store> storeOf(const Kernel& k, NodeId value, DType dtype) {
  for (const Store& s : k.nests[0].stores)
    if (s.value == value && k.buffers[s.buffer].dtype == dtype) return s;
  return std::nullopt;
}

bool findGelu(const Kernel& k, GemmProduct& p) {
  const Form form(k, p.value, p.dtype);
  const std::optional<Store> aux = storeOf(k, p.value, p.dtype);
  const NodeId n =
      findNode(k, [&](NodeId at) { return form.isGelu(at) && onlyThrough(k, p.value, at, aux); });
  if (!n.valid()) return false;
  p.aux = aux;
  p.value = n, p.activation = GemmActivation::GeluTanh;
  return true;
}

// The product times gelu's derivative at an element of a matrix of its shape and dtype.
bool findGeluGradient(const Kernel& k, GemmProduct& p) {
  const auto readBy = [&](NodeId n) -> const Node* {
    const Node& node = k[n];
    if (node.kind != NodeKind::Call || node.function != "mul") return nullptr;
    if ((node.args[0] == p.value) == (node.args[1] == p.value)) return nullptr;
    const NodeId factor = node.args[node.args[0] == p.value ? 1 : 0];
    NodeId x;
    forEachNode(k, std::array{factor}, [&](NodeId at) {
      if (k[at].kind == NodeKind::Load) x = x.valid() && x != at ? factor : at;
    });
    if (!x.valid() || !Form(k, x, p.dtype).isGeluGradient(factor)) return nullptr;
    const Node* load = plainLoad(k, x);
    if (!load || k.buffers[load->buffer].dtype != p.dtype ||
        (k.dependsOn(load->affine) & ~k.dependsOn(p.value)) != 0)
      return nullptr;
    return load;
  };
  const NodeId n =
      findNode(k, [&](NodeId at) { return readBy(at) != nullptr && onlyThrough(k, p.value, at); });
  if (!n.valid()) return false;
  p.auxRead = readBy(n);
  p.value = n, p.activation = GemmActivation::GeluTanhGradient;
  return true;
}

} // namespace

bool onlyThrough(const Kernel& k, NodeId from, NodeId to, const std::optional<Store>& except) {
  Nest others = k.nests[0];
  if (except) std::erase_if(others.stores, [&](const Store& s) { return s.buffer == except->buffer; });
  bool otherwise = false;
  forEachNode(k, rootsOf(k, others), [&](NodeId n) { otherwise |= n == from; }, to);
  return !otherwise;
}

bool extendActivation(const Kernel& k, GemmProduct& p, bool gelu, bool relu) {
  const bool narrow = p.dtype == DType::BF16 || p.dtype == DType::F16;
  if (gelu && narrow && (findGelu(k, p) || (!p.bias && findGeluGradient(k, p)))) return true;
  if (!relu) return false;
  const Form form(k, p.value, p.dtype);
  const NodeId n = findNode(k, [&](NodeId at) { return form.isRelu(at) && onlyThrough(k, p.value, at); });
  if (!n.valid()) return false;
  p.value = n, p.activation = GemmActivation::Relu;
  return true;
}

} // namespace dtc
