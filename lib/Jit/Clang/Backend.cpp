#include "Backend.h"
#include "Analyses.h"
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <mutex>

namespace dtc::clangjit {
namespace {

std::unique_ptr<llvm::TargetMachine> createTarget(const DtcClangRequest& request, const llvm::Module& module,
                                                  std::string& log) {
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(module.getTargetTriple(), log);
  if (!target) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      module.getTargetTriple(), request.cpu, "", options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      request.optLevel == 0 ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default));
}

void optimize(const DtcClangRequest& request, llvm::Module& module, llvm::TargetMachine& target) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopInterleaving = request.optLevel >= 2;
  llvm::PassBuilder builder(&target, tuning);
  Analyses analyses(builder);
  const auto level = request.optLevel == 0   ? llvm::OptimizationLevel::O0
                     : request.optLevel == 1 ? llvm::OptimizationLevel::O1
                                             : llvm::OptimizationLevel::O3;
  auto passes = request.optLevel == 0 ? builder.buildO0DefaultPipeline(level)
                                      : builder.buildPerModuleDefaultPipeline(level);
  passes.run(module, analyses.modules);
}

// The text at a source location of one of the units.
llvm::StringRef textAt(const DtcClangRequest& request, const llvm::DILocation& location) {
  for (size_t i = 0; i < request.unitCount; ++i) {
    if (location.getFilename() != request.units[i].name) continue;
    llvm::StringRef text(request.units[i].text, request.units[i].textSize);
    for (unsigned line = 1; line < location.getLine() && !text.empty(); ++line)
      text = text.split('\n').second;
    return text.split('\n').first.drop_front(
        std::min<size_t>(location.getColumn() - 1, text.split('\n').first.size()));
  }
  return {};
}

// The transformations between a parsed module and code generation.
void prepare(const DtcClangRequest& request, llvm::Module& module, llvm::TargetMachine& target) {
  if (request.sharedAsOffsets) lowerSharedVariables(module, request.checkAccesses);
  if (request.checkAccesses)
    checkAccesses(module, [&](const llvm::DILocation& location) { return textAt(request, location); });
  optimize(request, module, target);
  if (request.checkAccesses) tellLocalBytes(module);
}

bool emit(const DtcClangRequest& request, llvm::TargetMachine& target, llvm::Module& module, Output& output) {
  llvm::raw_svector_ostream stream(output.data.emplace_back());
  if (request.output == DtcClangLlvm) {
    module.print(stream, nullptr);
    return true;
  }
  llvm::legacy::PassManager passes;
  const auto type =
      request.output == DtcClangAsm ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (target.addPassesToEmitFile(passes, stream, nullptr, type)) {
    output.log += "LLVM has no code generator for " + module.getTargetTriple();
    return false;
  }
  passes.run(module);
  return true;
}

// The definitions of unit number `unit`, with all internal ones that it may use; unused ones are dropped.
std::unique_ptr<llvm::Module> extractUnit(const Parsed& parsed, unsigned unit) {
  llvm::ValueToValueMapTy map;
  auto part = llvm::CloneModule(*parsed.module, map, [&](const llvm::GlobalValue* value) {
    const auto owner = parsed.unitOf.find(value->getName());
    return owner == parsed.unitOf.end() || owner->second == unit;
  });
  llvm::ModuleAnalysisManager modules;
  llvm::FunctionAnalysisManager functions;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerFunctionAnalyses(functions);
  modules.registerPass([&] { return llvm::FunctionAnalysisManagerModuleProxy(functions); });
  llvm::GlobalDCEPass().run(*part, modules);
  return part;
}

} // namespace

void initializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
}

bool generate(const DtcClangRequest& request, Parsed& parsed, Output& output) {
  llvm::Module& module = *parsed.module;
  auto target = createTarget(request, module, output.log);
  if (!target) return false;
  module.setDataLayout(target->createDataLayout());
  if (request.checkAccesses) inlineAll(module);
  // A unit's shared memory and the size of its smallest access are its own: these passes run on it alone.
  const bool separate = request.sharedAsOffsets && request.unitCount > 1;
  if (!separate) prepare(request, module, *target);
  if (request.unitCount == 1) return emit(request, *target, module, output);
  for (unsigned unit = 0; unit < request.unitCount; ++unit) {
    auto part = extractUnit(parsed, unit);
    if (separate) prepare(request, *part, *target);
    if (!emit(request, *target, *part, output)) return false;
  }
  return true;
}

} // namespace dtc::clangjit
