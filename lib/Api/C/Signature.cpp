#include "Handles.h"
#include "dtc/Api/ProgramFile.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/Support/Bug.h"

struct dtc_signature {
  dtc::ProgramSignature program;
};

namespace dtc {
namespace {

// What `read(error)` returns as a signature, unless one of the pointers is null.
template <class Read>
dtc_status make(std::initializer_list<Given> given, dtc_signature** signature, dtc_error** error,
                Read&& read) {
  if (signature) *signature = nullptr;
  try {
    if (Status s = checkGiven(given); !s) return report(s.error(), error);
    if (Status s = checkGiven({{signature, "signature"}}); !s) return report(s.error(), error);
    throwAtBugs();
    ApiError why;
    std::optional<ProgramSignature> made = read(why);
    if (!made) return report(std::move(why), error);
    *signature = new dtc_signature{*std::move(made)};
    return DTC_OK;
  } catch (...) {
    return report(errorOfException(), error);
  }
}

void describe(const std::vector<TensorInfo>* tensors, size_t index, dtc_value_info* out) {
  if (out) *out = tensors && index < tensors->size() ? infoOf((*tensors)[index]) : dtc_value_info{};
}

const char* sizeAt(const std::vector<std::vector<std::string>>& sizes, size_t index, size_t dim) {
  return index < sizes.size() && dim < sizes[index].size() ? sizes[index][dim].c_str() : "";
}

} // namespace
} // namespace dtc

using namespace dtc;

dtc_status dtc_signature_of(const char* name, const char* text, size_t size, const dtc_options* options,
                            dtc_signature** signature, dtc_error** error) {
  if (size == 0) text = "";
  return make({{text, "text"}}, signature, error, [&](ApiError& why) {
    return signatureOfBytes(name ? name : "<text>", {text, size}, compileOptionsOf(options), why);
  });
}

dtc_status dtc_signature_of_file(const char* path, const dtc_options* options, dtc_signature** signature,
                                 dtc_error** error) {
  return make({{path, "path"}}, signature, error,
              [&](ApiError& why) { return signatureOfFile(path, compileOptionsOf(options), why); });
}

void dtc_signature_free(dtc_signature* signature) { delete signature; }

size_t dtc_signature_num_arguments(const dtc_signature* signature) {
  return signature ? signature->program.info.arguments.size() : 0;
}

size_t dtc_signature_num_results(const dtc_signature* signature) {
  return signature ? signature->program.info.results.size() : 0;
}

void dtc_signature_argument(const dtc_signature* signature, size_t index, dtc_value_info* out) {
  describe(signature ? &signature->program.info.arguments : nullptr, index, out);
}

void dtc_signature_result(const dtc_signature* signature, size_t index, dtc_value_info* out) {
  describe(signature ? &signature->program.info.results : nullptr, index, out);
}

const char* dtc_signature_argument_size(const dtc_signature* signature, size_t index, size_t dim) {
  return signature ? sizeAt(signature->program.argumentSizes, index, dim) : "";
}

const char* dtc_signature_result_size(const dtc_signature* signature, size_t index, size_t dim) {
  return signature ? sizeAt(signature->program.resultSizes, index, dim) : "";
}

dtc_status dtc_signature_find(const dtc_signature* signature, const char* path, int32_t* bound,
                              dtc_error** error) {
  return guarded(error, [&]() -> Status {
    if (Status s = checkGiven({{signature, "signature"}, {path, "path"}, {bound, "bound"}}); !s) return s;
    DTC_TRY(const auto archive, openTensorArchive(path));
    if (Status s = checkMatches(*archive, signature->program.info); !s) return s;
    size_t i = 0;
    for (const TensorInfo& a : signature->program.info.arguments) bound[i++] = !nameIn(*archive, a).empty();
    return Ok{};
  });
}
