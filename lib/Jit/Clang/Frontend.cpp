#include "Frontend.h"
#include <clang/Basic/DiagnosticOptions.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>

namespace dtc::clangjit {
namespace {

constexpr const char* kFile = "/kernel.cpp"; // a name that exists only in memory

std::vector<const char*> arguments(const DtcClangRequest& request, const char* triple) {
  std::vector<const char*> args = {
      "-triple",
      triple,
      "-target-cpu",
      request.cpu,
      "-mprefer-vector-width=512", //
      "-emit-llvm-only",
      "-disable-llvm-passes", //
      "-x",
      "c++",
      "-std=c++20",
      "-fdelayed-template-parsing",
      "-nostdsysteminc",
      "-nobuiltininc", //
      "-mrelocation-model",
      "pic",
      "-pic-level",
      "2",
      "-pic-is-pie",
      "-mframe-pointer=none",
      "-ffp-contract=fast",
      "-fno-rtti",
      "-fno-threadsafe-statics",
      "-fdeprecated-macro", //
  };
  args.push_back(request.optLevel == 0 ? "-O0" : request.optLevel == 1 ? "-O1" : "-O3");
  if (request.optLevel >= 2) args.insert(args.end(), {"-vectorize-loops", "-vectorize-slp"});
  // Only line numbers are needed of debug information; uninitialized variables are filled with NaN. A signed
  // sum that overflows is undefined as for a GPU's compiler, which has no -fwrapv: LocalChecks.cpp checks it.
  if (!request.checkAccesses)
    args.push_back("-fwrapv");
  else
    args.insert(args.end(), {"-debug-info-kind=line-tables-only", "-ftrivial-auto-var-init=pattern",
                             "-fno-finite-loops", "-relaxed-aliasing"});
  args.insert(args.end(), request.flags, request.flags + request.flagCount);
  args.push_back(kFile);
  return args;
}

// Each unit in a namespace of its own, with its definitions marked by its number.
std::string joinUnits(const DtcClangRequest& request) {
  std::string source(request.prologue, request.prologueSize);
  const bool several = request.unitCount > 1;
  for (size_t i = 0; i < request.unitCount; ++i) {
    const DtcClangUnit& unit = request.units[i];
    const std::string number = std::to_string(i);
    if (several)
      source.append("\n#pragma clang attribute push(__attribute__((annotate(\"")
          .append(number)
          .append("\"))), apply_to = any(function, variable(is_global)))\nnamespace unit")
          .append(number)
          .append(" {");
    source.append("\n#line 1 \"").append(unit.name).append("\"\n");
    source.append(unit.text, unit.textSize);
    if (several) source += "\n}\n#pragma clang attribute pop\n";
  }
  return source;
}

// Removes the marks, which would keep every helper function alive.
void collectUnits(Parsed& parsed) {
  llvm::GlobalVariable* marks = parsed.module->getNamedGlobal("llvm.global.annotations");
  if (!marks) return;
  for (const llvm::Use& entry : marks->getInitializer()->operands()) {
    const auto* fields = llvm::cast<llvm::ConstantStruct>(entry.get());
    const auto* value = llvm::dyn_cast<llvm::GlobalValue>(fields->getOperand(0)->stripPointerCasts());
    const auto* text = llvm::cast<llvm::GlobalVariable>(fields->getOperand(1)->stripPointerCasts());
    const auto* number = llvm::cast<llvm::ConstantDataArray>(text->getInitializer());
    unsigned unit = 0;
    if (value && !value->isDeclaration() && value->hasExternalLinkage() &&
        !number->getAsCString().getAsInteger(10, unit))
      parsed.unitOf[value->getName()] = unit;
  }
  marks->eraseFromParent();
}

} // namespace

Parsed parse(const DtcClangRequest& request, llvm::LLVMContext& context, std::string& log) {
  const std::string source = joinUnits(request);
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->addFile(kFile, 0, llvm::MemoryBuffer::getMemBuffer(source, kFile));

  llvm::raw_string_ostream stream(log);
  auto options = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
  options->ShowPresumedLoc = true; // by the #line above
  if (request.checkAccesses)
    options->Warnings = {"no-everything", "uninitialized", "error"};
  else
    options->IgnoreWarnings = true; // warnings would be for people who can edit the text
  clang::TextDiagnosticPrinter printer(stream, options.get());
  auto diagnostics =
      clang::CompilerInstance::createDiagnostics(options.get(), &printer, /*ShouldOwnClient=*/false);

  const std::string triple = llvm::sys::getProcessTriple();
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, arguments(request, triple.c_str()),
                                                 *diagnostics))
    return {};
  clang::CompilerInstance compiler;
  compiler.setInvocation(std::move(invocation));
  compiler.setDiagnostics(diagnostics.get());
  compiler.createFileManager(files);
  compiler.setVerboseOutputStream(llvm::nulls());
  clang::EmitLLVMOnlyAction action(&context);
  Parsed parsed;
  if (compiler.ExecuteAction(action)) parsed.module = action.takeModule();
  if (parsed.module && request.unitCount > 1) collectUnits(parsed);
  return parsed;
}

} // namespace dtc::clangjit
