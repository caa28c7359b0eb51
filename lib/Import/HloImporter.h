#pragma once
// Functions and regions of the text as ours; ops by the table of converters. Private to lib/Import.
#include "HloCarry.h"
#include "HloContext.h"
#include "PerDevice.h"
#include "Shardy.h"
#include "dtc/Import/Import.h"
#include <unordered_map>
#include <utility>

namespace dtc {

// How many devices the code of one device is for, and what the text calls them; 1 and 1 elsewhere.
struct HloDevices {
  int64_t replicas = 1, partitions = 1;
};

// Is this the target of a call back into Python?
[[nodiscard]] inline bool isPythonCallback(std::string_view target) {
  return target.find("python_") != std::string_view::npos &&
         target.find("_callback") != std::string_view::npos;
}
inline constexpr const char* kPythonCallback =
    "it calls a Python function (jax.debug.print, jax.pure_callback, io_callback), of which the text has "
    "only a number; "
    "take it out of the program, or return what it shows as a result";

class HloImporter {
public:
  HloImporter(const MlirTree& tree, Module& module, Diagnostics& diags);
  // Where given, an op that does not import is put there, and the import goes on.
  std::vector<ImportProblem>* problems = nullptr;

  bool run();

  const MlirTree& tree;
  Module& module;
  Diagnostics& diags;
  Shardy shardy{*this};

  // --- for HloContext and converters of ops with regions ---
  [[nodiscard]] BlockId block() const { return block_; }
  [[nodiscard]] bool lifted() const { return lifted_ > 0; }
  [[nodiscard]] const HloValue* lookup(const MlirUse& use);
  void define(std::string_view name, std::vector<HloValue> values);
  // Converts the ops of a region into `block`, its arguments being `args`; the terminator's operands, flattened. Nothing
  // after a report.
  std::optional<std::vector<ValueId>> regionInto(const MlirRegion& region, BlockId block,
                                                 std::span<const HloValue> args);
  // Makes `block` the one that ops are written to; the one before.
  BlockId enter(BlockId block) {
    if (!module[block].parentFunc.valid()) module[block].parentFunc = module[block_].parentFunc;
    return std::exchange(block_, block);
  }
  // The body of a function at the block at hand; in a region that is applied elementwise, so is it.
  std::optional<std::vector<ValueId>> functionInPlace(const MlirOp& function, std::span<const HloValue> args);
  // The same in the block at hand, each op applied elementwise (HloContext::inlineRegion).
  std::optional<std::vector<ValueId>> regionLifted(const MlirRegion& region, std::span<const HloValue> args);
  [[nodiscard]] TypeId typeFrom(const MlirType* t, SourceRange where, std::string_view opName);
  // The types that a type of the text is made of: one, a tuple's, none for a token.
  [[nodiscard]] bool flatten(const MlirType* t, SourceRange where, std::string_view opName,
                             std::vector<TypeId>& out);
  // name= and loc= for what stands at this place of the user's program.
  [[nodiscard]] AttrList placeOf(uint32_t loc);
  [[nodiscard]] FuncId function(std::string_view symbol) const;
  [[nodiscard]] const MlirOp* functionText(std::string_view symbol) const;
  // "a.b-c" as a name of ours; empty where nothing of it can be kept.
  [[nodiscard]] std::string validName(std::string_view name) const;
  OpId appendOp(std::string_view name, std::span<const ValueId> operands, AttrList attrs,
                std::span<const TypeId> written, SourceRange loc, uint32_t regions = 0);

  // Is the text each replica's, not each partition's?
  [[nodiscard]] const HloDevices& devices() const { return devices_; }
  // Is all of the text what each device does?
  [[nodiscard]] bool perDevice() const { return perDevice_.valid(); }

private:
  bool enterPerDevice();
  bool declare(const MlirOp& op);
  bool declareArgs(const MlirOp& op, FuncId f, std::vector<DonatedArgument>& donated);
  bool declareResults(const MlirOp& op, FuncId f, std::vector<DonatedArgument>& donated);
  [[nodiscard]] std::string resultName(std::string_view info) const;
  bool body(const MlirOp& op, FuncId f);
  std::optional<std::vector<ValueId>> ops(const MlirRegion& region);
  bool convert(const MlirOp& op);
  bool operandsAsStated(const MlirOp& op, std::span<const HloValue> operands);
  bool convertRow(const MlirOp& op);
  bool followOperands(HloContext& c, std::string_view name);
  void standIn(const MlirOp& op);
  bool annotateResults(const MlirOp& op, std::vector<HloValue>& values, uint32_t fresh);
  void nameResults(const MlirOp& op, std::vector<HloValue>& values);
  struct Place {
    std::string name, file;
    uint32_t line = 0, column = 0;
  };
  void place(uint32_t loc, Place& out, int depth);
  // Names given out so far, and how often each was asked for.
  using Labels = std::unordered_map<std::string, uint32_t>;
  StrId freshLabel(const std::string& wanted, Labels& taken);

  std::unordered_map<std::string_view, std::vector<std::vector<HloValue>>> names_; // a stack per name
  std::vector<std::string_view> defined_;                                          // in order, to be undone
  std::unordered_map<std::string_view, const MlirOp*> functionText_;
  std::unordered_map<std::string_view, FuncId> functions_;
  DeviceFunctions inner_; // of manual computations: put in place where they are called
  BlockId block_;
  int lifted_ = 0, depth_ = 0;
  size_t liftedOps_ =
      0;             // a function may be applied again and again: the module stays in proportion to the text
  MeshId perDevice_; // of a text that says what each device does
  HloDevices devices_;
};

} // namespace dtc
