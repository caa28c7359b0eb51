#pragma once
// Appends ops to a list and infers their types. Gradients, decompositions and passes build IR with it.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Thrown by a Builder that builds ops for an untrusted file (Builder::forFile): an op does not match its
// operands. Caught by the importer, at the node of the file.
struct BuildError {
  std::string what; // the message of inference
};

class Builder {
public:
  // New ops are appended to `out` (a pass's new op list of block `parent`).
  Builder(Module& m, BlockId parent, std::vector<OpId>& out, Diagnostics& diags)
      : module(m), parent(parent), out(out), diags(diags) {}

  Module& module;
  BlockId parent;
  std::vector<OpId>& out;
  Diagnostics& diags;
  SourceRange loc; // the location of new ops
  MeshId mesh;     // OpQuery::mesh of new ops: that of the spmd function that contains them
  AttrList common; // name/loc/stage attributes given to new ops (inherited from the op being rewritten)
  // Literals of narrow floats keep the precision of f32: for ops that are computed in f32 outside of a module.
  bool exact = false;
  bool forFile = false; // a mismatch is the file's error: a BuildError, instead of a bug of dtc

  // Makes an op and infers its types (a failure is a bug of the caller: DTC_CHECK; or see `forFile`).
  // `resultTypes` is required for ops whose types are written (constant, iota, full). Code that builds known
  // ops uses Ops/Expr.h.
  OpId op(OpKind kind, std::span<const ValueId> operands, const AttrList& attrs = {},
          std::span<const TypeId> resultTypes = {});
  [[noreturn]] void mismatch(const std::string& what) const;
  ValueId literal(double v, DType dtype);  // a literal operand (integer literals for integer dtypes)
  ValueId constant(double v, TypeId type); // a `constant` op: a splat
  AttrId ints(std::span<const int64_t> v) { return module.attrs.integers(v); }
  AttrId integer(int64_t v) { return module.attrs.integer(v); }
  AttrId boolean(bool v) { return module.attrs.boolean(v); }
  AttrId word(std::string_view w) { return module.attrs.word(module.strings.intern(w)); }
  // Copies statements of IR text into this list with %names bound to `bindings`; returns what the text
  // yields. Used for gradients that are written as text (OpRecord::grad).
  [[nodiscard]] bool inlineText(std::string_view text,
                                std::span<const std::pair<std::string_view, ValueId>> bindings,
                                std::vector<ValueId>& yields);
};

} // namespace dtc
