#pragma once
// GSPMD's sharding strings: the mesh that those of a program imply, and each string as a sharding on it.
#include "dtc/IR/Module.h"
#include "mlir/MlirTree.h"

namespace dtc {

class HloImporter;

class Gspmd {
public:
  explicit Gspmd(HloImporter& importer) : im_(importer) {}
  // The mesh that all strings of the text imply; none where there are no strings. False after a report.
  bool declareMesh();
  // A string on values of these types; invalid ids where it states nothing (manual). A value that is a shard
  // along last_tile_dims={manual} gets a sharding only where shards are requested. Nothing after a report.
  std::optional<std::vector<ShardingId>> shardings(const MlirAttr& attr, std::span<const TypeId> types,
                                                   bool ofShards = false);
  // The sharding that the attributes of a call @Sharding or a similar call give a value: replicated where
  // they state none. Invalid where it is manual, or no string states the number of devices.
  std::optional<ShardingId> sharding(const std::vector<MlirNamedAttr>& attrs, TypeId type,
                                     bool ofShards = false);
  // The axes along which a string makes its value one device's shard, major to minor.
  std::optional<std::vector<AxisRef>> manualAxes(const MlirAttr& attr, MeshId mesh);
  // Opens the dims of `shardings` that a call's backend_config lists: "unspecified_dims=[0,2]".
  void openUnspecified(const std::vector<MlirNamedAttr>& attrs, std::vector<ShardingId>& shardings);

private:
  HloImporter& im_;
  MeshId mesh_;
};

} // namespace dtc
