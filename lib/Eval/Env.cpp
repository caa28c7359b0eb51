#include "Env.h"
#include "dtc/Support/ElementCount.h"

namespace dtc {

std::optional<Interval> Env::intervalOf(const DimExpr& e) const {
  int64_t n = e.coefficient;
  for (StrId s : e.symbols) {
    const int64_t* bound = nullptr;
    for (const auto& [name, value] : symbols)
      if (name == s) bound = &value;
    if (!bound) return std::nullopt;
    auto product = checkedMul(n, *bound);
    if (!product) return std::nullopt;
    n = *product;
  }
  if (e.axes.empty()) return Interval{0, n};
  if (!mesh) return std::nullopt;
  return shardInterval(n, mesh->sizeOf(e.axes), mesh->indexAlong(e.axes, coordinate));
}

std::optional<int64_t> Env::sizeOf(Dim d) const {
  if (d.isStatic()) return d.value();
  auto interval = intervalOf(module->dims.dynamic(d));
  if (!interval) return std::nullopt;
  return interval->size();
}

std::optional<std::vector<int64_t>> Env::shapeOf(const Type& t) const {
  std::vector<int64_t> shape;
  for (Dim d : t.dims) {
    auto size = sizeOf(d);
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

bool fitsInMemory(DType dtype, std::span<const int64_t> shape) {
  auto count = elementCount(shape);
  auto bytes = count ? checkedMul(*count, dtypeBytes(dtype)) : std::nullopt;
  return bytes && *bytes <= kMaxTensorBytes;
}

Error opError(const Module& m, SourceRange loc, std::string_view op, std::string_view what) {
  std::string text = placeText(m.source, loc, true);
  if (!text.empty()) text += ": ";
  std::string quoted = "'" + std::string(op) + "'";
  return inputError(text + (what.starts_with(quoted) ? "" : quoted + ": ") + std::string(what));
}

} // namespace dtc
