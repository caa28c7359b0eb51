#pragma once
// The attribute `within`: of which calls, that inlining has dissolved, an op is a part ("block.0/layer.1"), where a function
// on the way has a communication contract. Passes hand it on to what they make of an op; private to lib/Passes.
#include "dtc/IR/Builder.h"

namespace dtc {

// As an attribute list: empty, or `within` alone.
[[nodiscard]] AttrList withinOf(const Module&, OpId);
// The paths that it lists.
[[nodiscard]] std::vector<std::string_view> withinPaths(const Module&, OpId);
// Adds what stands on `from` to what stands on `to`.
void addWithin(Module&, OpId to, const AttrList& from);
void setWithin(Module&, OpId, std::span<const std::string> paths); // none: takes it away
// The attributes without `within`: ops that differ in it alone do the same.
[[nodiscard]] AttrList withoutWithin(const Module&, const AttrList&);

// `ops` are the copy of the body of a function that `call` called, in function `caller`. Where the callee has contracts,
// its own or inlined ones, the ops get to know the call, and the caller takes the contracts over.
void enterCall(Module&, FuncId caller, OpId call, FuncId callee, std::span<const OpId> ops);

} // namespace dtc
