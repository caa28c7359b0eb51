#include "dtc/Check/Determinism.h"

#include "RandomArguments.h"
#include "dtc/Check/RunCheck.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Passes/StandardPipeline.h"
#include "dtc/Runtime/CpuBackend.h"
#include "dtc/Runtime/CudaBackend.h"
#include "dtc/Runtime/CudaEmuBackend.h"
#include "dtc/Runtime/Executable.h"
#include "dtc/Support/Json.h"

#include <algorithm>
#include <cstdio>

namespace dtc {

namespace {

using Results = std::vector<Tensor>;

class DeterminismCheck {
public:
  DeterminismCheck(const CpuJit& jit, const DeterminismOptions& options, Diagnostics& diags)
      : jit_(jit), options_(options), diags_(diags) {}

  Result<DeterminismReport> run(std::vector<DeterminismVariant> variants) {
    DeterminismVariant& first = variants[0];
    report_.function = "@" + std::string(first.module.strings[first.module[first.function].name]);
    for (const FuncResult& r : first.module[first.function].results)
      names_.push_back(r.label.valid() ? "%" + std::string(first.module.strings[r.label])
                                       : "result " + std::to_string(names_.size()));
    if (Status s = makeInputs(first); !s) return s.error();
    for (const std::string& backend : options_.backends) {
      first_.clear();
      for (DeterminismVariant& v : variants) {
        if (!options_.fixedOrder) first_.clear();
        if (Status s = onBackend(v, backend); !s) return s.error();
      }
    }
    return std::move(report_);
  }

private:
  // Gradients are not evaluated by themselves: inputs are tried on the program that has them made.
  Status makeInputs(const DeterminismVariant& v) {
    Module m = v.module;
    keepReached(m, v.function); // inlined into others it would be gone
    if (Status s = runPipeline(m, standardPipeline(levelOf(m, v.function), 1, "").reference, diags_); !s)
      return s;
    const FuncId f = m.findFunction(v.module.strings[v.module[v.function].name]);
    if (!f.valid()) return Error{Error::Bug, "the passes removed the function that is checked"};
    auto inputs = randomArguments(m, f);
    if (!inputs) return inputs.error();
    inputs_ = std::move(*inputs);
    return Ok{};
  }

  Status onBackend(const DeterminismVariant& v, const std::string& backend) {
    const std::string how = backend + (v.name.empty() ? "" : ", " + v.name);
    Module m = v.module;
    keepReached(m, v.function); // inlined into others it would be gone
    if (Status s = passes(m, v.function); !s) return s;
    const FuncId f = m.findFunction(v.module.strings[v.module[v.function].name]);
    if (!f.valid()) return Error{Error::Bug, "the passes removed the function that is checked"};
    if (backend == "evaluator") return evaluated(m, f, how);
    for (int threads : backend == "cpu" ? options_.threads : std::vector<int>{2})
      if (Status s = compiled(m, f, backend, threads, how); !s) return s;
    return Ok{};
  }

  Status passes(Module& m, FuncId f) {
    StandardPipelineOptions options;
    options.optLevel = options_.optLevel;
    options.fixedReductionOrder = options_.fixedOrder;
    StandardPipeline pipeline = standardPipeline(levelOf(m, f), options);
    PipelineState state;
    PipelineHooks hooks;
    hooks.state = &state;
    for (const auto* steps : {&pipeline.reference, &pipeline.propagate, &pipeline.lower})
      if (Status s = runPipeline(m, *steps, diags_, hooks); !s) return s;
    return diags_.hasErrors() ? Status(inputError("")) : Status(Ok{});
  }

  Status evaluated(Module& m, FuncId f, const std::string& how) {
    for (int run = 1; run <= 2; ++run) {
      auto results = runReference(m, f, inputs_);
      if (!results) return results.error();
      compare(how + (run == 1 ? ", first run" : ", second run"), std::move(results->rd));
    }
    return Ok{};
  }

  Status compiled(Module& m, FuncId f, const std::string& backend, int threads, const std::string& how) {
    ThreadPool pool(threads);
    const int64_t places = meshValueOf(m, f).numDevices();
    const bool cuda = backend == "cuda"; // its second run starts graphs
    Result<std::unique_ptr<Backend>> made =
        backend == "cuda-emu" ? makeCudaEmuBackend(jit_)
        : cuda                ? makeCudaBackend(nvrtc_, {.places = places, .deterministic = true})
                              : makeCpuBackend(jit_, pool, places, {}, options_.optLevel);
    if (!made) return made.error();
    auto loaded = Executable::load(m, f, **made, pool, {.fixedSchedule = cuda || options_.optLevel >= 2});
    if (!loaded) return loaded.error();
    const std::string with =
        backend == "cpu" ? how + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads")
                         : how;
    for (int run = 1; run <= 2; ++run) {
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (run == 1 || !(*loaded)->keepsArgument(i))
          if (Status s = (*loaded)->setArgument(i, inputs_[i]); !s) return s;
      if (Status s = (*loaded)->run(); !s) return s;
      Results got;
      for (size_t i = 0; i < names_.size(); ++i) {
        auto t = (*loaded)->result(i);
        if (!t) return t.error();
        got.push_back(std::move(*t));
      }
      compare(with + (run == 1 ? ", first run" : ", second run"), std::move(got));
    }
    return Ok{};
  }

  void compare(std::string how, Results got) {
    DeterminismRow row{std::move(how)};
    if (first_.empty()) {
      first_ = std::move(got);
      return report_.rows.push_back(std::move(row));
    }
    for (size_t i = 0; i < got.size() && row.pass; ++i) {
      const auto a = first_[i].bytes(), b = got[i].bytes();
      const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
      if (x == a.end() && y == b.end()) continue;
      row.pass = false;
      row.where = names_[i] + place(first_[i], static_cast<size_t>(x - a.begin())) + " has other bits";
    }
    report_.rows.push_back(std::move(row));
  }

  // "[0, 3]", of the element that the byte is in.
  static std::string place(const Tensor& t, size_t byte) {
    auto element = static_cast<int64_t>(byte) / dtypeBytes(t.dtype());
    std::string out;
    for (size_t d = t.shape().size(); d-- > 0;) {
      const int64_t size = std::max<int64_t>(t.shape()[d], 1);
      out = std::to_string(element % size) + (out.empty() ? "" : ", ") + out;
      element /= size;
    }
    return "[" + out + "]";
  }

  const CpuJit& jit_;
  const DeterminismOptions& options_;
  Diagnostics& diags_;
  Nvrtc nvrtc_; // opened where `cuda` is asked for
  DeterminismReport report_;
  std::vector<std::string> names_;
  std::vector<Tensor> inputs_;
  Results first_; // of the backend in hand
};

} // namespace

bool DeterminismReport::pass() const {
  return std::ranges::all_of(rows, [](const DeterminismRow& r) { return r.pass; });
}

std::string DeterminismReport::text() const {
  std::string out;
  size_t failed = 0;
  for (const DeterminismRow& r : rows)
    if (!r.pass) out += function + ", " + r.how + ": " + r.where + "\n", ++failed;
  return out + function + ": " + std::to_string(rows.size()) + " runs, " +
         (failed ? std::to_string(failed) + " with other bits" : std::string("all with the same bits")) +
         "\n";
}

std::string DeterminismReport::json() const {
  std::string list;
  for (const DeterminismRow& r : rows)
    list += (list.empty() ? "" : ", ") + ("{\"how\": " + jsonString(r.how)) +
            ", \"pass\": " + (r.pass ? "true" : "false") + ", \"where\": " + jsonString(r.where) + "}";
  return "{\"pass\": " + std::string(pass() ? "true" : "false") + ", \"function\": " + jsonString(function) +
         ", \"runs\": [" + list + "]}\n";
}

Result<DeterminismReport> checkDeterminism(std::vector<DeterminismVariant> variants, const CpuJit& jit,
                                           const DeterminismOptions& options, Diagnostics& diags) {
  return DeterminismCheck(jit, options, diags).run(std::move(variants));
}

} // namespace dtc
