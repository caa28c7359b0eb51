// Every communicator against the many-device evaluator: all collectives, dtypes and reductions, on even and uneven shards,
// over whole axes, several axes and sub-axes.
#include "dtc/Check/run/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Runtime/backend/cuda/CudaBackend.h"
#include "dtc/Runtime/backend/emu/CudaEmuBackend.h"
#include "dtc/Runtime/run/Executable.h"

#include "MpiProcesses.h"
#include "StubGpus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace dtc;

namespace {

const char* const kDTypes[] = {"bool",   "i8",     "u8",   "i16", "i32", "i64", "u64",
                               "f8e4m3", "f8e5m2", "bf16", "f16", "f32", "f64"};

struct Case {
  const char* mesh;
  const char* argument; // types without dtype: "[11/a] of [11] @m{a}"
  const char* result;
  const char* op; // "all_reduce %x {axes = [a]}"; its local result type follows
  const char* local;
};

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// "T[" stands for the dtype.
std::string program(const Case& c, const std::string& dtype) {
  std::string text = std::string("mesh @m = ") + c.mesh + "\nspmd func @main(%x: " + c.argument +
                     ") -> (%y: " + c.result + ") {\n  %y = " + c.op + " : " + c.local + "\n  return %y\n}\n";
  return replaced(text, "T[", dtype + "[");
}

class Conformance : public testing::TestWithParam<const char*> {
protected:
  ThreadPool pool{2};
  CpuJit jit;

  // "stub-…": --backend cuda on GPUs that are stubs (test/stub); "gpu-…": on those of the machine.
  std::optional<StubGpus> stub;
  std::unique_ptr<Nvrtc> nvrtc;

  // "mpi-…": in processes, each with its share of the devices.
  void SetUp() override {
    const std::string_view name = GetParam();
    if (name.starts_with("mpi") && !startedByMpirun()) GTEST_SKIP() << "not started by mpirun";
    if (name.starts_with("gpu-")) { // what this machine has
      auto driver = CudaDriver::open();
      if (!driver) GTEST_SKIP() << "no GPU: " << driver.error().message;
      if (name == "gpu-nccl" && driver->devices().size() < 6) GTEST_SKIP() << "fewer than 6 GPUs";
      nvrtc = std::make_unique<Nvrtc>();
    }
    if (!name.starts_with("stub-")) return;
    stub.emplace();
    if (name == "stub-apart") setenv("DTC_STUB_NO_PEERS", "1", 1); // GPUs that do not reach each other
    if (!stub->here()) GTEST_SKIP() << "the stubs of test/stub were not built";
    nvrtc = std::make_unique<Nvrtc>();
  }
  void TearDown() override { unsetenv("DTC_STUB_NO_PEERS"); }
  std::unique_ptr<Backend> backend(int64_t numDevices) {
    const std::string_view name = GetParam();
    if (name.starts_with("mpi")) {
      if (!mpiProcesses()) return nullptr;
      const int64_t each =
          (numDevices + mpiProcesses()->size() - 1) / mpiProcesses()->size(); // the last ones may have none
      return makeCpuBackend(
          jit, pool, each, {}, 1,
          makeProcessCommunicator(*mpiProcesses(), each, {.fixedOrder = name == "mpi-fixed"}));
    }
    if (name == "cpu") return makeCpuBackend(jit, pool, numDevices, {}, 1);
    if (name == "cuda-emu") return makeCudaEmuBackend(jit);
    CudaOptions options;
    options.numDevices = numDevices;
    options.comm = name == "stub-apart" ? "local" : name.substr(name.find('-') + 1);
    if (stub) options.driver = stub->driver();
    auto made = makeCudaBackend(*nvrtc, options);
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }

  // Every element has the evaluator's bits, but that any NaN is as good as another.
  void checkExact(const Case& c, const std::string& dtype, const std::vector<double>& values) {
    exact_ = &values;
    check(c, dtype);
    exact_ = nullptr;
  }
  const std::vector<double>* exact_ = nullptr;

  void check(const Case& c, const std::string& dtype) {
    std::string text = program(c, dtype);
    SCOPED_TRACE(text);
    Module m(standardOps());
    Diagnostics diags;
    bool good = parseModule({"case.dt", text}, standardOps(), m, diags) && verifyModule(m, diags);
    ASSERT_TRUE(good) << renderDiagnostics(diags, m.source, false);
    FuncId f = m.findFunction("main");
    Mesh mesh = meshValueOf(m, f);
    const FuncArg& arg = m[f].args[0];
    const Type& type = m.types[arg.globalType ? arg.globalType : m[arg.value].type];
    Tensor global = makeInput({InputSpec::Randn, 5, 1.0, 0.0}, type.dtype, type.staticShape(), 0);
    if (exact_) {
      ASSERT_EQ(global.numElements(), static_cast<int64_t>(exact_->size()));
      for (size_t i = 0; i < exact_->size(); ++i) global.setFloat(static_cast<int64_t>(i), (*exact_)[i]);
    }

    ASSERT_TRUE(planWithoutReuse(m, diags));
    auto b = backend(mesh.numDevices());
    ASSERT_TRUE(b);
    auto loaded = Executable::load(m, f, *b, pool, {});
    ASSERT_TRUE(loaded) << loaded.error().message;
    std::vector<std::vector<Tensor>> shards;
    for (int64_t p = 0; p < mesh.numDevices(); ++p) {
      shards.push_back(
          {arg.globalType ? takeShard(global, m.shardings[m[arg.value].sharding], mesh, p) : global});
    }
    ASSERT_TRUE((*loaded)->setArgument(0, global));
    Status ran = (*loaded)->run();
    ASSERT_TRUE(ran) << ran.error().message;
    std::vector<std::vector<Tensor>> want[2];
    for (Precision precision : {Precision::R64, Precision::Rd}) {
      EvalOptions options;
      options.precision = precision;
      auto w = evaluateSpmd(m, f, shards, options);
      ASSERT_TRUE(w) << w.error().message;
      want[precision == Precision::Rd] = std::move(*w);
    }
    ValueId y = m[m[f].body].yields[0];
    const DeviceSlice here = b->communicator().devices();
    for (int64_t p = here.begin; p < std::min(here.end, mesh.numDevices()); ++p) {
      auto got = (*loaded)->value(y, p);
      ASSERT_TRUE(got);
      size_t i = static_cast<size_t>(p);
      CompareReport report = compareTensors(*got, want[0][i][0], want[1][i][0]);
      EXPECT_TRUE(report.pass) << "on device " << p << ": " << report.reason;
      for (int64_t e = 0; exact_ && e < got->numElements(); ++e) {
        const double g = got->getFloat(e), w = want[1][i][0].getFloat(e);
        const bool same = g == w ? std::signbit(g) == std::signbit(w) : std::isnan(g) && std::isnan(w);
        EXPECT_TRUE(same) << "element " << e << " on device " << p << " is " << g << ", not " << w;
      }
    }
  }
};

const Case kMoves[] = {
    {"[a=3]", "T[11/a] of T[11] @m{a}", "T[11]", "all_gather %x {axes = [a], dim = 0}", "T[11]"},
    {"[a=3]", "T[11]", "T[11/a] of T[11] @m{a}", "all_slice %x {axes = [a], dim = 0}", "T[11/a]"},
    {"[a=2, b=3]", "T[2, 11/(a, b), 3] of T[2, 11, 3] @m{_, (a, b), _}",
     "T[2, 11/a, 3] of T[2, 11, 3] @m{_, a, _}", "all_gather %x {axes = [b], dim = 1}", "T[2, 11/a, 3]"},
    {"[a=2, b=3]", "T[2, 11/a, 3] of T[2, 11, 3] @m{_, a, _}",
     "T[2, 11/(a, b), 3] of T[2, 11, 3] @m{_, (a, b), _}", "all_slice %x {axes = [b], dim = 1}",
     "T[2, 11/(a, b), 3]"},
    {"[a=5]", "T[3/a, 4] of T[3, 4] @m{a, _}", "T[3, 4/a] of T[3, 4] @m{_, a}",
     "all_to_all %x {axes = [a], split_dim = 1, concat_dim = 0}", "T[3, 4/a]"},
    {"[a=2, b=2]", "T[7/(a, b), 2, 5] of T[7, 2, 5] @m{(a, b), _, _}",
     "T[7/a, 2, 5/b] of T[7, 2, 5] @m{a, _, b}", "all_to_all %x {axes = [b], split_dim = 2, concat_dim = 0}",
     "T[7/a, 2, 5/b]"},
    {"[a=4]", "T[2, 3] of T[8, 3] @m{a, _}", "T[2, 3] of T[8, 3] @m{a, _}",
     "permute %x {axes = [a], pairs = [[0, 1], [1, 3], [3, 0]]}", "T[2, 3]"},
    {"[a=2, b=2]", "T[2] of T[8] @m{(a, b)}", "T[2] of T[4] @m{a}",
     "broadcast_from %x {axes = [b], root = 1}", "T[2]"},
    {"[a=3]", "T[2] of T[6] @m{a}", "T[2] of T[6] @m{a}",
     "p2p %x {sends = [[0, 0, 2], [0, 2, 1]], axes = [a]}", "T[2]"},
    // Rows of whole 16 bytes.
    {"[a=2]", "T[3, 96/a] of T[3, 96] @m{_, a}", "T[3, 96]", "all_gather %x {axes = [a], dim = 1}",
     "T[3, 96]"},
    {"[a=2]", "T[6/a, 2, 32] of T[6, 2, 32] @m{a, _, _}", "T[6, 2, 32/a] of T[6, 2, 32] @m{_, _, a}",
     "all_to_all %x {axes = [a], split_dim = 2, concat_dim = 0}", "T[6, 2, 32/a]"},
};

} // namespace

TEST_P(Conformance, DataMovementOfEveryDType) {
  for (const Case& c : kMoves)
    for (const char* dtype : kDTypes) check(c, dtype);
}

TEST_P(Conformance, ReductionsOfEveryDTypeAndKind) {
  for (const char* dtype : kDTypes)
    for (const char* op : {"sum", "avg", "prod", "max", "min", "any", "all"}) {
      bool isFloat = dtype[0] == 'f' || dtype[0] == 'b', isBool = std::string_view(dtype) == "bool";
      bool logical = std::string_view(op) == "any" || std::string_view(op) == "all";
      if (logical != isBool || (std::string_view(op) == "avg" && !isFloat)) continue;
      std::string options = std::string("{axes = [a], op = \"") + op + "\"";
      std::string reduce = "all_reduce %x " + options + "}",
                  scatter = "reduce_scatter %x " + options + ", dim = 0}";
      check({"[a=3, b=2]", "T[2, 5/b] of T[6, 5] @m{a, b}", "T[2, 5/b] of T[6, 5] @m{a, b}", reduce.c_str(),
             "T[2, 5/b]"},
            dtype);
      check({"[a=3]", "T[7, 2] of T[21, 2] @m{a, _}", "T[7/a, 2] of T[7, 2] @m{a, _}", scatter.c_str(),
             "T[7/a, 2]"},
            dtype);
      // Whole 16 bytes at a time, and what is left over.
      check({"[a=3]", "T[7, 11] of T[21, 11] @m{a, _}", "T[7, 11] of T[21, 11] @m{a, _}", reduce.c_str(),
             "T[7, 11]"},
            dtype);
      check({"[a=3]", "T[6, 80] of T[18, 80] @m{a, _}", "T[6/a, 80] of T[6, 80] @m{a, _}", scatter.c_str(),
             "T[6/a, 80]"},
            dtype);
    }
}

// All triples of difficult values for max and min: NaN of both signs, infinities, both zeros, the min and max.
TEST_P(Conformance, MaxAndMinAreExact) {
  for (const char* dtype : {"f8e4m3", "f8e5m2", "bf16", "f16", "f32", "f64"}) {
    const bool noInfinity = std::string_view(dtype) == "f8e4m3";
    const double nan = std::nan(""), inf = noInfinity ? 448 : std::numeric_limits<double>::infinity();
    const double special[] = {nan, -nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.015625};
    constexpr size_t n = std::size(special);
    std::vector<double> values; // by device, then element: element e has digit d of e on device d
    for (size_t d = 0, unit = 1; d < 3; ++d, unit *= n)
      for (size_t e = 0; e < n * n * n; ++e) values.push_back(special[e / unit % n]);
    for (const char* op : {"max", "min"}) {
      const std::string options = std::string("{axes = [a], op = \"") + op + "\"";
      checkExact({"[a=3]", "T[729] of T[2187] @m{a}", "T[729]", ("all_reduce %x " + options + "}").c_str(),
                  "T[729]"},
                 dtype, values);
      checkExact({"[a=3]", "T[729] of T[2187] @m{a}", "T[243] of T[729] @m{a}",
                  ("reduce_scatter %x " + options + ", dim = 0}").c_str(), "T[243]"},
                 dtype, values);
    }
  }
}

// What is sent in a narrower dtype is rounded by all alike: what is equal on all devices stays so.
TEST_P(Conformance, NarrowCommDTypes) {
  for (const char* op :
       {"all_gather %x {axes = [a], dim = 0, wire = bf16}", "all_reduce %x {axes = [a], wire = f16}",
        "broadcast_from %x {axes = [a], root = 2, wire = f8e5m2}",
        "all_reduce %x {axes = [a], op = \"max\", wire = bf16}"}) {
    const bool gathers = std::string_view(op).starts_with("all_gather");
    const char* result = gathers ? "T[12, 5]" : "T[4, 5]";
    check({"[a=3]", "T[4, 5] of T[12, 5] @m{a, _}", result, op, result}, "f32");
  }
  check({"[a=3]", "T[4, 7] of T[12, 7] @m{a, _}", "T[12, 7/a] of T[12, 7] @m{_, a}",
         "all_to_all %x {axes = [a], split_dim = 1, concat_dim = 0, wire = bf16}", "T[12, 7/a]"},
        "f64");
  check({"[a=3]", "T[4] of T[12] @m{a}", "T[4] of T[12] @m{a}",
         "permute %x {axes = [a], pairs = [[0, 2], [1, 1]], wire = bf16}", "T[4]"},
        "f32");
}

// Messages between processes that are too long to be packed, or to be sent to all.
TEST_P(Conformance, LongMessages) {
  const std::string_view name = GetParam();
  if (!name.starts_with("mpi") && name != "cpu") GTEST_SKIP() << "its messages do not depend on their size";
  const Case cases[] = {
      {"[a=3]", "T[9001/a] of T[9001] @m{a}", "T[9001]", "all_gather %x {axes = [a], dim = 0}", "T[9001]"},
      {"[a=2, b=3]", "T[2, 9001/(a, b)] of T[2, 9001] @m{_, (a, b)}", "T[2, 9001/a] of T[2, 9001] @m{_, a}",
       "all_gather %x {axes = [b], dim = 1}", "T[2, 9001/a]"},
      {"[a=3, b=2]", "T[9000/(a, b), 4] of T[9000, 4] @m{(a, b), _}", "T[9000/b, 4/a] of T[9000, 4] @m{b, a}",
       "all_to_all %x {axes = [a], split_dim = 1, concat_dim = 0}", "T[9000/b, 4/a]"},
      {"[a=4]", "T[5000] of T[20000] @m{a}", "T[5000] of T[20000] @m{a}",
       "permute %x {axes = [a], pairs = [[0, 1], [1, 3], [3, 0]]}", "T[5000]"},
      {"[a=2, b=2]", "T[5000] of T[20000] @m{(a, b)}", "T[5000] of T[10000] @m{a}",
       "broadcast_from %x {axes = [b], root = 1}", "T[5000]"},
      {"[a=2, b=2]", "T[5000] of T[20000] @m{(a, b)}", "T[5000] of T[10000] @m{b}",
       "broadcast_from %x {axes = [a], root = 1}", "T[5000]"},
      {"[a=3]", "T[5000] of T[15000] @m{a}", "T[5000] of T[15000] @m{a}",
       "p2p %x {sends = [[0, 0, 2], [0, 2, 1]], axes = [a]}", "T[5000]"},
      {"[a=6]", "T[9001] of T[54006] @m{a}", "T[9001] of T[54006] @m{a}", "all_reduce %x {axes = [a]}",
       "T[9001]"},
      {"[a=3, b=2]", "T[9001] of T[54006] @m{(a, b)}", "T[9001] of T[18002] @m{b}",
       "all_reduce %x {axes = [a], op = \"max\"}", "T[9001]"},
      {"[a=3, b=2]", "T[9001] of T[54006] @m{(a, b)}", "T[9001] of T[27003] @m{a}",
       "all_reduce %x {axes = [b], op = \"avg\"}", "T[9001]"},
      {"[a=6]", "T[9001, 2] of T[54006, 2] @m{a, _}", "T[9001/a, 2] of T[9001, 2] @m{a, _}",
       "reduce_scatter %x {axes = [a], dim = 0}", "T[9001/a, 2]"},
      {"[a=2, b=3]", "T[3, 9001] of T[18, 9001] @m{(a, b), _}", "T[3, 9001/b] of T[6, 9001] @m{a, b}",
       "reduce_scatter %x {axes = [b], dim = 1}", "T[3, 9001/b]"},
  };
  for (const Case& c : cases)
    for (const char* dtype : {"f32", "bf16", "f64"}) check(c, dtype);
  check({"[a=6]", "T[9001] of T[54006] @m{a}", "T[9001] of T[54006] @m{a}",
         "all_reduce %x {axes = [a], wire = bf16}", "T[9001]"},
        "f32");
  check({"[a=3]", "T[9001/a] of T[9001] @m{a}", "T[9001]", "all_gather %x {axes = [a], dim = 0, wire = bf16}",
         "T[9001]"},
        "f32");
}

TEST_P(Conformance, SubAxesAndCommDTypes) {
  check({"[a=4]", "T[3] of T[12] @m{a}", "T[3] of T[12] @m{a}", "all_reduce %x {axes = [a:(1)2]}", "T[3]"},
        "f32");
  check({"[a=4]", "T[3] of T[12] @m{a}", "T[3] of T[12] @m{a}", "all_reduce %x {axes = [a:(2)2]}", "T[3]"},
        "f32");
  check({"[a=2]", "T[40] of T[80] @m{a}", "T[40] of T[80] @m{a}", "all_reduce %x {axes = [a], wire = f32}",
         "T[40]"},
        "bf16");
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         testing::Values("cpu", "cuda-emu", "stub-local", "stub-apart", "stub-nccl",
                                         "gpu-local", "gpu-nccl", "mpi-any", "mpi-fixed"),
                         [](const auto& info) { return replaced(info.param, "-", "_"); });
