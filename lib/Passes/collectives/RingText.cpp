// The ops of a ring.
#include "analysis/Within.h"
#include "collectives/CollectiveRing.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Passes/analysis/Clone.h"

namespace dtc {

namespace {

class RingWriter {
public:
  RingWriter(Builder& b, const RingPlan& plan) : b_(b), m_(b.module), plan_(plan) {}

  // A chunk is multiplied while the next one arrives from the previous device. Returns the results of the
  // products.
  std::vector<ValueId> gather() {
    start();
    Expr chunk(b_, m_.operand(plan_.collective, 0));
    std::vector<Expr> sums(plan_.products.size());
    for (int64_t step = 0; step < plan_.devices; ++step) {
      Expr next;
      if (step + 1 < plan_.devices) next = shifted(chunk);
      const Expr offset = offsetAt(-step);
      for (size_t i = 0; i < sums.size(); ++i) {
        const RingProduct& p = plan_.products[i];
        const Expr part = multiply(p, chunk, offset);
        b_.common = inheritedAttrs(m_, p.op);
        sums[i] = p.resultDim < 0 ? added(sums[i], part) : written(p, sums[i], part, offset);
      }
      chunk = next;
    }
    return {sums.begin(), sums.end()};
  }

  // The sum of a chunk travels to the device that keeps it, whose own part is the last.
  ValueId scatter() {
    start();
    Expr sum;
    for (int64_t step = 0; step < plan_.devices; ++step) {
      Expr received;
      if (step > 0) received = shifted(sum);
      const Expr offset = offsetAt(-1 - step);
      ValueMap parts;
      for (const RingProduct& p : plan_.products) parts.set(m_.result(p.op), multiply(p, {}, offset));
      Expr part(b_, parts(m_.result(plan_.products[0].op)));
      for (OpId add : plan_.adds) { // operands first
        b_.common = inheritedAttrs(m_, add);
        part = Expr(b_, parts(m_.operand(add, 0))) + parts(m_.operand(add, 1));
        parts.set(m_.result(add), part);
      }
      b_.common = inheritedAttrs(m_, plan_.collective);
      sum = added(received, part);
    }
    return sum;
  }

private:
  void start() {
    b_.common = inheritedAttrs(m_, plan_.collective);
    me_ = ops::axis_index(b_, plan_.axes);
    for (int64_t i = 0; i < plan_.devices; ++i)
      pairs_.push_back(b_.ints(std::array{i, (i + 1) % plan_.devices}));
  }
  Expr shifted(Expr chunk) {
    b_.common = inheritedAttrs(m_, plan_.collective);
    return permute(chunk, {.axes = plan_.axes, .pairs = m_.attrs.list(pairs_)});
  }
  // Of the chunk of the device that is `distance` after this one.
  Expr offsetAt(int64_t distance) {
    b_.common = inheritedAttrs(m_, plan_.collective);
    const int64_t ahead = (distance + 2 * plan_.devices) % plan_.devices;
    const Expr device = ahead == 0 ? me_ : mod(me_ + ahead, plan_.devices);
    return device * plan_.chunk;
  }
  static Expr added(Expr sum, Expr part) { return sum.valid() ? sum + part : part; }

  // The product of one chunk: `chunk` for the gathered value, slices of the others.
  Expr multiply(const RingProduct& p, Expr chunk, Expr offset) {
    b_.common = inheritedAttrs(m_, p.op);
    std::vector<ValueId> operands;
    for (uint32_t i = 0; i < m_[p.op].numOperands; ++i) {
      Expr x(b_, m_.operand(p.op, i));
      if (p.travels[i]) {
        x = chunk;
      } else if (p.dims[i] >= 0) {
        std::vector<Dim> sizes = x.dims();
        sizes[static_cast<size_t>(p.dims[i])] = Dim(plan_.chunk);
        x = dynamic_slice(x, starts(sizes.size(), p.dims[i], offset), sizes);
      }
      operands.push_back(x);
    }
    b_.common.clear(); // the op's own attributes include them
    const OpId made = b_.op(m_[p.op].kind, operands, m_[p.op].attrs);
    return {b_, m_.result(made)};
  }
  Expr written(const RingProduct& p, Expr all, Expr part, Expr offset) {
    if (!all.valid()) all = Expr(b_, b_.constant(0, m_[m_.result(p.op)].type));
    return dynamic_update_slice(all, part, starts(part.rank(), p.resultDim, offset));
  }
  static std::vector<ops::Arg> starts(size_t rank, int dim, Expr offset) {
    std::vector<ops::Arg> out(rank, 0);
    out[static_cast<size_t>(dim)] = offset;
    return out;
  }

  Builder& b_;
  Module& m_;
  const RingPlan& plan_;
  Expr me_;
  std::vector<AttrId> pairs_;
};

void replaceReads(Module& m, OpId o, const ValueMap& map) {
  for (ValueId& v : m.operands(o)) v = map(v);
  for (uint32_t r = 0; r < m[o].numRegions; ++r) {
    for (OpId inner : std::vector<OpId>(m[m.region(o, r)].ops)) replaceReads(m, inner, map);
    for (ValueId& v : m[m.region(o, r)].yields) v = map(v);
  }
}

} // namespace

void writeRing(Module& m, BlockId block, MeshId mesh, const RingPlan& plan, Diagnostics& diags) {
  std::vector<OpId> ring;
  Builder b(m, block, ring, diags);
  b.mesh = mesh;
  b.loc = m[plan.collective].loc;
  ValueMap map;
  const auto replace = [&](ValueId was, ValueId is) {
    std::swap(m[is].name, m[was].name);
    map.set(was, is);
  };
  if (plan.kind == CollectiveKind::AllGather) {
    const std::vector<ValueId> results = RingWriter(b, plan).gather();
    for (size_t i = 0; i < results.size(); ++i) replace(m.result(plan.products[i].op), results[i]);
  } else {
    const ValueId result = RingWriter(b, plan).scatter();
    replace(m.result(plan.collective), result);
  }
  std::vector<OpId>& ops = m[block].ops;
  std::vector<OpId> out(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(plan.first));
  for (OpId o : plan.order) {
    if (o.valid())
      out.push_back(o);
    else
      out.insert(out.end(), ring.begin(), ring.end());
  }
  out.insert(out.end(), ops.begin() + static_cast<ptrdiff_t>(plan.last) + 1, ops.end());
  for (size_t i = plan.first; i < out.size(); ++i) replaceReads(m, out[i], map);
  for (ValueId& v : m[block].yields) v = map(v);
  ops = std::move(out);
}

} // namespace dtc
