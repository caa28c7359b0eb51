// Kinds of diagnostics: other formats, running, the command line.
#include "KindPagesParts.h"

namespace dtc {

namespace {

// clang-format off
constexpr KindPage kPages[] = {
    {"export-op",
     "StableHLO has no op, or no combination of ops, that does what this op does.",
     "export -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  print %x
  %y = neg %x
  return %y
}
)", R"(  print %x
)", ""},
    {"export-size",
     "Exported programs have sizes that are numbers. Bind each symbol: --dim B=64.",
     "export -", R"(func @main(%x: f32[B]) -> (%y: f32[B]) {
  %y = neg %x
  return %y
}
)", "", "export - --dim B=64"},
    {"export-uneven",
     "The shards of a value differ in size between devices, which StableHLO cannot express. "
     "Export the program before it is partitioned.",
     "export -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[7/a] of f32[7] @m{a}) -> (%y: f32[7/a] of f32[7] @m{a}) {
  %y = neg %x
  return %y
}
)", "f32[7/a] of f32[7] @m{a}) -> (%y: f32[7/a] of f32[7] @m{a})", "f32[4] of f32[8] @m{a}) -> (%y: f32[4] of f32[8] @m{a})"},
    {"export-shard",
     "An spmd function is exported only if each argument and result says of which tensor it is "
     "a shard ('of').",
     "export -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = neg %x
  return %y
}
)", "%x: f32[4]) -> (%y: f32[4])", "%x: f32[4] of f32[8] @m{a}) -> (%y: f32[4] of f32[8] @m{a})"},
    {"export-sharding",
     "Shardy has no form for the sharding, such as a strided shard or a partial maximum.",
     "export -", R"(mesh @m = [a=2]

func @main(%x: f32[4] @m{_ | max(a)}) -> (%y: f32[4]) {
  %y = neg %x
  return %y
}
)", "max(a)", "sum(a)"},
    {"import-unsupported",
     "An op of the imported program has a form that dtc does not have. The message says which "
     "part.",
     "", "", "", "",
     "it depends on the op; `dtc import --report` lists all of a file"},
    {"import-unknown-op",
     "dtc has no counterpart of this op. `dtc import FILE --report` lists all such ops of a "
     "file.",
     "import -", R"(func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.frobnicate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
)", "frobnicate", "sine"},
    {"import-type",
     "A value of the imported program has a type that dtc does not have.",
     "", "", "", "",
     "it depends on the dtype"},
    {"import-function",
     "The imported module is not one that dtc runs: no function, an op outside of functions, "
     "or a function without a body.",
     "import -", R"(module {
}
)", R"(module {
})", R"(func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
})"},
    {"per-device",
     "A program of one device is imported only where the number of devices is known and the "
     "code stands between the calls that begin and end it.",
     "", "", "", "",
     "it takes a module of some 20 lines; docs/shardy.md describes the forms"},
    {"mlir-syntax",
     "MLIR text is not as it should be at this place.",
     "import -", R"(func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x tensor<4xf32>
  return %0 : tensor<4xf32>
}
)", "%x tensor", "%x : tensor"},
    {"mlir-unknown-value",
     "An imported op uses a value that is not defined before it.",
     "import -", R"(func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}
)", "sine %y", "sine %x"},
    {"shardy-mesh",
     "A sharding of Shardy names a mesh or an axis that does not exist, or splits an axis in a "
     "way that its size does not allow.",
     "import -", R"(sdy.mesh @m = <["a"=2]>
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"b"}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
)", R"("b")", R"("a")"},
    {"shardy-sharding",
     "A sharding of Shardy does not fit its value, for example in its number of dims.",
     "import -", R"(sdy.mesh @m = <["a"=2]>
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
)", R"({"a"}, {})", R"({"a"})"},
    {"shardy-syntax",
     "The text of a Shardy sharding is not as it should be at this place.",
     "import -", R"(sdy.mesh @m = <["a"=2]>
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a" "b"}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
)", R"("a" "b")", R"("a")"},
    {"gspmd-syntax",
     "The text of a GSPMD sharding (mhlo.sharding) is not as it should be.",
     "import -", R"(func.func @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2]0,2}"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
)", "0,2", "0,1"},
    {"gspmd-sharding",
     "A GSPMD sharding does not fit its value, or is for another number of devices than "
     "others.",
     "import -", R"(func.func @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2,2]<=[4]}"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
)", "[2,2]<=[4]", "[2]<=[2]"},
    {"gspmd-manual",
     "The code of one device, between SPMDFullToShardShape and SPMDShardToFullShape, cannot be "
     "imported as one 'local' block.",
     "", "", "", "",
     "it takes a module of some 20 lines; docs/shardy.md describes the forms"},
    {"hlo-syntax",
     "XLA's HLO text is not as it should be at this place.",
     "audit -", R"(HloModule m

ENTRY %main (x: f32[4]) -> f32[4] {
  ROOT %x = f32[4]{0} parameter(0)
)", R"(parameter(0)
)", R"(parameter(0)
}
)"},
    {"hlo-unknown-operand",
     "An HLO instruction uses one that does not stand before it.",
     "audit -", R"(HloModule m, num_partitions=2

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %y = f32[4]{0} all-reduce(%z), replica_groups={{0,1}}
}
)", "%z", "%x"},
    {"hlo-empty",
     "The HLO text has no computation.",
     "audit -", R"(HloModule m
)", R"(HloModule m
)", R"(HloModule m

ENTRY %main (x: f32[4]) -> f32[4] {
  ROOT %x = f32[4]{0} parameter(0)
}
)"},
    {"hlo-redefined",
     "Two HLO instructions of a computation have the same name.",
     "audit -", R"(HloModule m

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %x = f32[4]{0} negate(%x)
}
)", "ROOT %x", "ROOT %y"},
    {"hlo-devices",
     "The HLO module is for more devices than dtc audits.",
     "audit -", R"(HloModule m, num_partitions=9000000000

ENTRY %main (x: f32[4]) -> f32[4] {
  ROOT %x = f32[4]{0} parameter(0)
}
)", "9000000000", "8"},
    {"hlo-groups",
     "The groups of an HLO collective do not fit the number of devices.",
     "audit -", R"(HloModule m, num_partitions=2

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %y = f32[4]{0} all-reduce(%x), replica_groups={{0,2}}
}
)", "{{0,2}}", "{{0,1}}"},
    {"command-line",
     "The command line is wrong; dtc exits with code 2. `dtc VERB --help` lists the flags of a "
     "verb.",
     "opt - --pases propagate", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "", "opt - -p propagate"},
    {"input",
     "A file or value that is given to dtc is wrong or cannot be read; dtc exits with code 1.",
     "opt no-such-file.dt", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "", "opt -"},
    {"machine",
     "The machine could not do it: memory, a device, a library or a file that cannot be "
     "written. dtc exits with code 3.",
     "", "", "", "",
     "it depends on the machine"},
    {"bug",
     "dtc itself is wrong; it writes a file to report and exits with code 70.",
     "", "", "", "",
     "no known program triggers it"},
    {"general",
     "A line of another kind on standard error, as --diagnostics json and sarif give it: a "
     "note, or the outcome of a check.",
     "", "", "", "",
     "it is a form of output, not an error"},
    {"run-time",
     "An op fails while the program runs, for example an expect_close that does not hold or a "
     "custom call that cannot be computed.",
     "", "", "", "",
     "see the ops expect_eq and expect_close"},
    {"nan-given",
     "--nan finds that an argument has NaN before the first op runs.",
     "", "", "", "",
     "it depends on the values that are given"},
    {"nan-made",
     "--nan finds the first op that makes a NaN of operands that have none.",
     "", "", "", "",
     "it depends on the values that are given"},
};
// clang-format on

} // namespace

std::span<const KindPage> kindPagesOfFiles() { return kPages; }

} // namespace dtc
