// Nests whose accesses along one axis pass through tiles in shared memory (TileSchedule.h).
#include "print/CudaEmitter.h"
#include "schedule/TileSchedule.h"

namespace dtc {

using namespace loops;

namespace {

class TileEmitter final : public CudaEmitter {
public:
  TileEmitter(const Kernel& k, KernelText& out, const TileSchedule& tile)
      : CudaEmitter(k, out, kMaxThreads), tile_(tile), lane_(tile.pack > 1 ? "lane" : "0") {}

private:
  using Staged = TileSchedule::Staged;

  // --- units: tiles ---

  std::string tilesAlong(AxisId a) const {
    const Size& extent = k_.axes[a].extent;
    const int64_t side = tile_.sideOf(a);
    if (extent.isStatic()) return text((extent.number + side - 1) / side);
    return side == 1 ? sizeText(extent) : "dtc_blocks(" + sizeText(extent) + ", " + text(side) + ")";
  }
  std::string countUnits() override {
    std::vector<SizeFormula::Factor> units;
    std::string count;
    for (AxisId a : plan_.grid) {
      for (SizeFormula::Factor f : factorsOf(k_.axes[a].extent)) {
        f.per = tile_.sideOf(a); // such an axis is one constant or one argument
        units.push_back(f);
      }
      count += (count.empty() ? "" : " * ") + tilesAlong(a);
    }
    out_.printed.units.terms.push_back(std::move(units));
    return count;
  }
  std::string beginUnit(Scope&, Scope& unit, const std::string& number) override {
    line(unit, index_ + " rest = " + number + ";");
    for (size_t i = plan_.grid.size(); i-- > 0;) {
      const AxisId a = plan_.grid[i];
      const std::string count = "(" + tilesAlong(a) + ")", at = i == 0 ? "rest" : "rest % " + count;
      const int64_t side = tile_.sideOf(a);
      line(unit, "const " + index_ + " " + axisText(a) +
                     (side == 1 ? " = " + at : "_begin = (" + at + ") * " + text(side)) + ";");
      if (side == 1) unit.bound |= AxisSet(1) << a;
      if (i > 0) line(unit, "rest /= " + count + ";");
    }
    return "";
  }

  // "i0 < 100 && i1_at < 200", of the axes along which a tile may lack elements; "": of none. `packed`: the axis
  // along which a thread has packs.
  std::string presence(AxisId packed) const {
    std::string all;
    for (AxisId a : {tile_.row, tile_.column}) {
      const Size& extent = k_.axes[a].extent;
      if (extent.isStatic() && extent.number % tile_.sideOf(a) == 0) continue;
      all += (all.empty() ? "" : " && ") + axisName(a) + (a == packed ? "_at < " : " < ") + sizeText(extent);
    }
    return all;
  }
  Scope within(Scope& unit, AxisSet axes) const {
    Scope s;
    s.parent = &unit, s.bound = unit.bound | axes;
    s.indent = unit.indent + (presence(tile_.row).empty() ? 1 : 2);
    return s;
  }
  static AxisSet of(AxisId a) { return AxisSet(1) << a; }

  // A loop over a thread's accesses, with `position` and then `inside`, the latter where the tile has elements.
  void overSteps(Scope& unit, int64_t steps, bool unrolled, AxisId packed,
                 const std::vector<std::string>& position, const Text& inside) const {
    if (unrolled) unit.text += "#pragma unroll\n";
    line(unit, "for (i32 step = 0; step < " + text(steps) + "; ++step) {");
    for (const std::string& s : position) line(unit, "  " + s);
    const std::string present = presence(packed);
    if (!present.empty()) line(unit, "  if (" + present + ") {");
    append(unit, inside);
    if (!present.empty()) line(unit, "  }");
    line(unit, "}");
  }

  // --- staged accesses: packs along `row`, spread over the block's threads ---

  int64_t piecesOf(const Staged& s) const { return tile_.rows * tile_.columns / (s.pack * kMaxThreads); }
  std::vector<std::string> pieceOf(const Staged& s) const {
    const std::string perLine = text(tile_.rows / s.pack), row = axisName(tile_.row),
                      column = axisName(tile_.column);
    return {"const i32 piece = step * " + text(kMaxThreads) + " + threadIdx.x;",
            "const " + index_ + " " + column + " = " + column + "_begin + piece / " + perLine + ";",
            "const " + index_ + " " + row + "_at = " + row + "_begin + piece % " + perLine +
                (s.pack > 1 ? " * " + text(s.pack) : "") + ";"};
  }
  std::string along(const Staged& s) const { // the row of a piece's first element
    return "piece % " + text(tile_.rows / s.pack) + (s.pack > 1 ? " * " + text(s.pack) : "");
  }
  // Element `at` of a line of a staged tile.
  std::string element(size_t number, const std::string& lineOf, const std::string& at) const {
    const TileLayout layout = layoutOf(k_, tile_, tile_.staged[number]);
    return "dtc_staged<" + text(layout.line) + ", " + text(layout.linesPerPad) + ", " + text(layout.padding) +
           ">(" + lineOf + ", " + at + ")";
  }
  std::string typeOf(const Staged& s) const { return typeText(k_.buffers[s.buffer].dtype); }
  std::string nameOf(size_t number) const { return "tile" + text(static_cast<int64_t>(number)); }

  void declareTiles(Scope& unit) const {
    for (size_t i = 0; i < tile_.staged.size(); ++i) {
      const Staged& s = tile_.staged[i];
      const std::string name = nameOf(i), type = typeOf(s);
      line(unit,
           "__shared__ __align__(16) u8 " + name + "_bytes[" + text(layoutOf(k_, tile_, s).bytes) + "];");
      line(unit, type + "* const " + name + " = (" + type + "*)" + name + "_bytes;");
    }
  }

  // The reads of a staged load, all issued before the first is used. Where its condition is false, zeros.
  void fetch(Scope& unit, const Staged& s, const std::string& name) {
    const std::string pack = "dtc_pack<" + typeOf(s) + ", " + text(s.pack) + ">";
    line(unit,
         pack + " " + name + "[" + text(piecesOf(s)) + "]" + (presence(tile_.row).empty() ? ";" : " = {};"));
    Scope inside = within(unit, of(tile_.row) | of(tile_.column));
    firstOfPack_ = tile_.row;
    const std::string x = "dtc_load_pack<" + text(s.pack) + ">(" + bufferText(s.buffer) + " + " +
                          affineText(s.address, inside) + ")";
    line(inside,
         name + "[step] = " + loadedPack(k_[s.load], x, packTypeOf(k_[s.load].buffer, s.pack), inside) + ";");
    firstOfPack_.reset();
    overSteps(unit, piecesOf(s), true, tile_.row, pieceOf(s), inside);
  }
  void keep(Scope& unit, size_t number, const std::string& name) const {
    const Staged& s = tile_.staged[number];
    line(unit, "#pragma unroll");
    line(unit, "for (i32 step = 0; step < " + text(piecesOf(s)) + "; ++step) {");
    line(unit, "  " + pieceOf(s)[0]);
    line(unit, "  dtc_stage_pack(" + nameOf(number) + " + " +
                   element(number, "piece / " + text(tile_.rows / s.pack), along(s)) + ", " + name +
                   "[step]);");
    line(unit, "}");
  }
  // A staged store, from its tile.
  void writeBack(Scope& unit, size_t number) {
    const Staged& s = tile_.staged[number];
    Scope inside = within(unit, of(tile_.row) | of(tile_.column));
    line(inside, "dtc_pack<" + typeOf(s) + ", " + text(s.pack) + "> x;");
    inside.text += "#pragma unroll\n";
    line(inside, "for (i32 lane = 0; lane < " + text(s.pack) + "; ++lane)");
    line(inside, "  x.at[lane] = " + nameOf(number) + "[" +
                     element(number, along(s) + " + lane", "piece / " + text(tile_.rows / s.pack)) + "];");
    line(inside, "dtc_store_pack(" + packAt(s.buffer, s.address, tile_.row, inside) + ", x);");
    overSteps(unit, piecesOf(s), true, tile_.row, pieceOf(s), inside);
  }

  // --- the computation: packs along `column` ---

  std::vector<std::string> positionOf() const {
    const std::string row = axisName(tile_.row), column = axisName(tile_.column),
                      across = text(tile_.across());
    return {
        "const i32 line = step * " + text(kMaxThreads / tile_.across()) + " + threadIdx.x / " + across + ";",
        "const i32 first = threadIdx.x % " + across + (tile_.pack > 1 ? " * " + text(tile_.pack) : "") + ";",
        "const " + index_ + " " + row + " = " + row + "_begin + line;",
        "const " + index_ + " " + column + "_at = " + column + "_begin + first;"};
  }
  int64_t steps() const { return tile_.rows * tile_.across() / kMaxThreads; }

  void fetchAhead(Scope& unit, NodeId n, const std::string& name) {
    const Node& load = k_[n];
    const std::string count = text(tile_.pack);
    line(unit, "dtc_pack<" + typeText(k_.buffers[load.buffer].dtype) + ", " + count + "> " + name + "[" +
                   text(steps()) + "];");
    Scope inside = within(unit, of(tile_.row) | of(tile_.column));
    line(inside, name + "[step] = dtc_load_pack<" + count + ">(" +
                     packAt(load.buffer, load.affine, tile_.column, inside) + ");");
    overSteps(unit, steps(), true, tile_.column, positionOf(), inside);
  }

  // Names of the loaded elements: as values, and (`bits_`) as memory has them.
  void nameElement(NodeId n, Scope& inner, const std::string& bits, const std::string& value) {
    inner.names[n.index] = {value, false, true};
    bits_[n.index] = bits;
  }
  void nameLoads(Scope& step, Scope& inner) {
    for (size_t i = 0; i < tile_.staged.size(); ++i) {
      const Staged& s = tile_.staged[i];
      if (!s.load.valid()) continue;
      const std::string at = element(i, "first + " + lane_, "line"), bits = nameOf(i) + "[" + at + "]";
      nameElement(s.load, inner, bits,
                  isNarrowFloat(k_.buffers[s.buffer].dtype) ? "dtc_load(" + nameOf(i) + " + " + at + ")"
                                                            : bits);
    }
    for (size_t i = 0; i < tile_.ahead.size(); ++i) {
      const std::string pack = aheadName(i) + "[step]";
      nameElement(tile_.ahead[i], inner, pack + ".at[" + lane_ + "]",
                  laneText(k_.buffers[k_[tile_.ahead[i]].buffer].dtype, pack, lane_));
    }
    forEachNode(k_, rootsOf(k_, *nest_), [&](NodeId n) {
      const Node& load = k_[n];
      if (load.kind != NodeKind::Load || inner.names.contains(n.index) || tile_.pack == 1) return;
      if (!isInPacks(k_, load.affine, tile_.column, tile_.pack)) return;
      if (!load.args.empty() && (k_.dependsOn(load.args[0]) >> tile_.column & 1)) return;
      const std::string pack = fresh("pack"), x = "dtc_load_pack<" + text(tile_.pack) + ">(" +
                                                  packAt(load.buffer, load.affine, tile_.column, step) + ")";
      line(step, "const auto " + pack + " = " +
                     loadedPack(load, x, packTypeOf(load.buffer, tile_.pack), step) + ";");
      nameElement(n, inner, pack + ".at[" + lane_ + "]",
                  laneText(k_.buffers[load.buffer].dtype, pack, lane_));
    });
  }
  static std::string aheadName(size_t number) { return "ahead" + text(static_cast<int64_t>(number)); }

  void storeText(const Store& store, Scope& s) override {
    if (!movesBits(store)) return CudaEmitter::storeText(store, s);
    line(s, packElement(store, s) + " = " + bitsText(store.value, k_.buffers[store.buffer].dtype, s) + ";");
  }

  // The packs of a thread's results, and after them the statements that write these.
  Text declareResults(Scope& step) {
    Text writes;
    writes.indent = step.indent;
    for (const Store& s : nest_->stores) {
      const bool moved = movesBits(s);
      if (moved)
        line(step, "dtc_pack<" + typeText(k_.buffers[s.buffer].dtype) + ", " + text(tile_.pack) + "> " +
                       packText(s) + ";");
      else
        declarePack(s, tile_.pack, step);
      std::string to = bufferText(s.buffer);
      for (size_t i = 0; i < tile_.staged.size(); ++i)
        if (!tile_.staged[i].load.valid() && &s == &nest_->stores[tile_.staged[i].store])
          to = nameOf(i) + " + " + element(i, "line", "first");
      const bool direct = to == bufferText(s.buffer);
      if (direct) to = packAt(s.buffer, s.address, tile_.column, step);
      line(writes, (direct ? "dtc_store_pack(" : "dtc_stage_pack(") + to + ", " +
                       (moved ? packText(s) : packResult(s)) + ");");
    }
    return writes;
  }

  void compute(Scope& unit) {
    Scope step = within(unit, of(tile_.row)), inner;
    inner.parent = &step, inner.bound = step.bound | of(tile_.column), inner.vector = tile_.column;
    inner.indent = step.indent + (tile_.pack > 1);
    const std::string column = axisName(tile_.column);
    nameLoads(step, inner);
    const Text writes = declareResults(step);
    packLane_ = lane_;
    emitStores(*nest_, inner);
    packLane_.clear();
    if (tile_.pack > 1) {
      step.text += "#pragma unroll\n";
      line(step, "for (i32 lane = 0; lane < " + text(tile_.pack) + "; ++lane) {");
    }
    if (inner.uses(column))
      line(step, std::string(tile_.pack > 1 ? "  " : "") + "const " + index_ + " " + column + " = " + column +
                     (tile_.pack > 1 ? "_at + lane;" : "_at;"));
    append(step, inner);
    if (tile_.pack > 1) line(step, "}");
    append(step, writes);
    overSteps(unit, steps(), !tile_.ahead.empty(), tile_.column, positionOf(), step);
  }

  void printUnit(Scope& unit, const std::string&) override {
    declareTiles(unit);
    bool loads = false, stores = false;
    for (size_t i = 0; i < tile_.staged.size(); ++i)
      if (tile_.staged[i].load.valid())
        fetch(unit, tile_.staged[i], "staged" + text(static_cast<int64_t>(i))), loads = true;
      else
        stores = true;
    for (size_t i = 0; i < tile_.ahead.size(); ++i) fetchAhead(unit, tile_.ahead[i], aheadName(i));
    for (size_t i = 0; i < tile_.staged.size(); ++i)
      if (tile_.staged[i].load.valid()) keep(unit, i, "staged" + text(static_cast<int64_t>(i)));
    if (loads) line(unit, "__syncthreads();");
    compute(unit);
    if (stores) line(unit, "__syncthreads();");
    for (size_t i = 0; i < tile_.staged.size(); ++i)
      if (!tile_.staged[i].load.valid()) writeBack(unit, i);
  }

  const TileSchedule& tile_;
  std::string lane_; // of a thread's columns
};

} // namespace

bool printTile(const Kernel& k, const Nest& nest, KernelText& out, Emitter::Scope& top) {
  const std::optional<TileSchedule> tile = tileScheduleOf(k, nest);
  if (!tile) return false;
  NestPlan plan;
  plan.grid = tile->others;
  plan.grid.insert(plan.grid.end(), {tile->row, tile->column});
  plan.inner = {tile->column};
  plan.vector = tile->column;
  plan.rows = planForThreads(k, nest).rows;
  const std::string size = std::to_string(tile->rows) + " x " + std::to_string(tile->columns);
  out.printed.schedule = "tiles of " + size + " in shared memory, packs of " + std::to_string(tile->pack);
  TileEmitter(k, out, *tile).print(nest, plan, top);
  return true;
}

} // namespace dtc
