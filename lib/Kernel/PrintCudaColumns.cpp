// Reductions of columns (ColumnSchedule.h).
#include "CudaEmitter.h"
#include <utility>

namespace dtc {

using namespace loops;

namespace {

std::string text(int64_t n) { return std::to_string(n); }

} // namespace

// What `element` does, for each column of a thread.
void CudaEmitter::overColumns(Scope& home, const Scope& element) {
  const std::string i = axisText(columns_->lane), to = "const " + index_ + " " + i + " = " + i + "_at";
  const bool several = columns_->pack > 1;
  if (several) home.text += "#pragma unroll\n";
  if (several) line(home, "for (i32 lane = 0; lane < " + text(columns_->pack) + "; ++lane) {");
  if (hasWord(element.text, i)) line(home, several ? "  " + to + " + lane;" : to + ";");
  home.text += element.text;
  if (several) line(home, "}");
}

// The operands of one row, in packs where they lie so.
void CudaEmitter::loadColumns(Scope& row, Scope& element) {
  const ColumnSchedule& c = *columns_;
  if (c.pack == 1) return;
  std::vector<NodeId> roots;
  for (NodeId r : reductions_) roots.push_back(k_[r].args[0]);
  forEachNode(k_, roots, [&](NodeId n) {
    const Node& load = k_[n];
    if (load.kind != NodeKind::Load || !liesInPacks(k_, load.affine, c.lane, c.pack)) return;
    if (!load.args.empty() && (k_.dependsOn(load.args[0]) >> c.lane & 1)) return;
    const std::string pack = fresh("pack"), type = typeText(k_.buffers[load.buffer].dtype);
    firstOfPack_ = c.lane;
    std::string x = "dtc_load_pack<" + text(c.pack) + ">(" + bufferText(load.buffer) + " + " +
                    affineText(load.affine, row) + ")";
    firstOfPack_.reset();
    if (!load.args.empty())
      x = wrapped(emit(load.args[0], row)) + " ? " + x + " : dtc_pack<" + type + ", " + text(c.pack) + ">{}";
    line(row, "const auto " + pack + " = " + x + ";");
    element.names[n.index] = {laneText(k_.buffers[load.buffer].dtype, pack, "lane"), false, true};
  });
}

// What is stored of each element of a row: told by element, and written when the pack is complete, by what is returned.
std::string CudaEmitter::storeRow(const Nest& nest, Scope& row, Scope& element) {
  std::string text;
  for (const Store& s : nest.stores) {
    if (!columnStore(s)) continue;
    packing_ = columns_->pack > 1 && liesInPacks(k_, s.address, columns_->lane, columns_->pack);
    if (packing_) {
      line(row, packType(s, columns_->pack) + " " + packText(s) + ";");
      firstOfPack_ = columns_->lane;
      text += indentText(row.indent) + "dtc_store_pack(" + bufferText(s.buffer) + " + " +
              affineText(s.address, row) + ", " + packResult(s) + ");\n";
      firstOfPack_.reset();
    }
    storeText(s, element);
    packing_ = false;
  }
  return text;
}

void CudaEmitter::printColumns(const Nest& nest, Scope& unit) {
  const ColumnSchedule& c = *columns_;
  const std::string i = axisText(c.lane), present = i + "_at < " + i + "_end";
  lane_ = c.pack > 1 ? "lane" : "0";
  auto elementOf = [&](Scope& home) {
    Scope e;
    e.parent = &home, e.bound = home.bound | AxisSet(1) << c.lane;
    e.vector = c.lane, e.indent = home.indent + (c.pack > 1);
    return e;
  };
  line(unit, "const " + index_ + " " + i + "_at = " + i + "_begin + threadIdx.x % " + text(c.across) +
                 (c.pack > 1 ? " * " + text(c.pack) : "") + ";");
  if (c.down > 1) line(unit, "const i32 down = threadIdx.x / " + text(c.across) + ";");
  std::vector<std::string> sums;
  Scope first = elementOf(unit);
  for (NodeId r : reductions_) {
    sums.push_back(fresh(reduceName(k_[r].reduce)));
    line(unit, typeText(k_[r].type) + " " + sums.back() + "[" + text(c.pack) + "];");
    line(first, sums.back() + "[" + lane_ + "] = " + identityText(k_[r].reduce, k_[r].type) + ";");
  }
  overColumns(unit, first);

  Scope inside;
  inside.parent = &unit, inside.bound = unit.bound, inside.indent = unit.indent + 1;
  std::vector<AxisId> axes = c.axes;
  std::erase(axes, c.shared);
  axes.push_back(c.shared);
  std::deque<Scope> scopes;
  Scope& row = openLoops(inside, axes, std::nullopt, scopes);
  row.text = "#pragma unroll 4\n" + row.text; // so many rows' loads are under way at a time
  Scope element = elementOf(row);
  loadColumns(row, element);
  for (size_t s = 0; s < sums.size(); ++s) {
    const Node& node = k_[reductions_[s]];
    const std::string at = sums[s] + "[" + lane_ + "]";
    line(element, accumulated(node.reduce, node.type, at, emit(node.args[0], element).text));
  }
  const std::string stores = storeRow(nest, row, element);
  overColumns(row, element);
  row.text += stores;
  closeLoops(inside, scopes);
  line(unit, "if (" + present + ") {");
  unit.text += inside.text;
  line(unit, "}");
  if (c.down > 1)
    for (size_t s = 0; s < sums.size(); ++s)
      line(unit, std::string("dtc_columns_") + reduceName(k_[reductions_[s]].reduce) + "<" + text(c.across) +
                     ", " + text(c.down) + ", " + text(c.pack) + ">(" + sums[s] + ");");

  Scope result = inside;
  result.text.clear(), result.names.clear();
  Scope stored = elementOf(result);
  for (size_t s = 0; s < sums.size(); ++s)
    stored.names[reductions_[s].index] = {sums[s] + "[" + lane_ + "]", false, true};
  for (const Store& store : nest.stores)
    if (!columnStore(store)) storeText(store, stored);
  overColumns(result, stored);
  line(unit, "if (" + (c.down > 1 ? "down == 0 && " + present : present) + ") {");
  unit.text += result.text;
  line(unit, "}");
}

// --- columns beside rows: each thread has those of its packs ---

void CudaEmitter::beginColumns(Scope& unit) {
  walk_ = &unit;
  if (!columnsBegin()) return;
  if (schedule_->placed) return placeColumns(unit);
  const bool shared = schedule_->columns == RowSchedule::Keep::Shared;
  std::deque<Scope> scopes;
  Scope& step = openStep(unit, scopes);
  const std::string n = text(row_->pack);
  for (const Store& s : nest_->stores) {
    if (!isColumn(k_, *nest_, s)) continue;
    const DType type = k_[s.value].type;
    const std::string pack = "dtc_pack<" + typeText(type) + ", " + n + ">", name = columnName(s);
    if (shared) {
      if (out_.sharedBytes == 0) line(unit, "extern __shared__ uint4 row_memory[];");
      line(unit, pack + "* const " + name + " = (" + pack + "*)((u8*)row_memory + " + text(out_.sharedBytes) +
                     ");");
      out_.sharedBytes +=
          static_cast<int>(schedule_->steps * schedule_->threads * schedule_->pack * dtypeBytes(type));
    } else {
      line(unit, pack + " " + name + "[" + text(schedule_->steps) + "];");
    }
    line(step, "for (i32 lane = 0; lane < " + n + "; ++lane) " + arrayPlace(name, shared) +
                   ".at[lane] = " + identityText(k_[s.value].reduce, type) + ";");
  }
  endStep(unit, scopes);
}

// Shared memory has the columns by their place in the row: threads take turns at them from row to row.
void CudaEmitter::placeColumns(Scope& unit) {
  const int64_t places = columnStride(*row_) * row_->pack;
  if (out_.sharedBytes == 0) line(unit, "extern __shared__ uint4 row_memory[];");
  Scope place;
  place.indent = unit.indent + 1;
  for (const Store& s : nest_->stores) {
    if (!isColumn(k_, *nest_, s)) continue;
    const DType type = k_[s.value].type;
    const std::string name = columnName(s), pointer = typeText(type) + "*";
    line(unit, pointer + " const " + name + " = (" + pointer + ")((u8*)row_memory + " +
                   text(out_.sharedBytes) + ");");
    line(place, name + "[at] = " + identityText(k_[s.value].reduce, type) + ";");
    out_.sharedBytes += static_cast<int>(places * dtypeBytes(type));
  }
  line(unit,
       "for (i32 at = threadIdx.x; at < " + text(places) + "; at += " + text(schedule_->threads) + ") {");
  unit.text += place.text;
  line(unit, "}");
  line(unit, barrier());
}

// A row's packs come from where the row before it had them read to, and the next row's are under way meanwhile.
bool CudaEmitter::loadAhead(NodeId load, const std::string& to, Scope& step) {
  const Node& node = k_[load];
  if (!schedule_->ahead || !node.args.empty()) return false;
  const AxisId walked = nest_->walked[0];
  const Kernel::Stride stride = k_.strideOf(node.affine, walked);
  if (stride.mixed || stride.size.is(0)) return false;
  for (const AffineTerm& t : k_[node.affine].terms)
    if (t.kind == AffineTerm::OfNode) return false;
  const std::string next = fresh("next"), place = arrayPlace(next, false), i = axisText(walked);
  line(*walk_, "dtc_pack<" + typeText(k_.buffers[node.buffer].dtype) + ", " + text(row_->pack) + "> " + next +
                   "[" + text(schedule_->steps + schedule_->edged) + "];");
  if (schedule_->edged) { // its packs begin elsewhere
    line(*walk_, "{");
    line(*walk_, "  const " + index_ + " " + i + " = 0;");
    readEdged(*walk_, {{load, place}});
    line(*walk_, "}");
    line(step, to + " = " + place + ";");
    nextRow_.emplace_back(load, place);
    return true;
  }
  std::deque<Scope> scopes;
  Scope& first = openStep(*walk_, scopes);
  line(first, "const " + index_ + " " + i + " = 0;");
  loadPack(load, place, first);
  endStep(*walk_, scopes);
  line(step, to + " = " + place + ";");
  loadPack(load, "if (" + i + " + 1 < " + sizeText(k_.axes[walked].extent) + ") " + place, step,
           " + " + sizeText(stride.size));
  return true;
}

// All packs and edges of a row, for each load to a place of its own.
void CudaEmitter::readEdged(Scope& home, const std::vector<std::pair<NodeId, std::string>>& loads) {
  Scope row;
  row.parent = &home, row.bound = home.bound, row.indent = home.indent + 1;
  beginEdges(row);
  std::deque<Scope> scopes;
  Scope& step = openStep(row, scopes);
  for (const auto& [load, place] : loads) loadPack(load, place, step);
  endStep(row, scopes);
  home.text += row.text;
}

// Behind the present row's, when they have been taken from where the next ones go.
void CudaEmitter::readNextRow(Scope& home) {
  if (nextRow_.empty()) return;
  const std::string i = axisText(nest_->walked[0]), next = "next_" + i;
  line(home, "if (" + i + " + 1 < " + sizeText(k_.axes[nest_->walked[0]].extent) + ") {");
  line(home, "  const " + index_ + " " + next + " = " + i + " + 1;");
  line(home, "  {");
  Scope inside;
  inside.parent = &home, inside.bound = home.bound, inside.indent = home.indent + 1;
  line(inside, "  const " + index_ + " " + i + " = " + next + ";");
  readEdged(inside, std::exchange(nextRow_, {}));
  home.text += inside.text;
  line(home, "  }");
  line(home, "}");
}

void CudaEmitter::enterRow(Scope& row) {
  if (schedule_ && row_->edged) beginEdges(row);
  rowBound_ = row.bound;
  kept_.clear();
  rowPassSeen_ = false;
}

// What a reduction across the threads has in shared memory is read before the next row's takes its place.
void CudaEmitter::leaveRow(Scope& row) {
  if (schedule_ && (schedule_->threads > kWarp || schedule_->placed || schedule_->edged))
    line(row, "__syncthreads();");
}

void CudaEmitter::endColumns(Scope& unit) {
  if (!columnsBegin()) return;
  if (schedule_->placed) return writePlaced(unit);
  std::deque<Scope> scopes;
  Scope& step = openStep(unit, scopes);
  firstOfPack_ = row_->axes.back();
  for (const Store& s : nest_->stores)
    if (isColumn(k_, *nest_, s))
      line(step, "dtc_store_pack(" + bufferText(s.buffer) + " + " + affineText(s.address, step) + ", " +
                     arrayPlace(columnName(s), schedule_->columns == RowSchedule::Keep::Shared) + ");");
  firstOfPack_.reset();
  endStep(unit, scopes);
}

void CudaEmitter::writePlaced(Scope& unit) {
  const AxisId lane = row_->axes.back();
  const std::string i = axisText(lane);
  Scope element;
  element.parent = &unit, element.bound = unit.bound | AxisSet(1) << lane, element.indent = unit.indent + 1;
  for (const Store& s : nest_->stores)
    if (isColumn(k_, *nest_, s))
      line(element, bufferText(s.buffer) + "[" + affineText(s.address, element) +
                        "] = " + columnPlace(s, element) + ";");
  line(unit, "for (" + index_ + " " + i + " = threadIdx.x; " + i + " < " + sizeText(row_->length) + "; " + i +
                 " += " + text(schedule_->threads) + ") {");
  unit.text += element.text;
  line(unit, "}");
}

std::string CudaEmitter::columnPlace(const Store& store, Scope& body) {
  if (!columnsBegin()) return Emitter::columnPlace(store, body);
  if (schedule_->placed)
    return columnName(store) + "[dtc_column<" + text(row_->pack) + ", " + text(columnStride(*row_)) + ">(" +
           axisText(row_->axes.back()) + ")]";
  return arrayPlace(columnName(store), schedule_->columns == RowSchedule::Keep::Shared) + ".at[" + lane_ +
         "]";
}

} // namespace dtc
