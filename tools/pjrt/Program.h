#pragma once
// A program of JAX, compiled: what it takes and returns per partition, and how it is run.
#include "dtc/Api/CompiledProgram.h"
#include "dtc/StableHlo/import/Signature.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dtc {

struct ElementType;

struct PjrtValue {
  const ElementType* element = nullptr; // as JAX sees it
  std::vector<int64_t> dims;            // of one partition's shard
  size_t bytes = 0;
  std::string sharding;              // a serialized OpSharding
  bool donated = false;              // an argument whose memory a result can take
  std::string memoryKind;            // of a result, as the program states it
  std::vector<int64_t> minorToMajor; // of a result: the layout that it is said to have (Layouts.cpp)
  bool token = false;                // for JAX, an array without elements; the program does not have it
  size_t at = 0;                     // which argument or result of the program it is
  // All devices have all of it in JAX, which has no shards of different sizes, nor strided ones. `shards`: how the
  // program has it.
  bool whole = false;
  ShardingId shards;
};

class PjrtProgram {
public:
  // StableHLO as text, of text or bytecode.
  [[nodiscard]] static Result<std::string> textOf(std::string_view code);

  // Compiles for `numPartitions` devices. False: see `error`.
  [[nodiscard]] bool compile(std::string text, int64_t numPartitions, const std::string& backend,
                             std::shared_ptr<Machine> machine, ApiError& error);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& text() const { return text_; } // StableHLO
  // What one partition runs, as StableHLO with collectives; the text where there is one partition.
  [[nodiscard]] const std::string& partitionText() const;
  [[nodiscard]] int64_t numPartitions() const { return numPartitions_; }
  [[nodiscard]] const std::vector<PjrtValue>& arguments() const { return arguments_; }
  [[nodiscard]] const std::vector<PjrtValue>& results() const { return results_; }
  [[nodiscard]] int64_t arenaBytes() const { return program_->executable().arenaBytes(); }

  // Shards by partition: partition p's argument i is arguments[p * number + i]. Thread-safe.
  [[nodiscard]] bool run(std::span<const std::byte* const> arguments, std::span<std::byte* const> results,
                         ApiError& error) const;

private:
  [[nodiscard]] bool describe(ApiError& error);
  [[nodiscard]] bool describe(const std::vector<HloTensor>& declared, bool arguments,
                              std::vector<PjrtValue>& out, ApiError& error);
  void keepUnusableDonations();
  [[nodiscard]] std::string shardingOf(ShardingId id) const;
  [[nodiscard]] bool fitsJax(size_t i, bool argument, ShardingId shards) const;
  struct Borrowed;
  void borrowArguments(std::span<const std::byte* const> arguments, Borrowed& out) const;
  void borrowResults(std::span<std::byte* const> results, Borrowed& out) const;
  [[nodiscard]] bool readWhole(std::span<std::byte* const> results, ApiError& error) const;

  std::string name_, text_;
  int64_t numPartitions_ = 1;
  HloSignature signature_;
  std::unique_ptr<CompiledProgram> program_;
  [[nodiscard]] size_t devices() const { return std::max<size_t>(coordinates_.size(), 1); } // of the program
  [[nodiscard]] size_t coordinate(size_t partition) const {
    return coordinates_.empty() ? 0 : coordinates_[partition];
  }
  std::vector<size_t> coordinates_; // by partition: of the mesh; empty: a program of one device
  std::vector<PjrtValue> arguments_, results_;
  size_t numArguments_ = 0, numResults_ = 0; // of the program: without tokens
  mutable std::mutex mutex_;                 // until whole results are read
  mutable std::once_flag partitioned_;       // partitionText_ is made
  mutable std::string partitionText_;
};

} // namespace dtc
