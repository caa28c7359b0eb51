// cuda-emu's checks: a call of __emu_access before each load, store and atomic of memory that other threads
// may access, as written in the source: before any optimization, which would merge, split and drop accesses.
// Calls of barriers and warp operations get their location.
#include "Analyses.h"
#include "Backend.h"
#include "dtc/Jit/EmuSymbols.h"
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/Path.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

namespace dtc::clangjit {
namespace {

// True if no other thread can access the address: the stack, constants, the emulator's data about the thread
// itself.
bool isPrivate(const llvm::Value* pointer) {
  const llvm::Value* object = llvm::getUnderlyingObject(pointer, 0);
  if (llvm::isa<llvm::AllocaInst>(object)) return true;
  if (const auto* global = llvm::dyn_cast<llvm::GlobalVariable>(object)) return global->isConstant();
  if (const auto* argument = llvm::dyn_cast<llvm::Argument>(object))
    return argument->hasByValAttr() || argument->hasStructRetAttr();
  const auto* call = llvm::dyn_cast<llvm::CallInst>(object);
  return call && call->getCalledFunction() && call->getCalledFunction()->getName() == emu::kSelf;
}

llvm::StringRef fileOf(const llvm::DILocation* at) { return llvm::sys::path::filename(at->getFilename()); }

// "14", or within a function of the device header: "14 (device.h:73)". Lines are counted from the unit's
// first.
std::string locationText(const llvm::DILocation* at) {
  if (!at) return "?";
  const llvm::DILocation* outer = at;
  while (outer->getInlinedAt()) outer = outer->getInlinedAt();
  const llvm::DILocation *own = outer, *header = nullptr;
  for (const llvm::DILocation* l = at; l; l = l->getInlinedAt()) {
    if (fileOf(l) == fileOf(outer)) {
      own = l;
      break;
    }
    if (!header && fileOf(l) != "emu.h") header = l;
  }
  std::string text = std::to_string(own->getLine());
  if (header) text += " (" + fileOf(header).str() + ":" + std::to_string(header->getLine()) + ")";
  return text;
}

// The text of an instruction's location, created once for each.
class Locations {
public:
  explicit Locations(llvm::Module& module) : module_(module) {}
  llvm::Value* of(llvm::Instruction& at) {
    const std::string text = locationText(at.getDebugLoc().get());
    llvm::Value*& known = known_[text];
    if (!known) known = llvm::IRBuilder<>(&at).CreateGlobalString(text, "location", 0, &module_);
    return known;
  }
  // The same text, but a distinct address: two barriers of one line are two. (The number past the text's end
  // keeps LLVM from merging them.)
  llvm::Value* ofCall(llvm::Instruction& at) {
    std::string text = locationText(at.getDebugLoc().get());
    text += '\0';
    return llvm::IRBuilder<>(&at).CreateGlobalString(text + std::to_string(++calls_), "location", 0,
                                                     &module_);
  }

private:
  llvm::Module& module_;
  llvm::StringMap<llvm::Value*> known_;
  unsigned calls_ = 0;
};

class Instrumenter {
public:
  Instrumenter(llvm::Module& module, TextAt textAt)
      : module_(module), textAt_(textAt), locations_(module),
        pointer_(llvm::PointerType::getUnqual(module.getContext())),
        i64_(llvm::Type::getInt64Ty(module.getContext())) {
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()),
                                         {pointer_, i64_, pointer_}, false);
    access_ = module.getOrInsertFunction(emu::kAccess, type);
    llvm::cast<llvm::Function>(access_.getCallee())->setDoesNotThrow();
  }

  void run() {
    llvm::SmallVector<llvm::Instruction*, 128> all;
    for (llvm::Function& function : module_) {
      if (function.getName().starts_with(emu::kCallPrefix)) continue;
      for (llvm::BasicBlock& block : function)
        for (llvm::Instruction& instruction : block) all.push_back(&instruction);
    }
    for (llvm::Instruction* instruction : all) visit(*instruction);
    new llvm::GlobalVariable(module_, i64_, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                             llvm::ConstantInt::get(i64_, granule_), emu::kGranule);
    checkLocally(module_, [this](llvm::Instruction& at) { return locations_.of(at); });
  }

private:
  void visit(llvm::Instruction& at) {
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&at))
      access(at, load->getPointerOperand(), load->getType(), load->getAlign(),
             load->isVolatile() || load->isAtomic() ? emu::VolatileRead : emu::Read);
    else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&at))
      access(at, store->getPointerOperand(), store->getValueOperand()->getType(), store->getAlign(),
             store->isVolatile() || store->isAtomic() ? emu::VolatileWrite : emu::Write);
    else if (auto* update = llvm::dyn_cast<llvm::AtomicRMWInst>(&at))
      access(at, update->getPointerOperand(), update->getValOperand()->getType(), update->getAlign(),
             emu::Update);
    else if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&at))
      access(at, exchange->getPointerOperand(), exchange->getNewValOperand()->getType(), exchange->getAlign(),
             emu::Update);
    else if (auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(&at)) {
      access(at, copy->getRawSource(), copy->getLength(), copy->getSourceAlign().valueOrOne(), emu::Read);
      access(at, copy->getRawDest(), copy->getLength(), copy->getDestAlign().valueOrOne(), emu::Write);
    } else if (auto* fill = llvm::dyn_cast<llvm::MemSetInst>(&at))
      access(at, fill->getRawDest(), fill->getLength(), fill->getDestAlign().valueOrOne(), emu::Write);
    else if (auto* call = llvm::dyn_cast<llvm::CallInst>(&at))
      setLocation(*call);
    else if (llvm::isa<llvm::BranchInst>(at))
      leaves(at);
  }

  void access(llvm::Instruction& at, llvm::Value* pointer, llvm::Type* type, llvm::Align align,
              emu::AccessKind kind) {
    const uint64_t bytes = module_.getDataLayout().getTypeStoreSize(type).getFixedValue();
    access(at, pointer, llvm::ConstantInt::get(i64_, bytes), align, kind);
  }

  void access(llvm::Instruction& at, llvm::Value* pointer, llvm::Value* bytes, llvm::Align align,
              emu::AccessKind kind) {
    if (isPrivate(pointer)) return;
    const auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(bytes);
    const uint64_t size = fixed ? fixed->getZExtValue() : 1;
    if (size) granule_ = std::min(granule_, size & (~size + 1));
    llvm::IRBuilder<> builder(&at);
    llvm::Value* what =
        builder.CreateOr(builder.CreateZExtOrTrunc(bytes, i64_), emu::accessCode(llvm::Log2(align), kind));
    builder.CreateCall(access_, {pointer, what, locations_.of(at)});
  }

  // The last argument of calls that take a location: null in the header.
  void setLocation(llvm::CallInst& call) {
    const llvm::Function* callee = call.getCalledFunction();
    if (!callee) return;
    for (const char* name : emu::kLocated)
      if (callee->getName() == name) call.setArgOperand(call.arg_size() - 1, locations_.ofCall(call));
  }

  // A thread that returns early has left the kernel; one that reaches its end without an operation of its
  // warp has missed that.
  void leaves(llvm::Instruction& branch) {
    const llvm::DILocation* where = branch.getDebugLoc().get();
    if (!where || where->getInlinedAt() || !textAt_(*where).starts_with("return")) return;
    llvm::IRBuilder<> builder(&branch);
    builder.CreateCall(module_.getOrInsertFunction(emu::kLeaves, builder.getVoidTy()));
  }

  llvm::Module& module_;
  TextAt textAt_;
  Locations locations_;
  llvm::PointerType* pointer_;
  llvm::Type* i64_;
  llvm::FunctionCallee access_;
  uint64_t granule_ = 16; // no access is smaller: the granule of shadow memory
};

} // namespace

void inlineAll(llvm::Module& module) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration() || function.getName().starts_with(emu::kCallPrefix) ||
        module.getFunction((emu::kCallPrefix + function.getName()).str()))
      continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage); // not a kernel
    function.removeFnAttr(llvm::Attribute::NoInline);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  Analyses analyses;
  llvm::ModulePassManager inlining, promotion;
  inlining.addPass(llvm::AlwaysInlinerPass());
  promotion.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::PromotePass()));
  inlining.run(module, analyses.modules);
  Locations locations(module);
  const llvm::FunctionCallee fault = faultFunction(module);
  for (llvm::Function& function : module)
    if (!function.isDeclaration() && !function.getName().starts_with(emu::kCallPrefix))
      checkScalars(function, fault, [&](llvm::Instruction& at) { return locations.of(at); });
  analyses.modules.clear();
  analyses.functions.clear();
  promotion.run(module, analyses.modules);
}

void checkAccesses(llvm::Module& module, TextAt textAt) {
  Instrumenter(module, textAt).run();
  registerOwnVariables(module);
  checkRecursion(module, [](llvm::Instruction& at) { return Locations(*at.getModule()).of(at); });
  llvm::StripDebugInfo(module);
}

} // namespace dtc::clangjit
