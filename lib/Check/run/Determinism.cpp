#include "dtc/Check/run/Determinism.h"

#include "dtc/Check/run/RunCheck.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/Json.h"
#include "run/RandomArguments.h"

#include <algorithm>

namespace dtc {

namespace {

using Results = std::vector<Tensor>;

class DeterminismCheck {
public:
  DeterminismCheck(const DeterminismOptions& options, Diagnostics& diags)
      : options_(options), diags_(diags) {}

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
  // Gradients cannot be evaluated directly: inputs are tried on the differentiated program.
  Status makeInputs(const DeterminismVariant& v) {
    Session session(v.module, v.function);
    if (Status s = session.lower(Stage::Reference, diags_); !s) return s;
    DTC_TRY(inputs_, randomArguments(session.module(), session.entry()));
    return Ok{};
  }

  Status onBackend(const DeterminismVariant& v, const std::string& backend) {
    const std::string how = backend + (v.name.empty() ? "" : ", " + v.name);
    DTC_TRY(auto target, targetOfBackend(backend));
    Session session(
        v.module, v.function,
        {.optLevel = options_.optLevel, .fixedReductionOrder = options_.fixedOrder, .target = target});
    if (Status s = session.lower(Stage::Placed, diags_); !s) return s;
    if (backend == "evaluator") return evaluated(session, how);
    for (int threads : backend == "cpu" ? options_.threads : std::vector<int>{2})
      if (Status s = compiled(session, backend, threads, how); !s) return s;
    return Ok{};
  }

  Status evaluated(Session& session, const std::string& how) {
    for (int run = 1; run <= 2; ++run) {
      DTC_TRY(auto results, runReference(session.module(), session.entry(), inputs_));
      compare(how + (run == 1 ? ", first run" : ", second run"), std::move(results.rd));
    }
    return Ok{};
  }

  Status compiled(Session& session, const std::string& backend, int threads, const std::string& how) {
    Machine machine(threads);
    const bool cuda = backend == "cuda"; // its second run starts graphs
    DTC_TRY(auto made,
            machine.backend({.name = backend, .optLevel = options_.optLevel, .cuda = {.deterministic = true}},
                            session.numDevices()));
    DTC_TRY(auto loaded,
            session.load(*made, machine.pool, {.fixedSchedule = cuda || options_.optLevel >= 2}));
    const std::string with =
        backend == "cpu" ? how + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads")
                         : how;
    for (int run = 1; run <= 2; ++run) {
      DTC_TRY(auto got, runOnce(*loaded, inputs_, run > 1));
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
      row.where = names_[i] + elementAt(first_[i], static_cast<size_t>(x - a.begin())) + " differs";
    }
    report_.rows.push_back(std::move(row));
  }

  // "[0, 3]", the element that contains the byte.
  static std::string elementAt(const Tensor& t, size_t byte) {
    auto element = static_cast<int64_t>(byte) / dtypeBytes(t.dtype());
    std::string out;
    for (size_t d = t.shape().size(); d-- > 0;) {
      const int64_t size = std::max<int64_t>(t.shape()[d], 1);
      out = std::to_string(element % size) + (out.empty() ? "" : ", ") + out;
      element /= size;
    }
    return "[" + out + "]";
  }

  const DeterminismOptions& options_;
  Diagnostics& diags_;
  DeterminismReport report_;
  std::vector<std::string> names_;
  std::vector<Tensor> inputs_;
  Results first_; // of the current backend
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
         (failed ? std::to_string(failed) + " with different bits" : std::string("all with the same bits")) +
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

Result<DeterminismReport> checkDeterminism(std::vector<DeterminismVariant> variants,
                                           const DeterminismOptions& options, Diagnostics& diags) {
  return DeterminismCheck(options, diags).run(std::move(variants));
}

} // namespace dtc
