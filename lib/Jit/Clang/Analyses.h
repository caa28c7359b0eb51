#pragma once
// The analyses needed to run LLVM passes.
#include <llvm/Passes/PassBuilder.h>

namespace dtc::clangjit {

struct Analyses {
  explicit Analyses(llvm::PassBuilder builder = llvm::PassBuilder()) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
  }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
};

} // namespace dtc::clangjit
