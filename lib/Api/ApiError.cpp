#include "dtc/Api/ApiError.h"

#include "dtc/Session/ProgramText.h"
#include "dtc/Support/Bug.h"
#include "dtc/Support/OutOfMemory.h"

#include <new>
#include <stdexcept>
#include <system_error>

namespace dtc {

const char* kindName(Error::Kind kind) {
  constexpr const char* names[] = {"input", "usage", "machine", "bug"};
  return names[kind];
}

ApiError apiError(const Error& error, const Diagnostics& diags, const SourceText& source) {
  ApiError out{error.kind, renderDiagnostics(diags, source, false), recordsOf(diags, source)};
  if (error.message.empty()) return out;
  if (auto located = locatedDiagnostic(error, source)) {
    Diagnostics one;
    one.error(*located->kind, located->range, located->args[0]);
    out.text += renderDiagnostics(one, source, false);
    for (DiagnosticRecord& r : recordsOf(one, source)) out.records.push_back(std::move(r));
    return out;
  }
  out.text += "error: " + error.message + (error.message.ends_with('\n') ? "" : "\n");
  out.records.push_back({.kind = kindName(error.kind), .message = error.message});
  return out;
}

ApiError apiError(const Error& error) { return apiError(error, {}, {}); }

Error errorOfException() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return machineError(kOutOfMemory);
  } catch (const std::length_error&) { // a size larger than any allocation
    return machineError(kOutOfMemory);
  } catch (const std::system_error& e) {
    return {isMachineErrno(e.code().value()) ? Error::Machine : Error::Bug,
            std::string("system error: ") + e.what()};
  } catch (const std::exception& e) { // InternalError, and what no code of dtc throws
    return {Error::Bug, e.what()};
  } catch (...) {
    return {Error::Bug, "unknown exception"};
  }
}

} // namespace dtc
