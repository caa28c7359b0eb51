#pragma once
// How shardings go through ops of the text that become many of ours, or none: by a rule for the whole of each, in Shardy's
// words. Private to lib/Import.
#include "HloContext.h"

#include <optional>
#include <string>
#include <string_view>

namespace dtc {

// Of an op by its row's name, or of a call of something that has no meaning here but a rule: dims of all operands and
// results as factors. Nothing where ours find the same by themselves, or where there is none.
class FollowRule {
public:
  [[nodiscard]] static std::optional<FollowRule> of(HloContext& c, std::string_view name);

  // The rule as `custom` has it: of all operands and results.
  [[nodiscard]] std::string text() const;
  // As `barrier` has it: of a value like result r, of all operands, and of result r.
  [[nodiscard]] std::string textBehind(size_t r) const;

private:
  struct Factor {
    int64_t size = 1;
    char kind = ' '; // 'r' reduction, 'n' need_replication, 'p' permutation
  };
  using Dims = std::vector<std::vector<size_t>>; // of a tensor: each dim's factors

  explicit FollowRule(HloContext& c);
  size_t add(int64_t size, char kind = ' ');
  // Factors of their own for all dims of a shape.
  Dims fresh(const std::vector<int64_t>& shape, char kind = ' ');
  void shareAll();
  bool sort(HloContext& c);
  bool transform(HloContext& c);
  bool reduce(HloContext& c);
  bool windows(HloContext& c);
  bool selectAndScatter(HloContext& c);
  bool scatter(HloContext& c);
  bool partialReduce(HloContext& c);
  bool matrices();
  [[nodiscard]] std::string write(std::vector<Dims> operands, const std::vector<Dims>& results,
                                  std::vector<Factor> factors) const;

  std::vector<Factor> factors_;
  std::vector<std::vector<int64_t>> operandShapes_, resultShapes_;
  std::vector<Dims> operands_, results_; // a dim that names nothing has a factor of its own when written
};

// A call of what is not known here, kept as `custom`, so that the rest can be propagated, planned and shown (ShardyOps.cpp).
[[nodiscard]] bool unknownCall(HloContext& c);

} // namespace dtc
