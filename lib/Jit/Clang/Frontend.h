#pragma once
// Source text -> LLVM module, not yet optimized.
#include "dtc/Jit/ClangPlugin.h"
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/IR/Module.h>
#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
}

namespace dtc::clangjit {

struct Parsed {
  std::unique_ptr<llvm::Module> module; // null where the source has errors
  // The unit that defines an external function or variable; empty where there is one unit.
  llvm::StringMap<unsigned> unitOf;
};

// `log` gets Clang's messages, with lines counted from each unit's first one.
Parsed parse(const DtcClangRequest&, llvm::LLVMContext&, std::string& log);

// The prologue as DtcClangRequest::precompiled; empty where it has errors.
llvm::SmallVector<char, 0> precompile(const DtcClangRequest&, std::string& log);

} // namespace dtc::clangjit
