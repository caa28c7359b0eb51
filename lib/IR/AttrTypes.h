#pragma once
// Specifications of attributes, and the value that an attribute of each AttrType must have.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Phase.h"

namespace dtc {

// Attributes common to all ops (ir.md), including those of later stages.
inline constexpr AttrSpec kCommonAttrs[] = {
    {"stage", AttrType::Int, "", ""},      {"phase", AttrType::String, "", ""},
    {"microbatch", AttrType::Int, "", ""}, {"stream", AttrType::Int, "", ""},
    {"at", AttrType::Ints, "", ""},        {"within", AttrType::Strings, "", ""},
    {"frozen", AttrType::Bool, "", ""},    {"name", AttrType::String, "", ""},
    {"loc", AttrType::String, "", ""}};
// Common attributes that take one of some words.
inline constexpr struct {
  std::string_view attr;
  std::span<const std::string_view> words;
} kCommonWords[] = {{"phase", kPhaseWords}};
[[nodiscard]] const AttrSpec* findSpec(std::span<const AttrSpec>, std::string_view name); // or null
[[nodiscard]] bool attrFits(const Module&, AttrId value, AttrType);
[[nodiscard]] const char* attrTypeWords(AttrType); // "a list of dims such as [0, 1]"
// Whether the numbers of an attribute have the dtype of the result's elements, as a constant's value has. Others are
// doubles, such as the scales of resize.
[[nodiscard]] inline bool isOfElements(const AttrSpec& s) {
  return s.type == AttrType::Value && std::string_view(s.name) == "value";
}

} // namespace dtc
