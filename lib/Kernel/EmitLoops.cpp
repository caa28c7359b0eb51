// Loops: reductions that share one, stores that share one.
#include "Emit.h"
#include "dtc/IR/Element.h"
#include <algorithm>

namespace dtc {

using namespace loops;

void Emitter::countUses(const Nest& nest) {
  nest_ = &nest;
  uses_.assign(k_.numNodes() + 64, 0); // printing an index may intern a few more
  level_.assign(k_.numNodes() + 64, 0);
  reductions_.clear();
  const std::vector<NodeId> roots = rootsOf(k_, nest);
  for (NodeId r : roots) ++uses_[r.index];
  forEachNode(k_, roots, [&](NodeId n) {
    const Node& node = k_[n];
    int level = 0;
    auto below = [&](NodeId a) { level = std::max(level, level_[a.index]), ++uses_[a.index]; };
    for (NodeId a : node.args) below(a);
    if (node.affine.valid())
      for (const AffineTerm& t : k_[node.affine].terms)
        if (t.kind == AffineTerm::OfNode) below(NodeId(t.id));
    level_[n.index] = level + (node.kind == NodeKind::Reduce);
    if (node.kind == NodeKind::Reduce) reductions_.push_back(n);
  });
}

// The reductions that run in one loop with `n`: over the same axes, at the same place, none needing another.
std::vector<NodeId> Emitter::groupOf(NodeId n, const Scope& home) {
  std::vector<NodeId> group;
  const bool arg = k_[n].reduce >= ReduceKind::ArgMax;
  for (NodeId r : reductions_) {
    if (r != n && (k_[r].axes != k_[n].axes || level_[r.index] != level_[n.index] || arg ||
                   k_[r].reduce >= ReduceKind::ArgMax || (k_.dependsOn(r) & ~home.bound) != 0 ||
                   k_.dependsOn(r) != k_.dependsOn(n)))
      continue;
    bool done = false;
    for (const Scope* p = &home; p; p = p->parent) done |= p->names.contains(r.index);
    if (!done) group.push_back(r);
  }
  return group;
}

Emitter::Scope& Emitter::openLoops(Scope& home, std::vector<AxisId> axes, std::optional<AxisId> lane,
                                   std::deque<Scope>& scopes) {
  const std::vector<AxisId> order = axes;
  if (lane) {
    std::erase(axes, *lane);
    axes.push_back(*lane);
  }
  Scope* at = &home;
  for (AxisId a : axes) {
    DTC_CHECK(!(at->bound >> a & 1), "a kernel loops over an axis within a loop over the same axis");
    const bool vector = lane && a == *lane;
    Scope inner;
    inner.parent = at;
    inner.bound = at->bound | AxisSet(1) << a;
    inner.vector = vector ? a : at->vector;
    inner.indent = at->indent + 1;
    inner.text = indentText(at->indent) + (vector ? lanesLoop(a) : serialLoop(a)) + "\n";
    inner.close = vector ? lanesClose() : "}";
    scopes.push_back(std::move(inner));
    at = &scopes.back();
  }
  at->axes = order;
  return *at;
}

void Emitter::closeLoops(Scope& home, std::deque<Scope>& scopes) {
  while (!scopes.empty()) {
    Scope& s = scopes.back();
    s.parent->text += s.text + indentText(s.indent - 1) + s.close + "\n";
    scopes.pop_back();
  }
  (void)home;
}

// The first of the greatest (least), NaN before all. Threads that share a row each find the first of the best of their elements; then
// it is the first place of those that have the best of all.
void Emitter::emitArg(NodeId n, Scope& home, const std::vector<AxisId>& axes) {
  const Node& node = k_[n];
  const DType type = k_[node.args[0]].type;
  const bool vector = lanes() > 1 && home.vector >= 0 && (k_.dependsOn(n) >> home.vector & 1);
  auto typed = [&](DType d) { return vector ? vectorType(d) : typeText(d); };
  const std::string best = fresh("best"), at = fresh(reduceName(node.reduce));
  const bool last = node.reduce == ReduceKind::Last;
  if (!last)
    line(home, typed(type) + " " + best + " = (" + typed(type) + ")" + identityText(node.reduce, type) + ";");
  line(home, typed(DType::I32) + " " + at + " = (" + typed(DType::I32) + ")-1;");
  std::deque<Scope> scopes;
  std::optional<AxisId> lane;
  if (lanes() == 1 && home.vector < 0 && cooperative() && !isBool(type)) lane = axes[0];
  Scope& body = openPass(home, axes, lane, std::span(node.args.data(), 1), scopes);
  const std::string x = splat(emit(node.args[0], body), type, vector);
  std::string better = fresh("better");
  const std::string compare = node.reduce == ReduceKind::ArgMax ? "dtc_gt" : "dtc_lt";
  std::string text =
      "dtc_or(dtc_lt(" + at + ", (" + typed(DType::I32) + ")0), " + compare + "(" + x + ", " + best + "))";
  if (isFloat(type))
    text = "dtc_or(" + text + ", dtc_and(dtc_is_nan(" + x + "), dtc_not(dtc_is_nan(" + best + "))))";
  if (lane) { // its elements need not come in order: a row's edges come last
    std::string same = "dtc_eq(" + x + ", " + best + ")";
    if (isFloat(type))
      same = "dtc_or(" + same + ", dtc_and(dtc_is_nan(" + x + "), dtc_is_nan(" + best + ")))";
    text = "dtc_or(" + text + ", dtc_and(" + same + ", dtc_lt((i32)" + axisText(axes[0]) + ", " + at + ")))";
  }
  if (last)
    better = lane ? "dtc_and(" + x + ", dtc_gt((i32)" + axisText(axes[0]) + ", " + at + "))" : x;
  else
    line(body, "const " + typed(DType::Bool) + " " + better + " = " + text + ";");
  if (!last) line(body, best + " = dtc_select(" + better + ", " + x + ", " + best + ");");
  line(body, at + " = dtc_select(" + better + ", (" + typed(DType::I32) + ")(i32)" + axisText(axes[0]) +
                 ", " + at + ");");
  closePass(home, scopes);
  home.names[n.index] = {lane ? firstOfThreads(node, type, best, at, home) : at, vector, true};
}

std::string Emitter::firstOfThreads(const Node& node, DType type, const std::string& best,
                                    const std::string& at, Scope& home) {
  const std::string row = fresh(std::string("row_") + reduceName(node.reduce));
  if (node.reduce == ReduceKind::Last) {
    line(home, "const i32 " + row + " = " + acrossLanes(ReduceKind::Max, at, home) + ";");
    return row;
  }
  const ReduceKind kind = node.reduce == ReduceKind::ArgMax ? ReduceKind::Max : ReduceKind::Min;
  const std::string all = fresh("row_best"), none = std::to_string(INT32_MAX);
  line(home, "const " + typeText(type) + " " + all + " = " + acrossLanes(kind, best, home) + ";");
  std::string has = at + " >= 0 && ";
  has +=
      isFloat(type) ? "(" + best + " == " + all + " || " + best + " != " + best + ")" : best + " == " + all;
  line(home, "i32 " + row + " = " +
                 acrossLanes(ReduceKind::Min, "(" + has + " ? " + at + " : " + none + ")", home) + ";");
  line(home, "if (" + row + " == " + none + ") " + row + " = -1; // of no elements");
  return row;
}

// What is relative to c, when that is known: `greatest` is the lane's.
void Emitter::finishOnline(const OnlineSum& s, const std::string& greatest, Scope& home) {
  const std::string c = emit(s.relativeTo, home).text;
  if (!s.squares)
    line(home, s.sum + " = dtc_online_part(" + greatest + ", " + s.sum + ", " + c + ", " + s.present + ");");
  const std::string name = fresh("row_sum"),
                    part = s.squares ? "dtc_squares_about(" + s.sum + ", " + c + ")" : s.sum;
  line(home, "const " + typeText(k_[s.node].type) + " " + name + " = " +
                 acrossLanes(ReduceKind::Sum, part, home) + ";");
  home.names[s.node.index] = {name, false, true};
}

Emitter::Value Emitter::emitReduce(NodeId n, Scope& home) {
  const std::vector<AxisId> axes = k_[n].axes;
  if (k_[n].reduce >= ReduceKind::ArgMax) {
    emitArg(n, home, axes);
    return home.names[n.index];
  }
  const std::vector<NodeId> group = groupOf(n, home);
  std::optional<AxisId> lane;
  if (home.vector < 0 && cooperative() && !k_.fixedOrder) lane = mostContiguous(k_, *nest_, axes);
  std::vector<std::string> accs;
  for (NodeId r : group) {
    const bool vector = lanes() > 1 && (lane || (home.vector >= 0 && (k_.dependsOn(r) >> home.vector & 1)));
    const std::string type = vector ? vectorType(k_[r].type) : typeText(k_[r].type);
    accs.push_back(fresh(reduceName(k_[r].reduce)));
    line(home, type + " " + accs.back() + " = (" + type + ")" + identityText(k_[r].reduce, k_[r].type) + ";");
    if (!lane) home.names[r.index] = {accs.back(), vector, true};
  }
  const std::vector<OnlineSum> online = lane ? onlineSums(group, home) : std::vector<OnlineSum>();
  std::deque<Scope> scopes;
  std::vector<NodeId> roots;
  for (NodeId r : group) roots.push_back(k_[r].args[0]);
  Scope& body = openPass(home, axes, lane, roots, scopes);
  enterReduce(body);
  for (size_t i = 0; i < group.size(); ++i) {
    const Node& node = k_[group[i]];
    const auto s = std::find_if(online.begin(), online.end(), [&](const OnlineSum& o) { return o.of == i; });
    if (s != online.end() && !s->squares) {
      line(body, "dtc_online(" + accs[i] + ", " + s->sum + ", " + emit(node.args[0], body).text + ");");
      continue;
    }
    if (s != online.end())
      line(body, "dtc_add_square(" + s->sum + ", " + emit(node.args[0], body).text + ");");
    const bool vector = lanes() > 1 && body.vector >= 0;
    std::string x = splat(emit(node.args[0], body), node.type,
                          vector && (lane || (k_.dependsOn(group[i]) >> body.vector & 1)));
    if (lane)
      x = keepText(x, splat({identityText(node.reduce, node.type), false, true}, node.type, lanes() > 1));
    line(body, accumulated(node.reduce, node.type, accs[i], x));
  }
  closePass(home, scopes);
  if (lane)
    for (size_t i = 0; i < group.size(); ++i) {
      const Node& node = k_[group[i]];
      const std::string name = fresh(std::string("row_") + reduceName(node.reduce));
      line(home, "const " + typeText(node.type) + " " + name + " = " +
                     acrossLanes(node.reduce, accs[i], home) + ";");
      home.names[group[i].index] = {name, false, true};
    }
  for (const OnlineSum& s : online) finishOnline(s, accs[s.of], home);
  return home.names[n.index];
}

void Emitter::emitStores(const Nest& nest, Scope& rows) {
  // Axes that a store runs over inside of a row, in the domain's order, then by number.
  auto innerAxes = [&](const Store& s) {
    AxisSet set = k_.dependsOn(s.address) & ~rows.bound;
    std::vector<AxisId> axes;
    for (AxisId a : nest.domain)
      if (set >> a & 1) axes.push_back(a), set &= ~(AxisSet(1) << a);
    for (AxisId a = 0; a < k_.axes.size(); ++a)
      if (set >> a & 1) axes.push_back(a);
    return axes;
  };
  // The passes over a row in their order, whichever the stores ask for first.
  bool serial = false;
  for (NodeId r : reductions_)
    if ((k_.dependsOn(r) & ~rows.bound) == 0) {
      emit(r, rows);
      serial |= k_.fixedOrder || isBool(k_[k_[r].args[0]].type);
    }
  // Each thread reads the row for itself where no sum of all threads makes them wait: a result in its place must not be
  // written before all have read.
  if (serial) betweenStores(rows);
  std::vector<bool> done(nest.stores.size());
  for (size_t i = 0; i < nest.stores.size(); ++i) {
    if (done[i]) continue;
    const std::vector<AxisId> axes = innerAxes(nest.stores[i]);
    std::vector<const Store*> here;
    for (size_t j = i; j < nest.stores.size(); ++j)
      if (!done[j] && innerAxes(nest.stores[j]) == axes && nest.stores[j].copied == nest.stores[i].copied)
        here.push_back(&nest.stores[j]), done[j] = true;
    if (i > 0 && nest.ordered != 0) betweenStores(rows);
    emitStoreLoop(nest, here, axes, std::find(done.begin(), done.end(), false) == done.end(), rows);
  }
}

void Emitter::emitStoreLoop(const Nest& nest, std::span<const Store* const> stores, std::vector<AxisId> axes,
                            bool last, Scope& rows) {
  std::optional<AxisId> lane;
  const bool inOrder = std::any_of(axes.begin(), axes.end(), [&](AxisId a) { return nest.ordered >> a & 1; });
  if (rows.vector < 0 && cooperative() && !axes.empty() && !inOrder) lane = mostContiguous(k_, nest, axes);
  // A copy in place is none: neither are the loads for it, so it sees nothing of what stands around it.
  Scope guarded;
  const std::optional<uint32_t> copied = stores[0]->copied;
  guarded.bound = rows.bound, guarded.vector = rows.vector, guarded.indent = rows.indent + 1;
  Scope& home = copied ? guarded : rows;
  std::deque<Scope> scopes;
  Nest here;
  for (const Store* s : stores) here.stores.push_back(*s);
  Scope& body = openPass(home, axes, lane, rootsOf(k_, here), scopes);
  if (inOrder) emitRunning(stores, home, body);
  enterStores(body, last);
  for (const Store* store : stores)
    isColumn(k_, nest, *store) ? emitColumn(*store, body) : storeText(*store, body);
  closePass(home, scopes);
  if (!copied) return;
  line(rows, "if ((const void*)" + bufferText(stores[0]->buffer) + " != " + bufferText(*copied) + ") {");
  rows.text += guarded.text;
  line(rows, "}");
}

void Emitter::emitRunning(std::span<const Store* const> stores, Scope& rows, Scope& body) {
  Nest nest;
  for (const Store* s : stores) nest.stores.push_back(*s);
  forEachNode(k_, rootsOf(k_, nest), [&](NodeId n) {
    const Node node = k_[n];
    if (node.kind != NodeKind::Running) return;
    const DType type = k_[node.args[0]].type;
    const bool vector = lanes() > 1 && rows.vector >= 0 && (k_.dependsOn(n) >> rows.vector & 1);
    auto typed = [&](DType d) { return vector ? vectorType(d) : typeText(d); };
    const bool index = node.reduce == ReduceKind::Last;
    const DType made = index ? DType::I32 : type;
    std::string first = index ? "-1" : neutralText(node.reduce, type);
    if (node.reduce == ReduceKind::Sum && node.integer) first = "0"; // what stands before the first step
    const std::string acc = fresh(reduceName(node.reduce));
    first = "(" + typed(made) + ")" + first;
    if (node.args.size() > 1) first = splat(emit(node.args[1], rows), type, vector);
    line(rows, typed(made) + " " + acc + " = " + first + ";");
    const std::string x = splat(emit(node.args[0], body), type, vector);
    std::string value = acc;
    if (node.integer) {
      value = fresh("before");
      line(body, "const " + typed(made) + " " + value + " = " + acc + ";");
    }
    static constexpr const char* combine[] = {"add", "mul", "max", "min", "or", "and", "log_add_exp"};
    if (index)
      line(body, acc + " = dtc_select(" + x + ", (" + typed(made) + ")(i32)" + axisText(node.axes[0]) + ", " +
                     acc + ");");
    else
      line(body, acc + " = dtc_" + combine[static_cast<size_t>(node.reduce)] + "(" + acc + ", " + x + ");");
    body.names[n.index] = {value, vector, true};
  });
}

std::string Emitter::bufferAt(uint32_t buffer, AffineId at, Scope& s) {
  const std::string offset = affineText(at, s);
  return bufferText(buffer) + (offset == "0" ? "" : " + " + offset);
}

void Emitter::emitSort(const Nest& nest, Scope& row) {
  if (nest.sort)
    emitSortRow(*nest.sort, row);
  else
    emitSortDigit(*nest.sortDigit, row);
}

void Emitter::emitSortRow(const SortRow& sort, Scope& row) {
  line(row, sortCall(sort) + "(" + bufferAt(sort.keys, sort.keysAt, row) + ", " +
                bufferAt(sort.indices, sort.indicesAt, row) + ", " + sizeText(sort.stride) + ", " +
                sizeText(sort.extent) + sortScratch() + ");");
}

void Emitter::emitSortDigit(const SortDigit& sort, Scope& tile) {
  const std::string upto = sort.upto ? bufferAt(*sort.upto, sort.uptoAt, tile) + ", " : "";
  line(tile, sortDigitCall() + (sort.upto ? "digit<" : "counts<") + (sort.descending ? "true, " : "false, ") +
                 std::to_string(kSortTile) + ">(" + bufferAt(sort.keys, sort.keysAt, tile) + ", " + upto +
                 bufferAt(sort.result, sort.resultAt, tile) + ", " + std::to_string(sort.extent) + ", " +
                 affineText(sort.tile, tile) + ", " + std::to_string(sort.digit) + ");");
}

} // namespace dtc
