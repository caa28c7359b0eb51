#pragma once
// Mesh, Sharding and shard sizes (sharding.md) as pure values. No other code computes the shapes of
// shards.
#include "dtc/Sharding/Dim.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/InternIndex.h"
#include "dtc/Support/SmallVector.h"
#include <span>

namespace dtc {

struct MeshAxis {
  StrId name;
  int64_t size = 1;
};

// A mesh of logical devices; the device coordinate (i0, i1, …) with row-major index `coordinate` is logical device
// `devices[coordinate]` (empty: `coordinate`).
struct Mesh {
  StrId name;
  std::vector<MeshAxis> axes;
  std::vector<int64_t> devices;                      // as written in {devices = […]}, else empty
  [[nodiscard]] int64_t numDevices() const;          // product of the sizes; the parser bounds it by 2^31-1
  [[nodiscard]] int axisIndex(StrId axisName) const; // -1 if there is no axis of that name
  [[nodiscard]] int64_t axisSize(const AxisRef&) const; // of the full axis or of the sub-axis
  // The index of the device at `coordinate` along an axis or sub-axis.
  [[nodiscard]] int64_t indexAlong(const AxisRef&, int64_t coordinate) const;
  // The row-major index over several axes (major to minor), and the product of their sizes.
  [[nodiscard]] int64_t indexAlong(std::span<const AxisRef>, int64_t coordinate) const;
  [[nodiscard]] int64_t sizeOf(std::span<const AxisRef>) const;
  // The coordinates that differ from `coordinate` along `axes` only, ordered by their row-major index over `axes`.
  [[nodiscard]] std::vector<int64_t> groupOf(std::span<const AxisRef> axes, int64_t coordinate) const;
  // Canonicalizes a sub-axis with pre=1 and the axis's size to the full axis, as Sharding stores it.
  [[nodiscard]] AxisRef canonical(AxisRef) const;
};

enum class PendingKind : uint8_t { None, Sum, Avg, Prod, Max, Min, Any, All };
[[nodiscard]] std::string_view pendingName(PendingKind); // "sum" …
[[nodiscard]] std::optional<PendingKind> parsePendingKind(std::string_view);

// One entry of a dim's list, major to minor: a mesh axis, or an unsharded factor of `blocks` (strided
// sharding).
struct DimPart {
  AxisRef axis;
  int64_t blocks = 0; // > 0: a factor; `axis` is then unused
  [[nodiscard]] bool isAxis() const { return blocks == 0; }
  friend bool operator==(const DimPart&, const DimPart&) = default;
};

using PartList = SmallVector<DimPart, 2>; // major to minor

struct DimSharding {
  PartList parts;
  bool open = false;     // `?`: propagation may shard it (further)
  int32_t priority = -1; // user priority pN; -1: none
  [[nodiscard]] bool isSharded() const { return !parts.empty(); }
  [[nodiscard]] bool strided() const;
  [[nodiscard]] std::vector<AxisRef> axes() const; // without the factors
  friend bool operator==(const DimSharding&, const DimSharding&) = default;
};

struct PendingAxis {
  AxisRef axis;
  PendingKind kind = PendingKind::Sum;
  friend bool operator==(const PendingAxis&, const PendingAxis&) = default;
};

// The sharding of a tensor of rank dims.size() on a mesh. Interned (ShardingTable) and compared by id.
// Pending axes are sorted in mesh order; all have the same kind, or are sum and avg.
struct Sharding {
  MeshId mesh;
  std::vector<DimSharding> dims;
  std::vector<PendingAxis> pending;
  std::vector<AxisRef> replicated;   // rep(…): kept replicated
  [[nodiscard]] bool closed() const; // no open dim
  [[nodiscard]] bool fullyReplicated() const { return !anySharded() && pending.empty(); }
  [[nodiscard]] bool anySharded() const;
  [[nodiscard]] PendingKind pendingKind() const; // of the first pending axis, or None
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// --- Shards (sharding.md) ---
struct Interval {
  int64_t begin = 0, end = 0;
  [[nodiscard]] int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};
// Shard i of n over k devices: [floor(i*n/k), floor((i+1)*n/k)).
[[nodiscard]] inline Interval shardInterval(int64_t n, int64_t k, int64_t i) {
  return {mulDiv(i, n, k), mulDiv(i + 1, n, k)};
}
// The intervals of a global dim of size n that the device at `coordinate` holds, in local order. One interval
// unless the sharding is strided; with factors the grid is that of the full list (product of axes and
// factors), row-major.
[[nodiscard]] std::vector<Interval> dimShards(const DimSharding&, const Mesh&, int64_t n, int64_t coordinate);
// The size of that shard, for one dim and for all dims.
[[nodiscard]] int64_t dimShardSize(const DimSharding&, const Mesh&, int64_t n, int64_t coordinate);
[[nodiscard]] std::vector<int64_t> localShape(const Sharding&, const Mesh&,
                                              std::span<const int64_t> globalShape, int64_t coordinate);
// The dim of a local type: n/k if even, else the sharded dim "n/axes" (ir.md) without axes of size 1.
// Empty if a strided list does not divide n (the verifier rejects those).
[[nodiscard]] std::optional<Dim> localDim(const DimSharding&, const Mesh&, Dim global, DimTable&);

// The same shard with even axes divided out, major first: 10/(a, b) with a=2 is 5/b, 6/a with a=4 is
// 3/a:(2)2. Dims of local types that are written differently hold the same elements iff these are equal.
[[nodiscard]] Dim canonicalShard(Dim local, const Mesh&, DimTable&);

// --- The tables ---
class ShardingTable {
public:
  ShardingId intern(Sharding s); // canonicalizes the order of pending and replicated axes (needs the mesh)
  [[nodiscard]] const Sharding& operator[](ShardingId id) const { return storage_[id.index]; }
  [[nodiscard]] size_t size() const { return storage_.size(); }
  MeshId addMesh(Mesh m);
  [[nodiscard]] const Mesh& mesh(MeshId id) const { return meshes_[id.index]; }
  [[nodiscard]] Mesh& mesh(MeshId id) { return meshes_[id.index]; }
  [[nodiscard]] const Mesh& meshOf(ShardingId id) const { return mesh((*this)[id].mesh); }
  [[nodiscard]] MeshId findMesh(StrId name) const;
  [[nodiscard]] uint32_t numMeshes() const { return static_cast<uint32_t>(meshes_.size()); }
  // Fully replicated and closed, of rank `rank`.
  ShardingId replicated(MeshId mesh, size_t rank);

private:
  std::deque<Mesh> meshes_;
  std::deque<Sharding> storage_;
  InternIndex index_;
};

// --- Text ---
enum class ShardingStyle : uint8_t { Dim, Mesh }; // {dp, _ | sum(tp)} or [S(0), P(sum)]
// Without the leading "@mesh". Falls back to dim style if mesh style cannot express it.
[[nodiscard]] std::string printSharding(const Sharding&, const Mesh&, const StringTable&, ShardingStyle);

// --- The per-axis view: one placement per mesh axis (as in PyTorch), each applied to the shard left by the
// previous ones ---
struct Placement {
  enum Kind : uint8_t { R, S, P } kind = R;
  int dim = 0;                             // S
  int64_t blocks = 1;                      // S(dim, blocks): blocks > 1 is _StridedShard
  PendingKind pending = PendingKind::None; // P
  friend bool operator==(const Placement&, const Placement&) = default;
};
// Empty if it cannot be expressed (open dims, priorities, sub-axes, rep, orders that strides cannot express).
[[nodiscard]] std::optional<std::vector<Placement>> toPlacements(const Sharding&, const Mesh&);
[[nodiscard]] std::optional<Sharding> fromPlacements(std::span<const Placement>, MeshId, const Mesh&,
                                                     size_t rank);

// Validates a sharding of a tensor of this global shape. Returns a message (repeated axis, overlapping
// sub-axes, wrong rank, mixed pending kinds, a strided list that does not divide, an unknown axis), or "" if
// it is valid.
[[nodiscard]] std::string validateSharding(const Sharding&, const Mesh&, std::span<const Dim> globalShape,
                                           const DimTable&, const StringTable&);
// Whether two axis references overlap: the same axis, or overlapping sub-axes.
[[nodiscard]] bool overlaps(const AxisRef&, const AxisRef&, const Mesh&);

} // namespace dtc
