#include "Frontend.h"
#include <clang/Basic/DiagnosticOptions.h>
#include <clang/CodeGen/ModuleBuilder.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Serialization/ASTWriter.h>
#include <clang/Serialization/PCHContainerOperations.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>

namespace dtc::clangjit {
namespace {

// Names that exist only in memory.
constexpr const char* kFile = "/kernel.cpp";
constexpr const char* kPrologue = "/prologue.h";
constexpr const char* kPrecompiled = "/prologue.pch";

std::vector<const char*> arguments(const DtcClangRequest& request, const char* triple) {
  std::vector<const char*> args = {
      "-triple",
      triple,
      "-target-cpu",
      request.cpu,
      "-mprefer-vector-width=512", //
      "-std=c++20",
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
  // Templates are parsed where they are used. A precompiled prologue has them parsed, since all of their tokens would
  // be read with it; and instantiated where its functions use them, which each translation unit would do.
  if (request.output == DtcClangPrologue)
    args.insert(args.end(), {"-x", "c++-header", "-emit-pch", "-fno-pch-timestamp",
                             "-fpch-instantiate-templates", kPrologue});
  else
    args.insert(args.end(), {"-x", "c++", "-fdelayed-template-parsing", kFile});
  return args;
}

// Each unit in a namespace of its own, with its definitions marked by its number; after the prologue, if it is not
// precompiled.
std::string joinUnits(const DtcClangRequest& request) {
  std::string source;
  if (!request.precompiled) source.assign(request.prologue, request.prologueSize);
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

// The module of a source, as Clang's own action EmitLLVMOnly makes it, without the backend that this sets up.
class MakeModule : public clang::ASTFrontendAction {
public:
  explicit MakeModule(llvm::LLVMContext& context) : context_(context) {}
  std::unique_ptr<llvm::Module> module;

private:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef file) override {
    std::unique_ptr<clang::CodeGenerator> generator(clang::CreateLLVMCodeGen(
        compiler.getDiagnostics(), file, &compiler.getVirtualFileSystem(), compiler.getHeaderSearchOpts(),
        compiler.getPreprocessorOpts(), compiler.getCodeGenOpts(), context_));
    generator_ = generator.get();
    return generator;
  }
  void EndSourceFileAction() override { module.reset(generator_->ReleaseModule()); } // null after an error

  llvm::LLVMContext& context_;
  clang::CodeGenerator* generator_ = nullptr;
};

// Clang's GeneratePCHAction, into memory.
class MakePrologue : public clang::ASTFrontendAction {
public:
  std::shared_ptr<clang::PCHBuffer> made = std::make_shared<clang::PCHBuffer>();

private:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef) override {
    return std::make_unique<clang::PCHGenerator>(
        compiler.getPreprocessor(), compiler.getModuleCache(), /*OutputFile=*/"", /*isysroot=*/"", made,
        llvm::ArrayRef<std::shared_ptr<clang::ModuleFileExtension>>(), /*AllowASTWithErrors=*/false,
        /*IncludeTimestamps=*/false);
  }
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }
  bool hasASTFileSupport() const override { return false; }
};

void addFile(llvm::vfs::InMemoryFileSystem& files, const char* name, llvm::StringRef text) {
  files.addFile(name, 0, llvm::MemoryBuffer::getMemBuffer(text, name, /*RequiresNullTerminator=*/false));
}

// Calls `act` with a compiler for the request, whose source is `source`.
void withCompiler(const DtcClangRequest& request, const std::string& source, std::string& log,
                  llvm::function_ref<void(clang::CompilerInstance&)> act) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  addFile(*files, kFile, source);
  addFile(*files, kPrologue, {request.prologue, request.prologueSize});

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
    return;
  if (request.precompiled) {
    addFile(*files, kPrecompiled, {request.precompiled, request.precompiledSize});
    auto& preprocessor = invocation->getPreprocessorOpts();
    preprocessor.ImplicitPCHInclude = kPrecompiled;
    preprocessor.DisablePCHOrModuleValidation =
        clang::DisableValidationForModuleKind::All; // the caller compares
  }
  clang::CompilerInstance compiler;
  compiler.setInvocation(std::move(invocation));
  compiler.setDiagnostics(diagnostics.get());
  compiler.createFileManager(files);
  compiler.setVerboseOutputStream(llvm::nulls());
  act(compiler);
}

} // namespace

Parsed parse(const DtcClangRequest& request, llvm::LLVMContext& context, std::string& log) {
  Parsed parsed;
  withCompiler(request, joinUnits(request), log, [&](clang::CompilerInstance& compiler) {
    MakeModule action(context);
    if (compiler.ExecuteAction(action)) parsed.module = std::move(action.module);
  });
  if (parsed.module && request.unitCount > 1) collectUnits(parsed);
  return parsed;
}

llvm::SmallVector<char, 0> precompile(const DtcClangRequest& request, std::string& log) {
  llvm::SmallVector<char, 0> bytes;
  withCompiler(request, "", log, [&](clang::CompilerInstance& compiler) {
    MakePrologue action;
    if (compiler.ExecuteAction(action) && action.made->IsComplete) bytes = std::move(action.made->Data);
  });
  return bytes;
}

} // namespace dtc::clangjit
