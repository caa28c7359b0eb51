#pragma once
// `--data` and `--eval` of `dtc run`: files of samples, of which each step of a training run takes a batch.
#include "dtc/Files/Inputs.h"
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

// NAME=FILE[:key=value,…]
struct DataSpec {
  std::string argument; // without %
  std::string path;
  int64_t window = 0;         // elements of a sample; 0: a sample is a row, an index of the first dim
  int64_t stride = 0;         // from one window to the next; 0: the window
  int64_t offset = 0;         // elements before the first window
  std::optional<DType> dtype; // of the file's elements (raw files); absent: the argument's
  std::optional<uint64_t> seed;
  bool fileOrder = false; // not shuffled
  std::string text;       // as written
};

// `flag`: "--data" or "--eval", for messages. Errors (Usage) list the forms.
[[nodiscard]] Result<DataSpec> parseDataSpec(std::string_view flag, std::string_view text);

// The samples of one argument.
class SampleData {
public:
  // The argument is [batch, window] or [batch, row…]. Errors (Input): not a file of such samples,
  // truncated, or with fewer samples than a batch.
  [[nodiscard]] static Result<SampleData> open(const DataSpec&, const InputArgument&);

  [[nodiscard]] const DataSpec& spec() const { return spec_; }
  [[nodiscard]] int64_t numSamples() const { return numSamples_; }
  [[nodiscard]] int64_t batchSize() const { return shape_[0]; }
  [[nodiscard]] int64_t sampleElements() const { return sampleElements_; }
  // The samples of these numbers, as a value of the argument, of which each is read once, when a device reads from
  // it. It must not outlive this object.
  [[nodiscard]] TensorSource batch(std::vector<int64_t> samples) const;

private:
  struct Batch;
  [[nodiscard]] Status readSample(int64_t sample, int64_t row, Tensor& to) const;
  [[nodiscard]] Status countWindows(const InputArgument&);
  [[nodiscard]] Status countRows(const InputArgument&);
  DataSpec spec_;
  TensorSource source_;
  DType dtype_ = DType::F32;
  std::vector<int64_t> shape_;                             // of the argument
  int64_t numSamples_ = 0, sampleElements_ = 1, step_ = 0; // step_: elements from one sample to the next
};

// Several arguments that take samples of equal numbers: tokens, or images and their labels.
class SampleFeed {
public:
  struct Argument {
    size_t index = 0; // of the program's argument
    SampleData data;
  };
  // Errors (Usage): an unknown argument, one bound twice, contradictory seeds or orders; (Input): different
  // numbers of rows, and the errors of SampleData::open. Several arguments with windows use the smallest
  // number of windows.
  [[nodiscard]] static Result<SampleFeed> open(std::string_view flag, std::span<const DataSpec>,
                                               std::span<const InputArgument>);

  [[nodiscard]] const std::vector<Argument>& arguments() const { return arguments_; }
  [[nodiscard]] bool empty() const { return arguments_.empty(); }
  [[nodiscard]] int64_t numSamples() const { return numSamples_; }
  [[nodiscard]] int64_t batchSize() const { return arguments_.empty() ? 0 : arguments_[0].data.batchSize(); }
  [[nodiscard]] uint64_t seed() const { return seed_; }
  [[nodiscard]] bool fileOrder() const { return fileOrder_; }
  // Elements of a batch in windows; 0 without windows.
  [[nodiscard]] int64_t tokensOfBatch() const;
  // The numbers of the samples at `position` … `position` + batchSize() - 1 of the run.
  [[nodiscard]] std::vector<int64_t> samplesAt(int64_t position) const;

private:
  std::vector<Argument> arguments_;
  int64_t numSamples_ = 0;
  uint64_t seed_ = 0;
  bool fileOrder_ = false;
};

// The sample at `position` of a run over `numSamples` samples, each of which is taken once per epoch. The
// order of an epoch is a permutation of its own: a Feistel network of six rounds of Philox4x32-10, whose
// key is the seed, over the smallest square of a power of two that holds all samples; numbers beyond are
// permuted again. It depends on nothing else, such as the mesh or the batch size.
[[nodiscard]] int64_t shuffledSample(uint64_t seed, int64_t numSamples, int64_t position);

} // namespace dtc
