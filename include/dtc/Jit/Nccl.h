#pragma once
// Collectives between GPUs by NCCL (or RCCL), which is opened when a program first asks for it. One thread speaks for all ranks
// of this process, in groups; every call names itself, the rank and the library's reason in its error (Machine).
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Support/DType.h"
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtc {

enum class NcclOp : uint8_t { Sum, Prod, Max, Min };

// One rank of a communicator. Copies share it; it is destroyed with the last, unless it was aborted.
struct NcclRank {
  void* get = nullptr;
  int rank = 0, ranks = 1;
  std::shared_ptr<const CudaDevice> device;
  std::shared_ptr<bool> aborted;
  std::shared_ptr<const void> owner;
};

class Nccl {
public:
  // Error: neither libnccl.so.2 nor librccl.so is in the usual places (says what to install), or it is older than 2.18.
  [[nodiscard]] static Result<Nccl> open();
  [[nodiscard]] std::string version() const;     // "2.28.9"
  [[nodiscard]] const std::string& path() const; // of the library
  // The dtypes that a reduction can have; moves carry bytes.
  [[nodiscard]] static bool reduces(DType dtype);

  // A communicator of as many ranks as there are devices, in their order; a device may stand there twice where the library
  // allows it.
  [[nodiscard]] Result<std::vector<NcclRank>> create(std::span<const CudaDevice> devices) const;
  // A communicator for each color; in it ranks are in the order of `keys`. `parent`: all ranks of one communicator.
  [[nodiscard]] Result<std::vector<NcclRank>>
  split(std::span<const NcclRank> parent, std::span<const int> colors, std::span<const int> keys) const;

  // What is called between the two is started at once, as ranks that wait for each other must be.
  [[nodiscard]] Status beginGroup() const;
  [[nodiscard]] Status endGroup() const;

  // In stream order. Counts are in elements, of the bytes in bytes.
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

  // What went wrong in the background: a peer that is gone, say.
  [[nodiscard]] Status health(const NcclRank& r) const;
  // Ends what the rank waits in; afterwards its communicator is of no use.
  void abort(const NcclRank& r) const;

  struct Impl;

private:
  explicit Nccl(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
