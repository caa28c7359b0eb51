// The extension "layouts". Without it, the loader parses the program of each executable to find layouts.
#include "Objects.h"

#include <map>
#include <mutex>

namespace dtc {

namespace {

std::string rowMajor(size_t rank) {
  std::string text = "{";
  for (size_t d = rank; d-- > 0;) text += std::to_string(d) + (d ? "," : "");
  return text + "}";
}

PJRT_Error* serialize(PJRT_Layouts_MemoryLayout_Serialize_Args* a) {
  give(a->layout->text, a->serialized_bytes, a->serialized_bytes_size);
  a->serialized_layout = nullptr; // the layout's
  a->serialized_layout_deleter = +[](PJRT_Layouts_SerializedLayout*) {};
  return nullptr;
}

template <class Args> PJRT_Error* ofDims(Args* a) {
  a->layout = layoutOf(a->num_dims);
  return nullptr;
}

PJRT_Error* ofBuffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* a) {
  a->layout = layoutOf(a->buffer->dims.size());
  return nullptr;
}

template <std::vector<PJRT_Layouts_MemoryLayout*> CompiledPjrt::* layouts>
PJRT_Error* ofExecutable(PJRT_Layouts_PJRT_Executable_Args* a) {
  auto& all = a->executable->compiled.get()->*layouts;
  a->num_values = all.size();
  a->layouts = all.data();
  return nullptr;
}

} // namespace

PJRT_Layouts_MemoryLayout* layoutOf(size_t rank) {
  static std::mutex mutex;
  static std::map<size_t, PJRT_Layouts_MemoryLayout> layouts;
  const std::lock_guard lock(mutex);
  return &layouts.try_emplace(rank, PJRT_Layouts_MemoryLayout{rowMajor(rank)}).first->second;
}

PJRT_Extension_Base* layoutsExtension() {
  static PJRT_Layouts_Extension extension{
      {sizeof(PJRT_Layouts_Extension), PJRT_Extension_Type_Layouts, nullptr},
      +[](PJRT_Layouts_MemoryLayout_Destroy_Args*) -> PJRT_Error* { return nullptr; },
      serialize,
      ofDims<PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args>,
      ofBuffer,
      ofDims<PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args>,
      ofExecutable<&CompiledPjrt::resultLayouts>,
      ofExecutable<&CompiledPjrt::argumentLayouts>};
  return &extension.base;
}

} // namespace dtc
