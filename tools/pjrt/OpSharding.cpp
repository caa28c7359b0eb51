#include "OpSharding.h"

#include "dtc/Support/ProtoWire.h"

#include <algorithm>

namespace dtc {

namespace {

void varint(std::string& out, uint64_t v) {
  for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
  out += static_cast<char>(v);
}

void field(std::string& out, uint32_t number, uint64_t value) {
  varint(out, number << 3);
  varint(out, value);
}

void field(std::string& out, uint32_t number, std::string_view bytes) {
  varint(out, number << 3 | 2);
  varint(out, bytes.size());
  out += bytes;
}

std::string packed(const std::vector<int64_t>& values) {
  std::string out;
  for (int64_t v : values) varint(out, static_cast<uint64_t>(v));
  return out;
}

// The fields and types of OpSharding.
constexpr uint32_t kType = 1, kTileDims = 3, kTileDevices = 4, kReplicateOnLastDim = 6, kLastTileDims = 8;
constexpr int64_t kReplicated = 0, kTiled = 3, kUnreduced = 6;

} // namespace

std::string replicatedOpSharding() {
  std::string out;
  field(out, kType, uint64_t{kReplicated});
  return out;
}

// The tiles of the dims, then the devices that hold the same tile, then those that hold partial values of it.
std::string opSharding(const Sharding& sharding, const Mesh& mesh) {
  if (sharding.fullyReplicated()) return replicatedOpSharding();
  std::vector<AxisRef> partial;
  for (const PendingAxis& p : sharding.pending) partial.push_back(p.axis);
  std::vector<int64_t> tiles, types;
  int64_t numTiles = 1;
  for (const DimSharding& d : sharding.dims) {
    tiles.push_back(mesh.sizeOf(d.axes()));
    numTiles *= tiles.back();
  }
  const int64_t parts = mesh.sizeOf(partial), replicas = mesh.numDevices() / (numTiles * parts);
  for (auto [type, size] : {std::pair{kReplicated, replicas}, std::pair{kUnreduced, parts}})
    if (size > 1) {
      types.push_back(type);
      tiles.push_back(size);
    }
  std::vector<std::vector<int64_t>> devices(static_cast<size_t>(numTiles * parts)); // by tile and part
  for (int64_t c = 0; c < mesh.numDevices(); ++c) {
    int64_t tile = 0;
    for (size_t d = 0; d < sharding.dims.size(); ++d)
      tile = tile * tiles[d] + mesh.indexAlong(sharding.dims[d].axes(), c);
    const auto at = static_cast<size_t>(tile * parts + mesh.indexAlong(partial, c));
    devices[at].push_back(mesh.devices.empty() ? c : mesh.devices[static_cast<size_t>(c)]);
  }
  std::vector<int64_t> order;
  for (int64_t tile = 0; tile < numTiles; ++tile)
    for (int64_t r = 0; r < replicas; ++r)
      for (int64_t p = 0; p < parts; ++p)
        order.push_back(devices[static_cast<size_t>(tile * parts + p)][static_cast<size_t>(r)]);
  std::string out;
  field(out, kType, uint64_t{kTiled});
  field(out, kTileDims, packed(tiles));
  field(out, kTileDevices, packed(order));
  if (parts > 1)
    field(out, kLastTileDims, packed(types));
  else if (replicas > 1)
    field(out, kReplicateOnLastDim, uint64_t{1});
  return out;
}

// One replica.
std::string deviceAssignment(const std::vector<int64_t>& deviceIds) {
  std::string out;
  field(out, 1, uint64_t{1});
  field(out, 2, deviceIds.size());
  for (int64_t id : deviceIds) {
    std::string partition;
    field(partition, 1, packed({id}));
    field(out, 3, partition);
  }
  return out;
}

// DeviceAssignmentProto: the devices of each partition's replicas.
static Status readAssignment(ProtoReader r, PjrtOptions& out) {
  ProtoField f;
  for (;;) {
    DTC_TRY(const bool more, r.next(f));
    if (!more) return Ok{};
    if (f.number() != 3) continue;
    DTC_TRY(auto partition, f.message());
    ProtoField ids;
    for (;;) {
      DTC_TRY(const bool another, partition.next(ids));
      if (!another) break;
      if (ids.number() == 1)
        if (Status s = ids.appendIntegers(out.deviceIds); !s) return s;
    }
  }
}

// ExecutableBuildOptionsProto
static Status readBuildOptions(ProtoReader r, PjrtOptions& out) {
  ProtoField f;
  for (;;) {
    DTC_TRY(const bool more, r.next(f));
    if (!more) return Ok{};
    if (f.number() == 4) {
      DTC_TRY(out.numReplicas, f.integer());
    } else if (f.number() == 5) {
      DTC_TRY(out.numPartitions, f.integer());
    } else if (f.number() == 9) {
      DTC_TRY(auto assignment, f.message());
      if (Status s = readAssignment(assignment, out); !s) return s;
    }
  }
}

// The options of XLA's CPU compiler, which say how it compiles, not what. dtc has no use for them.
static bool isOptionOfXla(std::string_view name) {
  static constexpr std::string_view kOther[] = {"exec_time_optimization_effort", "memory_fitting_effort",
                                                "optimization_level", "memory_fitting_level"};
  return name.starts_with("xla_") || std::ranges::find(kOther, name) != std::end(kOther);
}

// An entry of the map of options that the user gives by name.
static Status checkOption(ProtoReader entry) {
  ProtoField f;
  for (;;) {
    DTC_TRY(const bool more, entry.next(f));
    if (!more) return Ok{};
    if (f.number() != 1) continue;
    DTC_TRY(const std::string_view name, f.bytes());
    if (!isOptionOfXla(name)) return inputError("No such compile option: '" + std::string(name) + "'");
  }
}

Result<PjrtOptions> pjrtOptions(std::string_view proto) {
  PjrtOptions out;
  ProtoReader r(proto);
  ProtoField f;
  for (;;) {
    DTC_TRY(const bool more, r.next(f));
    if (!more) break;
    if (f.number() == 3) {
      DTC_TRY(auto build, f.message());
      if (Status s = readBuildOptions(build, out); !s) return s.error();
    } else if (f.number() == 7) {
      DTC_TRY(auto entry, f.message());
      if (Status s = checkOption(entry); !s) return s.error();
    }
  }
  if (out.numReplicas < 1 || out.numPartitions < 1 || out.numReplicas > 4096 || out.numPartitions > 4096)
    return inputError("compile options: expected 1 to 4096 replicas and partitions");
  return out;
}

} // namespace dtc
