// The loops and the values of a nest.
#include "print/Emitter.h"

#include "dtc/IR/Element.h"
#include "dtc/Ops/record/Scalar.h"
#include <algorithm>

namespace dtc {

using namespace loops;

void Emitter::begin(const Nest& nest) {
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

// --- values ---

std::string Emitter::splat(const Value& v, DType type, bool wanted) const {
  if (v.vector || !wanted || lanes() == 1) return v.text;
  return "(" + vectorType(type) + ")" + wrapped(v);
}

std::string Emitter::affineText(AffineId a, Scope& s, bool scalarOnly) {
  std::string text;
  auto add = [&](const Size& coefficient, const std::string& what) {
    const bool minus = coefficient.number < 0;
    const Size size{minus ? -coefficient.number : coefficient.number, coefficient.args};
    text += text.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
    if (what.empty())
      text += sizeText(size);
    else
      text += size.is(1) ? what : what + " * " + sizeText(size);
  };
  for (const AffineTerm& t : k_[a].terms)
    if (t.kind == AffineTerm::OfAxis && atZero_ != t.id)
      add(t.coefficient, use(s, axisText(static_cast<AxisId>(t.id))));
  for (const AffineTerm& t : k_[a].terms)
    if (t.kind == AffineTerm::OfNode && !(scalarOnly && inLanes(t, s)))
      add(t.coefficient, wrapped(emit(NodeId(t.id), s)));
  for (const AffineTerm& t : k_[a].terms)
    if (t.kind == AffineTerm::One) add(t.coefficient, "");
  return text.empty() ? "0" : text;
}

// As an i64, or as i64 lanes where it depends on the axis of the lanes.
Emitter::Value Emitter::indexValue(AffineId a, Scope& s) {
  const bool vector = lanes() > 1 && s.vector >= 0 && (k_.dependsOn(a) >> s.vector & 1);
  const std::string scalar = affineText(a, s, vector);
  if (!vector && indexType() == "i64")
    return {scalar, false, k_[a].terms.size() == 1 && k_[a].terms[0].coefficient.is(1)};
  if (!vector) return {"(i64)(" + scalar + ")", false, true};
  std::string text = scalar == "0" ? "" : "(" + vectorType(DType::I64) + ")(" + scalar + ")";
  auto add = [&](const std::string& what, const Size& coefficient) {
    text += (text.empty() ? "" : " + ") + what + (coefficient.is(1) ? "" : " * " + sizeText(coefficient));
  };
  for (const AffineTerm& t : k_[a].terms) {
    if (t.kind == AffineTerm::OfAxis && static_cast<int>(t.id) == s.vector)
      add("dtc_iota<" + vectorType(DType::I64) + ">()", t.coefficient);
    if (inLanes(t, s)) add(emit(NodeId(t.id), s).text, t.coefficient);
  }
  return {text, true, false};
}

bool Emitter::inLanes(const AffineTerm& t, const Scope& s) const {
  return t.kind == AffineTerm::OfNode && lanes() > 1 && s.vector >= 0 &&
         (k_.dependsOn(NodeId(t.id)) >> s.vector & 1);
}

Emitter::Value Emitter::emit(NodeId n, Scope& s) {
  for (Scope* p = &s; p; p = p->parent)
    if (auto it = p->names.find(n.index); it != p->names.end()) return it->second;
  Scope* home = &s;
  while (home->parent && (k_.dependsOn(n) & ~home->parent->bound) == 0) home = home->parent;
  const Node& node = k_[n];
  if (node.kind == NodeKind::Number) return {literalText(node), false, true};
  if (node.kind == NodeKind::Reduce) return emitReduce(n, *home);
  if (std::optional<Value> v = cached(n, *home)) return home->names[n.index] = *v;
  Value v = compute(n, *home);
  const bool inside = home == &s && uses_[n.index] <= 1 && v.text.size() < 60;
  const bool trivial = node.kind == NodeKind::Index && v.text.size() < 24;
  if (!trivial && !inside) {
    std::string base = node.kind == NodeKind::Call ? node.function : node.kind == NodeKind::Load ? "x" : "at";
    const std::string name = fresh(base + (base.back() >= '0' && base.back() <= '9' ? "_" : ""));
    line(*home, "const " + (v.vector ? vectorType(node.type) : typeText(node.type)) + " " + name + " = " +
                    v.text + ";");
    v = {name, v.vector, true};
    home->names[n.index] = v;
  }
  computed(n, *home, v);
  return v;
}

Emitter::Value Emitter::compute(NodeId n, Scope& s) {
  const Node& node = k_[n];
  const bool vector = lanes() > 1 && s.vector >= 0 && (k_.dependsOn(n) >> s.vector & 1);
  switch (node.kind) {
  case NodeKind::Index: return indexValue(node.affine, s);
  case NodeKind::FloorDiv:
  case NodeKind::Mod: {
    const Value x = emit(node.args[0], s);
    const std::string by = "i64(" + std::to_string(node.integer) + ")";
    return {std::string(node.kind == NodeKind::Mod ? "dtc_mod(" : "dtc_floor_div(") +
                splat(x, DType::I64, vector) + ", " + splat({by, false, true}, DType::I64, vector) + ")",
            vector, true};
  }
  case NodeKind::Load: return loadText(node, s, vector);
  case NodeKind::Call: return callText(node, s, vector);
  case NodeKind::Number:
  case NodeKind::Running: // bound where its loop was opened
  case NodeKind::Reduce: break;
  }
  return {literalText(node), false, true};
}

Emitter::Value Emitter::callText(const Node& node, Scope& s, bool vector) {
  std::vector<Value> args;
  for (NodeId a : node.args) args.push_back(emit(a, s));
  if (node.function == "convert")
    return {"dtc_convert<" + typeText(node.target) + ">(" + args[0].text + ")", vector, true};
  if (node.function == "bitcast")
    return {"dtc_reinterpret<" + typeText(node.target) + ", " + typeText(node.source) + ">(" + args[0].text +
                ")",
            vector, true};
  std::string name = nearFunction(node);
  const Intrinsic* fn = findIntrinsic(node.function);
  if (name.empty() && fn && fn->infix && isFloat(node.type)) // for floats: the same meaning in C++
    return {wrapped(args[0]) + " " + fn->infix + " " + wrapped(args[1]), vector, false};
  if (name.empty()) name = node.function == "pow" && !isFloat(node.type) ? "pow_int" : node.function;
  std::string text = "dtc_" + name + "(";
  for (size_t i = 0; i < args.size(); ++i)
    text += (i ? ", " : "") + splat(args[i], k_[node.args[i]].type, vector);
  return {text + ")", vector, true};
}

// --- units and loops ---

std::string Emitter::countOf(AxisId a) const {
  const std::string extent = sizeText(k_.axes[a].extent);
  return blocked(a) ? "dtc_blocks(" + extent + ", " + std::to_string(plan_.block) + ")" : extent;
}

std::string Emitter::unitsText() const {
  std::string text;
  for (AxisId a : plan_.grid) text += (text.empty() ? "" : " * ") + countOf(a);
  return text.empty() ? "1" : text;
}

std::string Emitter::bound(AxisId a, bool last) const {
  if (blocked(a)) return axisText(a) + (last ? "_end" : "_begin");
  return last ? sizeText(k_.axes[a].extent) : "0";
}

std::string Emitter::serialLoop(AxisId a) {
  const std::string i = axisText(a);
  return "for (" + indexType() + " " + i + " = " + bound(a, false) + "; " + i + " < " + bound(a, true) +
         "; ++" + i + ") {";
}

// The reductions that run in one loop with `n`: over the same axes, in the same scope, none depending on
// another.
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
    DTC_CHECK(!(at->bound >> a & 1), "a kernel has nested loops over the same axis");
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

void Emitter::closeLoops(std::deque<Scope>& scopes) {
  while (!scopes.empty()) {
    Scope& s = scopes.back();
    append(*s.parent, s);
    s.parent->text += indentText(s.indent - 1) + s.close + "\n";
    scopes.pop_back();
  }
}

// The index of the first max (min), NaN before all. Threads that share a row each find it for their elements;
// the result is the lowest index among those whose element equals the max (min) of all.
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
  const std::string x = splat(emit(node.args[0], body), type, vector),
                    index = "(i32)" + use(body, axisText(axes[0]));
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
    text = "dtc_or(" + text + ", dtc_and(" + same + ", dtc_lt(" + index + ", " + at + ")))";
  }
  if (last)
    better = lane ? "dtc_and(" + x + ", dtc_gt(" + index + ", " + at + "))" : x;
  else
    line(body, "const " + typed(DType::Bool) + " " + better + " = " + text + ";");
  if (!last) line(body, best + " = dtc_select(" + better + ", " + x + ", " + best + ");");
  line(body, at + " = dtc_select(" + better + ", (" + typed(DType::I32) + ")" + index + ", " + at + ");");
  closePass(home, scopes);
  home.names[n.index] = {lane ? firstOfThreads(node, type, best, at, home) : at, vector, true};
}

std::string Emitter::firstOfThreads(const Node& node, DType type, const std::string& best,
                                    const std::string& at, Scope& home) {
  const std::string row = fresh(std::string("row_") + reduceName(node.reduce));
  if (node.reduce == ReduceKind::Last) {
    line(home, "const i32 " + row + " = " + acrossLanes(ReduceKind::Max, at) + ";");
    return row;
  }
  const ReduceKind kind = node.reduce == ReduceKind::ArgMax ? ReduceKind::Max : ReduceKind::Min;
  const std::string all = fresh("row_best"), none = std::to_string(INT32_MAX);
  line(home, "const " + typeText(type) + " " + all + " = " + acrossLanes(kind, best) + ";");
  std::string has = at + " >= 0 && ";
  has +=
      isFloat(type) ? "(" + best + " == " + all + " || " + best + " != " + best + ")" : best + " == " + all;
  line(home, "i32 " + row + " = " +
                 acrossLanes(ReduceKind::Min, "(" + has + " ? " + at + " : " + none + ")") + ";");
  line(home, "if (" + row + " == " + none + ") " + row + " = -1; // of no elements");
  return row;
}

// The correction for c, once it is known: `laneMax` is the lane's.
void Emitter::finishOnline(const OnlineSum& s, const std::string& laneMax, Scope& home) {
  const std::string c = emit(s.relativeTo, home).text;
  if (!s.squares)
    line(home, s.sum + " = dtc_online_part(" + laneMax + ", " + s.sum + ", " + c + ", " + s.present + ");");
  const std::string name = fresh("row_sum"),
                    part = s.squares ? "dtc_squares_about(" + s.sum + ", " + c + ")" : s.sum;
  line(home,
       "const " + typeText(k_[s.node].type) + " " + name + " = " + acrossLanes(ReduceKind::Sum, part) + ";");
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
      line(home,
           "const " + typeText(node.type) + " " + name + " = " + acrossLanes(node.reduce, accs[i]) + ";");
      home.names[group[i].index] = {name, false, true};
    }
  for (const OnlineSum& s : online) finishOnline(s, accs[s.of], home);
  return home.names[n.index];
}

void Emitter::emitStores(const Nest& nest, Scope& rows) {
  // Axes that a store loops over inside of a row, in the domain's order, then by number.
  auto innerAxes = [&](const Store& s) {
    AxisSet set = k_.dependsOn(s.address) & ~rows.bound;
    std::vector<AxisId> axes;
    for (AxisId a : nest.domain)
      if (set >> a & 1) axes.push_back(a), set &= ~(AxisSet(1) << a);
    for (AxisId a = 0; a < k_.axes.size(); ++a)
      if (set >> a & 1) axes.push_back(a);
    return axes;
  };
  // The passes over a row in order, whichever the stores need first.
  bool serial = false;
  for (NodeId r : reductions_)
    if ((k_.dependsOn(r) & ~rows.bound) == 0) {
      emit(r, rows);
      serial |= k_.fixedOrder || isBool(k_[k_[r].args[0]].type);
    }
  // Each thread reads the row itself where no reduction of all threads makes them synchronize: a result in
  // its memory must not be written before all have read.
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

// The axes of a loop over stores that may be in the lanes, which are the innermost loop. A reduction inside of
// the loops that runs over one of their axes opens its own loop where the axes that it depends on are bound:
// these stay outside.
std::vector<AxisId> Emitter::laneAxes(std::vector<AxisId> axes, std::span<const NodeId> roots,
                                      const Scope& rows) const {
  AxisSet loops = 0, outside = 0;
  for (AxisId a : axes) loops |= AxisSet(1) << a;
  forEachNode(k_, roots, [&](NodeId n) {
    if (k_[n].kind != NodeKind::Reduce || (k_.dependsOn(n) & ~rows.bound) == 0) return;
    if (std::ranges::any_of(k_[n].axes, [&](AxisId a) { return loops >> a & 1; })) outside |= k_.dependsOn(n);
  });
  std::erase_if(axes, [&](AxisId a) { return outside >> a & 1; });
  return axes;
}

void Emitter::emitStoreLoop(const Nest& nest, std::span<const Store* const> stores, std::vector<AxisId> axes,
                            bool last, Scope& rows) {
  std::optional<AxisId> lane;
  const bool inOrder = std::any_of(axes.begin(), axes.end(), [&](AxisId a) { return nest.ordered >> a & 1; });
  Nest here;
  for (const Store* s : stores) here.stores.push_back(*s);
  const std::vector<NodeId> roots = rootsOf(k_, here);
  if (rows.vector < 0 && cooperative() && !axes.empty() && !inOrder)
    lane = mostContiguous(k_, nest, laneAxes(axes, roots, rows));
  // A copy in place is skipped, and so are the loads for it, so it shares no values with the enclosing
  // scopes.
  Scope guarded;
  const std::optional<uint32_t> copied = stores[0]->copied;
  guarded.bound = rows.bound, guarded.vector = rows.vector, guarded.indent = rows.indent + 1;
  Scope& home = copied ? guarded : rows;
  std::deque<Scope> scopes;
  Scope& body = openPass(home, axes, lane, roots, scopes);
  if (inOrder) emitRunning(stores, home, body);
  enterStores(body, last);
  for (const Store* store : stores)
    isColumn(k_, nest, *store) ? emitColumn(*store, body) : storeText(*store, body);
  closePass(home, scopes);
  if (!copied) return;
  line(rows, "if ((const void*)" + bufferText(stores[0]->buffer) + " != " + bufferText(*copied) + ") {");
  append(rows, guarded);
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
    if (node.reduce == ReduceKind::Sum && node.integer) first = "0"; // the value before the first iteration
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
    if (index)
      line(body, acc + " = dtc_select(" + x + ", (" + typed(made) + ")(i32)" +
                     use(body, axisText(node.axes[0])) + ", " + acc + ");");
    else
      line(body, acc + " = dtc_" + combineName(node.reduce) + "(" + acc + ", " + x + ");");
    body.names[n.index] = {value, vector, true};
  });
}

void Emitter::emitSort(const Nest& nest, Scope& row) {
  if (nest.sort) {
    const SortRow& sort = *nest.sort;
    return line(row, sortCall(sort) + "(" + bufferAt(sort.keys, sort.keysAt, row) + ", " +
                         bufferAt(sort.indices, sort.indicesAt, row) + ", " + sizeText(sort.stride) + ", " +
                         sizeText(sort.extent) + sortScratch() + ");");
  }
  const SortDigit& sort = *nest.sortDigit;
  const std::string upto = sort.upto ? bufferAt(*sort.upto, sort.uptoAt, row) + ", " : "";
  line(row, sortDigitCall() + (sort.upto ? "digit<" : "counts<") + (sort.descending ? "true, " : "false, ") +
                std::to_string(kSortTile) + ">(" + bufferAt(sort.keys, sort.keysAt, row) + ", " + upto +
                bufferAt(sort.result, sort.resultAt, row) + ", " + std::to_string(sort.extent) + ", " +
                affineText(sort.tile, row) + ", " + std::to_string(sort.digit) + ");");
}

// --- columns fused with rows: the state per column of a unit that walks over rows ---

void Emitter::emitUnit(const Nest& nest, Scope& unit) {
  if (nest.walked.empty()) return emitStores(nest, unit);
  std::deque<Scope> scopes;
  Scope& row = openLoops(unit, nest.walked, std::nullopt, scopes);
  row.axes.clear();
  emitStores(nest, row);
  closeLoops(scopes);
}

std::string Emitter::columnVariable(const Store& store, Scope& body) {
  if (lanes() > 1 && body.vector >= 0) return bufferAt(store.buffer, store.address, body);
  return bufferText(store.buffer) + "[" + affineText(store.address, body) + "]";
}

// The first row's value initializes a column that has none; a sum begins with 0 as all do, which matters for
// -0.0.
void Emitter::emitColumn(const Store& store, Scope& body) {
  const Node& node = k_[store.value];
  const bool vector = lanes() > 1 && body.vector >= 0;
  const std::string x = splat(emit(node.args[0], body), node.type, vector);
  std::string first;
  for (AxisId a : nest_->walked) first += (first.empty() ? "" : " + ") + axisText(a);
  const bool sum = node.reduce == ReduceKind::Sum && isFloat(node.type);
  const std::string alone = sum ? "(" + x + ") + " + identityText(node.reduce, node.type) : x;
  first = columnsBegin() ? "" : first + " == 0 ? " + alone + " : ";
  if (!vector) {
    const std::string target = columnVariable(store, body);
    if (first.empty()) return line(body, accumulated(node.reduce, node.type, target, x));
    return line(body, target + " = " + first + combined(node.reduce, node.type, target, x) + ";");
  }
  const Kernel::Stride stride = k_.strideOf(store.address, static_cast<AxisId>(body.vector));
  const bool contiguous = !stride.mixed && stride.size.is(1);
  const std::string target = contiguous ? columnVariable(store, body) : indexValue(store.address, body).text,
                    out = bufferText(store.buffer),
                    before = contiguous ? "lanes.load(" + target + ")"
                                        : "dtc_gather_lanes(lanes, " + out + ", " + target + ")";
  const std::string value = first + combined(node.reduce, node.type, before, x);
  line(body, contiguous ? "lanes.store(" + target + ", " + value + ");"
                        : "dtc_scatter_lanes(lanes, " + out + ", " + target + ", " + value + ");");
}

} // namespace dtc
