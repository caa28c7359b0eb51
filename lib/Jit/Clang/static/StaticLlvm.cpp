// For the plugin with LLVM's static archives in it. Debian builds LLVM with Polly, an optimizer of loop nests, to which
// the archives refer by this function. The plugin does not run Polly, so that it is not linked.
#include <llvm/Passes/PassPlugin.h>

llvm::PassPluginLibraryInfo getPollyPluginInfo(); // declared in no header

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder&) {}};
}
