#include "dtc/Files/SampleData.h"

#include "dtc/Files/TensorFiles.h"
#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace dtc {
namespace {

constexpr const char* kForms =
    "\n  %s tokens=FILE:window=129   runs of 129 elements; also stride=N, offset=N, seed=S, order=file, "
    "dtype=u8\n"
    "  %s x=FILE.npy               the rows of a file; also seed=S, order=file\n";

constexpr int64_t kMaxNumber = int64_t(1) << 48; // sums of a few do not overflow

std::string formsOf(std::string_view flag) {
  std::string text = kForms;
  for (size_t at = 0; (at = text.find("%s")) != text.npos;) text.replace(at, 2, flag);
  return text;
}

// Sets one option; returns what was expected instead, or "".
std::string setOption(DataSpec& spec, std::string_view key, std::string_view value) {
  const auto number = parseNumber<int64_t>(value);
  if (key == "seed") {
    spec.seed = parseNumber<uint64_t>(value);
    return spec.seed ? "" : "an integer from 0 to 2^64-1";
  }
  if (key == "order") {
    spec.fileOrder = value == "file";
    return value == "file" || value == "shuffled" ? "" : "file or shuffled";
  }
  if (key == "dtype") {
    spec.dtype = parseDType(value);
    return spec.dtype ? "" : "a dtype such as u8 or i32";
  }
  const bool offset = key == "offset";
  if (!number || *number < (offset ? 0 : 1) || *number > kMaxNumber)
    return offset ? "an integer of at least 0" : "a positive integer";
  (offset ? spec.offset : key == "window" ? spec.window : spec.stride) = *number;
  return "";
}

constexpr std::string_view kKeys[] = {"window", "stride", "offset", "seed", "order", "dtype"};

// The part after the last colon is options if it has a '=' and no '/'.
std::string_view optionsOf(std::string_view file) {
  const size_t colon = file.rfind(':');
  if (colon == file.npos) return {};
  const std::string_view rest = file.substr(colon + 1);
  return rest.find('=') != rest.npos && rest.find('/') == rest.npos ? rest : std::string_view();
}

// Whether every value of an integer dtype is a value of the other.
bool holdsAll(DType to, DType from) {
  if (!isInteger(from)) return false;
  const int bits = 8 * dtypeBytes(from);
  if (isFloat(to)) return bits <= mantissaBits(to);
  if (!isInteger(to) || (isSignedInt(from) && isUnsignedInt(to))) return false;
  return isSignedInt(from) == isSignedInt(to) ? dtypeBytes(to) >= dtypeBytes(from)
                                              : dtypeBytes(to) > dtypeBytes(from);
}

void convert(const Tensor& from, Tensor& to, int64_t at) {
  for (int64_t i = 0; i < from.numElements(); ++i)
    isFloat(to.dtype()) ? to.setFloat(at + i, static_cast<double>(from.getInt(i)))
                        : to.setInt(at + i, from.getInt(i));
}

Result<TensorSource> openNpyOf(InputFile file, const DataSpec& spec, const InputArgument& arg) {
  DTC_TRY(auto start, file.text(0, std::min<int64_t>(file.size(), 65536 + 12)));
  DTC_TRY(auto header, parseNpyHeader(start, quotedPath(file.path())));
  const bool widens = !header.raw && holdsAll(arg.dtype, header.dtype);
  if (spec.dtype && *spec.dtype != header.dtype)
    return inputError(quotedPath(file.path()) + " has " + std::string(dtypeName(header.dtype)) + ", not " +
                      std::string(dtypeName(*spec.dtype)) + " (the dtype of a .npy file need not be given)");
  return openNpy(std::move(file), widens ? header.dtype : arg.dtype);
}

std::string windowHint(const DataSpec& spec, const InputArgument& arg) {
  if (spec.window || arg.shape.size() != 2) return "";
  return "; to take windows of a list, add :window=" + std::to_string(arg.shape[1]);
}

// All of a raw file, as rows of the argument or as elements.
Result<TensorSource> openRawOf(InputFile file, const DataSpec& spec, const InputArgument& arg) {
  const DType dtype = spec.dtype.value_or(arg.dtype);
  if (dtype != arg.dtype && !holdsAll(arg.dtype, dtype))
    return inputError("%" + arg.name + " is " + std::string(dtypeName(arg.dtype)) +
                      ", which does not hold all " + std::string(dtypeName(dtype)) + " of " +
                      quotedPath(file.path()));
  std::vector<int64_t> shape = {0};
  if (spec.window == 0) shape.insert(shape.end(), arg.shape.begin() + 1, arg.shape.end());
  const auto elements = elementCount(std::span(shape).subspan(1));
  const auto unit = elements ? checkedMul(*elements, dtypeBytes(dtype)) : std::nullopt;
  if (!unit || *unit == 0)
    return inputError("%" + arg.name + " is " + typeText(arg.dtype, arg.shape) +
                      ", whose rows cannot be read from a file");
  if (file.size() % *unit != 0)
    return inputError(quotedPath(file.path()) + " has " + std::to_string(file.size()) +
                      " bytes, which is not a multiple of the " + std::to_string(*unit) +
                      (spec.window ? " bytes of an element, " : " bytes of a row, ") +
                      typeText(dtype, {shape.begin() + 1, shape.end()}) +
                      ": it is truncated, or has another dtype" + windowHint(spec, arg));
  shape[0] = file.size() / *unit;
  return openRaw(std::move(file), dtype, shape);
}

} // namespace

Result<DataSpec> parseDataSpec(std::string_view flag, std::string_view text) {
  DataSpec spec;
  spec.text = text;
  const std::string told = std::string(flag) + " '" + std::string(text) + "'";
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0 || equals + 1 == text.size())
    return usageError(told + " is not NAME=FILE. The forms are:" + formsOf(flag));
  spec.argument = text.substr(0, equals);
  if (spec.argument.starts_with('%')) spec.argument.erase(0, 1);
  std::string_view file = text.substr(equals + 1), rest = optionsOf(file);
  if (!rest.empty()) file.remove_suffix(rest.size() + 1);
  spec.path = file;
  if (spec.path.empty()) return usageError(told + " names no file. The forms are:" + formsOf(flag));
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::string_view key = one.substr(0, one.find('='));
    if (std::ranges::find(kKeys, key) == std::end(kKeys))
      return usageError(told + ": " + unknownWord("option", key, {std::begin(kKeys), std::end(kKeys)}));
    const std::string_view value = one.size() > key.size() ? one.substr(key.size() + 1) : std::string_view();
    if (const std::string expected = setOption(spec, key, value); !expected.empty())
      return usageError(told + ": " + std::string(key) + " is " + expected + ", got '" + std::string(value) +
                        "'");
  }
  if (spec.window == 0 && (spec.stride || spec.offset))
    return usageError(told + ": stride and offset need a window");
  if (spec.stride == 0) spec.stride = spec.window;
  return spec;
}

Status SampleData::countWindows(const InputArgument& arg) {
  const std::string has = quotedPath(spec_.path) + " has ";
  if (source_.shape().size() != 1)
    return inputError(has + typeText(source_.dtype(), source_.shape()) +
                      ", but windows are taken from a list of elements: expected 1 dim");
  if (arg.shape.size() != 2 || arg.shape[1] != spec_.window)
    return inputError("%" + arg.name + " is " + typeText(arg.dtype, arg.shape) + ", but windows of " +
                      std::to_string(spec_.window) + " elements need [batch, " +
                      std::to_string(spec_.window) + "]");
  const int64_t left = source_.shape()[0] - spec_.offset - spec_.window;
  numSamples_ = left < 0 ? 0 : left / spec_.stride + 1;
  sampleElements_ = spec_.window;
  step_ = spec_.stride;
  if (numSamples_ >= shape_[0]) return Ok{};
  return inputError(has + std::to_string(source_.shape()[0]) + " elements, which are " +
                    std::to_string(numSamples_) + " windows of " + std::to_string(spec_.window) +
                    ", but a step of %" + arg.name + " takes " + std::to_string(shape_[0]));
}

Status SampleData::countRows(const InputArgument& arg) {
  const std::vector<int64_t>& held = source_.shape();
  if (held.size() != shape_.size() || !std::equal(held.begin() + 1, held.end(), shape_.begin() + 1))
    return inputError(quotedPath(spec_.path) + " has " + typeText(source_.dtype(), held) +
                      ", whose rows are not those of %" + arg.name + ", " + typeText(arg.dtype, arg.shape) +
                      (held.size() == 1 ? windowHint(spec_, arg) : ""));
  numSamples_ = held[0];
  for (size_t d = 1; d < held.size(); ++d) sampleElements_ *= held[d]; // checked when the file was opened
  step_ = sampleElements_;
  if (numSamples_ >= shape_[0]) return Ok{};
  return inputError(quotedPath(spec_.path) + " has " + std::to_string(numSamples_) +
                    " rows, but a step of %" + arg.name + " takes " + std::to_string(shape_[0]));
}

Result<SampleData> SampleData::open(const DataSpec& spec, const InputArgument& arg) {
  if (arg.shape.empty() || arg.shape[0] == 0)
    return inputError("%" + arg.name + " is " + typeText(arg.dtype, arg.shape) +
                      ", but data need a first dim, over the samples of a step");
  DTC_TRY(auto file, InputFile::open(spec.path));
  SampleData data;
  data.spec_ = spec;
  data.dtype_ = arg.dtype;
  data.shape_ = arg.shape;
  auto source = spec.path.ends_with(".npy") ? openNpyOf(std::move(file), spec, arg)
                                            : openRawOf(std::move(file), spec, arg);
  if (!source) return Error{source.error().kind, source.error().message};
  data.source_ = *std::move(source);
  if (Status s = spec.window ? data.countWindows(arg) : data.countRows(arg); !s) return s.error();
  return data;
}

Status SampleData::readSample(int64_t sample, int64_t row, Tensor& to) const {
  const int64_t width = dtypeBytes(source_.dtype()), bytes = sampleElements_ * width;
  const int64_t from = (spec_.offset + sample * step_) * width;
  if (source_.dtype() == dtype_)
    return source_.read(from,
                        to.bytes().subspan(static_cast<size_t>(row * bytes), static_cast<size_t>(bytes)));
  Tensor read(source_.dtype(), {sampleElements_});
  if (Status s = source_.read(from, read.bytes()); !s) return s;
  convert(read, to, row * sampleElements_);
  return Ok{};
}

struct SampleData::Batch {
  std::vector<int64_t> samples;
  std::vector<bool> read;
  Tensor value;
};

TensorSource SampleData::batch(std::vector<int64_t> samples) const {
  const size_t count = samples.size();
  auto batch = std::make_shared<Batch>(std::move(samples), std::vector<bool>(count), Tensor(dtype_, shape_));
  const int64_t row = sampleElements_ * dtypeBytes(dtype_);
  return {dtype_, shape_, [this, row, batch](int64_t begin, std::span<std::byte> out) -> Status {
            const int64_t end = begin + static_cast<int64_t>(out.size());
            for (int64_t i = row ? begin / row : 0; i * row < end; ++i) {
              const auto at = static_cast<size_t>(i);
              if (batch->read[at]) continue;
              if (Status s = readSample(batch->samples[at], i, batch->value); !s) return s;
              batch->read[at] = true;
            }
            std::memcpy(out.data(), batch->value.bytes().data() + begin, out.size());
            return Ok{};
          }};
}

// The argument of a name.
static Result<size_t> argumentOf(std::string_view flag, const DataSpec& spec,
                                 std::span<const InputArgument> arguments) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (spec.argument == arguments[i].name || spec.argument == arguments[i].userName) return i;
    names.push_back(arguments[i].name);
  }
  return usageError(std::string(flag) + " names '" + spec.argument + "', but no argument has that name" +
                    suggestion(Vocabulary::Plain, spec.argument, names));
}

// Samples of equal number belong together: all arguments have as many, except windows at the end of a file.
static Status agree(std::string_view flag, std::span<const SampleFeed::Argument> all, int64_t count) {
  for (const SampleFeed::Argument& a : all) {
    const SampleData& first = all[0].data;
    if (a.data.batchSize() != first.batchSize())
      return inputError("%" + a.data.spec().argument + " takes " + std::to_string(a.data.batchSize()) +
                        " samples per step, but %" + first.spec().argument + " takes " +
                        std::to_string(first.batchSize()));
    if (a.data.spec().window == 0 && a.data.numSamples() != count)
      return inputError(quotedPath(a.data.spec().path) + " has " + std::to_string(a.data.numSamples()) +
                        " rows, but the other " + std::string(flag) + " have " + std::to_string(count) +
                        ": rows of equal number belong together");
  }
  return Ok{};
}

Result<SampleFeed> SampleFeed::open(std::string_view flag, std::span<const DataSpec> specs,
                                    std::span<const InputArgument> arguments) {
  SampleFeed feed;
  std::optional<uint64_t> seed;
  for (const DataSpec& spec : specs) {
    DTC_TRY(const size_t index, argumentOf(flag, spec, arguments));
    for (const Argument& before : feed.arguments_)
      if (before.index == index)
        return usageError(std::string(flag) + " binds %" + arguments[index].name + " twice");
    if ((seed && spec.seed && *seed != *spec.seed) ||
        (!feed.arguments_.empty() && spec.fileOrder != feed.fileOrder_))
      return usageError(std::string(flag) +
                        ": all arguments take samples of equal number, but these differ in seed or order");
    if (spec.seed) seed = spec.seed;
    feed.fileOrder_ = spec.fileOrder;
    DTC_TRY(auto data, SampleData::open(spec, arguments[index]));
    feed.numSamples_ =
        feed.arguments_.empty() ? data.numSamples() : std::min(feed.numSamples_, data.numSamples());
    feed.arguments_.push_back({index, std::move(data)});
  }
  feed.seed_ = seed.value_or(0);
  if (Status s = agree(flag, feed.arguments_, feed.numSamples_); !s) return s.error();
  return feed;
}

int64_t SampleFeed::tokensOfBatch() const {
  for (const Argument& a : arguments_)
    if (a.data.spec().window) return a.data.spec().window * a.data.batchSize();
  return 0;
}

std::vector<int64_t> SampleFeed::samplesAt(int64_t position) const {
  std::vector<int64_t> samples;
  for (int64_t i = position; i < position + batchSize(); ++i)
    samples.push_back(fileOrder_ ? i % numSamples_ : shuffledSample(seed_, numSamples_, i));
  return samples;
}

} // namespace dtc
