// interpreter.run_parallel: a sharded function run by passing each device its shards, as in Shardy's own
// tests. The import concatenates the shards, calls the function, and slices its results again.
#include "import/HloImporter.h"
#include "import/HloRegions.h"
#include "import/HloTable.h"

#include <algorithm>
#include <map>

namespace dtc {

namespace {

using Index = std::vector<int64_t>;

// The shard index of each device coordinate per dim, and the number of shards of the dim.
struct Shards {
  const Mesh* mesh = nullptr; // null: replicated
  std::vector<Index> of;      // by device coordinate
  Index counts;
};

int64_t digitOf(int64_t coordinate, const AxisRef& axis, const Mesh& mesh) {
  int64_t inner = 1, size = 1;
  bool found = false;
  for (const MeshAxis& a : mesh.axes) {
    if (found) inner *= a.size;
    if (a.name == axis.name) found = true, size = a.size;
  }
  const int64_t minor = size / (axis.pre * mesh.axisSize(axis));
  return coordinate / inner % size / minor % mesh.axisSize(axis);
}

Shards shardsOf(const Module& m, ShardingId id, size_t rank, int64_t devices) {
  Shards p;
  p.counts.assign(rank, 1);
  p.of.assign(static_cast<size_t>(devices), Index(rank, 0));
  if (!id.valid()) return p;
  const Sharding& s = m.shardings[id];
  p.mesh = &m.shardings.mesh(s.mesh);
  for (size_t d = 0; d < rank; ++d)
    for (const DimPart& part : s.dims[d].parts) {
      const int64_t size = p.mesh->axisSize(part.axis);
      p.counts[d] *= size;
      for (int64_t coordinate = 0; coordinate < devices; ++coordinate) {
        int64_t& index = p.of[static_cast<size_t>(coordinate)][d];
        index = index * size + digitOf(coordinate, part.axis, *p.mesh);
      }
    }
  return p;
}

// The shards by their index in each dim, concatenated along the last dim first.
ValueId join(HloContext& c, std::map<Index, ValueId> shards) {
  while (!shards.empty() && !shards.begin()->first.empty()) {
    std::map<Index, std::vector<ValueId>> rows;
    for (const auto& [index, v] : shards) rows[Index(index.begin(), index.end() - 1)].push_back(v);
    const auto dim = static_cast<int64_t>(shards.begin()->first.size()) - 1;
    shards.clear();
    for (const auto& [index, row] : rows)
      shards[index] = row.size() == 1 ? row[0] : c.emit("concat", row, {{"dim", c.intAttr(dim)}});
  }
  return shards.empty() ? ValueId() : shards.begin()->second;
}

// The slice from index * length with the length of a shard; padded with 0 past the end.
ValueId shardAt(HloContext& c, ValueId v, const Index& index, const std::vector<int64_t>& length) {
  const std::vector<int64_t> shape = c.shapeOf(v);
  std::vector<int64_t> from(shape.size()), to(shape.size()), high(shape.size(), 0), none(shape.size(), 0);
  for (size_t d = 0; d < shape.size(); ++d) {
    from[d] = index[d] * length[d], to[d] = from[d] + length[d];
    high[d] = std::max<int64_t>(to[d] - shape[d], 0);
  }
  if (std::ranges::any_of(high, [](int64_t n) { return n > 0; }))
    v = padWith(c, v, c.splat(0, c.dtypeOf(v), {}), none, high, none);
  if (c.shapeOf(v) == length) return v;
  return c.emit("slice", {v}, {{"start", c.intsAttr(from)}, {"limit", c.intsAttr(to)}});
}

class ParallelRun {
public:
  explicit ParallelRun(HloContext& c) : c_(c) {}

  bool run() {
    if (!readPrograms()) return false;
    const MlirOp* text = c_.importer.functionText(name_);
    const FuncId f = c_.importer.function(name_);
    if (!f.valid() || !text)
      return c_.fail("runs @" + std::string(name_) + ", which is only declared in this file");
    const size_t args = text->regions[0].args.size(), n = static_cast<size_t>(devices_);
    if (c_.module[f].args.size() != args || c_.module[f].results.size() != text->resultTypes.size())
      return c_.fail("runs a function of tuples or tokens, which is unsupported");
    if (c_.numOperands() != args * n || c_.numResults() != text->resultTypes.size() * n)
      return c_.fail("has a number of operands or results that differs from that of " + std::to_string(n) +
                     " runs of @" + std::string(name_));
    std::vector<ValueId> globals;
    for (size_t k = 0; k < args; ++k) {
      globals.push_back(global(k, args, c_.module[f].args[k].value, text->regions[0].args[k].attrs));
      if (!globals.back().valid()) return false;
    }
    std::vector<TypeId> types;
    for (const FuncResult& r : c_.module[f].results) types.push_back(r.type);
    const OpId o =
        c_.importer.appendOp("call", globals, c_.importer.locationOf(c_.op.loc), types, c_.op.nameRange);
    if (!o.valid()) return false;
    c_.module[o].callee = c_.module[f].name;
    for (size_t r = 0; r < types.size(); ++r)
      if (!takeApart(c_.module.result(o, static_cast<uint32_t>(r)), c_.module[f].results[r].sharding,
                     r < text->resultAttrs.size() ? &text->resultAttrs[r] : nullptr, r, types.size()))
        return false;
    return true;
  }

private:
  // [[@f, @f]] or [[@f], [@f]]: one function, once for each device.
  bool readPrograms() {
    const MlirAttr* programs = c_.attr("programs");
    if (!programs) return c_.fail("needs the attribute 'programs'");
    for (const MlirAttr& row : programs->list)
      for (const MlirAttr& f : row.list) {
        if (f.kind != MlirAttr::SymbolRef || (devices_ > 0 && f.text != name_))
          return c_.failAttr("programs", "do not name one function for all devices");
        name_ = f.text;
        ++devices_;
      }
    return devices_ > 0 || c_.failAttr("programs", "name no function");
  }

  // The device at each coordinate of the mesh that the attributes' sharding names.
  Index order(const std::vector<MlirNamedAttr>* attrs) {
    Index order = attrs ? c_.importer.shardy.devicesOf(*attrs) : Index();
    for (int64_t d = static_cast<int64_t>(order.size()); d < devices_; ++d) order.push_back(d);
    return order;
  }

  bool fits(const Shards& p) {
    if (!p.mesh || p.mesh->numDevices() == devices_) return true;
    return c_.fail("runs on " + std::to_string(devices_) + " devices, but the mesh of @" +
                   std::string(name_) + " has " + std::to_string(p.mesh->numDevices()));
  }

  ValueId global(size_t k, size_t args, ValueId parameter, const std::vector<MlirNamedAttr>& attrs) {
    const std::vector<int64_t> shape = c_.shapeOf(parameter);
    const ShardingId sharding = c_.module[parameter].sharding;
    const Shards p = shardsOf(c_.module, sharding, shape.size(), devices_);
    if (!fits(p)) return {};
    const Index devices = order(&attrs);
    std::vector<ValueId> handed;
    for (int64_t d : devices) handed.push_back(c_.operand(static_cast<size_t>(d) * args + k));
    std::map<Index, ValueId> shards;
    if (std::ranges::any_of(handed, [](ValueId v) { return !v.valid(); })) return {};
    addUp(parameter, p, handed);
    for (size_t coordinate = 0; coordinate < p.of.size(); ++coordinate)
      shards.emplace(p.of[coordinate], handed[coordinate]);
    ValueId all = join(c_, std::move(shards));
    // shards of a dim that the mesh does not divide are padded to the longest
    if (c_.shapeOf(all) != shape) {
      const std::vector<int64_t> made = c_.shapeOf(all);
      bool covers = made.size() == shape.size();
      for (size_t d = 0; covers && d < shape.size(); ++d) covers = made[d] >= shape[d];
      if (!covers) {
        c_.fail("passes shards that do not form argument " + std::to_string(k) + " of @" +
                std::string(name_));
        return {};
      }
      all = shardAt(c_, all, Index(shape.size(), 0), shape);
    }
    return all;
  }

  // Devices that hold the same shard of an argument may be passed different ones where all users of the
  // argument reduce it: it is then a partial sum over the axes along which they differ. `handed`, by device
  // coordinate, becomes the sums.
  void addUp(ValueId parameter, const Shards& p, std::vector<ValueId>& handed) {
    if (!p.mesh || !onlyReduced(parameter)) return;
    std::vector<PendingAxis> pending;
    for (const MeshAxis& axis : p.mesh->axes) {
      const AxisRef ref{axis.name};
      const std::vector<ValueId> before = handed;
      bool differ = false;
      for (size_t a = 0; a < handed.size(); ++a)
        for (size_t b = a + 1; b < handed.size(); ++b)
          differ = differ || (p.of[a] == p.of[b] && before[a] != before[b] && alikeBut(ref, a, b, *p.mesh));
      if (!differ) continue;
      pending.push_back({ref, PendingKind::Sum});
      for (size_t a = 0; a < handed.size(); ++a) {
        ValueId sum;
        for (size_t b = 0; b < handed.size(); ++b)
          if (p.of[a] == p.of[b] && alikeBut(ref, a, b, *p.mesh))
            sum = sum.valid() ? c_.emit("add", {sum, before[b]}) : before[b];
        handed[a] = sum;
      }
    }
    if (!pending.empty()) makeUnreduced(parameter, pending);
  }

  bool alikeBut(const AxisRef& axis, size_t a, size_t b, const Mesh& mesh) const {
    for (const MeshAxis& other : mesh.axes)
      if (other.name != axis.name && digitOf(static_cast<int64_t>(a), {other.name}, mesh) !=
                                         digitOf(static_cast<int64_t>(b), {other.name}, mesh))
        return false;
    return true;
  }

  // True if every user of the value reduces it, or is per-device code in which every user does.
  bool onlyReduced(ValueId v) {
    Module& m = c_.module;
    bool only = true;
    forEachOp(m, m[c_.importer.function(name_)].body, [&](OpId o) {
      const OpRecord& rec = m.record(o);
      for (uint32_t i = 0; only && i < m[o].numOperands; ++i) {
        if (m.operand(o, i) != v) continue;
        only = rec.regions == RegionKind::Local
                   ? onlyReduced(m[m.region(o)].args[i])
                   : rec.constraint == Constraint::Reshard || reduces(rec.collective);
      }
    });
    return only;
  }

  // The argument, and the shards of it that manual computations take.
  void makeUnreduced(ValueId parameter, const std::vector<PendingAxis>& pending) {
    Module& m = c_.module;
    auto add = [&](ValueId v) {
      Sharding s = m.shardings[m[v].sharding];
      s.pending = pending;
      m[v].sharding = m.shardings.intern(std::move(s));
    };
    add(parameter);
    forEachOp(m, m[c_.importer.function(name_)].body, [&](OpId o) {
      for (uint32_t i = 0; m.record(o).regions == RegionKind::Local && i < m[o].numOperands; ++i)
        if (m.operand(o, i) == parameter) add(m[m.region(o)].args[i]);
    });
  }

  bool takeApart(ValueId v, ShardingId sharding, const std::vector<MlirNamedAttr>* attrs, size_t r,
                 size_t results) {
    const Shards p = shardsOf(c_.module, sharding, c_.shapeOf(v).size(), devices_);
    if (!fits(p)) return false;
    const Index devices = order(attrs);
    for (size_t coordinate = 0; coordinate < p.of.size(); ++coordinate) {
      const size_t at = static_cast<size_t>(devices[coordinate]) * results + r;
      const std::vector<int64_t> length = c_.resultShape(at), shape = c_.shapeOf(v);
      bool good = length.size() == shape.size();
      for (size_t d = 0; good && d < shape.size(); ++d)
        good = length[d] >= 0 && length[d] * p.counts[d] >= shape[d] && length[d] <= shape[d] + p.counts[d];
      if (!good) return c_.fail("has a result that is not a shard of the result of @" + std::string(name_));
      if (!c_.setResult(at, shardAt(c_, v, p.of[coordinate], length))) return false;
    }
    return true;
  }

  HloContext& c_;
  std::string_view name_;
  int64_t devices_ = 0;
};

bool runParallel(HloContext& c) { return ParallelRun(c).run(); }

const HloRow kParallelRows[] = {{"interpreter.run_parallel", runParallel}};

} // namespace

std::span<const HloRow> hloParallelRows() { return kParallelRows; }

} // namespace dtc
