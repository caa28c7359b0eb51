// The extension "layouts". Without it, the loader parses the program of each executable to find layouts.
//
// The elements of all buffers are row-major. As its memory kind, the layout of a buffer is a name that it has: the
// user chooses it, and copies to the host have it.
#include "Objects.h"

#include <map>
#include <mutex>
#include <numeric>
#include <span>

namespace dtc {

namespace {

std::string textOf(std::span<const int64_t> minorToMajor) {
  std::string text = "{";
  for (int64_t d : minorToMajor) text += (text.size() > 1 ? "," : "") + std::to_string(d);
  return text + "}";
}

PJRT_Error* serialize(PJRT_Layouts_MemoryLayout_Serialize_Args* a) {
  give(a->layout->text, a->serialized_bytes, a->serialized_bytes_size);
  a->serialized_layout = nullptr; // the layout's
  a->serialized_layout_deleter = +[](PJRT_Layouts_SerializedLayout*) {};
  return nullptr;
}

template <class Args> PJRT_Error* ofDims(Args* a) {
  std::vector<int64_t> rowMajor(a->num_dims);
  std::iota(rowMajor.rbegin(), rowMajor.rend(), 0);
  a->layout = layoutOf(rowMajor);
  return nullptr;
}

PJRT_Error* ofBuffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* a) {
  a->layout = layoutOf(a->buffer->minorToMajor);
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

PJRT_Layouts_MemoryLayout* layoutOf(std::span<const int64_t> minorToMajor) {
  static std::mutex mutex;
  static std::map<std::string, PJRT_Layouts_MemoryLayout> layouts;
  const std::string text = textOf(minorToMajor);
  const std::lock_guard lock(mutex);
  return &layouts.try_emplace(text, PJRT_Layouts_MemoryLayout{text}).first->second;
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
