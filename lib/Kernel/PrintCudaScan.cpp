// Scans whose rows are a block's (ScanSchedule.h).
#include "CudaEmitter.h"

namespace dtc {

using namespace loops;

namespace {

std::string text(int64_t n) { return std::to_string(n); }

} // namespace

// A loop over the thread's packs of a chunk: `step` stands around each, `inside` where the row has it, `element` once an
// element.
struct CudaEmitter::ScanPass {
  Scope step, inside, element;
  std::string behind; // what all threads do when the pack has gone by
};

// The pack's elements in the array, or in the pack, whichever way they lie there.
std::string CudaEmitter::scanLane(AffineId address) const {
  if (scan_->pack == 1) return "0";
  return liesInPacks(k_, address, scan_->axis, scan_->pack) ? "lane" : text(scan_->pack - 1) + " - lane";
}

// Where a pack lies, its first element in memory.
std::string CudaEmitter::scanPackAt(uint32_t buffer, AffineId address, Scope& inside) {
  firstOfPack_ = scan_->axis;
  std::string at = bufferText(buffer) + " + " + affineText(address, inside);
  firstOfPack_.reset();
  if (scan_->pack > 1 && !liesInPacks(k_, address, scan_->axis, scan_->pack))
    at += " - " + text(scan_->pack - 1);
  return at;
}

void CudaEmitter::openScanPass(Scope& chunk, ScanPass& pass) {
  const AxisSet axis = AxisSet(1) << scan_->axis;
  pass.step.parent = &chunk, pass.step.bound = chunk.bound, pass.step.indent = chunk.indent + 1;
  pass.inside.parent = &pass.step, pass.inside.bound = chunk.bound, pass.inside.indent = chunk.indent + 2;
  pass.element.parent = &pass.inside, pass.element.bound = chunk.bound | axis;
  pass.element.vector = scan_->axis;
  pass.element.indent = pass.inside.indent + (scan_->pack > 1);
}

void CudaEmitter::closeScanPass(Scope& chunk, ScanPass& pass, const std::string& packsBehind) {
  const ScanSchedule& s = *scan_;
  const std::string i = axisText(s.axis), n = text(s.pack);
  Scope &step = pass.step, &inside = pass.inside;
  line(chunk, "#pragma unroll");
  line(chunk, "for (i32 step = 0; step < " + text(s.steps) + "; ++step) {");
  const std::string place = s.across ? "first + step" : "(first + step * 32)" + (s.pack > 1 ? " * " + n : "");
  line(chunk, "  const " + index_ + " " + i + "_at = " + i + "_chunk + " + place + ";");
  if (!pass.element.text.empty()) {
    if (s.pack > 1) line(inside, "#pragma unroll");
    if (s.pack > 1) line(inside, "for (i32 lane = 0; lane < " + n + "; ++lane) {");
    if (hasWord(pass.element.text, i))
      line(inside, std::string(s.pack > 1 ? "  " : "") + "const " + index_ + " " + i + " = " + i +
                       (s.pack > 1 ? "_at + lane;" : "_at;"));
    inside.text += pass.element.text;
    if (s.pack > 1) line(inside, "}");
  }
  inside.text += packsBehind;
  line(step, "if (" + std::string(scanGuarded() ? "there && " : "") + i + "_at < " +
                 sizeText(k_.axes[s.axis].extent) + ") {");
  chunk.text += step.text + inside.text;
  line(chunk, "  }");
  chunk.text += pass.behind;
  line(chunk, "}");
}

// Every element that the chunk needs is under way before anything waits for one.
void CudaEmitter::loadScan(const Nest& nest, Scope& chunk, Scope& names) {
  ScanPass pass;
  openScanPass(chunk, pass);
  forEachNode(k_, rootsOf(k_, nest), [&](NodeId n) {
    const Node& load = k_[n];
    if (load.kind != NodeKind::Load || (k_.dependsOn(n) >> scan_->axis & 1) == 0) return;
    const DType dtype = k_.buffers[load.buffer].dtype;
    const std::string x = fresh("x");
    line(chunk, "dtc_pack<" + typeText(dtype) + ", " + text(scan_->pack) + "> " + x + "[" +
                    text(scan_->steps) + "];");
    line(pass.inside, x + "[step] = dtc_load_pack<" + text(scan_->pack) + ">(" +
                          scanPackAt(load.buffer, load.affine, pass.inside) + ");");
    const std::string lane = scanLane(load.affine);
    names.names[n.index] = {laneText(dtype, x + "[step]", lane), false, true};
  });
  closeScanPass(chunk, pass, "");
}

// One value that runs along the row: each thread's part, what stands before it, and then the value at each element, which gets
// its name.
void CudaEmitter::printRunning(NodeId running, Scope& top, Scope& chunk, Scope& names) {
  const Node node = k_[running];
  const bool last = node.reduce == ReduceKind::Last, alone = scan_->perRow == 1;
  const DType from = k_[node.args[0]].type, type = last ? DType::I32 : from;
  const ReduceKind kind = last ? ReduceKind::Max : node.reduce; // the last place is the greatest
  const std::string t = typeText(type), identity = last ? "-1" : neutralText(node.reduce, from);
  // What stands before the first step.
  const std::string first = node.reduce == ReduceKind::Sum && node.integer ? "0" : identity;
  const std::string name = fresh(reduceName(node.reduce)), steps = text(scan_->steps);
  auto element = [&](ScanPass& pass) {
    pass.element.names = names.names;
    std::string x = emit(node.args[0], pass.element).text;
    if (!last) return x;
    return "dtc_select(" + x + ", (i32)" + axisText(scan_->axis) + ", -1)";
  };
  const std::string run = alone ? name + "_carry" : name + "_run";
  line(top, t + " " + name + "_carry = " +
                (node.args.size() > 1 ? emit(node.args[1], top).text : "(" + t + ")" + first) + ";");
  if (!alone) {
    line(chunk, t + " " + name + "_all = (" + t + ")" + identity + ";");
    if (!scan_->across) line(chunk, t + " " + name + "_before[" + steps + "];");
    ScanPass parts;
    openScanPass(chunk, parts);
    const std::string part = scan_->across ? name + "_all" : "part";
    if (!scan_->across) line(parts.step, t + " part = (" + t + ")" + identity + ";");
    line(parts.element, accumulated(kind, type, part, element(parts)));
    if (!scan_->across)
      parts.behind = indentText(chunk.indent + 1) + name + "_before[step] = dtc_lanes_before_" +
                     reduceName(node.reduce) + "(part, " + name + "_all);\n";
    closeScanPass(chunk, parts, "");
    line(chunk, beforeThread(node.reduce, t, name));
  }
  line(chunk, "dtc_pack<" + t + ", " + text(scan_->pack) + "> " + name + "[" + steps + "];");
  ScanPass values;
  openScanPass(chunk, values);
  if (!scan_->across)
    line(values.step,
         t + " " + run + " = " + combined(kind, type, name + "_first", name + "_before[step]") + ";");
  const std::string x = element(values), lane = scan_->pack > 1 ? "lane" : "0",
                    at = name + "[step].at[" + lane + "]";
  if (node.integer) line(values.element, at + " = " + run + ";");
  line(values.element, accumulated(kind, type, run, x));
  if (!node.integer) line(values.element, at + " = " + run + ";");
  closeScanPass(chunk, values, "");
  names.names[running.index] = {at, false, true};
}

// What stands before all that the thread has of the chunk (across rows), or its warp; the carry then stands before the next chunk.
std::string CudaEmitter::beforeThread(ReduceKind kind, const std::string& type, const std::string& name) {
  const std::string site = text(reductionsAcross_++),
                    arguments = "(" + name + "_all, " + name + "_carry, turn);";
  if (scan_->across)
    return type + " " + name + "_run = dtc_groups_before_" + reduceName(kind) + "<" + site + ", " +
           text(scan_->perRow) + ", " + text(scan_->lanes) + ">" + arguments;
  return "const " + type + " " + name + "_first = dtc_warps_before_" + reduceName(kind) + "<" + site + ", " +
         text(scan_->perRow) + ">" + arguments;
}

void CudaEmitter::storeScan(const Nest& nest, Scope& chunk, const Scope& names) {
  ScanPass pass;
  openScanPass(chunk, pass);
  pass.element.names = names.names;
  std::string stores;
  packing_ = true;
  for (const Store& s : nest.stores) {
    line(pass.inside, packType(s, scan_->pack) + " " + packText(s) + ";");
    stores += indentText(pass.inside.indent) + "dtc_store_pack(" +
              scanPackAt(s.buffer, s.address, pass.inside) + ", " + packResult(s) + ");\n";
    lane_ = scanLane(s.address);
    storeText(s, pass.element);
  }
  packing_ = false;
  closeScanPass(chunk, pass, stores);
}

// Do lanes stand beside the rows that are there?
bool CudaEmitter::scanGuarded() const {
  return scan_->across && k_.axes[*scan_->across].extent.number % scan_->lanes != 0;
}

// Which row the thread has, and where in it.
void CudaEmitter::beginScan(Scope& top) {
  const ScanSchedule& s = *scan_;
  plan_ = {};
  plan_.grid = s.rows;
  const bool warps = !s.across && s.rowsOfBlock() > 1;
  if (warps) {
    int64_t rows = 1;
    for (AxisId a : s.rows) rows *= k_.axes[a].extent.number;
    line(top, "const " + index_ + " unit = blockIdx.x * " + text(s.rowsOfBlock()) + " + threadIdx.x / 32;");
    if (rows % s.rowsOfBlock() != 0) line(top, "if (unit >= " + text(rows) + ") return; // whole warps");
    out_.units.terms.push_back({{rows, -1, s.rowsOfBlock()}});
  } else {
    if (s.across) plan_.blocked = s.across, plan_.block = s.lanes;
    line(top, "const " + index_ + " unit = blockIdx.x;");
    countUnits();
  }
  if (!s.rows.empty()) decode(top, "unit");
  for (AxisId a : s.rows) top.bound |= AxisSet(1) << a;
  if (s.across) {
    const std::string a = axisText(*s.across), at = a + "_begin + threadIdx.x % " + text(s.lanes);
    if (scanGuarded()) line(top, "const bool there = " + at + " < " + a + "_end;");
    line(top, "const " + index_ + " " + a + " = " +
                  (scanGuarded() ? "dtc_least(" + at + ", " + a + "_end - 1)" : at) + ";");
    return line(top, "const i32 first = threadIdx.x / " + text(s.lanes) + " * " + text(s.steps) + ";");
  }
  const std::string thread = warps ? "threadIdx.x % 32" : "threadIdx.x";
  line(top, s.steps == 1
                ? "const i32 first = " + thread + ";"
                : "const i32 first = " + thread + " / 32 * " + text(32 * s.steps) + " + threadIdx.x % 32;");
}

void CudaEmitter::printScan(Scope& top) {
  const ScanSchedule& s = *scan_;
  const Nest& nest = k_.nests[0];
  countUses(nest);
  beginScan(top);
  const bool turns = s.perRow > (s.across ? 1 : kWarp);
  if (turns)
    line(top, "i32 turn = 0;");
  else if (s.perRow > 1)
    line(top, "constexpr i32 turn = 0;");
  const std::string i = axisText(s.axis) + "_chunk";
  Scope chunk, names;
  chunk.parent = &top, chunk.bound = top.bound, chunk.indent = top.indent + 1;
  loadScan(nest, chunk, names);
  forEachNode(k_, rootsOf(k_, nest), [&](NodeId n) {
    if (k_[n].kind == NodeKind::Running) printRunning(n, top, chunk, names);
  });
  storeScan(nest, chunk, names);
  if (turns) line(chunk, "turn ^= 1;");
  line(top, "for (" + index_ + " " + i + " = 0; " + i + " < " + sizeText(k_.axes[s.axis].extent) + "; " + i +
                " += " + text(s.chunk()) + ") {");
  top.text += chunk.text;
  line(top, "}");
  const std::string threads = s.across ? text(s.lanes) + " rows a block, " + text(s.perRow) +
                                             (s.perRow == 1 ? " thread each" : " threads each")
                              : s.rowsOfBlock() > 1 ? text(s.rowsOfBlock()) + " rows a block, 32 threads each"
                                                    : text(s.threads) + " threads a row";
  out_.schedule = threads + ", chunks of " + text(s.chunk()) + ", " + text(s.steps) +
                  (s.steps == 1 ? " pack of " : " packs of ") + text(s.pack) + " a thread";
}

} // namespace dtc
