#pragma once
// Attribute values: interned, compared by id.
#include "dtc/Sharding/Dim.h"
#include "dtc/Support/InternIndex.h"
#include <span>

namespace dtc {

struct Attr {
  // Int:    value in `i`, with `isUnsigned` if it exceeds 2^63-1
  // Size:   a symbolic size expression other than a bare word (`4*B`)
  // Word:   a bare NAME: a dtype, an axis or a symbol, depending on the attribute's type in the record
  // Axis:   a sub-axis a:(1)2
  // Symbol: @name
  enum Kind : uint8_t { Int, Float, Bool, String, Word, Size, Axis, Symbol, List } kind = Int;
  bool isUnsigned = false;
  int64_t i = 0; // Int, Bool (0/1)
  double f = 0;  // Float
  StrId text;    // String, Word, Symbol
  Dim dim;       // Size
  AxisRef axis;  // Axis
  std::vector<AttrId> list;
  friend bool operator==(const Attr& a, const Attr& b); // bitwise on f, so that nan == nan and 0.0 != -0.0
};

class AttrTable {
public:
  AttrId intern(Attr a);
  [[nodiscard]] const Attr& operator[](AttrId id) const { return storage_[id.index]; }
  AttrId integer(int64_t v);
  AttrId real(double v);
  AttrId boolean(bool v);
  AttrId string(StrId s);
  AttrId word(StrId s);
  AttrId symbol(StrId name);
  AttrId axis(const AxisRef& axis); // a word if it is not a sub-axis
  AttrId list(std::vector<AttrId> elements);
  AttrId integers(std::span<const int64_t> v);

private:
  std::deque<Attr> storage_;
  InternIndex index_;
};

struct NamedAttr {
  StrId name;
  AttrId value;
  friend bool operator==(const NamedAttr&, const NamedAttr&) = default;
};
using AttrList = std::vector<NamedAttr>;
[[nodiscard]] AttrId findAttr(const AttrList&, StrId name);

} // namespace dtc
