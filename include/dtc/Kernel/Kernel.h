#pragma once
// Turns a fused region into the code that a device runs for it: one generated kernel (as C++ and as CUDA
// text), one library call, or a view of the same bytes. Everything that a runtime needs for a launch is data
// here; it never parses the text.
#include "dtc/IR/Module.h"
#include "dtc/Kernel/Problem.h"
#include "dtc/Ops/linear_algebra/Factorization.h"
#include "dtc/Support/Result.h"
#include "dtc/Target/Target.h"
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace dtc {

namespace loops {
class Kernel;
struct Size;
} // namespace loops

// A number that depends on a device's sizes: a sum of products of ceil(extent / per), extent a constant or a
// size argument.
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
// Products of sizes as formulas.
[[nodiscard]] std::vector<SizeFormula::Factor> factorsOf(const loops::Size&);
[[nodiscard]] SizeFormula formula(const loops::Size&);

// One buffer parameter: contiguous and row-major, as every buffer is.
struct KernelBuffer {
  DType dtype = DType::F32;
  bool output = false;
  // For an output: the input that it equals except for some elements. In that input's memory, only those are
  // written.
  std::optional<uint32_t> updates = std::nullopt;
};

// An alternative schedule of a CUDA kernel: the fields that KernelSource has for the first one.
struct CudaSchedule {
  std::string cuda;
  SizeFormula blocks;
  int threadsPerBlock = 0, sharedBytes = 0;
  std::string schedule;
};

// One kernel, for all its callers. Kernels with the same computation on the same static sizes are shared.
//
// C++: extern "C" void NAME(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end, void*
// scratch) executes the units [begin, end) of [0, units(sizes)); each unit writes elements of its own and the
// result does not depend on the grouping of units, so any fixed split over a pool is deterministic. `scratch`
// is scratchBytes(sizes) for this call alone, 64-byte aligned (may be null where that is 0). One SourceUnit
// may contain several texts.
//
// CUDA: extern "C" __global__ void NAME(T0* buffer0, …, long long size0, …): the buffers in order, then the
// sizes; launched with grid (blocks(sizes), 1, 1), block (threadsPerBlock, 1, 1), sharedBytes of dynamic
// shared memory; the cluster is the text's own (__cluster_dims__). Nothing is launched where blocks(sizes) is
// 0.
struct KernelSource {
  std::string name;
  std::string cpp, cuda; // empty where the target does not run it
  // Other schedules of the C++ form, each a function of its own: NAME_1, NAME_2, … The same results bit for
  // bit.
  std::vector<std::string> otherCpp;
  // Other schedules of the CUDA form, in order of estimated speed, each the complete kernel with the same
  // name. A sum's last bits may differ.
  std::vector<CudaSchedule> otherCuda;
  std::vector<KernelBuffer> buffers; // inputs, then outputs
  uint32_t numInputs = 0, numSizes = 0;
  bool standby = false;     // used only where a library rejects the preferred call
  SizeFormula units;        // of the C++ form
  SizeFormula unitElements; // approximate number of elements per unit: determines a runtime's chunk size
  SizeFormula scratchBytes;
  SizeFormula blocks; // of the CUDA form
  int threadsPerBlock = 0, sharedBytes = 0;
  std::string schedule; // description of the CUDA form: "4 rows per block, 32 threads each, …"; may be empty
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
  std::vector<Dim> sizes;        // the values of the size arguments, evaluated on the device that runs it
};

// The epilogue of a matrix product: a generated kernel over the elements that the product has just written,
// on a CPU block by block while they are cached. It reads them in place, and may write its own result over them.
struct GemmEpilogue {
  uint32_t kernel = 0;          // index into KernelSet::kernels
  std::vector<uint32_t> inputs; // operand numbers of the fused op, in the order of the kernel's input buffers
  std::vector<uint32_t>
      outputs; // result numbers, in the order of its output buffers; the matrix product is one of them
  // Its size arguments are the call's sizes; if it computes windows of the product, then begin and count along each
  // batch axis, m and n.
  bool windows = false;
};

// f8 operands whose products are scaled before anything is added: written as convert and mul in programs. i8 and
// u8 operands of products in i32, which have no scales.
struct NarrowFactors {
  DType a = DType::F8E4M3, b = DType::F8E4M3;
  bool aScaled = false, bScaled = false;
  int32_t aScale = -1, bScale = -1; // operand numbers of the f32[] scales; -1: `scales` computes them
  // A kernel that stores three f32: the scale of a, of b, and their product. Its results are memory of the
  // library's.
  std::optional<KernelCall> scales;
};

// A matrix product as a library call.
struct GemmCall : GemmProblem<SizeFormula> {
  std::optional<NarrowFactors> narrow; // a and b have these dtypes instead
  uint32_t a = 0, b = 0;               // operand numbers of the fused op
  // The offset of an operand in its buffer, of which it is a view. A gathered one begins at `stride` times an
  // index that is read when the product is computed; where that is not below `rows`, the operand is all
  // zeros.
  struct Begin {
    SizeFormula offset;
    int32_t index = -1; // operand number of the i32[] or i64[], or -1
    SizeFormula stride;
    int64_t rows = 0;
  } aBegin, bBegin;
  uint32_t y = 0;    // result number
  int32_t bias = -1; // operand number, or -1
  // The library's epilogue, before a sum is rounded (Target::gemmEpilogues): it adds beta times an element of
  // `residual` (an operand number, or -1; with y's layout), and applies `activation`.
  int32_t residual = -1;
  int32_t aux = -1; // a result number for gelu, an operand number for its gradient, or -1
  // The same with less in the library's epilogue and more in the generated one, for a library that refuses
  // this call; or null.
  std::shared_ptr<const GemmCall> plain;
  std::vector<Dim> sizes; // the sizes of the formulas
  std::optional<GemmEpilogue> epilogue;
  SizeFormula bytes, flops;
};

// A convolution as a library call.
struct ConvCall : ConvProblem<SizeFormula> {
  struct Tensor {
    bool result = false; // `number` counts the fused op's results, else its operands
    uint32_t number = 0;
    // For image and result: image, group, channel, spatial dims; for the window: group, o, c, spatial dims.
    std::vector<SizeFormula> strides;
  } image, window, result;
  int32_t bias = -1; // operand number of a bias per channel of the result (Forward) or image (Image), or -1
  std::vector<Dim> sizes; // the sizes of the formulas
  KernelCall own;         // the generated kernel, where the library does not support the call
};

// Attention, or its gradient, as a library call.
struct AttentionCall : AttentionProblem<SizeFormula> {
  // Y and Lse are results, and operands of a gradient; DY is an operand. A gradient's Y may be unknown.
  enum Which : uint8_t { Q, K, V, Y, Lse, DY, DQ, DK, DV, kTensors };
  struct Tensor {
    bool used = false;
    bool result = false; // `number` counts the fused op's results, else its operands
    uint32_t number = 0;
    SizeFormula offset;                 // its offset in its buffer, in elements
    std::array<SizeFormula, 4> strides; // of batch, head, row and column
  };
  std::array<Tensor, kTensors> tensors;
  std::vector<Dim> sizes; // the sizes of the formulas
  KernelCall own;         // the generated kernel, where the library does not support the call
};

// Result 0 has the same bytes as an operand, in the same order (reshape, expand_dims): alias it, or copy.
struct ViewCall {
  uint32_t operand = 0;
  std::vector<Dim> sizes;
  SizeFormula bytes;
};

// A factorization of each matrix of a batch, by LAPACK or cuSOLVER: the fused op's operands and results are
// its own, in order.
struct FactorizationCall {
  Factorization what;
  SizeFormula batch;
  std::vector<Dim> sizes; // the sizes of the formula
};

using FusedCall = std::variant<KernelCall, GemmCall, ConvCall, AttentionCall, FactorizationCall, ViewCall>;

struct KernelOptions {
  Target target = {};          // which texts to print, and which library calls to make
  bool comments = false;       // the statements and their source lines, for people
  bool otherSchedules = false; // fill KernelSource::otherCpp and otherCuda, for a backend that chooses
};

// The kernels of one program. Names are unique within a set and depend on the program alone.
class KernelSet {
public:
  explicit KernelSet(KernelOptions options) : options_(options) {}
  // The code for one `fused` op of a local function. Ops may be added to the module's tables, none to its
  // blocks. Error (Bug): the region contains an op without loops.
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
  // Regions of the same ops on the same types are looked up in a cache, within one module.
  std::unordered_map<std::string, FusedCall> byRegion_;
  const Module* module_ = nullptr;
  std::unordered_map<std::string, uint32_t> nameCount_;
};

} // namespace dtc
