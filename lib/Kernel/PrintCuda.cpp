#include "PrintCuda.h"

#include "AttentionGradient.h"
#include "CudaEmitter.h"
#include "dtc/IR/Element.h"

namespace dtc {

using namespace loops;

std::string CudaEmitter::countOf(AxisId a) const {
  const std::string extent = sizeText(k_.axes[a].extent);
  return blocked(a) ? "dtc_blocks(" + extent + ", " + std::to_string(plan_.block) + ")" : extent;
}

// The coordinates of a unit, the last axis fastest.
void CudaEmitter::decode(Scope& row, const std::string& unit) {
  line(row, index_ + " rest = " + unit + ";");
  for (size_t i = plan_.grid.size(); i-- > 0;) {
    const AxisId a = plan_.grid[i];
    const std::string name = axisText(a), count = "(" + countOf(a) + ")",
                      at = i == 0 ? "rest" : "rest % " + count;
    if (blocked(a)) {
      const std::string block = std::to_string(plan_.block);
      line(row, "const " + index_ + " " + name + "_begin = (" + at + ") * " + block + ";");
      line(row, "const " + index_ + " " + name + "_end = dtc_least(" + name + "_begin + " + block + ", " +
                    sizeText(k_.axes[a].extent) + ");");
    } else {
      line(row, "const " + index_ + " " + name + " = " + at + ";");
    }
    if (i > 0) line(row, "rest /= " + count + ";");
  }
}

void CudaEmitter::countUnits() {
  std::vector<SizeFormula::Factor> units;
  for (AxisId a : plan_.grid) {
    std::vector<SizeFormula::Factor> factors = factorsOf(k_.axes[a].extent);
    if (blocked(a))
      for (SizeFormula::Factor& f : factors)
        f.per = plan_.block; // a blocked axis is one number or one argument
    units.insert(units.end(), factors.begin(), factors.end());
  }
  out_.units.terms.push_back(std::move(units));
}

// Rows of fewer elements than a block takes, walked as if they were one: 0 where they cannot be, else the elements in all.
int64_t CudaEmitter::flatElements(int64_t count) const {
  if (plan_.blocked || plan_.grid.empty()) return 0;
  const Size& lane = k_.axes[*plan_.vector].extent;
  if (!lane.isStatic() || lane.number % count != 0) return 0; // a pack lies within one row
  int64_t elements = lane.number;
  for (AxisId a : plan_.grid) {
    const Size& extent = k_.axes[a].extent;
    if (!extent.isStatic() || extent.number == 0 || elements > INT32_MAX / extent.number) return 0;
    elements *= extent.number;
  }
  return elements;
}

// Where a thread's packs begin: the head of the loop over them, in `row`, and the coordinates of each, in `pack`.
std::string CudaEmitter::openPacks(int64_t count, const std::string& unit, Scope& row, Scope& pack) {
  const AxisId lane = *plan_.vector;
  const std::string i = axisText(lane), n = std::to_string(count), step = std::to_string(threads_ * count);
  const std::string own = apart_
                              ? "threadIdx.x / 32 * " + std::to_string(kWarp * count) + " + threadIdx.x % 32"
                              : "threadIdx.x * " + n;
  auto loop = [&](const std::string& at, const std::string& first, const std::string& last) {
    return "for (" + index_ + " " + at + " = " + (first == "0" ? "" : first + " + ") + own + "; " + at +
           " < " + last + "; " + at + " += " + step + ") {";
  };
  if (const int64_t elements = apart_ ? 0 : flatElements(count)) {
    const std::string most = std::to_string(flatUnit(count));
    line(row, "const " + index_ + " first = (" + unit + ") * " + most + ";");
    line(row,
         "const " + index_ + " last = dtc_least(first + " + most + ", " + std::to_string(elements) + ");");
    const std::string extent = sizeText(k_.axes[lane].extent);
    line(pack, "const " + index_ + " " + i + "_at = at % " + extent + ";");
    line(pack, index_ + " rest = at / " + extent + ";");
    for (size_t a = plan_.grid.size(); a-- > 0;) {
      const std::string size = sizeText(k_.axes[plan_.grid[a]].extent);
      line(pack,
           "const " + index_ + " " + axisText(plan_.grid[a]) + " = rest" + (a ? " % " + size : "") + ";");
      if (a) line(pack, "rest /= " + size + ";");
      pack.bound |= AxisSet(1) << plan_.grid[a];
    }
    return loop("at", "first", "last");
  }
  const std::string first = bound(lane, false), end = bound(lane, true);
  std::string last = end;
  const std::string whole = std::to_string(apart_ ? kWarp * count : count); // what a warp takes, or a thread
  if (const Size& extent = k_.axes[lane].extent; apart_ || !extent.isStatic() || extent.number % count != 0) {
    behindPacks_ = last = i + "_packed";
    line(row, "const " + index_ + " " + last + " = " +
                  (first == "0" ? "(" + end + ")" : first + " + (" + end + " - " + first + ")") + " / " +
                  whole + " * " + whole + ";");
  }
  return loop(i + "_at", first, last);
}

// Random numbers whose places in the whole tensor are a pack's come four of one block of their generator.
void CudaEmitter::drawPacks(const Nest& nest, int64_t count, Scope& pack, Scope& inner) {
  const AxisId lane = *plan_.vector;
  forEachNode(k_, rootsOf(k_, nest), [&](NodeId n) {
    const Node& draw = k_[n];
    if (draw.kind != NodeKind::Call || draw.function != "random32") return;
    NodeId place = draw.args[0];
    while (k_[place].kind == NodeKind::Call && k_[place].function == "convert") place = k_[place].args[0];
    if (k_[place].kind != NodeKind::Index || !liesInPacks(k_, k_[place].affine, lane, count)) return;
    if (((k_.dependsOn(draw.args[1]) | k_.dependsOn(draw.args[2])) >> lane & 1) != 0) return;
    const std::string key = emit(draw.args[1], pack).text, upper = emit(draw.args[2], pack).text,
                      words = fresh("words");
    line(pack, "const auto " + words + " = dtc_random_pack<" + std::to_string(count) + ">((u64)(" +
                   affineText(k_[place].affine, pack) + "), " + key + ", " + upper + ");");
    inner.names[n.index] = {"(u64)" + words + ".at[lane]", false, false};
  });
}

// A loop over packs: each is loaded at once, computed element by element, and stored at once.
void CudaEmitter::printPacks(const Nest& nest, int64_t count, const std::string& unit, Scope& row) {
  const AxisId lane = *plan_.vector;
  const std::string i = axisText(lane), n = std::to_string(count);
  Scope pack, inner;
  pack.parent = &row, pack.bound = row.bound, pack.indent = row.indent + 1;
  const std::string head = openPacks(count, unit, row, pack);
  inner.parent = &pack, inner.bound = pack.bound | AxisSet(1) << lane, inner.vector = lane;
  inner.indent = pack.indent + 1;
  firstOfPack_ = lane;
  forEachNode(k_, rootsOf(k_, nest), [&](NodeId node) {
    const Node& load = k_[node];
    if (load.kind != NodeKind::Load || !load.args.empty() ||
        !(apart_ ? liesTogether(k_, load.affine, lane) : liesInPacks(k_, load.affine, lane, count)))
      return;
    const std::string x = fresh("pack");
    line(pack, "const auto " + x + (apart_ ? " = dtc_load_apart<" : " = dtc_load_pack<") + n + ">(" +
                   bufferText(load.buffer) + " + " + affineText(load.affine, pack) + ");");
    const DType dtype = k_.buffers[load.buffer].dtype;
    inner.names[node.index] = {apart_ && isNarrowFloat(dtype) ? "dtc_load(" + x + ".at + lane)"
                                                              : laneText(dtype, x, "lane"),
                               false, true};
  });
  if (!apart_ && count % 4 == 0) drawPacks(nest, count, pack, inner);
  std::string stores;
  for (const Store& s : nest.stores) {
    if (apart_) break;
    line(pack, packType(s, count) + " " + packText(s) + ";");
    stores += indentText(pack.indent) + "dtc_store_pack(" + bufferText(s.buffer) + " + " +
              affineText(s.address, pack) + ", " + packResult(s) + ");\n";
  }
  firstOfPack_.reset();
  packing_ = !apart_;
  emitStores(nest, inner);
  packing_ = false;
  line(row, head);
  row.text += pack.text + "#pragma unroll\n" + indentText(pack.indent) + "for (i32 lane = 0; lane < " + n +
              "; ++lane) {\n";
  if (inner.text.find(i) != std::string::npos)
    line(row, "    const " + index_ + " " + i + " = " + i + "_at + lane" + (apart_ ? " * 32;" : ";"));
  row.text += inner.text + indentText(pack.indent) + "}\n" + stores;
  line(row, "}");
}

void CudaEmitter::printNest(const Nest& nest, Scope& top) {
  countUses(nest);
  plan_ = planForThreads(k_, nest);
  schedule_ = rows_[static_cast<size_t>(&nest - k_.nests.data())];
  columns_ = schedule_ || threads_ != kMostThreads ? std::nullopt : columnScheduleOf(k_, nest);
  if (columns_) plan_ = planColumns(k_, nest, *columns_);
  row_ = schedule_ ? rowNestOf(k_, nest, plan_, schedule_->edged) : std::nullopt;
  thread_ = "threadIdx.x", lane_ = "lane";
  if (nest.sort)
    out_.schedule = (sorters_ > 1 ? std::to_string(sorters_) + " blocks of " : "") +
                    std::to_string(threads_) + " threads a row, tiles of " +
                    std::to_string(sortRoom(k_, *nest.sort)) + " in shared memory";
  if (nest.sortDigit)
    out_.schedule = std::to_string(threads_) + " threads a tile of " + std::to_string(kSortTile);
  const int64_t apart = packs_ && !columns_ && !schedule_ ? apartOf(k_, nest, plan_) : 1;
  apart_ = apart > 1;
  const int64_t pack = apart_   ? apart
                       : packs_ ? packOf(k_, nest, plan_)
                                : 1,
                flat = pack > 1 && !apart_ ? flatElements(pack) : 0;
  const bool several = k_.nests.size() > 1;
  std::string size;
  if (flat) {
    out_.units.terms.push_back({{flat, -1, flatUnit(pack)}});
    size = std::to_string((flat + flatUnit(pack) - 1) / flatUnit(pack));
  } else {
    schedule_ ? countRows() : countUnits();
    for (AxisId a : plan_.grid) size += (size.empty() ? "" : " * ") + countOf(a);
    if (sorters_ > 1) out_.units.terms.back().push_back({sorters_, -1, 1});
  }
  if (size.empty()) size = "1";
  const std::string first = unitsBefore_.empty() ? "0" : unitsBefore_;
  const std::string unit = several ? "unit - (" + first + ")" : "unit";
  Scope row;
  row.parent = several ? nullptr : &top; // what one nest loads is no other block's to read
  row.indent = top.indent + several;
  for (AxisId a : plan_.grid)
    if (!blocked(a) && !flat) row.bound |= AxisSet(1) << a;
  const std::string guard = schedule_ ? beginRow(top, row) : "";
  if (!plan_.grid.empty() && !flat) decode(row, unit);
  if (schedule_ && row_->edged && nest.walked.empty()) beginEdges(row.bound == 0 && !several ? top : row);
  if (pack > 1) printPacks(nest, pack, unit, row);
  if (columns_) {
    printColumns(nest, row);
  } else if (pack == 1 || !behindPacks_.empty()) {
    std::deque<Scope> scopes;
    Scope& inner = openLoops(row, plan_.inner, plan_.vector, scopes);
    inner.axes.clear();
    if (nest.sorts())
      emitSort(nest, inner);
    else
      emitUnit(nest, inner);
    closeLoops(row, scopes);
  }
  behindPacks_.clear();
  if (!guard.empty()) line(top, "if (" + guard + ") {");
  if (several) line(top, "if (unit >= " + first + " && unit < " + first + " + " + size + ") {");
  top.text += row.text;
  if (several || !guard.empty()) line(top, "}");
  if (schedule_ && schedule_->cluster > 1)
    line(top, "dtc_cluster_end(); // the other blocks read this one's shared memory");
  unitsBefore_ += (unitsBefore_.empty() ? "" : " + ") + size;
}

PrintedKernel CudaEmitter::run() {
  Scope top;
  if (k_.attention && attentionTile(k_)) {
    emitAttention(top, out_);
    out_.body = top.text;
    out_.blocks = out_.units;
    return std::move(out_);
  }
  if (k_.joined) {
    emitJoin(top, out_, true);
    out_.body = top.text;
    return std::move(out_);
  }
  if (k_.grouped) {
    emitGrouped(top, out_);
    out_.body = top.text;
    return std::move(out_);
  }
  if (scan_) {
    printScan(top);
    out_.body = top.text;
    out_.blocks = out_.units;
    out_.threadsPerBlock = threads_;
    return std::move(out_);
  }
  if (!std::any_of(rows_.begin(), rows_.end(),
                   [](const auto& r) { return r && (r->rows() > 1 || r->cluster > 1); }))
    line(top, "const " + index_ + " unit = blockIdx.x" +
                  (sorters_ > 1 ? " / " + std::to_string(sorters_) : "") + ";");
  for (const Nest& nest : k_.nests) printNest(nest, top);
  out_.body = top.text;
  out_.blocks = out_.units;
  out_.threadsPerBlock = threads_;
  return std::move(out_);
}

// The schedules of the only nest, if it walks rows. Several nests share a block's threads, so that each has one schedule.
std::vector<PrintedKernel> printCuda(const Kernel& k, const CudaTarget& target, size_t most) {
  if (k.attentionGradient) return printAttentionGradient(k, most);
  if (k.joined) return {CudaEmitter(k, 0, {}).run()};
  const int threads = threadsFor(k);
  std::vector<std::optional<RowSchedule>> none(k.nests.size());
  std::vector<PrintedKernel> out;
  for (ScanSchedule& s : scanSchedules(k, target))
    if (out.size() < most) out.push_back(CudaEmitter(k, std::move(s)).run());
  if (const int blocks = sortBlocks(k, target); blocks > 1)
    out.push_back(CudaEmitter(k, threads, none).shareSort(blocks).run());
  const bool whole = k.grouped.has_value() || (k.attention && attentionTile(k)); // has a layout of its own
  if (!whole && k.nests.size() == 1) {
    for (const RowSchedule& s :
         severalOf(rowSchedules(k, k.nests[0], planForThreads(k, k.nests[0]), target, 0), most))
      out.push_back(CudaEmitter(k, s.threads, {s}).run());
  } else if (!whole) {
    std::vector<std::optional<RowSchedule>> rows = none;
    for (size_t i = 0; i < k.nests.size(); ++i)
      if (const std::vector<RowSchedule> all =
              rowSchedules(k, k.nests[i], planForThreads(k, k.nests[i]), target, threads);
          !all.empty())
        rows[i] = all.front();
    if (rows != none) out.push_back(CudaEmitter(k, threads, rows).run());
  }
  if (out.size() < most) out.push_back(CudaEmitter(k, threads, none).run());
  auto packed = [&](const Nest& nest) {
    const NestPlan plan = planForThreads(k, nest);
    return packOf(k, nest, plan) > 1 || apartOf(k, nest, plan) > 1;
  };
  if (!whole && out.size() < most && std::any_of(k.nests.begin(), k.nests.end(), packed))
    out.push_back(CudaEmitter(k, threads, none, false).run());
  return out;
}

} // namespace dtc
