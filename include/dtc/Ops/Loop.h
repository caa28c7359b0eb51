#pragma once
// Loops from C++: a function fills the block.
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

} // namespace dtc::ops
