// What optimize-collectives does, one example a kind.
#include "Collectives.h"

namespace dtc {

namespace {

std::vector<PassExample> messages() {
  return {{"Equal collectives become one, and a gather that is cut again goes",
           R"(mesh @pod = [tp=4]

spmd func @main(%x: f32[2, 16] of f32[8, 16] @pod{tp, _})
    -> (%y: f32[8, 16] of f32[8, 16] @pod{_, _}, %z: f32[2, 16] of f32[8, 16] @pod{tp, _}) {
  %0 = all_gather %x {axes = [tp], dim = 0} : f32[8, 16]
  %1 = all_gather %x {axes = [tp], dim = 0} : f32[8, 16]
  %2 = add %0, %1 : f32[8, 16]
  %3 = all_slice %1 {axes = [tp], dim = 0} : f32[2, 16]
  return %2, %3
}
)",
           R"(mesh @pod = [tp=4]

spmd func @main(%x: f32[2, 16] of f32[8, 16] @pod{tp, _})
    -> (%y: f32[8, 16] of f32[8, 16] @pod{_, _}, %z: f32[2, 16] of f32[8, 16] @pod{tp, _}) {
  %0 = all_gather %x {axes = [tp], dim = 0} : f32[8, 16]
  %2 = add %0, %0 : f32[8, 16]
  return %2, %x
}
)"},
          {"Small reductions travel together",
           R"(mesh @pod = [dp=4]

spmd func @main(%a: f32[8, 3] of f32[8, 3] @pod{_, _ | sum(dp)}, %b: f32[5] of f32[5] @pod{_ | sum(dp)})
    -> (%x: f32[8, 3] of f32[8, 3] @pod{_, _}, %y: f32[5] of f32[5] @pod{_}) {
  %x = all_reduce %a {axes = [dp]} : f32[8, 3]
  %y = all_reduce %b {axes = [dp]} : f32[5]
  return %x, %y
}
)",
           R"(mesh @pod = [dp=4]

spmd func @main(%a: f32[8, 3] of f32[8, 3] @pod{_, _ | sum(dp)},
                %b: f32[5] of f32[5]       @pod{_ | sum(dp)})
    -> (%x: f32[8, 3] of f32[8, 3] @pod{_, _}, %y: f32[5] of f32[5] @pod{_}) {
  %0 = reshape %a {shape = [24]} : f32[24]
  %1 = concat %0, %b {dim = 0} : f32[29]
  %2 = all_reduce %1 {axes = [dp]} : f32[29]
  %3 = slice %2 {start = [0], limit = [24]} : f32[24]
  %x = reshape %3 {shape = [8, 3]} : f32[8, 3]
  %y = slice %2 {start = [24], limit = [29]} : f32[5]
  return %x, %y
}
)"}};
}

std::vector<PassExample> loops() {
  return {{"What no iteration of a loop changes goes before it",
           R"(mesh @pod = [dp=4]

spmd func @main(%w: f32[2, 8] of f32[8, 8] @pod{dp, _}, %x: f32[4, 8] of f32[16, 8] @pod{dp, _})
    -> (%y: f32[4, 8] of f32[16, 8] @pod{dp, _}) {
  %y = for %i in 0..6 (%h = %x : f32[4, 8]) {
    %full = all_gather %w {axes = [dp], dim = 0} : f32[8, 8]
    %0 = matmul %h, %full : f32[4, 8]
    yield %0
  } : f32[4, 8]
  return %y
}
)",
           R"(mesh @pod = [dp=4]

spmd func @main(%w: f32[2, 8] of f32[8, 8]  @pod{dp, _},
                %x: f32[4, 8] of f32[16, 8] @pod{dp, _}) -> (%y: f32[4, 8] of f32[16, 8] @pod{dp, _}) {
  %full = all_gather %w {axes = [dp], dim = 0} : f32[8, 8]
  %y = for %i in 0..6 (%h = %x) {
    %0 = matmul %h, %full : f32[4, 8]
    yield %0
  } : f32[4, 8]
  return %y
}
)"},
          {"A sum that a loop adds up is reduced once, after it",
           R"(mesh @pod = [dp=4]

spmd func @main(%x: f32[3, 5, 8] of f32[3, 20, 8] @pod{_, dp, _})
    -> (%y: f32[8] of f32[8] @pod{_}) {
  %zero = constant {value = 0.0} : f32[8]
  %y = for %i in 0..3 (%total = %zero : f32[8]) {
    %0 = index_select %x, %i {dim = 0} : f32[5, 8]
    %1 = sum %0 {dims = [0]} : f32[8]
    %2 = all_reduce %1 {axes = [dp]} : f32[8]
    %3 = add %total, %2 : f32[8]
    yield %3
  } : f32[8]
  return %y
}
)",
           R"(mesh @pod = [dp=4]

spmd func @main(%x: f32[3, 5, 8] of f32[3, 20, 8] @pod{_, dp, _}) -> (%y: f32[8] of f32[8] @pod{_}) {
  %zero = constant {value = 0.0} : f32[8]
  %2 = for %i in 0..3 (%total = %zero) {
    %0 = index_select %x, %i {dim = 0} : f32[5, 8]
    %1 = sum %0 {dims = [0]} : f32[8]
    %3 = add %total, %1 : f32[8]
    yield %3
  } : f32[8]
  %y = all_reduce %2 {axes = [dp]} : f32[8]
  return %y
}
)"}};
}

} // namespace

std::vector<PassExample> optimizeCollectivesExamples() {
  std::vector<PassExample> all = messages();
  for (const PassExample& e : loops()) all.push_back(e);
  return all;
}

} // namespace dtc
