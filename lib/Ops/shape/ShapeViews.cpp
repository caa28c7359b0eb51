// reshape transpose broadcast expand_dims squeeze tile: ops fully described by an index rule.
#include "record/Entries.h"
#include "record/ShapeParts.h"

#include <algorithm>
#include <numeric>

namespace dtc {
namespace {

// --- reshape ---

// Infers the -1 of the written shape. Dims that are on both sides cancel before anything is multiplied, so
// that shards and symbols are supported.
bool reshapedDims(const OpQuery& q, std::vector<Dim>& out) {
  out = *sizesAttr(q, "shape");
  DimTable& dims = q.module->dims;
  std::vector<Dim> in = q.type(0).dims, rest;
  size_t unknown = out.size();
  for (size_t j = 0; j < out.size(); ++j) {
    if (out[j] == kInferred && unknown == out.size()) {
      unknown = j;
      continue;
    }
    if (!isSize(out[j]))
      return reportShape(q, "takes at most one -1 in its shape, and no other negative size");
    if (auto same = std::find(in.begin(), in.end(), out[j]); same != in.end())
      in.erase(same);
    else
      rest.push_back(out[j]);
  }
  std::optional<Dim> numerator = Dim(1), denominator = Dim(1);
  if (in.size() == 1)
    numerator = in[0]; // -1 may become a sharded size n/axes
  else
    for (Dim d : in)
      if (numerator) numerator = dims.mul(*numerator, d);
  for (Dim d : rest)
    if (denominator) denominator = dims.mul(*denominator, d);
  auto counted = [&](const std::optional<Dim>& n) { // "the 24 elements of "
    return n ? "the " + dimText(q, *n) + (*n == Dim(1) ? " element of " : " elements of ") : std::string();
  };
  auto sizeOf = [&] { return typeText(*q.module, q.operandTypes[0]); };
  if (unknown < out.size()) {
    std::optional<Dim> quotient = numerator;
    if (!denominator) quotient.reset();
    if (quotient && !isOneDim(*denominator)) quotient = dims.divExact(*quotient, *denominator);
    if (!quotient)
      return reportShape(q, "cannot infer the -1 of its shape: " + counted(numerator) + sizeOf() +
                                " cannot be divided by " +
                                (denominator ? dimText(q, *denominator) : "the other sizes"));
    out[unknown] = *quotient;
    return true;
  }
  if (numerator && denominator && *numerator == *denominator) return true;
  auto empty = [](const std::vector<Dim>& all) { return std::ranges::find(all, Dim(0)) != all.end(); };
  if (empty(q.type(0).dims) && empty(out)) return true; // with a dim of 0 the other sizes are irrelevant
  Type wanted{q.type(0).dtype, out};
  return reportShape(q, "cannot reshape " + counted(numerator) + sizeOf() + " to " + counted(denominator) +
                            typeText(*q.module, q.module->types.intern(wanted)));
}

// Finds the common factors of two lists of dims with equal products, from the major end.
class ViewFactors {
public:
  ViewFactors(const OpQuery& q, Rule& rule, std::vector<Dim> in, std::vector<Dim> out)
      : dims_(q.module->dims), rule_(rule), in_(std::move(in)), out_(std::move(out)) {}

  void run() {
    inMap_.dims.resize(in_.size());
    outMap_.dims.resize(out_.size());
    std::optional<Dim> a, b; // the remainders of the current dims
    while (nextDim(in_, i_, a) && nextDim(out_, j_, b)) step(a, b);
    rest(in_, inMap_, i_, a);
    rest(out_, outMap_, j_, b);
    rule_.operands.push_back(std::move(inMap_));
    rule_.results.push_back(std::move(outMap_));
  }

private:
  // Dims of size 1 are compounds of no factor.
  static bool nextDim(const std::vector<Dim>& dims, size_t& at, std::optional<Dim>& left) {
    while (!left && at < dims.size()) {
      if (isOneDim(dims[at]))
        ++at;
      else
        left = dims[at];
    }
    return left.has_value();
  }
  void take(std::optional<Dim>& left, size_t& at, Dim rest) {
    left = rest;
    if (isOneDim(rest)) left.reset(), ++at;
  }
  void share(Dim factor) {
    uint16_t f = addFactor(rule_, factor, "i" + std::to_string(rule_.factors.size()));
    inMap_.dims[i_].terms.push_back({f, 1});
    outMap_.dims[j_].terms.push_back({f, 1});
  }
  void step(std::optional<Dim>& a, std::optional<Dim>& b) {
    if (*a == *b) {
      share(*a);
      take(a, i_, Dim(1)), take(b, j_, Dim(1));
    } else if (auto q = quotient(*b, *a)) {
      share(*a);
      take(a, i_, Dim(1)), take(b, j_, *q);
    } else if (auto p = quotient(*a, *b)) {
      share(*b);
      take(b, j_, Dim(1)), take(a, i_, *p);
    } else {
      irregular(a, b);
    }
  }
  [[nodiscard]] std::optional<Dim> quotient(Dim a, Dim b) {
    if (b == Dim(0) || a == Dim(0)) return std::nullopt;
    return dims_.divExact(a, b);
  }
  // 12 x 8 -> 16 x 6: the greatest common divisor is still a factor; the following dims, until the products
  // are equal again, are unsharded.
  void irregular(std::optional<Dim>& a, std::optional<Dim>& b) {
    bool numbers = a->isStatic() && b->isStatic() && a->value() > 0 && b->value() > 0;
    if (numbers) {
      int64_t common = std::gcd(a->value(), b->value());
      if (common > 1) share(Dim(common));
      a = Dim(a->value() / common), b = Dim(b->value() / common);
    }
    std::optional<Dim> left = addFullDim(inMap_, i_, *a), right = addFullDim(outMap_, j_, *b);
    a.reset(), b.reset();
    ++i_, ++j_;
    while (left && right && !(*left == *right) && (i_ < in_.size() || j_ < out_.size())) {
      bool inLags = i_ < in_.size() && (j_ >= out_.size() || !numbers || less(*left, *right));
      if (inLags)
        left = dims_.mul(*left, in_[i_]), addFullDim(inMap_, i_, in_[i_]), ++i_;
      else
        right = dims_.mul(*right, out_[j_]), addFullDim(outMap_, j_, out_[j_]), ++j_;
    }
    if (left && right) return;
    for (; i_ < in_.size(); ++i_) addFullDim(inMap_, i_, in_[i_]);
    for (; j_ < out_.size(); ++j_) addFullDim(outMap_, j_, out_[j_]);
  }
  static bool less(Dim a, Dim b) { return a.isStatic() && b.isStatic() && a.value() < b.value(); }
  Dim addFullDim(TensorMap& map, size_t at, Dim size) {
    if (!isOneDim(size)) map.dims[at].terms.push_back({addUnsharded(rule_, size), 1});
    return size;
  }
  // Only dims of size 1 are left on the other side: this one is also 1, unless a dim is 0.
  void rest(const std::vector<Dim>& dims, TensorMap& map, size_t at, std::optional<Dim> left) {
    if (left) addFullDim(map, at++, *left);
    for (; at < dims.size(); ++at) addFullDim(map, at, dims[at]);
  }

  DimTable& dims_;
  Rule& rule_;
  std::vector<Dim> in_, out_;
  TensorMap inMap_, outMap_;
  size_t i_ = 0, j_ = 0;
};

bool reshapeRule(const OpQuery& q, Rule& rule) {
  std::vector<Dim> out;
  if (!reshapedDims(q, out)) return false;
  ViewFactors(q, rule, q.type(0).dims, std::move(out)).run();
  return true;
}

// A result dim without factors has size 1, or 0 if the products do not determine it: the shape does.
bool reshapeInfer(const OpQuery& q, std::vector<TypeId>& results) {
  std::vector<Dim> out;
  if (!reshapedDims(q, out)) return false;
  results.push_back(q.module->tensorType(q.type(0).dtype, out));
  return true;
}

bool copyAll(const OpQuery&, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  std::ranges::copy(in[0]->bytes(), out[0]->bytes().begin());
  return true;
}

// Maps the coordinates of the result to those of an operand element, by the factors of reshapeRule. A shared
// factor passes through. Between two of them, the dims of both sides enumerate the same elements in row-major
// order: coordinates are converted through the linear index, independently of sizes outside.
class ReshapeElement {
public:
  ReshapeElement(ElementBuilder& b, const Rule& rule)
      : b_(b), rule_(rule), coordinates_(rule.factors.size()) {}

  std::vector<ElementNode> run() {
    const TensorMap &in = rule_.operands[0], &out = rule_.results[0];
    for (size_t d = 0; d < out.dims.size(); ++d) split(factorsOf(out.dims[d]), b_.at(d));
    const std::vector<uint16_t> from = factorsOf(out), to = factorsOf(in);
    auto shared = [](const std::vector<uint16_t>& other) {
      return [&](uint16_t f) { return std::ranges::find(other, f) != other.end(); };
    };
    auto i = from.begin();
    auto j = to.begin();
    while (i != from.end() || j != to.end()) {
      const auto iEnd = std::find_if(i, from.end(), shared(to)),
                 jEnd = std::find_if(j, to.end(), shared(from));
      if (j != jEnd) split({j, jEnd}, joined({i, iEnd}));
      i = iEnd == from.end() ? iEnd : iEnd + 1;
      j = jEnd == to.end() ? jEnd : jEnd + 1;
    }
    std::vector<ElementNode> at;
    for (const DimMap& d : in.dims) at.push_back(joined(factorsOf(d)));
    return at;
  }

private:
  static std::vector<uint16_t> factorsOf(const DimMap& d) {
    std::vector<uint16_t> factors;
    for (const Term& t : d.terms) factors.push_back(t.factor);
    return factors;
  }
  static std::vector<uint16_t> factorsOf(const TensorMap& map) {
    std::vector<uint16_t> factors;
    for (const DimMap& d : map.dims)
      for (const Term& t : d.terms) factors.push_back(t.factor);
    return factors;
  }
  // Linearizes coordinates to a row-major index over the factors, and back.
  void split(const std::vector<uint16_t>& factors, ElementNode number) {
    for (size_t i = factors.size(); i-- > 0;) {
      const Dim size = rule_.factors[factors[i]].size;
      coordinates_[factors[i]] = i == 0 ? number : b_.mod(number, size);
      if (i > 0) number = b_.floorDiv(number, size);
    }
  }
  ElementNode joined(const std::vector<uint16_t>& factors) {
    ElementNode number = b_.index(0);
    for (uint16_t f : factors) number = b_.add(b_.mul(number, rule_.factors[f].size), coordinates_[f]);
    return number;
  }

  ElementBuilder& b_;
  const Rule& rule_;
  std::vector<ElementNode> coordinates_; // by factor
};

uint32_t reshapeElement(const OpQuery& q, ElementBuilder& b, size_t) {
  Rule rule;
  if (!reshapeRule(q, rule)) return 0;
  return b.load(0, ReshapeElement(b, rule).run(), true);
}

bool reshapeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  dx.push_back(reshape(Expr(b, dy[0]), b.module.typeOf(b.module.operand(op, 0)).dims));
  return true;
}

// --- transpose ---

std::optional<std::vector<int64_t>> permOf(const OpQuery& q) {
  std::vector<int64_t> perm = q.intsAttr("perm"), seen(q.type(0).rank());
  auto rank = static_cast<int64_t>(seen.size());
  bool ok = perm.size() == seen.size();
  for (int64_t& p : perm) {
    if (p < 0) p += rank;
    ok = ok && p >= 0 && p < rank && !seen[static_cast<size_t>(p)]++;
    if (!ok) break;
  }
  if (ok) return perm;
  if (q.diags)
    reportShape(q, "needs a perm that names each of the " + std::to_string(rank) + " dims from 0 to " +
                       std::to_string(static_cast<int64_t>(rank) - 1) + " once");
  return std::nullopt;
}

bool transposeRule(const OpQuery& q, Rule& rule) {
  auto perm = permOf(q);
  if (!perm) return false;
  addOperandFactors(q, 0, rule);
  TensorMap result;
  for (int64_t p : *perm) result.dims.push_back(rule.operands[0].dims[static_cast<size_t>(p)]);
  rule.results.push_back(std::move(result));
  return true;
}

bool transposeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  auto perm = permOf(queryOf(b.module, op, none));
  if (!perm) return false;
  std::vector<int64_t> inverse(perm->size());
  for (size_t i = 0; i < perm->size(); ++i)
    inverse[static_cast<size_t>((*perm)[i])] = static_cast<int64_t>(i);
  dx.push_back(transpose(Expr(b, dy[0]), inverse));
  return true;
}

// --- broadcast ---

bool broadcastRule(const OpQuery& q, Rule& rule) {
  std::vector<Dim> shape = *sizesAttr(q, "shape");
  const std::vector<Dim> in = q.type(0).dims;
  if (in.size() > shape.size())
    return reportShape(q, "cannot remove dims: " + std::to_string(in.size()) +
                              " dims cannot become a shape of " + std::to_string(shape.size()) + "");
  size_t lead = shape.size() - in.size();
  TensorMap x, y;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!isSize(shape[d])) return reportShape(q, "takes sizes of at least 0");
    uint16_t f = addFactor(rule, shape[d], "i" + std::to_string(d));
    y.dims.push_back(plainDim(f));
    if (d < lead) continue;
    Dim own = in[d - lead];
    if (own == shape[d])
      x.dims.push_back(plainDim(f));
    else if (isOneDim(own))
      x.dims.push_back(oneDim());
    else
      return reportShape(q, "cannot broadcast dim " + std::to_string(d - lead) + " of size " +
                                dimText(q, own) + " to " + dimText(q, shape[d]) + ": only size 1 broadcasts");
  }
  rule.operands.push_back(std::move(x));
  rule.results.push_back(std::move(y));
  return true;
}

bool broadcastGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Type in = b.module.typeOf(b.module.operand(op, 0)), out = b.module.typeOf(dy[0]);
  size_t lead = out.rank() - in.rank();
  std::vector<int64_t> summed;
  for (size_t d = 0; d < out.rank(); ++d)
    if (d < lead || !(in.dims[d - lead] == out.dims[d])) summed.push_back(static_cast<int64_t>(d));
  Expr g(b, dy[0]);
  if (!summed.empty()) g = sum(g, {.dims = summed});
  if (!(g.type() == in)) g = reshape(g, in.dims);
  dx.push_back(g);
  return true;
}

// --- expand_dims, squeeze ---

bool expandRule(const OpQuery& q, Rule& rule) {
  size_t rank = q.type(0).rank() + q.intsAttr("dims").size();
  auto dims = q.dimsAttr("dims", rank);
  if (!dims) return false;
  addOperandFactors(q, 0, rule);
  TensorMap y;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d)
    y.dims.push_back(std::binary_search(dims->begin(), dims->end(), static_cast<int64_t>(d))
                         ? oneDim()
                         : rule.operands[0].dims[next++]);
  rule.results.push_back(std::move(y));
  return true;
}

bool squeezeRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  if (!dims) return false;
  TensorMap x, y;
  for (size_t d = 0; d < q.type(0).rank(); ++d) {
    Dim size = q.type(0).dims[d];
    if (!std::binary_search(dims->begin(), dims->end(), static_cast<int64_t>(d))) {
      uint16_t f = addFactor(rule, size, "i" + std::to_string(d));
      x.dims.push_back(plainDim(f));
      y.dims.push_back(plainDim(f));
    } else if (isOneDim(size)) {
      x.dims.push_back(oneDim());
    } else {
      return reportShape(q, "removes dims of size 1 only, but dim " + std::to_string(d) + " has size " +
                                dimText(q, size));
    }
  }
  rule.operands.push_back(std::move(x));
  rule.results.push_back(std::move(y));
  return true;
}

// --- tile ---

// A tiled dim is (repeat, element): the repeats of a sharded result are made locally.
bool tileRule(const OpQuery& q, Rule& rule) {
  std::vector<Dim> repeats = *sizesAttr(q, "repeats");
  if (repeats.size() != q.type(0).rank())
    return reportEntries(q, "repeats", repeats.size(), q.type(0).rank());
  TensorMap x, y;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (!isSize(repeats[d])) return reportShape(q, "takes repeats of at least 0");
    Dim own = q.type(0).dims[d];
    DimMap out;
    if (!isOneDim(repeats[d])) out.terms.push_back({addFactor(rule, repeats[d], "r" + std::to_string(d)), 1});
    if (isOneDim(own)) {
      x.dims.push_back(oneDim());
    } else {
      uint16_t f = addFactor(rule, own, "i" + std::to_string(d));
      x.dims.push_back(plainDim(f));
      out.terms.push_back({f, 1});
    }
    y.dims.push_back(std::move(out));
  }
  rule.operands.push_back(std::move(x));
  rule.results.push_back(std::move(y));
  return true;
}

void tileLocalize(const OpQuery& q, std::span<const TypeId> operands, std::span<const TypeId> results,
                  AttrList& attrs) {
  std::vector<Dim> repeats = *sizesAttr(q, "repeats");
  const std::vector<Dim> in = q.module->types[operands[0]].dims, out = q.module->types[results[0]].dims;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (out[d] == in[d]) {
      if (!(in[d] == Dim(0))) repeats[d] = Dim(1);
    } else if (isOneDim(in[d])) {
      repeats[d] = out[d];
    } else if (auto n = q.module->dims.divExact(out[d], in[d])) {
      repeats[d] = *n;
    }
  }
  setListed(attrs, q.module->strings.intern("repeats"), sizesAttr(*q.module, repeats));
}

// Sums over the repeats: reduces [r0, i0, r1, i1, …] over the even dims.
bool tileGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  std::vector<Dim> repeats = *sizesAttr(queryOf(b.module, op, none), "repeats"), split;
  const std::vector<Dim> in = b.module.typeOf(b.module.operand(op, 0)).dims;
  std::vector<int64_t> summed;
  for (size_t d = 0; d < in.size(); ++d) {
    summed.push_back(static_cast<int64_t>(split.size()));
    split.push_back(repeats[d]);
    split.push_back(in[d]);
  }
  Expr g(b, dy[0]);
  if (!in.empty()) g = sum(reshape(g, split), {.dims = summed});
  dx.push_back(g);
  return true;
}

} // namespace

void addShapeOps(OpRegistry& ops) {
  addViewOps(ops);
  addSliceOps(ops);
  addReorderOps(ops);
  addDynamicSliceOps(ops);
}

void addViewOps(OpRegistry& ops) {
  OpRecord& reshape = ops.add(dataMovement(
      "reshape", "shape", "the same elements in row-major order with another shape (one -1 is inferred)"));
  reshape.attrs = {{"shape", AttrType::Sizes}};
  reshape.rule = reshapeRule;
  reshape.infer = reshapeInfer;
  reshape.eval = copyAll;
  reshape.element = reshapeElement;
  reshape.localize = localizeShape;
  reshape.gradFn = reshapeGrad;
  reshape.samples = "T[6, 4] {shape = [24]}\n"
                    "T[24] {shape = [4, 6]}\n"
                    "T[4, 6] {shape = [2, 12]}\n"
                    "T[2, 3, 4] {shape = [6, -1]}\n"
                    "T[12, 8] {shape = [16, 6]}\n"
                    "T[5, 1, 3] {shape = [5, 3, 1]}\n"
                    "T[4, 3] {shape = [1, 4, 3]}";
  reshape.identityWhenSameType = true;

  OpRecord& transpose =
      ops.add(dataMovement("transpose", "shape", "permutes the dims: dim i of y is dim perm[i] of x"));
  transpose.attrs = {{"perm", AttrType::Dims}};
  transpose.rule = transposeRule;
  transpose.gradFn = transposeGrad;
  transpose.samples = "T[5, 3] {perm = [1, 0]}\n"
                      "T[2, 3, 4] {perm = [2, 0, 1]}";

  OpRecord& broadcast =
      ops.add(dataMovement("broadcast", "shape", "broadcasts x along new leading dims and dims of size 1"));
  broadcast.attrs = {{"shape", AttrType::Sizes}};
  broadcast.rule = broadcastRule;
  broadcast.localize = localizeShape;
  broadcast.gradFn = broadcastGrad;
  broadcast.samples = "T[3] {shape = [4, 3]}\n"
                      "T[5, 1] {shape = [5, 3]}\n"
                      "T[] {shape = [4]}";
  broadcast.identityWhenSameType = true;

  OpRecord& expand =
      ops.add(dataMovement("expand_dims", "shape", "inserts dims of size 1; `dims` are dims of the result"));
  expand.attrs = {{"dims", AttrType::Dims}};
  expand.rule = expandRule;
  expand.gradFn = reshapeGrad;
  expand.samples = "T[5, 3] {dims = [1]}\n"
                   "T[5] {dims = [0, 2]}";
  expand.identityWhenSameType = true;

  OpRecord& squeeze =
      ops.add(dataMovement("squeeze", "shape", "removes the dims of size 1 listed in `dims`"));
  squeeze.attrs = {{"dims", AttrType::Dims}};
  squeeze.rule = squeezeRule;
  squeeze.gradFn = reshapeGrad;
  squeeze.samples = "T[5, 1, 3] {dims = [1]}\n"
                    "T[1, 4] {dims = [0]}";
  squeeze.identityWhenSameType = true;

  OpRecord& tile = ops.add(dataMovement("tile", "shape", "repeats x along each dim `repeats` times"));
  tile.attrs = {{"repeats", AttrType::Sizes}};
  tile.rule = tileRule;
  tile.localize = tileLocalize;
  tile.gradFn = tileGrad;
  tile.samples = "T[5, 3] {repeats = [2, 1]}\n"
                 "T[4, 1] {repeats = [2, 5]}\n"
                 "T[2, 3] {repeats = [4, 6]}";
  tile.identityWhenSameType = true;
}

} // namespace dtc
