// Rows: passes over elements that a thread keeps from one pass to the next (RowSchedule.h).
#include "CudaEmitter.h"
#include <utility>

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

// What is done with each of the thread's packs; endStep puts the loop around it.
Emitter::Scope& CudaEmitter::openStep(Scope& home, std::deque<Scope>& scopes) {
  const AxisId lane = row_->axes.back();
  Scope step;
  step.parent = &home;
  step.bound = home.bound | (row_->set & ~(AxisSet(1) << lane));
  step.indent = home.indent + 1 + (schedule_->keep == RowSchedule::Keep::Nothing);
  scopes.push_back(std::move(step));
  return scopes.back();
}

// The coordinates of the first element of a pack that are used in `body`, where the row has several axes.
std::string CudaEmitter::packCoordinates(const std::string& body, int indent) const {
  const AxisId lane = row_->axes.back();
  std::string coordinates, rest = "at";
  for (size_t i = row_->axes.size(); i-- > 0;) {
    const AxisId a = row_->axes[i];
    const std::string extent = sizeText(k_.axes[a].extent), name = axisText(a) + (a == lane ? "_at" : "");
    if (hasWord(body, name))
      coordinates += indentText(indent) + "const " + index_ + " " + name + " = " + rest +
                     (i == 0 ? "" : " % (" + extent + ")") + ";\n";
    rest = "(" + rest + " / (" + extent + "))";
  }
  return coordinates;
}

// The loop over a thread's packs.
std::string CudaEmitter::stepText(const std::string& body, int indent) const {
  const RowSchedule& s = *schedule_;
  const bool streamed = s.keep == RowSchedule::Keep::Nothing, several = row_->axes.size() > 1;
  const int64_t packs = s.edged ? std::max<int64_t>(0, row_->elements - s.pack + 1) / s.pack
                                : row_->elements / s.pack,
                full = packs / s.rowThreads();
  const std::string at = several ? "at" : axisText(row_->axes.back()) + "_at",
                    place = s.rowThreads() == 1 ? "step" : "step * " + text(s.rowThreads()) + " + thread",
                    first = streamed  ? "chunk + "
                            : s.edged ? "head + "
                                      : "";
  const std::string coordinates = several ? packCoordinates(body, indent + 1) : "";
  std::string head =
      std::string(s.keep == RowSchedule::Keep::Shared ? "#pragma unroll 4\n" : "#pragma unroll\n") +
      indentText(indent) + "for (i32 step = 0; step < " + text(s.steps) + "; ++step) {\n";
  const bool guarded = streamed || full < s.steps;
  if (guarded || !coordinates.empty() || hasWord(body, at))
    head += indentText(indent + 1) + "const " + (several && !streamed ? "i32" : index_) + " " + at + " = " +
            first +
            (s.pack == 1 && first.empty() ? place
             : s.pack == 1                ? "(" + place + ")"
                                          : "(" + place + ") * " + text(s.pack)) +
            ";\n";
  if (guarded)
    head += indentText(indent + 1) + "if (" +
            (!streamed && full > 0 ? "step >= " + text(full) + " && " : std::string()) + at +
            " >= " + (s.edged ? "tail" : sizeText(row_->length)) + ") continue;\n";
  if (hasWord(body, "edge")) head += indentText(indent + 1) + "constexpr bool edge = false;\n";
  return head + coordinates + body + indentText(indent) + "}\n";
}

// Where the row's packs begin and end, and how many elements are before and behind them.
void CudaEmitter::beginEdges(Scope& row) {
  const std::string n = sizeText(row_->length), pack = text(row_->pack);
  atZero_ = row_->axes.back();
  const std::string begin = affineText(row_->origin, row);
  atZero_.reset();
  line(row, "const " + index_ + " head = dtc_least((i32)(-(u32)(" + begin + ") % " + pack + "), " + n + ");");
  line(row, "const " + index_ + " tail = head + (" + n + " - head) / " + pack + " * " + pack + ";");
  line(row, "const " + index_ + " edges = " + n + " - tail + head;");
}

// What is done with a pack's first element, for the edges: one each of the first threads, behind its packs.
std::string CudaEmitter::edgeText(const std::string& body, int indent) const {
  const std::string in = indentText(indent + 1);
  const bool streamed = schedule_->keep == RowSchedule::Keep::Nothing;
  std::string text = indentText(indent) + "if (thread < edges) {\n";
  if (hasWord(body, "edge")) text += in + "constexpr bool edge = true;\n";
  if (hasWord(body, "step"))
    text += in + "constexpr i32 step = " + std::to_string(streamed ? 0 : schedule_->steps) + ";\n";
  if (hasWord(body, "lane")) text += in + "constexpr i32 lane = 0;\n";
  const std::string at = axisText(row_->axes.back()) + "_at";
  if (hasWord(body, at))
    text += in + "const " + index_ + " " + at + " = thread < head ? thread : tail + (thread - head);\n";
  return text + body + indentText(indent) + "}\n";
}

void CudaEmitter::endStep(Scope& home, std::deque<Scope>& scopes) {
  const std::string body = std::move(scopes.back().text);
  scopes.pop_back();
  home.text += stepText(body, home.indent);
  if (schedule_->edged) home.text += edgeText(body, home.indent);
}

void CudaEmitter::loadPack(NodeId load, const std::string& to, Scope& step, const std::string& further) {
  const Node& node = k_[load];
  firstOfPack_ = row_->axes.back();
  std::string x = (row_->edged ? "dtc_load_row<edge, " : "dtc_load_pack<") + text(row_->pack) + ">(" +
                  bufferText(node.buffer) + " + " + affineText(node.affine, step) + further + ")";
  firstOfPack_.reset();
  if (!node.args.empty()) {
    const std::string type = typeText(k_.buffers[node.buffer].dtype);
    x = wrapped(emit(node.args[0], step)) + " ? " + x + " : dtc_pack<" + type + ", " + text(row_->pack) +
        ">{}";
  }
  line(step, to + " = " + x + ";");
}

// An array of packs, one a step and one for the edges, for a value of each element.
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
    out_.sharedBytes +=
        static_cast<int>((schedule_->steps + schedule_->edged) * schedule_->threads * schedule_->pack *
                         (load ? dtypeBytes(type) : std::max(4, dtypeBytes(type))));
  } else {
    const bool streamed = schedule_->keep == RowSchedule::Keep::Nothing;
    line(home, pack + " " + array + "[" + text(schedule_->steps + (schedule_->edged && !streamed)) + "];");
  }
  return array;
}

std::string CudaEmitter::arrayPlace(const std::string& array, bool shared) const {
  return array + (shared ? "[step * " + text(schedule_->threads) + " + threadIdx.x]" : "[step]");
}

// All loads that this pass is the first to need are under way before anything waits for one.
void CudaEmitter::readFirst(const std::vector<NodeId>& loads, Scope& home, RowPass& pass) {
  const bool shared = schedule_->keep == RowSchedule::Keep::Shared,
             streamed = schedule_->keep == RowSchedule::Keep::Nothing;
  std::vector<std::pair<NodeId, std::string>> first;
  passLoads_.clear();
  Scope chunk;
  chunk.indent = home.indent + 1;
  for (NodeId n : loads) {
    const RowValue* value = valueOf(n);
    const bool later = !streamed && value && value->first != value->last;
    if (kept_.contains(n.index) || (!later && !schedule_->together)) continue;
    const std::string array = declareArray(n, streamed ? chunk : home, !later);
    if (later)
      kept_[n.index] = {array, true};
    else
      passLoads_[n.index] = array;
    first.emplace_back(n, arrayPlace(array, shared && later));
  }
  if (first.empty()) return;
  std::deque<Scope> loop;
  Scope& step = openStep(home, loop);
  for (const auto& [n, to] : first)
    if (!loadAhead(n, to, step)) loadPack(n, to, step);
  if (!streamed) {
    endStep(home, loop);
    return readNextRow(home);
  }
  pass.arrays = chunk.text;
  pass.loads = step.text;
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
  RowPass pass;
  const std::vector<NodeId> loads = packsBelow(roots, home);
  readFirst(loads, home, pass);
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
    const DType dtype = k_.buffers[k_[n].buffer].dtype;
    std::string x = laneText(dtype, pack, lane_);
    if (isNarrowFloat(dtype)) {
      const std::string read = std::exchange(x, fresh("x"));
      line(element, "const f32 " + x + " = " + read + ";");
    }
    element.names[n.index] = {x, false, true};
  }
}

void CudaEmitter::closePass(Scope& home, std::deque<Scope>& scopes) {
  if (passes_.empty() || passes_.back().home != &home) return closeLoops(home, scopes);
  const RowPass pass = std::move(passes_.back());
  passes_.pop_back();
  Scope &element = *pass.element, &step = *pass.step;
  const std::string i = axisText(row_->axes.back()), before = step.text;
  const bool several = row_->pack > 1;
  const std::string index =
      hasWord(element.text, i)
          ? indentText(step.indent) + (several ? "  const " : "const ") + index_ + " " + i + " = " + i + "_at"
          : "";
  step.text.clear();
  firstOfPack_ = row_->axes.back();
  for (const Store* s : pass.packed)
    line(step, (row_->edged ? "dtc_store_row<edge>(" : "dtc_store_pack(") + bufferText(s->buffer) + " + " +
                   affineText(s->address, step) + ", " + (row_->edged ? packText(*s) : packResult(*s)) +
                   ");");
  firstOfPack_.reset();
  for (const std::string& statement : pass.finished) line(step, statement);
  const std::string one = before + (index.empty() ? "" : index + ";\n") + element.text + step.text;
  const std::string all = !several ? one
                                   : before + "#pragma unroll\n" + indentText(step.indent) +
                                         "for (i32 lane = 0; lane < " + text(row_->pack) + "; ++lane) {\n" +
                                         (index.empty() ? "" : index + " + lane;\n") + element.text +
                                         indentText(step.indent) + "}\n" + step.text;
  scopes.clear();
  home.text += passText(pass, all, one, home.indent);
  afterRowPass_ = rowPassSeen_ = true;
}

// The loop over packs and what is done with the edges; where nothing is kept, as many packs as are read at a time in a loop over all.
std::string CudaEmitter::passText(const RowPass& pass, const std::string& all, const std::string& one,
                                  int indent) const {
  const RowSchedule& s = *schedule_;
  if (s.keep != RowSchedule::Keep::Nothing)
    return stepText(all, indent) + (s.edged ? edgeText(one, indent) : "");
  const std::string end = s.edged ? "tail" : sizeText(row_->length);
  std::string result = indentText(indent) + "for (" + index_ + " chunk = " + (s.edged ? "head" : "0") +
                       "; chunk < " + end + "; chunk += " + text(s.steps * s.rowThreads() * s.pack) +
                       ") {\n" + pass.arrays;
  if (!pass.loads.empty()) result += stepText(pass.loads, indent + 1);
  result += stepText(all, indent + 1) + indentText(indent) + "}\n";
  return result + (s.edged ? edgeText(pass.arrays + pass.loads + one, indent) : "");
}

// A sum of exp(x - c) or of (x - c) * (x - c): x and c.
static std::optional<std::pair<NodeId, NodeId>> relativeSum(const Kernel& k, const Node& sum) {
  if (sum.reduce != ReduceKind::Sum || !isFloat(sum.type)) return std::nullopt;
  auto isCall = [&](NodeId n, std::string_view function) {
    return k[n].kind == NodeKind::Call && k[n].function == function;
  };
  const NodeId term = sum.args[0];
  if (!isCall(term, "exp") && (!isCall(term, "mul") || k[term].args[0] != k[term].args[1]))
    return std::nullopt;
  const NodeId less = k[term].args[0];
  if (!isCall(less, "sub")) return std::nullopt;
  return std::pair(k[less].args[0], k[less].args[1]);
}

// Rows of which nothing is kept are read once less.
std::vector<Emitter::OnlineSum> CudaEmitter::onlineSums(const std::vector<NodeId>& group, Scope& home) {
  std::vector<OnlineSum> found;
  if (!schedule_ || schedule_->keep != RowSchedule::Keep::Nothing || !isRowScope(home)) return found;
  for (NodeId sum : reductions_) {
    const Node& node = k_[sum];
    const auto relative = relativeSum(k_, node);
    if (!relative || (k_.dependsOn(sum) & ~home.bound) != 0) continue;
    const auto& [x, c] = *relative;
    const bool squares = k_[node.args[0]].function == "mul";
    for (size_t i = 0; i < group.size(); ++i) {
      const Node& of = k_[group[i]];
      bool below = false;
      forEachNode(k_, std::span(&c, 1), [&](NodeId n) { below |= n == group[i]; });
      below &= std::none_of(found.begin(), found.end(), [&](const OnlineSum& o) { return o.of == i; });
      if (!below || of.reduce != (squares ? ReduceKind::Sum : ReduceKind::Max) || of.args[0] != x ||
          of.axes != node.axes || (k_.dependsOn(c) & row_->set) != 0)
        continue;
      const std::string type = typeText(node.type), acc = fresh(squares ? "squares" : "sum");
      line(home, squares ? "dtc_squares<" + type + "> " + acc + ";" : type + " " + acc + " = 0;");
      found.push_back({sum, i, acc, sizeText(row_->length) + " > 0", squares, c});
      break;
    }
  }
  return found;
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
  if (!inRowPass(s) || kept_.contains(n.index) || schedule_->keep == RowSchedule::Keep::Nothing) return;
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
  line(*passes_.back().step, packType(store, row_->pack) + " " + packText(store) + ";");
}

bool CudaEmitter::isPackedStore(const Store& store, const Scope& s) const {
  return inRowPass(s) && !store.when.valid() && store.combine.empty() &&
         liesInRowPacks(k_, *row_, store.address) &&
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
