#include "dtc/IR/Attr.h"

#include <bit>

namespace dtc {

static void mix(size_t& hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29);
}

static size_t hashOf(const Attr& a) {
  size_t hash = a.kind * 2 + a.isUnsigned;
  mix(hash, static_cast<uint64_t>(a.i));
  mix(hash, std::bit_cast<uint64_t>(a.f));
  mix(hash, a.text.index);
  mix(hash, a.axis.name.index);
  mix(hash, static_cast<uint64_t>(a.axis.pre));
  mix(hash, static_cast<uint64_t>(a.axis.size));
  mix(hash, static_cast<uint64_t>(a.dim.value()));
  for (AttrId e : a.list) mix(hash, e.index);
  return hash;
}

bool operator==(const Attr& a, const Attr& b) {
  return a.kind == b.kind && a.isUnsigned == b.isUnsigned && a.i == b.i &&
         std::bit_cast<uint64_t>(a.f) == std::bit_cast<uint64_t>(b.f) && a.text == b.text && a.dim == b.dim &&
         a.axis == b.axis && a.list == b.list;
}

AttrId AttrTable::intern(Attr a) {
  const auto next = static_cast<uint32_t>(storage_.size());
  const uint32_t id = index_.findOrAdd(hashOf(a), next, [&](uint32_t i) { return storage_[i] == a; });
  if (id == next) storage_.push_back(std::move(a));
  return AttrId(id);
}

AttrId AttrTable::integer(int64_t v) { return intern({.i = v}); }
AttrId AttrTable::real(double v) { return intern({.kind = Attr::Float, .f = v}); }
AttrId AttrTable::boolean(bool v) { return intern({.kind = Attr::Bool, .i = v}); }
AttrId AttrTable::string(StrId s) { return intern({.kind = Attr::String, .text = s}); }
AttrId AttrTable::word(StrId s) { return intern({.kind = Attr::Word, .text = s}); }
AttrId AttrTable::symbol(StrId name) { return intern({.kind = Attr::Symbol, .text = name}); }
AttrId AttrTable::axis(const AxisRef& axis) {
  return axis.isFullAxis() ? word(axis.name) : intern({.kind = Attr::Axis, .axis = axis});
}
AttrId AttrTable::list(std::vector<AttrId> elements) {
  return intern({.kind = Attr::List, .list = std::move(elements)});
}

AttrId AttrTable::integers(std::span<const int64_t> v) {
  std::vector<AttrId> elements;
  for (int64_t e : v) elements.push_back(integer(e));
  return list(std::move(elements));
}

AttrId findAttr(const AttrList& attrs, StrId name) {
  if (name.valid())
    for (const NamedAttr& a : attrs)
      if (a.name == name) return a.value;
  return {};
}

} // namespace dtc
