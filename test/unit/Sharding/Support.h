#pragma once
// Meshes and shardings in a few characters, for the unit tests of lib/Sharding.
#include "dtc/Sharding/Sharding.h"
#include <initializer_list>

namespace dtc::test {

struct World {
  StringTable strings;
  ShardingTable table;
  DimTable dims;
  MeshId id;
  explicit World(std::initializer_list<int64_t> sizes) {
    Mesh m;
    m.name = strings.intern("m");
    char name = 'a';
    for (int64_t s : sizes) m.axes.push_back({strings.intern(std::string_view(&name, 1)), s}), ++name;
    id = table.addMesh(std::move(m));
  }
  [[nodiscard]] const Mesh& mesh() const { return table.mesh(id); }
  AxisRef axis(char c) { return {strings.intern(std::string_view(&c, 1))}; }
  AxisRef axis(char c, int64_t pre, int64_t size) {
    return {strings.intern(std::string_view(&c, 1)), pre, size};
  }
  // "ab" -> (a, b); "2a" -> (2, a)
  DimSharding dim(std::string_view parts) {
    DimSharding d;
    for (char c : parts) {
      if (c >= '1' && c <= '9')
        d.parts.push_back({{}, c - '0'});
      else
        d.parts.push_back({axis(c), 0});
    }
    return d;
  }
  Sharding sharding(std::initializer_list<std::string_view> dims, std::string_view pending = "",
                    PendingKind kind = PendingKind::Sum) {
    Sharding s;
    s.mesh = id;
    for (auto d : dims) s.dims.push_back(dim(d));
    for (char c : pending) s.pending.push_back({axis(c), kind});
    return table[table.intern(std::move(s))];
  }
  std::string text(const Sharding& s, ShardingStyle style = ShardingStyle::Dim) {
    return printSharding(s, mesh(), strings, style);
  }
};

} // namespace dtc::test
