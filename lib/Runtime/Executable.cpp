#include "dtc/Runtime/Executable.h"

#include "FixedSchedule.h"
#include "GraphSchedule.h"
#include "Loader.h"
#include "Runner.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/Text.h"

#include <chrono>

namespace dtc {

struct Executable::Impl {
  Module& m;
  Backend& backend;
  Program program;
  std::unique_ptr<Runner> runner;
  std::unique_ptr<GraphSchedule> graphs; // null: none
  HostCost cost;
  std::unique_ptr<FixedSchedule> fixed; // null: scheduled while it runs
  std::vector<StepEvent> events;
  std::vector<int64_t> live;
  std::vector<Backend::Phase> phases;

  const FuncArg& argument(size_t i) const { return m[program.func].args[i]; }
  // How argument i is cut; null where every device has all of it.
  const Sharding* cutOf(size_t i) const {
    const ShardingId sharding = m[argument(i).value].sharding;
    return argument(i).globalType && sharding ? &m.shardings[sharding] : nullptr;
  }
  Status writePiece(size_t i, int64_t place, const Tensor& piece) const {
    const ValueId v = argument(i).value;
    auto shape = shapeAt(m, m[v].type, program.mesh, place);
    if (!shape || piece.shape() != *shape || piece.dtype() != m.typeOf(v).dtype)
      return inputError("the value of argument %" + std::string(m.strings[m[v].name]) +
                        " is not of the type that the program asks for");
    std::byte* to =
        program.arenas[static_cast<size_t>(place)] + program.plan.buffers[program.plan.bufferOf.at(v)].offset;
    return backend.write(place, to, piece.bytes());
  }
};

namespace {

// What lives after each step of the top level: buffers whose life includes the op's last position.
std::vector<int64_t> liveBytesOf(const Program& program) {
  std::vector<int64_t> change(program.plan.numPositions + 1, 0);
  for (const MemoryPlan::Buffer& b : program.plan.buffers)
    for (const MemoryPlan::Range& r : b.live) change[r.first] += b.bytes, change[r.last + 1] -= b.bytes;
  for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  std::vector<int64_t> live(program.infos.size(), -1);
  for (const Step& s : program.steps)
    if (auto it = program.plan.position.find(program.infos[s.info].id); it != program.plan.position.end())
      live[s.info] = change[it->second[1]];
  return live;
}

} // namespace

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;

Result<std::unique_ptr<Executable>> Executable::load(Module& m, FuncId f, Backend& backend, ThreadPool& pool,
                                                     const Options& options) {
  using Clock = std::chrono::steady_clock;
  auto impl = std::unique_ptr<Impl>(new Impl{m, backend});
  auto begin = Clock::now();
  Loader loader(m, f, backend, impl->program);
  if (Status s = loader.load(options.reuseMemory, options.overlap); !s) return s.error();
  double total = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  impl->phases = backend.phases;
  for (const Backend::Phase& p : backend.phases) total -= p.milliseconds;
  impl->phases.insert(impl->phases.begin(), {"print kernels", loader.printMs});
  impl->phases.push_back({"load", total - loader.printMs});
  impl->runner = std::make_unique<Runner>(m, impl->program, backend, pool);
  if (options.fixedSchedule && options.graphs) {
    auto graphs = GraphSchedule::make(m, impl->program, backend, {options.hostPredicates});
    if (!graphs) return graphs.error();
    impl->graphs = std::move(*graphs);
  }
  if (options.fixedSchedule && !impl->graphs) {
    auto fixing = Clock::now();
    impl->fixed = FixedSchedule::make(m, impl->program, backend, pool);
    if (impl->fixed)
      impl->phases.push_back({"fixed schedule of " + std::to_string(impl->fixed->numPhases()) + " phases",
                              std::chrono::duration<double, std::milli>(Clock::now() - fixing).count()});
  }
  impl->live = liveBytesOf(impl->program);
  return std::unique_ptr<Executable>(new Executable(std::move(impl)));
}

Status Executable::setArgument(size_t i, const Tensor& global) {
  for (int64_t p = 0; p < impl_->program.places(); ++p) {
    const Sharding* cut = impl_->cutOf(i);
    Status s =
        cut ? impl_->writePiece(i, p, takePiece(global, *cut, mesh(), p)) : impl_->writePiece(i, p, global);
    if (!s) return s;
  }
  return Ok{};
}

Status Executable::setArgument(size_t i, const TensorSource& global) {
  const Sharding* cut = impl_->cutOf(i);
  Result<Tensor> piece = Tensor();
  for (int64_t p = 0; p < impl_->program.places(); ++p) {
    if (cut || p == 0) piece = cut ? global.piece(*cut, mesh(), p) : global.whole();
    if (!piece) return piece.error();
    if (Status s = impl_->writePiece(i, p, *piece); !s) return s;
  }
  return Ok{};
}

bool Executable::keepsArgument(size_t i) const {
  const Impl& x = *impl_;
  const Function& fn = x.m[x.program.func];
  StrId donate = x.m.strings.find("donate");
  AttrId given = donate ? findAttr(fn.args[i].attrs, donate) : AttrId();
  if (given && x.m.attrs[given].i != 0) return false;
  for (size_t r = 0; r < fn.results.size(); ++r)
    if (carriedArgument(x.m, x.program.func, r) == i) return false;
  return true;
}

Status Executable::carryOver() {
  if (impl_->program.carrySteps.empty()) return Ok{};
  std::vector<StepEvent> none;
  return impl_->runner->run(impl_->program.carrySteps, {}, none);
}

Status Executable::run(const RunHooks& hooks) {
  Impl& x = *impl_;
  const bool plain = !hooks.time && !hooks.afterStep;
  x.cost = {};
  if (x.graphs && plain) {
    Status done = x.graphs->run(hooks);
    x.cost = x.graphs->cost();
    return done;
  }
  if (x.fixed && !hooks.afterStep && !(hooks.time && x.backend.asynchronous()))
    return x.fixed->run(hooks.time ? &x.events : nullptr);
  Status done = x.runner->run(x.program.steps, hooks, x.events);
  if (x.backend.asynchronous()) x.cost = x.runner->cost();
  return done;
}

bool Executable::hasGraphs() const { return impl_->graphs != nullptr; }
const HostCost& Executable::hostCost() const { return impl_->cost; }

Result<Tensor> Executable::value(ValueId v, int64_t place) const {
  const Impl& x = *impl_;
  auto shape = shapeAt(x.m, x.m[v].type, x.program.mesh, place);
  auto buffer = x.program.plan.bufferOf.find(v);
  int64_t offset = -1;
  if (buffer != x.program.plan.bufferOf.end())
    offset = x.program.plan.buffers[buffer->second].offset;
  else if (auto it = x.program.literals.find(v); it != x.program.literals.end())
    offset = it->second;
  if (!shape || offset < 0) return Error{Error::Bug, "a value that has no buffer was asked for"};
  Tensor t(x.m.typeOf(v).dtype, *shape);
  Status s = x.backend.read(place, t.bytes(), x.program.arenas[static_cast<size_t>(place)] + offset);
  if (!s) return s.error();
  return t;
}

Result<Tensor> Executable::result(size_t i) const {
  const Impl& x = *impl_;
  const Function& fn = x.m[x.program.func];
  ValueId v = x.m[fn.body].yields[i];
  const FuncResult& r = fn.results[i];
  if (!r.globalType || !r.sharding) return value(v, 0);
  std::vector<Tensor> pieces;
  for (int64_t p = 0; p < x.program.places(); ++p) {
    auto t = value(v, p);
    if (!t) return t;
    pieces.push_back(std::move(*t));
  }
  return assemble(pieces, x.m.shardings[r.sharding], x.program.mesh, x.m.types[r.globalType].staticShape());
}

std::vector<Executable::Iteration> Executable::iterations(int64_t place) const {
  return impl_->runner->iterations(place);
}

const std::vector<StepInfo>& Executable::steps() const { return impl_->program.infos; }
const std::vector<StepInfo>& Executable::loadTimeSteps() const { return impl_->program.loadTime; }
const std::vector<StepEvent>& Executable::events() const { return impl_->events; }
const Mesh& Executable::mesh() const { return impl_->program.mesh; }
int64_t Executable::arenaBytes() const { return impl_->program.arenaBytes; }
int64_t Executable::memoryLowerBound() const { return impl_->program.plan.lowerBound; }
MemoryReport Executable::memoryReport() const {
  return dtc::memoryReport(impl_->m, impl_->program.func, impl_->program.plan, impl_->program.arenaBytes);
}
const std::vector<int64_t>& Executable::liveBytes() const { return impl_->live; }
const std::vector<Backend::Phase>& Executable::phases() const { return impl_->phases; }

} // namespace dtc
