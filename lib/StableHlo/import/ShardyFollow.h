#pragma once
// Propagation rules, in Shardy's terms, for ops of the text that import as several dtc ops, or as none.
#include "import/HloContext.h"

#include <optional>
#include <string>
#include <string_view>

namespace dtc {

// The factors of all dims of the operands and results, for an op by its row's name, or for a call of an
// unsupported function with a rule. Nothing where dtc's rules find the same, or where there is no rule.
class FollowRule {
public:
  [[nodiscard]] static std::optional<FollowRule> of(HloContext& c, std::string_view name);

  // The rule in the form of `custom`: for all operands and results.
  [[nodiscard]] std::string text() const;
  // The rule in the form of `barrier`: for a value like result r, all operands, and result r.
  [[nodiscard]] std::string textAfter(size_t r) const;

private:
  struct Factor {
    int64_t size = 1;
    char kind = ' '; // 'r' reduction, 'n' need_replication, 'p' permutation
  };
  using Dims = std::vector<std::vector<size_t>>; // per tensor: each dim's factors

  explicit FollowRule(HloContext& c);
  size_t add(int64_t size, char kind = ' ');
  // Independent factors for all dims of a shape.
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
  std::vector<Dims> operands_, results_; // a dim without factors gets one of its own when written
};

// A call of an unknown function, kept as `custom`, so that the rest can be propagated, planned and shown
// (ShardyOps.cpp).
[[nodiscard]] bool unknownCall(HloContext& c);
// Targets that begin with this are functions of the process (Support/HostCall.h); the second are called for each
// device in manual computations.
inline constexpr std::string_view kHostFunction = "dtc.host", kHostFunctionPerDevice = "dtc.host_per_device.";

} // namespace dtc
