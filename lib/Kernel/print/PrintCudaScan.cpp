// Scans with one or more rows per block (ScanSchedule.h).
#include "print/CudaEmitter.h"

namespace dtc {

using namespace loops;

namespace {

class ScanEmitter final : public CudaEmitter {
public:
  ScanEmitter(const Kernel& k, KernelText& out, const ScanSchedule& scan)
      : CudaEmitter(k, out, scan.threads), scan_(scan) {}

  void run() {
    const ScanSchedule& s = scan_;
    const Nest& nest = k_.nests[0];
    Scope top;
    begin(nest);
    beginThread(top);
    const bool turns = s.perRow > (s.across ? 1 : kWarp);
    if (turns)
      line(top, "i32 turn = 0;");
    else if (s.perRow > 1)
      line(top, "constexpr i32 turn = 0;");
    const std::string i = axisText(s.axis) + "_chunk";
    Scope chunk, names;
    chunk.parent = &top, chunk.bound = top.bound, chunk.indent = top.indent + 1;
    if (s.ahead)
      loadAhead(top, chunk, names);
    else
      load(chunk, names);
    forEachNode(k_, rootsOf(k_, nest), [&](NodeId n) {
      if (k_[n].kind == NodeKind::Running) printRunning(n, top, chunk, names);
    });
    store(chunk, names);
    if (s.ahead) advance(chunk);
    if (turns) line(chunk, "turn ^= 1;");
    line(top, "for (" + index_ + " " + i + " = 0; " + i + " < " + sizeText(k_.axes[s.axis].extent) + "; " +
                  i + " += " + text(s.chunk()) + ") {");
    append(top, chunk);
    line(top, "}");
    const std::string threads = s.across ? text(s.lanes) + " rows per block, " + text(s.perRow) +
                                               (s.perRow == 1 ? " thread each" : " threads each")
                                : s.rowsOfBlock() > 1
                                    ? text(s.rowsOfBlock()) + " rows per block, 32 threads each"
                                    : text(s.threads) + " threads per row";
    PrintedKernel& out = out_.printed;
    out.schedule = threads + ", chunks of " + text(s.chunk()) + ", " + text(s.steps) +
                   (s.steps == 1 ? " pack of " : " packs of ") + text(s.pack) + " per thread" +
                   (s.ahead ? ", the next chunk prefetched" : "");
    out.body = top.text;
    out.blocks = out.units;
    out.threadsPerBlock = threads_;
  }

private:
  // A loop over the thread's packs of a chunk: `step` around each, `inside` if it is within the row,
  // `element` once per element.
  struct Pass {
    Scope step, inside, element;
    std::string afterPack; // executed by all threads after the pack
  };

  // The pack's elements in the array, or in the pack, in either direction.
  std::string laneOf(AffineId address) const {
    if (scan_.pack == 1) return "0";
    return isInPacks(k_, address, scan_.axis, scan_.pack) ? "lane" : text(scan_.pack - 1) + " - lane";
  }

  // The address of a pack's first element in memory.
  std::string firstAt(uint32_t buffer, AffineId address, Scope& inside) {
    const bool reversed = scan_.pack > 1 && !isInPacks(k_, address, scan_.axis, scan_.pack);
    return packAt(buffer, address, scan_.axis, inside) + (reversed ? " - " + text(scan_.pack - 1) : "");
  }

  void open(Scope& chunk, Pass& pass) const {
    pass.step.parent = &chunk, pass.step.bound = chunk.bound, pass.step.indent = chunk.indent + 1;
    pass.inside.parent = &pass.step, pass.inside.bound = chunk.bound, pass.inside.indent = chunk.indent + 2;
    pass.element.parent = &pass.inside, pass.element.bound = chunk.bound | AxisSet(1) << scan_.axis;
    pass.element.vector = scan_.axis;
    pass.element.indent = pass.inside.indent + (scan_.pack > 1);
  }

  // `from`: the chunk's first position, "": of this one.
  void close(Scope& chunk, Pass& pass, const Text& packsAfter = {}, const std::string& from = "") const {
    const ScanSchedule& s = scan_;
    const std::string i = axisText(s.axis), n = text(s.pack), begin = from.empty() ? i + "_chunk" : from;
    Scope &step = pass.step, &inside = pass.inside;
    line(chunk, "#pragma unroll");
    line(chunk, "for (i32 step = 0; step < " + text(s.steps) + "; ++step) {");
    const std::string position =
        s.across ? "first + step" : "(first + step * 32)" + (s.pack > 1 ? " * " + n : "");
    line(chunk, "  const " + index_ + " " + i + "_at = " + begin + " + " + position + ";");
    if (!pass.element.text.empty()) {
      if (s.pack > 1) line(inside, "#pragma unroll");
      if (s.pack > 1) line(inside, "for (i32 lane = 0; lane < " + n + "; ++lane) {");
      if (pass.element.uses(i))
        line(inside, std::string(s.pack > 1 ? "  " : "") + "const " + index_ + " " + i + " = " + i +
                         (s.pack > 1 ? "_at + lane;" : "_at;"));
      append(inside, pass.element);
      if (s.pack > 1) line(inside, "}");
    }
    append(inside, packsAfter);
    line(step, "if (" + std::string(guarded() ? "there && " : "") + i + "_at < " +
                   sizeText(k_.axes[s.axis].extent) + ") {");
    append(chunk, step);
    append(chunk, inside);
    line(chunk, "  }");
    chunk.text += pass.afterPack;
    line(chunk, "}");
  }

  template <class Fn> void forEachLoad(Fn&& fn) {
    forEachNode(k_, rootsOf(k_, *nest_), [&](NodeId n) {
      if (k_[n].kind == NodeKind::Load && (k_.dependsOn(n) >> scan_.axis & 1) != 0) fn(n, k_[n]);
    });
  }
  // All loads of the chunk are issued before the first is used, into new arrays with names that begin with `base`.
  std::vector<std::string> load(Scope& chunk, Scope& names, const std::string& base = "x",
                                const std::string& from = "") {
    Pass pass;
    open(chunk, pass);
    std::vector<std::string> arrays;
    forEachLoad([&](NodeId n, const Node& load) {
      const DType dtype = k_.buffers[load.buffer].dtype;
      const std::string x = fresh(base);
      line(chunk, "dtc_pack<" + typeText(dtype) + ", " + text(scan_.pack) + "> " + x + "[" +
                      text(scan_.steps) + "];");
      line(pass.inside, x + "[step] = dtc_load_pack<" + text(scan_.pack) + ">(" +
                            firstAt(load.buffer, load.affine, pass.inside) + ");");
      names.names[n.index] = {laneText(dtype, x + "[step]", laneOf(load.affine)), false, true};
      arrays.push_back(x);
    });
    close(chunk, pass, {}, from);
    return arrays;
  }
  std::string nextChunk() const { return axisText(scan_.axis) + "_chunk + " + text(scan_.chunk()); }
  // The first chunk before the loop, each other one during the one before it.
  void loadAhead(Scope& top, Scope& chunk, Scope& names) {
    Scope unnamed;
    present_ = load(top, names, "x", "0");
    next_ = load(chunk, unnamed, "next", nextChunk());
  }
  void advance(Scope& chunk) const {
    Pass pass;
    open(chunk, pass);
    for (size_t i = 0; i < next_.size(); ++i)
      line(pass.inside, present_[i] + "[step] = " + next_[i] + "[step];");
    close(chunk, pass, {}, nextChunk());
  }

  // A scanned value: each thread's part, its prefix, and then the value at each element, which gets its name.
  void printRunning(NodeId running, Scope& top, Scope& chunk, Scope& names) {
    const Node node = k_[running];
    const bool last = node.reduce == ReduceKind::Last, alone = scan_.perRow == 1;
    const DType from = k_[node.args[0]].type, type = last ? DType::I32 : from;
    const ReduceKind kind = last ? ReduceKind::Max : node.reduce; // the last index is the max
    const std::string t = typeText(type), identity = last ? "-1" : neutralText(node.reduce, from);
    // The prefix before the first element.
    const std::string first = node.reduce == ReduceKind::Sum && node.integer ? "0" : identity;
    const std::string name = fresh(reduceName(node.reduce)), steps = text(scan_.steps);
    auto element = [&](Pass& pass) {
      pass.element.names = names.names;
      std::string x = emit(node.args[0], pass.element).text;
      if (!last) return x;
      return "dtc_select(" + x + ", (i32)" + use(pass.element, axisText(scan_.axis)) + ", -1)";
    };
    const std::string run = alone ? name + "_carry" : name + "_run";
    line(top, t + " " + name + "_carry = " +
                  (node.args.size() > 1 ? emit(node.args[1], top).text : "(" + t + ")" + first) + ";");
    if (!alone) {
      line(chunk, t + " " + name + "_all = (" + t + ")" + identity + ";");
      if (!scan_.across) line(chunk, t + " " + name + "_before[" + steps + "];");
      Pass parts;
      open(chunk, parts);
      const std::string part = scan_.across ? name + "_all" : "part";
      if (!scan_.across) line(parts.step, t + " part = (" + t + ")" + identity + ";");
      line(parts.element, accumulated(kind, type, part, element(parts)));
      if (!scan_.across)
        parts.afterPack = indentText(chunk.indent + 1) + name + "_before[step] = dtc_lanes_before_" +
                          reduceName(node.reduce) + "(part, " + name + "_all);\n";
      close(chunk, parts);
      line(chunk, beforeThread(node.reduce, t, name));
    }
    line(chunk, "dtc_pack<" + t + ", " + text(scan_.pack) + "> " + name + "[" + steps + "];");
    Pass values;
    open(chunk, values);
    if (!scan_.across)
      line(values.step,
           t + " " + run + " = " + combined(kind, type, name + "_first", name + "_before[step]") + ";");
    const std::string x = element(values), lane = scan_.pack > 1 ? "lane" : "0",
                      at = name + "[step].at[" + lane + "]";
    if (node.integer) line(values.element, at + " = " + run + ";");
    line(values.element, accumulated(kind, type, run, x));
    if (!node.integer) line(values.element, at + " = " + run + ";");
    close(chunk, values);
    names.names[running.index] = {at, false, true};
  }

  // The prefix of the thread's elements of the chunk (across rows), or of its warp; the carry then is the
  // prefix of the next chunk.
  std::string beforeThread(ReduceKind kind, const std::string& type, const std::string& name) {
    const std::string site = text(out_.reductions++),
                      arguments = "(" + name + "_all, " + name + "_carry, turn);";
    if (scan_.across)
      return type + " " + name + "_run = dtc_groups_before_" + reduceName(kind) + "<" + site + ", " +
             text(scan_.perRow) + ", " + text(scan_.lanes) + ">" + arguments;
    return "const " + type + " " + name + "_first = dtc_warps_before_" + reduceName(kind) + "<" + site +
           ", " + text(scan_.perRow) + ">" + arguments;
  }

  void store(Scope& chunk, const Scope& names) {
    Pass pass;
    open(chunk, pass);
    pass.element.names = names.names;
    Text stores;
    stores.indent = pass.inside.indent;
    for (const Store& s : nest_->stores) {
      declarePack(s, scan_.pack, pass.inside);
      line(stores,
           "dtc_store_pack(" + firstAt(s.buffer, s.address, pass.inside) + ", " + packResult(s) + ");");
      packLane_ = laneOf(s.address);
      storeText(s, pass.element);
    }
    packLane_.clear();
    close(chunk, pass, stores);
  }

  // True if lanes may be past the last row.
  bool guarded() const { return scan_.across && k_.axes[*scan_.across].extent.number % scan_.lanes != 0; }

  // The thread's row, and its position in it.
  void beginThread(Scope& top) {
    const ScanSchedule& s = scan_;
    plan_.grid = s.rows;
    const bool warps = !s.across && s.rowsOfBlock() > 1;
    if (warps) {
      int64_t rows = 1;
      for (AxisId a : s.rows) rows *= k_.axes[a].extent.number;
      line(top, "const " + index_ + " unit = blockIdx.x * " + text(s.rowsOfBlock()) + " + threadIdx.x / 32;");
      if (rows % s.rowsOfBlock() != 0) line(top, "if (unit >= " + text(rows) + ") return; // whole warps");
      out_.printed.units.terms.push_back({{rows, -1, s.rowsOfBlock()}});
    } else {
      if (s.across) plan_.blocked = s.across, plan_.block = s.lanes;
      line(top, "const " + index_ + " unit = blockIdx.x;");
      countUnits();
    }
    if (!s.rows.empty()) decode(top, "unit");
    for (AxisId a : s.rows) top.bound |= AxisSet(1) << a;
    if (s.across) {
      const std::string a = axisText(*s.across), at = a + "_begin + threadIdx.x % " + text(s.lanes);
      if (guarded()) line(top, "const bool there = " + at + " < " + a + "_end;");
      line(top, "const " + index_ + " " + a + " = " +
                    (guarded() ? "dtc_index_min(" + at + ", " + a + "_end - 1)" : at) + ";");
      return line(top, "const i32 first = threadIdx.x / " + text(s.lanes) + " * " + text(s.steps) + ";");
    }
    const std::string thread = warps ? "threadIdx.x % 32" : "threadIdx.x";
    line(top, s.steps == 1
                  ? "const i32 first = " + thread + ";"
                  : "const i32 first = " + thread + " / 32 * " + text(32 * s.steps) + " + threadIdx.x % 32;");
  }

  const ScanSchedule& scan_;
  std::vector<std::string> present_, next_; // arrays of loaded elements, of this chunk and the next one
};

} // namespace

PrintedKernel printScan(const Kernel& k, const ScanSchedule& scan) {
  KernelText out;
  ScanEmitter(k, out, scan).run();
  return std::move(out.printed);
}

} // namespace dtc
