#pragma once
// Appends ops to a list and infers their types: what gradients, decompositions and passes write IR with.
#include "dtc/IR/OpRecord.h"
#include <initializer_list>

namespace dtc {

class Builder {
public:
  // New ops are appended to `out` (a pass's new op list of block `parent`).
  Builder(Module& m, BlockId parent, std::vector<OpId>& out, Diagnostics& diags)
      : module(m), parent(parent), out(out), diags(diags) {}

  Module& module;
  BlockId parent;
  std::vector<OpId>& out;
  Diagnostics& diags;
  SourceRange loc; // given to new ops
  MeshId mesh;     // OpQuery::mesh of new ops: of the spmd function that they go into
  AttrList common; // name/loc/stage attributes given to new ops (inherited from the op being rewritten)

  struct NamedInput {
    const char* name;
    AttrId value;
  };
  // An op by name; types are inferred (a failure here is a bug of the caller: DTC_CHECK). `resultTypes` where the op needs
  // them written (constant, iota, full).
  OpId op(std::string_view name, std::span<const ValueId> operands,
          std::initializer_list<NamedInput> attrs = {}, std::span<const TypeId> resultTypes = {});
  ValueId value(std::string_view name, std::initializer_list<ValueId> operands,
                std::initializer_list<NamedInput> attrs = {});
  ValueId literal(double v, DType dtype);  // a literal operand (integer literals for integer dtypes)
  ValueId constant(double v, TypeId type); // a `constant` op: a splat
  AttrId ints(std::span<const int64_t> v) { return module.attrs.integers(v); }
  AttrId integer(int64_t v) { return module.attrs.integer(v); }
  AttrId boolean(bool v) { return module.attrs.boolean(v); }
  AttrId word(std::string_view w) { return module.attrs.word(module.strings.intern(w)); }
  // Copies statements of IR text into this list with %names bound to `bindings`; returns what it yields. Used for gradients
  // written as text (OpRecord::grad).
  [[nodiscard]] bool inlineText(std::string_view text,
                                std::span<const std::pair<std::string_view, ValueId>> bindings,
                                std::vector<ValueId>& yields);
};

} // namespace dtc
