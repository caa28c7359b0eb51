#include "dtc/Train/Evaluation.h"

#include "dtc/Passes/analysis/MemoryPlan.h"

#include <algorithm>

namespace dtc {

// Removes results of a function, and with them what only they need.
static void dropResults(Module& m, FuncId f, std::vector<size_t> dropped) {
  std::ranges::sort(dropped, std::greater());
  for (size_t r : dropped) {
    const auto at = static_cast<std::ptrdiff_t>(r);
    m[f].results.erase(m[f].results.begin() + at);
    auto& yields = m[m[f].body].yields;
    yields.erase(yields.begin() + at);
  }
}

static std::vector<size_t> carriedOnes(const Module& m, FuncId f) {
  std::vector<size_t> carried;
  for (auto [result, argument] : carriedResults(m, f)) carried.push_back(result);
  return carried;
}

namespace {

// Which values are computed from the data. An op with blocks is, if anything in them is.
class FromData {
public:
  FromData(const Module& m, FuncId f, const SampleFeed& feed) : m_(m), from_(m.values.size()) {
    for (const SampleFeed::Argument& a : feed.arguments()) from_[m[f].args[a.index].value.index] = true;
    (void)visit(m[f].body);
  }
  [[nodiscard]] bool operator[](ValueId v) const { return from_[v.index]; }

private:
  bool visit(BlockId block) {
    bool any = false;
    for (OpId o : m_[block].ops) {
      bool from = std::ranges::any_of(m_.operands(o), [&](ValueId v) { return from_[v.index]; });
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
        for (ValueId v : m_[m_.region(o, r)].args) from_[v.index] = from;
        from |= visit(m_.region(o, r));
      }
      for (uint32_t r = 0; r < m_[o].numResults; ++r) from_[m_.result(o, r).index] = from;
      any |= from;
    }
    return any;
  }

  const Module& m_;
  std::vector<bool> from_; // by value
};

} // namespace

// Results that would be the same for any data, such as the learning rate.
static std::vector<size_t> constantOnes(const Module& m, FuncId f, const SampleFeed& feed) {
  const FromData fromData(m, f, feed);
  std::vector<size_t> same;
  const auto& yields = m[m[f].body].yields;
  for (size_t r = 0; r < yields.size(); ++r)
    if (!fromData[yields[r]]) same.push_back(r);
  return same;
}

Result<std::unique_ptr<Evaluation>> Evaluation::open(Module m, FuncId step, std::vector<DataSpec> data,
                                                     StandardPipelineOptions options) {
  if (levelOf(m, step) > Level::Global)
    return usageError("--eval needs a global program, but this one is already " +
                      std::string(levelName(levelOf(m, step))));
  const FuncId own = m.findFunction("eval");
  const FuncId entry = own.valid() ? own : step;
  dropResults(m, entry, carriedOnes(m, entry));
  DTC_TRY(auto feed, SampleFeed::open("--eval", data, inputArgumentsOf(m, entry)));
  if (feed.empty()) return usageError("--eval-every needs --eval NAME=FILE, the held-back data");
  if (!own.valid()) dropResults(m, entry, constantOnes(m, entry, feed));
  TrainProgram program = trainProgramOf(m, entry);
  if (program.scalars.empty())
    return usageError("--eval: @" + program.entry + " has no float result of rank 0, such as a loss");
  std::unique_ptr<Evaluation> e(new Evaluation(std::move(m), entry, std::move(options)));
  e->program_ = std::move(program);
  e->feed_ = std::move(feed);
  return e;
}

Status Evaluation::load(std::unique_ptr<Backend> backend, ThreadPool& pool,
                        const Executable::Options& options, const Training& training,
                        const std::vector<TensorSource>& sources, Diagnostics& diags) {
  if (Status s = session_.lower(Stage::Placed, diags); !s) return s;
  backend_ = std::move(backend);
  DTC_TRY(executable_, session_.load(*backend_, pool, options));
  const TrainProgram& trained = training.program();
  const auto isCarried = [&](size_t argument) {
    return std::ranges::find(trained.state, argument, &CarriedState::argument) != trained.state.end();
  };
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    const InputArgument& a = program_.arguments[i];
    const auto fed = [&](const SampleFeed::Argument& f) { return f.index == i; };
    const auto at = std::ranges::find(trained.arguments, a.name, &InputArgument::name);
    if (std::ranges::any_of(feed_.arguments(), fed)) {
      if (at != trained.arguments.end() && isCarried(static_cast<size_t>(at - trained.arguments.begin())))
        return usageError("--eval: argument %" + a.name + " is carried: its value is that of the run");
      continue;
    }
    if (at == trained.arguments.end() || at->dtype != a.dtype || at->shape != a.shape)
      return usageError("--eval: argument %" + a.name + " of @" + program_.entry +
                        " is neither --eval data nor an argument of @" + trained.entry + " with its type");
    const auto argument = static_cast<size_t>(at - trained.arguments.begin());
    if (training.feeds(argument))
      return usageError("--eval: argument %" + a.name + " has --data but no --eval data: add --eval " +
                        a.name + "=FILE");
    const auto carries = std::ranges::find(trained.state, argument, &CarriedState::argument);
    if (carries != trained.state.end()) {
      carried_.push_back({carries->result, i});
      continue;
    }
    if (Status s = executable_->setArgument(i, sources[argument]); !s) return s;
  }
  return Ok{};
}

Result<NamedNumbers> Evaluation::run(Executable& trained) {
  for (const Carried& c : carried_)
    if (Status s = executable_->setArgument(c.argument, trained, c.result); !s) return s.error();
  std::vector<bool> scalars(executable_->numResults());
  for (const ScalarResult& s : program_.scalars) scalars[s.result] = true;
  const bool leads = backend_->communicator().devices().begin == 0;
  NamedNumbers means;
  for (const ScalarResult& s : program_.scalars) means.emplace_back(s.name, 0);
  const int64_t batches = feed_.numSamples() / feed_.batchSize();
  for (int64_t b = 0; b < batches; ++b) {
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < feed_.batchSize(); ++i) samples.push_back(b * feed_.batchSize() + i);
    for (const SampleFeed::Argument& a : feed_.arguments())
      if (Status s = executable_->setArgument(a.index, a.data.batch(samples)); !s) return s.error();
    if (Status s = executable_->run(); !s) return s.error();
    if (Status s = executable_->gatherResults(scalars); !s) return s.error();
    for (size_t k = 0; leads && k < means.size(); ++k) {
      DTC_TRY(const auto value, executable_->result(program_.scalars[k].result));
      means[k].second += value.getFloat(0) / static_cast<double>(batches);
    }
  }
  return means;
}

} // namespace dtc
