// The plugin dtc-jit-clang: Clang and LLVM behind the table of ClangPlugin.h.
#include "Backend.h"
#include "Frontend.h"
#include "dtc/Jit/ClangPlugin.h"
#include <clang/Basic/Version.h>
#include <cstdlib>
#include <cstring>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/ErrorHandling.h>
#include <memory>
#include <mutex>
#include <new>
#include <string>

namespace {

// From the first request; LLVM has one handler of each kind per process.
void (*outOfMemory)(void) = nullptr;
void (*failed)(const char*) = nullptr;

// Where operator new fails within Clang the process ends: an exception would run destructors of objects that
// Clang was modifying.
thread_local bool inClang = false;
std::new_handler elsewhere = nullptr;
void onNewFailed() { inClang || !elsewhere ? outOfMemory() : elsewhere(); }

void installHandlers(const DtcClangRequest& request) {
  static std::once_flag once;
  std::call_once(once, [&] {
    outOfMemory = request.outOfMemory;
    failed = request.failed;
    elsewhere = std::set_new_handler(&onNewFailed);
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { outOfMemory(); });
    llvm::install_fatal_error_handler([](void*, const char* reason, bool) {
      const llvm::StringRef text(reason);
      if (text.contains_insensitive("memory")) outOfMemory();
      failed(reason);
    });
  });
}

char* copyOut(llvm::StringRef bytes, size_t& size) {
  size = bytes.size();
  char* copy = static_cast<char*>(std::malloc(size + 1));
  if (!copy) outOfMemory();
  std::memcpy(copy, bytes.data(), size);
  copy[size] = 0;
  return copy;
}

template <class T> T* array(size_t count) {
  T* out = static_cast<T*>(std::calloc(count ? count : 1, sizeof(T)));
  if (!out) outOfMemory();
  return out;
}

// Passes report what they could not do, such as unroll a loop. Without a handler, the context prints it to
// standard error. Errors are still printed.
struct IgnoreWarnings : llvm::DiagnosticHandler {
  bool handleDiagnostics(const llvm::DiagnosticInfo& d) override {
    return d.getSeverity() != llvm::DS_Error; // true: handled
  }
};

void compileUnits(const DtcClangRequest* request, DtcClangReply* reply) {
  dtc::clangjit::initializeTargets();
  dtc::clangjit::Output output;
  if (request->output == DtcClangPrologue) {
    output.data.push_back(dtc::clangjit::precompile(*request, output.log));
    output.ok = !output.data.front().empty();
  } else {
    llvm::LLVMContext context;
    context.setDiagnosticHandler(std::make_unique<IgnoreWarnings>());
    auto parsed = dtc::clangjit::parse(*request, context, output.log);
    if (parsed.module) output.ok = dtc::clangjit::generate(*request, parsed, output);
  }
  reply->ok = output.ok;
  reply->dataCount = output.data.size();
  reply->data = array<char*>(output.data.size());
  reply->dataSizes = array<size_t>(output.data.size());
  for (size_t i = 0; i < output.data.size(); ++i)
    reply->data[i] = copyOut({output.data[i].data(), output.data[i].size()}, reply->dataSizes[i]);
  reply->log = copyOut(output.log, reply->logSize);
}

void compile(const DtcClangRequest* request, DtcClangReply* reply) {
  installHandlers(*request);
  inClang = true;
  compileUnits(request, reply);
  inClang = false;
}

void release(DtcClangReply* reply) {
  for (size_t i = 0; i < reply->dataCount; ++i) std::free(reply->data[i]);
  std::free(static_cast<void*>(reply->data));
  std::free(reply->dataSizes);
  std::free(reply->log);
  *reply = {};
}

} // namespace

extern "C" __attribute__((visibility("default"))) const DtcClangTable* dtcClangTable() {
  static const std::string build = clang::getClangFullVersion();
  static const DtcClangTable table{kDtcClangAbi, LLVM_VERSION_STRING, build.c_str(), compile, release};
  return &table;
}
