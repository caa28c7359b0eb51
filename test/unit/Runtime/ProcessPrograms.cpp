// Random programs in several processes: no deadlock, and the bits of one process.
#include "dtc/Check/random/RandomProgram.h"
#include "dtc/Files/Inputs.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Session/Session.h"

#include "MpiProcesses.h"

using namespace dtc;

namespace {

int numberFrom(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

std::optional<std::vector<TensorSource>> inputsOf(const RandomProgram& program, const Module& m, FuncId f) {
  std::vector<InputBinding> bindings;
  for (const std::string& text : program.inputs) bindings.push_back(*parseInputBinding(text));
  std::vector<InputArgument> arguments;
  for (const FuncArg& a : m[f].args) {
    const Type& type = m.typeOf(a.value);
    arguments.push_back({std::string(m.strings[m[a.value].name]), "", type.dtype, type.staticShape()});
  }
  auto inputs = bindInputs(bindings, arguments);
  EXPECT_TRUE(inputs) << inputs.error().message;
  return inputs ? std::optional(std::move(*inputs)) : std::nullopt;
}

struct Ran {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executable> executable;
  Status status = Ok{};
};

Ran run(Session& session, std::unique_ptr<Backend> backend, ThreadPool& pool,
        const std::vector<TensorSource>& inputs) {
  Ran out{std::move(backend), nullptr};
  auto loaded = session.load(*out.backend, pool);
  if (!loaded) return out.status = loaded.error(), std::move(out);
  out.executable = std::move(*loaded);
  for (size_t i = 0; i < inputs.size() && out.status; ++i)
    out.status = out.executable->setArgument(i, inputs[i]);
  if (out.status) out.status = out.executable->run();
  return out;
}

} // namespace

TEST(ProcessPrograms, HaveTheBitsOfOneProcess) {
  if (!startedByMpirun()) GTEST_SKIP() << "not started by mpirun";
  Processes* const processes = mpiProcesses();
  ASSERT_TRUE(processes);
  ThreadPool pool{2};
  CpuJit jit;
  const int first = numberFrom("DTC_FIRST_SEED", 1), count = numberFrom("DTC_SEEDS", 20);
  int ran = 0;
  for (int seed = first; seed < first + count; ++seed) {
    const RandomProgram program = makeRandomProgram(static_cast<uint64_t>(seed), standardOps(), {});
    SCOPED_TRACE("seed " + std::to_string(seed));
    Module m(standardOps());
    Diagnostics diags;
    ASSERT_TRUE(parseModule({"random.dt", program.text}, standardOps(), m, diags) && verifyModule(m, diags));
    const FuncId f = m.findFunction("main");
    const auto inputs = inputsOf(program, m, f);
    ASSERT_TRUE(inputs);
    Session session(std::move(m), f, {.optLevel = 1, .target = "cpu"});
    ASSERT_TRUE(session.lower(Stage::Placed, diags))
        << renderDiagnostics(diags, session.module().source, false);
    const int64_t devices = session.numDevices(),
                  each = (devices + processes->size() - 1) / processes->size();
    const Ran one = run(session, makeCpuBackend(jit, pool, devices, {}, 1), pool, *inputs);
    const Ran many = run(session,
                         makeCpuBackend(jit, pool, each, {}, 1,
                                        makeProcessCommunicator(*processes, each, {.fixedOrder = true})),
                         pool, *inputs);
    ASSERT_EQ(one.status.ok(), many.status.ok()) << (one.status.ok() ? many : one).status.error().message;
    if (!one.status.ok()) continue; // an error on all devices: an index out of range
    ++ran;
    const DeviceSlice here = many.backend->communicator().devices();
    for (int64_t p = here.begin; p < std::min(here.end, devices); ++p) {
      const Module& placed = session.module();
      const FuncId own = one.executable->functionAt(p);
      for (size_t i = 0; i < one.executable->numResults(); ++i) {
        const ValueId v = placed[placed[own].body].yields[i];
        const auto want = one.executable->value(v, p), got = many.executable->value(v, p);
        if (!want) continue; // another device holds it
        ASSERT_TRUE(got) << got.error().message;
        ASSERT_TRUE(std::ranges::equal(want->bytes(), got->bytes()))
            << "result " << i << " on device " << p << "\n"
            << program.text;
      }
    }
  }
  EXPECT_GT(ran, count / 2);
}
