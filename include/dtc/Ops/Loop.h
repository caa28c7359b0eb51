#pragma once
// Ops with blocks from C++: a function fills each block.
#include "dtc/Ops/Expr.h"
#include <functional>

namespace dtc::ops {

// Fills a block with what `body` appends to `in`, which has the location, mesh and common attributes of
// `outer`; `body` returns the yields. An Expr of an enclosing block appends there: bind its value to `in`.
using BlockBody = std::function<std::vector<ValueId>(Builder& in)>;
void writeBlock(Builder& outer, BlockId block, const BlockBody& body);

// Appends a `for` over i32 indices [first, last). `body` returns the carried values of the next iteration,
// in the order of `starts`, then values to stack along a new dim 0. Returns the last carried values and the
// stacks.
using LoopBody =
    std::function<std::vector<ValueId>(Builder& in, Expr index, std::span<const ValueId> carried)>;
std::vector<Expr> forLoop(Builder&, Arg first, Arg last, const Values& starts, const LoopBody& body);

// Appends a `cond`. Both functions return values of the same types.
std::vector<Expr> condition(Builder&, Expr p, const BlockBody& ifTrue, const BlockBody& ifFalse);

// Appends a `recompute` that sees the values around it: the backward part computes its block again.
std::vector<Expr> recompute(Builder&, const BlockBody& body);

// Appends a `while`: `goesOn` returns a bool scalar, `body` the next values of `starts`. Returns the last ones.
using WhileBody = std::function<std::vector<ValueId>(Builder& in, std::span<const ValueId> carried)>;
std::vector<Expr> whileLoop(Builder&, const Values& starts, const WhileBody& goesOn, const WhileBody& body);

// Appends a `recompute`, whose ops are not merged with equal ones outside.
using RecomputeBody = std::function<std::vector<ValueId>(Builder& in, std::span<const ValueId> starts)>;
std::vector<Expr> recomputed(Builder&, const Values& starts, const RecomputeBody& body);

} // namespace dtc::ops
