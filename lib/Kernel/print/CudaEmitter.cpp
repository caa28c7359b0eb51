#include "print/CudaEmitter.h"

#include "dtc/IR/Element.h"
#include <algorithm>

namespace dtc {

using namespace loops;

void CudaEmitter::print(const Nest& nest, const NestPlan& plan, Scope& top) {
  begin(nest);
  plan_ = plan;
  const bool several = k_.nests.size() > 1;
  const std::string size = countUnits(), first = out_.unitsBefore.empty() ? "0" : out_.unitsBefore,
                    unit = several ? "unit - (" + first + ")" : "unit";
  Scope row;
  row.parent = several ? nullptr : &top; // no other block reads a value that one nest loads
  row.indent = top.indent + several;
  const std::string guard = beginUnit(top, row, unit);
  printUnit(row, unit);
  if (!guard.empty()) line(top, "if (" + guard + ") {");
  if (several) line(top, "if (unit >= " + first + " && unit < " + first + " + " + size + ") {");
  append(top, row);
  if (several || !guard.empty()) line(top, "}");
  out_.unitsBefore += (out_.unitsBefore.empty() ? "" : " + ") + size;
}

// --- units ---

std::string CudaEmitter::countUnits() {
  std::vector<SizeFormula::Factor> units;
  for (AxisId a : plan_.grid)
    for (SizeFormula::Factor f : factorsOf(k_.axes[a].extent)) {
      if (blocked(a)) f.per = plan_.block; // a blocked axis is one constant or one argument
      units.push_back(f);
    }
  if (sorters_ > 1) units.push_back({sorters_, -1, 1});
  out_.printed.units.terms.push_back(std::move(units));
  return unitsText();
}

std::string CudaEmitter::beginUnit(Scope&, Scope& row, const std::string& unit) {
  for (AxisId a : plan_.grid)
    if (!blocked(a)) row.bound |= AxisSet(1) << a;
  if (!plan_.grid.empty()) decode(row, unit);
  return "";
}

// The coordinates of a unit, the last axis fastest.
void CudaEmitter::decode(Scope& row, const std::string& unit) {
  line(row, index_ + " rest = " + unit + ";");
  for (size_t i = plan_.grid.size(); i-- > 0;) {
    const AxisId a = plan_.grid[i];
    const std::string name = axisText(a), count = "(" + countOf(a) + ")",
                      at = i == 0 ? "rest" : "rest % " + count;
    if (blocked(a)) {
      const std::string block = text(plan_.block);
      line(row, "const " + index_ + " " + name + "_begin = (" + at + ") * " + block + ";");
      line(row, "const " + index_ + " " + name + "_end = dtc_index_min(" + name + "_begin + " + block + ", " +
                    sizeText(k_.axes[a].extent) + ");");
    } else {
      line(row, "const " + index_ + " " + name + " = " + at + ";");
    }
    if (i > 0) line(row, "rest /= " + count + ";");
  }
}

void CudaEmitter::printUnit(Scope& row, const std::string&) {
  std::deque<Scope> scopes;
  Scope& inner = openLoops(row, plan_.inner, plan_.vector, scopes);
  inner.axes.clear();
  if (nest_->sorts())
    emitSort(*nest_, inner);
  else
    emitUnit(*nest_, inner);
  closeLoops(scopes);
}

// --- loops ---

std::string CudaEmitter::lanesLoop(AxisId a) {
  const std::string i = axisText(a), first = bound(a, false);
  return "for (" + index_ + " " + i + " = " + (first == "0" ? "" : first + " + ") + thread_ + "; " + i +
         " < " + bound(a, true) + "; " + i + " += " + text(rowThreads_) + ") {";
}

std::string CudaEmitter::sortCall(const SortRow& sort) {
  return std::string("dtc_block_sort_order<") + (sort.descending ? "true, " : "false, ") + text(threads_) +
         ", " + text(sortRoom(k_, sort)) + ", " + text(sorters_) + ">";
}

// --- values ---

bool isCallOf(const Kernel& k, NodeId n, std::string_view function) {
  return k[n].kind == NodeKind::Call && k[n].function == function;
}

// The op's own result is rounded to a narrow float wherever it is kept: then device.h has a version of few
// instructions, which matters for kernels of 2 bytes per element.
std::string CudaEmitter::nearFunction(const Node& call) const {
  if (!isNarrowFloat(call.target) || call.type != DType::F32) return "";
  // A quotient may be an integer and be tested for that: only one by a sum with exp is not.
  if (call.function == "div") {
    const Node& by = k_[call.args[1]];
    if (!isCallOf(k_, call.args[1], "add") ||
        std::none_of(by.args.begin(), by.args.end(), [&](NodeId a) { return isCallOf(k_, a, "exp"); }))
      return "";
  }
  const Node& x = k_[call.args[0]];
  const bool below = call.function == "exp" && isCallOf(k_, call.args[0], "sub") &&
                     k_[x.args[1]].kind == NodeKind::Reduce && k_[x.args[1]].reduce == ReduceKind::Max;
  return "near_" + call.function + (below ? "_below" : "");
}

Emitter::Value CudaEmitter::loadText(const Node& node, Scope& s, bool) {
  std::string guard;
  if (!node.args.empty()) guard = wrapped(emit(node.args[0], s));
  const std::string at = affineText(node.affine, s), buffer = bufferText(node.buffer);
  const std::string x = isNarrowFloat(k_.buffers[node.buffer].dtype) ? "dtc_load(" + buffer + " + " + at + ")"
                                                                     : buffer + "[" + at + "]";
  if (guard.empty()) return {x, false, true};
  return {guard + " ? " + x + " : " + typeText(node.type) + "(0)", false, false};
}

// True if all threads read an input that may be this store's memory, and one writes: in place, it must be the
// last.
static bool mayOverwriteItsOwn(const Kernel& k, const Nest& nest, const Store& store) {
  bool found = false;
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    found |= k[n].kind == NodeKind::Load && k[n].affine == store.address &&
             k.buffers[k[n].buffer].dtype == k.buffers[store.buffer].dtype;
  });
  return found;
}

// True if a store writes the bits of an element of an input, which nothing else reads.
bool CudaEmitter::isMove(const Store& store) const {
  const Node& value = k_[store.value];
  if (value.kind != NodeKind::Load || !value.args.empty() || store.when.valid() || !store.combine.empty() ||
      store.copied || k_.buffers[value.buffer].dtype != k_.buffers[store.buffer].dtype)
    return false;
  size_t readers = 0;
  forEachNode(k_, rootsOf(k_, *nest_),
              [&](NodeId n) { readers += static_cast<size_t>(std::ranges::count(k_[n].args, store.value)); });
  return readers == 0 && std::ranges::count(nest_->stores, store.value, &Store::value) == 1;
}

static bool selectsBits(const Kernel& k, NodeId n, DType dtype, int depth = 0) {
  const Node& value = k[n];
  if (value.kind == NodeKind::Load) return k.buffers[value.buffer].dtype == dtype;
  if (value.kind == NodeKind::Number) return depth > 0;
  return depth < 8 && value.kind == NodeKind::Call && value.function == "select" &&
         value.type == computeType(dtype) && selectsBits(k, value.args[1], dtype, depth + 1) &&
         selectsBits(k, value.args[2], dtype, depth + 1);
}

bool CudaEmitter::movesBits(const Store& store) const {
  return !store.when.valid() && store.combine.empty() && !store.copied &&
         selectsBits(k_, store.value, k_.buffers[store.buffer].dtype);
}

std::string CudaEmitter::bitsText(NodeId n, DType dtype, Scope& s) {
  const Node& value = k_[n];
  if (const auto bits = bits_.find(n.index); bits != bits_.end()) return bits->second;
  if (value.kind == NodeKind::Number)
    return "dtc_to_memory<" + typeText(dtype) + ">(" + literalText(value) + ")";
  if (value.kind == NodeKind::Load) {
    const std::string x = bufferText(value.buffer) + "[" + affineText(value.affine, s) + "]";
    return value.args.empty()
               ? x
               : "(" + wrapped(emit(value.args[0], s)) + " ? " + x + " : " + typeText(dtype) + "{})";
  }
  const std::string condition = wrapped(emit(value.args[0], s));
  return "(" + condition + " ? " + bitsText(value.args[1], dtype, s) + " : " +
         bitsText(value.args[2], dtype, s) + ")";
}

void CudaEmitter::storeText(const Store& store, Scope& s) {
  // A copied value is loaded only at its store: in place, the rest is for other blocks to write.
  const Node& copied = k_[store.value];
  if (movesBits_ && packLane_.empty() && s.vector >= 0 && isMove(store)) {
    const std::string from = affineText(copied.affine, s), to = affineText(store.address, s);
    return line(s,
                bufferText(store.buffer) + "[" + to + "] = " + bufferText(copied.buffer) + "[" + from + "];");
  }
  const Value x =
      store.copied && copied.kind == NodeKind::Load ? loadText(copied, s, false) : emit(store.value, s);
  if (const std::string to = packElement(store, s); !to.empty()) return line(s, to + " = " + x.text + ";");
  const std::string at = affineText(store.address, s), to = bufferText(store.buffer) + " + " + at;
  std::string value = x.text;
  if (!store.combine.empty()) value = "dtc_" + store.combine + "(dtc_load(" + to + "), " + value + ")";
  const std::string text = isNarrowFloat(k_.buffers[store.buffer].dtype)
                               ? "dtc_store(" + to + ", " + value + ");"
                               : bufferText(store.buffer) + "[" + at + "] = " + value + ";";
  const std::string when = store.when.valid() ? wrapped(emit(store.when, s)) : "";
  // Outside of a lanes loop all threads have the value.
  const std::string one = s.vector < 0 ? thread_ + " == 0" : "";
  if (!one.empty() && mayOverwriteItsOwn(k_, *nest_, store)) line(s, barrier());
  const std::string condition = one + (one.empty() || when.empty() ? "" : " && ") + when;
  line(s, (condition.empty() ? "" : "if (" + condition + ") ") + text);
}

// --- packs ---

std::string CudaEmitter::packElement(const Store& store, Scope&) {
  return packLane_.empty() ? "" : packText(store) + ".at[" + packLane_ + "]";
}

void CudaEmitter::declarePack(const Store& store, int64_t n, Scope& s) const {
  const DType dtype = k_.buffers[store.buffer].dtype;
  line(s, "dtc_pack<" + typeText(isNarrowFloat(dtype) ? DType::F32 : dtype) + ", " + text(n) + "> " +
              packText(store) + ";");
}

std::string CudaEmitter::packResult(const Store& store) const {
  const DType dtype = k_.buffers[store.buffer].dtype;
  return isNarrowFloat(dtype) ? "dtc_round_pack<" + typeText(dtype) + ">(" + packText(store) + ")"
                              : packText(store);
}

std::string CudaEmitter::packAt(uint32_t buffer, AffineId address, AxisId lane, Scope& s) {
  firstOfPack_ = lane;
  const std::string at = bufferText(buffer) + " + " + affineText(address, s);
  firstOfPack_.reset();
  return at;
}

std::string CudaEmitter::loadedPack(const Node& load, const std::string& pack, const std::string& type,
                                    Scope& s) {
  if (load.args.empty()) return pack;
  return wrapped(emit(load.args[0], s)) + " ? " + pack + " : " + type + "{}";
}

std::string CudaEmitter::packTypeOf(uint32_t buffer, int64_t n) const {
  return "dtc_pack<" + typeText(k_.buffers[buffer].dtype) + ", " + text(n) + ">";
}

} // namespace dtc
