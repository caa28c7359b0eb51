#pragma once
// The names that the printer gives to values (ir.md).
#include "dtc/IR/Module.h"

namespace dtc {

// Keeps the parsed name of a value if it is free in its scope, else picks the lowest number that no value of
// the function uses. Linear in the function: to name many values, make one of these instead of calling
// printValueName for each.
class Naming {
public:
  // All values of one function.
  Naming(const Module&, FuncId);
  // "%h", or "%?7" for a value that the function does not define.
  [[nodiscard]] std::string operator()(ValueId) const;
  void append(std::string& out, ValueId) const;

private:
  // A table indexed by the ids of one function, which are close together.
  template <class IdType> class Column {
  public:
    void cover(IdType id) {
      if (!id.valid()) return;
      first_ = std::min(first_, id.index);
      last_ = std::max(last_, id.index);
    }
    void allocate(uint32_t initial) {
      if (first_ <= last_) cells_.assign(size_t{last_} - first_ + 1, initial);
    }
    [[nodiscard]] bool covers(IdType id) const { return id.index >= first_ && id.index <= last_; }
    uint32_t& operator[](IdType id) { return cells_[id.index - first_]; }
    uint32_t operator[](IdType id) const { return cells_[id.index - first_]; }

  private:
    uint32_t first_ = IdType::kNone, last_ = 0;
    std::vector<uint32_t> cells_;
  };

  void coverBlock(BlockId);
  void nameArguments(BlockId);
  void nameBlock(BlockId);
  void keepOrPostpone(ValueId);
  const Module& m_;
  static constexpr uint32_t kNumbered = 0x80000000u, kUnknown = 0xffffffffu;
  Column<ValueId> names_;                           // a StrId's index, a number with kNumbered, or kUnknown
  std::vector<ValueId> unnamed_;                    // in program order
  std::vector<std::pair<ValueId, ValueId>> sameAs_; // shares the name of the other
  std::vector<uint32_t> taken_;                     // numbers that are used as names
  std::vector<StrId> visible_;                      // names visible in this scope
  Column<StrId> visibleCount_;
  size_t visibleFrom_ = 0;
};

// As printValueName, for many values of a module that does not change: the names of a function are computed
// on first use.
class ValueNames {
public:
  explicit ValueNames(const Module& m) : m_(m) {}
  [[nodiscard]] std::string operator()(ValueId) const;

private:
  const Module& m_;
  mutable std::unordered_map<FuncId, Naming> functions_;
};

} // namespace dtc
