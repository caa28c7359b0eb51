#include "dtc/Cuda/Nccl.h"
#include "CudaLibrary.h"
#include "NcclTable.h"
#include <optional>

namespace dtc {
constexpr int kOldestNccl = 21800; // ncclCommSplit

static std::optional<int> typeOf(DType d) {
  switch (d) {
  case DType::I8: return kNcclInt8;
  case DType::U8:
  case DType::Bool: return kNcclUint8;
  case DType::I32: return kNcclInt32;
  case DType::U32: return kNcclUint32;
  case DType::I64: return kNcclInt64;
  case DType::U64: return kNcclUint64;
  case DType::F16: return kNcclFloat16;
  case DType::BF16: return kNcclBfloat16;
  case DType::F32: return kNcclFloat32;
  case DType::F64: return kNcclFloat64;
  default: return std::nullopt;
  }
}

static int numberOf(NcclOp op) {
  switch (op) {
  case NcclOp::Prod: return kNcclProd;
  case NcclOp::Max: return kNcclMax;
  case NcclOp::Min: return kNcclMin;
  default: return kNcclSum;
  }
}

static std::string ncclVersion(int number) { // 22809 is 2.28.9
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

struct Nccl::Impl {
  NcclTable table;
  std::string path;
  int version = 0;

  Error error(const std::string& what, int code) const {
    const char* last = table.lastError(nullptr);
    return machineError(what + " failed in NCCL " + ncclVersion(version) + ": " + table.errorText(code) +
                        (last && *last ? std::string(" (") + last + ")" : ""));
  }
  // A call for one rank, with its GPU current.
  template <class Call> Status of(const char* what, const NcclRank& r, const Call& call) const {
    if (*r.aborted) return machineError(std::string(what) + ": the communicator was aborted");
    if (Status s = r.device->makeCurrent(); !s) return s;
    if (int code = call()) return error(std::string(what) + " of rank " + std::to_string(r.rank), code);
    return Ok{};
  }
};

Result<Nccl> Nccl::open() {
  const std::string path = findCudaLibrary({"nccl", "rccl"});
  if (path.empty())
    return machineError(
        "collectives between GPUs need NCCL (libnccl.so.2; on AMD librccl.so), which is not in "
        "LD_LIBRARY_PATH, CUDA_HOME, /usr/local/cuda*, the system's folders or a Python "
        "environment; install the package libnccl2, or `pip install nvidia-nccl-cu13`");
  DTC_TRY(auto library, openLibrary(path));
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  std::string missing;
#define DTC_BIND(member, symbol, parameters)                                                                 \
  if (!bindSymbol(library, #symbol, impl->table.member)) missing += missing.empty() ? #symbol : ", " #symbol;
  DTC_NCCL_FUNCTIONS(DTC_BIND)
  DTC_NCCL_TEXTS(DTC_BIND)
#undef DTC_BIND
  if (!missing.empty()) return machineError(path + " has no " + missing + ": dtc needs NCCL 2.18 or later");
  if (impl->table.version(&impl->version) != 0 || impl->version < kOldestNccl)
    return machineError(path + " is NCCL " + ncclVersion(impl->version) + ": dtc needs 2.18 or later");
  return Nccl(std::move(impl));
}

std::string Nccl::version() const { return ncclVersion(impl_->version); }
const std::string& Nccl::path() const { return impl_->path; }
bool Nccl::reduces(DType dtype) { return typeOf(dtype).has_value(); }

static void own(NcclRank& r, const std::shared_ptr<const Nccl::Impl>& impl) {
  r.aborted = std::make_shared<bool>(false);
  r.owner = std::shared_ptr<const void>(r.get, [impl, device = r.device, gone = r.aborted](const void* p) {
    if (!*gone && device->makeCurrent().ok()) impl->table.destroy(const_cast<void*>(p));
  });
}

Result<std::string> Nccl::newId() const {
  NcclUniqueId id{};
  if (int code = impl_->table.uniqueId(&id)) return impl_->error("creating a communicator", code);
  return std::string(id.bytes, sizeof id.bytes);
}

Result<std::vector<NcclRank>> Nccl::create(std::span<const CudaDevice> devices, const std::string& idBytes,
                                           int first, int ranks) const {
  const NcclTable& t = impl_->table;
  NcclUniqueId id{};
  idBytes.copy(id.bytes, sizeof id.bytes);
  std::vector<NcclRank> out(devices.size());
  if (Status s = beginGroup(); !s) return s.error();
  int code = 0;
  for (size_t i = 0; i < out.size() && !code; ++i) {
    out[i].rank = first + static_cast<int>(i), out[i].ranks = ranks;
    out[i].device = std::make_shared<const CudaDevice>(devices[i]);
    if (Status s = devices[i].makeCurrent(); !s) return s.error();
    code = t.init(&out[i].get, out[i].ranks, id, out[i].rank);
  }
  const int ended = t.groupEnd();
  if (code || ended)
    return impl_->error("creating a communicator of " + std::to_string(ranks) + " ranks",
                        code ? code : ended);
  for (NcclRank& r : out) own(r, impl_);
  return out;
}

Result<std::vector<NcclRank>> Nccl::split(std::span<const NcclRank> parent, std::span<const int> colors,
                                          std::span<const int> keys) const {
  std::vector<NcclRank> out(parent.size());
  if (Status s = beginGroup(); !s) return s.error();
  Status done = Ok{};
  for (size_t i = 0; i < out.size() && done; ++i) {
    out[i].device = parent[i].device;
    const auto at = static_cast<size_t>(parent[i].rank);
    out[i].rank = keys[at], out[i].ranks = 0;
    for (int color : colors) out[i].ranks += color == colors[at];
    done = impl_->of("ncclCommSplit", parent[i], [&] {
      return impl_->table.split(parent[i].get, colors[at], keys[at], &out[i].get, nullptr);
    });
  }
  const Status ended = endGroup();
  if (!done || !ended) return (done ? ended : done).error();
  for (NcclRank& r : out) own(r, impl_);
  return out;
}

Status Nccl::beginGroup() const {
  if (int code = impl_->table.groupStart()) return impl_->error("ncclGroupStart", code);
  return Ok{};
}

Status Nccl::endGroup() const {
  if (int code = impl_->table.groupEnd()) return impl_->error("ncclGroupEnd", code);
  return Ok{};
}

Status Nccl::allReduce(const NcclRank& r, const void* from, void* to, size_t count, DType dtype, NcclOp op,
                       const CudaStream& stream) const {
  return impl_->of("ncclAllReduce", r, [&] {
    return impl_->table.allReduce(from, to, count, *typeOf(dtype), numberOf(op), r.get, stream.get);
  });
}

Status Nccl::reduceScatter(const NcclRank& r, const void* from, void* to, size_t count, DType dtype,
                           NcclOp op, const CudaStream& stream) const {
  return impl_->of("ncclReduceScatter", r, [&] {
    return impl_->table.reduceScatter(from, to, count, *typeOf(dtype), numberOf(op), r.get, stream.get);
  });
}

Status Nccl::allGather(const NcclRank& r, const void* from, void* to, size_t bytes,
                       const CudaStream& stream) const {
  return impl_->of("ncclAllGather", r,
                   [&] { return impl_->table.allGather(from, to, bytes, kNcclUint8, r.get, stream.get); });
}

Status Nccl::broadcast(const NcclRank& r, const void* from, void* to, size_t bytes, int root,
                       const CudaStream& stream) const {
  return impl_->of("ncclBroadcast", r, [&] {
    return impl_->table.broadcast(from, to, bytes, kNcclUint8, root, r.get, stream.get);
  });
}

Status Nccl::send(const NcclRank& r, const void* from, size_t bytes, int to, const CudaStream& stream) const {
  return impl_->of("ncclSend", r,
                   [&] { return impl_->table.send(from, bytes, kNcclUint8, to, r.get, stream.get); });
}

Status Nccl::receive(const NcclRank& r, void* to, size_t bytes, int from, const CudaStream& stream) const {
  return impl_->of("ncclRecv", r,
                   [&] { return impl_->table.receive(to, bytes, kNcclUint8, from, r.get, stream.get); });
}

Status Nccl::health(const NcclRank& r) const {
  int found = 0;
  return impl_->of("ncclCommGetAsyncError", r, [&] {
    const int code = impl_->table.asyncError(r.get, &found);
    return code || found == kNcclInProgress ? code : found;
  });
}

void Nccl::abort(const NcclRank& r) const {
  if (*r.aborted || !r.device->makeCurrent().ok()) return;
  *r.aborted = true;
  (void)impl_->table.abort(r.get); // nothing can be done where even this fails
}

} // namespace dtc
