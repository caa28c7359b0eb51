#include "dtc/Ops/elementwise/Gelu.h"
#include "dtc/IR/OpRecord.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// Matches expressions over one value, whatever the order in which sums and products are written.
class DerivativeForm {
public:
  explicit DerivativeForm(const Module& m) : m_(m) {}

  // s (1 + x z' (1 - s)), s the logistic function of z (GeluTanhGrad in Unary.cpp).
  bool matches(ValueId factor) {
    return pair(factor, "mul", [&](ValueId s, ValueId sum) {
      return isLogistic(s) && pair(sum, "add", [&](ValueId rest, ValueId one) {
               return number(one, 1) && pair(rest, "mul", [&](ValueId slope, ValueId other) {
                        const OpId sub = opOf(other, "sub");
                        if (!sub.valid() || !number(m_.operand(sub, 0), 1) || m_.operand(sub, 1) != s)
                          return false;
                        return isCubic(slope, 0.2140644488178027);
                      });
             });
    });
  }
  [[nodiscard]] ValueId x() const { return x_; }
  std::vector<OpId> seen;

private:
  OpId opOf(ValueId v, std::string_view name) {
    if (m_[v].kind != ValueKind::OpResult) return {};
    const OpId o(m_[v].owner);
    if (m_.record(o).name != name) return {};
    seen.push_back(o);
    return o;
  }
  // A constant, perhaps rounded to the dtype of the program.
  [[nodiscard]] bool number(ValueId v, double wanted) const {
    if (m_[v].kind != ValueKind::Literal) return false;
    const Attr& a = m_.attrs[m_[v].literal];
    const double given = a.kind == Attr::Float ? a.f : static_cast<double>(a.i);
    return std::abs(given - wanted) <= 0x1p-8 * std::abs(wanted);
  }
  template <class Fits> bool pair(ValueId v, std::string_view name, const Fits& fits) {
    const OpId o = opOf(v, name);
    if (!o.valid()) return false;
    const ValueId a = m_.operand(o, 0), b = m_.operand(o, 1);
    return fits(a, b) || fits(b, a);
  }
  bool isX(ValueId v) {
    if (!x_.valid()) x_ = v;
    return x_ == v;
  }
  // x (c + cube x²), c = 2 sqrt(2 / pi)
  bool isCubic(ValueId v, double cube) {
    const OpId o = opOf(v, "mul");
    if (!o.valid()) return false;
    return isPolynomial(m_.operand(o, 1), cube, m_.operand(o, 0)) ||
           isPolynomial(m_.operand(o, 0), cube, m_.operand(o, 1));
  }
  bool isPolynomial(ValueId v, double cube, ValueId x) {
    return pair(v, "add", [&](ValueId square, ValueId c) {
      return number(c, 1.5957691216057308) && pair(square, "mul", [&](ValueId q, ValueId factor) {
               if (!number(factor, cube)) return false;
               const OpId o = opOf(q, "mul");
               return o.valid() && m_.operand(o, 0) == x && m_.operand(o, 1) == x && isX(x);
             });
    });
  }
  bool isLogistic(ValueId v) {
    const OpId o = opOf(v, "sigmoid");
    return o.valid() && isCubic(m_.operand(o, 0), 0.0713548162726009);
  }

  const Module& m_;
  ValueId x_;
};

} // namespace

bool isGeluTanh(const Module& m, OpId o) {
  if (m.record(o).name != std::string_view("gelu")) return false;
  const AttrId form = m.attr(o, "approximate");
  return form.valid() && m.strings[m.attrs[form].text] == "tanh";
}

std::optional<GeluTanhGradient> geluTanhGradient(const Module& m, OpId o) {
  if (m.record(o).name != std::string_view("mul")) return std::nullopt;
  for (const size_t dy : {size_t(0), size_t(1)}) {
    DerivativeForm form(m);
    if (!form.matches(m.operand(o, 1 - dy))) continue;
    std::vector<OpId> ops = std::move(form.seen);
    std::sort(ops.begin(), ops.end(), [](OpId a, OpId b) { return a.index < b.index; });
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    return GeluTanhGradient{form.x(), m.operand(o, dy), std::move(ops)};
  }
  return std::nullopt;
}

} // namespace dtc
