#include "dtc/IR/Attr.h"

#include <bit>

namespace dtc {

namespace {

void mix(size_t& hash, uint64_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29); }

size_t hashOf(const Attr& a) {
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

Attr made(Attr::Kind kind) {
  Attr a;
  a.kind = kind;
  return a;
}

} // namespace

bool operator==(const Attr& a, const Attr& b) {
  return a.kind == b.kind && a.isUnsigned == b.isUnsigned && a.i == b.i &&
         std::bit_cast<uint64_t>(a.f) == std::bit_cast<uint64_t>(b.f) && a.text == b.text && a.dim == b.dim &&
         a.axis == b.axis && a.list == b.list;
}

AttrId AttrTable::intern(Attr a) {
  size_t hash = hashOf(a);
  auto [first, last] = byHash_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (storage_[it->second] == a) return AttrId(it->second);
  auto index = static_cast<uint32_t>(storage_.size());
  storage_.push_back(std::move(a));
  byHash_.emplace(hash, index);
  return AttrId(index);
}

AttrId AttrTable::integer(int64_t v) {
  Attr a = made(Attr::Int);
  a.i = v;
  return intern(std::move(a));
}

AttrId AttrTable::real(double v) {
  Attr a = made(Attr::Float);
  a.f = v;
  return intern(std::move(a));
}

AttrId AttrTable::boolean(bool v) {
  Attr a = made(Attr::Bool);
  a.i = v;
  return intern(std::move(a));
}

AttrId AttrTable::string(StrId s) {
  Attr a = made(Attr::String);
  a.text = s;
  return intern(std::move(a));
}

AttrId AttrTable::word(StrId s) {
  Attr a = made(Attr::Word);
  a.text = s;
  return intern(std::move(a));
}

AttrId AttrTable::integers(std::span<const int64_t> v) {
  Attr a = made(Attr::List);
  a.list.reserve(v.size());
  for (int64_t e : v) a.list.push_back(integer(e));
  return intern(std::move(a));
}

AttrId findAttr(const AttrList& attrs, StrId name) {
  if (name.valid())
    for (const NamedAttr& a : attrs)
      if (a.name == name) return a.value;
  return {};
}

} // namespace dtc
