#pragma once
// The attribute `within`: of which calls, that inlining has dissolved, an op is a part ("block.0/layer.1"), where a function
// on the way has a communication contract. An op of the gradient of such calls is part of "block.0.grad/layer.1.grad". Passes
// hand it on to what they make of an op; private to lib/Passes.
#include "dtc/IR/Builder.h"
#include "dtc/IR/CommContract.h"

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

// What an op has that autodiff makes of `forward`: the calls that the gradient is taken in (`taker`), and the gradients of the
// calls below those that `forward` is part of.
[[nodiscard]] AttrList gradientWithin(Module&, OpId forward, const AttrList& taker);
// An op of the forward program, and those in its blocks, that a gradient runs again.
void becomeGradient(Module&, OpId, const AttrList& taker);

// `ops` are the copy of the body of a function that `call` called, in function `caller`. Where the callee has contracts,
// its own or inlined ones, the ops get to know the call, and the caller takes the contracts over; they are part of the calls
// that `call` is part of in any case.
void enterCall(Module&, FuncId caller, OpId call, FuncId callee, std::span<const OpId> ops);

} // namespace dtc
