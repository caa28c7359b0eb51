#pragma once
// Imports functions and regions of the text; ops by the table of converters.
#include "dtc/Ops/OpName.h"
#include "dtc/StableHlo/import/Import.h"
#include "import/Gspmd.h"
#include "import/HloCarry.h"
#include "import/HloContext.h"
#include "import/Shardy.h"
#include "sharding/PerDevice.h"
#include <unordered_map>
#include <utility>

namespace dtc {

// The number of devices of per-device code, and whether the text calls them replicas or partitions; 1 and 1
// elsewhere.
struct HloDevices {
  int64_t replicas = 1, partitions = 1;
};

// True if this is the target of a callback into Python.
[[nodiscard]] inline bool isPythonCallback(std::string_view target) {
  return target.find("python_") != std::string_view::npos &&
         target.find("_callback") != std::string_view::npos;
}
inline constexpr const char* kPythonCallback =
    "it calls a Python function (jax.debug.print, jax.pure_callback, io_callback), of which the text has "
    "only a number; "
    "remove it from the program, or return the values that it prints as results";

class HloImporter {
public:
  HloImporter(const MlirTree& tree, Module& module, Diagnostics& diags);
  // Where given, an op that does not import is appended to it, and the import continues.
  std::vector<ImportProblem>* problems = nullptr;

  bool run();

  const MlirTree& tree;
  Module& module;
  Diagnostics& diags;
  Shardy shardy{*this};
  Gspmd gspmd{*this};

  // --- for HloContext and converters of ops with regions ---
  [[nodiscard]] BlockId block() const { return block_; }
  [[nodiscard]] bool lifted() const { return lifted_ > 0; }
  [[nodiscard]] const HloValue* lookup(const MlirUse& use);
  void define(std::string_view name, std::vector<HloValue> values);
  // To the end of the region, a used name stands for another tensor.
  void redefine(const MlirUse& use, ValueId tensor);
  // Converts the ops of a region into `block` with the arguments `args`; the terminator's operands,
  // flattened. Nothing after a report.
  std::optional<std::vector<ValueId>> regionInto(const MlirRegion& region, BlockId block,
                                                 std::span<const HloValue> args);
  // Makes `block` the insertion block; returns the previous one.
  BlockId enter(BlockId block) {
    if (!module[block].parentFunc.valid()) module[block].parentFunc = module[block_].parentFunc;
    return std::exchange(block_, block);
  }
  // Inlines the body of a function into the insertion block; in a region that is applied elementwise,
  // elementwise.
  std::optional<std::vector<ValueId>> inlineFunction(const MlirOp& function, std::span<const HloValue> args);
  // The same, always elementwise (HloContext::inlineRegion).
  std::optional<std::vector<ValueId>> regionLifted(const MlirRegion& region, std::span<const HloValue> args);
  [[nodiscard]] TypeId typeFrom(const MlirType* t, SourceRange where, std::string_view opName);
  // The tensor types within a type of the text: one, those of a tuple, none for a token.
  [[nodiscard]] bool flatten(const MlirType* t, SourceRange where, std::string_view opName,
                             std::vector<TypeId>& out);
  // The name= and loc= of the values at a location of the user's program.
  [[nodiscard]] AttrList locationOf(uint32_t loc);
  [[nodiscard]] FuncId function(std::string_view symbol) const;
  [[nodiscard]] const MlirOp* functionText(std::string_view symbol) const;
  // "a.b-c" as a dtc name; empty where no character of it can be kept.
  [[nodiscard]] std::string validName(std::string_view name) const;
  OpId appendOp(OpName name, std::span<const ValueId> operands, AttrList attrs,
                std::span<const TypeId> written, SourceRange loc, uint32_t regions = 0);

  // True if the text describes replicas, false for partitions.
  [[nodiscard]] const HloDevices& devices() const { return devices_; }
  // True if the whole text is per-device code.
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
  void replaceByZeros(const MlirOp& op);
  bool annotateResults(const MlirOp& op, std::vector<HloValue>& values, uint32_t fresh);
  void nameResults(const MlirOp& op, std::vector<HloValue>& values);
  struct UserLocation {
    std::string name, file;
    uint32_t line = 0, column = 0;
  };
  void readLocation(uint32_t loc, UserLocation& out, int depth);
  // Names used so far, and how often each was requested.
  using Labels = std::unordered_map<std::string, uint32_t>;
  StrId freshLabel(const std::string& wanted, Labels& taken);

  std::unordered_map<std::string_view, std::vector<std::vector<HloValue>>> names_; // a stack per name
  std::vector<std::string_view> defined_;                                          // in order, for undoing
  std::unordered_map<std::string_view, const MlirOp*> functionText_;
  std::unordered_map<std::string_view, FuncId> functions_;
  DeviceFunctions inner_; // bodies of manual computations: inlined where they are called
  BlockId block_;
  int lifted_ = 0, depth_ = 0;
  size_t liftedOps_ =
      0;             // a function may be inlined many times: bounds the module's size relative to the text
  MeshId perDevice_; // for per-device texts
  HloDevices devices_;
};

// Annotates `results` of a converted op by the rule of the op of the text, `name` (ShardyFollow.cpp). False
// after a report.
bool followOperands(HloContext&, std::string_view name, std::span<HloValue> results);

} // namespace dtc
