// Buffers: dense, row-major host memory.
#include "Objects.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

namespace dtc {

namespace {

std::shared_ptr<std::byte[]> allocate(size_t bytes) {
  constexpr std::align_val_t alignment{64};
  auto* data = static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), alignment));
  return {data, [](std::byte* p) { ::operator delete(p, alignment); }};
}

// Strides in bytes of a layout that lists dims from minor to major.
std::vector<int64_t> stridesOf(std::span<const int64_t> minorToMajor, std::span<const int64_t> dims,
                               size_t elementBytes) {
  std::vector<int64_t> strides(dims.size());
  auto step = static_cast<int64_t>(elementBytes);
  for (int64_t d : minorToMajor) {
    strides[static_cast<size_t>(d)] = step;
    step *= dims[static_cast<size_t>(d)];
  }
  return strides;
}

bool isRowMajor(std::span<const int64_t> strides, std::span<const int64_t> dims, size_t elementBytes) {
  auto step = static_cast<int64_t>(elementBytes);
  for (size_t d = dims.size(); d-- > 0; step *= dims[d])
    if (dims[d] != 1 && strides[d] != step) return false;
  return true;
}

// Copies between row-major and strided memory, in the order of the row-major side.
template <class Copy>
void forEachElement(std::span<const int64_t> dims, std::span<const int64_t> strides, Copy copy) {
  std::vector<int64_t> index(dims.size());
  int64_t offset = 0;
  for (size_t n = countOf(dims), i = 0; i < n; ++i) {
    copy(i, offset);
    for (size_t d = dims.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < dims[d]) break;
      offset -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
}

PJRT_Error* requireAlive(const PJRT_Buffer& b) {
  return b.deleted ? pjrtError(PJRT_Error_Code_INVALID_ARGUMENT, "the buffer has been deleted or donated")
                   : nullptr;
}

// Integers of 2 and 4 bits, a byte each, whose upper bits the host does not define.
void defineUpperBits(const ElementType& element, std::span<std::byte> bytes) {
  const int bits = element.hlo.ends_with("i4") ? 4 : element.hlo.ends_with("i2") ? 2 : 8;
  if (bits == 8) return;
  for (std::byte& b : bytes) {
    const auto low = static_cast<uint8_t>(static_cast<uint8_t>(b) << (8 - bits));
    b = element.held == DType::I8 ? static_cast<std::byte>(static_cast<int8_t>(low) >> (8 - bits))
                                  : static_cast<std::byte>(low >> (8 - bits));
  }
}

// The layout that the user wants.
void setLayout(PJRT_Buffer& b, const PJRT_Buffer_MemoryLayout* layout) {
  if (!layout || layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled ||
      layout->tiled.minor_to_major_size != b.dims.size())
    return;
  const std::span<const int64_t> given(layout->tiled.minor_to_major, b.dims.size());
  if (std::ranges::is_permutation(given, b.minorToMajor)) b.minorToMajor.assign(given.begin(), given.end());
}

PJRT_Error* fromHost(PJRT_Client_BufferFromHostBuffer_Args* a) {
  const ElementType* element = findElementType(a->type);
  if (!element)
    return pjrtError(PJRT_Error_Code_UNIMPLEMENTED,
                     "dtc has no element type " + std::to_string(a->type) + " of PJRT");
  const std::span<const int64_t> dims(a->dims, a->num_dims);
  auto b = makeBuffer(a->type, dims, a->memory ? a->memory : a->device->memory);
  const std::span<const int64_t> strides(a->byte_strides, a->num_byte_strides);
  const auto* from = static_cast<const std::byte*>(a->data);
  if (b->bytes && (strides.empty() || isRowMajor(strides, dims, element->bytes)))
    std::memcpy(b->data.get(), from, b->bytes);
  else if (b->bytes)
    forEachElement(dims, strides, [&](size_t i, int64_t offset) {
      std::memcpy(b->data.get() + i * element->bytes, from + offset, element->bytes);
    });
  defineUpperBits(*element, {b->data.get(), b->bytes});
  setLayout(*b, a->device_layout);
  a->buffer = b.release();
  a->done_with_host_buffer = new PJRT_Event;
  return nullptr;
}

PJRT_Error* uninitialized(PJRT_Client_CreateUninitializedBuffer_Args* a) {
  if (!findElementType(a->shape_element_type))
    return pjrtError(PJRT_Error_Code_UNIMPLEMENTED, "dtc does not have this element type");
  auto b = makeBuffer(a->shape_element_type, {a->shape_dims, a->shape_num_dims},
                      a->memory ? a->memory : a->device->memory);
  std::memset(b->data.get(), 0, b->bytes);
  setLayout(*b, a->shape_layout);
  a->buffer = b.release();
  return nullptr;
}

PJRT_Error* toHost(PJRT_Buffer_ToHostBuffer_Args* a) {
  const PJRT_Buffer& b = *a->src;
  if (PJRT_Error* e = requireAlive(b)) return e;
  if (!a->dst) {
    a->dst_size = b.bytes;
    return nullptr;
  }
  if (a->dst_size < b.bytes)
    return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT, "the destination is smaller than the buffer");
  const size_t elementBytes = findElementType(b.type)->bytes;
  std::vector<int64_t> strides = stridesOf(b.minorToMajor, b.dims, elementBytes);
  if (const PJRT_Buffer_MemoryLayout* layout = a->host_layout) {
    if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides)
      strides.assign(layout->strides.byte_strides,
                     layout->strides.byte_strides + layout->strides.num_byte_strides);
    else if (layout->tiled.minor_to_major_size == b.dims.size())
      strides = stridesOf({layout->tiled.minor_to_major, b.dims.size()}, b.dims, elementBytes);
  }
  auto* to = static_cast<std::byte*>(a->dst);
  if (b.bytes && isRowMajor(strides, b.dims, elementBytes))
    std::memcpy(to, b.data.get(), b.bytes);
  else if (b.bytes)
    forEachElement(b.dims, strides, [&](size_t i, int64_t offset) {
      std::memcpy(to + offset, b.data.get() + i * elementBytes, elementBytes);
    });
  a->event = new PJRT_Event;
  return nullptr;
}

PJRT_Error* copyRaw(PJRT_Buffer_CopyRawToHost_Args* a) {
  const PJRT_Buffer& b = *a->buffer;
  if (PJRT_Error* e = requireAlive(b)) return e;
  if (a->offset < 0 || a->transfer_size < 0 || static_cast<uint64_t>(a->offset) > b.bytes ||
      static_cast<uint64_t>(a->transfer_size) > b.bytes - static_cast<uint64_t>(a->offset))
    return pjrtError(PJRT_Error_Code_INVALID_ARGUMENT, "the range is not within the buffer");
  std::memcpy(a->dst, b.data.get() + a->offset, static_cast<size_t>(a->transfer_size));
  a->event = new PJRT_Event;
  return nullptr;
}

// The elements are shared: no one writes to a buffer.
PJRT_Error* copyTo(PJRT_Buffer& b, PJRT_Memory* memory, PJRT_Buffer*& out) {
  if (PJRT_Error* e = requireAlive(b)) return e;
  auto copy = std::make_unique<PJRT_Buffer>();
  copy->type = b.type;
  copy->dims = b.dims;
  copy->minorToMajor = b.minorToMajor;
  copy->data = b.data;
  copy->bytes = b.bytes;
  copy->memory = memory;
  out = copy.release();
  return nullptr;
}

PJRT_Error* copyToDevice(PJRT_Buffer_CopyToDevice_Args* a) {
  return copyTo(*a->buffer, a->dst_device->memory, a->dst_buffer);
}
PJRT_Error* copyToMemory(PJRT_Buffer_CopyToMemory_Args* a) {
  return copyTo(*a->buffer, a->dst_memory, a->dst_buffer);
}

PJRT_Error* memoryLayout(PJRT_Buffer_GetMemoryLayout_Args* a) {
  a->layout = {};
  a->layout.struct_size = sizeof a->layout;
  a->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  a->layout.tiled = {};
  a->layout.tiled.struct_size = sizeof a->layout.tiled;
  a->layout.tiled.minor_to_major = a->buffer->minorToMajor.data();
  a->layout.tiled.minor_to_major_size = a->buffer->minorToMajor.size();
  return nullptr;
}

PJRT_Error* deleteOf(PJRT_Buffer_Delete_Args* a) {
  deleteBuffer(*a->buffer);
  return nullptr;
}

} // namespace

std::unique_ptr<PJRT_Buffer> makeBuffer(PJRT_Buffer_Type type, std::span<const int64_t> dims,
                                        PJRT_Memory* memory) {
  auto b = std::make_unique<PJRT_Buffer>();
  b->type = type;
  b->dims.assign(dims.begin(), dims.end());
  b->minorToMajor.resize(dims.size());
  std::iota(b->minorToMajor.rbegin(), b->minorToMajor.rend(), 0);
  b->bytes = countOf(dims) * findElementType(type)->bytes;
  b->data = allocate(b->bytes);
  b->memory = memory;
  return b;
}

void deleteBuffer(PJRT_Buffer& b) {
  b.deleted = true;
  if (b.externalReferences == 0) b.data.reset();
}

void addBufferFunctions(PJRT_Api& api) {
  set(api, PJRT_Function_Client_BufferFromHostBuffer, fromHost);
  set(api, PJRT_Function_Client_CreateUninitializedBuffer, uninitialized);
  set(api, PJRT_Function_Buffer_ToHostBuffer, toHost);
  set(api, PJRT_Function_Buffer_CopyRawToHost, copyRaw);
  set(api, PJRT_Function_Buffer_CopyToDevice, copyToDevice);
  set(api, PJRT_Function_Buffer_CopyToMemory, copyToMemory);
  set(api, PJRT_Function_Buffer_GetMemoryLayout, memoryLayout);
  set(api, PJRT_Function_Buffer_Delete, deleteOf);
  using E = PJRT_Error*;
  set(
      api, PJRT_Function_Buffer_Destroy,
      +[](PJRT_Buffer_Destroy_Args* a) -> E { return delete a->buffer, nullptr; });
  set(
      api, PJRT_Function_Buffer_ElementType,
      +[](PJRT_Buffer_ElementType_Args* a) -> E { return a->type = a->buffer->type, nullptr; });
  set(
      api, PJRT_Function_Buffer_Dimensions, +[](PJRT_Buffer_Dimensions_Args* a) -> E {
        a->dims = a->buffer->dims.data();
        a->num_dims = a->buffer->dims.size();
        return nullptr;
      });
  set(
      api, PJRT_Function_Buffer_UnpaddedDimensions, +[](PJRT_Buffer_UnpaddedDimensions_Args* a) -> E {
        a->unpadded_dims = a->buffer->dims.data();
        a->num_dims = a->buffer->dims.size();
        return nullptr;
      });
  set(
      api, PJRT_Function_Buffer_DynamicDimensionIndices,
      +[](PJRT_Buffer_DynamicDimensionIndices_Args* a) -> E {
        a->dynamic_dim_indices = nullptr;
        a->num_dynamic_dims = 0;
        return nullptr;
      });
  set(
      api, PJRT_Function_Buffer_OnDeviceSizeInBytes, +[](PJRT_Buffer_OnDeviceSizeInBytes_Args* a) -> E {
        return a->on_device_size_in_bytes = a->buffer->bytes, nullptr;
      });
  set(
      api, PJRT_Function_Buffer_Device,
      +[](PJRT_Buffer_Device_Args* a) -> E { return a->device = a->buffer->memory->device, nullptr; });
  set(
      api, PJRT_Function_Buffer_Memory,
      +[](PJRT_Buffer_Memory_Args* a) -> E { return a->memory = a->buffer->memory, nullptr; });
  set(
      api, PJRT_Function_Buffer_IsDeleted,
      +[](PJRT_Buffer_IsDeleted_Args* a) -> E { return a->is_deleted = a->buffer->deleted, nullptr; });
  set(
      api, PJRT_Function_Buffer_IsOnCpu,
      +[](PJRT_Buffer_IsOnCpu_Args* a) -> E { return a->is_on_cpu = true, nullptr; });
  set(
      api, PJRT_Function_Buffer_ReadyEvent,
      +[](PJRT_Buffer_ReadyEvent_Args* a) -> E { return a->event = new PJRT_Event, nullptr; });
  set(
      api, PJRT_Function_Buffer_UnsafePointer, +[](PJRT_Buffer_UnsafePointer_Args* a) -> E {
        a->buffer_pointer = reinterpret_cast<uintptr_t>(a->buffer->data.get());
        return nullptr;
      });
  set(
      api, PJRT_Function_Buffer_OpaqueDeviceMemoryDataPointer,
      +[](PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* a) -> E {
        return a->device_memory_ptr = a->buffer->data.get(), nullptr;
      });
  set(
      api, PJRT_Function_Buffer_IncreaseExternalReferenceCount,
      +[](PJRT_Buffer_IncreaseExternalReferenceCount_Args* a) -> E {
        return ++a->buffer->externalReferences, nullptr;
      });
  set(
      api, PJRT_Function_Buffer_DecreaseExternalReferenceCount,
      +[](PJRT_Buffer_DecreaseExternalReferenceCount_Args* a) -> E {
        return --a->buffer->externalReferences, nullptr;
      });
}

} // namespace dtc
