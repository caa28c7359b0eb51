#include "Prologue.h"
#include "dtc/Support/Result.h"
#include <initializer_list>

namespace dtc {
namespace {

std::string join(std::initializer_list<std::string_view> names) {
  std::string out;
  for (std::string_view name : names) {
    bool found = false;
    for (const DeviceFile& file : deviceFiles())
      if (file.name == name) {
        out.append("#line 1 \"").append(name).append("\"\n").append(file.text);
        found = true;
      }
    DTC_CHECK(found, "a device header is not embedded");
  }
  return out;
}

} // namespace

std::string cpuPrologue() {
  return join({"types.h", "core.h", "math.h", "ops.h", "special.h", "cpu.h", "planes.h", "lanes.h",
               "attention.h", "sort.h"});
}
std::string cudaPrologue() {
  return join({"types.h", "cuda.h", "core.h", "ops.h", "special.h", "device.h", "rows.h", "columns.h",
               "scan.h", "attention_block.h", "attention_tensor.h", "attention_gradient.h",
               "attention_gradient_block.h", "grouped_block.h", "sort_block.h"});
}
std::string emuPrologue() {
  return "#define DTC_EMULATED\n" +
         join({"types.h", "core.h", "math.h", "ops.h", "special.h", "emu.h", "device.h", "rows.h",
               "columns.h", "scan.h", "attention_block.h", "attention_tensor.h", "attention_gradient.h",
               "attention_gradient_block.h", "grouped_block.h", "sort_block.h"});
}

} // namespace dtc
