#include "Handles.h"
#include "dtc/Api/ProgramFile.h"

#include "dtc/IR/text/Text.h"
#include "dtc/Support/Bug.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Version.h"

#include <algorithm>
#include <new>

namespace dtc {

// Options of compilations and of contexts are one list of names; the values of each are checked when they are set.
static Status checkOption(const char* name, const char* value) {
  const auto of = ContextOptions::names();
  if (std::ranges::find(of, std::string_view(name)) != of.end()) return ContextOptions().set(name, value);
  auto all = CompileOptions::names();
  if (std::ranges::find(all, std::string_view(name)) != all.end()) return CompileOptions().set(name, value);
  all.insert(all.end(), of.begin(), of.end());
  return usageError(unknownWord("option", name, all));
}

CompileOptions compileOptionsOf(const dtc_options* options) {
  CompileOptions out;
  if (!options) return out;
  for (const auto& [name, value] : options->values) (void)out.set(name, value); // checked
  out.argumentShapes = options->argumentShapes;
  return out;
}

ContextOptions contextOptionsOf(const dtc_options* options) {
  ContextOptions out;
  if (!options) return out;
  for (const auto& [name, value] : options->values) (void)out.set(name, value); // checked
  return out;
}

// In several processes, the program of this one; null if another process has failed.
static std::unique_ptr<CompiledProgram> agreed(ProcessGroup& group, std::unique_ptr<CompiledProgram> program,
                                               ApiError& why) {
  const Status mine = program ? Status(Ok{}) : Error{why.kind, why.text};
  const Status all = group.endLoad(mine);
  if (!all && (mine || all.error().message != mine.error().message)) why = apiError(all.error());
  return all ? std::move(program) : nullptr;
}

// What `make(error)` returns as an executable, unless one of the pointers is null.
template <class Make>
static dtc_status load(std::initializer_list<Given> given, dtc_context* context, const char* name,
                       dtc_executable** executable, dtc_error** error, Make&& make) {
  if (executable) *executable = nullptr;
  try {
    Status complete = checkGiven(given);
    if (complete) complete = checkGiven({{executable, "executable"}});
    if (!complete && !context) return report(complete.error(), error);
    ApiError why;
    auto made = std::make_unique<dtc_executable>();
    ProcessGroup* const group = context->machine->group.get();
    const auto turn = group ? group->turn() : std::unique_lock<std::mutex>();
    if (group) group->beginLoad(name ? name : "a file");
    if (complete)
      made->program = make(why);
    else
      why = apiError(complete.error());
    if (group) made->program = agreed(*group, std::move(made->program), why);
    if (!made->program) return report(std::move(why), error);
    *executable = made.release();
    return DTC_OK;
  } catch (...) {
    return report(errorOfException(), error);
  }
}

} // namespace dtc

using namespace dtc;

const char* dtc_version(void) { return DTC_VERSION; }

dtc_options* dtc_options_create(void) { return new (std::nothrow) dtc_options; }
void dtc_options_free(dtc_options* options) { delete options; }

dtc_status dtc_options_set(dtc_options* options, const char* name, const char* value, dtc_error** error) {
  return guarded(error, [&]() -> Status {
    if (Status s = checkGiven({{options, "options"}, {name, "name"}, {value, "value"}}); !s) return s;
    if (Status s = checkOption(name, value); !s) return s;
    options->values.emplace_back(name, value);
    return Ok{};
  });
}

dtc_status dtc_options_set_argument_shape(dtc_options* options, size_t argument, const int64_t* shape,
                                          size_t rank, dtc_error** error) {
  constexpr size_t kMaxArguments = 1 << 20, kMaxRank = 1024;
  return guarded(error, [&]() -> Status {
    if (Status s =
            checkGiven({{options, "options"}, {rank ? static_cast<const void*>(shape) : options, "shape"}});
        !s)
      return s;
    if (rank > kMaxRank) return usageError("a shape of rank " + std::to_string(rank) + " is too long");
    for (size_t d = 0; d < rank; ++d)
      if (shape[d] < 0) return usageError("a shape has the negative size " + std::to_string(shape[d]));
    if (argument >= kMaxArguments) return usageError("there is no argument " + std::to_string(argument));
    if (options->argumentShapes.size() <= argument) options->argumentShapes.resize(argument + 1);
    options->argumentShapes[argument].emplace(shape, shape + rank);
    return Ok{};
  });
}

dtc_status dtc_context_create(const dtc_options* options, dtc_context** context, dtc_error** error) {
  if (context) *context = nullptr;
  return guarded(error, [&]() -> Status {
    if (Status s = checkGiven({{context, "context"}}); !s) return s;
    throwAtBugs();
    const ContextOptions o = contextOptionsOf(options);
    *context = new dtc_context{std::make_shared<Machine>(o.threads, o.jit)};
    return Ok{};
  });
}

void dtc_context_free(dtc_context* context) { delete context; }

dtc_status dtc_compile(dtc_context* context, const char* name, const char* text, size_t size,
                       const dtc_options* options, dtc_executable** executable, dtc_error** error) {
  if (size == 0) text = "";
  if (!name) name = "<text>";
  return load({{context, "context"}, {text, "text"}}, context, name, executable, error, [&](ApiError& why) {
    return compileBytes(name, {text, size}, compileOptionsOf(options), context->machine, why);
  });
}

dtc_status dtc_compile_file(dtc_context* context, const char* path, const dtc_options* options,
                            dtc_executable** executable, dtc_error** error) {
  return load({{context, "context"}, {path, "path"}}, context, path, executable, error, [&](ApiError& why) {
    return compileFile(path, compileOptionsOf(options), context->machine, why);
  });
}

dtc_status dtc_load_package(dtc_context* context, const char* path, dtc_executable** executable,
                            dtc_error** error) {
  return load({{context, "context"}, {path, "path"}}, context, path, executable, error,
              [&](ApiError& why) { return CompiledProgram::loadPackage(path, context->machine, why); });
}

void dtc_executable_free(dtc_executable* executable) { delete executable; }

const char* dtc_dtype_name(dtc_dtype dtype) {
  return isDType(dtype) ? dtypeName(static_cast<DType>(dtype)).data() : nullptr; // literals
}

size_t dtc_dtype_size(dtc_dtype dtype) {
  return isDType(dtype) ? static_cast<size_t>(dtypeBytes(static_cast<DType>(dtype))) : 0;
}

const char* dtc_warnings(const dtc_executable* executable) {
  return executable ? executable->program->warningText().c_str() : "";
}

const char* dtc_program_text(dtc_executable* executable) {
  if (!executable) return "";
  const std::lock_guard lock(executable->mutex);
  try {
    if (executable->text.empty()) executable->text = printModule(executable->program->module());
  } catch (...) {
    return "";
  }
  return executable->text.c_str();
}
