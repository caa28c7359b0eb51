#pragma once
// How attributes and types are encoded, one row per code of a dialect.
#include <cstdint>
#include <span>
#include <string_view>

namespace dtc {

enum class BcKind : uint8_t {
  // attributes
  List,
  Dict, // attrs: name, value, …
  String,
  Symbol,
  TypeRef,
  Unit,
  Bool,
  Integer, // types[0], ints[0]: its bits
  Float,
  Enum, // ints[0]: index into the row's words
  Tensor,
  Array,       // types[0], ints[0]: the number of elements, text
  Resource,    // types[0], ints[0]: index into Bytecode::resources
  OutputAlias, // ints: counts before each list
  Bounds,
  Accuracy,
  MeshPart, // of a replica group that names mesh axes
  Shardy,
  CallSite, // attrs: callee, caller
  FileLine, // attrs[0]: file; ints: line, column, …
  Fused,
  Name,
  Unknown,
  // types
  Element,
  Complex,
  Function,
  Ranked,
  Unranked,
  Token,
  Tuple,
  Future,
  Buffer,
  None,
  // both
  Text, // in the textual form
  Other // known, and without a textual form here
};

// Fields, by letter: a, t: an attribute, a type; A, T: a list of them; L: the same as A (ints: its length); D: pairs of attributes; o: an
// attribute or none (with a flag); O: a number that is not zero, and then an attribute; s: a string; v, i: an
// unsigned, a signed number; V, I: a list of them (ints: its length first); b: bytes; n: a number of the
// preceding type; d: the bits of a double; r: a resource;
// y: a byte; w: an unsigned number or none (ints: whether there is one, and the number).
struct BcEncoding {
  uint8_t code = 0;
  BcKind kind = BcKind::Other;
  std::string_view fields = {};
  std::string_view name = {};  // types, as in text: "f32"; enums: the attribute's
  std::string_view words = {}; // enums, separated by blanks; '-' is not a word
  uint8_t bits = 0;            // element types
};

struct BcDialect {
  std::string_view name;
  std::span<const BcEncoding> attrs, types;
};
[[nodiscard]] const BcDialect* findBcDialect(std::string_view name);
// An attribute or type in the textual form.
[[nodiscard]] const BcEncoding& bcTextRow();

// The attributes of an op in its properties, in the alphabetical order of the encoding, separated by blanks;
// a '?' follows those that may be absent. Null if the op is unknown.
struct BcOpRow {
  std::string_view op; // "vhlo.compare_v1"
  std::string_view attrs;
};
[[nodiscard]] const BcOpRow* findBcOp(std::string_view op);

} // namespace dtc
