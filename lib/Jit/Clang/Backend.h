#pragma once
// LLVM module -> optimized object, IR text or assembly.
#include "Frontend.h"
#include "dtc/Jit/ClangPlugin.h"
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <string>
#include <vector>

namespace llvm {
class DILocation;
class FunctionCallee;
class Instruction;
class Module;
class Value;
} // namespace llvm

namespace dtc::clangjit {

struct Output {
  bool ok = false;
  std::vector<llvm::SmallVector<char, 0>> data; // one per unit
  std::string log;
};

// Called before anything else, parsing included: Clang looks up targets in LLVM's registry, which another
// thread may be filling.
void initializeTargets();

bool generate(const DtcClangRequest&, Parsed&, Output&);

// Rewrites thread-local variables into offsets from __emu_shared() (see DtcClangRequest::sharedAsOffsets),
// `padded` with padding between them.
void lowerSharedVariables(llvm::Module&, bool padded);

// Inlines each kernel into one function, so that its local variables (its stack) are distinguishable from
// other memory.
void inlineAll(llvm::Module&);

// Inserts calls of __emu_access before all accesses of memory that is not the thread's own
// (DtcClangRequest::checkAccesses), after inlineAll. `textAt`: the source from that line and column on.
using TextAt = llvm::function_ref<llvm::StringRef(const llvm::DILocation&)>;
void checkAccesses(llvm::Module&, TextAt textAt);

// Inserts calls of __emu_fault where a thread leaves an array of its own, divides by zero, overflows, shifts
// too far, or does not leave a loop (LocalChecks.cpp). `location`: the text of an instruction's location.
using LocationOf = llvm::function_ref<llvm::Value*(llvm::Instruction&)>;
void checkLocally(llvm::Module&, LocationOf location);
[[nodiscard]] llvm::FunctionCallee faultFunction(llvm::Module&); // __emu_fault
// The same for reads of uninitialized local variables (LocalValues.cpp). `fault`: __emu_fault.
void checkLocalValues(llvm::Function&, llvm::FunctionCallee fault, LocationOf location);
// The same for variables that will be registers, while they are still in memory.
void checkScalars(llvm::Function&, llvm::FunctionCallee fault, LocationOf location);

// Registers with the emulator the variables to which a thread points through values known only at run time
// (OwnVariables.cpp), and checks the stack space of recursive functions. Last: it prevents LLVM from
// optimizing such variables.
void registerOwnVariables(llvm::Module&);
void checkRecursion(llvm::Module&, LocationOf location);

// Defines the size of a thread's local variables after all optimization.
void tellLocalBytes(llvm::Module&);

} // namespace dtc::clangjit
