// dynamic_slice, dynamic_update_slice: a window whose start is data-dependent.
#include "dtc/Ops/ShardedOp.h"
#include "dtc/Support/Result.h"
#include "record/Entries.h"
#include "record/ShapeParts.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dtc {
namespace {

inline constexpr DiagKind kWindowTooLong{"window-too-long",
                                         "'{0}' takes {1} elements of dim {2} of {3}, which has {4}"};

// The operand positions: x[, update], one start per dim[, offsets of the shard of x].
struct Window {
  size_t firstStart = 1, rank = 0;
  std::vector<Dim> global, sizes; // of x (of the global x, if this is a shard) and of the window
  [[nodiscard]] bool slices(size_t d) const { return !(global[d] == sizes[d]); }
};

// The range of the dtype of a start.
double maxOf(DType d) {
  return isUnsignedInt(d) ? std::ldexp(1.0, 8 * static_cast<int>(dtypeBytes(d))) - 1
                          : static_cast<double>(intMax(d));
}

bool windowOf(const OpQuery& q, Window& w) {
  const Type x = q.type(0);
  w.rank = x.rank();
  w.global = x.dims;
  if (std::string_view(q.record->name) == "dynamic_slice") {
    w.sizes = *sizesAttr(q, "sizes");
    if (w.sizes.size() != w.rank || !std::all_of(w.sizes.begin(), w.sizes.end(), isSize))
      return w.sizes.size() != w.rank ? reportEntries(q, "sizes", w.sizes.size(), w.rank)
                                      : reportShape(q, "takes sizes of at least 0");
  } else {
    w.firstStart = 2;
    if (q.type(1).rank() != w.rank) return reportRank(q, 1, std::to_string(w.rank));
    w.sizes = q.type(1).dims;
    if (std::vector<Dim> limits = sizesAttr(q, "limits").value_or(std::vector<Dim>()); !limits.empty()) {
      if (limits.size() != w.rank || !std::all_of(limits.begin(), limits.end(), isSize))
        return limits.size() != w.rank ? reportEntries(q, "limits", limits.size(), w.rank)
                                       : reportShape(q, "takes limits of at least 0");
      w.global = std::move(limits);
    }
  }
  const size_t given = q.operandTypes.size() - std::min(q.operandTypes.size(), w.firstStart);
  if (given < w.rank || given > 2 * w.rank)
    return reportShape(q, "needs " + std::to_string(w.rank) + " starts, one for each dim of " +
                              q.operandText(0) + ", but " + std::to_string(given) +
                              (given == 1 ? " is given" : " are given"));
  for (size_t i = w.firstStart; i < q.operandTypes.size(); ++i)
    if (q.type(i).rank() != 0) return reportRank(q, i, "0");
  for (size_t d = 0; d < w.rank; ++d)
    if (w.sizes[d].isStatic() && w.global[d].isStatic() && w.sizes[d].value() > w.global[d].value())
      return q.diags->fail(kWindowTooLong, q.loc, q.record->name, w.sizes[d].value(), d, q.operandText(0),
                           w.global[d].value());
  return true;
}

// Dims taken in full pass. Along the others each device reads its own rows for a slice, and writes them for
// an update.
bool windowRule(const OpQuery& q, Rule& rule) {
  Window w;
  if (!windowOf(q, w)) return false;
  const bool updates = w.firstStart == 2;
  TensorMap x, window;
  for (size_t d = 0; d < w.rank; ++d) {
    const std::string name = "i" + std::to_string(d), own = "w" + std::to_string(d);
    const Dim size = q.type(0).dims[d];
    if (!w.slices(d)) {
      x.dims.push_back(plainDim(addFactor(rule, size, name)));
      window.dims.push_back(x.dims.back());
    } else if (updates) {
      x.dims.push_back(plainDim(addFactor(rule, size, name, FactorKind::Place)));
      window.dims.push_back(freeDim(addUnsharded(rule, w.sizes[d], own)));
    } else {
      x.dims.push_back(freeDim(addFactor(rule, size, name, FactorKind::Owner)));
      window.dims.push_back(freeDim(addUnsharded(rule, w.sizes[d], own)));
    }
  }
  rule.operands = {x};
  if (updates) rule.operands.push_back(window);
  rule.operands.resize(q.operandTypes.size());
  rule.results.push_back(updates ? std::move(x) : std::move(window));
  return true;
}

void sliceLocalize(const OpQuery& q, std::span<const TypeId>, std::span<const TypeId> results,
                   AttrList& attrs) {
  setListed(attrs, q.module->strings.intern("sizes"), sizesAttr(*q.module, q.module->types[results[0]].dims));
}

void updateLocalize(const OpQuery& q, std::span<const TypeId> operands, std::span<const TypeId>,
                    AttrList& attrs) {
  Window w;
  if (!windowOf(q, w)) return;
  const std::vector<Dim>& local = q.module->types[operands[0]].dims;
  bool sharded = false;
  for (size_t d = 0; d < w.rank; ++d) {
    sharded = sharded || (w.slices(d) && !(local[d] == w.global[d]));
    if (!w.slices(d)) w.global[d] = local[d];
  }
  if (sharded) setListed(attrs, q.module->strings.intern("limits"), sizesAttr(*q.module, w.global));
}

// The start of the window in this device's x; offsets are in the order of the sliced dims.
std::vector<int64_t> startsOf(const OpQuery& q, const Window& w, std::span<const Tensor* const> in) {
  std::vector<int64_t> starts;
  size_t offset = w.firstStart + w.rank;
  const bool limited = w.firstStart == 2 && sizesAttr(q, "limits").has_value();
  for (size_t d = 0; d < w.rank; ++d) {
    const int64_t global = limited ? w.global[d].value() : in[0]->shape()[d];
    const int64_t size = w.firstStart == 2 ? in[1]->shape()[d] : w.sizes[d].value();
    const Tensor& given = *in[w.firstStart + d];
    int64_t start = given.getInt(0);
    if (given.dtype() == DType::U64 && start < 0) start = global;
    start = std::clamp<int64_t>(start, 0, std::max<int64_t>(global - size, 0));
    if (w.slices(d) && offset < in.size()) start -= in[offset++]->getInt(0);
    starts.push_back(start);
  }
  return starts;
}

bool sliceEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  Window w;
  if (!windowOf(q, w)) return false;
  const std::vector<int64_t> starts = startsOf(q, w, in), strides = in[0]->strides();
  const int64_t first = flatten(starts, strides);
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    copyElement(*out[0], i, *in[0], first + flatten(at, strides));
  });
  return true;
}

bool updateEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  Window w;
  if (!windowOf(q, w)) return false;
  const std::vector<int64_t> starts = startsOf(q, w, in), strides = in[0]->strides();
  for (int64_t i = 0; i < in[0]->numElements(); ++i) copyElement(*out[0], i, *in[0], i);
  std::vector<int64_t> to(w.rank);
  forEachElement(in[1]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    for (size_t d = 0; d < w.rank; ++d) {
      to[d] = starts[d] + at[d];
      if (to[d] < 0 || to[d] >= in[0]->shape()[d]) return;
    }
    copyElement(*out[0], flatten(to, strides), *in[1], i);
  });
  return true;
}

// The window's first coordinate along dim d in this device's x; `offset` is the operand with the next offset.
ElementNode startNode(const OpQuery& q, ElementBuilder& b, const Window& w, size_t d, size_t& offset) {
  const size_t operand = w.firstStart + d;
  const ElementNode last = b.sub(b.size(w.global[d]), b.size(w.sizes[d]));
  const ElementNode given = b.load(operand, {}, true);
  ElementNode start = b.convert(given, DType::I64);
  if (q.type(operand).dtype == DType::U64)
    start = b.call("select", {b.call("lt", {start, b.index(0)}), last, start});
  start = b.call("max", {b.call("min", {start, last}), b.index(0)});
  if (offset < q.operandTypes.size()) start = b.sub(start, b.convert(b.load(offset++, {}, true), DType::I64));
  return start;
}

uint32_t sliceElement(const OpQuery& q, ElementBuilder& b, size_t) {
  Window w;
  DTC_CHECK(windowOf(q, w), "a dynamic_slice that was not verified");
  std::vector<ElementNode> at = ownCoordinates(b, w.rank);
  size_t none = q.operandTypes.size();
  for (size_t d = 0; d < w.rank; ++d)
    if (w.slices(d)) at[d] = b.add(startNode(q, b, w, d, none), at[d]);
  return b.load(0, at, true);
}

uint32_t updateElement(const OpQuery& q, ElementBuilder& b, size_t) {
  Window w;
  DTC_CHECK(windowOf(q, w), "a dynamic_update_slice that was not verified");
  const std::vector<ElementNode> own = ownCoordinates(b, w.rank);
  std::vector<ElementNode> from = own;
  size_t offset = w.firstStart + w.rank;
  ElementNode inside = 0;
  bool tested = false;
  for (size_t d = 0; d < w.rank; ++d) {
    if (!w.slices(d)) continue;
    from[d] = b.sub(own[d], startNode(q, b, w, d, offset));
    const ElementNode test =
        b.call("and", {b.call("ge", {from[d], b.index(0)}), b.call("lt", {from[d], b.size(w.sizes[d])})});
    inside = tested ? b.call("and", {inside, test}) : test;
    tested = true;
  }
  if (!tested) return b.load(1, own, true);
  return b.call("select", {inside, b.load(1, from), b.load(0, own, true)});
}

// Stores the window, and copies the rest unless x is updated in place.
bool updateStores(const OpQuery& q, ElementBuilder& b) {
  Window w;
  DTC_CHECK(windowOf(q, w), "a dynamic_update_slice that was not verified");
  const Type x = q.type(0), update = q.type(1);
  if (std::none_of(w.sizes.begin(), w.sizes.end(),
                   [&](const Dim& d) { return w.slices(static_cast<size_t>(&d - w.sizes.data())); }))
    return false;
  auto startsIn = [&] {
    std::vector<ElementNode> starts;
    size_t offset = w.firstStart + w.rank;
    for (size_t d = 0; d < w.rank; ++d)
      starts.push_back(w.slices(d) ? startNode(q, b, w, d, offset) : b.index(0));
    return starts;
  };
  auto within = [&](ElementNode at, Dim size) {
    return b.call("and", {b.call("ge", {at, b.index(0)}), b.call("lt", {at, b.size(size)})});
  };
  auto both = [&](ElementNode p, ElementNode test) {
    return p == ElementBuilder::kAlways ? test : b.call("and", {p, test});
  };
  b.begin();
  std::vector<ElementNode> starts = startsIn(), at;
  ElementNode inside = ElementBuilder::kAlways;
  for (size_t d = 0; d < w.rank; ++d) {
    at.push_back(b.axis(x.dims[d]));
    if (w.slices(d)) inside = both(inside, within(b.sub(at[d], starts[d]), w.sizes[d]));
  }
  b.copy(0, at, b.call("not", {inside}));
  b.begin();
  starts = startsIn();
  at.clear();
  std::vector<ElementNode> to;
  ElementNode here = ElementBuilder::kAlways;
  for (size_t d = 0; d < w.rank; ++d) {
    at.push_back(b.axis(update.dims[d]));
    to.push_back(w.slices(d) ? b.add(starts[d], at[d]) : at[d]);
    if (w.slices(d) && q.operandTypes.size() > w.firstStart + w.rank)
      here = both(here, within(to[d], x.dims[d]));
  }
  b.store(0, to, b.load(1, at, true), here);
  return true;
}

// The part of the window in a shard, zero elsewhere, summed: for dims that are sharded, as in a lookup.
bool shardDynamicSlice(ShardedOp& op, std::vector<ValueId>& results) {
  Window w;
  if (!windowOf(op.global, w)) return false;
  Builder& b = op.b;
  std::vector<ValueId> operands = op.operands;
  std::vector<Dim> sizes = w.sizes;
  Expr y = op.value(operands[0]);
  for (size_t d = 0; d < w.rank; ++d) {
    if (!w.slices(d) || !op.operandFactor(0, d).isSharded()) continue;
    if (!w.sizes[d].isStatic() || !w.global[d].isStatic()) return false;
    const Expr given = op.value(operands[w.firstStart + d]);
    const double last = static_cast<double>(w.global[d].value() - w.sizes[d].value());
    const Expr start = clamp(given, 0, std::min(last, maxOf(given.dtype()))).as(DType::I32);
    const TypeId rows = b.module.tensorType(DType::I32, std::array{w.sizes[d]});
    const Expr row = ops::iota(b, rows, {.dim = 0}) + start;
    y = index_select(y, row, {.offset = op.shardOffset(w.global[d], op.operandFactor(0, d).axes), .dim = d});
    operands[w.firstStart + d] = b.literal(0, DType::I32);
  }
  bool more = false; // sliced but unsharded dims
  for (size_t d = 0; d < w.rank; ++d) {
    more = more || (w.slices(d) && !op.operandFactor(0, d).isSharded());
    if (!w.slices(d)) sizes[d] = op.typeOf(y).dims[d];
  }
  if (more) y = dynamic_slice(y, std::span<const ValueId>(operands).subspan(1), sizes);
  results.push_back(op.fromOne(y));
  return true;
}

// dx: the cotangent, written at its position into zeros.
bool sliceGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const std::vector<ValueId> operands(m.operands(op).begin(), m.operands(op).end());
  dx.resize(operands.size());
  const Expr zeros(b, b.constant(0, m[operands[0]].type));
  dx[0] = dynamic_update_slice(zeros, dy[0], std::span(operands).subspan(1));
  return true;
}

bool updateGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const std::vector<ValueId> operands(m.operands(op).begin(), m.operands(op).end());
  const auto starts = std::span(operands).subspan(2);
  dx.resize(operands.size());
  const TypeId update = m[operands[1]].type;
  const Expr g(b, dy[0]);
  dx[0] = dynamic_update_slice(g, b.constant(0, update), starts);
  dx[1] = dynamic_slice(g, starts, m.types[update].dims);
  return true;
}

} // namespace

void addDynamicSliceOps(OpRegistry& ops) {
  OpRecord& slice =
      ops.add(dataMovement("dynamic_slice", "shape",
                           "the window of `sizes` at the starts, which are clamped so that it is within x"));
  slice.operands = "x, starts...";
  slice.operandTypes = "T, int";
  slice.attrs = {{"sizes", AttrType::Sizes}};
  slice.rule = windowRule;
  slice.follows = OpRecord::Follows::ForwardFirst;
  slice.localize = sliceLocalize;
  slice.eval = sliceEval;
  slice.shard = shardDynamicSlice;
  slice.element = sliceElement;
  slice.gradFn = sliceGrad;
  slice.samples = "T[5, 3], i32[] in -2..7, 0 {sizes = [2, 3]}\n"
                  "T[5, 4], i32[] in 0..4, i32[] in 0..4 {sizes = [1, 2]}\n"
                  "T[5], u8[] in 0..5 {sizes = [5]}";

  OpRecord& update = ops.add(
      dataMovement("dynamic_update_slice", "shape",
                   "x with the update written at the starts, which are clamped so that it is within x"));
  update.operands = "x, update, starts...";
  update.operandTypes = "T, T, int";
  update.attrs = {{"limits", AttrType::Sizes, "",
                   "set by partition: the global sizes that starts are clamped to; the shard's offsets "
                   "follow the starts"}};
  update.rule = windowRule;
  update.follows = OpRecord::Follows::ForwardFirst;
  update.through = {{ThroughRow::Choosing, 0b11}};
  update.localize = updateLocalize;
  update.offsetOperand = 2; // after the starts
  update.eval = updateEval;
  update.element = updateElement;
  update.stores = updateStores;
  update.rewrites = 0;
  update.gradFn = updateGrad;
  update.samples = "T[5, 3], T[2, 3], i32[] in -2..7, 0\n"
                   "T[5, 4], T[1, 2], i32[] in 0..4, i32[] in 0..4\n"
                   "T[5], T[2], u8[] in 0..5";
}

} // namespace dtc
