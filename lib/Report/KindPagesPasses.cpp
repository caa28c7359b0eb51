// Kinds of diagnostics: policies, partitioning, contracts.
#include "KindPagesParts.h"

namespace dtc {

namespace {

// clang-format off
constexpr KindPage kPages[] = {
    {"pass-option",
     "An option of a pass has a value that it does not take.",
     "opt - -p 'inline,propagate,partition,fuse{order=sorted}'", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "", "opt - -p 'inline,propagate,partition,fuse{order=fixed}'"},
    {"unknown-policy",
     "There is no policy of this name: shardy, dtensor, cost or explicit.",
     "opt - -p 'propagate{policy=explizit}'", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "", "opt - -p 'propagate{policy=explicit}'"},
    {"needs-autodiff",
     "value_and_grad must be differentiated before propagation: run the pass autodiff first.",
     "opt - -p propagate", R"(func @loss(%x: f32[4]) -> (f32[]) {
  %s = sum %x
  return %s
}

func @main(%x: f32[4]) -> (f32[], f32[4]) {
  %l, %d = value_and_grad @loss(%x)
  return %l, %d
}
)", "", "opt - -p autodiff,propagate"},
    {"needs-propagate",
     "The pass partition needs every value with a closed sharding: run the pass propagate "
     "first.",
     "", "", "", "",
     "the order of the passes is checked before the program"},
    {"no-gradient",
     "The op has no gradient, and the gradient that is asked for passes through it. Put a "
     "stop_gradient before it if none should.",
     "opt - -p autodiff", R"(func @loss(%x: f32[4]) -> (f32[]) {
  %i = bitcast %x {dtype = f32}
  %l = sum %i
  return %l
}

func @main(%x: f32[4]) -> (f32[], f32[4]) {
  %l, %d = value_and_grad @loss(%x)
  return %l, %d
}
)", "bitcast %x {dtype = f32}", "relu %x"},
    {"pending-gradient",
     "A 'local' block gives a result that is pending as a max or the like; only sums and "
     "averages have a gradient.",
     "opt - -p autodiff", R"(mesh @m = [b=2]

func @loss(%x: f32[4] @m{b}) -> (f32[]) {
  %y = local (%a = %x @m{b}) {
    %s = sum %a
    yield %s
  } : f32[] @m{| max(b)}
  return %y
}

func @main(%x: f32[4] @m{b}) -> (f32[], f32[4]) {
  %l, %d = value_and_grad @loss(%x)
  return %l, %d
}
)", "max(b)", "sum(b)"},
    {"unbounded-loop",
     "The gradient of a loop reads values of every iteration, so the number of iterations "
     "needs a bound: bounds that are numbers, or {max_trips = N}.",
     "opt - -p autodiff", R"(func @loss(%x: f32[4], %n: i32[]) -> (f32[]) {
  %y = for %i in 0..%n (%h = %x) {
    %e = exp %h
    yield %e
  }
  %l = sum %y
  return %l
}

func @main(%x: f32[4], %n: i32[]) -> (f32[], f32[4]) {
  %l, %d = value_and_grad @loss(%x, %n)
  return %l, %d
}
)", "0..%n", "0..8"},
    {"explicit-conflict",
     "Policy 'explicit' decides nothing by itself, and the shardings around this op leave "
     "several ways to run it. The note lists them with their cost.",
     "opt - -p 'propagate{policy=explicit}'", R"(mesh @m = [a=2]

func @main(%x: f32[8, 8] @m{a, _}, %w: f32[8, 8] @m{_, a}) -> (%y: f32[8, 8]) {
  %y = matmul %x, %w
  return %y
}
)", "%w: f32[8, 8] @m{_, a}", "%w: f32[8, 8] @m{_, _}"},
    {"explicit-boundary",
     "Policy 'explicit' moves no data by itself, and a value is needed with another sharding "
     "than it has. Write a reshard.",
     "opt - -p 'propagate{policy=explicit}'", R"(mesh @m = [a=2]

func @main(%x: f32[8] @m{a}) -> (%y: f32[8] @m{_}) {
  %y = exp %x
  return %y
}
)", "  %y = exp %x", R"(  %e = exp %x
  %y = reshard %e : f32[8] @m{_})"},
    {"mesh-sub-axes",
     "Two meshes over the same devices are used together, and a sub-axis of one ends within a "
     "sub-axis of the other.",
     "opt - -p propagate,partition", R"(mesh @m = [c=2, d=3]
mesh @n = [e=6]

func @main(%x: f32[6] @m{c}) -> (%y: f32[6] @n{e:(1)3}) {
  %y = reshard %x : f32[6] @n{e:(1)3}
  return %y
}
)", R"(@n{e:(1)3}) {
  %y = reshard %x : f32[6] @n{e:(1)3})", R"(@n{e}) {
  %y = reshard %x : f32[6] @n{e})"},
    {"partition-strided-index",
     "The op counts along a dim that is sharded in blocks. Put a 'shard' with a plain sharding "
     "on its result.",
     "", "", "", "",
     "propagate chooses no such sharding by itself"},
    {"communication-contract",
     "A function promises which collectives it may need (comm = [...]), and the program needs "
     "others. The notes give the reason of each.",
     "opt - -p inline,propagate,partition,optimize-collectives", R"(mesh @m = [dp=2, tp=2]

func @main(%x: f32[6, 4] @m{dp, tp}, %w: f32[4, 4] @m{tp, _}) -> (%y: f32[6, 4] @m{dp, _}) {comm = ["none"]} {
  %y = matmul %x, %w
  return %y
}
)", R"("none")", R"("all_reduce(tp) <= 1")"},
    {"contract-syntax",
     "A communication contract is 'none', or a collective with axes and a bound, as in "
     "\"all_reduce(tp) <= 1\".",
     "opt -", R"(mesh @m = [dp=2, tp=2]

func @main(%x: f32[4]) -> (%y: f32[4]) {comm = ["all_reduce(tp) < 1"]} {
  %y = neg %x
  return %y
}
)", "< 1", "<= 1"},
    {"unknown-collective",
     "A communication contract names a collective that does not exist.",
     "opt -", R"(mesh @m = [dp=2, tp=2]

func @main(%x: f32[4]) -> (%y: f32[4]) {comm = ["all_redcue(tp) <= 1"]} {
  %y = neg %x
  return %y
}
)", "all_redcue", "all_reduce"},
    {"fixed-order-collective",
     "--reduction-order fixed asks for the same bits on every mesh, and this collective adds "
     "in the order of the mesh.",
     "opt - -p fix-reduction-order", R"(mesh @m = [a=2]

func @main(%x: f32[4] @m{a}) -> (%y: f32[2] @m{_}) {
  %y = local (%b = %x @m{a}) {
    %1 = all_reduce %b {axes = [a]}
    yield %1
  } : f32[2] @m{_}
  return %y
}
)", "", "opt -"},
    {"fixed-order-pending",
     "--reduction-order fixed asks for the same bits on every mesh, and this value is a "
     "partial result, which depends on the mesh.",
     "opt - -p fix-reduction-order", R"(mesh @m = [a=2]

func @main(%x: f32[4] @m{_ | sum(a)}) -> (%y: f32[4]) {
  %y = neg %x
  return %y
}
)", "_ | sum(a)", "_"},
    {"fixed-order-meshes",
     "--reduction-order fixed is for programs with one mesh.",
     "opt - -p fix-reduction-order", R"(mesh @m = [a=2]
mesh @n = [b=2]

func @main(%x: f32[4] @m{a}) -> (%y: f32[4]) {
  %y = neg %x
  return %y
}
)", R"(
mesh @n = [b=2])", ""},
    {"fixed-order-local",
     "--reduction-order fixed is for global programs: in local text the reductions are split "
     "already.",
     "opt - -p fix-reduction-order", R"(mesh @m = [a=2]

spmd func @main(%x: f32[2] of f32[4] @m{a}) -> (%y: f32[2] of f32[4] @m{a}) {
  %y = neg %x
  return %y
}
)", "", "opt -"},
    {"memory-unbound",
     "Memory is planned for sizes that are numbers. Bind each symbol: --dim B=64.",
     "opt - -p inline,propagate,partition,fuse,plan-memory", R"(func @main(%x: f32[B]) -> (%y: f32[B]) {
  %y = neg %x
  return %y
}
)", "", "opt - --dim B=64 -p inline,propagate,partition,fuse,plan-memory"},
    {"strict-nonfinite",
     "The option strict-nonfinite of propagate takes true or false.",
     "", "", "", "",
     "see pass-option"},
    {"pass-order",
     "A pass takes a program that an earlier one has rewritten: kernels hold neither the block of a "
     "recompute nor complex arithmetic.",
     "opt - -p propagate,partition,fuse", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = recompute (%a = %x) {
    %t = tanh %a
    yield %t
  }
  return %y
}
)", "", "opt - -p propagate,partition,inline-recompute,fuse"},
    {"unfit-shardings",
     "A pass takes propagated text, and the shardings that are written around an op leave it "
     "no way to run.",
     "", "", "", "",
     "propagate writes none that do not fit"},
};
// clang-format on

} // namespace

std::span<const KindPage> kindPagesOfPasses() { return kPages; }

} // namespace dtc
