// conv: convolution, and its transpose.
#include "window/Convolution.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Counted.h"
#include "window/Window.h"
#include <algorithm>

namespace dtc {

namespace {

using Window = ConvWindow;
using Shape = ConvShape;

constexpr int64_t kLargest = int64_t(1) << 31;

bool readWindows(const OpQuery& q, Shape& s) {
  const size_t count = q.type(0).rank() - 2;
  auto list = [&](const char* name, int64_t fallback, int64_t min) -> std::optional<std::vector<int64_t>> {
    if (!q.rawAttr(name).valid()) return std::vector<int64_t>(count, fallback);
    std::vector<int64_t> v = q.intsAttr(name);
    const auto wrong = std::ranges::find_if(v, [&](int64_t n) { return n < min || n >= kLargest; });
    if (v.size() == count && wrong == v.end()) return v;
    if (v.size() == count) {
      reportShape(q, "has " + std::string(name) + " = " + std::to_string(*wrong) + ": expected " +
                         std::to_string(min) + " to " + std::to_string(kLargest - 1));
      return std::nullopt;
    }
    reportShape(q, std::string("needs a ") + name + " of at least " + std::to_string(min) + " for each of " +
                       counted(count, "spatial dim"));
    return std::nullopt;
  };
  auto stride = list("stride", 1, 1), dilation = list("dilation", 1, 1), extra = list("output_padding", 0, 0);
  if (!stride || !dilation || !extra) return false;
  s.windows.assign(count, {});
  for (size_t i = 0; i < count; ++i)
    s.windows[i].stride = (*stride)[i], s.windows[i].dilation = (*dilation)[i],
    s.windows[i].extra = (*extra)[i];
  if (!s.transposed && q.rawAttr("output_padding").valid())
    return reportShape(q, "takes output_padding only with transposed = true");
  const AttrId padding = q.rawAttr("padding");
  if (!padding.valid()) return true;
  const AttrTable& attrs = q.module->attrs;
  const std::vector<AttrId>& pairs = attrs[padding].list;
  bool fits = pairs.size() == count;
  for (size_t i = 0; i < count && fits; ++i) {
    const std::vector<AttrId>& pair = attrs[pairs[i]].list;
    fits = pair.size() == 2 && std::abs(attrs[pair[0]].i) < kLargest && std::abs(attrs[pair[1]].i) < kLargest;
    if (fits) s.windows[i].low = attrs[pair[0]].i, s.windows[i].high = attrs[pair[1]].i;
  }
  return fits ||
         reportShape(q, "needs a padding [low, high] for each of " + std::to_string(count) + " spatial dims");
}

bool resultSizes(const OpQuery& q, Shape& s) {
  for (size_t i = 0; i < s.windows.size(); ++i) {
    Window& w = s.windows[i];
    const Dim size = q.type(0).dims[i + 2], length = q.type(1).dims[i + 2];
    if (!size.isStatic() || !length.isStatic())
      return reportShape(q, "needs static spatial sizes, not " + dimText(q, size));
    w.size = size.value(), w.length = length.value();
    if (w.size >= kLargest || w.length >= kLargest)
      return reportShape(q, "has a spatial dim of more than 2^31 elements");
    const int64_t reach = w.length == 0 ? 0 : w.dilation * (w.length - 1) + 1; // below 2^62
    if (s.transposed) {
      const int64_t covered = w.size == 0 ? 0 : w.stride * (w.size - 1) + reach;
      w.result = std::max<int64_t>(covered - w.low - w.high + w.extra, 0);
    } else {
      const int64_t room = w.size + w.low + w.high - reach;
      w.result = room < 0 ? 0 : room / w.stride + 1;
    }
    if (w.result >= kLargest) return reportShape(q, "has a result dim of more than 2^31 elements");
  }
  return true;
}

bool shapeOf(const OpQuery& q, Shape& s) {
  const Type &x = q.type(0), &w = q.type(1);
  if (x.rank() < 2) return reportRank(q, 0, "2 or more");
  if (w.rank() != x.rank()) return reportRank(q, 1, std::to_string(x.rank()));
  s.transposed = q.boolAttr("transposed");
  s.groups = q.intAttr("groups");
  if (s.groups < 1) return reportShape(q, "needs at least 1 group, not " + std::to_string(s.groups) + "");
  if (!readWindows(q, s)) return false;
  // x's channels correspond to w's dim 1 within a group; transposed, to w's dim 0.
  const Dim channels = x.dims[1], own = w.dims[s.transposed ? 0 : 1], grouped = w.dims[0];
  bool fits = s.groups == 1 || s.transposed ? channels == own : false;
  if (s.groups > 1) {
    if (!channels.isStatic() || !own.isStatic() || !grouped.isStatic())
      return reportShape(q, "takes groups only for static channel sizes");
    const auto needed = s.transposed ? std::optional(own.value()) : checkedMul(own.value(), s.groups);
    fits = needed == channels.value() && grouped.value() % s.groups == 0;
  }
  if (!fits)
    return reportShape(q, "has " + dimText(q, channels) + " channels in " + std::to_string(s.groups) +
                              (s.groups == 1 ? " group" : " groups") + ", which do not match a window of " +
                              typeText(*q.module, q.operandTypes[1]));
  return resultSizes(q, s);
}

// Letters: n; g groups, o channels of y and c of x per group. A spatial dim of x is sharded like the longer
// of y's and w's, which then fetches the rows that it reads. Sums over shards of w (as in w's gradient, where
// dy is the window) are partial sums.
bool convRule(const OpQuery& q, Rule& rule) {
  Shape s;
  if (!shapeOf(q, s)) return false;
  const Type &x = q.type(0), &w = q.type(1);
  const bool many = s.groups > 1;
  const uint16_t n = addFactor(rule, x.dims[0], "n");
  const uint16_t g = many ? addFactor(rule, Dim(s.groups), "g") : 0;
  const Dim across = w.dims[s.transposed ? 0 : 1], along = w.dims[s.transposed ? 1 : 0];
  auto part = [&](Dim d, bool perGroup) { return many && perGroup ? Dim(d.value() / s.groups) : d; };
  const uint16_t o = addFactor(rule, part(along, !s.transposed), "o");
  const uint16_t c = addFactor(rule, part(across, s.transposed), "c", FactorKind::Reduce);
  rule.factors[c].reduce = PendingKind::Sum;
  auto grouped = [&](uint16_t f) {
    return many ? DimMap{DimMap::Compound, {{g, 1}, {f, 1}}, 0} : plainDim(f);
  };
  TensorMap mx{{plainDim(n), grouped(c)}}, my{{plainDim(n), grouped(o)}}, mw;
  mw.dims = s.transposed ? std::vector{grouped(c), plainDim(o)} : std::vector{grouped(o), plainDim(c)};
  std::vector<uint16_t> summedOver = {c};
  for (size_t i = 0; i < s.windows.size(); ++i) {
    const std::string name = std::to_string(i);
    const Window& v = s.windows[i];
    const bool summed = v.length > v.result && !s.transposed;
    const uint16_t own = addUnsharded(rule, Dim(v.size), "x" + name),
                   k = addFactor(rule, Dim(v.length), "k" + name,
                                 summed ? FactorKind::Window : FactorKind::Whole),
                   y = addFactor(rule, Dim(v.result), "y" + name,
                                 summed ? FactorKind::Whole : FactorKind::Window);
    if (summed) rule.factors[k].reduce = PendingKind::Sum, summedOver.push_back(k);
    mx.dims.push_back(windowDim(freeDim(own), summed ? k : y));
    mw.dims.push_back(summed ? plainDim(k) : freeDim(k));
    my.dims.push_back(summed ? freeDim(y) : plainDim(y));
  }
  if (q.operandTypes.size() > 2) {
    const Dim width = many ? Dim(s.groups * rule.factors[o].size.value()) : rule.factors[o].size;
    if (q.type(2).rank() != 1 || !(q.type(2).dims[0] == width))
      return reportShape(q, "needs one bias for each of " + dimText(q, width) + " channels of the result");
    for (uint16_t f : summedOver) rule.joins.push_back({2, f});
  }
  rule.operands = {std::move(mx), std::move(mw)};
  if (q.operandTypes.size() > 2) rule.operands.push_back({{grouped(o)}});
  rule.results.push_back(std::move(my));
  return true;
}

// Shardings follow the longer of result and window: a dim of x is that many blocks, with the shorter one
// inside.
bool convFollow(const OpQuery& q, Rule& rule) {
  Shape s;
  if (!convRule(q, rule) || !shapeOf(q, s)) return false;
  for (size_t i = 0; i < s.windows.size(); ++i) {
    const Window& w = s.windows[i];
    const int64_t longer = std::max<int64_t>({w.result, w.length, 1}),
                  blocks = std::max<int64_t>(w.size / longer, 1);
    const bool window = w.length > w.result;
    const std::string name = std::to_string(i);
    const uint16_t y = addFactor(rule, Dim(window ? blocks : longer), "y" + name, FactorKind::Permute);
    const uint16_t k = addFactor(rule, Dim(window ? longer : blocks), "k" + name, FactorKind::Exchange);
    DimMap& x = rule.operands[0].dims[i + 2] = plainDim(window ? k : y);
    if (blocks > 1) x.terms.push_back({window ? y : k, 1});
    rule.operands[1].dims[i + 2] = plainDim(k);
    rule.results[0].dims[i + 2] = plainDim(y);
  }
  return true;
}

void convLocalize(const OpQuery& q, std::span<const TypeId> in, std::span<const TypeId> out,
                  AttrList& attrs) {
  if (q.intAttr("groups") > 1)
    setListed(attrs, q.module->strings.intern("groups"), q.module->attrs.integer(localGroups(q, in, out)));
}

// --- evaluation ---

// For each element of y: the sum over c and the window offsets k of x[n, …] * w[…], where x is 0 out of
// bounds (an infinity of w there gives NaN, on whichever device holds the 0). `value(t, i)` reads, `Sum`
// accumulates.
template <class Sum, class Value, class Store>
void convolve(const Shape& s, const Tensor& x, const Tensor& w, const Tensor& y, Value&& value,
              Store&& store) {
  const std::vector<int64_t> xs = x.strides(), ws = w.strides();
  const int64_t outputs = std::max<int64_t>(y.shape()[1] / s.groups, 1);
  const int64_t inputs = s.transposed ? w.shape()[0] / s.groups : w.shape()[1];
  const std::vector<int64_t> positions(w.shape().begin() + 2, w.shape().end());
  forEachElement(y.shape(), [&](std::span<const int64_t> at, int64_t flat) {
    const int64_t group = at[1] / outputs, own = at[1] % outputs;
    const int64_t xBase = at[0] * xs[0] + group * inputs * xs[1];
    const int64_t wBase = s.transposed ? group * inputs * ws[0] + own * ws[1] : at[1] * ws[0];
    const int64_t wStep = ws[s.transposed ? 0 : 1];
    Sum sum = 0;
    forEachElement(positions, [&](std::span<const int64_t> k, int64_t) {
      int64_t from = xBase, by = wBase;
      bool inside = true;
      for (size_t i = 0; i < k.size(); ++i) {
        const Window& v = s.windows[i];
        int64_t q = s.transposed ? at[i + 2] + v.low - v.dilation * k[i]
                                 : v.stride * at[i + 2] + v.dilation * k[i] - v.low;
        if (s.transposed && q % v.stride != 0) return;
        if (s.transposed) q /= v.stride;
        inside = inside && q >= 0 && q < v.size;
        from += q * xs[i + 2];
        by += k[i] * ws[i + 2];
      }
      for (int64_t c = 0; c < inputs; ++c)
        sum += (inside ? value(0, from + c * xs[1]) : 0) * value(1, by + c * wStep);
    });
    store(flat, at[1], sum);
  });
}

bool convEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  Shape s;
  if (!shapeOf(q, s)) return false;
  Tensor& y = *out[0];
  if (isFloat(q.type(0).dtype)) {
    std::vector<double> values[2];
    for (size_t t = 0; t < 2; ++t)
      for (int64_t i = 0; i < in[t]->numElements(); ++i) values[t].push_back(in[t]->getFloat(i));
    auto value = [&](int t, int64_t i) { return values[t][static_cast<size_t>(i)]; };
    auto store = [&](int64_t i, int64_t channel, auto sum) {
      y.setFloat(i, static_cast<double>(in.size() > 2 ? sum + in[2]->getFloat(channel) : sum));
    };
    if (q.exact) // otherwise as kernels accumulate
      convolve<long double>(s, *in[0], *in[1], y, value, store);
    else if (accumulationType(q.type(0).dtype) == DType::F32)
      convolve<float>(s, *in[0], *in[1], y, value, store);
    else
      convolve<double>(s, *in[0], *in[1], y, value, store);
    return true;
  }
  convolve<uint64_t>(
      s, *in[0], *in[1], y,
      [&](int t, int64_t i) { return static_cast<uint64_t>(in[static_cast<size_t>(t)]->getInt(i)); },
      [&](int64_t i, int64_t channel, uint64_t sum) {
        y.setInt(i, static_cast<int64_t>(in.size() > 2 ? sum + static_cast<uint64_t>(in[2]->getInt(channel))
                                                       : sum));
      });
  return true;
}

// --- kernels ---

uint32_t convElement(const OpQuery& q, ElementBuilder& b, size_t) {
  Shape s;
  if (!shapeOf(q, s)) return 0;
  const Type& w = q.type(1);
  const Dim inputs = w.dims[s.transposed ? 0 : 1];
  // Channels are accumulated innermost, as in channels-last libraries, so that results agree more closely
  // with theirs.
  std::vector<ElementNode> loops;
  for (const Window& k : s.windows) loops.push_back(b.loop(Dim(k.length)));
  const ElementNode c = b.loop(s.groups > 1 && s.transposed ? Dim(inputs.value() / s.groups) : inputs);
  loops.push_back(c);
  ElementNode from = c, own = b.at(1);
  if (s.groups > 1) {
    const int64_t outputs =
        std::max<int64_t>(s.transposed ? w.dims[1].value() : w.dims[0].value() / s.groups, 1);
    const int64_t each = s.transposed ? inputs.value() / s.groups : inputs.value();
    from = b.add(b.mul(b.floorDiv(b.at(1), outputs), each), from);
    if (s.transposed) own = b.mod(b.at(1), outputs);
  }
  std::vector<ElementNode> x = {b.at(0), from}, v = {own, c};
  if (s.transposed) v = {from, own};
  ElementNode hits = 0;
  bool tested = false;
  for (size_t i = 0; i < s.windows.size(); ++i) {
    const Window& k = s.windows[i];
    v.push_back(loops[i]);
    const ElementNode position = b.mul(loops[i], k.dilation);
    if (!s.transposed) {
      x.push_back(b.sub(b.add(b.mul(b.at(i + 2), k.stride), position), b.index(k.low)));
      continue;
    }
    const ElementNode to = b.sub(b.add(b.at(i + 2), b.index(k.low)), position);
    if (k.stride == 1) {
      x.push_back(to);
      continue;
    }
    // Division truncates: the operand is made positive by adding whole strides first.
    const int64_t steps = std::max<int64_t>(k.dilation * (k.length - 1) - k.low, 0) / k.stride + 1;
    const ElementNode up = b.add(to, b.index(steps * k.stride));
    x.push_back(b.sub(b.floorDiv(up, k.stride), b.index(steps)));
    const ElementNode hit = b.call("eq", {b.mod(up, k.stride), b.index(0)});
    hits = tested ? b.call("and", {hits, hit}) : hit;
    tested = true;
  }
  ElementNode product = b.call("mul", {b.load(0, x), b.load(1, v, true)});
  if (tested) product = b.call("select", {hits, product, b.number(0, accumulationType(q.type(0).dtype))});
  const ElementNode sum = b.sum(loops, product);
  if (q.operandTypes.size() < 3) return sum;
  const ElementNode channel[] = {b.at(1)};
  return b.call("add", {sum, b.load(2, channel, true)});
}

// --- gradients, which are convolutions ---

// For the forward form with x and dy: dw[g o, c, k] sums dy[n, g o, p] * x[n, g c, stride p + dilation k -
// low] over n and p: a convolution with batch c, channels (g n), and window dy.
Expr windowGradient(Expr x, Expr dy, const Shape& s) {
  const Type xt = x.type(), yt = dy.type();
  auto swapped = [&](std::vector<int64_t> front) { // and the spatial dims
    const size_t rank = front.size() + xt.rank() - 2;
    while (front.size() < rank) front.push_back(static_cast<int64_t>(front.size()));
    return front;
  };
  auto withSpatial = [&](std::vector<Dim> front) {
    front.insert(front.end(), xt.dims.begin() + 2, xt.dims.end());
    return front;
  };
  const Expr window = transpose(dy, swapped({1, 0})); // [(g o), n, …]
  Expr image;
  if (s.groups == 1) {
    image = transpose(x, swapped({1, 0})); // [c, n, …]
  } else {
    const Dim c(xt.dims[1].value() / s.groups), n = xt.dims[0];
    if (!n.isStatic()) return {};
    image = reshape(x, withSpatial({n, Dim(s.groups), c}));
    image = transpose(image, swapped({2, 1, 0})); // [c, g, n, …]
    image = reshape(image, withSpatial({c, Dim(s.groups * n.value())}));
  }
  ConvAttrs a;
  for (size_t i = 0; i < s.windows.size(); ++i) {
    const Window& w = s.windows[i];
    const int64_t p = yt.dims[i + 2].value(), size = xt.dims[i + 2].value();
    a.stride.push_back(w.dilation);
    a.dilation.push_back(w.stride);
    const int64_t reach = p == 0 ? 0 : w.stride * (p - 1) + 1;
    a.padding.push_back({w.low, w.dilation * (w.length - 1) + reach - size - w.low});
  }
  const Expr g = buildConv(image, window, {}, a, s.groups, false); // [c, (g o), k…]
  return transpose(g, swapped({1, 0}));
}

bool convGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  Diagnostics none;
  OpQuery q = queryOf(m, op, none);
  q.diags = &none;
  Shape s;
  if (!shapeOf(q, s)) return false;
  const Expr x(b, m.operand(op, 0)), w(b, m.operand(op, 1)), g(b, dy[0]);
  ConvAttrs a;
  for (const Window& v : s.windows) {
    if (v.length == 0 || v.size == 0 || v.result == 0) return false; // an empty sum
    a.stride.push_back(v.stride);
    a.dilation.push_back(v.dilation);
    a.padding.push_back({v.low, v.high});
    a.extra.push_back(v.size -
                      (v.stride * (v.result - 1) + v.dilation * (v.length - 1) + 1 - v.low - v.high));
  }
  dx.push_back(buildConv(g, w, {}, a, s.groups, !s.transposed));
  dx.push_back(s.transposed ? windowGradient(g, x, s) : windowGradient(x, g, s));
  if (!dx[1].valid()) return false;
  if (m[op].numOperands < 3) return true;
  std::vector<int64_t> others = {0};
  for (size_t d = 2; d < g.rank(); ++d) others.push_back(static_cast<int64_t>(d));
  dx.push_back(sum(g, {.dims = others}));
  return true;
}

} // namespace

int64_t localGroups(const OpQuery& q, std::span<const TypeId> in, std::span<const TypeId> out) {
  const int64_t groups = q.intAttr("groups");
  if (groups == 1) return groups;
  Module& m = *q.module;
  const Dim all = m.types[q.boolAttr("transposed") ? out[0] : in[0]].dims[1], each = m.types[in[1]].dims[1];
  // Shards of a group's channels may differ in size, but not in the number of groups: n/(a, b) of groups of
  // c/b channels.
  const MeshId mesh = q.mesh.valid() ? q.mesh : MeshId(0);
  auto ways = [&](Dim d) { return d.isStatic() ? 1 : m.shardings.mesh(mesh).sizeOf(m.dims.dynamic(d).axes); };
  const Dim n = m.dims.unsharded(all), c = m.dims.unsharded(each);
  if (!n.isStatic() || !c.isStatic() || c.value() == 0) return groups;
  return n.value() * ways(each) / (c.value() * ways(all));
}

bool convShapeOf(const OpQuery& q, ConvShape& s) { return shapeOf(q, s); }

bool isConvolution(const OpRecord& record) { return record.rule == convRule; }
bool isWindowGradient(const ConvShape& shape, std::span<const int64_t> order) {
  int64_t lengths = 1, results = 1;
  for (const ConvWindow& v : shape.windows) lengths *= v.length, results *= v.result;
  // The images of the other one are outermost, and its channels follow or are last.
  const bool swapped = order[1] == 0 && (order[0] == 1 || order[0] + 1 == static_cast<int64_t>(order.size()));
  return !shape.transposed && (lengths > results || swapped);
}
std::optional<ConvShape> convolutionOf(const OpQuery& q) {
  ConvShape s;
  if (!shapeOf(q, s)) return std::nullopt;
  return s;
}

static AttrId pairsAttr(Module& m, const std::vector<std::array<int64_t, 2>>& pairs) {
  std::vector<AttrId> list;
  for (const auto& p : pairs) list.push_back(m.attrs.integers(p));
  return m.attrs.list(std::move(list));
}
Expr buildConv(Expr x, ValueId w, ValueId bias, const ConvAttrs& a, int64_t groups, bool transposed) {
  return conv(x, w,
              {.b = bias,
               .stride = a.stride,
               .padding = pairsAttr(x.builder().module, a.padding),
               .dilation = a.dilation,
               .groups = groups,
               .transposed = transposed,
               .output_padding = transposed ? ops::IntsAttr(a.extra) : ops::kDefault});
}

void addConvolutionOps(OpRegistry& ops) {
  OpRecord& r = ops.add(
      {.name = "conv",
       .family = "window",
       .summary = "convolution of x [n, c, spatial…] with w [out, c / groups, spatial…], plus b; "
                  "transposed: w is [c, out / groups, spatial…], and the result is the input gradient "
                  "of a convolution"});
  r.operands = "x, w, b?";
  r.attrs = {
      {"stride", AttrType::Ints, "", "stride of the window per spatial dim; default: 1"},
      {"padding", AttrType::Pairs, "", "[[low, high], …]: zero padding of x, negative to crop; default: 0"},
      {"dilation", AttrType::Ints, "", "distance between window elements; default: 1"},
      {"groups", AttrType::Int, "1", "number of channel groups, each with its own windows"},
      {"transposed", AttrType::Bool, "false", "transposed convolution"},
      {"output_padding", AttrType::Ints, "", "transposed: additional size of the result; default: 0"}};
  r.rule = convRule;
  r.follow = convFollow;
  r.shard = shardConv;
  r.operandClasses = kNumbers;
  r.through = {linear(0b101),
               linear(0b110),
               {ThroughRow::Linear, 0b001, false, ~0u, kindBit(PendingKind::Avg)},
               {ThroughRow::Linear, 0b010, false, ~0u, kindBit(PendingKind::Avg)},
               {ThroughRow::Affine, 0b100}};
  r.localize = convLocalize;
  r.eval = convEval;
  r.element = convElement;
  r.complex = OpRecord::ComplexForm::Product;
  r.gradFn = convGrad;
  r.flopsPerPoint = 2;
  r.samples =
      "T[2, 3, 5], T[4, 3, 2]\nT[2, 3, 5, 4], T[4, 3, 3, 2], T[4] {stride = [2, 1], padding = [[1, 2], [0, "
      "1]]}\n"
      "T[1, 4, 6], T[6, 2, 2] {groups = 2, dilation = [2], padding = [[-1, 1]]}\n"
      "T[2, 3, 4], T[3, 2, 3], T[2] {transposed = true, stride = [2], padding = [[1, 0]], output_padding = "
      "[1]}\n"
      "T[1, 4, 3, 2], T[4, 2, 2, 2] {transposed = true, groups = 2, stride = [3, 1], dilation = [1, 2]}\n"
      "T[1, 2, 24], T[3, 2, 13] {stride = [3], dilation = [2], padding = [[1, 2]]}\n"
      "T[1, 2, 6, 8], T[2, 2, 5, 7] {padding = [[0, 0], [1, 0]]}\n"
      "T[2, 3], T[4, 3]";
  addPoolingOps(ops);
}

} // namespace dtc
