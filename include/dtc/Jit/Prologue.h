#pragma once
// The device headers (lib/Kernel/device/*.h), embedded at build time: the library of generated source.
#include "dtc/Support/EmbeddedFile.h"
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

[[nodiscard]] std::span<const EmbeddedFile> deviceFiles(); // generated

// The text prepended to units for one compiler. Parsing headers costs a compiler time in every translation
// unit (all of them together a third of a small kernel's), so those of entire families (attention, sorts,
// ...) are included only where their names are used.
class Prologue {
public:
  // Device headers in order, after `begin`: those of all units, and those with one family of kernels each.
  Prologue(std::string_view begin, std::initializer_list<std::string_view> common,
           std::span<const std::string_view> families);
  [[nodiscard]] std::string complete() const;
  [[nodiscard]] const std::string& digest() const { return digest_; } // of the complete text, in hex
  // The part of it that units of these texts need.
  [[nodiscard]] std::string of(std::span<const std::string_view> units) const;

private:
  using Names = std::set<std::string_view>;
  struct Part {
    std::string_view name, text;
    bool always = true;
    Names uses, produces; // names with the prefix dtc_ that occur in it, and in none before it
  };
  std::string_view begin_;
  std::vector<Part> parts_;
  std::string digest_;
};

[[nodiscard]] const Prologue& cpuPrologue();
[[nodiscard]] const Prologue& cudaPrologue();
[[nodiscard]] const Prologue& emuPrologue();

} // namespace dtc
