#include "import/HloConstants.h"

#include "dtc/Support/Tensor.h"

namespace dtc {

constexpr int64_t kMaxKnown = 4096;
constexpr int kDeepestKnown = 32;

static void flatten(const Module& m, const Attr& a, std::vector<int64_t>& out) {
  if (a.kind != Attr::List) return out.push_back(a.i);
  for (AttrId e : a.list) flatten(m, m.attrs[e], out);
}

static std::optional<std::vector<int64_t>> literalInts(const Module& m, OpId op, const Type& type) {
  const int64_t count = type.numElements().value_or(kMaxKnown + 1);
  const AttrId id = m.attr(op, "value");
  if (!id.valid() || count > kMaxKnown) return std::nullopt;
  const Attr& a = m.attrs[id];
  std::vector<int64_t> out;
  if (a.kind == Attr::Int || a.kind == Attr::Bool)
    out.assign(static_cast<size_t>(count), a.i);
  else if (a.kind == Attr::List)
    flatten(m, a, out);
  if (static_cast<int64_t>(out.size()) != count) return std::nullopt; // bytes, floats
  return out;
}

static std::optional<std::vector<int64_t>> known(const Module& m, ValueId v, int depth) {
  const OpId op = m.definingOp(v);
  if (!op.valid() || depth > kDeepestKnown || !(isInteger(m.typeOf(v).dtype) || isBool(m.typeOf(v).dtype)))
    return std::nullopt;
  const std::string_view name = m.record(op).name;
  if (m.record(op).isConstant) return literalInts(m, op, m.typeOf(v));
  const bool line = m.typeOf(v).rank() <= 1;
  if (name == "reshape" || (name == "concat" && line)) {
    std::vector<int64_t> out;
    for (ValueId part : m.operands(op)) {
      auto numbers = known(m, part, depth + 1);
      if (!numbers || static_cast<int64_t>(out.size() + numbers->size()) > kMaxKnown) return std::nullopt;
      out.insert(out.end(), numbers->begin(), numbers->end());
    }
    return out;
  }
  if (name != "convert") return std::nullopt;
  auto numbers = known(m, m.operand(op, 0), depth + 1);
  if (numbers)
    for (int64_t& n : *numbers) n = isBool(m.typeOf(v).dtype) ? n != 0 : wrapToInt(m.typeOf(v).dtype, n);
  return numbers;
}

std::optional<std::vector<int64_t>> constantInts(const HloContext& c, ValueId v) {
  return v.valid() ? known(c.module, v, 0) : std::nullopt;
}

} // namespace dtc
