#pragma once
// The module: meshes, functions, ops, values, types. All entities are 32-bit ids into tables of the module; there are no
// use lists (a pass that needs uses counts them: UseCounts below). A pass edits by writing new op lists into blocks.
#include "dtc/IR/Attr.h"
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/DType.h"
#include "dtc/Support/Diagnostics.h"

namespace dtc {

struct OpRecord;
class OpRegistry;

using OpKind = uint16_t; // index of the op's record in the registry
inline constexpr OpKind kNoOpKind = 0xffff;

struct Type {
  DType dtype = DType::F32;
  std::vector<Dim> dims;
  [[nodiscard]] size_t rank() const { return dims.size(); }
  [[nodiscard]] bool isStatic() const;                      // all dims are numbers
  [[nodiscard]] std::optional<int64_t> numElements() const; // of a static type; nothing on overflow
  [[nodiscard]] std::vector<int64_t> staticShape() const;   // of a static type
  friend bool operator==(const Type&, const Type&) = default;
};

class TypeTable {
public:
  TypeId intern(Type t);
  [[nodiscard]] const Type& operator[](TypeId id) const { return storage_[id.index]; }

private:
  std::deque<Type> storage_;
  std::unordered_multimap<size_t, uint32_t> byHash_;
};

enum class ValueKind : uint8_t {
  OpResult, // `owner` is an OpId, `position` the result number
  BlockArg, // `owner` is a BlockId, `position` the argument number
  Literal,  // a literal operand; `literal` has it; its type is a scalar of the dtype that its place asked for
  Symbol,   // a symbolic size as an operand; `symbol` is the Dim
};

struct Value {
  ValueKind kind = ValueKind::OpResult;
  uint32_t owner = 0;
  uint32_t position = 0;
  TypeId type;         // invalid only between parsing and inference
  ShardingId sharding; // invalid: none written
  StrId name;          // without %; invalid: the printer picks the least free number
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
      attrs; // in the record's order, defaults left out; then the common ones (stage, stream, at, name, loc)
  StrId callee; // call, value_and_grad
  BlockId parent;
  SourceRange loc; // of the op's name, for diagnostics
};

// A region has exactly one block. For `while local recompute fused` the operands of the op are the binds' starts and the
// block's arguments their names; `while` has two blocks with equal arguments; for `for` operands are [lo, hi, starts…] and
// the block's arguments [i, carried…]. `cond` has operand p and two blocks without arguments.
struct Block {
  std::vector<ValueId> args;
  std::vector<OpId> ops;
  std::vector<ValueId> yields; // operands of `return` or `yield`
  SourceRange terminatorLoc;
  OpId parentOp;     // invalid for a function's body
  FuncId parentFunc; // of the function whose body this is or is inside of
};

struct FuncArg {
  ValueId value;     // block argument of the body; its type is the local one in an spmd function
  TypeId globalType; // `of` type; invalid where none is written
  AttrList attrs;    // donate, name, loc, …
};

struct FuncResult {
  StrId label; // invalid: called by its number
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

// What the levels of ir.md §1 require of the text; read off the module by levelOf.
enum class Level : uint8_t { Global, Propagated, Local, Scheduled };

class Module {
public:
  explicit Module(const OpRegistry& registry) : registry(&registry) {}
  Module(const Module&) = default; // a deep copy: everything is values
  Module(Module&&) noexcept = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) noexcept = default;

  const OpRegistry* registry;
  StringTable strings;
  DimTable dims;
  ShardingTable shardings; // and the meshes
  TypeTable types;
  AttrTable attrs;
  std::vector<Value> values;
  std::vector<ValueId> operandPool;
  std::vector<Op> ops;
  std::vector<Block> blocks;
  std::vector<Function> functions; // in the order read; a removed one has an invalid body
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

  // --- making things (they stand in no block until a pass puts them there) ---
  OpId makeOp(OpKind kind, std::span<const ValueId> operands, uint32_t numResults, AttrList attrs = {},
              uint32_t numRegions = 0, SourceRange loc = {});
  ValueId makeBlockArg(BlockId block, TypeId type, StrId name = {});
  ValueId makeLiteral(AttrId literal, DType dtype, SourceRange loc = {});
  ValueId makeSymbol(Dim symbol, DType dtype, SourceRange loc = {});
  BlockId makeBlock();
  void setOperands(OpId o, std::span<const ValueId> operands);
  TypeId tensorType(DType dtype, std::span<const Dim> dims);
  TypeId tensorType(DType dtype, std::initializer_list<int64_t> dims);
};

// How often each value is used as an operand or yielded, over one function or the whole module.
class UseCounts {
public:
  explicit UseCounts(const Module&);
  [[nodiscard]] uint32_t operator[](ValueId v) const { return counts_[v.index]; }

private:
  std::vector<uint32_t> counts_;
};

// Calls `fn(OpId)` for each op of a block and of all regions inside, in program order.
template <class Fn> void forEachOp(const Module& m, BlockId block, Fn&& fn) {
  // Indexed loops: fn may append ops and blocks to the tables.
  for (size_t i = 0; i < m[block].ops.size(); ++i) {
    OpId o = m[block].ops[i];
    fn(o);
    for (uint32_t r = 0; r < m[o].numRegions; ++r) forEachOp(m, m.region(o, r), fn);
  }
}

[[nodiscard]] Level levelOf(const Module&, FuncId);

} // namespace dtc
