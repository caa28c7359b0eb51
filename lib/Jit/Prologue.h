#pragma once
// The device headers (lib/Jit/Device/*.h), embedded at build time: what generated source may use.
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

struct DeviceFile {
  std::string_view name; // "cpu.h"
  std::string_view text;
};
[[nodiscard]] std::span<const DeviceFile> deviceFiles(); // generated

// What is put before units for one compiler. Reading a header costs a compiler time in every translation unit (all of them together
// a third of a small kernel's), so those of whole families (attention, sorts, ...) stand there only where their names are used.
class Prologue {
public:
  // Device headers in their order, behind `begin`.
  Prologue(std::string_view begin, std::initializer_list<std::string_view> files);
  [[nodiscard]] std::string whole() const;
  // What units of these texts need of it.
  [[nodiscard]] std::string of(std::span<const std::string_view> units) const;

private:
  using Names = std::set<std::string_view>;
  struct Part {
    std::string_view name, text;
    bool always = true;
    Names uses, gives; // names that begin with dtc_: in it; in none before it
  };
  std::string_view begin_;
  std::vector<Part> parts_;
};

[[nodiscard]] const Prologue& cpuPrologue();
[[nodiscard]] const Prologue& cudaPrologue();
[[nodiscard]] const Prologue& emuPrologue();

} // namespace dtc
