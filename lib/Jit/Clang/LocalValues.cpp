// cuda-emu's check for uninitialized local variables: each variable without an initializer gets a shadow with
// one byte per byte, which tells whether it has been set since. Most of it is optimized away once loops are
// unrolled.
#include "Backend.h"
#include <llvm/Analysis/Utils/Local.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>
#include <vector>

namespace dtc::clangjit {
namespace {

constexpr uint64_t kMaxAtOnce = 64; // bytes of one load or store

// True if it fills a variable that has no initializer (-ftrivial-auto-var-init): the start of the variable's
// lifetime.
bool beginsUnset(const llvm::Instruction& at) {
  const llvm::MDNode* notes = at.getMetadata(llvm::LLVMContext::MD_annotation);
  if (!notes) return false;
  for (const llvm::MDOperand& note : notes->operands())
    if (const auto* text = llvm::dyn_cast<llvm::MDString>(note.get());
        text && text->getString() == "auto-init")
      return true;
  return false;
}

// Calls __emu_fault before `at` if `unset` holds.
void faultIfUnset(llvm::Value* unset, llvm::Instruction& at, const llvm::AllocaInst& variable,
                  llvm::FunctionCallee fault, LocationOf location) {
  llvm::Module& module = *at.getModule();
  llvm::Value* where = location(at);
  llvm::Instruction* then = llvm::SplitBlockAndInsertIfThen(
      unset, &at, /*Unreachable=*/false, llvm::MDBuilder(at.getContext()).createUnlikelyBranchWeights());
  llvm::IRBuilder<> builder(then);
  llvm::Value* name = builder.CreateGlobalString(variable.getName().split('.').first, "variable", 0, &module);
  builder.CreateCall(fault, {builder.getInt32(emu::LocalUnset), builder.getInt64(0), name, where});
}

class LocalValues {
public:
  LocalValues(llvm::Function& function, llvm::FunctionCallee fault, LocationOf location)
      : function_(function), layout_(function.getParent()->getDataLayout()), fault_(fault),
        location_(location) {}

  void run() {
    llvm::SmallVector<llvm::AllocaInst*, 16> variables;
    for (llvm::BasicBlock& block : function_)
      for (llvm::Instruction& at : block)
        if (auto* variable = llvm::dyn_cast<llvm::AllocaInst>(&at)) variables.push_back(variable);
    for (llvm::AllocaInst* variable : variables) follow(*variable);
    for (const Use& use : uses_) instrument(use);
  }

private:
  struct Variable {
    llvm::AllocaInst* own = nullptr;
    llvm::AllocaInst* shadow = nullptr;
    uint64_t bytes = 0;
  };
  struct Use {
    size_t variable = 0;
    llvm::Instruction* at = nullptr;
    llvm::Value* pointer = nullptr; // into the variable
  };

  // Collects all uses, if the variable starts uninitialized, or is a copy of such a one, and all of its uses
  // are of known kinds.
  void follow(llvm::AllocaInst& variable) {
    const auto size = variable.getAllocationSize(layout_);
    if (!size || size->isScalable() || size->getFixedValue() == 0) return;
    const size_t first = uses_.size();
    bool known = true, unset = false;
    llvm::SmallVector<llvm::Value*, 16> pointers = {&variable};
    while (!pointers.empty() && known) {
      llvm::Value* pointer = pointers.pop_back_val();
      for (llvm::User* user : pointer->users()) {
        auto* at = llvm::dyn_cast<llvm::Instruction>(user);
        known &= at && (llvm::isa<llvm::GetElementPtrInst>(at) || understood(*at, pointer));
        if (!known) break;
        unset |= beginsUnset(*at) || takesVariable(*at, pointer);
        if (llvm::isa<llvm::GetElementPtrInst>(at))
          pointers.push_back(at);
        else
          uses_.push_back({variables_.size(), at, pointer});
      }
    }
    if (!known || !unset) {
      uses_.resize(first);
      return;
    }
    llvm::IRBuilder<> builder(variable.getNextNode());
    auto* type = llvm::ArrayType::get(builder.getInt8Ty(), size->getFixedValue());
    llvm::AllocaInst* shadow = builder.CreateAlloca(type, nullptr, variable.getName() + ".set");
    shadow->setAlignment(variable.getAlign());
    set(builder, shadow, size->getFixedValue(), false);
    variables_.push_back({&variable, shadow, size->getFixedValue()});
  }

  static bool takesVariable(const llvm::Instruction& at, const llvm::Value* pointer) {
    const auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(&at);
    return copy && copy->getRawDest() == pointer &&
           llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(copy->getRawSource(), 0));
  }

  static bool understood(const llvm::Instruction& at, const llvm::Value* pointer) {
    if (llvm::isa<llvm::LoadInst>(at)) return true;
    if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&at)) return store->getValueOperand() != pointer;
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&at);
    return call && (llvm::isa<llvm::MemIntrinsic>(call) || call->isLifetimeStartOrEnd());
  }

  // The same offset in the shadow.
  llvm::Value* shadowAt(llvm::IRBuilder<>& builder, const Variable& v, llvm::Value* pointer) {
    llvm::Value* offset = builder.getInt64(0);
    for (; pointer != v.own; pointer = llvm::cast<llvm::GEPOperator>(pointer)->getPointerOperand())
      offset = builder.CreateAdd(
          offset, llvm::emitGEPOffset(&builder, layout_, llvm::cast<llvm::GEPOperator>(pointer), true));
    return builder.CreateInBoundsGEP(builder.getInt8Ty(), v.shadow, offset);
  }

  void set(llvm::IRBuilder<>& builder, llvm::Value* shadow, uint64_t bytes, bool value) {
    if (bytes > kMaxAtOnce) {
      builder.CreateMemSet(shadow, builder.getInt8(value), bytes, llvm::MaybeAlign(1));
      return;
    }
    builder.CreateAlignedStore(pattern(builder, bytes, value), shadow, llvm::Align(1));
  }
  static llvm::ConstantInt* pattern(llvm::IRBuilder<>& builder, uint64_t bytes, bool value) {
    const auto bits = static_cast<unsigned>(bytes * 8);
    return builder.getInt(llvm::APInt::getSplat(bits, llvm::APInt(8, value)));
  }

  void expectSet(llvm::Instruction& at, const Variable& v, llvm::Value* pointer, uint64_t bytes) {
    llvm::IRBuilder<> builder(&at);
    if (bytes == 0 || bytes > kMaxAtOnce) return;
    llvm::ConstantInt* all = pattern(builder, bytes, true);
    llvm::Value* is =
        builder.CreateAlignedLoad(all->getType(), shadowAt(builder, v, pointer), llvm::Align(1));
    faultIfUnset(builder.CreateICmpNE(is, all), at, *v.own, fault_, location_);
  }

  void instrument(const Use& use) {
    const Variable& v = variables_[use.variable];
    llvm::IRBuilder<> builder(use.at);
    if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(use.at); call && call->isLifetimeStartOrEnd())
      return set(builder, v.shadow, v.bytes, false);
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(use.at))
      return expectSet(*load, v, use.pointer, layout_.getTypeStoreSize(load->getType()).getFixedValue());
    const bool value = !beginsUnset(*use.at);
    if (auto* store = llvm::dyn_cast<llvm::StoreInst>(use.at))
      return set(builder, shadowAt(builder, v, use.pointer),
                 layout_.getTypeStoreSize(store->getValueOperand()->getType()).getFixedValue(), value);
    auto* fill = llvm::cast<llvm::MemIntrinsic>(use.at);
    if (fill->getRawDest() != use.pointer)
      return copiedFrom(use, v, *llvm::cast<llvm::MemTransferInst>(fill));
    if (auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(fill); copy && shadowOf(copy->getRawSource()))
      return;
    builder.CreateMemSet(shadowAt(builder, v, use.pointer), builder.getInt8(value), fill->getLength(),
                         llvm::MaybeAlign(1));
  }

  // Copies between variables copy the shadow (padding is uninitialized); for all other uses all bytes must be
  // set.
  void copiedFrom(const Use& use, const Variable& v, llvm::MemTransferInst& copy) {
    llvm::IRBuilder<> builder(&copy);
    const auto* length = llvm::dyn_cast<llvm::ConstantInt>(copy.getLength());
    if (const Variable* to = shadowOf(copy.getRawDest())) {
      llvm::Value* from = shadowAt(builder, v, use.pointer);
      builder.CreateMemMove(shadowAt(builder, *to, copy.getRawDest()), llvm::MaybeAlign(1), from,
                            llvm::MaybeAlign(1), copy.getLength());
    } else if (length && !llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(copy.getRawDest(), 0))) {
      expectSet(copy, v, use.pointer, length->getZExtValue());
    }
  }
  const Variable* shadowOf(llvm::Value* pointer) {
    while (auto* step = llvm::dyn_cast<llvm::GetElementPtrInst>(pointer)) pointer = step->getPointerOperand();
    for (const Variable& v : variables_)
      if (v.own == pointer) return &v;
    return nullptr;
  }

  llvm::Function& function_;
  const llvm::DataLayout& layout_;
  llvm::FunctionCallee fault_;
  LocationOf location_;
  std::vector<Variable> variables_;
  std::vector<Use> uses_;
};

} // namespace

void checkScalars(llvm::Function& function, llvm::FunctionCallee fault, LocationOf location) {
  llvm::SmallVector<llvm::AllocaInst*, 32> variables;
  for (llvm::BasicBlock& block : function)
    for (llvm::Instruction& at : block)
      if (auto* variable = llvm::dyn_cast<llvm::AllocaInst>(&at);
          variable && llvm::isAllocaPromotable(variable) &&
          llvm::any_of(variable->users(), [](const llvm::User* user) {
            const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
            return store && beginsUnset(*store);
          }))
        variables.push_back(variable);
  for (llvm::AllocaInst* variable : variables) {
    llvm::SmallVector<llvm::User*, 16> users(variable->users());
    llvm::IRBuilder<> builder(variable->getNextNode());
    llvm::AllocaInst* set = builder.CreateAlloca(builder.getInt1Ty(), nullptr, variable->getName() + ".set");
    builder.CreateStore(builder.getInt1(false), set);
    for (llvm::User* user : users) {
      if (auto* store = llvm::dyn_cast<llvm::StoreInst>(user)) {
        builder.SetInsertPoint(store);
        builder.CreateStore(builder.getInt1(!beginsUnset(*store)), set);
      } else if (auto* load = llvm::dyn_cast<llvm::LoadInst>(user)) {
        builder.SetInsertPoint(load);
        faultIfUnset(builder.CreateNot(builder.CreateLoad(builder.getInt1Ty(), set)), *load, *variable, fault,
                     location);
      }
    }
  }
}

void checkLocalValues(llvm::Function& function, llvm::FunctionCallee fault, LocationOf location) {
  LocalValues(function, fault, location).run();
}

} // namespace dtc::clangjit
