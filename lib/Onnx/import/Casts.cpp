// Cast, CastLike, BitCast.
#include "import/Small.h"

namespace dtc::onnx {

namespace {

ImportResults cast(OnnxContext& c) {
  const auto to = static_cast<int32_t>(c.integer("to"));
  const bool saturate = c.integer("saturate", 1);
  if (const auto sizes = c.sizesIf(0)) c.setSizes(*sizes);
  const Expr y = castTo(c, c.in(0), c.element(0), to, saturate, c.text("round_mode", "up"));
  c.setElement(0, to);
  return y;
}

ImportResults castLike(OnnxContext& c) {
  const int32_t to = c.element(1);
  const Expr y = castTo(c, c.in(0), c.element(0), to, c.integer("saturate", 1), c.text("round_mode", "up"));
  c.setElement(0, to);
  return y;
}

ImportResults bitCast(OnnxContext& c) {
  const auto to = static_cast<int32_t>(c.integer("to"));
  if (isNarrow(c.element(0)) || isNarrow(to)) {
    if (!isNarrow(c.element(0)) || !isInteger(c.in(0).dtype()) || !isInteger(c.heldBy(to)) ||
        findElement(to)->bits != findElement(c.element(0))->bits)
      c.fail("reinterprets the bits of " + elementName(isNarrow(to) ? to : c.element(0)) +
             ", which dtc holds in a wider dtype");
    // The same bits with the other sign.
    const ElementInfo& e = *findElement(to);
    const Expr y = wrappedTo(c.in(0).as(*e.held), e);
    c.setElement(0, to);
    return y;
  }
  if (isBool(c.in(0).dtype()) || isBool(c.heldBy(to))) return c.in(0).as(c.heldBy(to)); // 0 and 1 in a byte
  return bitcast(c.in(0), c.heldBy(to));
}

constexpr OnnxRow kCastsRows[] = {{"Cast", cast, 6}, {"CastLike", castLike}, {"BitCast", bitCast}};

} // namespace

std::span<const OnnxRow> castRows() { return kCastsRows; }

} // namespace dtc::onnx
