#include "Program.h"

#include "ElementTypes.h"
#include "Interrupts.h"
#include "OpSharding.h"
#include "PartitionText.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Sharding/MeshView.h"
#include "dtc/StableHlo/vhlo/Vhlo.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace dtc {

namespace {

// Text also has comments and attributes before its module.
bool isBytecode(std::string_view code) { return looksLikeVhlo(code); }

std::string moduleName(std::string_view text) {
  const size_t at = text.find("module @");
  if (at > 64) return "program"; // or there is none
  const std::string_view rest = text.substr(at + 8);
  return std::string(rest.substr(0, rest.find_first_of(" {\n")));
}

// "{0,1}"; the row-major one for any other text.
std::vector<int64_t> statedLayout(std::string_view text, size_t rank) {
  std::vector<int64_t> dims(rank), given;
  std::iota(dims.rbegin(), dims.rend(), 0);
  if (!text.starts_with('{') || !text.ends_with('}')) return dims;
  for (text = text.substr(1, text.size() - 2); !text.empty();) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    given.push_back(parseNumber<int64_t>(word).value_or(-1));
  }
  return given.size() == rank && std::ranges::is_permutation(given, dims) ? given : dims;
}

// Tensors of element types that dtc holds in f32, as f32 and back.
class Converted {
public:
  explicit Converted(const ElementType& e) : values_(heldValues(e.hlo)) {}
  [[nodiscard]] bool needed() const { return !values_.empty(); }

  [[nodiscard]] std::vector<float> held(const std::byte* from, size_t n) const {
    std::vector<float> to(n);
    for (size_t i = 0; i < n; ++i) to[i] = values_[static_cast<size_t>(from[i]) & (values_.size() - 1)];
    return to;
  }

  void narrow(const std::vector<float>& from, std::byte* to) const {
    for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<std::byte>(pattern(from[i]));
  }

private:
  // Programs round to values of the type, so that one pattern is equal.
  [[nodiscard]] size_t pattern(float x) const {
    size_t best = 0;
    for (size_t p = 0; p < values_.size(); ++p) {
      const bool same = std::bit_cast<uint32_t>(values_[p]) == std::bit_cast<uint32_t>(x);
      if (same || (std::isnan(x) && std::isnan(values_[p]))) return p;
      if (values_[p] == x) best = p;
    }
    return best;
  }
  std::span<const float> values_;
};

} // namespace

Result<std::string> PjrtProgram::textOf(std::string_view code) {
  if (isBytecode(code)) return vhloText("program", code);
  return std::string(code);
}

bool PjrtProgram::compile(std::string text, int64_t numPartitions, const std::string& backend,
                          std::shared_ptr<Machine> machine, ApiError& error) {
  numPartitions_ = numPartitions;
  text_ = std::move(text);
  name_ = moduleName(text_);
  const SourceText source{name_, text_};
  Diagnostics diags;
  if (!hloSignature(source.text, signature_, diags)) {
    error = apiError(inputError(""), diags, source);
    return false;
  }
  CompileOptions options;
  options.backend.name = backend;
  options.lowering.wholeAxisResults = true;
  program_ = CompiledProgram::compile(source, options, std::move(machine), error);
  if (!program_) return false;
  program_->setInterrupt({&isInterruptedByPython, nullptr});
  return describe(error);
}

const std::string& PjrtProgram::partitionText() const {
  std::call_once(partitioned_, [&] {
    if (!coordinates_.empty()) partitionText_ = dtc::partitionText(text_, name_, numPartitions_);
  });
  return partitionText_.empty() ? text_ : partitionText_;
}

std::string PjrtProgram::shardingOf(ShardingId id) const {
  const Module& m = program_->module();
  if (!id) return replicatedOpSharding();
  return opSharding(m.shardings[id], m.shardings.meshOf(id));
}

// Shards of one size, each an interval per dim, along whole axes.
bool PjrtProgram::fitsJax(size_t i, bool argument, ShardingId shards) const {
  const auto shape = [&](int64_t c) {
    return argument ? program_->argumentShape(i, c) : program_->resultShape(i, c);
  };
  for (int64_t c = 1; c < program_->mesh().numDevices; ++c)
    if (!std::ranges::equal(shape(0), shape(c))) return false;
  if (!shards) return true;
  const ShardingTable& all = program_->module().shardings;
  const MeshId mesh = all[shards].mesh;
  const auto isWhole = [&](const DimPart& p) { return p.isAxis() && isOfWholeAxes(p.axis, mesh, all); };
  const auto fits = [&](const DimSharding& d) { return std::ranges::all_of(d.parts, isWhole); };
  return std::ranges::all_of(all[shards].dims, fits);
}

bool PjrtProgram::describe(const std::vector<HloTensor>& declared, bool arguments,
                           std::vector<PjrtValue>& out, ApiError& error) {
  const Module& m = program_->module();
  const Function& f = m[program_->entry()];
  size_t& number = arguments ? numArguments_ : numResults_;
  number = declared.size() - static_cast<size_t>(std::ranges::count(declared, true, &HloTensor::token));
  if (number != (arguments ? f.args.size() : f.results.size())) {
    error = apiError(Error{Error::Bug, "a compiled program has other arguments or results than its text"});
    return false;
  }
  size_t i = 0;
  for (const HloTensor& tensor : declared) {
    PjrtValue& v = out.emplace_back();
    v.token = tensor.token;
    v.memoryKind = tensor.memoryKind;
    v.element = findElementType(v.token ? "i1" : tensor.element);
    if (v.token) {
      v.dims = {0};
      v.sharding = replicatedOpSharding();
      continue;
    }
    v.at = i;
    if (!v.element) {
      error = apiError(inputError((arguments ? "argument " : "result ") + std::to_string(i) +
                                  " has the element type '" + tensor.element +
                                  "', which the plugin does not know"));
      return false;
    }
    const auto shape = arguments ? program_->argumentShape(i, 0) : program_->resultShape(i, 0);
    v.dims.assign(shape.begin(), shape.end());
    if (arguments)
      v.shards = f.args[i].globalType ? m[f.args[i].value].sharding : ShardingId();
    else
      v.shards = f.results[i].globalType ? f.results[i].sharding : ShardingId();
    v.whole = !fitsJax(i, arguments, v.shards);
    if (v.whole) v.dims = (arguments ? program_->arguments() : program_->results())[i].shape;
    v.bytes = v.element->bytes * countOf(v.dims);
    v.minorToMajor = statedLayout(tensor.layout, v.dims.size());
    v.sharding = shardingOf(v.whole ? ShardingId() : v.shards);
    v.donated = arguments && program_->arguments()[i].donated;
    ++i;
  }
  return true;
}

bool PjrtProgram::describe(ApiError& error) {
  const MeshInfo& mesh = program_->mesh();
  if (mesh.numDevices != 1 && mesh.numDevices != numPartitions_) {
    error = apiError(inputError("the program has a mesh of " + std::to_string(mesh.numDevices) +
                                " devices, but is compiled for " + std::to_string(numPartitions_)));
    return false;
  }
  if (mesh.numDevices > 1) {
    coordinates_.resize(static_cast<size_t>(numPartitions_));
    for (size_t c = 0; c < coordinates_.size(); ++c)
      coordinates_[mesh.devices.empty() ? c : static_cast<size_t>(mesh.devices[c])] = c;
  }
  if (!describe(signature_.arguments, true, arguments_, error) ||
      !describe(signature_.results, false, results_, error))
    return false;
  keepUnusableDonations();
  return true;
}

// A donated argument is used up if a result can take its memory: one that the program pairs it with, or else
// another of the same size. As in XLA, the caller keeps the others.
void PjrtProgram::keepUnusableDonations() {
  std::vector<bool> taken(numResults_, false);
  std::vector<PjrtValue*> unpaired;
  for (PjrtValue& a : arguments_) {
    if (!a.donated) continue;
    const int64_t carried = program_->arguments()[a.at].carried;
    if (carried >= 0)
      taken[static_cast<size_t>(carried)] = true;
    else
      unpaired.push_back(&a);
  }
  for (PjrtValue* a : unpaired) {
    const auto fits = [&](const PjrtValue& r) { return !r.token && !taken[r.at] && r.bytes == a->bytes; };
    const auto result = std::ranges::find_if(results_, fits);
    a->donated = result != results_.end();
    if (a->donated) taken[result->at] = true;
  }
}

bool PjrtProgram::readWhole(std::span<std::byte* const> results, ApiError& error) const {
  for (size_t i = 0; i < results_.size(); ++i) {
    const PjrtValue& v = results_[i];
    if (!v.whole) continue;
    if (Converted(*v.element).needed()) {
      error =
          apiError(inputError("result " + std::to_string(i) + " has shards of different sizes and the type " +
                              std::string(v.element->hlo)));
      return false;
    }
    auto whole = program_->executable().result(v.at);
    if (!whole) {
      error = apiError(whole.error());
      return false;
    }
    std::memcpy(results[i], whole->bytes().data(), v.bytes);
    for (size_t p = 1; p < static_cast<size_t>(numPartitions_); ++p)
      std::memcpy(results[p * results_.size() + i], results[i], v.bytes);
  }
  return true;
}

// What a run reads and writes, by value and then by device coordinate, and memory for what is converted.
struct PjrtProgram::Borrowed {
  std::vector<BorrowedTensor> in, out;
  std::vector<std::vector<float>> converted, narrowed;
  std::vector<Tensor> cut;
};

void PjrtProgram::borrowArguments(std::span<const std::byte* const> arguments, Borrowed& out) const {
  const Module& m = program_->module();
  out.in.resize(devices() * numArguments_);
  out.converted.resize(out.in.size());
  out.cut.resize(out.in.size());
  for (size_t p = 0; p < devices(); ++p)
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const PjrtValue& v = arguments_[i];
      if (v.token) continue;
      const std::byte* data = arguments[p * arguments_.size() + i];
      const size_t at = v.at * devices() + coordinate(p);
      if (const Converted convert(*v.element); convert.needed()) {
        out.converted[at] = convert.held(data, countOf(v.dims));
        data = reinterpret_cast<const std::byte*>(out.converted[at].data());
      }
      std::span<const int64_t> shape = v.dims;
      if (v.whole) {
        Tensor global(v.element->held, v.dims);
        std::memcpy(global.bytes().data(), data, global.bytes().size());
        out.cut[at] = takeShard(global, m.shardings[v.shards], m.shardings.meshOf(v.shards),
                                static_cast<int64_t>(coordinate(p)));
        data = out.cut[at].bytes().data();
        shape = out.cut[at].shape();
      }
      out.in[at] = {const_cast<std::byte*>(data), v.element->held, shape}; // read only
    }
}

void PjrtProgram::borrowResults(std::span<std::byte* const> results, Borrowed& out) const {
  out.out.resize(devices() * numResults_);
  out.narrowed.resize(out.out.size());
  for (size_t p = 0; p < devices(); ++p)
    for (size_t i = 0; i < results_.size(); ++i) {
      const PjrtValue& v = results_[i];
      if (v.token) continue;
      const size_t at = v.at * devices() + coordinate(p);
      std::byte* data = results[p * results_.size() + i];
      if (Converted(*v.element).needed()) {
        out.narrowed[at].resize(countOf(v.dims));
        data = reinterpret_cast<std::byte*>(out.narrowed[at].data());
      }
      out.out[at] = {data, v.element->held, v.dims};
      out.out[at].skip = v.whole;
    }
}

// The programs that this thread runs: a function that a program calls may run another one, but the memory of a
// program is that of one run.
static thread_local std::vector<const PjrtProgram*> runsOfThread;

struct RunOfThread {
  explicit RunOfThread(const PjrtProgram* p) { runsOfThread.push_back(p); }
  ~RunOfThread() { runsOfThread.pop_back(); }
  RunOfThread(const RunOfThread&) = delete;
  RunOfThread& operator=(const RunOfThread&) = delete;
};

bool PjrtProgram::run(std::span<const std::byte* const> arguments, std::span<std::byte* const> results,
                      ApiError& error) const {
  Borrowed b;
  borrowArguments(arguments, b);
  borrowResults(results, b);
  const bool shards = !coordinates_.empty();
  if (std::ranges::find(runsOfThread, this) != runsOfThread.end()) {
    error = apiError(inputError("a function that the program calls runs the same program"));
    return false;
  }
  const RunOfThread running(this);
  const std::lock_guard lock(mutex_);
  const RunRequest request{.tensors = {b.in, shards, b.out, shards}};
  if (!program_->run(request, error) || !readWhole(results, error)) return false;
  for (size_t p = 0; p < static_cast<size_t>(numPartitions_); ++p)
    for (size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].token) continue;
      std::byte* data = results[p * results_.size() + i];
      const size_t at = results_[i].at * devices() + coordinate(p);
      if (!b.narrowed[at].empty())
        Converted(*results_[i].element).narrow(b.narrowed[at], data);
      else if (p >= devices())
        std::memcpy(data, results[i], results_[i].bytes);
    }
  return true;
}

} // namespace dtc
