// Rows: passes over elements that a thread keeps from one pass to the next (RowSchedule.h).
#include "CudaEmitter.h"

namespace dtc {

using namespace loops;

namespace {

std::string text(int64_t n) { return std::to_string(n); }

} // namespace

// How many blocks there are, as RowSchedule::rows and ::cluster have it.
void CudaEmitter::countRows() {
  const RowSchedule& s = *schedule_;
  if (s.rows() == 1) {
    countUnits();
    if (s.cluster > 1) out_.units.terms.back().push_back({s.cluster, -1, 1});
    return;
  }
  SizeFormula::Factor blocks = factorsOf(row_->count).front();
  blocks.per = s.rows();
  out_.units.terms.push_back({blocks});
}

std::string CudaEmitter::beginRow(Scope& top, Scope& row) {
  const RowSchedule& s = *schedule_;
  kept_.clear();
  rowPassSeen_ = false;
  lane_ = s.pack == 1 ? "0" : "lane";
  rowBound_ = row.bound;
  out_.schedule = describe(s);
  out_.cluster = s.cluster;
  const std::string first = s.cluster > 1  ? "dtc_cluster_rank() * " + text(s.threads) + " + threadIdx.x"
                            : s.rows() > 1 ? "threadIdx.x % " + text(s.perRow)
                                           : "threadIdx.x";
  thread_ = s.perRow == 1 ? "0" : "thread";
  if (s.cluster > 1)
    line(top, "const " + index_ + " unit = blockIdx.x / " + text(s.cluster) + ";");
  else if (s.rows() > 1)
    line(top, "const " + index_ + " unit = blockIdx.x * " + text(s.rows()) + " + threadIdx.x / " +
                  text(s.perRow) + ";");
  if (s.perRow > 1) line(k_.nests.size() > 1 ? row : top, "const i32 thread = " + first + ";");
  if (s.rows() == 1 || row_->wholeBlocks(s.rows())) return "";
  const std::string present = "unit < " + sizeText(row_->count);
  if (s.perRow > 1 && s.perRow < kWarp)
    line(top, "const u32 present = __ballot_sync(0xffffffffu, " + present + ");");
  ++row.indent;
  return present;
}

std::string CudaEmitter::barrier() const {
  if (!schedule_ || (schedule_->rows() == 1 && schedule_->cluster == 1)) return "__syncthreads();";
  if (schedule_->cluster > 1) return "dtc_cluster_sync();";
  const bool all = row_->wholeBlocks(schedule_->rows()) || schedule_->perRow == kWarp;
  return all ? "__syncwarp();" : schedule_->perRow == 1 ? "" : "__syncwarp(present);";
}

// The packs that are read for `roots`, and have no name yet.
std::vector<NodeId> CudaEmitter::packsBelow(std::span<const NodeId> roots, const Scope& home) const {
  std::vector<NodeId> found, work(roots.begin(), roots.end());
  std::vector<bool> seen(k_.numNodes());
  auto named = [&](NodeId n) {
    for (const Scope* p = &home; p; p = p->parent)
      if (p->names.contains(n.index)) return true;
    const auto kept = kept_.find(n.index);
    return kept != kept_.end() && kept->second.written && !isRowPack(k_, *row_, n);
  };
  while (!work.empty()) {
    const NodeId n = work.back();
    work.pop_back();
    if (seen[n.index] || (k_.dependsOn(n) & row_->set) == 0 || named(n)) continue;
    seen[n.index] = true;
    const Node& node = k_[n];
    if (isRowPack(k_, *row_, n) && (k_.dependsOn(n) & ~(rowBound_ | row_->set)) == 0) found.push_back(n);
    for (NodeId a : node.args) work.push_back(a);
    if (node.affine.valid())
      for (const AffineTerm& t : k_[node.affine].terms)
        if (t.kind == AffineTerm::OfNode) work.push_back(NodeId(t.id));
  }
  std::sort(found.begin(), found.end(), [](NodeId a, NodeId b) { return a.index < b.index; });
  return found;
}

const RowValue* CudaEmitter::valueOf(NodeId n) const {
  for (const RowValue& v : row_->kept(schedule_->costly))
    if (v.node == n) return &v;
  return nullptr;
}

// A loop over the thread's packs; endStep puts its head before what stands in it.
Emitter::Scope& CudaEmitter::openStep(Scope& home, std::deque<Scope>& scopes) {
  const AxisId lane = row_->axes.back();
  Scope step;
  step.parent = &home;
  step.bound = home.bound | (row_->set & ~(AxisSet(1) << lane));
  step.indent = home.indent + 1;
  step.close = "}";
  scopes.push_back(std::move(step));
  return scopes.back();
}

// With the coordinates that are used.
void CudaEmitter::endStep(Scope& step, int indent) {
  const RowSchedule& s = *schedule_;
  const int64_t packs = row_->elements / s.pack, full = packs / s.rowThreads();
  const AxisId lane = row_->axes.back();
  const std::string at = row_->axes.size() > 1 ? "at" : axisText(lane) + "_at",
                    place = s.rowThreads() == 1 ? "step" : "step * " + text(s.rowThreads()) + " + thread";
  std::string coordinates;
  if (row_->axes.size() > 1) {
    std::string rest = at;
    for (size_t i = row_->axes.size(); i-- > 0;) {
      const AxisId a = row_->axes[i];
      const std::string extent = sizeText(k_.axes[a].extent), name = axisText(a) + (a == lane ? "_at" : "");
      if (hasWord(step.text, name))
        coordinates += indentText(step.indent) + "const " + index_ + " " + name + " = " + rest +
                       (i == 0 ? "" : " % " + extent) + ";\n";
      rest = a == lane ? at + " / " + extent : "(" + rest + ") / " + extent;
      if (i > 0) rest = "(" + rest + ")";
    }
  }
  std::string head =
      std::string(s.keep == RowSchedule::Keep::Shared ? "#pragma unroll 4\n" : "#pragma unroll\n") +
      indentText(indent) + "for (i32 step = 0; step < " + text(s.steps) + "; ++step) {\n";
  if (full < s.steps || !coordinates.empty() || hasWord(step.text, at))
    head += indentText(step.indent) + "const " + (row_->axes.size() > 1 ? "i32" : index_) + " " + at + " = " +
            (s.pack == 1 ? place : "(" + place + ") * " + text(s.pack)) + ";\n";
  if (full < s.steps)
    head += indentText(step.indent) + "if (" + (full > 0 ? "step >= " + text(full) + " && " : std::string()) +
            at + " >= " + text(row_->elements) + ") continue;\n";
  step.text = head + coordinates + step.text;
}

void CudaEmitter::loadPack(NodeId load, const std::string& to, Scope& step, const std::string& further) {
  const Node& node = k_[load];
  firstOfPack_ = row_->axes.back();
  std::string x = "dtc_load_pack<" + text(row_->pack) + ">(" + bufferText(node.buffer) + " + " +
                  affineText(node.affine, step) + further + ")";
  firstOfPack_.reset();
  if (!node.args.empty()) {
    const std::string type = typeText(k_.buffers[node.buffer].dtype);
    x = wrapped(emit(node.args[0], step)) + " ? " + x + " : dtc_pack<" + type + ", " + text(row_->pack) +
        ">{}";
  }
  line(step, to + " = " + x + ";");
}

// An array of packs, one a step, for a value of each element.
std::string CudaEmitter::declareArray(NodeId n, Scope& home, bool passOnly) {
  const Node& node = k_[n];
  const bool load = isRowPack(k_, *row_, n);
  const DType type = load ? k_.buffers[node.buffer].dtype : node.type;
  const std::string pack = "dtc_pack<" + typeText(type) + ", " + text(row_->pack) + ">",
                    array = fresh(load                          ? "row"
                                  : node.kind == NodeKind::Call ? node.function + "_row"
                                                                : "x_row");
  if (schedule_->keep == RowSchedule::Keep::Shared && !passOnly) {
    if (out_.sharedBytes == 0) line(home, "extern __shared__ uint4 row_memory[];");
    line(home,
         pack + "* const " + array + " = (" + pack + "*)((u8*)row_memory + " + text(out_.sharedBytes) + ");");
    out_.sharedBytes += static_cast<int>(schedule_->steps * schedule_->threads * schedule_->pack *
                                         (load ? dtypeBytes(type) : std::max(4, dtypeBytes(type))));
  } else {
    line(home, pack + " " + array + "[" + text(schedule_->steps) + "];");
  }
  return array;
}

std::string CudaEmitter::arrayPlace(const std::string& array, bool shared) const {
  return array + (shared ? "[step * " + text(schedule_->threads) + " + threadIdx.x]" : "[step]");
}

Emitter::Scope& CudaEmitter::openPass(Scope& home, const std::vector<AxisId>& axes,
                                      std::optional<AxisId> lanes, std::span<const NodeId> roots,
                                      std::deque<Scope>& scopes) {
  afterRowPass_ = false;
  AxisSet set = 0;
  for (AxisId a : axes) set |= AxisSet(1) << a;
  if (!isRowScope(home) || !lanes || set != row_->set) {
    // Its threads have other elements: in place, what they write the others must have read.
    if (isRowScope(home) && rowPassSeen_) line(home, barrier());
    if (isRowScope(home)) rowPassSeen_ = false;
    return openLoops(home, axes, lanes, scopes);
  }
  const bool shared = schedule_->keep == RowSchedule::Keep::Shared;
  const std::vector<NodeId> loads = packsBelow(roots, home);
  // All loads that this pass is the first to need are under way before anything waits for one.
  std::vector<std::pair<NodeId, std::string>> first;
  passLoads_.clear();
  for (NodeId n : loads) {
    const RowValue* value = valueOf(n);
    const bool later = value && value->first != value->last;
    if (kept_.contains(n.index) || (!later && !schedule_->together)) continue;
    const std::string array = declareArray(n, home, !later);
    if (later)
      kept_[n.index] = {array, true};
    else
      passLoads_[n.index] = array;
    first.emplace_back(n, arrayPlace(array, shared && later));
  }
  if (!first.empty()) {
    std::deque<Scope> loop;
    Scope& step = openStep(home, loop);
    for (const auto& [n, to] : first)
      if (!loadAhead(n, to, step)) loadPack(n, to, step);
    endStep(step, home.indent);
    closeLoops(home, loop);
  }
  RowPass pass;
  pass.home = &home;
  Scope& step = openStep(home, scopes);
  const AxisId lane = row_->axes.back();
  Scope element;
  element.parent = &step;
  element.bound = step.bound | AxisSet(1) << lane;
  element.vector = lane;
  element.indent = step.indent + (schedule_->pack > 1);
  element.axes = axes;
  element.close = "}";
  pass.step = &step;
  scopes.push_back(std::move(element));
  pass.element = &scopes.back();
  nameLoads(loads, step, scopes.back());
  passes_.push_back(std::move(pass));
  return *passes_.back().element;
}

void CudaEmitter::nameLoads(const std::vector<NodeId>& loads, Scope& step, Scope& element) {
  const bool shared = schedule_->keep == RowSchedule::Keep::Shared;
  for (NodeId n : loads) {
    std::string pack;
    if (const auto kept = kept_.find(n.index); kept != kept_.end()) {
      pack = arrayPlace(kept->second.array, shared);
      if (shared) {
        const std::string here = fresh("pack");
        line(step, "const auto " + here + " = " + pack + ";");
        pack = here;
      }
    } else if (const auto here = passLoads_.find(n.index); here != passLoads_.end()) {
      pack = arrayPlace(here->second, false);
    } else {
      pack = fresh("pack");
      loadPack(n, "const auto " + pack, step);
    }
    const bool narrow = isNarrowFloat(k_.buffers[k_[n].buffer].dtype);
    if (narrow) {
      const std::string x = fresh("x");
      line(element, "const f32 " + x + " = dtc_load(" + pack + ".at + " + lane_ + ");");
      element.names[n.index] = {x, false, true};
    } else {
      element.names[n.index] = {pack + ".at[" + lane_ + "]", false, true};
    }
  }
}

void CudaEmitter::closePass(Scope& home, std::deque<Scope>& scopes) {
  if (passes_.empty() || passes_.back().home != &home) return closeLoops(home, scopes);
  const RowPass pass = std::move(passes_.back());
  passes_.pop_back();
  Scope &element = *pass.element, &step = *pass.step;
  const std::string i = axisText(row_->axes.back());
  const bool several = row_->pack > 1;
  if (several)
    step.text += "#pragma unroll\n" + indentText(step.indent) + "for (i32 lane = 0; lane < " +
                 text(row_->pack) + "; ++lane) {\n";
  if (hasWord(element.text, i))
    line(step, (several ? "  const " : "const ") + index_ + " " + i + " = " + i +
                   (several ? "_at + lane;" : "_at;"));
  step.text += element.text;
  if (several) line(step, "}");
  firstOfPack_ = row_->axes.back();
  for (const Store* s : pass.packed)
    line(step, "dtc_store_pack(" + bufferText(s->buffer) + " + " + affineText(s->address, step) + ", " +
                   packText(*s) + ");");
  firstOfPack_.reset();
  for (const std::string& statement : pass.finished) line(step, statement);
  endStep(step, home.indent);
  scopes.pop_back();
  closeLoops(home, scopes);
  afterRowPass_ = rowPassSeen_ = true;
}

// What is dear was kept by an earlier pass.
std::optional<Emitter::Value> CudaEmitter::cached(NodeId n, Scope& s) {
  if (!inRowPass(s)) return std::nullopt;
  const auto kept = kept_.find(n.index);
  if (kept == kept_.end() || !kept->second.written) return std::nullopt;
  std::string pack = arrayPlace(kept->second.array, schedule_->keep == RowSchedule::Keep::Shared);
  if (schedule_->keep == RowSchedule::Keep::Shared) {
    const std::string here = fresh("pack");
    line(*passes_.back().step, "const auto " + here + " = " + pack + ";");
    pack = here;
  }
  return Value{pack + ".at[" + lane_ + "]", false, true};
}

void CudaEmitter::computed(NodeId n, Scope& s, const Value& v) {
  if (!inRowPass(s) || kept_.contains(n.index)) return;
  const RowValue* value = valueOf(n);
  if (!value || value->load || value->first == value->last) return;
  RowPass& pass = passes_.back();
  const std::string array = declareArray(n, *pass.home, false);
  kept_[n.index] = {array, true};
  const bool shared = schedule_->keep == RowSchedule::Keep::Shared;
  std::string to = arrayPlace(array, shared);
  if (shared) {
    const std::string here = fresh("pack");
    line(*pass.step, "dtc_pack<" + typeText(k_[n].type) + ", " + text(row_->pack) + "> " + here + ";");
    pass.finished.push_back(to + " = " + here + ";");
    to = here;
  }
  line(s, to + ".at[" + lane_ + "] = " + v.text + ";");
}

void CudaEmitter::beginPack(const Store& store) {
  passes_.back().packed.push_back(&store);
  line(*passes_.back().step, "dtc_pack<" + typeText(k_.buffers[store.buffer].dtype) + ", " +
                                 text(row_->pack) + "> " + packText(store) + ";");
}

bool CudaEmitter::isPackedStore(const Store& store, const Scope& s) const {
  return inRowPass(s) && !store.when.valid() && store.combine.empty() &&
         liesInPacks(k_, store.address, row_->axes.back(), row_->pack) &&
         (k_.dependsOn(store.address) & ~(rowBound_ | row_->set)) == 0;
}

std::string CudaEmitter::acrossLanes(ReduceKind kind, const std::string& acc, const Scope&) {
  const std::string name = reduceName(kind), threads = text(threads_);
  if (!schedule_ || (!afterRowPass_ && schedule_->rows() == 1))
    return "dtc_block_" + name + "<" + threads + ">(" + acc + ")";
  const RowSchedule& s = *schedule_;
  if (s.perRow == 1) return acc;
  if (s.rows() > 1 || (s.perRow == kWarp && s.cluster == 1)) {
    const bool all = s.perRow == kWarp || row_->wholeBlocks(s.rows());
    return "dtc_part_" + name + "<" + text(s.perRow) + ">(" + acc + (all ? ", 0xffffffffu)" : ", present)");
  }
  const std::string site = text(reductionsAcross_++);
  if (s.cluster > 1)
    return "dtc_cluster_" + name + "<" + site + ", " + threads + ", " + text(s.cluster) + ">(" + acc + ")";
  return "dtc_row_" + name + "<" + site + ", " + threads + ">(" + acc + ")";
}

} // namespace dtc
