// Updates of rows at indices, by blocks that own a range of rows each (ScatterSchedule.h).
#include "print/CudaEmitter.h"

#include <array>

namespace dtc {

using namespace loops;

namespace {

class ScatterEmitter final : public CudaEmitter {
public:
  ScatterEmitter(Kernel& k, KernelText& out, const ScatterSchedule& scatter)
      : CudaEmitter(k, out, scatter.threads()), own_(k), s_(scatter),
        type_(typeText(k[k.nests[0].stores[1].value].type)) {}

  void run() {
    const Nest& nest = k_.nests[0];
    const Store &base = nest.stores[0], &update = nest.stores[1];
    const AffineId row = rowOfUpdate(own_, s_);
    begin(nest);
    Scope top;
    beginBlock(top);
    const std::vector<AxisId> rows = s_.row ? std::vector{*s_.row} : std::vector<AxisId>();
    Scope target = lambdaIn(top, s_.steps), first = lambdaIn(top, rows), add = lambdaIn(top, s_.steps),
          write = lambdaIn(top, rows);
    decodeUpdate(target);
    decodeUpdate(add);
    const std::string when = wrapped(emit(update.when, target)), to = affineText(row, target);
    line(target, "return " + when + " ? i64(" + to + ") : i64(-1);");
    packOf(base.value, first);
    packOf(update.value, add);
    line(write,
         "dtc_store_row<false, " + text(s_.pack) + ">(" + at(base.buffer, base.address, write) + ", sum);");
    call(top, {&target, &first, &add, &write});
    finish(top);
  }

private:
  [[nodiscard]] std::string ranged(const std::string& of) const {
    return s_.ranges == 1 ? of : of + " / " + text(s_.ranges);
  }

  [[nodiscard]] std::string rowsText() const { return s_.row ? sizeText(k_.axes[*s_.row].extent) : "1"; }

  // The rows of the block, and the thread's columns.
  void beginBlock(Scope& top) {
    plan_.grid = s_.lists;
    const std::string rows = rowsText(), thread = "threadIdx.x";
    std::string unit = "unit";
    line(top, "const i64 unit = blockIdx.x;");
    if (s_.lane) {
      const Size& width = k_.axes[*s_.lane].extent;
      const std::string strip = text(s_.strip()), i = axisText(*s_.lane) + (s_.pack > 1 ? "_at" : ""),
                        count = "dtc_blocks(" + sizeText(width) + ", " + strip + ")",
                        column = s_.across == 1 ? "0" : thread + " % " + text(s_.across);
      const bool one = width.isStatic() && width.number <= s_.strip();
      line(top, "const i64 " + i + " = " + (one ? "" : "unit % " + count + " * " + strip + " + ") + "(" +
                    column + ")" + (s_.pack > 1 ? " * " + text(s_.pack) : "") + ";");
      if (!one) unit += " / " + count;
    }
    if (!s_.lists.empty()) decode(top, ranged(unit));
    for (AxisId a : s_.lists) top.bound |= AxisSet(1) << a;
    if (s_.ranges > 1) {
      line(top, "const i64 rows = dtc_blocks(" + rows + ", i64(" + text(s_.ranges) + "));");
      line(top, "const i64 begin = " + unit + (s_.lists.empty() ? "" : " % " + text(s_.ranges)) + " * rows;");
    }
  }

  Scope lambdaIn(Scope& top, const std::vector<AxisId>& axes) {
    Scope s;
    s.parent = &top, s.bound = top.bound, s.indent = top.indent + 3;
    for (AxisId a : axes) s.bound |= AxisSet(1) << a;
    return s;
  }

  // The coordinates of update u, the last axis fastest: in 32 bits where they suffice.
  void decodeUpdate(Scope& s) {
    if (s_.steps.size() == 1) return line(s, "const i64 " + axisText(s_.steps[0]) + " = u;");
    Size all;
    for (AxisId a : s_.steps) all = all * k_.axes[a].extent;
    const std::string type = all.isStatic() && all.number <= INT32_MAX ? "u32" : "i64";
    line(s, type + " rest = (" + type + ")u;");
    for (size_t i = s_.steps.size(); i-- > 0;) {
      const std::string extent = "(" + type + ")" + sizeText(k_.axes[s_.steps[i]].extent);
      line(s, "const i64 " + axisText(s_.steps[i]) + " = rest" + (i ? " % " + extent : "") + ";");
      if (i) line(s, "rest /= " + extent + ";");
    }
  }

  std::string at(uint32_t buffer, AffineId address, Scope& s) {
    if (s_.lane && s_.pack > 1) return packAt(buffer, address, *s_.lane, s);
    return bufferText(buffer) + " + " + affineText(address, s);
  }

  // "return" the elements of a value that the thread has: loads of neighbors are one access.
  void packOf(NodeId value, Scope& s) {
    Scope inner = Scope::within(s);
    if (s_.lane) inner.bound |= AxisSet(1) << *s_.lane, inner.vector = *s_.lane;
    const std::string n = text(s_.pack);
    if (s_.pack > 1)
      forEachNode(k_, std::span(&value, 1), [&](NodeId id) {
        const Node& load = k_[id];
        if (load.kind != NodeKind::Load || !load.args.empty() ||
            !isInLanePacks(k_, load.affine, *s_.lane, s_.pack))
          return;
        const std::string x = fresh("pack");
        line(s, "const auto " + x + " = dtc_load_pack<" + n + ">(" + at(load.buffer, load.affine, s) + ");");
        inner.names[id.index] = {laneText(k_.buffers[load.buffer].dtype, x, "lane"), false, true};
      });
    line(s, "dtc_pack<" + type_ + ", " + n + "> y;");
    const std::string x = emit(value, inner).text;
    line(inner, std::string("y.at[") + (s_.pack > 1 ? "lane" : "0") + "] = " + x + ";");
    if (s_.pack > 1) {
      line(s, "#pragma unroll");
      line(s, "for (i32 lane = 0; lane < " + n + "; ++lane) {");
      const std::string i = axisText(*s_.lane);
      if (inner.uses(i)) line(s, "  const i64 " + i + " = " + i + "_at + lane;");
    }
    append(s, inner);
    if (s_.pack > 1) line(s, "}");
    line(s, "return y;");
  }

  void call(Scope& top, std::array<const Scope*, 4> bodies) {
    const Store &base = k_.nests[0].stores[0], &update = k_.nests[0].stores[1];
    const std::string rows = rowsText(), row = s_.row ? axisText(*s_.row) : "row",
                      pack = "dtc_pack<" + type_ + ", " + text(s_.pack) + ">";
    Size updates;
    for (AxisId a : s_.steps) updates = updates * k_.axes[a].extent;
    const bool last = update.combine.empty();
    line(top, "dtc_block_scatter<" + text(threads_) + ", " + text(s_.across) + ", " +
                  (last ? "true" : "false") + ", " + type_ + ", " + text(s_.pack) + ">(");
    line(top, "    " +
                  (s_.ranges == 1 ? "0, " + rows : "begin, dtc_index_min(begin + rows, i64(" + rows + "))") +
                  ", " + sizeText(updates) + ", " +
                  (base.copied ? "(const void*)" + bufferText(base.buffer) + " == " + bufferText(*base.copied)
                               : "false") +
                  ", " + thereText() + ",");
    const auto lambda = [&](const std::string& parameters, const Scope& body, const std::string& end) {
      line(top, "    [&](" + parameters + ") {");
      append(top, body);
      line(top, "    }" + end);
    };
    lambda("i64 u", *bodies[0], ",");
    lambda("i64 " + row, *bodies[1], ",");
    lambda("i64 u", *bodies[2], ",");
    line(top, "    [&](" + type_ + " a, " + type_ + " b) -> " + type_ + " { return " +
                  (last ? "b" : "dtc_" + update.combine + "(a, b)") + "; },");
    lambda("i64 " + row + ", const " + pack + "& sum", *bodies[3], ");");
  }

  [[nodiscard]] std::string thereText() const {
    if (!s_.lane) return "true";
    const Size& width = k_.axes[*s_.lane].extent;
    if (width.isStatic() && width.number % s_.strip() == 0) return "true";
    return axisText(*s_.lane) + (s_.pack > 1 ? "_at < " : " < ") + sizeText(width);
  }

  void finish(Scope& top) {
    std::vector<SizeFormula::Factor> units;
    for (AxisId a : s_.lists)
      for (const SizeFormula::Factor& f : factorsOf(k_.axes[a].extent)) units.push_back(f);
    units.push_back({s_.ranges, -1, 1});
    if (s_.lane)
      for (SizeFormula::Factor f : factorsOf(k_.axes[*s_.lane].extent)) {
        f.per = s_.strip();
        units.push_back(f);
      }
    PrintedKernel& out = out_.printed;
    out.units.terms.push_back(std::move(units));
    out.schedule = text(s_.ranges) + (s_.ranges == 1 ? " range of rows, " : " ranges of rows, ") +
                   text(s_.groups) + (s_.groups == 1 ? " row" : " rows") + " per block at once, " +
                   text(s_.across) + (s_.across == 1 ? " thread" : " threads") + " each, " +
                   (s_.pack == 1 ? "1 element" : "packs of " + text(s_.pack)) + " per thread";
    out.body = top.text;
    out.blocks = out.units;
    out.threadsPerBlock = threads_;
    out.minBlocks = s_.resident;
  }

  Kernel& own_;
  const ScatterSchedule& s_;
  std::string type_; // of the computation
};

} // namespace

PrintedKernel printScatter(const Kernel& k, const ScatterSchedule& scatter) {
  KernelText out;
  Kernel own = k; // the printer interns the row of an update
  ScatterEmitter(own, out, scatter).run();
  return std::move(out.printed);
}

} // namespace dtc
