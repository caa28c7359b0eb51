#pragma once
// The part of the PJRT C API, version 0.91, that dtc implements, in our own declaration: names, order and types
// of fields are those of the interface (openxla.org/xla/pjrt), since they are its ABI. Every structure begins
// with its size, so that either side can be older than the other.
#include <cstddef>
#include <cstdint>

extern "C" {

#define PJRT_API_MAJOR 0
#define PJRT_API_MINOR 91

struct PJRT_Error;
struct PJRT_Event;
struct PJRT_Client;
struct PJRT_Device;
struct PJRT_Memory;
struct PJRT_DeviceDescription;
struct PJRT_TopologyDescription;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;
struct PJRT_Buffer;
struct PJRT_ExecuteContext;
struct PJRT_SerializedExecutable;
struct PJRT_SerializedCompileOptions;
struct PJRT_DeviceAssignmentSerialized;
struct PJRT_Layouts_MemoryLayout;
struct PJRT_Layouts_SerializedLayout;
struct PJRT_SendCallbackInfo;
struct PJRT_RecvCallbackInfo;

typedef struct PJRT_Extension_Base {
  size_t struct_size;
  int type;
  struct PJRT_Extension_Base* next;
} PJRT_Extension_Base;

#define PJRT_HEAD                                                                                            \
  size_t struct_size;                                                                                        \
  PJRT_Extension_Base* extension_start;

// The codes of gRPC.
typedef enum {
  PJRT_Error_Code_INVALID_ARGUMENT = 3,
  PJRT_Error_Code_RESOURCE_EXHAUSTED = 8,
  PJRT_Error_Code_FAILED_PRECONDITION = 9,
  PJRT_Error_Code_UNIMPLEMENTED = 12,
  PJRT_Error_Code_INTERNAL = 13,
  PJRT_Error_Code_UNAVAILABLE = 14
} PJRT_Error_Code;

typedef enum {
  PJRT_NamedValue_kString,
  PJRT_NamedValue_kInt64,
  PJRT_NamedValue_kInt64List,
  PJRT_NamedValue_kFloat,
  PJRT_NamedValue_kBool
} PJRT_NamedValue_Type;

// Element types, in the order of the interface.
typedef enum {
  PJRT_Buffer_Type_INVALID,
  PJRT_Buffer_Type_PRED,
  PJRT_Buffer_Type_S8,
  PJRT_Buffer_Type_S16,
  PJRT_Buffer_Type_S32,
  PJRT_Buffer_Type_S64,
  PJRT_Buffer_Type_U8,
  PJRT_Buffer_Type_U16,
  PJRT_Buffer_Type_U32,
  PJRT_Buffer_Type_U64,
  PJRT_Buffer_Type_F16,
  PJRT_Buffer_Type_F32,
  PJRT_Buffer_Type_F64,
  PJRT_Buffer_Type_BF16,
  PJRT_Buffer_Type_C64,
  PJRT_Buffer_Type_C128,
  PJRT_Buffer_Type_F8E5M2,
  PJRT_Buffer_Type_F8E4M3FN,
  PJRT_Buffer_Type_F8E4M3B11FNUZ,
  PJRT_Buffer_Type_F8E5M2FNUZ,
  PJRT_Buffer_Type_F8E4M3FNUZ,
  PJRT_Buffer_Type_S4,
  PJRT_Buffer_Type_U4,
  PJRT_Buffer_Type_TOKEN,
  PJRT_Buffer_Type_S2,
  PJRT_Buffer_Type_U2,
  PJRT_Buffer_Type_F8E4M3,
  PJRT_Buffer_Type_F8E3M4,
  PJRT_Buffer_Type_F8E8M0FNU,
  PJRT_Buffer_Type_F4E2M1FN,
} PJRT_Buffer_Type;

typedef enum {
  PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
  PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
  PJRT_HostBufferSemantics_kImmutableZeroCopy,
  PJRT_HostBufferSemantics_kMutableZeroCopy
} PJRT_HostBufferSemantics;

typedef enum {
  PJRT_Buffer_MemoryLayout_Type_Tiled,
  PJRT_Buffer_MemoryLayout_Type_Strides
} PJRT_Buffer_MemoryLayout_Type;

typedef void (*PJRT_Event_OnReadyCallback)(PJRT_Error* error, void* user_arg);

// clang-format off: a line per structure
struct PJRT_Api_Version { PJRT_HEAD int major_version; int minor_version; };
struct PJRT_NamedValue { PJRT_HEAD const char* name; size_t name_size; PJRT_NamedValue_Type type; union {
  const char* string_value; int64_t int64_value; const int64_t* int64_array_value; float float_value; bool
  bool_value; }; size_t value_size; };
struct PJRT_Program { PJRT_HEAD char* code; size_t code_size; const char* format; size_t format_size; };
struct PJRT_Buffer_MemoryLayout_Tiled { PJRT_HEAD const int64_t* minor_to_major; size_t minor_to_major_size;
  const int64_t* tile_dims; const size_t* tile_dim_sizes; size_t num_tiles; };
struct PJRT_Buffer_MemoryLayout_Strides { PJRT_HEAD const int64_t* byte_strides; size_t num_byte_strides; };
struct PJRT_Buffer_MemoryLayout { PJRT_HEAD union { PJRT_Buffer_MemoryLayout_Tiled tiled;
  PJRT_Buffer_MemoryLayout_Strides strides; }; PJRT_Buffer_MemoryLayout_Type type; };
struct PJRT_ExecuteOptions { PJRT_HEAD PJRT_SendCallbackInfo** send_callbacks; PJRT_RecvCallbackInfo**
  recv_callbacks; size_t num_send_ops; size_t num_recv_ops; int launch_id; const int64_t*
  non_donatable_input_indices; size_t num_non_donatable_input_indices; PJRT_ExecuteContext* context; const
  char* call_location; size_t num_tasks; int* task_ids; int64_t* incarnation_ids; };
struct PJRT_Error_Destroy_Args { PJRT_HEAD PJRT_Error* error; };
struct PJRT_Error_Message_Args { PJRT_HEAD const PJRT_Error* error; const char* message; size_t
  message_size; };
struct PJRT_Error_GetCode_Args { PJRT_HEAD const PJRT_Error* error; PJRT_Error_Code code; };
struct PJRT_Plugin_Initialize_Args { PJRT_HEAD  };
struct PJRT_Plugin_Attributes_Args { PJRT_HEAD const PJRT_NamedValue* attributes; size_t num_attributes; };
struct PJRT_Event_Destroy_Args { PJRT_HEAD PJRT_Event* event; };
struct PJRT_Event_IsReady_Args { PJRT_HEAD PJRT_Event* event; bool is_ready; };
struct PJRT_Event_Error_Args { PJRT_HEAD PJRT_Event* event; };
struct PJRT_Event_Await_Args { PJRT_HEAD PJRT_Event* event; };
struct PJRT_Event_OnReady_Args { PJRT_HEAD PJRT_Event* event; PJRT_Event_OnReadyCallback callback; void*
  user_arg; };
struct PJRT_Client_Create_Args { PJRT_HEAD const PJRT_NamedValue* create_options; size_t num_options; void*
  kv_get_callback; void* kv_get_user_arg; void* kv_put_callback; void* kv_put_user_arg; PJRT_Client* client;
  void* kv_try_get_callback; void* kv_try_get_user_arg; };
struct PJRT_Client_Destroy_Args { PJRT_HEAD PJRT_Client* client; };
struct PJRT_Client_PlatformName_Args { PJRT_HEAD PJRT_Client* client; const char* platform_name; size_t
  platform_name_size; };
struct PJRT_Client_ProcessIndex_Args { PJRT_HEAD PJRT_Client* client; int process_index; };
struct PJRT_Client_PlatformVersion_Args { PJRT_HEAD PJRT_Client* client; const char* platform_version;
  size_t platform_version_size; };
struct PJRT_Client_Devices_Args { PJRT_HEAD PJRT_Client* client; PJRT_Device* const* devices; size_t
  num_devices; };
struct PJRT_Client_AddressableDevices_Args { PJRT_HEAD PJRT_Client* client; PJRT_Device* const*
  addressable_devices; size_t num_addressable_devices; };
struct PJRT_Client_LookupDevice_Args { PJRT_HEAD PJRT_Client* client; int id; PJRT_Device* device; };
struct PJRT_Client_LookupAddressableDevice_Args { PJRT_HEAD PJRT_Client* client; int local_hardware_id;
  PJRT_Device* addressable_device; };
struct PJRT_Client_AddressableMemories_Args { PJRT_HEAD PJRT_Client* client; PJRT_Memory* const*
  addressable_memories; size_t num_addressable_memories; };
struct PJRT_Client_Compile_Args { PJRT_HEAD PJRT_Client* client; const PJRT_Program* program; const char*
  compile_options; size_t compile_options_size; PJRT_LoadedExecutable* executable; };
struct PJRT_Client_DefaultDeviceAssignment_Args { PJRT_HEAD PJRT_Client* client; int num_replicas; int
  num_partitions; size_t default_assignment_size; int* default_assignment; };
struct PJRT_Client_BufferFromHostBuffer_Args { PJRT_HEAD PJRT_Client* client; const void* data;
  PJRT_Buffer_Type type; const int64_t* dims; size_t num_dims; const int64_t* byte_strides; size_t
  num_byte_strides; PJRT_HostBufferSemantics host_buffer_semantics; PJRT_Device* device; PJRT_Memory*
  memory; PJRT_Buffer_MemoryLayout* device_layout; PJRT_Event* done_with_host_buffer; PJRT_Buffer* buffer;
  };
struct PJRT_Client_TopologyDescription_Args { PJRT_HEAD PJRT_Client* client; PJRT_TopologyDescription*
  topology; };
struct PJRT_Client_CreateUninitializedBuffer_Args { PJRT_HEAD PJRT_Client* client; const int64_t*
  shape_dims; size_t shape_num_dims; PJRT_Buffer_Type shape_element_type; PJRT_Buffer_MemoryLayout*
  shape_layout; PJRT_Device* device; PJRT_Memory* memory; PJRT_Buffer* buffer; };
struct PJRT_DeviceDescription_Id_Args { PJRT_HEAD PJRT_DeviceDescription* device_description; int id; };
struct PJRT_DeviceDescription_ProcessIndex_Args { PJRT_HEAD PJRT_DeviceDescription* device_description; int
  process_index; };
struct PJRT_DeviceDescription_Attributes_Args { PJRT_HEAD PJRT_DeviceDescription* device_description; size_t
  num_attributes; const PJRT_NamedValue* attributes; };
struct PJRT_DeviceDescription_Kind_Args { PJRT_HEAD PJRT_DeviceDescription* device_description; const char*
  device_kind; size_t device_kind_size; };
struct PJRT_DeviceDescription_DebugString_Args { PJRT_HEAD PJRT_DeviceDescription* device_description; const
  char* debug_string; size_t debug_string_size; };
struct PJRT_DeviceDescription_ToString_Args { PJRT_HEAD PJRT_DeviceDescription* device_description; const
  char* to_string; size_t to_string_size; };
struct PJRT_Device_GetDescription_Args { PJRT_HEAD PJRT_Device* device; PJRT_DeviceDescription*
  device_description; };
struct PJRT_Device_IsAddressable_Args { PJRT_HEAD PJRT_Device* device; bool is_addressable; };
struct PJRT_Device_LocalHardwareId_Args { PJRT_HEAD PJRT_Device* device; int local_hardware_id; };
struct PJRT_Device_AddressableMemories_Args { PJRT_HEAD PJRT_Device* device; PJRT_Memory* const* memories;
  size_t num_memories; };
struct PJRT_Device_DefaultMemory_Args { PJRT_HEAD PJRT_Device* device; PJRT_Memory* memory; };
struct PJRT_Device_MemoryStats_Args { PJRT_HEAD PJRT_Device* device; int64_t bytes_in_use; int64_t
  peak_bytes_in_use; bool peak_bytes_in_use_is_set; int64_t num_allocs; bool num_allocs_is_set; int64_t
  largest_alloc_size; bool largest_alloc_size_is_set; int64_t bytes_limit; bool bytes_limit_is_set; int64_t
  bytes_reserved; bool bytes_reserved_is_set; int64_t peak_bytes_reserved; bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit; bool bytes_reservable_limit_is_set; int64_t largest_free_block_bytes; bool
  largest_free_block_bytes_is_set; int64_t pool_bytes; bool pool_bytes_is_set; int64_t peak_pool_bytes; bool
  peak_pool_bytes_is_set; };
struct PJRT_Memory_Id_Args { PJRT_HEAD PJRT_Memory* memory; int id; };
struct PJRT_Memory_Kind_Args { PJRT_HEAD PJRT_Memory* memory; const char* kind; size_t kind_size; };
struct PJRT_Memory_Kind_Id_Args { PJRT_HEAD PJRT_Memory* memory; int kind_id; };
struct PJRT_Memory_DebugString_Args { PJRT_HEAD PJRT_Memory* memory; const char* debug_string; size_t
  debug_string_size; };
struct PJRT_Memory_ToString_Args { PJRT_HEAD PJRT_Memory* memory; const char* to_string; size_t
  to_string_size; };
struct PJRT_Memory_AddressableByDevices_Args { PJRT_HEAD PJRT_Memory* memory; PJRT_Device* const* devices;
  size_t num_devices; };
struct PJRT_Executable_Destroy_Args { PJRT_HEAD PJRT_Executable* executable; };
struct PJRT_Executable_Name_Args { PJRT_HEAD PJRT_Executable* executable; const char* executable_name;
  size_t executable_name_size; };
struct PJRT_Executable_NumReplicas_Args { PJRT_HEAD PJRT_Executable* executable; size_t num_replicas; };
struct PJRT_Executable_NumPartitions_Args { PJRT_HEAD PJRT_Executable* executable; size_t num_partitions; };
struct PJRT_Executable_NumOutputs_Args { PJRT_HEAD PJRT_Executable* executable; size_t num_outputs; };
struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args { PJRT_HEAD PJRT_Executable* executable; int64_t
  size_in_bytes; };
struct PJRT_Executable_GetCostAnalysis_Args { PJRT_HEAD PJRT_Executable* executable; size_t num_properties;
  const PJRT_NamedValue* properties; };
struct PJRT_Executable_OutputMemoryKinds_Args { PJRT_HEAD PJRT_Executable* executable; size_t num_outputs;
  const char* const* memory_kinds; const size_t* memory_kind_sizes; };
struct PJRT_Executable_OptimizedProgram_Args { PJRT_HEAD PJRT_Executable* executable; PJRT_Program* program;
  };
struct PJRT_Executable_Serialize_Args { PJRT_HEAD const PJRT_Executable* executable; const char*
  serialized_bytes; size_t serialized_bytes_size; PJRT_SerializedExecutable* serialized_executable; void
  (*serialized_executable_deleter)( PJRT_SerializedExecutable* exec); };
struct PJRT_Executable_OutputElementTypes_Args { PJRT_HEAD PJRT_Executable* executable; PJRT_Buffer_Type*
  output_types; size_t num_output_types; };
struct PJRT_Executable_OutputDimensions_Args { PJRT_HEAD PJRT_Executable* executable; size_t num_outputs;
  const int64_t* dims; const size_t* dim_sizes; };
struct PJRT_Executable_Fingerprint_Args { PJRT_HEAD PJRT_Executable* executable; const char*
  executable_fingerprint; size_t executable_fingerprint_size; };
struct PJRT_Executable_GetCompiledMemoryStats_Args { PJRT_HEAD PJRT_Executable* executable; int64_t
  generated_code_size_in_bytes; int64_t argument_size_in_bytes; int64_t output_size_in_bytes; int64_t
  alias_size_in_bytes; int64_t temp_size_in_bytes; int64_t host_generated_code_size_in_bytes; int64_t
  host_argument_size_in_bytes; int64_t host_output_size_in_bytes; int64_t host_alias_size_in_bytes; int64_t
  host_temp_size_in_bytes; int64_t peak_memory_in_bytes; int64_t total_size_in_bytes; };
struct PJRT_Executable_GetCompileOptions_Args { PJRT_HEAD PJRT_Executable* executable; const char*
  serialized_bytes; size_t serialized_bytes_size; PJRT_SerializedCompileOptions* serialized_compile_options;
  void (*serialized_compile_options_deleter)( PJRT_SerializedCompileOptions* options); };
struct PJRT_Executable_DeserializeAndLoad_Args { PJRT_HEAD PJRT_Client* client; const char*
  serialized_executable; size_t serialized_executable_size; PJRT_LoadedExecutable* loaded_executable; const
  char* overridden_serialized_compile_options; size_t overridden_serialized_compile_options_size; };
struct PJRT_LoadedExecutable_Destroy_Args { PJRT_HEAD PJRT_LoadedExecutable* executable; };
struct PJRT_LoadedExecutable_GetExecutable_Args { PJRT_HEAD PJRT_LoadedExecutable* loaded_executable;
  PJRT_Executable* executable; };
struct PJRT_LoadedExecutable_AddressableDevices_Args { PJRT_HEAD PJRT_LoadedExecutable* executable;
  PJRT_Device* const* addressable_devices; size_t num_addressable_devices; };
struct PJRT_LoadedExecutable_Delete_Args { PJRT_HEAD PJRT_LoadedExecutable* executable; };
struct PJRT_LoadedExecutable_IsDeleted_Args { PJRT_HEAD PJRT_LoadedExecutable* executable; bool is_deleted;
  };
struct PJRT_LoadedExecutable_Execute_Args { PJRT_HEAD PJRT_LoadedExecutable* executable;
  PJRT_ExecuteOptions* options; PJRT_Buffer* const* const* argument_lists; size_t num_devices; size_t
  num_args; PJRT_Buffer** const* output_lists; PJRT_Event** device_complete_events; PJRT_Device*
  execute_device; };
struct PJRT_LoadedExecutable_Fingerprint_Args { PJRT_HEAD PJRT_LoadedExecutable* executable; const char*
  executable_fingerprint; size_t executable_fingerprint_size; };
struct PJRT_LoadedExecutable_GetDeviceAssignment_Args { PJRT_HEAD PJRT_LoadedExecutable* executable; const
  char* serialized_bytes; size_t serialized_bytes_size; PJRT_DeviceAssignmentSerialized*
  serialized_device_assignment; void (*serialized_device_assignment_deleter)(
  PJRT_DeviceAssignmentSerialized* da); };
struct PJRT_Buffer_Destroy_Args { PJRT_HEAD PJRT_Buffer* buffer; };
struct PJRT_Buffer_ElementType_Args { PJRT_HEAD PJRT_Buffer* buffer; PJRT_Buffer_Type type; };
struct PJRT_Buffer_Dimensions_Args { PJRT_HEAD PJRT_Buffer* buffer; const int64_t* dims; size_t num_dims; };
struct PJRT_Buffer_UnpaddedDimensions_Args { PJRT_HEAD PJRT_Buffer* buffer; const int64_t* unpadded_dims;
  size_t num_dims; };
struct PJRT_Buffer_DynamicDimensionIndices_Args { PJRT_HEAD PJRT_Buffer* buffer; const size_t*
  dynamic_dim_indices; size_t num_dynamic_dims; };
struct PJRT_Buffer_GetMemoryLayout_Args { PJRT_HEAD PJRT_Buffer* buffer; PJRT_Buffer_MemoryLayout layout; };
struct PJRT_Buffer_OnDeviceSizeInBytes_Args { PJRT_HEAD PJRT_Buffer* buffer; size_t on_device_size_in_bytes;
  };
struct PJRT_Buffer_Device_Args { PJRT_HEAD PJRT_Buffer* buffer; PJRT_Device* device; };
struct PJRT_Buffer_Memory_Args { PJRT_HEAD PJRT_Buffer* buffer; PJRT_Memory* memory; };
struct PJRT_Buffer_Delete_Args { PJRT_HEAD PJRT_Buffer* buffer; };
struct PJRT_Buffer_IsDeleted_Args { PJRT_HEAD PJRT_Buffer* buffer; bool is_deleted; };
struct PJRT_Buffer_CopyToDevice_Args { PJRT_HEAD PJRT_Buffer* buffer; PJRT_Device* dst_device; PJRT_Buffer*
  dst_buffer; };
struct PJRT_Buffer_CopyToMemory_Args { PJRT_HEAD PJRT_Buffer* buffer; PJRT_Memory* dst_memory; PJRT_Buffer*
  dst_buffer; };
struct PJRT_Buffer_ToHostBuffer_Args { PJRT_HEAD PJRT_Buffer* src; PJRT_Buffer_MemoryLayout* host_layout;
  void* dst; size_t dst_size; PJRT_Event* event; };
struct PJRT_Buffer_CopyRawToHost_Args { PJRT_HEAD PJRT_Buffer* buffer; void* dst; int64_t offset; int64_t
  transfer_size; PJRT_Event* event; };
struct PJRT_Buffer_IsOnCpu_Args { PJRT_HEAD PJRT_Buffer* buffer; bool is_on_cpu; };
struct PJRT_Buffer_ReadyEvent_Args { PJRT_HEAD PJRT_Buffer* buffer; PJRT_Event* event; };
struct PJRT_Buffer_UnsafePointer_Args { PJRT_HEAD PJRT_Buffer* buffer; uintptr_t buffer_pointer; };
struct PJRT_Buffer_IncreaseExternalReferenceCount_Args { PJRT_HEAD PJRT_Buffer* buffer; };
struct PJRT_Buffer_DecreaseExternalReferenceCount_Args { PJRT_HEAD PJRT_Buffer* buffer; };
struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args { PJRT_HEAD PJRT_Buffer* buffer; void*
  device_memory_ptr; };
struct PJRT_TopologyDescription_Destroy_Args { PJRT_HEAD PJRT_TopologyDescription* topology; };
struct PJRT_TopologyDescription_PlatformName_Args { PJRT_HEAD const PJRT_TopologyDescription* topology;
  const char* platform_name; size_t platform_name_size; };
struct PJRT_TopologyDescription_PlatformVersion_Args { PJRT_HEAD PJRT_TopologyDescription* topology; const
  char* platform_version; size_t platform_version_size; };
struct PJRT_TopologyDescription_GetDeviceDescriptions_Args { PJRT_HEAD const PJRT_TopologyDescription*
  topology; PJRT_DeviceDescription* const* descriptions; size_t num_descriptions; };
struct PJRT_TopologyDescription_Attributes_Args { PJRT_HEAD PJRT_TopologyDescription* topology; const
  PJRT_NamedValue* attributes; size_t num_attributes; };
struct PJRT_ExecuteContext_Create_Args { PJRT_HEAD PJRT_ExecuteContext* context; };
struct PJRT_ExecuteContext_Destroy_Args { PJRT_HEAD PJRT_ExecuteContext* context; };
// The extension "shardings": a serialized OpSharding for each argument and result.
#define PJRT_Extension_Type_Shardings 19
typedef struct PJRT_Shardings_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_values;
  const char* const* shardings;
  const size_t* sharding_sizes;
} PJRT_Shardings_Args;
typedef struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*parameter_shardings)(PJRT_Shardings_Args*);
  PJRT_Error* (*output_shardings)(PJRT_Shardings_Args*);
} PJRT_Shardings_Extension;

// The extension "layouts": layouts as XLA's text, such as "{1,0}". Those of executables belong to them.
#define PJRT_Extension_Type_Layouts 4
struct PJRT_Layouts_MemoryLayout_Destroy_Args { PJRT_HEAD PJRT_Layouts_MemoryLayout* layout; };
struct PJRT_Layouts_MemoryLayout_Serialize_Args { PJRT_HEAD PJRT_Layouts_MemoryLayout* layout; const char*
  serialized_bytes; size_t serialized_bytes_size; PJRT_Layouts_SerializedLayout* serialized_layout; void
  (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout* layout); };
struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args { PJRT_HEAD PJRT_Client* client; PJRT_Buffer_Type type;
  const int64_t* dims; size_t num_dims; PJRT_Layouts_MemoryLayout* layout; };
struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args { PJRT_HEAD PJRT_Buffer* buffer; PJRT_Layouts_MemoryLayout*
  layout; };
struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args { PJRT_HEAD PJRT_TopologyDescription*
  topology_description; PJRT_Buffer_Type type; const int64_t* dims; size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout; };
// Of results, or of arguments.
struct PJRT_Layouts_PJRT_Executable_Args { PJRT_HEAD PJRT_Executable* executable; size_t num_values;
  PJRT_Layouts_MemoryLayout** layouts; };
typedef struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*destroy)(PJRT_Layouts_MemoryLayout_Destroy_Args*);
  PJRT_Error* (*serialize)(PJRT_Layouts_MemoryLayout_Serialize_Args*);
  PJRT_Error* (*of_client)(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args*);
  PJRT_Error* (*of_buffer)(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args*);
  PJRT_Error* (*of_topology)(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args*);
  PJRT_Error* (*of_outputs)(PJRT_Layouts_PJRT_Executable_Args*);
  PJRT_Error* (*of_parameters)(PJRT_Layouts_PJRT_Executable_Args*);
} PJRT_Layouts_Extension;

// All functions, in the order of the table. PJRT_Error_Destroy and PJRT_Error_Message return nothing.
#define PJRT_FUNCTIONS(X) \
  X(Error_Destroy) X(Error_Message) X(Error_GetCode) X(Plugin_Initialize) X(Plugin_Attributes) \
  X(Event_Destroy) X(Event_IsReady) X(Event_Error) X(Event_Await) X(Event_OnReady) X(Client_Create) \
  X(Client_Destroy) X(Client_PlatformName) X(Client_ProcessIndex) X(Client_PlatformVersion) \
  X(Client_Devices) X(Client_AddressableDevices) X(Client_LookupDevice) \
  X(Client_LookupAddressableDevice) X(Client_AddressableMemories) X(Client_Compile) \
  X(Client_DefaultDeviceAssignment) X(Client_BufferFromHostBuffer) X(DeviceDescription_Id) \
  X(DeviceDescription_ProcessIndex) X(DeviceDescription_Attributes) X(DeviceDescription_Kind) \
  X(DeviceDescription_DebugString) X(DeviceDescription_ToString) X(Device_GetDescription) \
  X(Device_IsAddressable) X(Device_LocalHardwareId) X(Device_AddressableMemories) \
  X(Device_DefaultMemory) X(Device_MemoryStats) X(Memory_Id) X(Memory_Kind) X(Memory_DebugString) \
  X(Memory_ToString) X(Memory_AddressableByDevices) X(Executable_Destroy) X(Executable_Name) \
  X(Executable_NumReplicas) X(Executable_NumPartitions) X(Executable_NumOutputs) \
  X(Executable_SizeOfGeneratedCodeInBytes) X(Executable_GetCostAnalysis) \
  X(Executable_OutputMemoryKinds) X(Executable_OptimizedProgram) X(Executable_Serialize) \
  X(LoadedExecutable_Destroy) X(LoadedExecutable_GetExecutable) \
  X(LoadedExecutable_AddressableDevices) X(LoadedExecutable_Delete) X(LoadedExecutable_IsDeleted) \
  X(LoadedExecutable_Execute) X(Executable_DeserializeAndLoad) X(LoadedExecutable_Fingerprint) \
  X(Buffer_Destroy) X(Buffer_ElementType) X(Buffer_Dimensions) X(Buffer_UnpaddedDimensions) \
  X(Buffer_DynamicDimensionIndices) X(Buffer_GetMemoryLayout) X(Buffer_OnDeviceSizeInBytes) \
  X(Buffer_Device) X(Buffer_Memory) X(Buffer_Delete) X(Buffer_IsDeleted) X(Buffer_CopyToDevice) \
  X(Buffer_ToHostBuffer) X(Buffer_IsOnCpu) X(Buffer_ReadyEvent) X(Buffer_UnsafePointer) \
  X(Buffer_IncreaseExternalReferenceCount) X(Buffer_DecreaseExternalReferenceCount) \
  X(Buffer_OpaqueDeviceMemoryDataPointer) X(CopyToDeviceStream_Destroy) \
  X(CopyToDeviceStream_AddChunk) X(CopyToDeviceStream_TotalBytes) X(CopyToDeviceStream_GranuleSize) \
  X(CopyToDeviceStream_CurrentBytes) X(TopologyDescription_Create) X(TopologyDescription_Destroy) \
  X(TopologyDescription_PlatformName) X(TopologyDescription_PlatformVersion) \
  X(TopologyDescription_GetDeviceDescriptions) X(TopologyDescription_Serialize) \
  X(TopologyDescription_Attributes) X(Compile) X(Executable_OutputElementTypes) \
  X(Executable_OutputDimensions) X(Buffer_CopyToMemory) X(Client_CreateViewOfDeviceBuffer) \
  X(Executable_Fingerprint) X(Client_TopologyDescription) X(Executable_GetCompiledMemoryStats) \
  X(Memory_Kind_Id) X(ExecuteContext_Create) X(ExecuteContext_Destroy) X(Buffer_CopyRawToHost) \
  X(AsyncHostToDeviceTransferManager_Destroy) X(AsyncHostToDeviceTransferManager_TransferData) \
  X(Client_CreateBuffersForAsyncHostToDevice) X(AsyncHostToDeviceTransferManager_RetrieveBuffer) \
  X(AsyncHostToDeviceTransferManager_Device) X(AsyncHostToDeviceTransferManager_BufferCount) \
  X(AsyncHostToDeviceTransferManager_BufferSize) X(AsyncHostToDeviceTransferManager_SetBufferError) \
  X(AsyncHostToDeviceTransferManager_AddMetadata) X(Client_DmaMap) X(Client_DmaUnmap) \
  X(Client_CreateUninitializedBuffer) X(Client_UpdateGlobalProcessInfo) \
  X(TopologyDescription_Deserialize) X(Client_CreateAliasBuffer) X(Client_FulfillAliasBuffer) \
  X(LoadedExecutable_GetDeviceAssignment) X(Client_CreateErrorBuffer) \
  X(AsyncHostToDeviceTransferManager_TransferLiteral) X(Buffer_CopyRawToHostFuture) \
  X(Device_PoisonExecution) X(Device_CreateAsyncTrackingEvent) X(AsyncTrackingEvent_Destroy) \
  X(Executable_GetCompileOptions) X(Buffer_DonateWithControlDependency) X(Event_Create) X(Event_Set)

// clang-format on
enum PJRT_Function {
#define PJRT_FUNCTION_INDEX(name) PJRT_Function_##name,
  PJRT_FUNCTIONS(PJRT_FUNCTION_INDEX)
#undef PJRT_FUNCTION_INDEX
      PJRT_Function_count
};

typedef void (*PJRT_AnyFunction)(void);
typedef struct PJRT_Api {
  PJRT_HEAD
  PJRT_Api_Version pjrt_api_version;
  PJRT_AnyFunction functions[PJRT_Function_count];
} PJRT_Api;

} // extern "C"
