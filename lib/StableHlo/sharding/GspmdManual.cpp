#include "sharding/GspmdManual.h"
#include "sharding/PerDevice.h"
#include <algorithm>
#include <queue>
#include <string>
#include <unordered_set>

namespace dtc {

namespace {

constexpr DiagKind kManualCalls{"gspmd-manual", "'{0}' cannot be part of a manual computation: {1}"};

bool calls(const MlirOp& op, std::string_view target) {
  if (!op.name.ends_with(".custom_call") || op.operands.size() != 1 || op.resultTypes.size() != 1 ||
      op.results.size() != 1)
    return false;
  const MlirAttr* a = findAttr(op.attrs, "call_target_name");
  return a && a->text == target;
}
bool enters(const MlirOp& op) { return calls(op, "SPMDFullToShardShape"); }
bool leaves(const MlirOp& op) { return calls(op, "SPMDShardToFullShape"); }

// The value is a shard: {manual}, or last_tile_dims={manual}.
bool saysManual(const MlirOp& op) {
  const MlirAttr* a = findAttr(op.attrs, "mhlo.sharding");
  return a && a->kind == MlirAttr::String && a->text.find("manual") != std::string_view::npos;
}

bool isConstant(const MlirOp& op) {
  return op.operands.empty() && op.regions.empty() && op.results.size() == 1 &&
         (op.name.ends_with(".constant") || op.name.ends_with(".iota"));
}

bool hasCalls(const std::vector<MlirOp>& ops) {
  return std::ranges::any_of(ops, [](const MlirOp& op) {
    return enters(op) || leaves(op) ||
           std::ranges::any_of(op.regions, [](const MlirRegion& r) { return hasCalls(r.ops); });
  });
}

void collectCallees(const std::vector<MlirOp>& ops, std::unordered_set<std::string_view>& out) {
  for (const MlirOp& op : ops) {
    if (const MlirAttr* a = findAttr(op.attrs, "callee")) out.insert(a->text);
    for (const MlirRegion& r : op.regions) collectCallees(r.ops, out);
  }
}

bool hasFormed(const std::vector<MlirOp>& ops) {
  return std::ranges::any_of(ops, [](const MlirOp& op) {
    return findAttr(op.attrs, kGspmdManual) ||
           std::ranges::any_of(op.regions, [](const MlirRegion& r) { return hasFormed(r.ops); });
  });
}

// Facts about the values of a name.
struct Known {
  std::vector<const MlirType*> types;
  std::vector<MlirNamedAttr> sharding; // the op that states its sharding
};
using Scope = std::unordered_map<std::string_view, Known>;

std::vector<MlirNamedAttr> shardingOf(const std::vector<MlirNamedAttr>& attrs) {
  std::vector<MlirNamedAttr> out;
  for (const MlirNamedAttr& a : attrs)
    if (a.name == "mhlo.sharding" || a.name == "backend_config") out.push_back(a);
  return findAttr(out, "mhlo.sharding") ? out : std::vector<MlirNamedAttr>();
}

// All uses, by an op and its regions, of values defined outside of it.
void usesOf(MlirOp& op, std::unordered_multiset<std::string_view>& inner, std::vector<MlirUse*>& out) {
  for (MlirUse& u : op.operands)
    if (!inner.contains(u.name)) out.push_back(&u);
  for (MlirRegion& r : op.regions) {
    std::vector<std::string_view> defined;
    auto define = [&](std::string_view name) {
      inner.insert(name);
      defined.push_back(name);
    };
    for (const MlirArg& a : r.args) define(a.name);
    for (MlirOp& o : r.ops) {
      usesOf(o, inner, out);
      for (const MlirResult& v : o.results) define(v.name);
    }
    for (std::string_view name : defined) inner.erase(inner.find(name));
  }
}

// The ops of one region. An op is per-device if it uses a shard, or is allowed only in per-device code.
class Zones {
public:
  Zones(MlirTree& tree, MlirRegion& region, const Scope& scope, bool entry, Diagnostics& diags)
      : tree_(tree), ops_(region.ops), scope_(scope), entry_(entry), diags_(diags), kinds_(ops_.size()),
        uses_(ops_.size()), parent_(ops_.size()), zoneOf_(ops_.size(), kNone) {}

  bool form() {
    mark();
    if (!check()) return false;
    collect();
    std::vector<size_t> order;
    if (!sorted(order)) return false;
    std::vector<MlirOp> zones, out;
    for (Zone& z : zones_) zones.push_back(made(z)); // while all copied ops are still present
    for (size_t node : order)
      out.push_back(std::move(node < ops_.size() ? ops_[node] : zones[node - ops_.size()]));
    ops_ = std::move(out);
    return true;
  }

private:
  enum Kind : uint8_t { Global, Local, Enter, Leave, Gone };
  static constexpr size_t kNone = ~size_t(0);
  struct Zone {
    std::vector<size_t> enters, members, leaves; // members, including repeated constants
    std::vector<MlirUse> captured;               // global values that enter replicated
    size_t position = kNone;                     // of the first value that leaves, else of the last op
  };

  bool bad(const MlirOp& op, SourceRange where, const std::string& why) {
    const MlirAttr* target = findAttr(op.attrs, "call_target_name");
    return diags_.fail(kManualCalls, where,
                       std::string(op.name) + (target ? " @" + std::string(target->text) : ""), why);
  }
  // The index before op i at which it is defined among these ops; else kNone.
  [[nodiscard]] size_t defOf(const MlirUse& use, size_t i) const {
    auto found = defs_.find(use.name);
    return found == defs_.end() || found->second >= i ? kNone : found->second;
  }
  [[nodiscard]] bool isLocal(size_t i) const {
    return i != kNone && (kinds_[i] == Local || kinds_[i] == Enter);
  }
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }

  // The operand of SPMDShardToFullShape is a shard, whatever its own operands are: a call may have none.
  void seedInputs(size_t leave, std::vector<bool>& seed) const {
    size_t d = defOf(ops_[leave].operands[0], leave);
    for (; d != kNone && calls(ops_[d], "Sharding") && saysManual(ops_[d]); d = defOf(ops_[d].operands[0], d))
      seed[d] = true;
    if (d != kNone && (ops_[d].name == "call" || ops_[d].name == "func.call")) seed[d] = true;
  }

  void mark() {
    std::vector<bool> seed(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) {
      std::unordered_multiset<std::string_view> inner;
      usesOf(ops_[i], inner, uses_[i]);
      parent_[i] = i;
      if (entry_ && asksForDevice(ops_[i].name)) seed[i] = true;
      if (leaves(ops_[i])) seedInputs(i, seed);
      for (const MlirResult& r : ops_[i].results) defs_[r.name] = i;
    }
    for (size_t i = 0; i < ops_.size(); ++i) {
      kinds_[i] = enters(ops_[i]) ? Enter : leaves(ops_[i]) ? Leave : seed[i] ? Local : Global;
      if (kinds_[i] == Enter) continue;
      for (const MlirUse* u : uses_[i]) {
        const size_t d = defOf(*u, i);
        if (!isLocal(d)) continue;
        if (kinds_[i] == Global) kinds_[i] = Local;
        parent_[root(i)] = root(d);
      }
    }
  }

  bool check() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      const MlirOp& op = ops_[i];
      const bool usesLocal =
          std::ranges::any_of(uses_[i], [&](const MlirUse* u) { return isLocal(defOf(*u, i)); });
      if (kinds_[i] == Enter && usesLocal)
        return bad(op, op.nameRange,
                   "it begins a manual computation within another one, outside of a function of its own");
      if (kinds_[i] == Leave && !usesLocal)
        return bad(op, op.nameRange,
                   "%" + std::string(op.operands[0].name) + " is not a result of @SPMDFullToShardShape");
      if (kinds_[i] != Local || i + 1 != ops_.size()) continue;
      for (const MlirUse* u : uses_[i])
        if (isLocal(defOf(*u, i)))
          return bad(op, u->range,
                     "it returns %" + std::string(u->name) +
                         ", a shard of one device: convert it with @SPMDShardToFullShape first");
    }
    return true;
  }

  // --- the zones ---

  void collect() {
    std::unordered_map<size_t, size_t> byRoot;
    std::vector<bool> wanted(ops_.size()); // by what stays outside
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (kinds_[i] == Global || kinds_[i] == Enter)
        for (const MlirUse* u : uses_[i])
          if (const size_t d = defOf(*u, i); d != kNone && !(kinds_[i] == Enter && isConstraint(d)))
            wanted[d] = true;
      if (kinds_[i] == Global) continue;
      const auto [at, isNew] = byRoot.try_emplace(root(i), zones_.size());
      if (isNew) zones_.emplace_back();
      Zone& z = zones_[zoneOf_[i] = at->second];
      (kinds_[i] == Enter ? z.enters : kinds_[i] == Leave ? z.leaves : z.members).push_back(i);
      z.position = z.leaves.empty() ? i : z.leaves.front();
    }
    for (Zone& z : zones_) capture(z, wanted);
    // Constants used only inside move inside; so do constraints on entering values, which belong to the zone.
    std::vector<bool> used(ops_.size());
    for (const Zone& z : zones_) {
      for (size_t m : z.members) used[m] = true;
      for (size_t e : z.enters)
        if (const size_t d = defOf(ops_[e].operands[0], e); d != kNone && isConstraint(d)) used[d] = true;
    }
    for (size_t i = 0; i < ops_.size(); ++i)
      if (kinds_[i] == Global && used[i] && !wanted[i]) kinds_[i] = Gone;
  }

  // A sharding constraint on a global value.
  [[nodiscard]] bool isConstraint(size_t d) const { return kinds_[d] != Local && calls(ops_[d], "Sharding"); }

  void capture(Zone& z, std::vector<bool>& wanted) {
    std::unordered_set<size_t> repeated;
    std::unordered_set<std::string> names;
    for (size_t m : z.members)
      for (MlirUse* u : uses_[m]) {
        const size_t d = defOf(*u, m);
        if (isLocal(d)) continue;
        if (d != kNone && isConstant(ops_[d])) {
          repeated.insert(d);
          continue;
        }
        if (d != kNone) wanted[d] = true;
        const MlirUse full = *u;
        if (u->number > 0) { // an argument is one value
          u->name = tree_.texts.emplace_back(std::string(u->name) + "#" + std::to_string(u->number));
          u->number = 0;
        }
        if (names.insert(std::string(u->name)).second) z.captured.push_back(full);
      }
    z.members.insert(z.members.end(), repeated.begin(), repeated.end());
    std::ranges::sort(z.members);
  }

  // The inputs of a zone; for an entering value whose constraint moves, the value before the constraint.
  [[nodiscard]] MlirUse taken(size_t enter) const {
    const MlirUse& u = ops_[enter].operands[0];
    const size_t d = defOf(u, enter);
    return d != kNone && kinds_[d] == Gone ? ops_[d].operands[0] : u;
  }

  // --- their order ---

  // Nodes are ops by their numbers, then zones, in topological order, otherwise in text order.
  bool sorted(std::vector<size_t>& order) {
    const size_t n = ops_.size();
    std::vector<std::vector<size_t>> users(n + zones_.size());
    std::vector<size_t> waits(n + zones_.size());
    auto after = [&](const MlirUse& u, size_t at, size_t node) {
      const size_t d = defOf(u, at);
      if (d == kNone) return;
      users[kinds_[d] == Global ? d : n + zoneOf_[d]].push_back(node);
      ++waits[node];
    };
    for (size_t i = 0; i < n; ++i)
      for (const MlirUse* u : uses_[i])
        if (kinds_[i] == Global) after(*u, i, i);
    for (size_t z = 0; z < zones_.size(); ++z) {
      for (size_t e : zones_[z].enters) after(taken(e), e, n + z);
      for (const MlirUse& u : zones_[z].captured) after(u, n, n + z);
    }
    auto position = [&](size_t node) { return node < n ? node : zones_[node - n].position; };
    auto later = [&](size_t a, size_t b) { return position(a) > position(b); };
    std::priority_queue<size_t, std::vector<size_t>, decltype(later)> ready(later);
    std::vector<bool> placed(n + zones_.size());
    for (size_t i = 0; i < n + zones_.size(); ++i)
      if (waits[i] == 0 && (i >= n || kinds_[i] == Global)) ready.push(i);
    while (!ready.empty()) {
      const size_t node = ready.top();
      ready.pop();
      order.push_back(node);
      placed[node] = true;
      for (size_t u : users[node])
        if (--waits[u] == 0) ready.push(u);
    }
    for (size_t z = 0; z < zones_.size(); ++z)
      if (!placed[n + z] && !zones_[z].enters.empty()) {
        const MlirOp& op = ops_[zones_[z].enters.back()];
        return bad(op, op.nameRange,
                   "it continues with shards of an earlier manual computation, and a global value of that "
                   "one is used in between");
      }
    return true;
  }

  // --- the manual computation ---

  [[nodiscard]] const Known* outer(const MlirUse& u) const {
    auto found = scope_.find(u.name);
    return found == scope_.end() ? nullptr : &found->second;
  }

  [[nodiscard]] const MlirType* typeOf(const MlirUse& u) const {
    auto found = defs_.find(u.name);
    if (found == defs_.end()) {
      const Known* known = outer(u);
      return known && u.number < known->types.size() ? known->types[u.number] : nullptr;
    }
    size_t at = u.number;
    for (const MlirResult& r : ops_[found->second].results) {
      if (r.name == u.name) break;
      at += r.count;
    }
    const std::vector<const MlirType*>& types = ops_[found->second].resultTypes;
    return at < types.size() ? types[at] : nullptr;
  }

  [[nodiscard]] std::vector<MlirNamedAttr> enteringSharding(size_t enter) const {
    const MlirUse& u = ops_[enter].operands[0];
    if (const size_t d = defOf(u, enter); d != kNone) return shardingOf(ops_[d].attrs);
    const Known* known = outer(u);
    return known ? known->sharding : std::vector<MlirNamedAttr>();
  }

  static MlirAttr dict(SourceRange where, std::vector<MlirNamedAttr> entries) {
    MlirAttr a;
    a.kind = MlirAttr::Dict;
    a.range = where;
    a.dict = std::move(entries);
    return a;
  }

  // The manual axes: every op that begins it must agree; without such ops, those that end it.
  void addManual(const MlirOp& op, std::vector<MlirAttr>& out) const {
    const MlirAttr* a = findAttr(op.attrs, "mhlo.sharding");
    if (a && a->kind == MlirAttr::String) out.push_back(dict(a->range, {{kGspmdManual, a->range, *a}}));
  }

  MlirOp made(Zone& z) {
    const MlirOp& first = ops_[z.enters.empty() ? z.position : z.enters[0]];
    MlirOp op;
    op.name = "sdy.manual_computation";
    op.nameRange = first.nameRange;
    op.loc = first.loc;
    MlirRegion region;
    region.range = first.nameRange;
    std::vector<MlirAttr> in, out, manual;
    for (size_t e : z.enters) {
      const MlirOp& call = ops_[e];
      op.operands.push_back(taken(e));
      region.args.push_back({call.results[0].name, call.results[0].range, call.resultTypes[0], {}, call.loc});
      in.push_back(dict(call.nameRange, enteringSharding(e)));
      addManual(call, manual);
    }
    for (const MlirUse& u : z.captured) {
      op.operands.push_back(u);
      std::string_view name = u.name;
      if (u.number > 0) name = tree_.texts.emplace_back(std::string(name) + "#" + std::to_string(u.number));
      region.args.push_back({name, u.range, typeOf(u), {}, 0});
      in.push_back(dict(u.range, {}));
    }
    if (z.enters.empty())
      for (size_t m : z.members)
        if (saysManual(ops_[m])) addManual(ops_[m], manual);
    MlirOp end;
    end.name = "sdy.return";
    end.nameRange = ops_[z.position].nameRange;
    for (size_t l : z.leaves) {
      const MlirOp& call = ops_[l];
      op.results.push_back(call.results[0]);
      op.resultTypes.push_back(call.resultTypes[0]);
      end.operands.push_back(call.operands[0]);
      end.operandTypes.push_back(typeOf(call.operands[0]));
      out.push_back(dict(call.nameRange, shardingOf(call.attrs)));
    }
    // A constant that is also used elsewhere is copied; the types of the results are computed before anything
    // moves.
    for (size_t m : z.members)
      region.ops.push_back(kinds_[m] == Local ? std::move(ops_[m]) : MlirOp(ops_[m]));
    region.ops.push_back(std::move(end));
    op.regions.push_back(std::move(region));
    addList(op, "in_shardings", std::move(in));
    addList(op, "out_shardings", std::move(out));
    addList(op, kGspmdManual, std::move(manual));
    return op;
  }

  static void addList(MlirOp& op, std::string_view name, std::vector<MlirAttr> list) {
    MlirAttr a;
    a.kind = MlirAttr::List;
    a.range = op.nameRange;
    a.list = std::move(list);
    op.attrs.push_back({name, op.nameRange, std::move(a)});
  }

  MlirTree& tree_;
  std::vector<MlirOp>& ops_;
  const Scope& scope_;
  bool entry_; // in a function that is never called: ops that ask for the device's number are per-device
  Diagnostics& diags_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<MlirUse*>> uses_;
  std::vector<size_t> parent_, zoneOf_;
  std::unordered_map<std::string_view, size_t> defs_;
  std::vector<Zone> zones_;
};

bool formIn(MlirTree& tree, MlirRegion& region, Scope& scope, bool entry, Diagnostics& diags) {
  for (const MlirArg& a : region.args) scope[a.name] = {{a.type}, shardingOf(a.attrs)};
  bool own = false, ok = true;
  for (MlirOp& op : region.ops) {
    own |= enters(op) || leaves(op);
    for (MlirRegion& r : op.regions) ok &= formIn(tree, r, scope, entry, diags);
    size_t at = 0;
    for (const MlirResult& r : op.results) {
      Known known{{}, shardingOf(op.attrs)};
      for (uint32_t n = 0; n < r.count && at < op.resultTypes.size(); ++n)
        known.types.push_back(op.resultTypes[at++]);
      scope[r.name] = std::move(known);
    }
  }
  return (!own || Zones(tree, region, scope, entry, diags).form()) && ok;
}

} // namespace

bool formManualComputations(MlirTree& tree, Diagnostics& diags) {
  bool ok = true;
  std::unordered_set<std::string_view> called;
  if (hasCalls(tree.ops)) collectCallees(tree.ops, called);
  for (MlirOp& op : tree.ops)
    for (MlirRegion& r : op.regions) {
      if (!hasCalls(r.ops)) continue;
      Scope scope;
      const MlirAttr* name = findAttr(op.attrs, "sym_name");
      ok &= formIn(tree, r, scope, !name || !called.contains(name->text), diags);
    }
  return ok;
}

bool hasManualComputations(const MlirTree& tree) { return hasFormed(tree.ops); }

} // namespace dtc
