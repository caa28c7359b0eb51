#pragma once
// One op is one record (architecture.md), which holds everything that any part of dtc knows of the op.
// lib/Ops fills the records, one file per family. A column that an op does not need keeps its documented
// default; the test OpRecords fails on an op without a definition or a gradient (or gradNone).
#include "dtc/IR/Module.h"
#include "dtc/Sharding/Rule.h"
#include <algorithm>
#include <complex>
#include <memory>

namespace dtc {

class Builder;
class ShardedOp;      // include/dtc/Ops/ShardedOp.h
class ElementBuilder; // include/dtc/IR/Element.h
class Tensor;         // include/dtc/Support/Tensor.h: a dense host tensor

// The target of OpRecord::splitRows and the use of the op's first result.
struct RowSplit {
  bool gpu = false;
  std::span<const OpId> readers; // ops that read it; invalid: the block's terminator
  bool replacesReaders = false;  // set by splitRows: it has one result, which is that of each reader
};

// The view of an op that record functions get: types and attributes, but no runtime values or shardings.
struct OpQuery {
  Module* module = nullptr; // tables only: strings, dims, types, attrs
  const OpRecord* record = nullptr;
  std::span<const TypeId> operandTypes;
  std::span<const ValueId> operands; // to inspect literals; empty if there is no op (the prover)
  const AttrList* attrs = nullptr;
  // result types as written, empty or one per result; required by `constant` and `iota`
  std::span<const TypeId> writtenTypes;
  SourceRange loc;
  std::span<const SourceRange> operandLocs; // may be empty
  Diagnostics* diags = nullptr;             // never null while inferring
  MeshId
      // of the enclosing spmd function or `local` region; invalid: the module's first mesh that has the axes
      mesh;
  bool exact = false; // eval: R64 without rounding (Eval.h); f64 sums are then accumulated in 80 bits
  std::shared_ptr<const void> storage; // owns what the spans refer to, if made by queryOf

  [[nodiscard]] const Type& type(size_t operand) const { return module->types[operandTypes[operand]]; }
  // Attributes, with the defaults of the record applied; `has` is true for written ones only. A list of dims
  // with default "all" is 0 … rank-1 of operand 0; negative dims are returned as written. An attribute that
  // is neither written nor has a default is 0, 0.0, false, "" or {}.
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] int64_t intAttr(std::string_view name) const;
  [[nodiscard]] double floatAttr(std::string_view name) const;
  [[nodiscard]] bool boolAttr(std::string_view name) const;
  [[nodiscard]] std::string_view textAttr(std::string_view name) const; // String, Word
  [[nodiscard]] std::vector<int64_t> intsAttr(std::string_view name) const;
  // as written, or the interned default, or invalid
  [[nodiscard]] AttrId rawAttr(std::string_view name) const;
  [[nodiscard]] Dim sizeAttr(std::string_view name) const; // an integer or a symbolic size
  // Dims of a tensor of this rank, normalized to be non-negative; the default "all" and sets are sorted.
  // Empty, with an error if diags is set, if one is out of range or repeated.
  [[nodiscard]] std::optional<int64_t> dimAttr(std::string_view name, size_t rank) const;
  [[nodiscard]] std::optional<std::vector<int64_t>> dimsAttr(std::string_view name, size_t rank) const;
  [[nodiscard]] std::optional<DType> dtypeAttr(std::string_view name) const;
  // The value of `$name` in a scalar expression: from OpRecord::derive, else the attribute. Empty if there is
  // none.
  [[nodiscard]] std::optional<double> numberOf(std::string_view name) const;
  // "%x" as the user wrote it, or the operand's name in the record.
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
  // the default as IR text ("1e-5", "all"); nullptr: required; "": optional, no default
  const char* fallback = nullptr;
  const char* doc = "";
};

// --- The homomorphism table (sharding.md), one entry per row an op takes part in ---
enum class ThroughRow : uint8_t {
  Linear,     // P(sum), P(avg) of `operands` jointly, the others replicated
  Bilinear,   // each of `operands` alone
  Affine,     // add, sub
  Monotone,   // P(max) -> P(max), P(min) -> P(min); `swap`: decreasing
  LatticeMax, // max and variants
  LatticeMin,
  LatticeAny,
  LatticeAll,
  Multiplicative, // P(prod)
  Moving,         // any P(op) of `operands`
  Choosing,       // select, scatter
  BoolToNumber,
  IsNan,
  // x < R and variants; `swap`: P(max) -> P(any), P(min) -> P(all), otherwise P(max) -> P(all), P(min) ->
  // P(any)
  Compare,
};
struct Through {
  ThroughRow row;
  uint32_t operands = 1; // bit set of the operands that the row applies to
  bool swap = false;
  uint32_t results = ~0u; // bit set of the results that the row holds for (index results: none)
  uint16_t kinds = 0;     // restricts the row to these PendingKinds (bit set, see kindBit); 0: no restriction
  uint8_t classes = 0;    // restricts the row to dtype classes (bits as operandClasses); 0: no restriction
};
[[nodiscard]] constexpr uint16_t kindBit(PendingKind k) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(k));
}

// --- What the checks know of an op ---

// The values of an operand for which a float result is finite and accurate.
enum class Domain : uint8_t {
  All,
  Positive, // (0, inf), and not all numbers: a logarithm, a divisor
  Unit,     // (-1, 1), and not all numbers: asin
  AboveOne, // (1, inf), and not all numbers: acosh
  Small,    // all numbers, but results overflow or lose digits for large ones: exp, prod, matmul
};
// Random programs compare results that were computed in different ways, and use these facts to stay where
// they must agree.
struct OpChecks {
  std::vector<Domain> domain = {}; // by operand; the last one holds for all further operands; empty: All
  // A rounding error in an operand may change a result by any amount (a jump, a pole, the order of a sort).
  bool discontinuous = false;
  // Never rounds: a float result is an element of an operand, its negation or absolute value, or an integer.
  bool exact = false;
  // Placements that hold for all samples but are not rules, and why: `dtc check --rules` does not list them
  // as missing. "*" stands for any.
  struct Coincidence {
    const char* placements; // "P(min) -> P(min)"
    const char* reason;
  };
  std::vector<Coincidence> coincidences = {};

  [[nodiscard]] Domain domainOf(size_t operand) const {
    return domain.empty() ? Domain::All : domain[std::min(operand, domain.size() - 1)];
  }
};

// How backends implement the op.
enum class Lowering : uint8_t {
  Loops, // derived from rule and scalar: pointwise, reductions, data movement; fusible
  // loops with several passes over reduced dims (softmax, norms); generated from the record's decomposition
  Rows,
  Library,    // gemm
  Decompose,  // removed by `decompose`
  Collective, // implemented by the communicator
  Control,    // regions
  Annotation, // shard, stop_gradient, reshard …: generates no code
  Host,       // print, expect_*
};

// What an op does with the devices along its `axes`; NAME_start has the kind of NAME.
enum class CollectiveKind : uint8_t {
  None,
  AllReduce,
  AllGather,
  AllSlice, // no communication
  ReduceScatter,
  AllToAll,
  Permute,
  BroadcastFrom,
  P2p,
  AxisIndex,
  ShardOffset,
  ShardSize,
  FillShard,
  TrimShard,
};
// True for collectives, which involve a group of devices; false for a device's own index, shard and padding.
[[nodiscard]] constexpr bool hasGroups(CollectiveKind k) {
  return k != CollectiveKind::None && k < CollectiveKind::AxisIndex;
}
[[nodiscard]] constexpr bool reduces(CollectiveKind k) {
  return k == CollectiveKind::AllReduce || k == CollectiveKind::ReduceScatter;
}
// The op's name, without `_start`: "all_reduce". The kind is not None.
[[nodiscard]] const char* collectiveName(CollectiveKind);

// NAME_start returns a handle of the type of the result of `done`.
enum class AsyncForm : uint8_t { None, Start, Done };
// The effect of an annotation op on propagation: Shard constrains its value and propagates between operand
// and result; Reshard and Barrier stop propagation.
enum class Constraint : uint8_t { None, Shard, Reshard, Barrier };
// How the regions of a control op are bound to its operands and results (Module.h, Block).
enum class RegionKind : uint8_t { None, Cond, While, For, Local, Recompute, Fused };
[[nodiscard]] constexpr uint32_t numBlocks(RegionKind k) {
  return k == RegionKind::None ? 0 : k == RegionKind::Cond || k == RegionKind::While ? 2 : 1;
}
// Blocks of these ops are isolated: they see only their own arguments.
[[nodiscard]] constexpr bool isIsolated(RegionKind k) {
  return k == RegionKind::Local || k == RegionKind::Fused;
}

struct OpRecord {
  const char* name;
  const char* family;
  const char* summary;
  // Operands and results as text: "x", "x, w, b?" (the last is optional), "xs..." (any number), "p, a, b".
  // Results: "y", "values, indices?" (present if attribute `indices` is true), "s, u?vectors" (if `vectors`
  // is).
  const char* operands = "x";
  const char* results = "y";
  std::vector<AttrSpec> attrs = {};

  // The index rule: text for fixed cases ("pointwise", "[.. m k], [.. k n] -> [.. m n]") or a function, which
  // must set all factors with sizes from the operand types. Reports mismatches to query.diags and returns
  // false.
  const char* ruleText = nullptr;
  bool (*rule)(const OpQuery&, Rule&) = nullptr;

  // The rule for sharding propagation, if it differs from the op's own: shardings of data-movement dims
  // propagate through the op (slice, pad, concat, sort), although a reshard is inserted before or after it.
  // Same sizes as `rule`.
  bool (*follow)(const OpQuery&, Rule&) = nullptr;
  // Whether the op is in the first group of ops that propagation visits (elementwise ops and views always
  // are): set for slices with dynamic starts, from the operand to the result.
  enum class Follows : uint8_t { InTurn, ForwardFirst } follows = Follows::InTurn;

  // Result dtypes. Default: that of the first operand, after checking that all operands have the same. Part:
  // for a complex operand the dtype of its parts (abs, real), otherwise as Same. Complex: the complex dtype
  // with these parts (complex).
  enum class ResultType : uint8_t {
    Same,
    Bool,
    I32,
    AttrDType,
    Part,
    Complex,
    Custom
  } resultType = ResultType::Same;
  // The allowed operand dtypes, as a set of dtype classes, and whether all operands must have the same dtype.
  uint8_t operandClasses = 0x7; // bit 0 bool, bit 1 integers, bit 2 floats, bit 3 complex
  // Per operand, if they differ: "bool, T, T", "T, i32". T: any of operandClasses, the same dtype for all T;
  // bool; i32; int (any integer dtype); float; any. The last word applies to all further operands. Overrides
  // sameDType; ResultType::Same then means T.
  const char* operandTypes = nullptr;
  bool sameDType = true;
  // The result type does not follow from the operands: the text states it (`iota : i32[4]`).
  bool typeWritten = false;
  // Custom inference, if rule and resultType do not suffice: fills one type per result. Default: derived.
  bool (*infer)(const OpQuery&, std::vector<TypeId>& results) = nullptr;
  // Checks other than shapes ("k must be positive"). Default: none.
  bool (*verify)(const OpQuery&) = nullptr;
  // The dtype of a literal operand: Default (ir.md), or fixed.
  enum class LiteralType : uint8_t { Like, I32, Bool, Exponent } literal = LiteralType::Like;

  std::vector<Through> through = {}; // homomorphism rows
  // enables a row by attributes (leaky_relu slope ≥ 0)
  bool (*throughWhen)(const OpQuery&, const Through&) = nullptr;

  // One result element as an expression over one element of each operand: a, b, c, … (operands), $attr
  // (numbers) and the intrinsics of lib/Ops/Scalar. With Reduce factors the expression is combined over them
  // by the factor's op ("matmul": "a * b"). Default: "a", for data movement. Shared by the evaluator and both
  // kernel printers.
  const char* scalar = nullptr;
  // For expressions that depend on the op (einsum's number of operands). Read either through scalarText
  // (Ops/Scalar.h).
  std::string (*scalarFor)(const OpQuery&) = nullptr;
  // The epilogue of a reduction, applied once to the combined value `acc`: over acc, $attr and operands
  // without Reduce factors (mean: "acc / $count", linear: "acc + c"). An absent optional operand reads as 0.
  const char* finish = nullptr;
  // The reduction that the op computes: of its two operands (add, or), along dims (sum, argmax) or of
  // prefixes (cumsum).
  PendingKind combines = PendingKind::None;
  // Values of $names that are not plain attributes (mean's count, attention's scale).
  std::optional<double> (*derive)(const OpQuery&, std::string_view name) = nullptr;
  // Attributes of the local op, if they hold sizes: `attrs` is passed as a copy of the global op's. Default:
  // unchanged. mean sets `count` to the global count, reshape its local shape.
  void (*localize)(const OpQuery& global, std::span<const TypeId> localOperands,
                   std::span<const TypeId> localResults, AttrList& attrs) = nullptr;
  // The operand that takes the shard's offset along the rule's first factor with needsOffset() (i32[],
  // optional, default 0); offsets of further such factors follow in rule order. -1: none, or the offset is
  // part of the data.
  int offsetOperand = -1;
  // The local program of the op if a factor of a communicating kind is sharded (ShardedOp.h): appended to `op.b`,
  // returns its results. False if there is none for these shardings; the sharded operand is then gathered
  // first, as it is for ops without this function.
  bool (*shard)(ShardedOp& op, std::vector<ValueId>& results) = nullptr;
  // Reference semantics, if rule and scalar do not define them: exact in f64 (R64) or rounded, see Eval.
  bool (*eval)(const OpQuery&, std::span<const Tensor* const> operands,
               std::span<Tensor* const> results) = nullptr;

  // The op on complex operands: how `split-complex` rewrites it over real and imaginary planes, and how the
  // evaluator defines it. Such an op takes complex operands in addition to operandClasses.
  //   Planes: applied to each plane, together with the operands that are not complex (data movement and
  //     linear ops)
  //   Product: a product of all complex operands, linear in each; an additive operand (a join) is added once
  //   Function: elementwise; complexValue is the definition, complexText or complexFn generate the planes
  //   Own: complexEval, or else `eval`, handles complex tensors, and complexFn (if any) generates the planes
  enum class ComplexForm : uint8_t { None, Planes, Product, Function, Own } complex = ComplexForm::None;
  // A real or bool result is the real part; for bool, true iff it is nonzero.
  std::complex<double> (*complexValue)(std::span<const std::complex<double>>) = nullptr;
  bool (*complexEval)(const OpQuery&, std::span<const Tensor* const> operands,
                      std::span<Tensor* const> results) = nullptr; // as `eval`
  // IR text over %a_re, %a_im of each operand %a, ending in "yield %re, %im", or "yield %y" for a result that
  // is not complex.
  const char* complexText = nullptr;
  // Planes generated by code: `planes` holds two values per operand (repeated for one that is not complex);
  // pushes two values per complex result and one per other result.
  bool (*complexFn)(Builder&, OpId op, std::span<const ValueId> planes,
                    std::vector<ValueId>& resultPlanes) = nullptr;

  // Generates the element of result `result` in kernels, if rule and scalar do not suffice (concat, gather,
  // argmax). Returns the builder's node of the value. Ops with neither have no loops.
  uint32_t (*element)(const OpQuery&, ElementBuilder&, size_t result) = nullptr;
  // Generates whole results in kernels, if computing each element by itself would be too expensive (scans,
  // scatter, sort): ordered stores. False: use `element`, or rule and scalar. Such an op is a kernel of its
  // own.
  bool (*stores)(const OpQuery&, ElementBuilder&) = nullptr;
  // The operand that `stores` and `element` read only at the coordinates of the result element, or -1. A
  // kernel may write the result in place over it.
  int rewrites = -1;

  // The gradient as infix text (Ops/elementwise/GradientText.h), one expression per operand: "dy * b; dy * a".
  // See docs/adding-an-op.md.
  const char* grad = nullptr;
  // Gradient generated by code, if the text would depend on shapes: pushes one cotangent per operand
  // (invalid: none).
  bool (*gradFn)(Builder&, OpId op, std::span<const ValueId> resultCotangents,
                 std::vector<ValueId>& operandCotangents) = nullptr;
  bool gradNone = false;     // not differentiable, or integer results only
  bool gradFromRule = false; // contractions: derived from the index rule

  // The op with its result transposed: dim i of the new result is dim perm[i] of the op's. Set where the op
  // stores its result in any order of dims. False, with no effect, if the op cannot express it.
  bool (*transposed)(Builder&, OpId op, std::span<const int64_t> perm, ValueId& result) = nullptr;

  // Decomposition into more basic ops, run by `decompose` before propagation (attention, …).
  bool (*decompose)(Builder&, OpId op, std::vector<ValueId>& results) = nullptr;
  // Nothing else defines the op: it is evaluated, differentiated and compiled as its decomposition.
  [[nodiscard]] bool isComposite() const { return decompose && !eval && !scalar && !scalarFor && !element; }

  // The op along few long rows as ops on parts of the rows, whose results are combined: called by `split`.
  // False if it remains as it is; this depends on the target and on shapes alone.
  bool (*splitRows)(Builder&, OpId op, RowSplit&, std::vector<ValueId>& results) = nullptr;

  // Small instances for the prover, the gradient test and docs/ops.md, one per line (Ops/Samples.h): "T[4,
  // 3], i32[2] in 0..4, 2.0 {dim = 0} : T[2, 3]". T stands for each dtype that the op takes. Pointwise ops
  // have default samples.
  const char* samples = nullptr;

  OpChecks checks = {};
  Lowering lowering = Lowering::Loops;
  double flopsPerPoint = 1; // operations per point of the iteration space (matmul: 2)
  bool sideEffect = false;  // print, expect_*: never removed or reordered
  int numRegions = 0;
  RegionKind regions = RegionKind::None;
  Constraint constraint = Constraint::None;
  // folds to its operand if result and operand have the same type: reshape, convert
  bool identityWhenSameType = false;
  // the result is the attribute `value`, or that number everywhere: constant, full
  bool isConstant = false;
  bool isCall = false; // has a callee: call, value_and_grad
  // isCall, and returns the gradients of the callee, too: value_and_grad
  bool differentiates = false;
  AsyncForm async = AsyncForm::None;
  CollectiveKind collective = CollectiveKind::None;
  // the result is equal on all devices along `axes`: all_reduce, all_gather, broadcast_from
  bool uniform = false;
  // This record, if a registry holds it; a copy, such as one with a changed rule, is not registered.
  const OpRecord* registered = nullptr;
  [[nodiscard]] bool isRegistered() const { return registered == this; }
  // With the complex dtypes, if the op has a complex form.
  uint8_t allClasses() const { return operandClasses | (complex == ComplexForm::None ? 0 : 8); }
  bool isCollective() const { return lowering == Lowering::Collective; }
};

// Filled once by lib/Ops (standardOps()) and passed by reference; never copied.
class OpRegistry {
public:
  // The record may be changed, except for its name, until complete() sets what follows from its columns.
  OpRecord& add(OpRecord r);
  void complete();
  [[nodiscard]] const OpRecord& operator[](OpKind k) const { return records_[k]; }
  [[nodiscard]] OpKind find(std::string_view name) const; // kNoOpKind if there is none
  // `max` and `min` have two records each: one operand (reduction) and two. Returns the record of that name
  // that takes `numOperands` operands, else the first of that name.
  [[nodiscard]] OpKind find(std::string_view name, size_t numOperands) const;
  // The first record with these columns.
  [[nodiscard]] OpKind find(CollectiveKind, AsyncForm = AsyncForm::None) const;
  [[nodiscard]] OpKind find(RegionKind) const;
  [[nodiscard]] OpKind find(Constraint) const;
  [[nodiscard]] size_t size() const { return records_.size(); }

private:
  std::deque<OpRecord> records_;
  std::unordered_map<std::string_view, OpKind> byName_;
};

inline const OpRecord& Module::record(OpId o) const { return (*registry)[(*this)[o].kind]; }

// The number of operands and their names; max is ~0u for "xs...".
struct Arity {
  uint32_t min = 0, max = 0;
};
[[nodiscard]] Arity operandArity(const OpRecord&);
[[nodiscard]] std::string_view operandName(const OpRecord&, size_t operand);
// The number of results; an optional one counts if the attribute of that name is true. "ys..." counts as 0:
// such records have their own `infer`.
[[nodiscard]] uint32_t numResultsOf(const OpQuery&);
// The attribute on which the last result depends; empty if that is always present.
[[nodiscard]] std::string_view optionalResultAttr(const OpRecord&);
// The dtype of a literal at this position (ir.md), from operandTypes, else OpRecord::literal.
[[nodiscard]] OpRecord::LiteralType literalTypeAt(const OpRecord&, size_t operand);

// The query of an op of a module; `writtenTypes` are the types of its results if known.
[[nodiscard]] OpQuery queryOf(Module&, OpId, Diagnostics&);

// The value of all elements, if the value is made by an op that is constant; else nullptr.
[[nodiscard]] const Attr* splatOf(const Module&, ValueId);

// True if an op of the module differentiates.
[[nodiscard]] bool takesGradients(const Module&);

// The default of an attribute as a value; invalid if there is none or it is not a constant ("all").
[[nodiscard]] AttrId defaultAttr(StringTable&, AttrTable&, const AttrSpec&);
// Sorts attributes into the record's order, the common ones (stage, stream, at, name, loc) last, and removes
// defaults.
void normalizeAttrs(Module&, OpKind, AttrList&);

// The op's rule (from rule or ruleText). False, with diagnostics, if the operands do not match it.
[[nodiscard]] bool ruleOf(const OpQuery&, Rule&);
// The types of all results. False, with diagnostics, if the operands do not match.
[[nodiscard]] bool inferResultTypes(const OpQuery&, std::vector<TypeId>& results);
// Checks attributes: known, of the right type, none missing. Part of inferResultTypes.
[[nodiscard]] bool checkAttrs(const OpQuery&);

} // namespace dtc
