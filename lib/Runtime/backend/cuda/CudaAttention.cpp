#include "backend/cuda/CudaAttention.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr int64_t kPack = 8, kMaxDepth = 256; // elements in 16 bytes; maximum head size

struct Named {
  AttentionCall::Which from;
  CudnnAttention::Tensor to;
  const char* name;
};
constexpr Named kTensors[] = {
    {AttentionCall::Q, CudnnAttention::Q, "q"},    {AttentionCall::K, CudnnAttention::K, "k"},
    {AttentionCall::V, CudnnAttention::V, "v"},    {AttentionCall::Y, CudnnAttention::Y, "y"},
    {AttentionCall::DY, CudnnAttention::DY, "dy"}, {AttentionCall::DQ, CudnnAttention::DQ, "dq"},
    {AttentionCall::DK, CudnnAttention::DK, "dk"}, {AttentionCall::DV, CudnnAttention::DV, "dv"}};

// Why cuDNN does not support the tensor, or "". Its engines read 16 bytes at a time, but do not check strides
// or addresses (cudnn-frontend, sdpa_support_surface.h).
std::string whyNot(const PlacedAttention::Tensor& t, std::array<int64_t, 4> dims, const char* name) {
  if (reinterpret_cast<uintptr_t>(t.at) % 16 != 0) return std::string(name) + " is not aligned to 16 bytes";
  for (size_t d = 0; d < 3; ++d)
    if (dims[d] > 1 && (t.strides[d] < 1 || t.strides[d] % kPack != 0))
      return "the row stride of " + std::string(name) + " is not a multiple of 16 bytes";
  return "";
}

// Strides of dims of size 1 are unused: replaced by any valid multiple.
std::array<int64_t, 4> usable(std::array<int64_t, 4> strides, const std::array<int64_t, 4>& dims) {
  int64_t dense = dims[3];
  for (size_t d = 3; d-- > 0;) {
    if (dims[d] == 1) strides[d] = dense;
    dense = std::max(dense, strides[d] * dims[d]);
  }
  return strides;
}

bool dense(const PlacedAttention::Tensor& t, const std::array<int64_t, 4>& dims) {
  int64_t stride = 1;
  for (size_t d = 3; d-- > 0;) {
    if (dims[d] > 1 && t.strides[d] != stride) return false;
    stride *= dims[d];
  }
  return true;
}

// Why cuDNN does not support the mask's band of keys, or "" (cudnn-frontend, sdpa_support_surface.h).
std::string whyNotSeen(const CudnnAttention& a) {
  constexpr int64_t kAll = CudnnAttention::kAll;
  const int64_t last = a.keys - a.rows;
  if (a.after < 0 || (a.before != kAll && -a.before > last) ||
      (a.before != kAll && a.after != kAll && a.before + a.after < 0))
    return "in which a query may have no visible key";
  if (a.before != kAll && last < 0) return "with a window of more queries than keys";
  const bool fromFirst = a.after != kAll && a.after < std::max<int64_t>(last, 0);
  if (a.before < 0 && fromFirst) return "with a window whose queries start in the middle of the keys";
  return "";
}

class Planner {
public:
  explicit Planner(const PlacedAttention& a) : a_(a) {}

  Result<CudnnAttention> run(bool deterministic) {
    CudnnAttention out{a_};
    out.deterministic = deterministic;
    for (int64_t n : {a_.batch, a_.heads, a_.keyHeads, a_.rows, a_.keys, a_.depth, a_.width})
      if (n < 1) return machineError("cuDNN does not support attention over empty tensors");
    for (int64_t n : {a_.depth, a_.width})
      if (n % kPack != 0 || n > kMaxDepth)
        return machineError("cuDNN attention needs head sizes that are multiples of 8 up to 256, got " +
                            std::to_string(n));
    out.before = a_.before < a_.rows - 1 ? a_.before : CudnnAttention::kAll;
    out.after = a_.after < a_.keys - 1 ? a_.after : CudnnAttention::kAll;
    if (const std::string why = whyNotSeen(out); !why.empty())
      return machineError("cuDNN does not support attention " + why);
    if (a_.gradient && !a_.tensors[AttentionCall::Y].at)
      return machineError("the attention gradient of cuDNN requires that delta is the sum of y dy");
    for (const auto& [from, to, name] : kTensors) {
      const PlacedAttention::Tensor& t = a_.tensors[from];
      if (!t.at) continue;
      const std::array<int64_t, 4> dims = dimsOf(from);
      if (const std::string why = whyNot(t, dims, name); !why.empty())
        return machineError("cuDNN does not support this attention: " + why);
      out.strides[to] = usable(t.strides, dims);
    }
    const PlacedAttention::Tensor& lse = a_.tensors[AttentionCall::Lse];
    out.lse = lse.at != nullptr;
    if (out.lse && !dense(lse, {a_.batch, a_.heads, a_.rows, 1}))
      return machineError("cuDNN does not support this attention: lse is not contiguous");
    return out;
  }

private:
  [[nodiscard]] std::array<int64_t, 4> dimsOf(AttentionCall::Which which) const {
    using A = AttentionCall;
    const bool key = which == A::K || which == A::V || which == A::DK || which == A::DV;
    const bool wide = which == A::V || which == A::Y || which == A::DY || which == A::DV;
    return {a_.batch, key ? a_.keyHeads : a_.heads, key ? a_.keys : a_.rows, wide ? a_.width : a_.depth};
  }

  const PlacedAttention& a_;
};

} // namespace

Result<CudaAttention> CudaAttention::plan(const Cudnn& library, const PlacedAttention& attention,
                                          bool deterministic) {
  DTC_TRY(auto asked, Planner(attention).run(deterministic));
  DTC_TRY(auto plan, library.plan(asked, kMaxWorkspaceBytes));
  CudaAttention out;
  out.plan_.push_back(plan);
  for (const auto& [from, to, name] : kTensors) out.tensors_[to] = attention.tensors[from].at;
  out.tensors_[CudnnAttention::Lse] = attention.tensors[AttentionCall::Lse].at;
  out.delta_ = alignedBytes(plan.workspaceBytes());
  out.scratchBytes_ = out.delta_;
  if (!asked.gradient) return out;
  const auto rows = static_cast<size_t>(asked.batch * asked.heads * asked.rows);
  out.wideDq_ = out.delta_ + alignedBytes(rows * sizeof(float));
  out.scratchBytes_ = out.wideDq_;
  if (!asked.deterministic)
    out.scratchBytes_ += alignedBytes(rows * static_cast<size_t>(asked.depth) * sizeof(float));
  return out;
}

Status CudaAttention::run(const Cudnn& library, CudaDeviceQueue& queue, int64_t coordinate,
                          void* scratch) const {
  auto tensors = tensors_;
  tensors[CudnnAttention::Delta] = static_cast<std::byte*>(scratch) + delta_;
  tensors[CudnnAttention::WideDQ] = static_cast<std::byte*>(scratch) + wideDq_;
  return queue.start(coordinate, [&](const CudaDevice&, const CudaStream& stream) {
    return library.run(plan_.front(), tensors, scratch, stream);
  });
}

} // namespace dtc
