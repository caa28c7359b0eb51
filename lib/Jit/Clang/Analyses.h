#pragma once
// The analyses that LLVM's passes ask for, ready to run some.
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
