#pragma once
// `--eval`: the scalars of a program on held-back data, with the state of a training run.
#include "dtc/Files/SampleData.h"
#include "dtc/Session/Session.h"
#include "dtc/Train/Training.h"

namespace dtc {

class Evaluation : NonCopyable {
public:
  // `m`: the program as it was read, at the global level. Evaluates its function @eval, or else `step`,
  // without the results that are carried, so that nothing is updated. `data` binds arguments by name, each
  // in the order of its file. Errors (Usage): a program that is partitioned, a function without a float
  // result of rank 0, an argument that is neither data nor an argument of the step; (Input): the errors of
  // SampleFeed::open.
  [[nodiscard]] static Result<std::unique_ptr<Evaluation>>
  open(Module m, FuncId step, std::vector<DataSpec> data, StandardPipelineOptions options);
  // Lowers and loads it. `sources`: the values of the step's arguments that are not carried. Error (Usage): an
  // argument that has data in the run but not here, or is carried but has data here.
  [[nodiscard]] Status load(std::unique_ptr<Backend> backend, ThreadPool& pool,
                            const Executable::Options& options, const Training& training,
                            const std::vector<TensorSource>& sources, Diagnostics& diags);
  // The mean of each scalar over all complete batches, with the state after a step of `executable`; in a run of several
  // processes, which all call it, on process 0.
  [[nodiscard]] Result<NamedNumbers> run(Executable& executable);

private:
  Evaluation(Module m, FuncId entry, StandardPipelineOptions options)
      : session_(std::move(m), entry, std::move(options)) {}
  Session session_;
  TrainProgram program_;
  SampleFeed feed_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  struct Carried {
    size_t result = 0, argument = 0; // of the step, of this program
  };
  std::vector<Carried> carried_;
};

} // namespace dtc
