#include "run/Transfer.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace dtc {
namespace {

constexpr size_t kMaxRank = 64; // dims of a block that copyElements can hold on the stack

struct Strided {
  std::byte* at;
  std::array<int64_t, kMaxRank> strides; // in bytes
};

// Copies elements of `shape` between two strided layouts; dims that are contiguous in both are one memcpy.
void copyElements(std::span<const int64_t> shape, Strided to, Strided from, int64_t width) {
  size_t rank = shape.size();
  int64_t run = width;
  while (rank > 0 && (shape[rank - 1] == 1 || (to.strides[rank - 1] == run && from.strides[rank - 1] == run)))
    run *= shape[--rank];
  std::array<int64_t, kMaxRank> at{};
  while (true) {
    std::memcpy(to.at, from.at, static_cast<size_t>(run));
    size_t d = rank;
    while (d > 0) {
      --d;
      to.at += to.strides[d], from.at += from.strides[d];
      if (++at[d] < shape[d]) break;
      to.at -= to.strides[d] * shape[d], from.at -= from.strides[d] * shape[d];
      at[d] = 0;
      if (d == 0) return;
    }
    if (rank == 0) return;
  }
}

// The block of a tensor that begins at element `begin`. `strides` in elements; empty: row-major for `shape`.
Strided blockOf(std::byte* data, std::span<const int64_t> shape, std::span<const int64_t> strides,
                std::span<const int64_t> begin, int64_t width) {
  Strided out{data, {}};
  int64_t row = width;
  for (size_t d = shape.size(); d-- > 0;) {
    out.strides[d] = strides.empty() ? row : strides[d] * width;
    row *= shape[d];
    out.at += begin[d] * out.strides[d];
  }
  return out;
}

std::string shapeText(DType dtype, std::span<const int64_t> shape) {
  return std::string(dtypeName(dtype)) + "[" + joined(shape) + "]";
}

// One block, or all of them, as row-major memory of a shard: `toShard` copies into it, else out of it.
void copyBlocks(const TransferPlan& plan, const TransferPlan::Shard& shard, std::byte* local,
                const BorrowedTensor& whole, bool toShard) {
  const int64_t width = dtypeBytes(plan.dtype);
  for (const TensorBlock& b : shard.blocks) {
    const Strided own = blockOf(local, shard.shape, {}, b.local, width);
    const Strided other = blockOf(whole.data, plan.shape, whole.strides, b.global, width);
    toShard ? copyElements(b.shape, own, other, width) : copyElements(b.shape, other, own, width);
  }
}

// A tensor that has the shard's shape, in the place of the whole one.
void copyAll(const TransferPlan&, const TransferPlan::Shard&, std::byte* local, const BorrowedTensor& other,
             bool toShard) {
  copyBorrowed(other, local, toShard);
}

Status needsContiguous(const TransferPlan& plan) {
  return usageError(plan.name + ": device memory must be contiguous, and on several devices one tensor per "
                                "device");
}

// Device memory of another layout than the shard's is not accepted: no kernel copies it.
Status copyOnDevice(Backend& backend, const Program& program, const TransferPlan& plan, int64_t coordinate,
                    const BorrowedTensor& other, bool toShard) {
  const TransferPlan::Shard& shard = plan.shards[static_cast<size_t>(coordinate)];
  if (!isContiguous(other)) return needsContiguous(plan);
  if (shard.bytes == 0) return Ok{};
  std::byte* own = program.address(coordinate, shard.offset);
  return toShard ? backend.copy(coordinate, own, other.data, shard.bytes)
                 : backend.copy(coordinate, other.data, own, shard.bytes);
}

using CopyFunction = void(const TransferPlan&, const TransferPlan::Shard&, std::byte*, const BorrowedTensor&,
                          bool);

// Host memory: directly where the host can access the device's, else through a row-major copy.
Status copyOnHost(Backend& backend, const Program& program, const TransferPlan& plan, int64_t coordinate,
                  const BorrowedTensor& other, bool toShard, CopyFunction* copy) {
  const TransferPlan::Shard& shard = plan.shards[static_cast<size_t>(coordinate)];
  if (shard.bytes == 0) return Ok{};
  std::byte* own = program.address(coordinate, shard.offset);
  if (backend.isHostMemory()) {
    copy(plan, shard, own, other, toShard);
    return Ok{};
  }
  std::vector<std::byte> staged(static_cast<size_t>(shard.bytes));
  if (toShard) {
    copy(plan, shard, staged.data(), other, true);
    return backend.write(coordinate, own, staged);
  }
  if (Status s = backend.read(coordinate, staged, own); !s) return s;
  copy(plan, shard, staged.data(), other, false);
  return Ok{};
}

} // namespace

std::vector<TensorBlock> blocksOf(const Sharding& s, const Mesh& mesh, std::span<const int64_t> shape,
                                  int64_t coordinate) {
  std::vector<TensorBlock> blocks(1);
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<TensorBlock> next;
    for (const TensorBlock& b : blocks) {
      int64_t local = 0;
      for (const Interval i : dimShards(s.dims[d], mesh, shape[d], coordinate)) {
        if (i.size() == 0) continue;
        TensorBlock& one = next.emplace_back(b);
        one.global.push_back(i.begin), one.local.push_back(local), one.shape.push_back(i.size());
        local += i.size();
      }
    }
    blocks = std::move(next);
  }
  return blocks;
}

TransferPlan planTransfer(const Module& m, const Program& program, std::string name, TypeId global,
                          const Sharding* sharding, std::span<const ValueId> values,
                          const std::vector<bool>& holds) {
  TransferPlan plan;
  plan.name = std::move(name);
  plan.dtype = m.types[global].dtype;
  plan.shape = m.types[global].staticShape();
  plan.sharding = sharding;
  plan.pending = sharding && !sharding->pending.empty();
  std::map<std::vector<std::vector<int64_t>>, bool> held;
  int64_t bytesHere = 0;
  for (int64_t p = 0; p < program.numDevices(); ++p) {
    const ValueId v = values[static_cast<size_t>(p)];
    TransferPlan::Shard& shard = plan.shards.emplace_back();
    shard.offset = program.at(p).offsetOf(v).value_or(0);
    shard.shape = shapeAt(m, m[v].type, program.mesh, p).value_or(plan.shape);
    shard.held = holds[static_cast<size_t>(p)];
    if (!shard.held) continue;
    shard.bytes = elementCount(shard.shape).value_or(0) * dtypeBytes(plan.dtype);
    if (sharding) {
      shard.blocks = blocksOf(*sharding, program.mesh, plan.shape, p);
    } else if (shard.bytes > 0) {
      const std::vector<int64_t> zeros(plan.shape.size());
      shard.blocks = {{zeros, zeros, plan.shape}};
    }
    std::vector<std::vector<int64_t>> key;
    for (const TensorBlock& b : shard.blocks) key.push_back(b.global);
    shard.first = program.here.contains(p) && held.emplace(std::move(key), true).second;
    if (shard.first) bytesHere += shard.bytes;
  }
  if (program.numHere() < program.numDevices())
    plan.complete =
        !plan.pending && bytesHere == elementCount(plan.shape).value_or(0) * dtypeBytes(plan.dtype);
  return plan;
}

void copyBorrowed(const BorrowedTensor& other, std::byte* rowMajor, bool toRowMajor) {
  if (std::ranges::find(other.shape, 0) != other.shape.end()) return;
  const int64_t width = dtypeBytes(other.dtype);
  constexpr std::array<int64_t, kMaxRank> zeros{};
  const std::span<const int64_t> begin(zeros.data(), other.shape.size());
  const Strided own = blockOf(rowMajor, other.shape, {}, begin, width);
  const Strided theirs = blockOf(other.data, other.shape, other.strides, begin, width);
  toRowMajor ? copyElements(other.shape, own, theirs, width) : copyElements(other.shape, theirs, own, width);
}

bool isContiguous(const BorrowedTensor& t) {
  if (std::ranges::find(t.shape, 0) != t.shape.end()) return true;
  int64_t row = 1;
  for (size_t d = t.strides.size(); d-- > 0;) {
    if (t.shape[d] != 1 && t.strides[d] != row) return false;
    row *= t.shape[d];
  }
  return true;
}

Status fits(const TransferPlan& plan, std::span<const int64_t> expected, const BorrowedTensor& t) {
  if (t.dtype != plan.dtype || !std::ranges::equal(t.shape, expected))
    return inputError(plan.name + ": expected " + shapeText(plan.dtype, expected) + ", got " +
                      shapeText(t.dtype, t.shape));
  if (!t.strides.empty() && t.strides.size() != t.shape.size())
    return usageError(plan.name + ": expected a stride for each of its " + std::to_string(t.shape.size()) +
                      " dims, got " + std::to_string(t.strides.size()));
  if (t.shape.size() > kMaxRank)
    return usageError(plan.name + " has more than " + std::to_string(kMaxRank) + " dims");
  if (!t.data && std::ranges::find(t.shape, 0) == t.shape.end())
    return usageError(plan.name + ": the address of its data is null");
  return Ok{};
}

Status writePending(Backend& backend, const Program& program, const TransferPlan& plan,
                    const BorrowedTensor& from) {
  if (from.onDevice) return usageError(plan.name + " is a partial sum: pass one tensor per device");
  Tensor whole(plan.dtype, plan.shape);
  copyBorrowed(from, whole.bytes().data(), true);
  for (size_t p = 0; p < plan.shards.size(); ++p) {
    const auto coordinate = static_cast<int64_t>(p);
    if (!plan.shards[p].held || !program.here.contains(coordinate)) continue;
    const Tensor shard = takeShard(whole, *plan.sharding, program.mesh, coordinate);
    std::byte* own = program.address(coordinate, plan.shards[p].offset);
    if (Status s = backend.write(coordinate, own, shard.bytes()); !s) return s;
  }
  return Ok{};
}

Status readPending(Backend& backend, const Program& program, const TransferPlan& plan,
                   const BorrowedTensor& to) {
  if (to.onDevice) return usageError(plan.name + " is a partial sum: ask for one tensor per device");
  std::vector<Tensor> shards;
  std::vector<bool> holds;
  for (size_t p = 0; p < plan.shards.size(); ++p) {
    const auto coordinate = static_cast<int64_t>(p);
    holds.push_back(plan.shards[p].held);
    Tensor& shard = shards.emplace_back(plan.dtype, plan.shards[p].shape);
    const std::byte* own = program.address(coordinate, plan.shards[p].offset);
    if (!plan.shards[p].held) continue;
    if (Status s = backend.read(coordinate, shard.bytes(), own); !s) return s;
  }
  Tensor whole = assemble(shards, *plan.sharding, program.mesh, plan.shape, holds);
  copyBorrowed(to, whole.bytes().data(), false);
  return Ok{};
}

Status copyShard(Backend& backend, const Program& program, const TransferPlan& plan, int64_t coordinate,
                 const BorrowedTensor& tensor, bool whole, bool toBuffer) {
  if (!tensor.onDevice)
    return copyOnHost(backend, program, plan, coordinate, tensor, toBuffer, whole ? &copyBlocks : &copyAll);
  if (whole && plan.shards.size() > 1) return needsContiguous(plan);
  return copyOnDevice(backend, program, plan, coordinate, tensor, toBuffer);
}

std::byte* shardWithin(const TransferPlan& plan, int64_t coordinate, const BorrowedTensor& t, bool whole) {
  const TransferPlan::Shard& shard = plan.shards[static_cast<size_t>(coordinate)];
  if (t.onDevice || shard.bytes == 0) return nullptr;
  if (!whole) return isContiguous(t) ? t.data : nullptr;
  if (plan.pending || shard.blocks.size() != 1 || shard.blocks[0].shape != shard.shape) return nullptr;
  const Strided block =
      blockOf(t.data, plan.shape, t.strides, shard.blocks[0].global, dtypeBytes(plan.dtype));
  int64_t row = dtypeBytes(plan.dtype);
  for (size_t d = shard.shape.size(); d-- > 0;) {
    if (shard.shape[d] != 1 && block.strides[d] != row) return nullptr;
    row *= shard.shape[d];
  }
  return block.at;
}

} // namespace dtc
