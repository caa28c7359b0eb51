// Convolutions of the tests' libcudnn.so.9: which ones its engines take, and what they mean. Taken are tensors whose channels are all first
// or all last, in order of their strides; dims of one element must have the stride that this order gives them. Only channels that are last
// may have gaps, and only 16-bit ones padding that differs between the ends, or a bias (of a multiple of 8 channels, aligned to 16 bytes).
// Grouped images of three spatial dims are not taken.
#include "CudnnGraph.h"

#include <algorithm>
#include <bit>

using namespace dtc;

namespace stub {
namespace {

bool laidOut(const CudnnTensor& t, bool last) {
  std::vector<size_t> order;
  if (last) order.push_back(1);
  for (size_t d = t.dims.size(); d-- > 2;) order.push_back(d);
  if (!last) order.push_back(1);
  order.push_back(0);
  int64_t extent = 1;
  for (size_t d : order) {
    if (t.strides[d] < extent || ((t.dims[d] == 1 || !last) && t.strides[d] != extent)) return false;
    extent = t.strides[d] * t.dims[d];
  }
  return true;
}

double truncated(double v) { // to tf32
  return static_cast<double>(
      std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(v)) & ~uint32_t{0x1fff}));
}

} // namespace

int checkConvolution(const CudnnOperation& op, int math) {
  const Index &x = op.image().dims, &w = op.window().dims, &y = op.result().dims;
  const size_t rank = op.stride.size();
  if (rank < 2 || rank > 3) return kCudnnBadParameter;
  for (const Index* dims : {&x, &w, &y})
    if (dims->size() != rank + 2) return kCudnnBadParameter;
  const int type = op.x->type, made = op.y->isVirtual ? math : type;
  if (op.b->type != type || op.y->type != made) return kCudnnBadParameter;
  if (math != (type == kCudnnF64 ? kCudnnF64 : kCudnnF32)) return kCudnnNotSupported;
  if (x[0] != y[0] || x[1] % w[1] != 0 || y[1] != w[0] || w[0] % (x[1] / w[1]) != 0)
    return kCudnnBadParameter;
  for (size_t d = 0; d < rank; ++d) {
    if (op.stride[d] < 1 || op.dilation[d] < 1 || op.before[d] < 0 || op.after[d] < 0)
      return kCudnnBadParameter;
    const int64_t room = x[d + 2] + op.before[d] + op.after[d] - op.dilation[d] * (w[d + 2] - 1) - 1;
    if (room < 0 || room / op.stride[d] + 1 != y[d + 2]) return kCudnnBadParameter;
  }
  return 0;
}

int checkConvolutionGraph(std::span<const CudnnOperation> operations) {
  const CudnnOperation& conv = operations[0];
  const bool biased = operations.size() == 2;
  if (operations.size() > 2) return kCudnnNotSupported;
  std::vector<const CudnnTensor*> tensors;
  for (const CudnnOperation& op : operations)
    for (const auto* t : {&op.x, &op.b, &op.y})
      if (*t && !(*t)->isVirtual) tensors.push_back(&**t);
  bool first = true, last = true, aligned = true;
  for (const CudnnTensor* t : tensors) {
    if (t->byValue || t->alignment < 1 || t->alignment > 16 || (t->alignment & (t->alignment - 1)) != 0)
      return kCudnnBadParameter;
    first &= laidOut(*t, false), last &= laidOut(*t, true), aligned &= t->alignment == 16;
  }
  if (!first && !last) return kCudnnNotSupported;
  const bool tensorCores = last && (conv.x->type == kCudnnF16 || conv.x->type == kCudnnBf16);
  if (conv.before != conv.after && !tensorCores) return kCudnnNotSupported;
  const int64_t groups = conv.image().dims[1] / conv.window().dims[1];
  if (conv.stride.size() == 3 && groups > 1) return kCudnnNotSupported;
  if (!biased) return conv.y->isVirtual ? int{kCudnnBadParameter} : 0;
  const CudnnOperation& add = operations[1];
  if (add.kind != CudnnOperation::Pointwise || add.mode != kCudnnAdd || add.x->id != conv.y->id ||
      add.y->isVirtual || add.b->isVirtual || add.b->type != conv.x->type || add.y->type != conv.x->type)
    return kCudnnNotSupported;
  return tensorCores && aligned && add.y->dims[1] % 8 == 0 ? 0 : int{kCudnnNotSupported};
}

void runConvolution(const CudnnOperation& op, const std::vector<double>& a, const std::vector<double>& b,
                    std::vector<double>& y) {
  const Index &image = op.image().dims, &window = op.window().dims, &result = op.result().dims;
  const bool wide = op.x->type == kCudnnF64;
  const int64_t each = window[0] / (image[1] / window[1]);
  const Index range(window.begin() + 1, window.end());
  Index p(result.size());
  do {
    Index k(range.size());
    do {
      Index from = {p[0], p[1] / each * window[1] + k[0]}, at = {p[1]};
      at.insert(at.end(), k.begin(), k.end());
      bool inside = true;
      for (size_t d = 2; d < p.size(); ++d) {
        from.push_back(p[d] * op.stride[d - 2] + k[d - 1] * op.dilation[d - 2] - op.before[d - 2]);
        inside &= from[d] >= 0 && from[d] < image[d];
      }
      if (!inside) continue;
      const auto i = static_cast<size_t>(dense(from, image)), w = static_cast<size_t>(dense(at, window)),
                 r = static_cast<size_t>(dense(p, result));
      const bool toImage = op.mode == kCudnnConvImageOp, toWindow = op.mode == kCudnnConvWindowOp;
      double left = a[toImage ? r : i], right = b[toWindow ? r : w];
      if (op.tf32) left = truncated(left), right = truncated(right);
      double& sum = y[toImage ? i : toWindow ? w : r];
      sum = wide ? sum + left * right : static_cast<double>(static_cast<float>(sum + left * right));
    } while (next(k, range));
  } while (next(p, result));
}

} // namespace stub
