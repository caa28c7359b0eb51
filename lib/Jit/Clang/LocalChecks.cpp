// cuda-emu's checks of a thread's local behavior: indices of its own arrays, divisions, signed overflow,
// shifts, endless loops. Inserted as comparisons, most of which are folded once loops are unrolled.
#include "Analyses.h"
#include "Backend.h"
#include "dtc/Jit/EmuSymbols.h"
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/Utils/Local.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

namespace dtc::clangjit {
namespace {

constexpr unsigned kShort = 1 << 20; // iterations of a loop that certainly terminates

class LocalChecker {
public:
  LocalChecker(llvm::Module& module, LocationOf location)
      : module_(module), location_(location), i32_(llvm::Type::getInt32Ty(module.getContext())),
        i64_(llvm::Type::getInt64Ty(module.getContext())) {
    fault_ = faultFunction(module);
  }

  // Loops first: their analyses are valid for unmodified code.
  void run(llvm::Function& function, llvm::LoopInfo& loops, llvm::ScalarEvolution& lengths) {
    llvm::SmallVector<llvm::Instruction*, 16> latches;
    for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
      const unsigned maxIterations = lengths.getSmallConstantMaxTripCount(loop); // 0: unknown
      if (maxIterations != 0 && maxIterations <= kShort) continue;
      llvm::SmallVector<llvm::BasicBlock*, 4> blocks;
      loop->getLoopLatches(blocks);
      for (llvm::BasicBlock* block : blocks) latches.push_back(block->getTerminator());
    }
    llvm::SmallVector<llvm::Instruction*, 128> all;
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& instruction : block) all.push_back(&instruction);
    for (llvm::Instruction* instruction : all) visit(*instruction);
    checkLocalValues(function, fault_, location_);
    if (latches.empty()) return;
    llvm::IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
    llvm::AllocaInst* rounds = builder.CreateAlloca(i64_, nullptr, "rounds");
    builder.CreateStore(builder.getInt64(0), rounds);
    for (llvm::Instruction* latch : latches) count(*latch, *rounds);
  }

private:
  void visit(llvm::Instruction& at) {
    const llvm::DataLayout& layout = module_.getDataLayout();
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&at))
      bounds(at, load->getPointerOperand(), layout.getTypeStoreSize(load->getType()).getFixedValue());
    else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&at))
      bounds(at, store->getPointerOperand(),
             layout.getTypeStoreSize(store->getValueOperand()->getType()).getFixedValue());
    else if (auto* step = llvm::dyn_cast<llvm::GetElementPtrInst>(&at))
      elements(*step);
    else if (auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(&at)) {
      divides(*operation);
      overflows(*operation);
      shifts(*operation);
    }
  }

  // Only for addresses that are offsets from a variable of known size: the form of every index.
  void bounds(llvm::Instruction& at, llvm::Value* pointer, uint64_t bytes) {
    llvm::SmallVector<llvm::GEPOperator*, 4> steps;
    while (auto* step = llvm::dyn_cast<llvm::GEPOperator>(pointer)) {
      steps.push_back(step);
      pointer = step->getPointerOperand();
    }
    const auto size = knownSize(*pointer);
    if (!size || steps.empty()) return;
    llvm::IRBuilder<> builder(&at);
    llvm::Value* offset = builder.getInt64(0);
    for (llvm::GEPOperator* step : steps)
      offset = builder.CreateAdd(offset, llvm::emitGEPOffset(&builder, module_.getDataLayout(), step, true));
    const uint64_t limit = *size - std::min(bytes, *size);
    if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(offset);
        known && known->getZExtValue() <= limit)
      return;
    const llvm::StringRef name = pointer->getName().split('.').first;
    faultIf(builder.CreateICmpUGT(offset, builder.getInt64(limit)), at, emu::LocalBounds, offset, name);
  }

  // A local variable of the thread, or a constant.
  [[nodiscard]] std::optional<uint64_t> knownSize(const llvm::Value& object) const {
    const llvm::DataLayout& layout = module_.getDataLayout();
    if (const auto* constant = llvm::dyn_cast<llvm::GlobalVariable>(&object))
      return constant->isConstant()
                 ? std::optional(layout.getTypeAllocSize(constant->getValueType()).getFixedValue())
                 : std::nullopt;
    const auto* variable = llvm::dyn_cast<llvm::AllocaInst>(&object);
    const auto size = variable ? variable->getAllocationSize(layout) : std::nullopt;
    if (!size || size->isScalable()) return std::nullopt;
    return size->getFixedValue();
  }

  // An array within a variable: its end must not be passed to reach the next row. A pointer one past the end
  // is allowed.
  void elements(llvm::GetElementPtrInst& step) {
    step.setIsInBounds(false); // which must not be dereferenced
    llvm::Type* type = step.getSourceElementType();
    const bool used = llvm::all_of(step.users(), [&](const llvm::User* user) {
      const auto* call = llvm::dyn_cast<llvm::CallInst>(user); // __emu_access
      return llvm::getLoadStorePointerOperand(user) == &step ||
             (call && call->getCalledFunction() && call->getCalledFunction()->getName() == emu::kAccess);
    });
    // An outermost array's bounds are the variable's, which is checked at accesses.
    const auto* outer = llvm::dyn_cast<llvm::GEPOperator>(step.getPointerOperand());
    const bool outermost = !outer || !outer->getSourceElementType()->isAggregateType();
    for (unsigned i = 2; i < step.getNumOperands(); ++i) {
      llvm::Value* index = step.getOperand(i);
      auto* array = llvm::dyn_cast<llvm::ArrayType>(type);
      type = llvm::GetElementPtrInst::getTypeAtIndex(type, index);
      const uint64_t count = array ? array->getNumElements() : 0; // 0: of unknown length
      if (count == 0 || (outermost && i == 2)) continue;
      const uint64_t limit = used || i + 1 < step.getNumOperands() ? count - 1 : count;
      const auto* known = llvm::dyn_cast<llvm::ConstantInt>(index);
      if (known && known->getSExtValue() >= 0 && known->getZExtValue() <= limit) continue;
      llvm::IRBuilder<> builder(&step);
      llvm::Value* wide = builder.CreateSExtOrTrunc(index, i64_);
      faultIf(builder.CreateICmpUGT(wide, builder.getInt64(limit)), step, emu::ArrayBounds, wide,
              std::to_string(count));
    }
  }

  void divides(llvm::BinaryOperator& at) {
    const auto code = at.getOpcode();
    const bool isSigned = code == llvm::Instruction::SDiv || code == llvm::Instruction::SRem;
    if (!isSigned && code != llvm::Instruction::UDiv && code != llvm::Instruction::URem) return;
    llvm::Value* divisor = at.getOperand(1);
    auto* type = llvm::dyn_cast<llvm::IntegerType>(divisor->getType());
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(divisor);
    if (!type || (known && !known->isZero() && !known->isMinusOne())) return;
    llvm::IRBuilder<> builder(&at);
    llvm::Value* wrong = builder.CreateICmpEQ(divisor, llvm::ConstantInt::get(type, 0));
    if (isSigned) {
      llvm::Value* lowest = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(type->getBitWidth()));
      wrong = builder.CreateOr(
          wrong, builder.CreateAnd(builder.CreateICmpEQ(divisor, llvm::Constant::getAllOnesValue(type)),
                                   builder.CreateICmpEQ(at.getOperand(0), lowest)));
    }
    faultIf(wrong, at, emu::Division, builder.getInt64(0), "");
  }

  // math.h and emu.h replace functions of a GPU: there sums wrap.
  static bool mayWrap(const llvm::Instruction& at) {
    const llvm::DILocation* where = at.getDebugLoc().get();
    return where && (where->getFilename().ends_with("math.h") || where->getFilename().ends_with("emu.h"));
  }

  void overflows(llvm::BinaryOperator& at) {
    const auto code = at.getOpcode();
    const auto check = code == llvm::Instruction::Add   ? llvm::Intrinsic::sadd_with_overflow
                       : code == llvm::Instruction::Sub ? llvm::Intrinsic::ssub_with_overflow
                       : code == llvm::Instruction::Mul ? llvm::Intrinsic::smul_with_overflow
                                                        : llvm::Intrinsic::not_intrinsic;
    if (check == llvm::Intrinsic::not_intrinsic || !at.hasNoSignedWrap()) return;
    at.setHasNoSignedWrap(false);
    if (!at.getType()->isIntegerTy() || mayWrap(at)) return;
    llvm::IRBuilder<> builder(&at);
    llvm::Value* both = builder.CreateBinaryIntrinsic(check, at.getOperand(0), at.getOperand(1));
    faultIf(builder.CreateExtractValue(both, 1), at, emu::Overflow, builder.getInt64(0), "");
  }

  void shifts(llvm::BinaryOperator& at) {
    auto* type = llvm::dyn_cast<llvm::IntegerType>(at.getType());
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(at.getOperand(1));
    if (!at.isShift() || !type || (known && known->getValue().ult(type->getBitWidth())) || mayWrap(at))
      return;
    llvm::IRBuilder<> builder(&at);
    llvm::Value* by = at.getOperand(1);
    faultIf(builder.CreateICmpUGE(by, llvm::ConstantInt::get(type, type->getBitWidth())), at, emu::Shift,
            builder.CreateSExtOrTrunc(by, i64_), "");
  }

  void count(llvm::Instruction& latch, llvm::AllocaInst& rounds) {
    llvm::IRBuilder<> builder(&latch);
    llvm::Value* now = builder.CreateAdd(builder.CreateLoad(i64_, &rounds), builder.getInt64(1));
    builder.CreateStore(now, &rounds);
    faultIf(builder.CreateICmpUGT(now, builder.getInt64(emu::kMaxRounds)), latch, emu::EndlessLoop, now, "");
  }

  void faultIf(llvm::Value* wrong, llvm::Instruction& at, emu::Fault what, llvm::Value* number,
               llvm::StringRef variable) {
    llvm::Value* location = location_(at);
    llvm::Instruction* then =
        llvm::SplitBlockAndInsertIfThen(wrong, &at, /*Unreachable=*/false,
                                        llvm::MDBuilder(module_.getContext()).createUnlikelyBranchWeights());
    llvm::IRBuilder<> builder(then);
    builder.CreateCall(fault_, {builder.getInt32(static_cast<uint32_t>(what)), number,
                                builder.CreateGlobalString(variable, "variable", 0, &module_), location});
  }

  llvm::Module& module_;
  LocationOf location_;
  llvm::Type *i32_, *i64_;
  llvm::FunctionCallee fault_;
};

} // namespace

llvm::FunctionCallee faultFunction(llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  auto* pointer = llvm::PointerType::getUnqual(context);
  auto* type = llvm::FunctionType::get(
      llvm::Type::getVoidTy(context),
      {llvm::Type::getInt32Ty(context), llvm::Type::getInt64Ty(context), pointer, pointer}, false);
  auto fault = module.getOrInsertFunction(emu::kFault, type);
  llvm::cast<llvm::Function>(fault.getCallee())->setDoesNotThrow();
  return fault;
}

void checkLocally(llvm::Module& module, LocationOf location) {
  Analyses analyses;
  LocalChecker checker(module, location);
  for (llvm::Function& function : module) {
    if (function.isDeclaration() || function.getName().starts_with(emu::kCallPrefix)) continue;
    checker.run(function, analyses.functions.getResult<llvm::LoopAnalysis>(function),
                analyses.functions.getResult<llvm::ScalarEvolutionAnalysis>(function));
  }
}

void tellLocalBytes(llvm::Module& module) {
  uint64_t maxBytes = 0;
  for (const llvm::Function& function : module) {
    uint64_t bytes = 0;
    for (const llvm::BasicBlock& block : function)
      for (const llvm::Instruction& instruction : block)
        if (const auto* variable = llvm::dyn_cast<llvm::AllocaInst>(&instruction))
          if (const auto size = variable->getAllocationSize(module.getDataLayout()))
            bytes += size->getKnownMinValue();
    maxBytes = std::max(maxBytes, bytes);
  }
  auto* i64 = llvm::Type::getInt64Ty(module.getContext());
  new llvm::GlobalVariable(module, i64, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           llvm::ConstantInt::get(i64, maxBytes), emu::kLocalBytes);
}

} // namespace dtc::clangjit
