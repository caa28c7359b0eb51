// sort, top_k: computes an order of indices, then gathers the operands.
#include "import/HloImporter.h"
#include "import/HloRegions.h"
#include "import/HloTable.h"
#include "import/ShardyFollow.h"

namespace dtc {

namespace {

// One key of a lexicographic order: a value that depends only on the first element's arguments.
struct SortKey {
  MlirUse value;
  bool descending = false, total = false;
};

// The keys that a comparator orders by, the most significant first.
class Comparator {
public:
  Comparator(const HloContext& c, const MlirRegion& region) : c_(c), region_(region) {
    for (size_t i = 0; i < region.args.size(); ++i) {
      names_.push_back((i % 2 == 0 ? "a" : "b") + std::to_string(i / 2));
      swapped_.push_back((i % 2 == 0 ? "b" : "a") + std::to_string(i / 2));
    }
  }
  // Empty for other comparators.
  std::vector<SortKey> keys() {
    std::vector<SortKey> keys;
    if (region_.ops.empty() || region_.ops.back().operands.size() != 1) return {};
    return lexicographic(region_.ops.back().operands[0], keys, 0) ? keys : std::vector<SortKey>();
  }

private:
  static constexpr int kMaxKeys = 64;

  [[nodiscard]] std::string text(const MlirUse& v) const { return regionExpression(c_, region_, v, names_); }
  [[nodiscard]] std::string swapped(const MlirUse& v) const {
    return regionExpression(c_, region_, v, swapped_);
  }
  [[nodiscard]] const MlirOp* maker(const MlirUse& v, std::string_view name, size_t operands) const {
    const MlirOp* op = regionMaker(region_, v);
    return op && op->name.ends_with(name) && op->operands.size() == operands ? op : nullptr;
  }
  // True if a value depends only on these arguments.
  [[nodiscard]] static bool speaksOf(const std::string& text, char side) {
    bool found = false;
    for (size_t i = 0; i + 1 < text.size(); ++i) {
      const bool begins = i == 0 || text[i - 1] == '(' || text[i - 1] == ',';
      if (!begins || text[i + 1] < '0' || text[i + 1] > '9') continue;
      if (text[i] != side) return false;
      found = true;
    }
    return found;
  }

  // compare LT, f(a), f(b) and similar.
  bool strict(const MlirUse& v, SortKey& key) const {
    const MlirOp* op = maker(v, ".compare", 2);
    if (!op) return false;
    const std::string_view direction = compareWord(c_, *op, "comparison_direction");
    if (direction != "LT" && direction != "GT") return false;
    const std::string left = text(op->operands[0]);
    if (left.empty() || left != swapped(op->operands[1])) return false;
    const bool first = speaksOf(left, 'a');
    if (!first && !speaksOf(left, 'b')) return false;
    key.value = op->operands[first ? 0 : 1];
    key.descending = (direction == "GT") == first;
    key.total = compareWord(c_, *op, "compare_type") == "TOTALORDER";
    return true;
  }
  // True if v is the (in)equality of the key of both elements.
  bool equality(const MlirUse& v, const SortKey& key, std::string_view direction) const {
    const MlirOp* op = maker(v, ".compare", 2);
    if (!op || compareWord(c_, *op, "comparison_direction") != direction) return false;
    const std::string own = text(key.value), other = swapped(key.value);
    const std::string left = text(op->operands[0]), right = text(op->operands[1]);
    return (left == own && right == other) || (left == other && right == own);
  }

  // before | (equal & rest), select(equal, rest, before), select(unequal, before, rest)
  bool lexicographic(const MlirUse& v, std::vector<SortKey>& keys, int depth) {
    SortKey key;
    if (depth > kMaxKeys) return false;
    if (strict(v, key)) {
      keys.push_back(key);
      return true;
    }
    if (const MlirOp* either = maker(v, ".or", 2)) {
      for (size_t i = 0; i < 2; ++i) {
        const MlirOp* both = maker(either->operands[1 - i], ".and", 2);
        if (!both || !strict(either->operands[i], key)) continue;
        for (size_t k = 0; k < 2; ++k)
          if (equality(both->operands[k], key, "EQ")) {
            keys.push_back(key);
            return lexicographic(both->operands[1 - k], keys, depth + 1);
          }
      }
    }
    if (const MlirOp* choice = maker(v, ".select", 3))
      for (size_t i = 1; i < 3; ++i)
        if (strict(choice->operands[i], key) && equality(choice->operands[0], key, i == 1 ? "NE" : "EQ")) {
          keys.push_back(key);
          return lexicographic(choice->operands[3 - i], keys, depth + 1);
        }
    return false;
  }

  const HloContext& c_;
  const MlirRegion& region_;
  std::vector<std::string> names_, swapped_;
};

ValueId along(HloContext& c, OpName name, std::initializer_list<ValueId> operands, int64_t dim) {
  return c.emit(name, operands, {{"dim", c.intAttr(dim)}});
}

// Maps a comparator's key to elements that argsort orders the same way.
ValueId keyValue(HloContext& c, const MlirRegion& region, const SortKey& key,
                 std::span<const ValueId> operands) {
  std::vector<std::string> names(region.args.size());
  for (size_t i = 0; i < names.size(); ++i) names[i] = "x" + std::to_string(i / 2);
  const std::string text = regionExpression(c, region, key.value, names);
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string x = "x" + std::to_string(i);
    // JAX makes all NaNs equal and both zeros equal: argsort's own order.
    const std::string plain =
        "select(compare NE(" + x + "," + x + "),nan,select(compare EQ(" + x + ",0),0," + x + "))";
    if (text == plain) return operands[i];
    if (text == x) return key.total ? totalOrderKey(c, operands[i]) : operands[i];
  }
  std::vector<ValueId> args;
  for (ValueId v : operands) args.insert(args.end(), 2, v);
  const ValueId value = regionValue(c, region, key.value, args, c.shapeOf(operands[0]));
  return key.total ? totalOrderKey(c, value) : value;
}

// Sorts by the least significant key first: each sort is stable.
ValueId orderByKeys(HloContext& c, const MlirRegion& region, const std::vector<SortKey>& keys,
                    std::span<const ValueId> operands, int64_t dim) {
  ValueId order;
  for (size_t k = keys.size(); k-- > 0;) {
    ValueId key = keyValue(c, region, keys[k], operands);
    if (order.valid()) key = along(c, "gather", {key, order}, dim);
    const ValueId next =
        c.emit("argsort", {key}, {{"dim", c.intAttr(dim)}, {"descending", c.boolAttr(keys[k].descending)}});
    order = order.valid() ? along(c, "gather", {order, next}, dim) : next;
    if (!order.valid()) return {};
  }
  return order;
}

// For any comparator: the position of an element is the number of elements that precede it, including ties
// with a lower index. The order is the inverse of that permutation.
ValueId orderByCounting(HloContext& c, const MlirRegion& region, std::span<const ValueId> operands,
                        int64_t dim) {
  const std::vector<int64_t> shape = c.shapeOf(operands[0]);
  const auto at = static_cast<size_t>(dim);
  std::vector<int64_t> mine = shape, theirs = shape, pairs = shape;
  mine.insert(mine.begin() + dim + 1, 1); // [… i 1 …]
  theirs.insert(theirs.begin() + dim, 1); // [… 1 j …]
  pairs.insert(pairs.begin() + dim, shape[at]);
  std::vector<ValueId> before, after;
  for (ValueId v : operands) {
    const ValueId i = c.reshape(v, mine), j = c.reshape(v, theirs);
    before.insert(before.end(), {j, i});
    after.insert(after.end(), {i, j});
  }
  const std::vector<ValueId> less = c.inlineRegion(region, before, pairs);
  const std::vector<ValueId> more = c.inlineRegion(region, after, pairs);
  if (less.size() != 1 || more.size() != 1) return {};
  const TypeId numbers = c.tensorType(DType::I32, pairs);
  const ValueId i = c.emitTyped("iota", {}, {{"dim", c.intAttr(dim)}}, numbers);
  const ValueId j = c.emitTyped("iota", {}, {{"dim", c.intAttr(dim + 1)}}, numbers);
  const ValueId ties = c.emit("and", {c.emit("not", {more[0]}), c.emit("lt", {j, i})});
  const ValueId first = c.convert(c.emit("or", {less[0], ties}), DType::I32);
  const int64_t counted[] = {dim + 1};
  return along(c, "argsort", {c.emit("sum", {first}, {{"dims", c.intsAttr(counted)}})}, dim);
}

// The indices that sort the operands along a dim.
ValueId orderOf(HloContext& c, const MlirRegion& comparator, std::span<const ValueId> operands, int64_t dim) {
  const std::vector<SortKey> keys = Comparator(c, comparator).keys();
  return keys.empty() ? orderByCounting(c, comparator, operands, dim)
                      : orderByKeys(c, comparator, keys, operands, dim);
}

bool sort(HloContext& c) {
  if (c.lifted()) return c.fail("sorts, but an elementwise function is expected here");
  if (!c.expectRegions(1)) return false;
  const std::vector<ValueId> operands = c.tensors();
  if (operands.empty()) return c.fail("needs operands");
  const std::vector<int64_t> shape = c.shapeOf(operands[0]);
  const auto rank = static_cast<int64_t>(shape.size());
  auto given = c.integerOr("dimension", -1);
  if (!given) return false;
  const int64_t dim = *given < 0 ? *given + rank : *given;
  for (ValueId v : operands)
    if (c.shapeOf(v) != shape) return c.fail("needs operands of one shape");
  if (c.op.regions[0].args.size() != 2 * operands.size())
    return c.fail("needs a comparator of two arguments per operand");
  if (rank == 0 || elementsOf(shape) == 0) return c.setResults(operands);
  if (dim < 0 || dim >= rank) return c.failAttr("dimension", "is not a dim of the operands");
  const ValueId order = orderOf(c, c.op.regions[0], operands, dim);
  if (!order.valid()) return false;
  std::vector<ValueId> sorted;
  for (ValueId v : operands) sorted.push_back(along(c, "gather", {v, order}, dim));
  return c.setResults(sorted);
}

// As an attribute of the op, or in mhlo.attributes.
const MlirAttr* topKAttr(HloContext& c, std::string_view name) {
  if (const MlirAttr* own = c.attr(name)) return own;
  if (const MlirAttr* all = c.attr("mhlo.attributes"))
    for (const MlirNamedAttr& a : all->dict)
      if (a.name == name) return c.tree().resolve(a.value);
  return nullptr;
}

// Floats are ordered by totalOrder: NaN above infinity, -NaN below all, 0 above -0.
bool topK(HloContext& c) {
  const MlirAttr *count = topKAttr(c, "k"), *direction = topKAttr(c, "largest");
  const std::optional<int64_t> k = count ? std::optional(count->integer) : c.integer("k");
  const std::optional<bool> largest = !direction || direction->integer != 0;
  const ValueId x = c.operand(0);
  if (!k || !largest || !x.valid()) return false;
  const std::vector<int64_t> shape = c.shapeOf(x);
  if (shape.empty() || *k < 0 || *k > shape.back()) return c.failAttr("k", "exceeds the number of elements");
  const ValueId key = isBool(c.dtypeOf(x)) ? c.convert(x, DType::U8) : totalOrderKey(c, x);
  const OpId o =
      c.emitOp("topk", std::array{key}, {{"k", c.intAttr(*k)}, {"descending", c.boolAttr(*largest)}});
  if (!o.valid()) return false;
  const ValueId at = c.module.result(o, 1);
  const ValueId y = !isInteger(c.dtypeOf(x))
                        ? along(c, "gather", {x, at}, static_cast<int64_t>(shape.size()) - 1)
                        : c.module.result(o, 0);
  return c.setResult(0, y) && c.setResult(1, at);
}

// The first k in a comparator's order. Computed exactly, which satisfies any recall target.
bool approximateTopK(HloContext& c) {
  const MlirAttr* config = c.attr("mhlo.backend_config");
  const MlirAttr* called = c.attr("called_computations");
  int64_t k = -1, dim = -1;
  if (config)
    for (const MlirNamedAttr& a : config->dict) {
      if (a.name == "top_k") k = a.value.integer;
      if (a.name == "reduction_dim") dim = a.value.integer;
    }
  const size_t n = c.numOperands() / 2;
  const bool absent = called && called->list.size() == 1 && !c.importer.functionText(called->list[0].text);
  if ((!called || absent) && c.importer.shardy.used()) return unknownCall(c);
  if (!called || called->list.size() != 1 || k < 0 || dim < 0 || n == 0 || c.numOperands() != 2 * n)
    return c.fail("needs called_computations, and top_k and reduction_dim in its mhlo.backend_config");
  const MlirOp* comparator = c.importer.functionText(called->list[0].text);
  if (!comparator || comparator->regions.empty())
    return c.fail("calls a comparator that is not defined in this file");
  std::vector<ValueId> operands, out;
  for (size_t i = 0; i < n; ++i) operands.push_back(c.operand(i));
  const std::vector<int64_t> shape = c.shapeOf(operands[0]);
  const MlirRegion& region = comparator->regions[0];
  for (ValueId v : operands)
    if (!v.valid() || c.shapeOf(v) != shape) return c.fail("needs operands of one shape");
  if (dim >= static_cast<int64_t>(shape.size()) || k > shape[static_cast<size_t>(dim)] ||
      region.args.size() != 2 * n)
    return c.fail("takes more elements than there are");
  std::vector<int64_t> taken = shape;
  taken[static_cast<size_t>(dim)] = k;
  if (c.resultShape() != taken)
    return c.fail("returns top_k candidates, which depend on the machine; set aggregate_to_topk");
  const ValueId order = sliceAlong(c, orderOf(c, region, operands, dim), static_cast<size_t>(dim), 0, k);
  for (ValueId v : operands) out.push_back(along(c, "gather", {v, order}, dim));
  return c.setResults(out);
}

const HloRow kSortRows[] = {
    {"chlo.top_k", topK, 1},
    {"custom_call @ApproxTopK", approximateTopK},
    {"custom_call @mhlo.topk", topK, 1},
    {"mhlo.topk", topK, 1},
    {"stablehlo.sort", sort},
};

} // namespace

std::span<const HloRow> hloSortRows() { return kSortRows; }

} // namespace dtc
