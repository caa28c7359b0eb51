#pragma once
// What the steps and buffers of a compiled program are called in reports: names that the user knows.
#include "dtc/IR/Module.h"
#include "dtc/IR/text/Naming.h"
#include "explain/Senders.h"

#include <map>
#include <memory>
#include <unordered_map>

namespace dtc {

// Values that passes insert have no name in the text. They are named by what they are for:
//   %q                                           a value of the text
//   partial %y                                   the operand of the reduction whose result is %y
//   gradient bucket of %w1, %w2 and 3 more       values that are reduced in one message
//   partial gradient of %w1                      one of them, before it is copied to the bucket
//   unpack gradient bucket of %w1, … (of steps)  the kernel that takes it apart; the one that joins them has "pack"
//   gathered %w, received %x                     the result of a collective; %x may be a value of the sender's function
//   carried %dx, index of %dx                    an argument of the block of a loop with that result
//   softmax in %losses                           an op that is generated for the statement of %losses
//   constant of f32[4, 8]                        one that is for nothing with a name
// If the text was imported, the place in the user's program follows: "%mm_3 (layers.0.attn)".
class StepNames {
public:
  // `m` is scheduled or fused, and must not change while this object is used.
  StepNames(const Module& m, FuncId);

  // Of a buffer that holds the value.
  [[nodiscard]] std::string buffer(ValueId v) const { return text(describe(v), true); }
  // Of the statement that the value is named after, if it has one; otherwise of the op that computes it.
  [[nodiscard]] SourceRange location(ValueId) const;
  // Of a step, beside its kind: "partial %y", "in %losses". "" if it has no results.
  [[nodiscard]] std::string step(OpId) const;
  // Its kind in the words of reports: "matmul" for a fused region of kind "gemm", "all_reduce".
  [[nodiscard]] std::string kind(OpId) const;

private:
  struct Name {
    std::string role, of;   // "partial", "%y"; "softmax in", "%losses"
    bool generated = false; // the role is an op of the statement `of`
  };
  void addReaders(BlockId);
  void addBucket(OpId reducing);
  [[nodiscard]] Name describe(ValueId) const;
  [[nodiscard]] Name argument(ValueId) const;
  [[nodiscard]] Name describeMessage(OpId by, ValueId) const;
  [[nodiscard]] Name generatedFor(ValueId) const;
  [[nodiscard]] Name sent(OpId message, uint32_t operand) const;
  [[nodiscard]] Name namedReader(ValueId) const;
  [[nodiscard]] static Name partialOf(const Name& packed);
  [[nodiscard]] std::vector<ValueId> resultsFrom(OpId, ValueId operand) const;
  [[nodiscard]] std::string text(const Name&, bool ofBuffer) const;
  [[nodiscard]] std::string userPathOf(OpId) const;
  [[nodiscard]] std::string named(ValueId) const;
  [[nodiscard]] std::string statementOf(OpId) const;
  [[nodiscard]] const std::vector<OpId>& readersOf(ValueId) const;
  [[nodiscard]] OpId onlyReader(ValueId) const;
  [[nodiscard]] ValueId arrived(OpId message, uint32_t result) const;
  [[nodiscard]] ValueId inner(ValueId) const;
  [[nodiscard]] ValueId outer(ValueId) const;
  [[nodiscard]] Name unpacked(OpId reader, ValueId bucket, int64_t start) const;
  [[nodiscard]] Name takenBy(BlockId, OpId slice) const;
  [[nodiscard]] bool onlyCopies(OpId) const;

  const Module& m_;
  Naming names_;
  Senders senders_;
  mutable std::map<FuncId, std::unique_ptr<StepNames>> others_; // of functions that send messages to this one
  std::unordered_map<ValueId, std::vector<OpId>> readers_; // of the function, without those in fused regions
  std::unordered_map<ValueId, Name> buckets_;              // by value, packed or reduced
  struct BucketCopy {
    const char* kind; // "pack", "unpack"
    ValueId bucket;
  };
  std::unordered_map<OpId, BucketCopy> bucketCopies_;            // by kernel that only copies
  std::unordered_map<ValueId, Name> packed_;                     // by value that is copied to a bucket
  mutable std::unordered_map<uint32_t, std::string> statements_; // by location
};

// The reports' word for the `kind` of a fused region: "elementwise" for "pointwise".
[[nodiscard]] std::string kindText(std::string_view kind);
// "%w1, %w2 and 3 more"
[[nodiscard]] std::string fewNames(const std::vector<std::string>&);

} // namespace dtc
