#pragma once
// Collectives between GPUs by NCCL (or RCCL), which is opened at its first use. One thread makes the calls
// for all ranks of this process, in groups; an error (Machine) names the call, the rank and the library's
// reason.
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Support/DType.h"
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtc {

enum class NcclOp : uint8_t { Sum, Prod, Max, Min };

// One rank of a communicator, shared between copies; it is destroyed with the last, unless it was aborted.
struct NcclRank {
  void* get = nullptr;
  int rank = 0, ranks = 1;
  std::shared_ptr<const CudaDevice> device;
  std::shared_ptr<bool> aborted;
  std::shared_ptr<const void> owner;
};

class Nccl {
public:
  // Error: neither libnccl.so.2 nor librccl.so is in the usual locations (with the package to install), or it
  // is older than 2.18.
  [[nodiscard]] static Result<Nccl> open();
  [[nodiscard]] std::string version() const;     // "2.28.9"
  [[nodiscard]] const std::string& path() const; // of the library
  // The dtypes that a reduction can have; data-movement collectives count bytes.
  [[nodiscard]] static bool reduces(DType dtype);

  // Where the ranks of a communicator find each other: made by one process, 128 bytes.
  [[nodiscard]] Result<std::string> newId() const;
  // The ranks of this process in a communicator: one per device, in that order, from `first` of `ranks` on; a device may
  // occur twice where the library allows it. Waits until the ranks of other processes have come, for however long.
  [[nodiscard]] Result<std::vector<NcclRank>> create(std::span<const CudaDevice> devices,
                                                     const std::string& id, int first, int ranks) const;
  // A communicator for each color; its ranks are in the order of `keys`. `parent`: the ranks of this process in one
  // communicator; colors and keys are by rank of it.
  [[nodiscard]] Result<std::vector<NcclRank>>
  split(std::span<const NcclRank> parent, std::span<const int> colors, std::span<const int> keys) const;

  // Calls between the two are launched together, which is required for ranks that wait for each other.
  [[nodiscard]] Status beginGroup() const;
  [[nodiscard]] Status endGroup() const;

  // Enqueued on the stream. Counts are in elements, those of bytes in bytes.
  [[nodiscard]] Status allReduce(const NcclRank& r, const void* from, void* to, size_t count, DType dtype,
                                 NcclOp op, const CudaStream& stream) const;
  [[nodiscard]] Status reduceScatter(const NcclRank& r, const void* from, void* to, size_t count, DType dtype,
                                     NcclOp op, const CudaStream& stream) const; // count: of the result
  [[nodiscard]] Status allGather(const NcclRank& r, const void* from, void* to, size_t bytes,
                                 const CudaStream& stream) const; // bytes: of one rank
  [[nodiscard]] Status broadcast(const NcclRank& r, const void* from, void* to, size_t bytes, int root,
                                 const CudaStream& stream) const;
  [[nodiscard]] Status send(const NcclRank& r, const void* from, size_t bytes, int to,
                            const CudaStream& stream) const;
  [[nodiscard]] Status receive(const NcclRank& r, void* to, size_t bytes, int from,
                               const CudaStream& stream) const;

  // An asynchronous error: for example, a peer that has ended.
  [[nodiscard]] Status health(const NcclRank& r) const;
  // Aborts the call in which the rank waits; afterwards its communicator is unusable.
  void abort(const NcclRank& r) const;

  struct Impl;

private:
  explicit Nccl(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
