#include "CudaAttention.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr size_t kMostWorkspace = size_t{1} << 30;
constexpr int64_t kPack = 8, kMostDepth = 256; // elements of 16 bytes, and of the longest head

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

size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

// Why cuDNN does not take the tensor, or "". Its engines read 16 bytes at a time and look at neither strides nor addresses themselves
// (cudnn-frontend, sdpa_support_surface.h).
std::string whyNot(const PlacedAttention::Tensor& t, std::array<int64_t, 4> dims, const char* name) {
  if (reinterpret_cast<uintptr_t>(t.at) % 16 != 0) return std::string(name) + " does not begin at 16 bytes";
  for (size_t d = 0; d < 3; ++d)
    if (dims[d] > 1 && (t.strides[d] < 1 || t.strides[d] % kPack != 0))
      return "rows of " + std::string(name) + " are no multiple of 16 bytes apart";
  return "";
}

// Strides of dims of one element are never used, and may be anything that is a multiple.
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

// Why cuDNN does not take the band of keys that the rows see, or "" (cudnn-frontend, sdpa_support_surface.h).
std::string whyNotSeen(const CudnnAttention& a) {
  constexpr int64_t kAll = CudnnAttention::kAll;
  const int64_t last = a.keys - a.rows;
  if (a.after < 0 || (a.before != kAll && -a.before > last) ||
      (a.before != kAll && a.after != kAll && a.before + a.after < 0))
    return "whose queries may see no key";
  if (a.before != kAll && last < 0) return "with a window of more queries than keys";
  const bool fromFirst = a.after != kAll && a.after < std::max<int64_t>(last, 0);
  if (a.before < 0 && fromFirst) return "with a window of queries that stand amid the keys";
  return "";
}

class Planner {
public:
  explicit Planner(const PlacedAttention& a) : a_(a) {}

  Result<CudnnAttention> run(bool deterministic) {
    CudnnAttention out;
    out.gradient = a_.gradient, out.dtype = a_.dtype, out.scale = a_.scale, out.deterministic = deterministic;
    out.batch = a_.batch, out.heads = a_.heads, out.keyHeads = a_.keyHeads, out.rows = a_.rows,
    out.keys = a_.keys;
    out.depth = a_.depth, out.width = a_.width;
    for (int64_t n : {a_.batch, a_.heads, a_.keyHeads, a_.rows, a_.keys, a_.depth, a_.width})
      if (n < 1) return machineError("cuDNN makes no attention of no elements");
    for (int64_t n : {a_.depth, a_.width})
      if (n % kPack != 0 || n > kMostDepth)
        return machineError(
            "cuDNN takes attention of heads of multiples of 8 elements up to 256, and these have " +
            std::to_string(n));
    out.before = a_.before < a_.rows - 1 ? a_.before : CudnnAttention::kAll;
    out.after = a_.after < a_.keys - 1 ? a_.after : CudnnAttention::kAll;
    if (const std::string why = whyNotSeen(out); !why.empty())
      return machineError("cuDNN takes no attention " + why);
    if (a_.gradient && !a_.tensors[AttentionCall::Y].at)
      return machineError("cuDNN takes a gradient of attention where delta is the sum of y dy alone");
    for (const auto& [from, to, name] : kTensors) {
      const PlacedAttention::Tensor& t = a_.tensors[from];
      if (!t.at) continue;
      const std::array<int64_t, 4> dims = dimsOf(from);
      if (const std::string why = whyNot(t, dims, name); !why.empty())
        return machineError("cuDNN takes no attention where " + why);
      out.strides[to] = usable(t.strides, dims);
    }
    const PlacedAttention::Tensor& lse = a_.tensors[AttentionCall::Lse];
    out.lse = lse.at != nullptr;
    if (out.lse && !dense(lse, {a_.batch, a_.heads, a_.rows, 1}))
      return machineError("cuDNN takes no attention whose lse lies in another order");
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
  auto asked = Planner(attention).run(deterministic);
  if (!asked) return asked.error();
  auto plan = library.plan(*asked, kMostWorkspace);
  if (!plan) return plan.error();
  CudaAttention out;
  out.plan_.push_back(*plan);
  for (const auto& [from, to, name] : kTensors) out.tensors_[to] = attention.tensors[from].at;
  out.tensors_[CudnnAttention::Lse] = attention.tensors[AttentionCall::Lse].at;
  out.delta_ = rounded(plan->workspaceBytes());
  out.scratchBytes_ = out.delta_;
  if (!asked->gradient) return out;
  const auto rows = static_cast<size_t>(asked->batch * asked->heads * asked->rows);
  out.wideDq_ = out.delta_ + rounded(rows * sizeof(float));
  out.scratchBytes_ = out.wideDq_;
  if (!asked->deterministic)
    out.scratchBytes_ += rounded(rows * static_cast<size_t>(asked->depth) * sizeof(float));
  return out;
}

Status CudaAttention::run(const Cudnn& library, CudaPlaces& places, int64_t place, void* scratch) const {
  auto tensors = tensors_;
  tensors[CudnnAttention::Delta] = static_cast<std::byte*>(scratch) + delta_;
  tensors[CudnnAttention::WideDQ] = static_cast<std::byte*>(scratch) + wideDq_;
  return places.start(place, [&](const CudaDevice&, const CudaStream& stream) {
    return library.run(plan_.front(), tensors, scratch, stream);
  });
}

} // namespace dtc
