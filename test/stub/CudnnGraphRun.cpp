// What a graph of cuDNN's operations means, tensor by tensor: each is computed whole, and rounded to its dtype.
#include "CudnnGraph.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace dtc;

namespace stub {
namespace {

// Of a dim of one element that one is taken, and of fewer heads the one that these share.
Index within(Index index, const Index& from, const Index& dims) {
  index.resize(dims.size()); // of a number: all of its dims have one element
  for (size_t d = 0; d < dims.size(); ++d)
    if (d >= from.size())
      index[d] = 0;
    else if (dims[d] != from[d])
      index[d] = index[d] * dims[d] / from[d];
  return index;
}

DType dtypeOf(int type) {
  return type == kCudnnF16    ? DType::F16
         : type == kCudnnBf16 ? DType::BF16
         : type == kCudnnF64  ? DType::F64
                              : DType::F32;
}

double rounded(double v, int type) {
  if (type == kCudnnF16) return f16ToFloat(doubleToF16(v));
  if (type == kCudnnBf16) return bf16ToFloat(doubleToBf16(v));
  return type == kCudnnF32 ? static_cast<double>(static_cast<float>(v)) : v;
}

class Run {
public:
  explicit Run(std::span<const CudnnPlace> places) {
    for (const CudnnPlace& p : places) places_[p.id] = p;
  }
  void run(const CudnnOperation& op) {
    const std::vector<double> x = read(*op.x), b = op.b ? read(*op.b) : std::vector<double>(),
                              t = op.t ? read(*op.t) : std::vector<double>();
    std::vector<double> y(static_cast<size_t>(op.y->elements()));
    switch (op.kind) {
    case CudnnOperation::Pointwise: pointwise(op, x, b, t, y); break;
    case CudnnOperation::Matmul: matmul(op, x, b, y); break;
    case CudnnOperation::Reduction: reduce(op, x, y); break;
    case CudnnOperation::Reshape: turn(op, x, y); break;
    case CudnnOperation::Convolution: runConvolution(op, x, b, y); break;
    }
    write(*op.y, std::move(y));
  }

private:
  static double element(const std::vector<double>& v, const CudnnTensor& t, const Index& at,
                        const Index& dims) {
    return v[static_cast<size_t>(dense(within(at, dims, t.dims), t.dims))];
  }

  void pointwise(const CudnnOperation& op, const std::vector<double>& x, const std::vector<double>& b,
                 const std::vector<double>& t, std::vector<double>& y) {
    Index at(op.y->dims.size());
    size_t i = 0;
    do {
      const double u = element(x, *op.x, at, op.y->dims), v = op.b ? element(b, *op.b, at, op.y->dims) : 0;
      switch (op.mode) {
      case kCudnnAdd: y[i] = u + v; break;
      case kCudnnMul: y[i] = u * v; break;
      case kCudnnDiv: y[i] = u / v; break;
      case kCudnnSub: y[i] = u - v; break;
      case kCudnnExp: y[i] = std::exp(u); break;
      case kCudnnLog: y[i] = std::log(u); break;
      case kCudnnIdentity: y[i] = u; break;
      case kCudnnGreaterEqual: y[i] = u >= v ? 1 : 0; break;
      case kCudnnGreater: y[i] = u > v ? 1 : 0; break;
      case kCudnnGenIndex: y[i] = static_cast<double>(at[static_cast<size_t>(op.axis)]); break;
      default: y[i] = element(t, *op.t, at, op.y->dims) != 0 ? u : v; // kCudnnSelect
      }
      ++i;
    } while (next(at, op.y->dims));
  }

  void matmul(const CudnnOperation& op, const std::vector<double>& a, const std::vector<double>& b,
              std::vector<double>& c) {
    Index at(4);
    size_t i = 0;
    const int64_t depth = op.x->dims[3], group = op.y->dims[1] / op.b->dims[1];
    do {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const Index left = {at[0], at[1], at[2], k}, right = {at[0], at[1] / group, k, at[3]};
        sum += static_cast<float>(a[static_cast<size_t>(dense(left, op.x->dims))] *
                                  b[static_cast<size_t>(dense(right, op.b->dims))]);
      }
      c[i++] = static_cast<double>(sum);
    } while (next(at, op.y->dims));
  }

  void reduce(const CudnnOperation& op, const std::vector<double>& x, std::vector<double>& y) {
    std::fill(y.begin(), y.end(), op.mode == kCudnnReduceMax ? -HUGE_VAL : 0);
    Index at(4);
    size_t i = 0;
    do {
      double& to = y[static_cast<size_t>(dense(within(at, op.x->dims, op.y->dims), op.y->dims))];
      to = op.mode == kCudnnReduceMax ? std::max(to, x[i]) : to + x[i];
      ++i;
    } while (next(at, op.x->dims));
  }

  void turn(const CudnnOperation& op, const std::vector<double>& x, std::vector<double>& y) {
    Index at(4);
    size_t i = 0;
    do {
      y[static_cast<size_t>(dense({at[0], at[1], at[3], at[2]}, op.y->dims))] = x[i++];
    } while (next(at, op.x->dims));
  }

  std::vector<double> read(const CudnnTensor& t) {
    if (const auto made = made_.find(t.id); made != made_.end()) return made->second;
    const CudnnPlace& p = places_.at(t.id);
    if (t.byValue) return {p.number};
    std::vector<double> v;
    Index at(t.dims.size());
    do {
      v.push_back(loadNumber(dtypeOf(t.type), p.at, t.at(at)));
    } while (next(at, t.dims));
    return v;
  }
  void write(const CudnnTensor& t, std::vector<double> v) {
    for (double& x : v) x = rounded(x, t.type);
    Index at(t.dims.size());
    size_t i = 0;
    if (!t.isVirtual) do {
        storeNumber(dtypeOf(t.type), places_.at(t.id).at, t.at(at), v[i++]);
      } while (next(at, t.dims));
    made_[t.id] = std::move(v);
  }

  std::map<int64_t, CudnnPlace> places_;
  std::map<int64_t, std::vector<double>> made_;
};

} // namespace

std::string runCudnnGraph(std::span<const CudnnOperation> operations, std::span<const CudnnPlace> places) {
  Run run(places);
  for (const CudnnOperation& op : operations) run.run(op);
  return "";
}

} // namespace stub
