#pragma once
// A fused region -> what a device runs for it: one generated kernel (as C++ and as CUDA text), one library call, or
// nothing but another view of the same bytes. All that a runtime needs to launch it is data here; it never reads the text.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace dtc {

namespace loops {
class Kernel;
}

// A number that depends on a device's sizes: a sum of products of ceil(extent / per), extent a number or a size argument.
struct SizeFormula {
  struct Factor {
    int64_t number = 1; // used where size < 0
    int32_t size = -1;  // index into the call's sizes
    int64_t per = 1;
    friend bool operator==(const Factor&, const Factor&) = default;
  };
  std::vector<std::vector<Factor>> terms; // empty: 0; a term without factors: 1
  [[nodiscard]] int64_t operator()(std::span<const int64_t> sizes) const;
  friend bool operator==(const SizeFormula&, const SizeFormula&) = default;
};

// One parameter that is a buffer: dense and row-major, as every buffer is.
struct KernelBuffer {
  DType dtype = DType::F32;
  bool output = false;
  // Of an output: the input that it is, but for some elements. In its place, only those are written.
  std::optional<uint32_t> updates = std::nullopt;
};

// Another way to lay out a CUDA kernel: what KernelSource says of the first.
struct CudaSchedule {
  std::string cuda;
  SizeFormula blocks;
  int threadsPerBlock = 0, sharedBytes = 0;
  std::string schedule;
};

// One kernel, whoever calls it. Kernels with the same computation on the same static sizes are one.
//
// C++: extern "C" void NAME(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end, void* scratch)
//   does the units [begin, end) of [0, units(sizes)); each unit writes elements of its own and the result does not depend
//   on how units are grouped, so any fixed split over a pool is deterministic. `scratch` is scratchBytes(sizes) of this
//   call alone, 64-byte aligned (may be null where that is 0). Several texts may stand in one SourceUnit.
// CUDA: extern "C" __global__ void NAME(T0* buffer0, …, long long size0, …): the buffers in order, then the sizes;
//   launched with grid (blocks(sizes), 1, 1), block (threadsPerBlock, 1, 1), sharedBytes of dynamic shared memory; the
//   cluster is the text's own (__cluster_dims__). Nothing is launched where blocks(sizes) is 0.
struct KernelSource {
  std::string name;
  std::string cpp, cuda; // empty where KernelOptions did not ask for it
  // Other schedules of the C++ form, each a function of its own: NAME_1, NAME_2, … The same results bit for bit.
  std::vector<std::string> otherCpp;
  // Other schedules of the CUDA form, the likely best first, each the whole kernel under the same name. A sum's last bits
  // may differ.
  std::vector<CudaSchedule> otherCuda;
  std::vector<KernelBuffer> buffers; // inputs, then outputs
  uint32_t numInputs = 0, numSizes = 0;
  bool standby = false;     // asked for only where a library does not take what it is offered first
  SizeFormula units;        // of the C++ form
  SizeFormula unitElements; // about how many elements one unit touches: what a runtime sizes its chunks by
  SizeFormula scratchBytes;
  SizeFormula blocks; // of the CUDA form
  int threadsPerBlock = 0, sharedBytes = 0;
  std::string schedule;     // of the CUDA form, in words: "4 rows a block, 32 threads each, …"; may be empty
  SizeFormula bytes, flops; // bytes: every input read once, every output written once
  // The CUDA form under a schedule: 0 the first, else otherCuda[number - 1].
  [[nodiscard]] CudaSchedule cudaSchedule(size_t number) const {
    return number == 0 ? CudaSchedule{cuda, blocks, threadsPerBlock, sharedBytes, schedule}
                       : otherCuda[number - 1];
  }
};

// One use of a kernel.
struct KernelCall {
  uint32_t kernel = 0;          // index into KernelSet::kernels
  std::vector<uint32_t> inputs; // operand numbers of the fused op, in the order of the kernel's input buffers
  std::vector<uint32_t> outputs; // result numbers of the fused op, in the order of its output buffers
  std::vector<Dim> sizes; // the values of the size arguments, each to be taken on the device that runs it
};

// What stands behind a product: a kernel of ours over the elements that the product has just written, run block by block while
// they lie in the cache. It reads them where they are, and may write its own result in their place.
struct GemmEpilogue {
  uint32_t kernel = 0;          // index into KernelSet::kernels
  std::vector<uint32_t> inputs; // operand numbers of the fused op, in the order of the kernel's input buffers
  std::vector<uint32_t>
      outputs; // result numbers, in the order of its output buffers; the product is one of them
  // Its size arguments are the call's sizes, then a window: where the block begins and how many elements it has, along
  // each batch axis, m and n.
};

enum class GemmActivation : uint8_t { None, GeluTanh, Relu };

// Operands of f8 whose products are multiplied by numbers before anything is added: what programs write as convert and mul.
struct NarrowFactors {
  DType a = DType::F8E4M3, b = DType::F8E4M3;
  bool aScaled = false, bScaled = false;
  int32_t aScale = -1, bScale = -1; // operand numbers of the f32[] that they are; -1: `scales` makes it
  // A kernel that stores three f32: what a is multiplied by, b, and both. Its results are memory of the library's.
  std::optional<KernelCall> scales;
};

// y[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n], plus bias[n] where there is one. Everything is in
// elements; a stride of 0 repeats. Sums are in f32 (f64 for f64).
struct GemmCall {
  DType dtype = DType::F32;            // of a, b, bias, residual and y
  std::optional<NarrowFactors> narrow; // a and b are of these dtypes instead
  struct Axis {
    SizeFormula extent, a, b, y, residual; // the strides in a, b, y and what is added
  };
  std::vector<Axis> batch; // outermost first; may be empty
  Axis m, n, k;
  uint32_t a = 0, b = 0; // operand numbers of the fused op
  // Where an operand begins in its buffer, a view of which it is. One that is looked up begins `stride` times the number
  // that is read when the product is computed; where that is not below `rows`, the operand is all zeros.
  struct Begin {
    SizeFormula offset;
    int32_t index = -1; // operand number of the i32[] or i64[], or -1
    SizeFormula stride;
    int64_t rows = 0;
  } aBegin, bBegin;
  uint32_t y = 0;         // result number
  int32_t bias = -1;      // operand number, or -1
  SizeFormula biasStride; // along n (0 or 1)
  // What the library does beside, before a sum is rounded (KernelOptions::gemmEpilogues): it adds an element of `residual`
  // (an operand number, or -1; its rows lie as y's do), and applies a function.
  int32_t residual = -1;
  GemmActivation activation = GemmActivation::None;
  std::shared_ptr<const GemmCall> plain; // the same without these two, for a library that does not take them
  std::vector<Dim> sizes;                // what the formulas' sizes are
  std::optional<GemmEpilogue> epilogue;
  SizeFormula bytes, flops;
};

// Which of a convolution's three tensors is made from the other two.
enum class ConvKind : uint8_t { Forward, Image, Window };

// A convolution as a library does it: result[n, g o, p…] sums image[n, g c, stride p + dilation k - low, …] * window[g o, c, k, …] over c
// and k (0 outside of the image), or the gradient of that. Strides are in elements; sums are in f32 (f64 for f64).
struct ConvCall {
  ConvKind kind = ConvKind::Forward;
  DType dtype = DType::F32; // of all tensors
  struct Spatial {
    int64_t size = 1, length = 1, result = 1; // of image, window and result
    int64_t stride = 1, dilation = 1, low = 0;
  };
  std::vector<Spatial> spatial; // one to three
  int64_t groups = 1;
  SizeFormula n, c, o; // images, and the channels of a group
  struct Tensor {
    bool result = false; // `number` counts the fused op's results, else its operands
    uint32_t number = 0;
    // Of image and result: image, group, channel, spatial dims; of the window: group, o, c, spatial dims.
    std::vector<SizeFormula> strides;
  } image, window, result;
  int32_t bias = -1; // operand number of one for each channel of the result (Forward) or image (Image), or -1
  std::vector<Dim> sizes; // what the formulas' sizes are
  KernelCall own;         // the generated kernel, for where the library does not take it
};

// Attention as a library makes it: y[b, h, i] = sum over j of softmax(scale q[b, h, i] k[b, h', j]) v[b, h', j], h' the head of keys that
// `heads / keyHeads` heads of queries in a row share; where `causal`, row i sees keys 0 … i. Or the gradient of that.
struct AttentionCall {
  // Y and Lse are results, and of a gradient operands; DY is an operand. A gradient's Y may be unknown.
  enum Which : uint8_t { Q, K, V, Y, Lse, DY, DQ, DK, DV, kTensors };
  bool gradient = false;
  DType dtype = DType::BF16; // of all but lse, which is f32
  double scale = 1;
  // Row i sees keys i - before … i + after; kAll: no bound.
  static constexpr int64_t kAll = INT64_MAX;
  int64_t before = kAll, after = kAll;
  SizeFormula batch, heads, keyHeads, rows, keys, depth, width;
  struct Tensor {
    bool used = false;
    bool result = false; // `number` counts the fused op's results, else its operands
    uint32_t number = 0;
    SizeFormula offset;                 // where it begins in its buffer, in elements
    std::array<SizeFormula, 4> strides; // of batch, head, row and column
  };
  std::array<Tensor, kTensors> tensors;
  std::vector<Dim> sizes; // what the formulas' sizes are
  KernelCall own;         // the generated kernel, for where the library does not take it
};

// Result 0 has the same bytes as an operand, in the same order (reshape, expand_dims): alias it, or copy.
struct ViewCall {
  uint32_t operand = 0;
  std::vector<Dim> sizes;
  SizeFormula bytes;
};

using FusedCall = std::variant<KernelCall, GemmCall, ConvCall, AttentionCall, ViewCall>;

// What a CUDA kernel may ask for.
struct CudaTarget {
  int sharedBytes = 227 << 10; // of a block, the dynamic part and the rest together
  int clusterBlocks = 8;       // 1: no clusters
  int multiprocessors = 132;
};
// Of "sm_90a" and the like (Nvrtc.h, isCudaArch), with the processors of the largest such GPU.
[[nodiscard]] CudaTarget cudaTargetOf(std::string_view arch);

// What cuBLASLt takes, some of it by way of copies.
inline constexpr uint32_t kCublasDTypes =
    1u << static_cast<int>(DType::F8E4M3) | 1u << static_cast<int>(DType::F8E5M2) |
    1u << static_cast<int>(DType::F16) | 1u << static_cast<int>(DType::BF16) |
    1u << static_cast<int>(DType::F32) | 1u << static_cast<int>(DType::F64);

struct KernelOptions {
  bool cpp = true, cuda = false; // which texts to print
  int vectorBytes = 32;          // of the C++ text: 16, 32 or 64 (CpuJit.h, vectorBytes)
  CudaTarget target = {};        // of the CUDA text
  bool comments = false;         // the statements and their source lines, for people
  bool otherSchedules = false;   // fill KernelSource::otherCpp and otherCuda, for a backend that chooses
  // Which dtypes the device's matmul library takes (bit dtype), f8 operands of wider results among them (GemmCall::narrow); other
  // contractions become loops.
  uint32_t gemmDTypes = (1u << static_cast<int>(DType::F32)) | (1u << static_cast<int>(DType::BF16));
  uint32_t convDTypes = 0;      // the same of its convolutions
  uint32_t attentionDTypes = 0; // and of its attention
  bool gemmEpilogues = false;   // the library adds a residual and applies gelu's tanh form
  bool gemmRelu = false;        // and relu, of which it makes 0 of NaN
};

// The kernels of one program. Names are distinct within a set and depend on the program alone.
class KernelSet {
public:
  explicit KernelSet(KernelOptions options) : options_(options) {}
  // What runs for one `fused` op of a local function. Ops may be added to the module's tables, none to its blocks.
  // Error (Bug): the region holds an op that has no loops.
  [[nodiscard]] Result<FusedCall> add(Module&, OpId fused);
  [[nodiscard]] const std::vector<KernelSource>& kernels() const { return kernels_; }
  [[nodiscard]] const KernelOptions& options() const { return options_; }

private:
  std::optional<FusedCall> addGradient(Module&, OpId fused);
  std::optional<FusedCall> addJoined(Module&, OpId fused);
  std::pair<uint32_t, bool> keep(const loops::Kernel&, const std::string& base,
                                 const std::function<std::string()>& comments);
  KernelOptions options_;
  std::vector<KernelSource> kernels_;
  std::unordered_map<std::string, uint32_t> byText_; // the text without name and comments -> kernel
  // Regions of the same ops on the same types need no second look, within one module.
  std::unordered_map<std::string, FusedCall> byRegion_;
  const Module* module_ = nullptr;
  std::unordered_map<std::string, uint32_t> nameCount_;
};

} // namespace dtc
