#pragma once
// One op is one record (architecture.md §2): everything that any consumer knows of an op stands in it. lib/Ops fills the
// records, one file per family; this is only the shape of a record. A column that an op does not need keeps its default,
// which is documented here; the coverage test fails on an op whose gradient, homomorphism row or lowering is not said.
#include "dtc/IR/Module.h"
#include "dtc/Sharding/Rule.h"
#include <complex>
#include <memory>

namespace dtc {

class Builder;
class CutOp;          // include/dtc/IR/CutOp.h
class ElementBuilder; // include/dtc/IR/Element.h
class Tensor;         // include/dtc/Support/Tensor.h: a dense host tensor

// What the columns' functions see of an op: types and attributes, never values or shardings.
struct OpQuery {
  Module* module = nullptr; // tables only: strings, dims, types, attrs
  const OpRecord* record = nullptr;
  std::span<const TypeId> operandTypes;
  std::span<const ValueId> operands; // to see literals; empty where there is no op (the prover)
  const AttrList* attrs = nullptr;
  std::span<const TypeId>
      writtenTypes; // result types as written, empty or one per result: `constant`, `iota` need them
  SourceRange loc;
  std::span<const SourceRange> operandLocs; // may be empty
  Diagnostics* diags = nullptr;             // never null while inferring
  MeshId
      mesh; // of the spmd function or `local` region around the op; invalid: the module's first that has the axes
  bool exact = false; // eval: R64, nothing is rounded (Eval.h); sums of f64 are then carried in 80 bits
  std::shared_ptr<const void> storage; // keeps what the spans point to where queryOf made it

  [[nodiscard]] const Type& type(size_t operand) const { return module->types[operandTypes[operand]]; }
  // Attributes with their defaults from the record applied. `has`: written. A list of dims whose default is "all" comes
  // back as 0 … rank-1 of operand 0; negative dims come back as written. An attribute that is neither written nor has a
  // default gives 0, 0.0, false, "" or {}.
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] int64_t intAttr(std::string_view name) const;
  [[nodiscard]] double floatAttr(std::string_view name) const;
  [[nodiscard]] bool boolAttr(std::string_view name) const;
  [[nodiscard]] std::string_view textAttr(std::string_view name) const; // String, Word
  [[nodiscard]] std::vector<int64_t> intsAttr(std::string_view name) const;
  [[nodiscard]] AttrId
  rawAttr(std::string_view name) const;                    // as written, or the default interned, or invalid
  [[nodiscard]] Dim sizeAttr(std::string_view name) const; // Size: a number or a symbolic size
  // Dims of a tensor of this rank, counted from 0 (-1 is the last); the default "all" and sets come sorted. Nothing, and an
  // error where diags is set, where one is out of range or stands twice.
  [[nodiscard]] std::optional<int64_t> dimAttr(std::string_view name, size_t rank) const;
  [[nodiscard]] std::optional<std::vector<int64_t>> dimsAttr(std::string_view name, size_t rank) const;
  [[nodiscard]] std::optional<DType> dtypeAttr(std::string_view name) const;
  // The value of `$name` in a scalar expression: OpRecord::derive's, else the attribute's. Nothing if it has none.
  [[nodiscard]] std::optional<double> numberOf(std::string_view name) const;
  // "%x" as the user wrote it, or the record's name of the operand.
  [[nodiscard]] std::string operandText(size_t operand) const;
};

enum class AttrType : uint8_t {
  Int,
  Float,
  Bool,
  String,
  DTypeName,
  Dim,
  Size,
  Ints,
  Dims,
  Sizes,
  Axes,
  Pairs,
  Value,
  Callee,
  Strings
};
struct AttrSpec {
  const char* name;
  AttrType type;
  const char* fallback =
      nullptr; // the default as IR text ("1e-5", "all"); nullptr: required; "": optional, no default
  const char* doc = "";
};

// --- The homomorphism table (sharding.md §2), one entry per row an op takes part in ---
enum class ThroughRow : uint8_t {
  Linear,     // P(sum), P(avg) of `operands` jointly, the others R
  Bilinear,   // each of `operands` alone
  Affine,     // add, sub
  Monotone,   // P(max) -> P(max), P(min) -> P(min); `swap`: decreasing
  LatticeMax, // max and its kin
  LatticeMin,
  LatticeAny,
  LatticeAll,
  Multiplicative, // P(prod)
  Moving,         // any P(op) of `operands`
  Choosing,       // select, scatter
  BoolToNumber,
  IsNan,
  Compare, // x < R and its kin: `swap`: P(max) -> P(any), P(min) -> P(all), else P(max) -> P(all), P(min) -> P(any)
};
struct Through {
  ThroughRow row;
  uint32_t operands = 1; // bit set of operands that the row speaks of
  bool swap = false;
  uint32_t results = ~0u; // bit set of results it holds for (index results: none)
  uint16_t kinds =
      0; // restricts the row to these PendingKinds (bit set, see kindBit); 0: all that the row passes
  uint8_t classes =
      0; // restricts the row to dtype classes (bits as operandClasses); 0: all that the row passes
};
[[nodiscard]] constexpr uint16_t kindBit(PendingKind k) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(k));
}

// How the backends make it.
enum class Lowering : uint8_t {
  Loops, // derived from rule and scalar: pointwise, reductions, data movement; fuses
  Rows, // loops with several passes over reduced dims (softmax, norms): written by the record's decomposition
  Library,    // gemm
  Decompose,  // gone after `decompose`
  Collective, // a communicator's
  Control,    // regions
  Annotation, // shard, stop_gradient, reshard …: no code of its own
  Host,       // print, expect_*
};

// NAME_start gives a handle of the type that `done` will give.
enum class AsyncForm : uint8_t { None, Start, Done };
// What an annotation op does to propagation: Shard constrains its value and links operand and result; across Reshard and
// Barrier nothing propagates.
enum class Constraint : uint8_t { None, Shard, Reshard, Barrier };
// How the regions of a control op are bound to its operands and results (Module.h, Block).
enum class RegionKind : uint8_t { None, Cond, While, For, Local, Recompute, Fused };
[[nodiscard]] constexpr uint32_t numBlocks(RegionKind k) {
  return k == RegionKind::None ? 0 : k == RegionKind::Cond || k == RegionKind::While ? 2 : 1;
}
// Blocks of these see nothing but their own arguments.
[[nodiscard]] constexpr bool isIsolated(RegionKind k) {
  return k == RegionKind::Local || k == RegionKind::Fused;
}

struct OpRecord {
  const char* name;
  const char* family;
  const char* summary;
  // Operands and results as text: "x", "x, w, b?" (optional last), "xs..." (any number), "p, a, b". Results: "y", "values,
  // indices?" (present if attribute `indices`).
  const char* operands = "x";
  const char* results = "y";
  std::vector<AttrSpec> attrs = {};

  // The index rule: text for the fixed cases ("pointwise", "[.. m k], [.. k n] -> [.. m n]") or a function. Must set all
  // factors, sizes from the operand types; reports what does not fit to query.diags and returns false.
  const char* ruleText = nullptr;
  bool (*rule)(const OpQuery&, Rule&) = nullptr;

  // The rule that shardings follow in propagation, where that is not the op's own: a dim that only moves data follows
  // through the op (slice, pad, concat, sort), though a reshard then stands before or behind it. Sizes as `rule`'s.
  bool (*follow)(const OpQuery&, Rule&) = nullptr;
  // Whether shardings go through the op among the first (elementwise ops and views do, whatever this says): of slices with
  // dynamic starts from the operand to the result.
  enum class Follows : uint8_t { InTurn, ForwardFirst } follows = Follows::InTurn;

  // Result dtypes. Default: that of the first operand (after checking that all operands share one).
  // Part: of a complex operand the dtype of its parts (abs, real), else as Same; Complex: that with such parts (complex).
  enum class ResultType : uint8_t {
    Same,
    Bool,
    I32,
    AttrDType,
    Part,
    Complex,
    Custom
  } resultType = ResultType::Same;
  // What operands may be: a set of dtype classes; and whether they must share one dtype.
  uint8_t operandClasses = 0x7; // bit 0 bool, bit 1 integers, bit 2 floats, bit 3 complex
  // Per operand, where they are not all alike: "bool, T, T", "T, i32". T: of operandClasses, all T the same dtype; bool;
  // i32; int (any integer dtype); float; any. The last word holds for all further operands. Sets sameDType aside.
  // ResultType::Same then means T.
  const char* operandTypes = nullptr;
  bool sameDType = true;
  // Full custom inference, where rule + resultType cannot say it: fills one type per result. Default: derived.
  bool (*infer)(const OpQuery&, std::vector<TypeId>& results) = nullptr;
  // Further conditions that are not shapes ("k must be positive"). Default: none.
  bool (*verify)(const OpQuery&) = nullptr;
  // What dtype a literal at operand i gets: Default (ir.md §2.4), or forced.
  enum class LiteralType : uint8_t { Like, I32, Bool, Exponent } literal = LiteralType::Like;

  std::vector<Through> through = {}; // homomorphism rows; {} must be meant: set throughNone
  bool (*throughWhen)(const OpQuery&,
                      const Through&) = nullptr; // a row that depends on attributes (leaky_relu slope ≥ 0)
  bool throughNone = false;

  // The value of one result element from one element of each operand: an expression over a, b, c, … (operands), $attr
  // (numbers), and the intrinsics of lib/Ops/Scalar. With Reduce factors: the expression is combined over them by the
  // factor's op ("matmul": "a * b"). Default "a" for data movement. Evaluator and both kernel printers read it.
  const char* scalar = nullptr;
  // Where the expression depends on the op (einsum's number of operands); read both through scalarText (Ops/Scalar.h).
  std::string (*scalarFor)(const OpQuery&) = nullptr;
  // What becomes of the combined value `acc` of a reduction, once: over acc, $attr and operands that have no Reduce factor
  // (mean: "acc / $count", linear: "acc + c"). An absent optional operand reads as 0.
  const char* finish = nullptr;
  // Values of $names that are not simply attributes (mean's count, attention's scale).
  std::optional<double> (*derive)(const OpQuery&, std::string_view name) = nullptr;
  // Attributes for the local op, where they carry sizes: `attrs` comes as a copy of the global op's. Default: unchanged.
  // mean sets `count` to the global number, reshape its local shape.
  void (*localise)(const OpQuery& global, std::span<const TypeId> localOperands,
                   std::span<const TypeId> localResults, AttrList& attrs) = nullptr;
  // The operand that takes the offset of the piece of the rule's first factor with needsOffset() (i32[], optional, default
  // 0), the others following in the rule's order of such factors. -1: none (or the offset comes with the data).
  int offsetOperand = -1;
  // How the op is done where a factor of a communicating kind is cut (CutOp.h): appends the local program to `op.b` and gives
  // its results. False where it has none for these cuts (what is cut is then gathered first). An op without it has its
  // communicating factors gathered first.
  bool (*cut)(CutOp& op, std::vector<ValueId>& results) = nullptr;
  // The definition of right, where rule + scalar do not say it. Exact semantics in f64 (R64) or rounded: see Eval.
  bool (*eval)(const OpQuery&, std::span<const Tensor* const> operands,
               std::span<Tensor* const> results) = nullptr;

  // What the op is on complex numbers: how `split-complex` writes it over real and imaginary planes, and how the evaluator
  // defines it. Such an op takes complex operands besides operandClasses.
  //   Planes: it does the same to either plane, with the operands that are not complex (moving and linear ops)
  //   Product: a product of all complex operands, linear in each; what enters additively (a join) is added once
  //   Function: of one element of each operand: complexValue is the definition, complexText or complexFn the planes
  //   Own: complexEval, or where there is none `eval`, knows complex tensors, and complexFn (if any) makes the planes
  enum class ComplexForm : uint8_t { None, Planes, Product, Function, Own } complex = ComplexForm::None;
  // A result that is real or bool is the real part, which is not 0 for true.
  std::complex<double> (*complexValue)(std::span<const std::complex<double>>) = nullptr;
  bool (*complexEval)(const OpQuery&, std::span<const Tensor* const> operands,
                      std::span<Tensor* const> results) = nullptr; // as `eval`
  // IR text over %a_re, %a_im of each operand %a, ending in "yield %re, %im", or "yield %y" for a result that is not complex.
  const char* complexText = nullptr;
  // Planes made by code: `planes` are two values per operand (one that is not complex stands twice); pushes two per complex
  // result, one per other.
  bool (*complexFn)(Builder&, OpId op, std::span<const ValueId> planes,
                    std::vector<ValueId>& resultPlanes) = nullptr;

  // How kernels make one element of result `result`, where rule + scalar do not say it (concat, gather, argmax). Returns the
  // builder's node of the value. Ops with neither have no loops.
  uint32_t (*element)(const OpQuery&, ElementBuilder&, size_t result) = nullptr;
  // How kernels make whole results, where an element by itself would cost too much (scans, scatter, sort): stores in an order
  // of the op's own. False: `element`, or rule and scalar, after all. Such an op is a kernel by itself.
  bool (*stores)(const OpQuery&, ElementBuilder&) = nullptr;
  // The operand of whose elements `stores` and `element` read only the one at the result's own place, or -1: a kernel may
  // write over it.
  int rewrites = -1;

  // The gradient: IR text, one line per operand that has one, over operands' names, results' names, %dy (or %d<result>),
  // statements separated by newlines, ending in "yield <one per operand or none>". See docs/adding-an-op.md.
  const char* grad = nullptr;
  // Gradient built by code, where the text would depend on shapes: pushes one cotangent per operand (invalid: none).
  bool (*gradFn)(Builder&, OpId op, std::span<const ValueId> resultCotangents,
                 std::vector<ValueId>& operandCotangents) = nullptr;
  bool gradNone = false;     // not differentiable, or integer results only
  bool gradFromRule = false; // contractions: derived from the index rule

  // Decomposition into more basic ops, run by `decompose` before propagation (attention, …).
  bool (*decompose)(Builder&, OpId op, std::vector<ValueId>& results) = nullptr;

  // Small instances that the prover, the gradient test and docs/ops.md try, one a line (Ops/Samples.h):
  // "T[4, 3], i32[2] in 0..4, 2.0 {dim = 0} : T[2, 3]". T is each dtype that the op takes. Pointwise ops have theirs without
  // a word said.
  const char* samples = nullptr;

  Lowering lowering = Lowering::Loops;
  double flopsPerPoint = 1; // operations per point of the iteration space (matmul: 2)
  bool sideEffect = false;  // print, expect_*: never removed, order kept
  int numRegions = 0;
  RegionKind regions = RegionKind::None;
  Constraint constraint = Constraint::None;
  bool identityWhenSameType =
      false;           // gives its operand back wherever result and operand have one type: reshape, convert
  bool isCall = false; // has a callee: call, value_and_grad
  AsyncForm async = AsyncForm::None;
  bool uniform =
      false; // the result is the same on all devices along `axes`: all_reduce, all_gather, broadcast_from
  bool isCollective() const { return lowering == Lowering::Collective; }
};

// Filled once by lib/Ops (standardOps()) and handed down; never copied.
class OpRegistry {
public:
  OpKind add(OpRecord r);
  [[nodiscard]] const OpRecord& operator[](OpKind k) const { return records_[k]; }
  [[nodiscard]] OpKind find(std::string_view name) const; // kNoOpKind if there is none
  // `max` and `min` are two records each, of one operand (reduction) and of two: the one of that name that takes so many
  // operands; the first of that name where none does.
  [[nodiscard]] OpKind find(std::string_view name, size_t numOperands) const;
  [[nodiscard]] size_t size() const { return records_.size(); }

private:
  std::deque<OpRecord> records_;
  std::unordered_map<std::string_view, OpKind> byName_;
};

inline const OpRecord& Module::record(OpId o) const { return (*registry)[(*this)[o].kind]; }

// How many operands the record's text asks for, and their names; max is ~0u for "xs...".
struct Arity {
  uint32_t min = 0, max = 0;
};
[[nodiscard]] Arity operandArity(const OpRecord&);
[[nodiscard]] std::string_view operandName(const OpRecord&, size_t operand);
// The results that the op has: optional ones counted where the attribute of that name is true. "ys..." counts as 0: such
// records have their own `infer`.
[[nodiscard]] uint32_t numResultsOf(const OpQuery&);
// The dtype that a literal at this place asks for (ir.md §2.4), from operandTypes, else OpRecord::literal.
[[nodiscard]] OpRecord::LiteralType literalTypeAt(const OpRecord&, size_t operand);

// The query of an op that stands in a module; `writtenTypes` are its results' types where they are known.
[[nodiscard]] OpQuery queryOf(Module&, OpId, Diagnostics&);

// The default of an attribute as a value, or an invalid id where there is none (or it is no constant: "all").
[[nodiscard]] AttrId defaultAttr(StringTable&, AttrTable&, const AttrSpec&);
// Brings attributes into the record's order, the common ones (stage, stream, at, name, loc) last, and leaves defaults out.
void normaliseAttrs(Module&, OpKind, AttrList&);

// The op's rule (from rule or ruleText). False with diagnostics where the operands do not fit.
[[nodiscard]] bool ruleOf(const OpQuery&, Rule&);
// Types of all results. False with diagnostics where the operands do not fit.
[[nodiscard]] bool inferResultTypes(const OpQuery&, std::vector<TypeId>& results);
// Attributes: known, of the right type, none missing. Part of inferResultTypes.
[[nodiscard]] bool checkAttrs(const OpQuery&);

} // namespace dtc
