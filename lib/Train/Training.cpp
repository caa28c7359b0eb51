#include "dtc/Train/Training.h"

#include "CheckpointWriter.h"
#include "dtc/Runtime/comm/ProcessWriters.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace dtc {
namespace {

template <class T> bool hasNanIn(const T* p, int64_t n) {
  bool any = false;
  for (int64_t i = 0; i < n; ++i) any |= std::isnan(p[i]); // without a branch: vectorized
  return any;
}

bool hasNanIn(const Tensor& t) {
  if (isComplex(t.dtype())) return hasNanIn(t.parts());
  if (!isFloat(t.dtype())) return false;
  if (t.dtype() == DType::F32) return hasNanIn(t.as<float>(), t.numElements());
  if (t.dtype() == DType::F64) return hasNanIn(t.as<double>(), t.numElements());
  for (int64_t i = 0; i < t.numElements(); ++i)
    if (std::isnan(t.getFloat(i))) return true;
  return false;
}

// In the pieces that this process has.
bool hasNanIn(const std::vector<PiecedTensor>& state) {
  return std::ranges::any_of(state, [](const PiecedTensor& t) {
    return std::ranges::any_of(t.pieces, [](const TensorPiece& p) { return hasNanIn(p.value); });
  });
}

std::string durationText(double seconds) {
  const auto total = std::llround(seconds);
  if (total < 60) return std::to_string(total) + " s";
  if (total < 3600) return std::to_string((total + 30) / 60) + " min";
  return std::to_string(total / 3600) + " h " + std::to_string(total % 3600 / 60) + " min";
}

// "950", "5.2k", "12M"
std::string countText(double n) {
  for (const char* unit : {"", "k", "M", "G"}) {
    if (n < 999.5) return significant(n, 3) + unit;
    n /= 1000;
  }
  return significant(n, 3) + "T";
}

std::string sourceText(const DataState::Source& s) {
  return "%" + s.argument + ": " + std::to_string(s.samples) +
         (s.window ? " windows of " + std::to_string(s.window) + ", stride " + std::to_string(s.stride) +
                         ", offset " + std::to_string(s.offset)
                   : " rows");
}

} // namespace

Training::Training(TrainOptions o, TrainProgram program) : o_(std::move(o)), program_(std::move(program)) {}
Training::~Training() = default;

Result<std::unique_ptr<Training>> Training::open(TrainOptions o, TrainProgram program) {
  std::unique_ptr<Training> t(new Training(std::move(o), std::move(program)));
  DTC_TRY(t->feed_, SampleFeed::open("--data", t->o_.data, t->program_.arguments));
  for (const SampleFeed::Argument& a : t->feed_.arguments())
    for (const CarriedState& s : t->program_.state)
      if (s.argument == a.index)
        return usageError("--data binds %" + t->program_.arguments[a.index].name +
                          ", which is carried from step to step");
  if (!t->o_.checkpoints.empty())
    if (Status s = t->openFolder(); !s) return s.error();
  if (!t->leads()) return t;
  if (t->o_.log == "-") {
    t->log_ = std::make_unique<MetricLog>(t->o_.print);
  } else if (!t->o_.log.empty()) {
    DTC_TRY(t->log_, MetricLog::open(t->o_.log, t->first_));
  }
  return t;
}

ReaderShare Training::share() const {
  return o_.processes ? ReaderShare{o_.processes->rank(), o_.processes->size()} : ReaderShare();
}

Result<bool> Training::any(bool here) const {
  if (!o_.processes) return here;
  DTC_TRY(const uint8_t bits, o_.processes->combine(here));
  return bits != 0;
}

Result<std::string> Training::ofFirst(const std::string& here) const {
  if (!o_.processes) return here;
  DTC_TRY(const auto all, o_.processes->allGather(here));
  return all[0];
}

// Opens the folder for this process, which leads. Returns the newest checkpoint in it; "": there is none.
Result<std::string> Training::leadFolder(std::unique_ptr<CheckpointFolder>& folder) {
  DTC_TRY(folder, CheckpointFolder::open(o_.checkpoints));
  DTC_TRY(const auto found, CheckpointFolder::list(o_.checkpoints));
  DTC_TRY(const auto incomplete, CheckpointFolder::incomplete(o_.checkpoints));
  const int64_t complete = found.empty() ? -1 : found.back().step;
  const int64_t newest = std::max(complete, incomplete.empty() ? -1 : incomplete.back().step);
  if (newest >= 0 && !o_.resume)
    return usageError(quotedPath(o_.checkpoints) + " has checkpoints, the newest of step " +
                      std::to_string(newest) + ": add --resume to go on from it, or use another folder");
  if (found.empty() && !incomplete.empty())
    return inputError("no checkpoint to resume from: " + quotedPath(incomplete.back().path) +
                      " has no checkpoint.json; remove the folder to start at step 0");
  for (const CheckpointFolder::Found& f : incomplete)
    if (f.step > complete)
      warnings_ += "warning: " + quotedPath(f.path) + " is skipped, as it has no checkpoint.json\n";
  return found.empty() ? std::string() : found.back().path;
}

Status Training::openFolder() {
  auto folder = CheckpointFolder::joined(o_.checkpoints);
  const Result<std::string> led = leads() ? leadFolder(folder) : Result<std::string>("");
  if (!led && !o_.processes) return led.error();
  std::string newest = led ? *led : "";
  if (o_.processes) { // an error of process 0 is that of all
    o_.processes->stage("the opening of the checkpoint folder");
    DTC_TRY(const auto all,
            o_.processes->round(led ? "+" + newest : std::to_string(led.error().kind) + led.error().message));
    o_.processes->stage("the comparison of the state with its checkpoint");
    if (!all[0].starts_with('+') && !all[0].empty())
      return Error{static_cast<Error::Kind>(all[0][0] - '0'), all[0].substr(1)};
    newest = all[0].substr(1);
  }
  auto group = o_.processes ? std::make_unique<ProcessWriters>(*o_.processes, "a checkpoint")
                            : std::make_unique<WriterGroup>();
  writer_ = std::make_unique<CheckpointWriter>(std::move(folder), std::move(group), o_.keep);
  return newest.empty() ? Status(Ok{}) : resumeFrom(newest);
}

// What a checkpoint has that this program does not take, and the other way around; "" if they fit. Of a large
// model, the first ones.
std::string Training::differences(const CheckpointManifest& m) const {
  constexpr size_t kListed = 20;
  std::vector<std::string> lines;
  std::vector<const CheckpointManifest::Entry*> known;
  for (const CarriedState& s : program_.state) {
    const InputArgument& a = program_.arguments[s.argument];
    const auto at = std::ranges::find(m.tensors, s.name, &CheckpointManifest::Entry::name);
    const std::string wants = typeText(a.dtype, a.shape);
    if (at == m.tensors.end()) {
      lines.push_back(s.name + ": not in the checkpoint, " + wants + " in the program");
      continue;
    }
    known.push_back(&*at);
    if (at->dtype != a.dtype || at->shape != a.shape)
      lines.push_back(s.name + ": " + typeText(at->dtype, at->shape) + " in the checkpoint, " + wants +
                      " in the program");
  }
  for (const CheckpointManifest::Entry& t : m.tensors)
    if (std::ranges::find(known, &t) == known.end())
      lines.push_back(t.name + ": " + typeText(t.dtype, t.shape) + " in the checkpoint, not in the program");
  std::string text;
  for (size_t i = 0; i < std::min(lines.size(), kListed); ++i) text += "\n  " + lines[i];
  if (lines.size() > kListed) text += "\n  and " + std::to_string(lines.size() - kListed) + " more";
  return text;
}

static DataState dataStateOf(const SampleFeed& feed, const TrainProgram& program, int64_t position) {
  DataState data{position, feed.seed(), feed.fileOrder(), {}};
  for (const SampleFeed::Argument& a : feed.arguments()) {
    const DataSpec& spec = a.data.spec();
    data.sources.push_back(
        {program.arguments[a.index].name, a.data.numSamples(), spec.window, spec.stride, spec.offset});
  }
  return data;
}

// What is different about the data; "" if nothing is.
static std::string dataDifferences(const DataState& was, const DataState& is) {
  std::string text;
  if (was.sources != is.sources)
    text += "\n  checkpoint: " + joined(was.sources, "; ", sourceText) +
            "\n  this run:   " + joined(is.sources, "; ", sourceText);
  if (was.seed != is.seed)
    text += "\n  seed " + std::to_string(was.seed) + " in the checkpoint, " + std::to_string(is.seed) +
            " in this run";
  if (was.fileOrder != is.fileOrder)
    text += "\n  one of them is in the order of the file, the other is shuffled";
  return text;
}

Status Training::resumeFrom(const std::string& folder) {
  DTC_TRY(const auto checkpoint, Checkpoint::open(folder));
  const CheckpointManifest& m = checkpoint.manifest();
  if (const std::string text = differences(m); !text.empty())
    return inputError(quotedPath(folder) + " is a checkpoint of another program:" + text);
  if (const std::string text = dataDifferences(m.data, dataStateOf(feed_, program_, 0)); !text.empty())
    return inputError(quotedPath(folder) + " is a checkpoint of a run on other data:" + text);
  if (Status s = checkpoint.verify(share()); !s)
    return Error{s.error().kind, s.error().message + "; remove " + quotedPath(folder) +
                                     " to resume from the checkpoint before it"};
  for (const CarriedState& s : program_.state)
    restored_.emplace_back(s.argument, checkpoint.source(*std::ranges::find(
                                           m.tensors, s.name, &CheckpointManifest::Entry::name)));
  first_ = m.step;
  firstPosition_ = m.data.position;
  return Ok{};
}

bool Training::feeds(size_t argument) const {
  return std::ranges::find(feed_.arguments(), argument, &SampleFeed::Argument::index) !=
         feed_.arguments().end();
}

Status Training::bind(std::vector<TensorSource>& sources) {
  for (auto& [argument, value] : restored_) sources[argument] = std::move(value);
  restored_.clear();
  const std::vector<int64_t> samples = feed_.samplesAt(positionAt(first_));
  for (const SampleFeed::Argument& a : feed_.arguments()) sources[a.index] = a.data.batch(samples);
  return Ok{};
}

int64_t Training::positionAt(int64_t steps) const {
  return firstPosition_ + (steps - first_) * feed_.batchSize();
}

Status Training::setData(Executable& executable, int64_t step) const {
  if (feed_.empty()) return Ok{};
  const std::vector<int64_t> samples = feed_.samplesAt(positionAt(step));
  for (const SampleFeed::Argument& a : feed_.arguments())
    if (Status s = executable.setArgument(a.index, a.data.batch(samples)); !s) return s;
  return Ok{};
}

CheckpointManifest Training::manifestAt(int64_t steps) const {
  CheckpointManifest m;
  m.step = steps;
  m.entry = program_.entry;
  m.command = o_.command;
  m.data = dataStateOf(feed_, program_, positionAt(steps));
  return m;
}

Result<std::vector<PiecedTensor>> Training::stateOf(Executable& executable) const {
  std::vector<PiecedTensor> state;
  std::vector<int64_t> written;
  for (const CarriedState& s : program_.state) {
    const InputArgument& a = program_.arguments[s.argument];
    DTC_TRY(auto pieces, executable.pieces(s.result, written));
    state.push_back({s.name, a.dtype, a.shape, std::move(pieces)});
  }
  return state;
}

// On processes other than 0, without values.
Result<NamedNumbers> Training::scalarsOf(Executable& executable) const {
  std::vector<bool> which(executable.numResults());
  for (const ScalarResult& s : program_.scalars) which[s.result] = true;
  if (Status s = executable.gatherResults(which); !s) return s.error();
  NamedNumbers scalars;
  for (const ScalarResult& s : program_.scalars) {
    scalars.emplace_back(s.name, 0);
    if (!leads()) continue;
    DTC_TRY(const auto t, executable.result(s.result));
    scalars.back().second = t.getFloat(0);
  }
  return scalars;
}

// mpirun forwards one signal to all processes, which get it at different steps.
constexpr std::chrono::seconds kOneSignal(1);

// Whether this process has got a signal that is not the one for which a checkpoint has been written.
bool Training::wantsCheckpoint(int64_t steps) {
  if (!o_.checkpointWanted()) return false;
  const bool same = steps <= sameWishStep_ || std::chrono::steady_clock::now() < sameWishUntil_;
  sameWishStep_ = 0, sameWishUntil_ = {};
  return !same;
}

Result<Training::Verdict> Training::after(Executable& executable, int64_t step, double seconds) {
  const int64_t steps = step + 1;
  DTC_TRY(const auto scalars, scalarsOf(executable));
  enum : uint8_t { Nan = 1, Interrupted = 2, Failed = 4, Wanted = 8 };
  uint8_t bits = 0;
  if (program_.loss && std::isnan(scalars[*program_.loss].second)) bits |= Nan;
  if (o_.interrupted()) bits |= Interrupted;
  if (!logged_ || (writer_ && !writer_->failed())) bits |= Failed;
  const bool wanted = writer_ && wantsCheckpoint(steps);
  if (wanted) bits |= Wanted;
  if (o_.processes) {
    o_.processes->stage("the end of step " + std::to_string(steps));
    DTC_TRY(bits, o_.processes->combine(bits));
  }
  bool nan = bits & Nan;
  const bool interrupted = bits & Interrupted, last = steps == o_.steps || interrupted;
  const auto due = [&](int64_t every) { return last || (every > 0 && steps % every == 0); };
  NamedNumbers evaluated;
  if (!nan && !interrupted && o_.evaluate && due(o_.evalEvery)) {
    if (o_.progress) o_.progress("evaluating after step " + std::to_string(steps));
    DTC_TRY(evaluated, o_.evaluate(executable));
  }
  if (logged_) logged_ = logStep(executable, steps, seconds, scalars, evaluated);
  if (!logged_ && !o_.processes) return logged_.error();
  showProgress(executable, steps, scalars);
  if (bits & Failed) return Verdict::Failed;
  if (!nan && writer_ && (due(o_.checkpointEvery) || (bits & Wanted))) {
    if (bits & Wanted) wanted_ = steps;
    if ((bits & Wanted) && !wanted)
      sameWishUntil_ = std::chrono::steady_clock::now() + kOneSignal, sameWishStep_ = steps + 1;
    DTC_TRY(auto state, stateOf(executable));
    if (o_.processes) o_.processes->stage("the checkpoint of step " + std::to_string(steps));
    DTC_TRY(nan, any(hasNanIn(state))); // a run does not resume from a state with NaN
    if (!nan && !writer_->submit(manifestAt(steps), std::move(state))) return Verdict::Failed;
  }
  return nan ? Verdict::NotANumber : interrupted ? Verdict::Interrupted : Verdict::Continue;
}

Status Training::finish() {
  const Status written = writer_ ? writer_->finish() : Status(Ok{});
  const Status closed = log_ ? log_->close() : Status(Ok{});
  Status logged = logged_ ? closed : logged_;
  if (!logged && o_.processes)
    logged =
        Error{logged.error().kind, o_.processes->name(o_.processes->rank()) + ": " + logged.error().message};
  const Status own = written ? logged : written;
  if (o_.processes) o_.processes->stage("the end of the training run");
  DTC_TRY(const bool failed, any(!own));
  return own && failed ? Status(machineError("another process could not write")) : own;
}

Status Training::logStep(const Executable& executable, int64_t steps, double seconds,
                         const NamedNumbers& scalars, const NamedNumbers& evaluated) {
  if (!log_) return Ok{};
  std::string line = "{\"step\": " + std::to_string(steps);
  for (const auto& [name, value] : scalars) line += ", " + jsonString(name) + ": " + jsonNumber(value);
  for (const auto& [name, value] : evaluated)
    line += ", " + jsonString("eval_" + name) + ": " + jsonNumber(value);
  const int64_t tokens = feed_.tokensOfBatch(), samples = feed_.batchSize();
  const auto rate = [&](int64_t n) { return jsonNumber(seconds > 0 ? static_cast<double>(n) / seconds : 0); };
  if (tokens) line += ", \"tokens_per_s\": " + rate(tokens);
  if (!tokens && samples) line += ", \"samples_per_s\": " + rate(samples);
  return log_->add(line + ", \"seconds\": " + jsonNumber(seconds) +
                   ", \"peak_bytes\": " + std::to_string(executable.arenaBytes()) + "}\n");
}

// "step 12/2000, loss 3.41, 5.2k tokens/s, 1.5 MiB, 3 min left": short enough for 80 columns.
void Training::showProgress(const Executable& executable, int64_t steps, const NamedNumbers& scalars) {
  if (!o_.progress) return;
  const auto now = std::chrono::steady_clock::now();
  if (timed_++ == 0) begin_ = now; // the first step is slower, and is not counted
  const double spent = std::chrono::duration<double>(now - begin_).count();
  std::string text = "step " + std::to_string(steps) + "/" + std::to_string(o_.steps);
  if (program_.loss)
    text += ", " + scalars[*program_.loss].first + " " + significant(scalars[*program_.loss].second, 4);
  const int64_t tokens = feed_.tokensOfBatch(), units = tokens ? tokens : feed_.batchSize();
  if (units && timed_ > 1)
    text += ", " + countText(static_cast<double>(units * (timed_ - 1)) / spent) +
            (tokens ? " tokens/s" : " samples/s");
  text += ", " + bytesText(executable.arenaBytes());
  if (timed_ > 1)
    text += ", " +
            durationText(spent / static_cast<double>(timed_ - 1) * static_cast<double>(o_.steps - steps)) +
            " left";
  o_.progress(text);
}

// The checkpoints of this run are those that process 0 sees, whose file system may be ahead of others.
Result<int64_t> Training::rewind(std::vector<TensorSource>& sources, int64_t step) {
  if (!writer_) return first_;
  if (Status s = writer_->finish(); !s) return s.error();
  DTC_TRY(const auto found, CheckpointFolder::list(o_.checkpoints));
  std::string newest;
  for (const CheckpointFolder::Found& f : found)
    if (f.step <= step && f.step > first_) newest = f.path;
  DTC_TRY(newest, ofFirst(newest));
  if (newest.empty()) return first_;
  DTC_TRY(const auto checkpoint, Checkpoint::open(newest));
  const auto& tensors = checkpoint.manifest().tensors;
  for (const CarriedState& s : program_.state)
    sources[s.argument] =
        checkpoint.source(*std::ranges::find(tensors, s.name, &CheckpointManifest::Entry::name));
  return checkpoint.manifest().step;
}

Result<bool> Training::hasNan(Executable& executable) {
  DTC_TRY(const auto scalars, scalarsOf(executable));
  DTC_TRY(auto state, stateOf(executable));
  DTC_TRY(const bool found,
          any((program_.loss && std::isnan(scalars[*program_.loss].second)) || hasNanIn(state)));
  if (!found) lastState_ = std::move(state);
  return found;
}

Result<std::string> Training::keepState(int64_t steps, const std::vector<TensorSource>& sources) {
  if (!writer_) return std::string();
  DTC_TRY(const auto found, CheckpointFolder::list(o_.checkpoints));
  const std::string path = writer_->folder().pathOf(steps);
  const bool here = std::ranges::find(found, steps, &CheckpointFolder::Found::step) != found.end();
  DTC_TRY(const std::string exists, ofFirst(here ? path : ""));
  if (!exists.empty()) return path;
  std::vector<PiecedTensor> state = std::move(lastState_);
  for (const CarriedState& s : program_.state) { // of the first step: the processes share the tensors
    if (state.size() == program_.state.size()) break;
    const InputArgument& a = program_.arguments[s.argument];
    const auto writer = static_cast<int>(state.size()) % share().size;
    TensorPiece piece{{std::vector<int64_t>(a.shape.size()), a.shape}, writer};
    if (writer == share().rank) {
      DTC_TRY(piece.value, sources[s.argument].tensor());
    }
    state.push_back({s.name, a.dtype, a.shape, {std::move(piece)}});
  }
  if (Status s = writer_->submit(manifestAt(steps), std::move(state)); !s) return s.error();
  if (Status s = writer_->finish(); !s) return s.error();
  return path;
}

} // namespace dtc
