#pragma once
// The module: meshes, functions, ops, values, types. Entities are 32-bit ids into tables of the module. There
// are no use lists; a pass that needs uses counts them (UseCounts below). A pass edits a block by writing a
// new op list.
#include "dtc/IR/Attr.h"
#include "dtc/IR/InferredTypes.h"
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/DType.h"
#include "dtc/Support/Diagnostics.h"
#include "dtc/Support/InternIndex.h"

namespace dtc {

struct OpRecord;
class OpRegistry;

using OpKind = uint16_t; // index of the op's record in the registry
inline constexpr OpKind kNoOpKind = 0xffff;

struct Type {
  DType dtype = DType::F32;
  std::vector<Dim> dims;
  [[nodiscard]] size_t rank() const { return dims.size(); }
  [[nodiscard]] bool isStatic() const;                      // no symbolic dims
  [[nodiscard]] std::optional<int64_t> numElements() const; // of a static type; empty on overflow
  [[nodiscard]] std::vector<int64_t> staticShape() const;   // of a static type
  friend bool operator==(const Type&, const Type&) = default;
};

class TypeTable {
public:
  TypeId intern(Type t);
  [[nodiscard]] const Type& operator[](TypeId id) const { return storage_[id.index]; }

private:
  std::deque<Type> storage_;
  InternIndex index_;
};

enum class ValueKind : uint8_t {
  OpResult, // `owner` is an OpId, `position` the result number
  BlockArg, // `owner` is a BlockId, `position` the argument number
  // a literal operand with value `literal`; its type is a scalar of the dtype that its position requires
  Literal,
  Symbol, // a symbolic size as an operand; `symbol` is the Dim
};

struct Value {
  ValueKind kind = ValueKind::OpResult;
  uint32_t owner = 0;
  uint32_t position = 0;
  TypeId type;         // invalid only between parsing and inference
  ShardingId sharding; // invalid: not written
  StrId name;          // without %; invalid: the printer picks the lowest free number
  AttrId literal;      // Literal: Int, Float or Bool
  Dim symbol;          // Symbol
  SourceRange loc;
};

struct Op {
  OpKind kind = kNoOpKind;
  uint32_t firstOperand = 0, numOperands = 0; // in Module::operandPool
  uint32_t numResults = 0;
  ValueId firstResult; // results have consecutive ids
  uint32_t numRegions = 0;
  BlockId firstRegion; // blocks of the regions have consecutive ids
  AttrList
      // in the record's order, without defaults, followed by the common ones (stage, stream, at, name, loc)
      attrs;
  StrId callee; // call, value_and_grad
  BlockId parent;
  SourceRange loc; // of the op's name, for diagnostics
};

// A region has exactly one block. For `while`, `local`, `recompute` and `fused`, the op's operands are the
// initial values of the block's arguments; `while` has two blocks with equal arguments. For `for`, the
// operands are [lo, hi, inits…] and the block arguments [i, carried…]. `cond` has operand p and two blocks
// without arguments.
struct Block {
  std::vector<ValueId> args;
  std::vector<OpId> ops;
  std::vector<ValueId> yields; // operands of `return` or `yield`
  SourceRange terminatorLoc;
  OpId parentOp;     // invalid for a function body
  FuncId parentFunc; // the function that contains this block
};

struct FuncArg {
  ValueId value;     // block argument of the body; in an spmd function its type is the local one
  TypeId globalType; // the type after `of`; invalid if not written
  AttrList attrs;    // donate, name, loc, …
};

struct FuncResult {
  StrId label; // invalid: unnamed, identified by its index
  TypeId type;
  TypeId globalType;
  ShardingId sharding;
  AttrList attrs;
  SourceRange loc;
};

struct Function {
  StrId name;
  bool spmd = false;
  std::vector<FuncArg> args;
  std::vector<FuncResult> results;
  AttrList attrs; // comm, mesh, arena, grad
  BlockId body;
  SourceRange loc;
};

// The levels of ir.md, computed from the module by levelOf.
enum class Level : uint8_t { Global, Propagated, Local, Split, Fused, Scheduled, Placed };

class Module {
public:
  explicit Module(const OpRegistry&);
  Module(const Module&); // a deep copy: all members are values
  Module(Module&&) noexcept;
  Module& operator=(const Module&);
  Module& operator=(Module&&) noexcept;
  ~Module();

  const OpRegistry* registry;
  StringTable strings;
  DimTable dims;
  ShardingTable shardings; // and the meshes
  TypeTable types;
  AttrTable attrs;
  InferredTypes inferred;
  std::vector<Value> values;
  std::vector<ValueId> operandPool;
  std::vector<Op> ops;
  std::vector<Block> blocks;
  std::vector<Function> functions; // in parse order; a removed one has an invalid body
  std::vector<FuncId> order;       // printing order of functions
  SourceText source;               // what locs point into

  // --- access ---
  [[nodiscard]] const Value& operator[](ValueId v) const { return values[v.index]; }
  [[nodiscard]] Value& operator[](ValueId v) { return values[v.index]; }
  [[nodiscard]] const Op& operator[](OpId o) const { return ops[o.index]; }
  [[nodiscard]] Op& operator[](OpId o) { return ops[o.index]; }
  [[nodiscard]] const Block& operator[](BlockId b) const { return blocks[b.index]; }
  [[nodiscard]] Block& operator[](BlockId b) { return blocks[b.index]; }
  [[nodiscard]] const Function& operator[](FuncId f) const { return functions[f.index]; }
  [[nodiscard]] Function& operator[](FuncId f) { return functions[f.index]; }
  [[nodiscard]] const Type& typeOf(ValueId v) const { return types[values[v.index].type]; }
  [[nodiscard]] std::span<const ValueId> operands(OpId o) const {
    return {operandPool.data() + ops[o.index].firstOperand, ops[o.index].numOperands};
  }
  [[nodiscard]] std::span<ValueId> operands(OpId o) {
    return {operandPool.data() + ops[o.index].firstOperand, ops[o.index].numOperands};
  }
  [[nodiscard]] ValueId operand(OpId o, size_t i) const { return operands(o)[i]; }
  [[nodiscard]] ValueId result(OpId o, size_t i = 0) const {
    return ValueId(ops[o.index].firstResult.index + static_cast<uint32_t>(i));
  }
  [[nodiscard]] BlockId region(OpId o, size_t i = 0) const {
    return BlockId(ops[o.index].firstRegion.index + static_cast<uint32_t>(i));
  }
  [[nodiscard]] const OpRecord& record(OpId o) const;
  [[nodiscard]] OpId definingOp(ValueId v) const; // invalid for block arguments, literals, symbols
  [[nodiscard]] FuncId findFunction(std::string_view name) const;

  // --- attributes of an op, by name ---
  [[nodiscard]] AttrId attr(OpId o, std::string_view name) const; // as written, no default; invalid if absent
  void setAttr(OpId o, std::string_view name, AttrId value); // adds or replaces; keeps the record's order

  // --- creation (a new entity is in no block until a pass inserts it) ---
  OpId makeOp(OpKind kind, std::span<const ValueId> operands, uint32_t numResults, AttrList attrs = {},
              uint32_t numRegions = 0, SourceRange loc = {});
  void makeResults(OpId, std::span<const TypeId> types); // replaces the results
  ValueId makeBlockArg(BlockId block, TypeId type, StrId name = {});
  ValueId makeLiteral(AttrId literal, DType dtype, SourceRange loc = {});
  ValueId makeSymbol(Dim symbol, DType dtype, SourceRange loc = {});
  BlockId makeBlock();
  void setOperands(OpId o, std::span<const ValueId> operands);
  TypeId tensorType(DType dtype, std::span<const Dim> dims);
  TypeId tensorType(DType dtype, std::initializer_list<int64_t> dims);
};

// The number of uses of each value as an operand or in a yield, over one function or the whole module.
class UseCounts {
public:
  explicit UseCounts(const Module&);
  [[nodiscard]] uint32_t operator[](ValueId v) const { return counts_[v.index]; }

private:
  std::vector<uint32_t> counts_;
};

// Calls `fn(OpId)` for each op of a block and of nested regions, in program order.
template <class Fn> void forEachOp(const Module& m, BlockId block, Fn&& fn) {
  // Loops by index, because fn may append ops and blocks to the tables.
  for (size_t i = 0; i < m[block].ops.size(); ++i) {
    OpId o = m[block].ops[i];
    fn(o);
    for (uint32_t r = 0; r < m[o].numRegions; ++r) forEachOp(m, m.region(o, r), fn);
  }
}

// A module with m's tables (strings to attributes, so that their ids hold) and no functions.
[[nodiscard]] Module tablesOf(const Module& m);
// The function that {grad = @g} names; invalid where there is none.
[[nodiscard]] FuncId ownGradient(const Module&, FuncId);
[[nodiscard]] Level levelOf(const Module&, FuncId);
// Whether only a `fused` region can run the op, and it is in none: compute, as opposed to communication,
// control flow, and values that are known at load time.
[[nodiscard]] bool needsRegion(const Module&, OpId);

} // namespace dtc
