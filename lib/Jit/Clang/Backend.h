#pragma once
// LLVM module -> optimised object, IR text or assembly.
#include "../ClangPlugin.h"
#include "Frontend.h"
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

// Before anything else, parsing included: Clang looks targets up in LLVM's registry, which another thread may be filling.
void initializeTargets();

bool generate(const DtcClangRequest&, Parsed&, Output&);

// Rewrites thread-local variables into offsets from __emu_shared() (see DtcClangRequest::sharedAsOffsets), `apart` with room
// between them.
void lowerSharedVariables(llvm::Module&, bool apart);

// Makes each kernel one function, so that what is a thread's own (its stack) is known from what is not.
void inlineAll(llvm::Module&);

// Calls of __emu_access before all accesses of memory that is not the thread's own (DtcClangRequest::checkAccesses), behind
// inlineAll.
// `textAt`: the source from that line and column on.
using TextAt = llvm::function_ref<llvm::StringRef(const llvm::DILocation&)>;
void checkAccesses(llvm::Module&, TextAt textAt);

// Calls of __emu_fault where a thread leaves an array of its own, divides by zero, overflows, shifts too far, or stays in a loop
// (LocalChecks.cpp).
// `place`: the text of where an instruction stands.
using PlaceOf = llvm::function_ref<llvm::Value*(llvm::Instruction&)>;
void checkLocally(llvm::Module&, PlaceOf place);
[[nodiscard]] llvm::FunctionCallee faultFunction(llvm::Module&); // __emu_fault
// And where one reads what it has not set in a variable of its own (LocalValues.cpp). `fault`: __emu_fault.
void checkLocalValues(llvm::Function&, llvm::FunctionCallee fault, PlaceOf place);
// The same of variables that will be registers, while they still have a place in memory.
void checkScalars(llvm::Function&, llvm::FunctionCallee fault, PlaceOf place);

// Tells the emulator of the variables that a thread points at by what is known only when it runs (OwnVariables.cpp), and asks it
// whether there is room where a function is called anew by itself. Last: they keep LLVM from seeing through such variables.
void registerOwnVariables(llvm::Module&);
void checkRecursion(llvm::Module&, PlaceOf place);

// Defines what the variables of a thread take once all is optimised.
void tellLocalBytes(llvm::Module&);

} // namespace dtc::clangjit
