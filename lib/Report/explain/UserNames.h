#pragma once
// Words by which a user knows values that the text names otherwise.
#include "dtc/IR/Module.h"
#include <vector>

namespace dtc {

class UserNames {
public:
  explicit UserNames(const Module&);

  // The user's own name of an argument: "params['head']". "" for other values, or if the text has that name.
  [[nodiscard]] std::string argument(ValueId, const std::string& inText) const;
  // What a value is computed for: the only result that it contributes to, of a function with several,
  // "layers.0.weight.grad" or "%dw1"; otherwise, if the text lacks the value (`generated`), the only value with
  // a name that it contributes to, "%d_h". "" if there are several of these. Instead of the name of a result
  // that is the value itself, that of the statement that annotates it, "%s" of `%s = shard %t`: the schedule has it.
  [[nodiscard]] std::string purpose(ValueId, bool generated) const;

private:
  static constexpr uint32_t kNone = ~0u, kSeveral = ~0u - 1; // otherwise an index of names_
  struct Readers {
    OpId first;
    uint32_t count = 0;
  };
  [[nodiscard]] std::string annotated(ValueId) const;
  [[nodiscard]] std::string onlyResult(ValueId) const;
  [[nodiscard]] std::string onlyReader(ValueId) const;
  void join(ValueId, uint32_t result);
  void block(BlockId);
  void op(OpId);

  const Module& m_;
  std::vector<uint32_t> result_;       // by value
  std::vector<std::string> arguments_; // by value; "" for others
  std::vector<Readers> readers_;       // by value; without readers in regions
  std::vector<std::string> names_;
};

} // namespace dtc
