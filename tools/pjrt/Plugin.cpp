// The table of functions, which the loader of a PJRT plugin asks for.
#include "Interrupts.h"
#include "Objects.h"
#include "dtc/Support/Bug.h"
#include "dtc/Support/HostCall.h"

#include <array>

namespace dtc {

namespace {

constexpr const char* kNames[] = {
#define PJRT_FUNCTION_NAME(name) "PJRT_" #name,
    PJRT_FUNCTIONS(PJRT_FUNCTION_NAME)
#undef PJRT_FUNCTION_NAME
};

template <size_t function> PJRT_Error* unimplemented(void*) {
  return pjrtError(PJRT_Error_Code_UNIMPLEMENTED, std::string("dtc does not implement ") + kNames[function]);
}

template <size_t... functions> void setUnimplemented(PJRT_Api& api, std::index_sequence<functions...>) {
  (set(api, static_cast<PJRT_Function>(functions), unimplemented<functions>), ...);
}

PJRT_Error* argumentShardings(PJRT_Shardings_Args* a) {
  const CompiledPjrt& c = *a->executable->compiled;
  a->num_values = c.argumentShardings.size();
  a->shardings = c.argumentShardings.data();
  a->sharding_sizes = c.argumentShardingSizes.data();
  return nullptr;
}

PJRT_Error* resultShardings(PJRT_Shardings_Args* a) {
  const CompiledPjrt& c = *a->executable->compiled;
  a->num_values = c.resultShardings.size();
  a->shardings = c.resultShardings.data();
  a->sharding_sizes = c.resultShardingSizes.data();
  return nullptr;
}

// The functions of Python that programs call.
std::atomic<dtc_host_functions> hostFunctions = nullptr;

HostCallOutcome callPython(std::string_view target, std::span<const Tensor* const> operands,
                           std::span<Tensor* const> results, std::string& error) {
  const dtc_host_functions call = hostFunctions;
  if (!call) return HostCallOutcome::Unknown;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Tensor* t : operands) in.push_back(t->bytes().data());
  for (Tensor* t : results) out.push_back(t->bytes().data());
  std::array<char, 4096> text{};
  const int outcome = call(std::string(target).c_str(), in.data(), out.data(), text.data(), text.size());
  if (outcome == 0) return HostCallOutcome::Done;
  text.back() = 0;
  error = text.data();
  if (outcome == 3) raiseOfCallback();
  return outcome != 2 ? HostCallOutcome::Failed : HostCallOutcome::Unknown;
}

PJRT_Api makeTable() {
  static PJRT_Shardings_Extension shardings{
      {sizeof(PJRT_Shardings_Extension), PJRT_Extension_Type_Shardings, layoutsExtension()},
      argumentShardings,
      resultShardings};
  PJRT_Api api{};
  api.struct_size = sizeof api;
  api.extension_start = &shardings.base;
  api.pjrt_api_version = {sizeof(PJRT_Api_Version), nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
  setUnimplemented(api, std::make_index_sequence<PJRT_Function_count>());
  addClientFunctions(api);
  addBufferFunctions(api);
  addExecutableFunctions(api);
  throwAtBugs(); // the process is not ours to end
  return api;
}

} // namespace

} // namespace dtc

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api table = dtc::makeTable();
  return &table;
}

// For python/dtc/jax_plugin.py.
extern "C" __attribute__((visibility("default"))) void
dtc_internal_set_host_functions(dtc_host_functions functions) {
  dtc::hostFunctions = functions;
  dtc::setHostFunctions(functions ? dtc::callPython : nullptr);
}
