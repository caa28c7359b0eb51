// Kinds of diagnostics: meshes, shardings, local text.
#include "KindPagesParts.h"

namespace dtc {

namespace {

// clang-format off
constexpr KindPage kPages[] = {
    {"axis-size",
     "The size of a mesh axis is at least 1.",
     "opt -", R"(mesh @m = [a=0]

func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "a=0", "a=1"},
    {"mesh-too-large",
     "A mesh has more devices than 31 bits can number.",
     "opt -", R"(mesh @m = [a=65536, b=65536]

func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "b=65536", "b=2"},
    {"mesh-devices",
     "The mesh's list of devices is not a permutation of as many devices as the mesh has, or "
     "two meshes are not over the same devices.",
     "opt -", R"(mesh @m = [a=2] {devices = [0, 1, 2]}

func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "[0, 1, 2]", "[1, 0]"},
    {"mesh-override",
     "--mesh gives a size for an axis that the mesh does not have.",
     "", "", "", "",
     "a wrong --mesh is an error of the command line"},
    {"ambiguous-mesh",
     "The module has several meshes, so a sharding must say which one it means.",
     "opt -", R"(mesh @m = [a=2]
mesh @n = [a=4]

func @main(%x: f32[4] {a}) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "f32[4] {a}", "f32[4] @m{a}"},
    {"missing-mesh",
     "A sharding is written, but no mesh is declared.",
     "opt -", R"(func @main(%x: f32[4] {dp}) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "func", R"(mesh @m = [dp=2]

func)"},
    {"invalid-sharding",
     "The sharding does not fit its tensor or its mesh: another number of dims, an axis that "
     "is used twice, sub-axes that overlap or do not divide the axis.",
     "opt -", R"(mesh @m = [a=2, b=4]

func @main(%x: f32[4, 4] @m{a}) -> (%y: f32[4, 4]) {
  %y = relu %x
  return %y
}
)", "@m{a}", "@m{a, _}"},
    {"duplicate-axis",
     "The same axis is used twice where it can be used once.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[2] of f32[4] @m{a}) -> (f32[2] of f32[4] @m{a}) {
  %y = all_reduce %x {axes = [a, a]}
  return %y
}
)", "[a, a]", "[a]"},
    {"priority-on-closed",
     "A priority says how soon propagation may shard an open dim; '_' is closed.",
     "opt -", R"(mesh @m = [a=2, b=4]

func @main(%x: f32[4] @m{_ p1}) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "_ p1", "? p1"},
    {"unknown-pending-kind",
     "After '|' a sharding lists partial values by how they are reduced (sum, avg, prod, max, "
     "min, any, all), and 'rep' for axes that replicate.",
     "opt -", R"(mesh @m = [a=2, b=4]

func @main(%x: f32[4] @m{_ | add(a)}) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "add(a)", "sum(a)"},
    {"placement-syntax",
     "In mesh style, [R, S(0)], each axis of the mesh has a placement: R, S(dim) or P(kind).",
     "opt -", R"(mesh @m = [a=2, b=4]

func @main(%x: f32[4] @m[Shard(0), R]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "Shard(0)", "S(0)"},
    {"placement-count",
     "In mesh style a sharding has one placement for each axis of the mesh.",
     "opt -", R"(mesh @m = [a=2, b=4]

func @main(%x: f32[4] @m[R]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "[R]", "[R, R]"},
    {"reshard-needs-sharding",
     "'reshard' changes a sharding; the new one is written after the type of its result.",
     "opt -", R"(mesh @m = [a=2, b=4]

func @main(%x: f32[4] @m{a}) -> (%y: f32[4]) {
  %y = reshard %x
  return %y
}
)", "reshard %x", "reshard %x : f32[4] @m{_}"},
    {"mixed-meshes",
     "The operands of an op, or the shardings of one local program, are on different meshes. A "
     "reshard moves a value to another mesh.",
     "opt -", R"(mesh @m = [a=2]
mesh @n = [a=2]

func @main(%x: f32[8] @m{a}, %z: f32[8] @n{a}) -> (%y: f32[8]) {
  %y = add %x, %z
  return %y
}
)", "%y = add %x, %z", R"(%w = reshard %z : f32[8] @m{a}
  %y = add %x, %w)"},
    {"shard-size-in-global",
     "Sizes such as 11/b, the part of a dim that one device holds, belong to local text (spmd "
     "functions and 'local' blocks).",
     "opt -", R"(mesh @m = [a=2, b=4]

func @main(%x: f32[11/b]) -> () {
  return
}
)", "11/b", "11"},
    {"shard-in-global",
     "'of' says of which tensor an argument of an spmd function is a shard; a global function "
     "has whole tensors.",
     "opt -", R"(mesh @m = [a=2, b=4]

func @main(%x: f32[2] of f32[4] @m{a}) -> () {
  return
}
)", "f32[2] of f32[4]", "f32[4]"},
    {"of-needs-sharding",
     "A shard ('of') needs the sharding that it is a shard by.",
     "opt -", R"(mesh @m = [a=2, b=4]

spmd func @main(%x: f32[2] of f32[4]) -> () {
  return
}
)", "of f32[4]", "of f32[4] @m{a}"},
    {"needs-of",
     "A sharding in the head of an spmd function needs the tensor that is sharded.",
     "opt -", R"(mesh @m = [a=2, b=4]

spmd func @main(%x: f32[2] @m{a}) -> () {
  return
}
)", "f32[2] @m", "f32[2] of f32[4] @m"},
    {"shard-type",
     "The type of a shard is not what the sharding gives one device.",
     "opt -", R"(mesh @m = [a=2, b=4]

spmd func @main(%x: f32[4] of f32[4] @m{a}) -> () {
  return
}
)", "%x: f32[4]", "%x: f32[2]"},
    {"open-sharding",
     "A shard has a type only if its sharding is closed: every dim says '_' or an axis, none "
     "'?'.",
     "opt -", R"(mesh @m = [a=2, b=4]

spmd func @main(%x: f32[2] of f32[4] @m{a?}) -> () {
  return
}
)", "a?", "a"},
    {"bind-sharding",
     "A 'local' block shards a dim that has no shard by this sharding: it is a shard already, "
     "or its blocks do not divide it.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[7/a] of f32[7] @m{a}) -> () {
  %y = local (%p = %x @m{a}) { yield %p } : f32[7/a] @m{a}
  return
}
)", "  %y = local (%p = %x @m{a}) { yield %p } : f32[7/a] @m{a}", "  %y = relu %x"},
    {"sharding-in-local",
     "In local text a value is what one device holds; only arguments and results of the "
     "function have shardings.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[2] of f32[4] @m{a}) -> () {
  %y = relu %x : f32[2] @m{a}
  return
}
)", " : f32[2] @m{a}", ""},
    {"only-local",
     "Collectives and the like belong to local text. In global text propagate and partition "
     "find them.",
     "opt -", R"(mesh @m = [a=2]

func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = all_reduce %x {axes = [a]}
  return %y
}
)", "%y = all_reduce %x {axes = [a]}", "%y = relu %x"},
    {"only-global",
     "Annotations such as 'shard' belong to global text; in local text a collective does what "
     "they ask for.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[2] of f32[4] @m{a}) -> () {
  %y = shard %x
  return
}
)", "shard %x", "relu %x"},
    {"local-in-local",
     "A 'local' block cannot stand within local text: everything there is per device already.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[4] @m{_}) -> () {
  %y = local (%p = %x) { yield %p } : f32[4] @m{_}
  return
}
)", "  %y = local (%p = %x) { yield %p } : f32[4] @m{_}", "  %y = relu %x"},
    {"varying-predicate",
     "A collective is in a branch or loop whose predicate may differ between the devices "
     "that meet in it: some would wait forever.",
     "opt -", R"(mesh @m = [b=3]

spmd func @main(%x: f32[4] of f32[12] @m{b}, %k: f32[]) -> () {
  %s = sum %x
  %p = gt %s, 0.0
  %c = cond %p {
    %r = all_reduce %s {axes = [b]}
    yield %r
  } {
    yield %k
  }
  return
}
)", "%p = gt %s, 0.0", R"(%t = all_reduce %s {axes = [b]}
  %p = gt %t, 0.0)"},
    {"varying-result",
     "A result of an spmd function without 'of' is promised to be equal on all devices, but it "
     "may differ.",
     "opt -", R"(mesh @m = [b=3]

spmd func @main(%x: f32[4] of f32[12] @m{b}) -> (f32[]) {
  %s = sum %x
  return %s
}
)", "return %s", R"(%r = all_reduce %s {axes = [b]}
  return %r)"},
    {"varying-argument",
     "An argument of an spmd function without 'of' is promised to be equal on all devices, but "
     "the value that is passed may differ.",
     "opt -", R"(mesh @m = [a=4]

spmd func @equal(%x: f32[]) -> (f32[]) {
  return %x
}

spmd func @main(%x: f32[2] of f32[8] @m{a}) -> () {
  %s = sum %x
  %c = call @equal(%s)
  return
}
)", "%c = call @equal(%s)", R"(%r = all_reduce %s {axes = [a]}
  %c = call @equal(%r))"},
    {"local-yield-varies",
     "A 'local' block promises a result that is equal along an axis, but the value differs "
     "between devices there.",
     "opt -", R"(mesh @m = [a=2]

func @main(%x: f32[6] @m{a}) -> (%y: i32[]) {
  %y = local (%p = %x @m{a}) {
    %i = axis_index {axes = [a]}
    yield %i
  } : i32[] @m{}
  return %y
}
)", "yield %i", R"(%r = all_reduce %i {axes = [a], op = "max"}
    yield %r)"},
    {"local-yield-pending",
     "A 'local' block promises a reduced result, but the value is still a partial sum along an "
     "axis.",
     "opt -", R"(mesh @m = [a=2]

func @main(%x: f32[6, 4] @m{_, a}, %w: f32[4, 5] @m{a, _}) -> (%y: f32[6, 5]) {
  %y = local (%p = %x @m{_, a}, %q = %w @m{a, _}) {
    %s = matmul %p, %q
    yield %s
  } : f32[6, 5] @m{_, _}
  return %y
}
)", "yield %s", R"(%r = all_reduce %s {axes = [a]}
    yield %r)"},
    {"local-yield-kind",
     "A 'local' block promises a value pending by one reduction, but it is pending by another.",
     "opt -", R"(mesh @m = [a=2]

func @main(%x: f32[6] @m{_ | sum(a)}) -> (%y: f32[6]) {
  %y = local (%p = %x @m{_ | sum(a)}) {
    yield %p
  } : f32[6] @m{_ | max(a)}
  return %y
}
)", "max(a)", "sum(a)"},
    {"local-yield-same",
     "A 'local' block promises a partial sum, but every device holds the same value: the sum "
     "would count it once for each device.",
     "opt -", R"(mesh @m = [a=2]

func @main(%x: f32[6] @m{_}) -> (%y: f32[6]) {
  %y = local (%p = %x @m{_}) {
    yield %p
  } : f32[6] @m{_ | sum(a)}
  return %y
}
)", "{_ | sum(a)}", "{_}"},
    {"pending-lost",
     "A value is a partial sum (or maximum, ...) along an axis, and the op is not linear, so "
     "it cannot be applied before the reduction. Insert an all_reduce.",
     "opt -", R"(mesh @m = [a=2]

func @main(%x: f32[6] @m{_ | sum(a)}) -> (%y: f32[6]) {
  %y = local (%p = %x @m{_ | sum(a)}) {
    %e = exp %p
    %r = all_reduce %e {axes = [a]}
    yield %r
  } : f32[6] @m{_}
  return %y
}
)", R"(%e = exp %p
    %r = all_reduce %e {axes = [a]})", R"(%e = all_reduce %p {axes = [a]}
    %r = exp %e)"},
    {"handle-use",
     "What a ..._start op gives is a handle, not a value; only 'done' takes it.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}) -> () {
  %h = all_reduce_start %x {axes = [a]}
  %y = relu %h
  %z = done %h
  return
}
)", R"(  %y = relu %h
  %z = done %h)", R"(  %z = done %h
  %y = relu %z)"},
    {"duplicate-done",
     "'done' takes each handle once.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}) -> () {
  %h = all_reduce_start %x {axes = [a]}
  %y = done %h
  %z = done %h
  return
}
)", R"(
  %z = done %h)", ""},
    {"handle-unused",
     "A collective is started and its result is never awaited with 'done'.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}) -> () {
  %h = all_reduce_start %x {axes = [a]}
  return
}
)", "  return", R"(  %y = done %h
  return)"},
    {"not-a-handle",
     "'done' takes what a ..._start op gives.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}) -> () {
  %y = done %x
  return
}
)", "%y = done %x", R"(%h = all_reduce_start %x {axes = [a]}
  %y = done %h)"},
    {"collective-size",
     "A collective makes a dim of more than 2^63-1 elements.",
     "", "", "", "",
     "it takes sizes near 2^63"},
};
// clang-format on

} // namespace

std::span<const KindPage> kindPagesOfShardings() { return kPages; }

} // namespace dtc
