// If, Loop and Scan.
#include "dtc/Ops/Loop.h"
#include "import/OnnxContext.h"

#include <algorithm>

namespace dtc::onnx {

namespace {

std::optional<bool> knownFlag(OnnxContext& c, ValueId v) {
  const Tensor* t = c.state.constants.of(v);
  if (!t || t->numElements() != 1 || !isBool(t->dtype())) return std::nullopt;
  return t->getInt(0) != 0;
}

std::vector<Expr> bound(Builder& b, std::span<const ValueId> values) {
  std::vector<Expr> out;
  for (ValueId v : values) out.emplace_back(b, v);
  return out;
}

Expr asScalar(Expr x) { return reshapeTo(x, {}); }

ImportResults branches(OnnxContext& c, Expr p, ImportGraphRef yes, ImportGraphRef no) {
  return condition(
      c.b, p, [&](Builder& in) { return c.scope.inlined(yes, {}, in); },
      [&](Builder& in) { return c.scope.inlined(no, {}, in); });
}

// The input of the model that is the condition, or a placeholder.
std::string conditionName(const OnnxContext& c) {
  const auto* ref = std::get_if<ImportValueRef>(&c.node.arguments.at(0).value);
  for (const ImportInput& input : c.file.graphs[0].inputs)
    if (ref && input.value == *ref && !input.weight) return input.label;
  return "INPUT";
}

ImportResults ifRow(OnnxContext& c) {
  const Expr p = asScalar(c.in(0));
  const ImportGraphRef yes = c.graph("then_branch"), no = c.graph("else_branch");
  if (const auto known = knownFlag(c, p)) return bound(c.b, c.scope.inlined(*known ? yes : no, {}, c.b));
  try {
    return branches(c, p, yes, no);
  } catch (const BuildError& e) {
    c.fail("does not match its operands: " + e.what +
           "; one of them is imported if the condition is known: --bind " + conditionName(c) + "=FILE.npy");
  }
}

bool names(const ImportAttribute& a, ImportValueRef v) {
  if (const auto* one = std::get_if<ImportValueRef>(&a)) return one->valid() && one->index == v.index;
  const auto* list = std::get_if<std::vector<ImportValueRef>>(&a);
  return list &&
         std::ranges::any_of(*list, [&](ImportValueRef x) { return x.valid() && x.index == v.index; });
}

// Whether a node or an output of any graph reads the value.
bool isRead(const ImportFile& file, ImportValueRef v) {
  const auto byOutput = [&](const ImportOutput& o) { return names(o.value, v); };
  const auto byNode = [&](const ImportNode& n) {
    return std::ranges::any_of(n.arguments, [&](const ImportArgument& a) { return names(a.value, v); });
  };
  return v.valid() && std::ranges::any_of(file.graphs, [&](const ImportGraph& g) {
           return std::ranges::any_of(g.outputs, byOutput) || std::ranges::any_of(g.nodes, byNode);
         });
}

// What a loop's body returns: whether it goes on, the next values, and elements of the stacked results.
struct LoopNode {
  explicit LoopNode(OnnxContext& c) : c(c), body(c.graph("body")) {
    const ImportGraph& g = c.file.graphs[body.index];
    starts = c.operands(2);
    for (const Expr& x : starts)
      if (!x.valid()) c.fail("has an initial value that is absent");
    if (g.inputs.size() != starts.size() + 2 || g.outputs.size() < starts.size() + 1)
      c.fail("has a body whose inputs are not the iteration, the condition and the carried values");
    stacked = g.outputs.size() - 1 - starts.size();
    for (size_t i = starts.size(); i < c.node.results.size(); ++i)
      readsStacked = readsStacked || isRead(c.file, c.node.results[i]);
  }

  [[nodiscard]] std::vector<ValueId> inlined(Builder& in, Expr index, Expr goesOn,
                                             std::span<const ValueId> carried) const {
    std::vector<ValueId> inputs{index.as(DType::I64), goesOn};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    return c.scope.inlined(body, inputs, in);
  }

  OnnxContext& c;
  ImportGraphRef body;
  std::vector<Expr> starts;
  size_t stacked = 0;
  bool readsStacked = false; // whether anything reads a stacked result
};

struct ConditionVaries {};
struct TypesVary {};

// The iterations are counted, the body's condition is always true, and values keep their types.
std::vector<Expr> countedLoop(const LoopNode& n, Arg count) {
  return forLoop(n.c.b, 0, count, Values(n.starts),
                 [&](Builder& in, Expr index, std::span<const ValueId> carried) {
                   std::vector<ValueId> out = n.inlined(in, index, filled(in, DType::Bool, {}, 1), carried);
                   const auto goesOn = knownFlag(n.c, out[0]);
                   if (!goesOn || !*goesOn) throw ConditionVaries{};
                   out.erase(out.begin());
                   for (size_t i = 0; i < carried.size(); ++i)
                     if (!(Expr(in, out[i]).type() == Expr(in, carried[i]).type())) throw TypesVary{};
                   return out;
                 });
}

// Carries the iteration's number and the condition, too.
std::vector<Expr> conditionalLoop(const LoopNode& n, Expr count, Expr first) {
  OnnxContext& c = n.c;
  if (n.readsStacked)
    c.fail("stacks values, but the number of its iterations depends on data, so that the size of the result "
           "does, "
           "too, which dtc does not support");
  std::vector<Expr> starts{filledInt(c.b, DType::I64, {}, 0), first};
  starts.insert(starts.end(), n.starts.begin(), n.starts.end());
  const auto goesOn = [&](Builder& in, std::span<const ValueId> v) {
    Expr p(in, v[1]);
    if (count.valid()) p = p & lt(Expr(in, v[0]), Expr(in, count));
    return std::vector<ValueId>{p};
  };
  const auto body = [&](Builder& in, std::span<const ValueId> v) {
    const Expr index(in, v[0]);
    std::vector<ValueId> out = n.inlined(in, index, Expr(in, v[1]), v.subspan(2));
    out[0] = asScalar(Expr(in, out[0]));
    out.resize(1 + n.starts.size()); // without stacked values, which nothing reads
    out.insert(out.begin(), index + 1);
    return out;
  };
  std::vector<Expr> results = whileLoop(c.b, Values(starts), goesOn, body);
  results.erase(results.begin(), results.begin() + 2);
  return results;
}

// Values whose types change from iteration to iteration, such as one that grows: the iterations one by one.
std::vector<Expr> unrolled(const LoopNode& n, int64_t count) {
  std::vector<ValueId> carried(n.starts.begin(), n.starts.end());
  std::vector<std::vector<Expr>> stacks(n.stacked);
  Builder& b = n.c.b;
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<ValueId> out =
        n.inlined(b, filledInt(b, DType::I64, {}, i), filled(b, DType::Bool, {}, 1), carried);
    const auto goesOn = knownFlag(n.c, out[0]);
    if (!goesOn) n.c.fail("changes the types of its values, and ends by a condition that depends on data");
    carried.assign(out.begin() + 1, out.begin() + 1 + static_cast<int64_t>(carried.size()));
    for (size_t s = 0; s < n.stacked; ++s) stacks[s].emplace_back(b, out[1 + carried.size() + s]);
    if (!*goesOn) break;
  }
  std::vector<Expr> results = bound(b, carried);
  for (const auto& s : stacks) {
    if (s.empty()) n.c.fail("stacks the values of no iteration");
    results.push_back(stack(b, s, 0));
  }
  return results;
}

constexpr int64_t kMaxUnrolled = 64;

std::vector<Expr> knownLoop(const LoopNode& n, int64_t count) {
  Builder& b = n.c.b;
  const size_t before = b.out.size();
  if (count < 0 || count > INT32_MAX) n.c.fail("has a number of iterations that is out of range");
  try {
    return countedLoop(n, count);
  } catch (const TypesVary&) {
    if (count > kMaxUnrolled)
      n.c.fail("changes the types of its values in " + std::to_string(count) + " iterations; at most " +
               std::to_string(kMaxUnrolled) + " import");
  } catch (const BuildError&) { // an op that rejects the types of later iterations
    if (count > kMaxUnrolled) throw;
  }
  b.out.resize(before);
  return unrolled(n, count);
}

ImportResults loop(OnnxContext& c) {
  const LoopNode n(c);
  const Expr count = c.has(0) ? asScalar(c.in(0)).as(DType::I64) : Expr();
  const Expr first = c.has(1) ? asScalar(c.in(1)) : filled(c.b, DType::Bool, {}, 1);
  if (n.readsStacked) { // their size is the number of iterations
    if (c.has(0)) (void)c.known(0, "the number of iterations");
    if (c.has(1)) (void)c.known(1, "the condition");
  }
  const auto starts = knownFlag(c, first);
  const Tensor* known = count.valid() ? c.state.constants.of(count) : nullptr;
  const size_t before = c.b.out.size();
  if (starts && !*starts && !n.readsStacked) return n.starts;
  if (starts && *starts && count.valid()) try {
      if (known) return knownLoop(n, known->getInt(0));
      return countedLoop(n, count.as(DType::I32));
    } catch (const TypesVary&) {
      c.fail("changes the types of its values, but the number of its iterations is not known at import");
    } catch (const ConditionVaries&) {
      c.b.out.resize(before);
    }
  return conditionalLoop(n, count, first);
}

ImportResults scan(OnnxContext& c) {
  const ImportGraphRef body = c.graph("body");
  const ImportGraph& g = c.file.graphs[body.index];
  const std::vector<Expr> all = c.operands();
  const int64_t scanned = c.integer("num_scan_inputs");
  if (scanned < 1 || scanned > static_cast<int64_t>(all.size()) || g.inputs.size() != all.size())
    c.fail("has a body that does not take its operands");
  const size_t states = all.size() - static_cast<size_t>(scanned);
  if (g.outputs.size() < states) c.fail("has a body that does not return its states");
  const size_t outputs = g.outputs.size() - states;
  const auto list = [&](const char* name, size_t count) {
    const auto values = c.ints(name, std::vector<int64_t>(count, 0));
    if (values.size() != count) c.fail(std::string("has ") + std::to_string(values.size()) + " " + name);
    return values;
  };
  const auto inAxes = list("scan_input_axes", static_cast<size_t>(scanned)),
             inDirections = list("scan_input_directions", static_cast<size_t>(scanned));
  const auto outAxes = list("scan_output_axes", outputs),
             outDirections = list("scan_output_directions", outputs);
  std::vector<Expr> rows;
  for (size_t i = 0; i < static_cast<size_t>(scanned); ++i) {
    const Expr x = all[states + i];
    if (!x.valid() || x.rank() == 0) c.fail("scans a value without dims");
    const Expr first = moved(x, c.dim(inAxes.at(i), x.rank()), 0);
    rows.push_back(inDirections.at(i) ? flip(first, {0}) : first);
  }
  const int64_t count = c.shapeOf(rows[0]).at(0);
  const std::vector<Expr> starts(all.begin(), all.begin() + static_cast<int64_t>(states));
  std::vector<Expr> results =
      forLoop(c.b, 0, count, Values(starts), [&](Builder& in, Expr index, std::span<const ValueId> carried) {
        std::vector<ValueId> inputs(carried.begin(), carried.end());
        for (const Expr& row : rows) inputs.push_back(index_select(Expr(in, row), index, {.dim = 0}));
        return c.scope.inlined(body, inputs, in);
      });
  for (size_t i = 0; i < outputs; ++i) {
    Expr& y = results[states + i];
    if (outDirections.at(i)) y = flip(y, {0});
    y = moved(y, 0, c.dim(outAxes.at(i), y.rank()));
  }
  return results;
}

constexpr OnnxRow kControlRows[] = {{"If", ifRow, 11}, {"Loop", loop, 11}, {"Scan", scan, 9}};

} // namespace

std::span<const OnnxRow> controlRows() { return kControlRows; }

} // namespace dtc::onnx
