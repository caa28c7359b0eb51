// Columns beside rows: what a unit that walks over rows keeps of each column.
#include "Emit.h"

namespace dtc {

using namespace loops;

// One of two partial results.
std::string Emitter::combined(ReduceKind kind, DType type, const std::string& a, const std::string& b) {
  if (isFloat(type) && kind <= ReduceKind::Prod) return a + (kind == ReduceKind::Sum ? " + " : " * ") + b;
  static constexpr const char* names[] = {"add", "mul", "max", "min", "or", "and", "log_add_exp"};
  return std::string("dtc_") + names[static_cast<size_t>(kind)] + "(" + a + ", " + b + ")";
}

std::string Emitter::accumulated(ReduceKind kind, DType type, const std::string& acc, const std::string& x) {
  if (isFloat(type) && kind <= ReduceKind::Prod)
    return acc + (kind == ReduceKind::Sum ? " += " : " *= ") + x + ";";
  return acc + " = " + combined(kind, type, acc, x) + ";";
}

void Emitter::emitUnit(const Nest& nest, Scope& unit) {
  if (nest.walked.empty()) return emitStores(nest, unit);
  beginColumns(unit);
  std::deque<Scope> scopes;
  Scope& row = openLoops(unit, nest.walked, std::nullopt, scopes);
  row.axes.clear();
  enterRow(row);
  emitStores(nest, row);
  leaveRow(row);
  closeLoops(unit, scopes);
  endColumns(unit);
}

std::string Emitter::columnPlace(const Store& store, Scope& body) {
  const std::string at = affineText(store.address, body);
  if (lanes() == 1 || body.vector < 0) return bufferText(store.buffer) + "[" + at + "]";
  return bufferText(store.buffer) + (at == "0" ? "" : " + " + at);
}

// Where nothing stands yet, the first row's value stands by itself; a sum begins with 0 as all do, which tells for -0.0.
void Emitter::emitColumn(const Store& store, Scope& body) {
  const Node& node = k_[store.value];
  const bool vector = lanes() > 1 && body.vector >= 0;
  const std::string x = splat(emit(node.args[0], body), node.type, vector);
  std::string first;
  for (AxisId a : nest_->walked) first += (first.empty() ? "" : " + ") + axisText(a);
  const bool sum = node.reduce == ReduceKind::Sum && isFloat(node.type);
  const std::string alone = sum ? "(" + x + ") + " + identityText(node.reduce, node.type) : x;
  first = columnsBegin() ? "" : first + " == 0 ? " + alone + " : ";
  if (!vector) {
    const std::string place = columnPlace(store, body);
    if (first.empty()) return line(body, accumulated(node.reduce, node.type, place, x));
    return line(body, place + " = " + first + combined(node.reduce, node.type, place, x) + ";");
  }
  const Kernel::Stride stride = k_.strideOf(store.address, static_cast<AxisId>(body.vector));
  const bool contiguous = !stride.mixed && stride.size.is(1);
  const std::string place = contiguous ? columnPlace(store, body) : indexValue(store.address, body).text,
                    out = bufferText(store.buffer),
                    before = contiguous ? "lanes.load(" + place + ")"
                                        : "dtc_gather_lanes(lanes, " + out + ", " + place + ")";
  const std::string value = first + combined(node.reduce, node.type, before, x);
  line(body, contiguous ? "lanes.store(" + place + ", " + value + ");"
                        : "dtc_scatter_lanes(lanes, " + out + ", " + place + ", " + value + ");");
}

} // namespace dtc
