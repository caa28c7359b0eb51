// Errors, events, the client, its devices, memories and topology.
#include "Objects.h"
#include "dtc/Api/CompileOptions.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"

#include <cstdlib>

namespace dtc {

namespace {

constexpr std::string_view kPlatform = "dtc";
using E = PJRT_Error*;

PJRT_Error_Code codeOf(const ApiError& error) {
  switch (error.kind) {
  case Error::Input: return PJRT_Error_Code_UNIMPLEMENTED; // JAX's own programs are valid
  case Error::Usage: return PJRT_Error_Code_INVALID_ARGUMENT;
  case Error::Machine: // all messages about memory name it
    return error.text.find("memory") != std::string::npos ? PJRT_Error_Code_RESOURCE_EXHAUSTED
                                                          : PJRT_Error_Code_FAILED_PRECONDITION;
  default: return PJRT_Error_Code_INTERNAL;
  }
}

// An option of the client, or else an environment variable.
std::string optionOf(const PJRT_Client_Create_Args& a, std::string_view name, const char* variable) {
  for (const PJRT_NamedValue& v : std::span(a.create_options, a.num_options)) {
    if (std::string_view(v.name, v.name_size) != name) continue;
    if (v.type == PJRT_NamedValue_kInt64) return std::to_string(v.int64_value);
    if (v.type == PJRT_NamedValue_kString) return {v.string_value, v.value_size};
  }
  const char* given = std::getenv(variable);
  return given ? given : "";
}

PJRT_Error* wrongOption(const char* variable, const std::string& expected, const std::string& got) {
  return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT,
                   std::string(variable) + ": expected " + expected + ", got '" + got + "'");
}

// The first compile of a process takes some 55 ms longer than others, in which Clang is opened, relocated and read
// from disk. This happens beside JAX's own work until the first program arrives. An error shows up there.
void startCompiler(PJRT_Client& client) {
  if (client.backend == "cuda") return; // compiles with NVRTC
  client.startsCompiler = std::jthread([machine = client.machine] {
    const SourceUnit unit{"start", "extern \"C\" void start(float* x) { x[0] = x[1] * x[2] + 1.0f; }"};
    (void)machine->jit.emit(unit, CpuText::Asm);
  });
}

PJRT_Error* createClient(PJRT_Client_Create_Args* a) {
  const std::string devices = optionOf(*a, "num_devices", "DTC_NUM_DEVICES");
  const std::string threads = optionOf(*a, "threads", "DTC_NUM_THREADS");
  const std::string backend = optionOf(*a, "backend", "DTC_BACKEND");
  const int numDevices = devices.empty() ? 1 : parseNumber<int>(devices).value_or(0);
  if (numDevices < 1 || numDevices > 4096)
    return wrongOption("DTC_NUM_DEVICES", "a number in [1, 4096]", devices);
  ContextOptions context;
  if (!threads.empty() && !context.set("threads", threads))
    return wrongOption("DTC_NUM_THREADS", "a number from 0 (one per core) to 1024", threads);
  if (!backend.empty() && !CompileOptions().set("backend", backend))
    return wrongOption("DTC_BACKEND", "cpu, cuda-emu or cuda", backend);
  auto client = std::make_unique<PJRT_Client>();
  client->version = DTC_VERSION;
  client->backend = backend.empty() ? "cpu" : backend;
  client->machine = std::make_shared<Machine>(context.threads);
  for (int i = 0; i < numDevices; ++i) {
    auto d = std::make_unique<PJRT_Device>();
    d->description = {i, "dtc:" + std::to_string(i)};
    for (size_t k = 0; k < kNumKinds; ++k) {
      const int kind = static_cast<int>(k), id = i * static_cast<int>(kNumKinds) + kind;
      d->memory[k] = {id, kind, d.get(),
                      std::string(kMemoryKinds[k]) + " memory of dtc:" + std::to_string(i)};
      d->memories[k] = &d->memory[k];
      client->memories.push_back(&d->memory[k]);
    }
    client->devices.push_back(d.get());
    client->topology.devices.push_back(&d->description);
    client->owned.push_back(std::move(d));
  }
  startCompiler(*client);
  a->client = client.release();
  return nullptr;
}

PJRT_Error* attributes(PJRT_Plugin_Attributes_Args* a) {
  // Programs arrive as portable artifacts of the newest version that both sides know.
  static constexpr int64_t current[3] = {1, 17, 0}, minimum[3] = {0, 9, 0};
  static const PJRT_NamedValue values[] = {
      {sizeof(PJRT_NamedValue),
       nullptr,
       "stablehlo_current_version",
       25,
       PJRT_NamedValue_kInt64List,
       {.int64_array_value = current},
       3},
      {sizeof(PJRT_NamedValue),
       nullptr,
       "stablehlo_minimum_version",
       25,
       PJRT_NamedValue_kInt64List,
       {.int64_array_value = minimum},
       3},
  };
  a->attributes = values;
  a->num_attributes = std::size(values);
  return nullptr;
}

PJRT_Error* lookup(PJRT_Client* client, int id, PJRT_Device*& out) {
  if (id < 0 || static_cast<size_t>(id) >= client->devices.size())
    return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT, "there is no device " + std::to_string(id));
  out = client->devices[static_cast<size_t>(id)];
  return nullptr;
}

PJRT_Error* memoryStats(PJRT_Device_MemoryStats_Args*) {
  return pjrtError(PJRT_Error_Code_UNIMPLEMENTED, "dtc does not count the memory of devices");
}

void addErrorsAndEvents(PJRT_Api& api) {
  set(api, PJRT_Function_Error_Destroy, +[](PJRT_Error_Destroy_Args* a) { delete a->error; });
  set(
      api, PJRT_Function_Error_Message,
      +[](PJRT_Error_Message_Args* a) { give(a->error->message, a->message, a->message_size); });
  set(
      api, PJRT_Function_Error_GetCode,
      +[](PJRT_Error_GetCode_Args* a) -> E { return a->code = a->error->code, nullptr; });
  set(api, PJRT_Function_Plugin_Initialize, +[](PJRT_Plugin_Initialize_Args*) -> E { return nullptr; });
  set(api, PJRT_Function_Plugin_Attributes, attributes);
  set(
      api, PJRT_Function_Event_Destroy,
      +[](PJRT_Event_Destroy_Args* a) -> E { return delete a->event, nullptr; });
  set(
      api, PJRT_Function_Event_IsReady,
      +[](PJRT_Event_IsReady_Args* a) -> E { return a->is_ready = true, nullptr; });
  set(api, PJRT_Function_Event_Error, +[](PJRT_Event_Error_Args*) -> E { return nullptr; });
  set(api, PJRT_Function_Event_Await, +[](PJRT_Event_Await_Args*) -> E { return nullptr; });
  set(
      api, PJRT_Function_Event_OnReady, +[](PJRT_Event_OnReady_Args* a) -> E {
        a->callback(nullptr, a->user_arg);
        return nullptr;
      });
}

void addClient(PJRT_Api& api) {
  set(api, PJRT_Function_Client_Create, createClient);
  set(
      api, PJRT_Function_Client_Destroy,
      +[](PJRT_Client_Destroy_Args* a) -> E { return delete a->client, nullptr; });
  set(
      api, PJRT_Function_Client_PlatformName, +[](PJRT_Client_PlatformName_Args* a) -> E {
        return give(kPlatform, a->platform_name, a->platform_name_size), nullptr;
      });
  set(
      api, PJRT_Function_Client_PlatformVersion, +[](PJRT_Client_PlatformVersion_Args* a) -> E {
        return give(a->client->version, a->platform_version, a->platform_version_size), nullptr;
      });
  set(
      api, PJRT_Function_Client_ProcessIndex,
      +[](PJRT_Client_ProcessIndex_Args* a) -> E { return a->process_index = 0, nullptr; });
  set(
      api, PJRT_Function_Client_Devices, +[](PJRT_Client_Devices_Args* a) -> E {
        a->devices = a->client->devices.data();
        a->num_devices = a->client->devices.size();
        return nullptr;
      });
  set(
      api, PJRT_Function_Client_AddressableDevices, +[](PJRT_Client_AddressableDevices_Args* a) -> E {
        a->addressable_devices = a->client->devices.data();
        a->num_addressable_devices = a->client->devices.size();
        return nullptr;
      });
  set(
      api, PJRT_Function_Client_AddressableMemories, +[](PJRT_Client_AddressableMemories_Args* a) -> E {
        a->addressable_memories = a->client->memories.data();
        a->num_addressable_memories = a->client->memories.size();
        return nullptr;
      });
  set(
      api, PJRT_Function_Client_LookupDevice,
      +[](PJRT_Client_LookupDevice_Args* a) -> E { return lookup(a->client, a->id, a->device); });
  set(
      api, PJRT_Function_Client_LookupAddressableDevice,
      +[](PJRT_Client_LookupAddressableDevice_Args* a) -> E {
        return lookup(a->client, a->local_hardware_id, a->addressable_device);
      });
  set(
      api, PJRT_Function_Client_DefaultDeviceAssignment,
      +[](PJRT_Client_DefaultDeviceAssignment_Args* a) -> E {
        for (size_t i = 0; i < a->default_assignment_size; ++i)
          a->default_assignment[i] = static_cast<int>(i);
        return nullptr;
      });
  set(
      api, PJRT_Function_Client_TopologyDescription, +[](PJRT_Client_TopologyDescription_Args* a) -> E {
        return a->topology = &a->client->topology, nullptr;
      });
}

void addDevices(PJRT_Api& api) {
  set(
      api, PJRT_Function_DeviceDescription_Id,
      +[](PJRT_DeviceDescription_Id_Args* a) -> E { return a->id = a->device_description->id, nullptr; });
  set(
      api, PJRT_Function_DeviceDescription_ProcessIndex,
      +[](PJRT_DeviceDescription_ProcessIndex_Args* a) -> E { return a->process_index = 0, nullptr; });
  set(
      api, PJRT_Function_DeviceDescription_Attributes, +[](PJRT_DeviceDescription_Attributes_Args* a) -> E {
        a->attributes = nullptr;
        a->num_attributes = 0;
        return nullptr;
      });
  set(
      api, PJRT_Function_DeviceDescription_Kind, +[](PJRT_DeviceDescription_Kind_Args* a) -> E {
        return give("cpu", a->device_kind, a->device_kind_size), nullptr;
      });
  set(
      api, PJRT_Function_DeviceDescription_DebugString, +[](PJRT_DeviceDescription_DebugString_Args* a) -> E {
        return give(a->device_description->name, a->debug_string, a->debug_string_size), nullptr;
      });
  set(
      api, PJRT_Function_DeviceDescription_ToString, +[](PJRT_DeviceDescription_ToString_Args* a) -> E {
        return give(a->device_description->name, a->to_string, a->to_string_size), nullptr;
      });
  set(
      api, PJRT_Function_Device_GetDescription, +[](PJRT_Device_GetDescription_Args* a) -> E {
        return a->device_description = &a->device->description, nullptr;
      });
  set(
      api, PJRT_Function_Device_IsAddressable,
      +[](PJRT_Device_IsAddressable_Args* a) -> E { return a->is_addressable = true, nullptr; });
  set(
      api, PJRT_Function_Device_LocalHardwareId, +[](PJRT_Device_LocalHardwareId_Args* a) -> E {
        return a->local_hardware_id = a->device->description.id, nullptr;
      });
  set(
      api, PJRT_Function_Device_AddressableMemories, +[](PJRT_Device_AddressableMemories_Args* a) -> E {
        a->memories = a->device->memories;
        a->num_memories = kNumKinds;
        return nullptr;
      });
  set(
      api, PJRT_Function_Device_DefaultMemory,
      +[](PJRT_Device_DefaultMemory_Args* a) -> E { return a->memory = a->device->memory, nullptr; });
  set(api, PJRT_Function_Device_MemoryStats, memoryStats);
}

void addMemoriesAndTopology(PJRT_Api& api) {
  set(
      api, PJRT_Function_Memory_Id,
      +[](PJRT_Memory_Id_Args* a) -> E { return a->id = a->memory->id, nullptr; });
  set(
      api, PJRT_Function_Memory_Kind, +[](PJRT_Memory_Kind_Args* a) -> E {
        return give(kMemoryKinds[static_cast<size_t>(a->memory->kind)], a->kind, a->kind_size), nullptr;
      });
  set(
      api, PJRT_Function_Memory_Kind_Id,
      +[](PJRT_Memory_Kind_Id_Args* a) -> E { return a->kind_id = a->memory->kind, nullptr; });
  set(
      api, PJRT_Function_Memory_DebugString, +[](PJRT_Memory_DebugString_Args* a) -> E {
        return give(a->memory->name, a->debug_string, a->debug_string_size), nullptr;
      });
  set(
      api, PJRT_Function_Memory_ToString, +[](PJRT_Memory_ToString_Args* a) -> E {
        return give(a->memory->name, a->to_string, a->to_string_size), nullptr;
      });
  set(
      api, PJRT_Function_Memory_AddressableByDevices, +[](PJRT_Memory_AddressableByDevices_Args* a) -> E {
        a->devices = &a->memory->device;
        a->num_devices = 1;
        return nullptr;
      });
  set(
      api, PJRT_Function_TopologyDescription_Destroy,
      +[](PJRT_TopologyDescription_Destroy_Args*) -> E { return nullptr; }); // the client's
  set(
      api, PJRT_Function_TopologyDescription_PlatformName,
      +[](PJRT_TopologyDescription_PlatformName_Args* a) -> E {
        return give(kPlatform, a->platform_name, a->platform_name_size), nullptr;
      });
  set(
      api, PJRT_Function_TopologyDescription_PlatformVersion,
      +[](PJRT_TopologyDescription_PlatformVersion_Args* a) -> E {
        return give(DTC_VERSION, a->platform_version, a->platform_version_size), nullptr;
      });
  set(
      api, PJRT_Function_TopologyDescription_GetDeviceDescriptions,
      +[](PJRT_TopologyDescription_GetDeviceDescriptions_Args* a) -> E {
        a->descriptions = a->topology->devices.data();
        a->num_descriptions = a->topology->devices.size();
        return nullptr;
      });
  set(
      api, PJRT_Function_TopologyDescription_Attributes,
      +[](PJRT_TopologyDescription_Attributes_Args* a) -> E {
        a->attributes = nullptr;
        a->num_attributes = 0;
        return nullptr;
      });
}

} // namespace

PJRT_Error* pjrtError(PJRT_Error_Code code, std::string message) {
  return new PJRT_Error{code, std::move(message)};
}

PJRT_Error* pjrtError(const ApiError& error) { return pjrtError(codeOf(error), "dtc: " + error.text); }

void addClientFunctions(PJRT_Api& api) {
  addErrorsAndEvents(api);
  addClient(api);
  addDevices(api);
  addMemoriesAndTopology(api);
}

} // namespace dtc
