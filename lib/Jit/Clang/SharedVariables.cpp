// CUDA's __shared__ under the emulator. emu.h declares such variables thread_local, which accepts both the
// static form and `extern __shared__ T name[]`; here they become addresses in the running block's shared
// memory, since loaded code has no thread-local storage, and since a block's shared memory must not be its OS
// thread's.
#include "Backend.h"
#include "dtc/Jit/EmuSymbols.h"
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ReplaceConstant.h>

namespace dtc::clangjit {
namespace {

constexpr uint64_t kAlign = 16;   // of dynamic shared memory, which follows the static part
constexpr uint64_t kPadding = 64; // padding between variables, so that an overrun is detected

// The block's shared memory: one call at the head of each function that uses some.
llvm::Value* sharedBase(llvm::Function& function, llvm::FunctionCallee getter,
                        llvm::DenseMap<llvm::Function*, llvm::Value*>& bases) {
  llvm::Value*& base = bases[&function];
  if (!base) {
    llvm::IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
    base = builder.CreateCall(getter);
  }
  return base;
}

// An instruction's operand, or for a phi the end of the incoming block.
void replaceUses(llvm::GlobalVariable& variable, uint64_t offset, llvm::FunctionCallee getter,
                 llvm::DenseMap<llvm::Function*, llvm::Value*>& bases) {
  llvm::convertUsersOfConstantsToInstructions({&variable});
  llvm::SmallVector<llvm::Use*, 16> uses;
  for (llvm::Use& use : variable.uses()) uses.push_back(&use);
  for (llvm::Use* use : uses) {
    auto* user = llvm::dyn_cast<llvm::Instruction>(use->getUser());
    if (!user) continue;
    llvm::Value* base = sharedBase(*user->getFunction(), getter, bases);
    if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(user);
        call && call->getIntrinsicID() == llvm::Intrinsic::threadlocal_address) {
      llvm::IRBuilder<> builder(call);
      call->replaceAllUsesWith(builder.CreateConstGEP1_64(builder.getInt8Ty(), base, offset));
      call->eraseFromParent();
      continue;
    }
    llvm::Instruction* before = user;
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(user))
      before = phi->getIncomingBlock(*use)->getTerminator();
    llvm::IRBuilder<> builder(before);
    use->set(builder.CreateConstGEP1_64(builder.getInt8Ty(), base, offset));
  }
}

// The variable's own name: "row" of "void k<float>()::row".
std::string plainName(const llvm::GlobalVariable& variable) {
  const std::string name = llvm::demangle(variable.getName());
  const size_t at = name.rfind("::");
  return at == std::string::npos ? name : name.substr(at + 2);
}

// `extern __shared__ T name[]` is accessed through a function that would first run its initializer, if there
// were one.
void dropInitialisers(llvm::Module& module) {
  for (llvm::Function& function : llvm::make_early_inc_range(module))
    if (function.isDeclaration() && function.getName().starts_with("_ZTH")) {
      function.replaceAllUsesWith(llvm::ConstantPointerNull::get(function.getType()));
      function.eraseFromParent();
    }
}

void define(llvm::Module& module, const char* name, llvm::Constant* value) {
  new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           value, name);
}

} // namespace

void lowerSharedVariables(llvm::Module& module, bool padded) {
  dropInitialisers(module);
  llvm::LLVMContext& context = module.getContext();
  auto* pointer = llvm::PointerType::getUnqual(context);
  auto getter = module.getOrInsertFunction(emu::kShared, llvm::FunctionType::get(pointer, false));
  if (auto* function = llvm::dyn_cast<llvm::Function>(getter.getCallee())) {
    function->setDoesNotAccessMemory(); // constant within one thread of a block
    function->setDoesNotThrow();
    function->setWillReturn();
  }
  llvm::SmallVector<llvm::GlobalVariable*, 8> fixed, dynamic;
  for (llvm::GlobalVariable& variable : module.globals())
    if (variable.isThreadLocal()) (variable.isDeclaration() ? dynamic : fixed).push_back(&variable);
  uint64_t size = 0, span = 0; // without and with padding between variables
  std::string map;
  llvm::DenseMap<llvm::Function*, llvm::Value*> bases;
  const llvm::DataLayout& layout = module.getDataLayout();
  for (llvm::GlobalVariable* variable : fixed) {
    const llvm::Align align = variable->getAlign().value_or(layout.getPreferredAlign(variable));
    const uint64_t bytes = layout.getTypeAllocSize(variable->getValueType());
    span = llvm::alignTo(span, align);
    replaceUses(*variable, span, getter, bases);
    map += plainName(*variable) + " " + std::to_string(span) + " " + std::to_string(bytes) + "\n";
    size = llvm::alignTo(size, align) + bytes;
    span += bytes + (padded ? kPadding : 0);
  }
  size = llvm::alignTo(size, kAlign), span = llvm::alignTo(span, kAlign);
  for (llvm::GlobalVariable* variable : dynamic) {
    replaceUses(*variable, span, getter, bases);
    map += plainName(*variable) + " " + std::to_string(span) + " 0\n";
  }
  for (auto* list : {&fixed, &dynamic})
    for (llvm::GlobalVariable* variable : *list) {
      variable->removeDeadConstantUsers();
      variable->eraseFromParent();
    }
  auto* i64 = llvm::Type::getInt64Ty(context);
  define(module, emu::kSharedBytes, llvm::ConstantInt::get(i64, size));
  define(module, emu::kSharedSpan, llvm::ConstantInt::get(i64, span));
  define(module, emu::kSharedMap, llvm::ConstantDataArray::getString(context, map));
}

} // namespace dtc::clangjit
