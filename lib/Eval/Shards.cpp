// takeShard and assemble: global tensors to shards and back (sharding.md).
#include "dtc/Eval/Eval.h"

#include "Runs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace dtc {
namespace {

std::vector<std::vector<Interval>> intervalsOf(const Sharding& s, const Mesh& mesh,
                                               std::span<const int64_t> globalShape, int64_t coordinate) {
  std::vector<std::vector<Interval>> result;
  for (size_t d = 0; d < globalShape.size(); ++d)
    result.push_back(dimShards(s.dims[d], mesh, globalShape[d], coordinate));
  return result;
}

// The value on index > 0 of a pending axis, such that the reduction is exactly the value on index 0
// (sharding.md, "made pending"). False if every index holds the value itself.
bool neutralFor(PendingKind kind, double& neutral) {
  if (kind == PendingKind::Sum) return neutral = -0.0, true;
  if (kind == PendingKind::Prod) return neutral = 1, true;
  return false;
}

void fill(Tensor& t, double value) {
  if (isComplex(t.dtype())) { // both parts: -0.0 is neutral in either
    Tensor parts = t.parts();
    fill(parts, value);
    t = Tensor::fromParts(parts);
    return;
  }
  for (int64_t i = 0; i < t.numElements(); ++i) {
    if (isFloat(t.dtype()))
      t.setFloat(i, value);
    else
      t.setInt(i, static_cast<int64_t>(value));
  }
}

// A reduction in progress: the values of a shard over its pending axes.
struct Accumulator {
  Tensor first;             // a single contribution is kept bitwise
  std::vector<double> real; // floats
  std::vector<int64_t> integer;
  int64_t contributions = 0;
};

// Complex numbers by their parts: only sums can be pending.
void contribute(Accumulator& acc, const Tensor& given, PendingKind kind) {
  const Tensor& t = isComplex(given.dtype()) ? given.parts() : given;
  int64_t n = t.numElements();
  bool floats = isFloat(t.dtype());
  if (acc.contributions++ == 0) {
    acc.first = t;
    for (int64_t i = 0; i < n; ++i) {
      if (floats)
        acc.real.push_back(t.getFloat(i));
      else
        acc.integer.push_back(t.getInt(i));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (floats)
      acc.real[i] = combineFloat(kind, acc.real[i], t.getFloat(i));
    else
      acc.integer[i] = combineInt(t.dtype(), kind, acc.integer[i], t.getInt(i));
  }
}

// The reduced shard; `divisor` is the product of the sizes of the avg axes.
Tensor finish(const Accumulator& acc, int64_t divisor) {
  if (acc.contributions == 1 && divisor == 1) return acc.first;
  Tensor t(acc.first.dtype(), acc.first.shape());
  for (int64_t i = 0; i < t.numElements(); ++i) {
    if (isFloat(t.dtype()))
      t.setFloat(i, divisor == 1 ? acc.real[i] : acc.real[i] / static_cast<double>(divisor));
    else
      t.setInt(i, divisor == 1 ? acc.integer[i] : acc.integer[i] / divisor);
  }
  return t;
}

} // namespace

double combineFloat(PendingKind kind, double a, double b) {
  switch (kind) {
  case PendingKind::Prod: return a * b;
  case PendingKind::Max:
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
    return a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b);
  case PendingKind::Min:
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
    return a == b ? (std::signbit(a) ? a : b) : (a < b ? a : b);
  case PendingKind::Any: return a != 0 || b != 0;
  case PendingKind::All: return a != 0 && b != 0;
  default: return a + b;
  }
}

int64_t combineInt(DType dtype, PendingKind kind, int64_t a, int64_t b) {
  auto less = [&](int64_t x, int64_t y) {
    return isUnsignedInt(dtype) ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
  };
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (kind) {
  case PendingKind::Prod: return wrapToInt(dtype, static_cast<int64_t>(ua * ub));
  case PendingKind::Max: return less(a, b) ? b : a;
  case PendingKind::Min: return less(b, a) ? b : a;
  case PendingKind::Any: return a != 0 || b != 0;
  case PendingKind::All: return a != 0 && b != 0;
  default: return wrapToInt(dtype, static_cast<int64_t>(ua + ub));
  }
}

Tensor takeShard(const Tensor& global, const Sharding& s, const Mesh& mesh, int64_t coordinate) {
  auto copy = [&](int64_t begin, std::span<std::byte> out) -> Status {
    std::memcpy(out.data(), global.bytes().data() + begin, out.size());
    return Ok{};
  };
  return *takeShard(global.dtype(), global.shape(), s, mesh, coordinate, copy);
}

Result<Tensor> takeShard(DType dtype, std::span<const int64_t> shape, const Sharding& s, const Mesh& mesh,
                         int64_t coordinate,
                         const std::function<Status(int64_t begin, std::span<std::byte> out)>& read) {
  auto intervals = intervalsOf(s, mesh, shape, coordinate);
  Tensor local(dtype, localShape(s, mesh, shape, coordinate));
  for (const PendingAxis& p : s.pending) {
    double neutral = 0;
    if (mesh.indexAlong(p.axis, coordinate) == 0 || !neutralFor(p.kind, neutral)) continue;
    fill(local, neutral);
    return local;
  }
  const int64_t width = dtypeBytes(dtype);
  int64_t from = 0, to = 0, length = 0; // a run that may be extended: complete rows are contiguous
  Status done = Ok{};
  auto flush = [&] {
    if (length > 0 && done)
      done = read(from * width, local.bytes().subspan(static_cast<size_t>(to * width),
                                                      static_cast<size_t>(length * width)));
  };
  forEachRun(shape, intervals, [&](int64_t begin, int64_t localBegin, int64_t count) {
    if (begin == from + length && localBegin == to + length) {
      length += count;
      return;
    }
    flush();
    from = begin, to = localBegin, length = count;
  });
  flush();
  if (!done) return done.error();
  return local;
}

// A device's indices along the axes that shard, then along the pending ones: devices with equal indices hold
// replicas of one shard.
static std::vector<int64_t> shardIndices(const Sharding& s, const Mesh& mesh, size_t coordinate,
                                         bool pending) {
  std::vector<int64_t> key;
  for (const DimSharding& d : s.dims)
    for (const AxisRef& a : d.axes()) key.push_back(mesh.indexAlong(a, static_cast<int64_t>(coordinate)));
  if (!pending) return key;
  for (const PendingAxis& p : s.pending)
    key.push_back(mesh.indexAlong(p.axis, static_cast<int64_t>(coordinate)));
  return key;
}

// From the given replica of each shard.
static Tensor assembleReplica(std::span<const Tensor> shards, const Sharding& s, const Mesh& mesh,
                              std::span<const int64_t> globalShape, size_t replica,
                              const std::vector<bool>& holds) {
  std::map<std::vector<int64_t>, Accumulator> byShard;
  std::map<std::vector<int64_t>, int64_t> coordinateOfShard;
  std::map<std::vector<int64_t>, size_t> seen;
  int64_t divisor = 1;
  for (const PendingAxis& p : s.pending)
    if (p.kind == PendingKind::Avg) divisor *= mesh.axisSize(p.axis);
  for (size_t coordinate = 0; coordinate < shards.size(); ++coordinate) {
    if (!holds.empty() && !holds[coordinate]) continue;
    if (seen[shardIndices(s, mesh, coordinate, true)]++ != replica) continue;
    const std::vector<int64_t> shard = shardIndices(s, mesh, coordinate, false);
    coordinateOfShard.emplace(shard, coordinate);
    contribute(byShard[shard], shards[coordinate], s.pendingKind());
  }
  const size_t first =
      holds.empty() ? 0 : static_cast<size_t>(std::ranges::find(holds, true) - holds.begin());
  Tensor global(shards[first].dtype(), {globalShape.begin(), globalShape.end()});
  size_t bytes = static_cast<size_t>(dtypeBytes(global.dtype()));
  for (const auto& [shard, acc] : byShard) {
    Tensor local = finish(acc, divisor);
    if (isComplex(global.dtype())) local = Tensor::fromParts(local);
    auto intervals = intervalsOf(s, mesh, globalShape, coordinateOfShard[shard]);
    forEachRun(globalShape, intervals, [&](int64_t to, int64_t from, int64_t length) {
      std::memcpy(global.bytes().data() + to * bytes, local.bytes().data() + from * bytes, length * bytes);
    });
  }
  return global;
}

Tensor assemble(std::span<const Tensor> shards, const Sharding& s, const Mesh& mesh,
                std::span<const int64_t> globalShape, const std::vector<bool>& holds) {
  return assembleReplica(shards, s, mesh, globalShape, 0, holds);
}

std::vector<Replica> assembleReplicas(std::span<const Tensor> shards, const Sharding& s, const Mesh& mesh,
                                      std::span<const int64_t> globalShape, const std::vector<bool>& holds) {
  std::map<std::vector<int64_t>, std::vector<size_t>> holders;
  for (size_t coordinate = 0; coordinate < shards.size(); ++coordinate)
    if (holds.empty() || holds[coordinate])
      holders[shardIndices(s, mesh, coordinate, true)].push_back(coordinate);
  std::vector<Replica> replicas = {
      {static_cast<int64_t>(holders.begin()->second[0]), assemble(shards, s, mesh, globalShape, holds)}};
  for (size_t k = 1; k < holders.begin()->second.size(); ++k) {
    auto differs = std::ranges::find_if(holders, [&](const auto& of) {
      return k < of.second.size() && shards[of.second[k]] != shards[of.second[0]];
    });
    if (differs != holders.end())
      replicas.push_back({static_cast<int64_t>(differs->second[k]),
                          assembleReplica(shards, s, mesh, globalShape, k, holds)});
  }
  return replicas;
}

} // namespace dtc
