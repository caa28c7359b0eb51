// cuda-emu's checks of a thread's local variables where the variable of an address is known only at run time,
// and of the stack space for recursive functions.
#include "Backend.h"
#include "dtc/Jit/EmuSymbols.h"
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <string>
#include <vector>

namespace dtc::clangjit {
namespace {

constexpr uint64_t kRoom = 64; // padding before and after such a variable

bool isKernelsOwn(const llvm::Function& function) {
  return !function.isDeclaration() && !function.getName().starts_with(emu::kCallPrefix);
}

bool toldToEmulator(const llvm::User& user) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&user);
  return call && call->getCalledFunction() && call->getCalledFunction()->getName().starts_with("__emu_");
}

// True if an address in it is selected among several, or stored.
bool isPointedAt(llvm::AllocaInst& variable) {
  llvm::SmallVector<llvm::Value*, 16> pointers = {&variable};
  while (!pointers.empty()) {
    llvm::Value* pointer = pointers.pop_back_val();
    for (llvm::User* user : pointer->users()) {
      if (llvm::isa<llvm::GetElementPtrInst>(user)) {
        pointers.push_back(user);
        continue;
      }
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
      const bool known =
          llvm::isa<llvm::LoadInst, llvm::IntrinsicInst, llvm::ICmpInst>(user) ||
          (store && store->getValueOperand() != pointer) || toldToEmulator(*user) ||
          (llvm::isa<llvm::PtrToIntInst>(user) &&
           llvm::all_of(user->users(), [](const llvm::User* of) { return toldToEmulator(*of); }));
      if (!known) return true;
    }
  }
  return false;
}

// The variable, with padding around it.
llvm::Value* widen(llvm::AllocaInst& variable, uint64_t bytes) {
  llvm::IRBuilder<> builder(&variable);
  const uint64_t before = std::max(kRoom, variable.getAlign().value());
  llvm::AllocaInst* wide =
      builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), before + bytes + kRoom), nullptr);
  wide->setAlignment(variable.getAlign());
  wide->takeName(&variable);
  for (llvm::User* user : llvm::make_early_inc_range(variable.users()))
    if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(user); call && call->isLifetimeStartOrEnd())
      call->eraseFromParent();
  llvm::Value* inner = builder.CreateConstGEP1_64(builder.getInt8Ty(), wide, before);
  variable.replaceAllUsesWith(inner);
  variable.eraseFromParent();
  return inner;
}

// After all variables of the function, and the code added by widen().
llvm::Instruction* firstAfterAllocas(llvm::Function& function) {
  llvm::Instruction* last = nullptr;
  for (llvm::Instruction& at : function.getEntryBlock())
    if (llvm::isa<llvm::AllocaInst>(at) ||
        (last && llvm::isa<llvm::GetElementPtrInst>(at) && llvm::isa<llvm::AllocaInst>(at.getOperand(0)) &&
         last->getNextNode() == &at))
      last = &at;
  return last ? last->getNextNode() : &*function.getEntryBlock().getFirstInsertionPt();
}

void tell(llvm::Function& function, llvm::ArrayRef<llvm::AllocaInst*> variables) {
  llvm::Module& module = *function.getParent();
  struct Entry {
    llvm::Value* at = nullptr;
    uint64_t bytes = 0;
    std::string name;
  };
  std::vector<Entry> entries;
  for (llvm::AllocaInst* variable : variables) {
    Entry& entry = entries.emplace_back();
    entry.bytes = variable->getAllocationSize(module.getDataLayout())->getFixedValue();
    entry.name = variable->getName().split('.').first;
    entry.at = widen(*variable, entry.bytes);
  }
  llvm::IRBuilder<> builder(firstAfterAllocas(function));
  auto* pointer = builder.getPtrTy();
  auto* entry = llvm::StructType::get(pointer, builder.getInt64Ty(), pointer); // OwnVariable
  auto* type = llvm::ArrayType::get(entry, entries.size());
  llvm::AllocaInst* table = builder.CreateAlloca(type);
  for (unsigned i = 0; i < entries.size(); ++i) {
    llvm::Value* fields[] = {entries[i].at, builder.getInt64(entries[i].bytes),
                             builder.CreateGlobalString(entries[i].name, "variable", 0, &module)};
    llvm::Value* row = builder.CreateConstInBoundsGEP2_32(type, table, 0, i);
    for (unsigned field = 0; field < 3; ++field)
      builder.CreateStore(fields[field], builder.CreateConstInBoundsGEP2_32(entry, row, 0, field));
  }
  auto* kind = llvm::FunctionType::get(builder.getVoidTy(), {pointer, builder.getInt64Ty()}, false);
  builder.CreateCall(module.getOrInsertFunction(emu::kOwn, kind), {table, builder.getInt64(entries.size())});
}

} // namespace

void registerOwnVariables(llvm::Module& module) {
  // The variables of other functions, and arguments passed by value, would have to be registered, too.
  for (llvm::Function& function : module)
    if (isKernelsOwn(function) &&
        (!function.hasExternalLinkage() ||
         llvm::any_of(function.args(), [](const llvm::Argument& a) { return a.hasByValAttr(); })))
      return;
  for (llvm::Function& function : module) {
    if (!isKernelsOwn(function)) continue;
    llvm::SmallVector<llvm::AllocaInst*, 16> variables;
    bool known = true;
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& at : block)
        if (auto* variable = llvm::dyn_cast<llvm::AllocaInst>(&at)) {
          const auto size = variable->getAllocationSize(module.getDataLayout());
          known &= variable->isStaticAlloca() && size && !size->isScalable();
          if (known && isPointedAt(*variable)) variables.push_back(variable);
        }
    if (known && !variables.empty()) tell(function, variables);
  }
}

void checkRecursion(llvm::Module& module, LocationOf location) {
  for (llvm::Function& function : module) {
    if (!isKernelsOwn(function) || function.hasExternalLinkage()) continue;
    llvm::Instruction* first = nullptr;
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& at : block)
        if (!first && at.getDebugLoc()) first = &at;
    llvm::IRBuilder<> builder(firstAfterAllocas(function));
    llvm::Value* frame =
        builder.CreateIntrinsic(llvm::Intrinsic::frameaddress, {builder.getPtrTy()}, {builder.getInt32(0)});
    auto* kind =
        llvm::FunctionType::get(builder.getVoidTy(), {builder.getPtrTy(), builder.getPtrTy()}, false);
    llvm::Value* where = location(first ? *first : *builder.GetInsertPoint());
    builder.CreateCall(module.getOrInsertFunction(emu::kEnter, kind), {frame, where});
  }
}

} // namespace dtc::clangjit
