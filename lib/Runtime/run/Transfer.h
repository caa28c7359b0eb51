#pragma once
// Moves arguments and results between the buffers of a program and memory that the caller owns. What is copied
// where is computed once; a transfer then allocates nothing.
#include "dtc/Runtime/run/BorrowedTensor.h"
#include "program/Program.h"

namespace dtc {

// A block of a tensor: `shape` elements from `global` on in the whole tensor, and from `local` on in a shard.
struct TensorBlock {
  std::vector<int64_t> global, local, shape;
};

// The blocks of a device's shard: one for each choice of an interval per dim, which is one unless it is strided.
[[nodiscard]] std::vector<TensorBlock> blocksOf(const Sharding&, const Mesh&, std::span<const int64_t> shape,
                                                int64_t coordinate);

// One argument or result.
struct TransferPlan {
  std::string name; // "argument %x", "result y": in errors
  DType dtype = DType::F32;
  std::vector<int64_t> shape; // of the whole tensor
  struct Shard {
    int64_t offset = 0; // in the device's arena
    std::vector<int64_t> shape;
    int64_t bytes = 0;
    std::vector<TensorBlock> blocks;
    bool first = false; // holds the first replica of its blocks in this process
    bool held = true;   // false: other devices hold the tensor, and this one has no memory for it
  };
  std::vector<Shard> shards;          // by device
  const Sharding* sharding = nullptr; // null: unsharded
  bool pending = false;               // partial values: a whole tensor is more than copies of blocks
  bool complete = true;               // the devices of this process hold all elements
};

// `sharding`: null if unsharded. `values`: the local value of each device; `holds`: whether it has the tensor.
[[nodiscard]] TransferPlan planTransfer(const Module& m, const Program& program, std::string name,
                                        TypeId global, const Sharding* sharding,
                                        std::span<const ValueId> values, const std::vector<bool>& holds);

// Copies a tensor to the buffer of a device, or from there. `whole`: of the whole tensor only the device's shard
// is copied; it is not pending. Error (Usage): memory that the backend cannot access.
[[nodiscard]] Status copyShard(Backend&, const Program&, const TransferPlan&, int64_t coordinate,
                               const BorrowedTensor&, bool whole, bool toBuffer);
// A whole tensor whose value is partial: only one of the devices along a pending axis gets its elements.
[[nodiscard]] Status writePending(Backend&, const Program&, const TransferPlan&, const BorrowedTensor& from);
[[nodiscard]] Status readPending(Backend&, const Program&, const TransferPlan&, const BorrowedTensor& to);

// Error (Input): the tensor has another dtype or shape than the whole one, or the shard of a device.
[[nodiscard]] Status fits(const TransferPlan&, std::span<const int64_t> expected, const BorrowedTensor&);
[[nodiscard]] bool isContiguous(const BorrowedTensor&);
// The memory of a device's shard within a tensor, `whole` or the shard itself, if it is laid out as the device's
// buffer. Else null.
[[nodiscard]] std::byte* shardWithin(const TransferPlan&, int64_t coordinate, const BorrowedTensor&,
                                     bool whole);
// Copies all elements to row-major host memory, or from there.
void copyBorrowed(const BorrowedTensor&, std::byte* rowMajor, bool toRowMajor);

} // namespace dtc
