// Compiling, describing, serializing and running programs.
#include "Objects.h"
#include "OpSharding.h"
#include "dtc/Support/Sha256.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace dtc {

namespace {

using E = PJRT_Error*;

constexpr std::string_view kSerialized = "dtc.pjrt.1\n"; // then the size of the text, the text, the options

std::string fingerprintOf(std::string_view text, std::string_view options) {
  return toHex(Sha256().field(text).field(options).finish());
}

void describe(CompiledPjrt& c) {
  for (const PjrtValue& v : c.program->arguments()) {
    c.argumentShardings.push_back(v.sharding.data());
    c.argumentShardingSizes.push_back(v.sharding.size());
    c.argumentLayouts.push_back(layoutOf(v.minorToMajor));
  }
  for (const PjrtValue& v : c.program->results()) {
    c.types.push_back(v.element->type);
    c.dims.insert(c.dims.end(), v.dims.begin(), v.dims.end());
    c.ranks.push_back(v.dims.size());
    const auto kind = std::ranges::find(kMemoryKinds, v.memoryKind); // unknown ones: the default
    c.memoryKinds.push_back(kind == std::end(kMemoryKinds) ? 0 : static_cast<size_t>(kind - kMemoryKinds));
    c.kinds.push_back(kMemoryKinds[c.memoryKinds.back()].data());
    c.kindSizes.push_back(kMemoryKinds[c.memoryKinds.back()].size());
    c.resultShardings.push_back(v.sharding.data());
    c.resultShardingSizes.push_back(v.sharding.size());
    c.resultLayouts.push_back(layoutOf(v.minorToMajor));
  }
}

// Null: see `error`.
std::shared_ptr<const PjrtProgram> programOf(PJRT_Client& client, std::string_view code,
                                             int64_t numPartitions, ApiError& error) {
  auto text = PjrtProgram::textOf(code);
  if (!text) {
    error = apiError(text.error());
    return nullptr;
  }
  if (auto cached = client.programs.find(*text, numPartitions)) return cached;
  auto made = std::make_shared<PjrtProgram>();
  if (!made->compile(std::move(*text), numPartitions, client.backend, client.machine, error)) return nullptr;
  client.programs.add(made);
  return made;
}

PJRT_Error* compile(PJRT_Client& client, std::string_view code, std::string_view options,
                    PJRT_LoadedExecutable*& out) {
  auto read = pjrtOptions(options);
  if (!read) return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT, "compile options: " + read.error().message);
  if (read->numReplicas != 1)
    return pjrtError(PJRT_Error_Code_UNIMPLEMENTED,
                     "dtc has partitions, but no replicas: expected num_replicas = 1");
  auto compiled = std::make_shared<CompiledPjrt>();
  compiled->options = options;
  compiled->deviceIds = read->deviceIds;
  if (compiled->deviceIds.empty()) {
    compiled->deviceIds.resize(static_cast<size_t>(read->numPartitions));
    std::iota(compiled->deviceIds.begin(), compiled->deviceIds.end(), 0);
  }
  if (compiled->deviceIds.size() != static_cast<size_t>(read->numPartitions))
    return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT,
                     "the device assignment has another number of partitions");
  auto loaded = std::make_unique<PJRT_LoadedExecutable>();
  for (int64_t& id : compiled->deviceIds) {
    if (id < 0 && compiled->deviceIds.size() == 1) id = 0; // portable: any device
    if (id < 0 || static_cast<size_t>(id) >= client.devices.size())
      return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT,
                       "the device assignment names device " + std::to_string(id) + ", but there are " +
                           std::to_string(client.devices.size()) + " (DTC_NUM_DEVICES)");
    loaded->devices.push_back(client.devices[static_cast<size_t>(id)]);
  }
  ApiError error;
  compiled->program = programOf(client, code, read->numPartitions, error);
  if (!compiled->program) return pjrtError(error);
  compiled->fingerprint = fingerprintOf(compiled->program->text(), options);
  describe(*compiled);
  loaded->assignment = deviceAssignment(compiled->deviceIds);
  loaded->compiled = std::move(compiled);
  out = loaded.release();
  return nullptr;
}

PJRT_Error* compileProgram(PJRT_Client_Compile_Args* a) {
  const std::string_view format(a->program->format, a->program->format_size);
  if (format != "mlir")
    return pjrtError(PJRT_Error_Code_UNIMPLEMENTED,
                     "dtc compiles programs of format 'mlir', not '" + std::string(format) + "'");
  return compile(*a->client, {a->program->code, a->program->code_size},
                 {a->compile_options, a->compile_options_size}, a->executable);
}

PJRT_Error* serialize(PJRT_Executable_Serialize_Args* a) {
  const CompiledPjrt& c = *a->executable->compiled;
  auto s = std::make_unique<PJRT_SerializedExecutable>();
  s->bytes = std::string(kSerialized) + std::to_string(c.program->text().size()) + "\n" + c.program->text() +
             c.options;
  give(s->bytes, a->serialized_bytes, a->serialized_bytes_size);
  a->serialized_executable = s.release();
  a->serialized_executable_deleter = +[](PJRT_SerializedExecutable* e) { delete e; };
  return nullptr;
}

// Compiles again; the kernels come from dtc's own cache.
PJRT_Error* deserialize(PJRT_Executable_DeserializeAndLoad_Args* a) {
  std::string_view bytes(a->serialized_executable, a->serialized_executable_size);
  const auto bad = [] {
    return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT,
                     "this is not an executable that dtc's plugin serialized");
  };
  if (!bytes.starts_with(kSerialized)) return bad();
  bytes.remove_prefix(kSerialized.size());
  const size_t line = bytes.find('\n');
  const auto size = parseNumber<uint64_t>(bytes.substr(0, line));
  if (line == bytes.npos || !size || *size > bytes.size() - line - 1) return bad();
  const std::string_view text = bytes.substr(line + 1, *size);
  std::string_view options = bytes.substr(line + 1 + *size);
  if (a->overridden_serialized_compile_options_size)
    options = {a->overridden_serialized_compile_options, a->overridden_serialized_compile_options_size};
  return compile(*a->client, text, options, a->loaded_executable);
}

// The program of one partition before kernels are made: JAX shows it.
PJRT_Error* program(PJRT_Executable_OptimizedProgram_Args* a) {
  const std::string& text = a->executable->compiled->program->partitionText();
  give("mlir", a->program->format, a->program->format_size);
  if (!a->program->code)
    a->program->code_size = text.size();
  else
    std::memcpy(a->program->code, text.data(), std::min(text.size(), a->program->code_size));
  return nullptr;
}

PJRT_Error* compileOptions(PJRT_Executable_GetCompileOptions_Args* a) {
  give(a->executable->compiled->options, a->serialized_bytes, a->serialized_bytes_size);
  a->serialized_compile_options = nullptr; // the executable's
  a->serialized_compile_options_deleter = +[](PJRT_SerializedCompileOptions*) {};
  return nullptr;
}

PJRT_Error* assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args* a) {
  give(a->executable->assignment, a->serialized_bytes, a->serialized_bytes_size);
  a->serialized_device_assignment = nullptr; // the executable's
  a->serialized_device_assignment_deleter = +[](PJRT_DeviceAssignmentSerialized*) {};
  return nullptr;
}

PJRT_Error* compiledMemory(PJRT_Executable_GetCompiledMemoryStats_Args* a) {
  const PjrtProgram& p = *a->executable->compiled->program;
  const PJRT_Executable_GetCompiledMemoryStats_Args given = *a;
  *a = {};
  a->struct_size = given.struct_size;
  a->extension_start = given.extension_start;
  a->executable = given.executable;
  for (const PjrtValue& v : p.arguments()) {
    a->argument_size_in_bytes += static_cast<int64_t>(v.bytes);
    if (v.donated) a->alias_size_in_bytes += static_cast<int64_t>(v.bytes);
  }
  for (const PjrtValue& v : p.results()) a->output_size_in_bytes += static_cast<int64_t>(v.bytes);
  a->temp_size_in_bytes = p.arenaBytes();
  return nullptr;
}

// The donated arguments of a partition, less those that the caller keeps. Error: one of them is given twice.
PJRT_Error* donatedOf(const PJRT_LoadedExecutable_Execute_Args& a, const PjrtProgram& program,
                      size_t partition, std::vector<PJRT_Buffer*>& out) {
  const std::span<const int64_t> kept(a.options->non_donatable_input_indices,
                                      a.options->num_non_donatable_input_indices);
  const std::span<PJRT_Buffer* const> given(a.argument_lists[partition], a.num_args);
  for (size_t i = 0; i < given.size(); ++i)
    if (program.arguments()[i].donated && std::ranges::find(kept, static_cast<int64_t>(i)) == kept.end())
      out.push_back(given[i]);
  for (const PJRT_Buffer* b : out)
    if (std::ranges::count(given, b) > 1)
      return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT, "a donated argument is given twice");
  return nullptr;
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* a) {
  const CompiledPjrt& c = *a->executable->compiled;
  const auto& arguments = c.program->arguments();
  const auto& results = c.program->results();
  if (a->executable->deleted)
    return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT, "the executable has been deleted");
  if (a->num_args != arguments.size() || a->num_devices != static_cast<size_t>(c.program->numPartitions()))
    return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT,
                     "expected " + std::to_string(arguments.size()) + " arguments on " +
                         std::to_string(c.program->numPartitions()) + " devices, got " +
                         std::to_string(a->num_args) + " on " + std::to_string(a->num_devices));
  std::vector<const std::byte*> in;
  std::vector<std::shared_ptr<std::byte[]>> kept; // another thread may delete a buffer
  for (size_t p = 0; p < a->num_devices; ++p)
    for (size_t i = 0; i < a->num_args; ++i) {
      const PJRT_Buffer& b = *a->argument_lists[p][i];
      if (b.deleted)
        return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT,
                         "argument " + std::to_string(i) + " has been deleted or donated");
      if (!arguments[i].token && (b.type != arguments[i].element->type || b.dims != arguments[i].dims))
        return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT,
                         "argument " + std::to_string(i) + " has another type or shape than the program");
      kept.push_back(b.data);
      in.push_back(b.data.get());
    }
  std::vector<PJRT_Buffer*> donated; // of all partitions
  for (size_t p = 0; p < a->num_devices; ++p)
    if (PJRT_Error* e = donatedOf(*a, *c.program, p, donated)) return e;
  std::vector<std::unique_ptr<PJRT_Buffer>> made;
  std::vector<std::byte*> out;
  for (size_t p = 0; p < a->num_devices; ++p)
    for (size_t i = 0; i < results.size(); ++i) {
      PJRT_Device* device = a->execute_device ? a->execute_device : a->executable->devices[p];
      made.push_back(
          makeBuffer(results[i].element->type, results[i].dims, &device->memory[c.memoryKinds[i]]));
      made.back()->minorToMajor = results[i].minorToMajor;
      out.push_back(made.back()->data.get());
    }
  ApiError error;
  if (!c.program->run(in, out, error)) {
    // A check or a function of the process failed: the program itself was compiled.
    if (error.kind == Error::Input) return pjrtError(PJRT_Error_Code_INTERNAL, "dtc: " + error.text);
    return pjrtError(error);
  }
  for (size_t p = 0; p < a->num_devices; ++p) {
    for (size_t i = 0; i < results.size(); ++i)
      a->output_lists[p][i] = made[p * results.size() + i].release();
    if (a->device_complete_events) a->device_complete_events[p] = new PJRT_Event;
  }
  for (PJRT_Buffer* b : donated) deleteBuffer(*b);
  return nullptr;
}

void addDescriptions(PJRT_Api& api) {
  set(
      api, PJRT_Function_Executable_Name, +[](PJRT_Executable_Name_Args* a) -> E {
        return give(a->executable->compiled->program->name(), a->executable_name, a->executable_name_size),
               nullptr;
      });
  set(
      api, PJRT_Function_Executable_NumReplicas,
      +[](PJRT_Executable_NumReplicas_Args* a) -> E { return a->num_replicas = 1, nullptr; });
  set(
      api, PJRT_Function_Executable_NumPartitions, +[](PJRT_Executable_NumPartitions_Args* a) -> E {
        a->num_partitions = static_cast<size_t>(a->executable->compiled->program->numPartitions());
        return nullptr;
      });
  set(
      api, PJRT_Function_Executable_NumOutputs, +[](PJRT_Executable_NumOutputs_Args* a) -> E {
        return a->num_outputs = a->executable->compiled->types.size(), nullptr;
      });
  set(
      api, PJRT_Function_Executable_SizeOfGeneratedCodeInBytes,
      +[](PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* a) -> E { return a->size_in_bytes = 0, nullptr; });
  set(
      api, PJRT_Function_Executable_GetCostAnalysis, +[](PJRT_Executable_GetCostAnalysis_Args* a) -> E {
        a->num_properties = 0;
        a->properties = nullptr;
        return nullptr;
      });
  set(
      api, PJRT_Function_Executable_OutputElementTypes, +[](PJRT_Executable_OutputElementTypes_Args* a) -> E {
        a->output_types = a->executable->compiled->types.data();
        a->num_output_types = a->executable->compiled->types.size();
        return nullptr;
      });
  set(
      api, PJRT_Function_Executable_OutputDimensions, +[](PJRT_Executable_OutputDimensions_Args* a) -> E {
        const CompiledPjrt& c = *a->executable->compiled;
        a->num_outputs = c.types.size();
        a->dims = c.dims.data();
        a->dim_sizes = c.ranks.data();
        return nullptr;
      });
  set(
      api, PJRT_Function_Executable_OutputMemoryKinds, +[](PJRT_Executable_OutputMemoryKinds_Args* a) -> E {
        const CompiledPjrt& c = *a->executable->compiled;
        a->num_outputs = c.types.size();
        a->memory_kinds = c.kinds.data();
        a->memory_kind_sizes = c.kindSizes.data();
        return nullptr;
      });
  set(
      api, PJRT_Function_Executable_Fingerprint, +[](PJRT_Executable_Fingerprint_Args* a) -> E {
        return give(a->executable->compiled->fingerprint, a->executable_fingerprint,
                    a->executable_fingerprint_size),
               nullptr;
      });
  set(api, PJRT_Function_Executable_OptimizedProgram, program);
  set(api, PJRT_Function_Executable_Serialize, serialize);
  set(api, PJRT_Function_Executable_GetCompiledMemoryStats, compiledMemory);
  set(api, PJRT_Function_Executable_GetCompileOptions, compileOptions);
  set(
      api, PJRT_Function_Executable_Destroy,
      +[](PJRT_Executable_Destroy_Args* a) -> E { return delete a->executable, nullptr; });
}

void addLoaded(PJRT_Api& api) {
  set(
      api, PJRT_Function_LoadedExecutable_GetExecutable,
      +[](PJRT_LoadedExecutable_GetExecutable_Args* a) -> E {
        return a->executable = new PJRT_Executable{a->loaded_executable->compiled}, nullptr;
      });
  set(
      api, PJRT_Function_LoadedExecutable_AddressableDevices,
      +[](PJRT_LoadedExecutable_AddressableDevices_Args* a) -> E {
        a->addressable_devices = a->executable->devices.data();
        a->num_addressable_devices = a->executable->devices.size();
        return nullptr;
      });
  set(
      api, PJRT_Function_LoadedExecutable_Delete,
      +[](PJRT_LoadedExecutable_Delete_Args* a) -> E { return a->executable->deleted = true, nullptr; });
  set(
      api, PJRT_Function_LoadedExecutable_IsDeleted, +[](PJRT_LoadedExecutable_IsDeleted_Args* a) -> E {
        return a->is_deleted = a->executable->deleted, nullptr;
      });
  set(
      api, PJRT_Function_LoadedExecutable_Fingerprint, +[](PJRT_LoadedExecutable_Fingerprint_Args* a) -> E {
        return give(a->executable->compiled->fingerprint, a->executable_fingerprint,
                    a->executable_fingerprint_size),
               nullptr;
      });
  set(api, PJRT_Function_LoadedExecutable_GetDeviceAssignment, assignment);
  set(api, PJRT_Function_LoadedExecutable_Execute, execute);
  set(
      api, PJRT_Function_LoadedExecutable_Destroy,
      +[](PJRT_LoadedExecutable_Destroy_Args* a) -> E { return delete a->executable, nullptr; });
  set(
      api, PJRT_Function_ExecuteContext_Create,
      +[](PJRT_ExecuteContext_Create_Args* a) -> E { return a->context = new PJRT_ExecuteContext, nullptr; });
  set(
      api, PJRT_Function_ExecuteContext_Destroy,
      +[](PJRT_ExecuteContext_Destroy_Args* a) -> E { return delete a->context, nullptr; });
}

} // namespace

void addExecutableFunctions(PJRT_Api& api) {
  set(api, PJRT_Function_Client_Compile, compileProgram);
  set(api, PJRT_Function_Executable_DeserializeAndLoad, deserialize);
  addDescriptions(api);
  addLoaded(api);
}

} // namespace dtc
