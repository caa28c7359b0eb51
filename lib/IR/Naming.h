#pragma once
// The names that the printer gives to values (ir.md §2.7).
#include "dtc/IR/Module.h"

namespace dtc {

// Names as read where they are free at their place, else the least number that no value of the function has. Linear.
class Naming {
public:
  // All values of one function.
  Naming(const Module&, FuncId);
  // "%h", or "%?7" for a value that the function does not define.
  [[nodiscard]] std::string operator()(ValueId) const;
  void append(std::string& out, ValueId) const;

private:
  void nameBlock(BlockId);
  void keepOrPostpone(ValueId);
  const Module& m_;
  static constexpr uint32_t kNumbered = 0x80000000u;
  std::unordered_map<ValueId, uint32_t> names_; // a StrId's index, or a number with kNumbered
  std::vector<ValueId> unnamed_;                // in the order of the text
  std::vector<StrId> visible_;                  // names defined here and around
  std::unordered_map<StrId, uint32_t> visibleCount_;
  size_t visibleFrom_ = 0;
};

} // namespace dtc
