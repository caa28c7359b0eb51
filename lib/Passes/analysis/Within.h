#pragma once
// The attribute `within`: the inlined calls that an op belongs to ("block.0/layer.1"), if a function on the
// way has a communication contract. An op of the gradient of such calls belongs to
// "block.0.grad/layer.1.grad". Passes propagate it to the ops that replace an op.

namespace dtc {

// As an attribute list: empty, or `within` alone.
[[nodiscard]] AttrList withinOf(const Module&, OpId);
// The paths in the attribute.
[[nodiscard]] std::vector<std::string_view> withinPaths(const Module&, OpId);
// Adds the paths of `from` to those of `to`.
void addWithin(Module&, OpId to, const AttrList& from);
void setWithin(Module&, OpId, std::span<const std::string> paths); // empty: removes the attribute
// The attributes that ops inherit from the op that they replace: `within`, the place in a pipeline (`stage`, `phase`,
// `microbatch`), and the location in the user's program (`name`, `loc`).
[[nodiscard]] AttrList inheritedAttrs(const Module&, OpId);
// The attributes without `within`, `name` and `loc`: ops that differ only in these are equal.
[[nodiscard]] AttrList withoutOrigin(const Module&, const AttrList&);

// The paths of an op that autodiff derives from `forward`: the calls that contain the value_and_grad
// (`taker`), and the gradients of the calls below those that `forward` belongs to.
[[nodiscard]] AttrList gradientWithin(Module&, OpId forward, const AttrList& taker);
// The attributes of an op that autodiff derives from `forward`: these paths, its `stage`, and `phase = "backward"` if
// it has one.
[[nodiscard]] AttrList gradientAttrs(Module&, OpId forward, const AttrList& taker);
// Marks an op of the forward program, and the ops in its blocks, as recomputed by a gradient.
void markRecomputed(Module&, OpId, const AttrList& taker);

// `ops` are the inlined body of a function that `call` called, in function `caller`. If the callee has
// contracts, its own or inlined ones, the call is added to the ops' paths, and the caller takes over the
// contracts; the ops also belong to the calls that `call` belongs to.
void enterCall(Module&, FuncId caller, OpId call, FuncId callee, std::span<const OpId> ops);

} // namespace dtc
