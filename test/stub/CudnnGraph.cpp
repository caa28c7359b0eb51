// The backend interface of the tests' libcudnn.so.9: descriptors with their attributes, graphs of operations, heuristics, plans. What the
// documentation forbids is refused: attributes that a descriptor has not, of another type or count, descriptors that are not finalized,
// tensors of one id that differ, a tensor that nothing or two operations make, sizes that do not fit, memory that is not aligned or not the
// device's. Of graphs only attention, its gradient and convolutions are taken, in the order that cuDNN's engines look for; of three engines
// offered for attention the first refuses when its plan is made, and the second does not repeat its bits where the gradient of q is summed up
// in f32 in memory. Heads of more than 128 elements have no engine where causal, and only such as refuse where not. For convolutions the
// heuristics offer what dtc must not take first (a transform), then an engine that refuses, then one on tensor cores that does not repeat its
// bits and rounds f32 to tf32; the fallback list has a plain one.
#include "CudnnGraph.h"

#include <algorithm>
#include <bit>
#include <dlfcn.h>
#include <map>
#include <set>

using namespace dtc;
using namespace stub;
#define STUB_DNN extern "C" STUB_API int

namespace {

constexpr int kNotFinalized = 2004;
constexpr int64_t kWorkspace = 768;

struct Descriptor;
using Shared = std::shared_ptr<Descriptor>;

struct Descriptor {
  int type = 0;
  bool final = false;
  std::map<int, std::vector<int64_t>> numbers; // by attribute; enums and bools too
  std::map<int, std::vector<Shared>> others;
  std::vector<void*> pointers;
  CudnnTensor tensor;
  std::optional<CudnnOperation> operation;
  std::vector<CudnnOperation> graph;
  int64_t engine = 0;
  [[nodiscard]] int64_t number(int attribute, int64_t otherwise = 0) const {
    const auto at = numbers.find(attribute);
    return at == numbers.end() ? otherwise : at->second[0];
  }
};

Shared& of(void* descriptor) { return *static_cast<Shared*>(descriptor); }

struct Attribute {
  int descriptor, name, type;
  int64_t count; // 0: any
  bool needed;
};
constexpr Attribute kAttributes[] = {
    {kCudnnTensor, kCudnnTensorType, kCudnnTypeDataType, 1, true},
    {kCudnnTensor, kCudnnTensorDims, kCudnnTypeI64, 0, true},
    {kCudnnTensor, kCudnnTensorStrides, kCudnnTypeI64, 0, true},
    {kCudnnTensor, kCudnnTensorId, kCudnnTypeI64, 1, true},
    {kCudnnTensor, kCudnnTensorAlignment, kCudnnTypeI64, 1, true},
    {kCudnnTensor, kCudnnTensorVirtual, kCudnnTypeBoolean, 1, false},
    {kCudnnTensor, kCudnnTensorByValue, kCudnnTypeBoolean, 1, false},
    {kCudnnPointwise, kCudnnPointwiseMode, kCudnnTypePointwise, 1, true},
    {kCudnnPointwise, kCudnnPointwiseMath, kCudnnTypeDataType, 1, true},
    {kCudnnPointwise, kCudnnPointwiseAxis, kCudnnTypeI64, 1, false},
    {kCudnnPointwiseOp, kCudnnPointwiseOpHow, kCudnnTypeDescriptor, 1, true},
    {kCudnnPointwiseOp, kCudnnPointwiseOpX, kCudnnTypeDescriptor, 1, true},
    {kCudnnPointwiseOp, kCudnnPointwiseOpB, kCudnnTypeDescriptor, 1, false},
    {kCudnnPointwiseOp, kCudnnPointwiseOpT, kCudnnTypeDescriptor, 1, false},
    {kCudnnPointwiseOp, kCudnnPointwiseOpY, kCudnnTypeDescriptor, 1, true},
    {kCudnnMatmul, kCudnnMatmulMath, kCudnnTypeDataType, 1, true},
    {kCudnnMatmulOp, kCudnnMatmulOpHow, kCudnnTypeDescriptor, 1, true},
    {kCudnnMatmulOp, kCudnnMatmulOpA, kCudnnTypeDescriptor, 1, true},
    {kCudnnMatmulOp, kCudnnMatmulOpB, kCudnnTypeDescriptor, 1, true},
    {kCudnnMatmulOp, kCudnnMatmulOpC, kCudnnTypeDescriptor, 1, true},
    {kCudnnReduction, kCudnnReductionKind, kCudnnTypeReduction, 1, true},
    {kCudnnReduction, kCudnnReductionMath, kCudnnTypeDataType, 1, true},
    {kCudnnReductionOp, kCudnnReductionOpHow, kCudnnTypeDescriptor, 1, true},
    {kCudnnReductionOp, kCudnnReductionOpX, kCudnnTypeDescriptor, 1, true},
    {kCudnnReductionOp, kCudnnReductionOpY, kCudnnTypeDescriptor, 1, true},
    {kCudnnReshapeOp, kCudnnReshapeOpX, kCudnnTypeDescriptor, 1, true},
    {kCudnnReshapeOp, kCudnnReshapeOpY, kCudnnTypeDescriptor, 1, true},
    {kCudnnConv, kCudnnConvMath, kCudnnTypeDataType, 1, true},
    {kCudnnConv, kCudnnConvMode, kCudnnTypeConvMode, 1, true},
    {kCudnnConv, kCudnnConvRank, kCudnnTypeI64, 1, true},
    {kCudnnConv, kCudnnConvStrides, kCudnnTypeI64, 0, true},
    {kCudnnConv, kCudnnConvDilations, kCudnnTypeI64, 0, true},
    {kCudnnConv, kCudnnConvBefore, kCudnnTypeI64, 0, true},
    {kCudnnConv, kCudnnConvAfter, kCudnnTypeI64, 0, true},
    {kCudnnConvOp, kCudnnConvOpHow, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvOp, kCudnnConvOpX, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvOp, kCudnnConvOpW, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvOp, kCudnnConvOpY, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvOp, kCudnnConvOpAlpha, kCudnnTypeF32, 1, true},
    {kCudnnConvOp, kCudnnConvOpAlpha, kCudnnTypeF64, 1, true},
    {kCudnnConvOp, kCudnnConvOpBeta, kCudnnTypeF32, 1, true},
    {kCudnnConvOp, kCudnnConvOpBeta, kCudnnTypeF64, 1, true},
    {kCudnnConvImageOp, kCudnnConvImageHow, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvImageOp, kCudnnConvImageDx, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvImageOp, kCudnnConvImageW, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvImageOp, kCudnnConvImageDy, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvImageOp, kCudnnConvImageAlpha, kCudnnTypeF32, 1, true},
    {kCudnnConvImageOp, kCudnnConvImageAlpha, kCudnnTypeF64, 1, true},
    {kCudnnConvImageOp, kCudnnConvImageBeta, kCudnnTypeF32, 1, true},
    {kCudnnConvImageOp, kCudnnConvImageBeta, kCudnnTypeF64, 1, true},
    {kCudnnConvWindowOp, kCudnnConvWindowHow, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvWindowOp, kCudnnConvWindowX, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvWindowOp, kCudnnConvWindowDw, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvWindowOp, kCudnnConvWindowDy, kCudnnTypeDescriptor, 1, true},
    {kCudnnConvWindowOp, kCudnnConvWindowAlpha, kCudnnTypeF32, 1, true},
    {kCudnnConvWindowOp, kCudnnConvWindowAlpha, kCudnnTypeF64, 1, true},
    {kCudnnConvWindowOp, kCudnnConvWindowBeta, kCudnnTypeF32, 1, true},
    {kCudnnConvWindowOp, kCudnnConvWindowBeta, kCudnnTypeF64, 1, true},
    {kCudnnOperationGraph, kCudnnGraphOps, kCudnnTypeDescriptor, 0, true},
    {kCudnnOperationGraph, kCudnnGraphHandle, kCudnnTypeHandle, 1, true},
    {kCudnnHeuristics, kCudnnHeuristicGraph, kCudnnTypeDescriptor, 1, true},
    {kCudnnHeuristics, kCudnnHeuristicMode, kCudnnTypeHeuristic, 1, true},
    {kCudnnExecutionPlan, kCudnnPlanHandle, kCudnnTypeHandle, 1, true},
    {kCudnnExecutionPlan, kCudnnPlanConfig, kCudnnTypeDescriptor, 1, true},
    {kCudnnVariantPack, kCudnnPackPointers, kCudnnTypePointer, 0, true},
    {kCudnnVariantPack, kCudnnPackIds, kCudnnTypeI64, 0, true},
    {kCudnnVariantPack, kCudnnPackWorkspace, kCudnnTypePointer, 1, true},
};

int64_t elementBytes(int type) {
  switch (type) {
  case kCudnnTypeBoolean: return 1;
  case kCudnnTypeF64:
  case kCudnnTypeI64:
  case kCudnnTypeHandle:
  case kCudnnTypePointer: return 8;
  default: return 4; // an enum
  }
}

int finalizeTensor(Descriptor& d) {
  CudnnTensor& t = d.tensor;
  t = {d.number(kCudnnTensorId), d.number(kCudnnTensorAlignment),
       static_cast<int>(d.number(kCudnnTensorType))};
  t.dims = d.numbers[kCudnnTensorDims], t.strides = d.numbers[kCudnnTensorStrides];
  if (t.dims.size() != t.strides.size() || t.dims.size() < 3 || t.dims.size() > 8) return kCudnnBadParameter;
  t.isVirtual = d.number(kCudnnTensorVirtual) != 0, t.byValue = d.number(kCudnnTensorByValue) != 0;
  const bool positive = std::all_of(t.dims.begin(), t.dims.end(), [](int64_t v) { return v > 0; }) &&
                        std::all_of(t.strides.begin(), t.strides.end(), [](int64_t v) { return v > 0; });
  return positive && !(t.isVirtual && t.byValue) ? 0 : int{kCudnnBadParameter};
}

std::optional<CudnnTensor> tensorOf(const Descriptor& d, int attribute) {
  const auto at = d.others.find(attribute);
  if (at == d.others.end() || at->second[0]->type != kCudnnTensor) return std::nullopt;
  return at->second[0]->tensor;
}

// Is every dim of `t` that of `of`, or one element?
bool spreads(const CudnnTensor& t, const CudnnTensor& of) {
  if (t.dims.size() != of.dims.size()) return t.byValue; // a number
  for (size_t d = 0; d < t.dims.size(); ++d)
    if (t.dims[d] != of.dims[d] && t.dims[d] != 1) return false;
  return true;
}

bool compares(int mode) { return mode == kCudnnGreaterEqual || mode == kCudnnGreater; }

int finalizePointwise(const Descriptor& d, CudnnOperation& op) {
  const Descriptor& how = *d.others.at(kCudnnPointwiseOpHow)[0];
  if (how.type != kCudnnPointwise) return kCudnnBadParameter;
  op.mode = static_cast<int>(how.number(kCudnnPointwiseMode));
  op.axis = how.number(kCudnnPointwiseAxis, -1);
  op.x = tensorOf(d, kCudnnPointwiseOpX), op.b = tensorOf(d, kCudnnPointwiseOpB);
  op.t = tensorOf(d, kCudnnPointwiseOpT), op.y = tensorOf(d, kCudnnPointwiseOpY);
  if (!op.x || !op.y || !spreads(*op.x, *op.y)) return kCudnnBadParameter;
  const bool two = op.mode == kCudnnAdd || op.mode == kCudnnMul || op.mode == kCudnnDiv ||
                   op.mode == kCudnnSub || compares(op.mode) || op.mode == kCudnnSelect;
  if (two != op.b.has_value() || (op.mode == kCudnnSelect) != op.t.has_value()) return kCudnnBadParameter;
  if ((op.b && !spreads(*op.b, *op.y)) || (op.t && (op.t->dims != op.y->dims || op.t->type != kCudnnBool)))
    return kCudnnBadParameter;
  if ((op.mode == kCudnnGenIndex) != (op.axis >= 0 && op.axis < 4)) return kCudnnBadParameter;
  const int64_t math = how.number(kCudnnPointwiseMath);
  if (compares(op.mode) != (op.y->type == kCudnnBool)) return kCudnnBadParameter;
  const bool integers = two && op.y->type == kCudnnI32;
  if (integers && (op.x->type != kCudnnI32 || op.b->type != kCudnnI32)) return kCudnnBadParameter;
  const bool doubles = op.y->type == kCudnnF64;
  const int wanted = compares(op.mode) ? int{kCudnnBool}
                     : integers        ? int{kCudnnI32}
                     : doubles         ? int{kCudnnF64}
                                       : int{kCudnnF32};
  return math == wanted ? 0 : int{kCudnnNotSupported};
}

int finalizeMatmul(const Descriptor& d, CudnnOperation& op) {
  const Descriptor& how = *d.others.at(kCudnnMatmulOpHow)[0];
  if (how.type != kCudnnMatmul || how.number(kCudnnMatmulMath) != kCudnnF32) return kCudnnBadParameter;
  op.kind = CudnnOperation::Matmul;
  op.x = tensorOf(d, kCudnnMatmulOpA), op.b = tensorOf(d, kCudnnMatmulOpB),
  op.y = tensorOf(d, kCudnnMatmulOpC);
  if (!op.x || !op.b || !op.y) return kCudnnBadParameter;
  const auto &a = op.x->dims, &b = op.b->dims, &c = op.y->dims;
  return a[0] == c[0] && b[0] == c[0] && a[1] == c[1] && c[1] % b[1] == 0 && a[2] == c[2] && a[3] == b[2] &&
                 b[3] == c[3]
             ? 0
             : int{kCudnnBadParameter};
}

int finalizeReduction(const Descriptor& d, CudnnOperation& op) {
  const Descriptor& how = *d.others.at(kCudnnReductionOpHow)[0];
  if (how.type != kCudnnReduction || how.number(kCudnnReductionMath) != kCudnnF32) return kCudnnBadParameter;
  op.kind = CudnnOperation::Reduction;
  op.mode = static_cast<int>(how.number(kCudnnReductionKind));
  if (op.mode != kCudnnReduceAdd && op.mode != kCudnnReduceMax) return kCudnnNotSupported;
  op.x = tensorOf(d, kCudnnReductionOpX), op.y = tensorOf(d, kCudnnReductionOpY);
  if (!op.x || !op.y) return kCudnnBadParameter;
  const auto &x = op.x->dims, &y = op.y->dims;
  return x[0] == y[0] && x[1] % y[1] == 0 && x[2] == y[2] && (x[3] == y[3] || y[3] == 1)
             ? 0
             : int{kCudnnBadParameter};
}

int finalizeReshape(const Descriptor& d, CudnnOperation& op) {
  op.kind = CudnnOperation::Reshape;
  op.x = tensorOf(d, kCudnnReshapeOpX), op.y = tensorOf(d, kCudnnReshapeOpY);
  if (!op.x || !op.y || op.x->elements() != op.y->elements()) return kCudnnBadParameter;
  return op.x->dims[2] == op.y->dims[3] && op.x->dims[3] == op.y->dims[2] ? 0 : int{kCudnnNotSupported};
}

struct ConvNames {
  int how, x, b, y, alpha, beta;
};
ConvNames convNames(int type) {
  if (type == kCudnnConvOp)
    return {kCudnnConvOpHow, kCudnnConvOpX,     kCudnnConvOpW,
            kCudnnConvOpY,   kCudnnConvOpAlpha, kCudnnConvOpBeta};
  if (type == kCudnnConvImageOp)
    return {kCudnnConvImageHow, kCudnnConvImageDy,    kCudnnConvImageW,
            kCudnnConvImageDx,  kCudnnConvImageAlpha, kCudnnConvImageBeta};
  return {kCudnnConvWindowHow, kCudnnConvWindowX,     kCudnnConvWindowDy,
          kCudnnConvWindowDw,  kCudnnConvWindowAlpha, kCudnnConvWindowBeta};
}

int finalizeConvolution(const Descriptor& d, CudnnOperation& op) {
  const ConvNames names = convNames(d.type);
  const Descriptor& how = *d.others.at(names.how)[0];
  if (how.type != kCudnnConv || how.number(kCudnnConvMode) != kCudnnCrossCorrelation)
    return kCudnnBadParameter;
  op.kind = CudnnOperation::Convolution, op.mode = d.type;
  op.x = tensorOf(d, names.x), op.b = tensorOf(d, names.b), op.y = tensorOf(d, names.y);
  op.stride = how.numbers.at(kCudnnConvStrides), op.dilation = how.numbers.at(kCudnnConvDilations);
  op.before = how.numbers.at(kCudnnConvBefore), op.after = how.numbers.at(kCudnnConvAfter);
  const auto rank = static_cast<size_t>(how.number(kCudnnConvRank));
  for (const auto* list : {&op.stride, &op.dilation, &op.before, &op.after})
    if (list->size() != rank) return kCudnnBadParameter;
  if (!op.x || !op.b || !op.y) return kCudnnBadParameter;
  const int math = static_cast<int>(how.number(kCudnnConvMath));
  const int64_t one = math == kCudnnF64 ? std::bit_cast<int64_t>(1.0) : int64_t{std::bit_cast<int32_t>(1.0f)};
  if (d.number(names.alpha) != one || d.number(names.beta, 1) != 0) return kCudnnNotSupported;
  return checkConvolution(op, math);
}

int finalizeOperation(Descriptor& d) {
  CudnnOperation& op = d.operation.emplace();
  switch (d.type) {
  case kCudnnConvOp:
  case kCudnnConvImageOp:
  case kCudnnConvWindowOp: return finalizeConvolution(d, op);
  case kCudnnPointwiseOp: return finalizePointwise(d, op);
  case kCudnnMatmulOp: return finalizeMatmul(d, op);
  case kCudnnReductionOp: return finalizeReduction(d, op);
  default: return finalizeReshape(d, op);
  }
}

// Each tensor is made once, before it is read, and is the same in all uses.
int finalizeGraph(Descriptor& d) {
  std::map<int64_t, CudnnTensor> known;
  std::set<int64_t> made;
  for (const Shared& o : d.others[kCudnnGraphOps]) {
    if (!o->operation) return kCudnnBadParameter;
    const CudnnOperation& op = *o->operation;
    for (const auto* t : {&op.x, &op.b, &op.t, &op.y}) {
      if (!*t) continue;
      if (known.emplace((*t)->id, **t).first->second != **t) return kCudnnBadParameter;
      if (t != &op.y && (*t)->isVirtual && !made.contains((*t)->id)) return kCudnnBadParameter;
    }
    if (op.y->byValue || !made.insert(op.y->id).second) return kCudnnBadParameter;
    d.graph.push_back(op);
  }
  return checkCudnnGraph(d.graph) == kCudnnBadParameter ? int{kCudnnBadParameter} : 0;
}

int64_t depthOf(const std::vector<CudnnOperation>& graph) {
  for (const CudnnOperation& op : graph)
    if (op.kind == CudnnOperation::Matmul) return op.x->dims[3];
  return 0;
}
bool causal(const std::vector<CudnnOperation>& graph) {
  return std::any_of(graph.begin(), graph.end(),
                     [](const CudnnOperation& op) { return op.mode == kCudnnGenIndex; });
}
bool sumsInMemory(const std::vector<CudnnOperation>& graph) {
  return std::any_of(graph.begin(), graph.end(), [](const CudnnOperation& op) {
    return op.kind == CudnnOperation::Matmul && !op.y->isVirtual && op.y->type == kCudnnF32;
  });
}

bool convolves(std::span<const CudnnOperation> graph) {
  return !graph.empty() && graph[0].kind == CudnnOperation::Convolution;
}

const std::vector<CudnnOperation>& graphOf(const Descriptor& config) {
  return config.others.at(kCudnnConfigEngine)[0]->graph;
}

int finalizePlan(Descriptor& d) {
  // Engines of attention are compiled by NVRTC, which is opened by its name alone: a folder of Python's wheels is not among those searched.
  if (!dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD)) return kCudnnNotSupported;
  const Descriptor& config = *d.others[kCudnnPlanConfig][0];
  if (config.type != kCudnnEngineConfig) return kCudnnBadParameter;
  d.graph = graphOf(config);
  const int64_t engine = config.others.at(kCudnnConfigEngine)[0]->engine;
  const bool convolution = convolves(d.graph);
  if (convolution) d.graph[0].tf32 = engine == 2 && d.graph[0].x->type == kCudnnF32;
  const bool refused = convolution ? engine == 1 : engine == 0 || depthOf(d.graph) > 128;
  return refused ? int{kCudnnNotSupported} : checkCudnnGraph(d.graph);
}

std::string patternOf(std::span<const CudnnOperation> operations) {
  std::string text;
  for (const CudnnOperation& op : operations) switch (op.kind) {
    case CudnnOperation::Pointwise: text += std::to_string(op.mode) + " "; break;
    case CudnnOperation::Matmul: text += "m "; break;
    case CudnnOperation::Reduction: text += op.mode == kCudnnReduceMax ? "> " : "+ "; break;
    case CudnnOperation::Reshape: text += "t "; break;
    case CudnnOperation::Convolution: text += "c "; break;
    }
  return text;
}

int get(const Descriptor& d, int name, int type, int64_t wanted, int64_t* count, void* out) {
  if (d.type == kCudnnExecutionPlan && name == kCudnnPlanWorkspace && type == kCudnnTypeI64 && wanted == 1)
    return *static_cast<int64_t*>(out) = kWorkspace, *count = 1, 0;
  if (d.type == kCudnnEngine && name == kCudnnEngineNotes && type == kCudnnTypeNumericalNote) {
    auto* notes = static_cast<int*>(out);
    *count = 0;
    if (convolves(d.graph)) {
      if (d.engine == 0) notes[(*count)++] = kCudnnNoteFft;
      if (d.engine == 2)
        notes[(*count)++] = kCudnnNoteNondeterministic, notes[(*count)++] = kCudnnNoteTensorCore;
      return 0;
    }
    *count = 1;
    notes[0] = 0; // tensor cores
    if (d.engine == 1 && sumsInMemory(d.graph)) notes[(*count)++] = kCudnnNoteNondeterministic;
    return 0;
  }
  if (d.type == kCudnnEngineConfig && name == kCudnnConfigEngine && type == kCudnnTypeDescriptor &&
      wanted == 1)
    return of(*static_cast<void**>(out)) = d.others.at(kCudnnConfigEngine)[0], *count = 1, 0;
  if (d.type != kCudnnHeuristics || name != kCudnnHeuristicResults || type != kCudnnTypeDescriptor)
    return kCudnnBadParameter;
  const std::vector<CudnnOperation>& graph = d.others.at(kCudnnHeuristicGraph)[0]->graph;
  const int64_t mode = d.number(kCudnnHeuristicMode);
  if (mode != kCudnnHeuristicA && mode != kCudnnHeuristicFallback) return kCudnnNotSupported;
  const bool fallback = mode == kCudnnHeuristicFallback, convolution = convolves(graph);
  if (fallback && !convolution) return kCudnnNotSupported;
  const bool none = checkCudnnGraph(graph) != 0 || (depthOf(graph) > 128 && causal(graph));
  *count = none ? 0 : fallback ? 1 : 3;
  for (int64_t i = 0; i < std::min(wanted, *count); ++i) {
    auto engine = std::make_shared<Descriptor>();
    engine->type = kCudnnEngine, engine->final = true, engine->engine = fallback ? 3 : i,
    engine->graph = graph;
    Shared& config = of(static_cast<void**>(out)[i]);
    if (config->type != kCudnnEngineConfig) return kCudnnBadParameter;
    config->others[kCudnnConfigEngine] = {engine};
    config->final = true;
  }
  return 0;
}

} // namespace

// The order in which cuDNN's engines look for the operations (cudnn-frontend, scaled_dot_product_flash_attention.h), and layouts.
int stub::checkCudnnGraph(std::span<const CudnnOperation> operations) {
  if (convolves(operations)) return checkConvolutionGraph(operations);
  const std::string p = patternOf(operations);
  // What bounds the keys above, from the first row's place or from the last one's, and below.
  const char *above[] = {"", "501 501 303 601 ", "501 501 0 303 601 ", "501 501 0 9 303 601 ",
                         "501 501 0 9 0 303 601 "},
             *below[] = {"", "501 501 0 302 601 "};
  bool forward = false, gradient = false;
  for (const char* a : above)
    for (const char* b : below) {
      const std::string hidden = std::string(a) + b;
      forward |= p == "m 1 " + hidden + "> 9 13 + 15 0 6 m ";
      for (const char* groups : {"", "+ "})
        for (const char* wide : {"", "21 "})
          gradient |=
              p == "1 + 1 m 1 9 " + hidden + "13 t m " + groups + "m 9 1 1 t m " + groups + "t m " + wide;
    }
  if (!forward && !gradient) return kCudnnNotSupported;
  for (const CudnnOperation& op :
       operations) // wrong where there are more queries than keys: the caller is to see to it
    if (op.mode == kCudnnGreater && op.kind == CudnnOperation::Pointwise && op.y->dims[2] > op.y->dims[3])
      return kCudnnBadParameter;
  for (const CudnnOperation& op : operations)
    for (const auto* t : {&op.x, &op.b, &op.t, &op.y}) {
      if (!*t || (*t)->isVirtual || (*t)->byValue) continue;
      const CudnnTensor& v = **t;
      if (v.alignment != 16) return kCudnnBadParameter;
      if (v.type != kCudnnBf16 && v.type != kCudnnF16) continue;
      const size_t column = v.strides[3] == 1 ? 3 : 2;
      if (v.strides[column] != 1 || v.dims[column] % 8 != 0) return kCudnnNotSupported;
      for (size_t d = 0; d < 4; ++d)
        if (d != column && v.strides[d] % 8 != 0) return kCudnnNotSupported;
    }
  return 0;
}

STUB_DNN cudnnBackendCreateDescriptor(int type, void** out) {
  auto d = std::make_shared<Descriptor>();
  d->type = type;
  return *out = new Shared(std::move(d)), 0;
}
STUB_DNN cudnnBackendDestroyDescriptor(void* d) { return delete static_cast<Shared*>(d), 0; }

STUB_DNN cudnnBackendSetAttribute(void* descriptor, int name, int type, int64_t count, const void* values) {
  Descriptor& d = *of(descriptor);
  const auto* known = std::find_if(std::begin(kAttributes), std::end(kAttributes), [&](const Attribute& a) {
    return a.descriptor == d.type && a.name == name && a.type == type && (a.count == 0 || a.count == count);
  });
  if (d.final || known == std::end(kAttributes) || count < 1) return kCudnnBadParameter;
  if (type == kCudnnTypeDescriptor) {
    std::vector<Shared>& list = d.others[name];
    list.clear();
    for (int64_t i = 0; i < count; ++i) {
      list.push_back(of(static_cast<void* const*>(values)[i]));
      if (!list.back()->final) return kNotFinalized;
    }
    return 0;
  }
  if (type == kCudnnTypePointer && name == kCudnnPackPointers)
    d.pointers.assign(static_cast<void* const*>(values), static_cast<void* const*>(values) + count);
  std::vector<int64_t>& list = d.numbers[name];
  list.assign(static_cast<size_t>(count), 0);
  const int64_t bytes = elementBytes(type);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(&list[static_cast<size_t>(i)], static_cast<const char*>(values) + i * bytes,
                static_cast<size_t>(bytes));
  return 0;
}

STUB_DNN cudnnBackendGetAttribute(void* descriptor, int name, int type, int64_t wanted, int64_t* count,
                                  void* out) {
  const Descriptor& d = *of(descriptor);
  return d.final ? get(d, name, type, wanted, count, out) : kNotFinalized;
}

STUB_DNN cudnnBackendFinalize(void* descriptor) {
  Descriptor& d = *of(descriptor);
  for (const Attribute& a : kAttributes)
    if (a.descriptor == d.type && a.needed && !d.numbers.contains(a.name) && !d.others.contains(a.name))
      return kCudnnBadParameter;
  int status = 0;
  if (d.type == kCudnnTensor)
    status = finalizeTensor(d);
  else if (d.type == kCudnnPointwiseOp || d.type == kCudnnMatmulOp || d.type == kCudnnReductionOp ||
           d.type == kCudnnReshapeOp || d.type == kCudnnConvOp || d.type == kCudnnConvImageOp ||
           d.type == kCudnnConvWindowOp)
    status = finalizeOperation(d);
  else if (d.type == kCudnnOperationGraph)
    status = finalizeGraph(d);
  else if (d.type == kCudnnExecutionPlan)
    status = finalizePlan(d);
  d.final = status == 0;
  return status;
}

STUB_DNN cudnnBackendExecute(void* handle, void* plan, void* pack) {
  const Descriptor &p = *of(plan), &v = *of(pack);
  auto& h = *static_cast<CudnnHandle*>(handle);
  if (!p.final || !v.final) return kNotFinalized;
  const std::vector<int64_t>& ids = v.numbers.at(kCudnnPackIds);
  if (ids.size() != v.pointers.size() || h.device != stub::current()) return kCudnnBadParameter;
  std::map<int64_t, CudnnTensor> wanted;
  for (const CudnnOperation& op : p.graph)
    for (const auto* t : {&op.x, &op.b, &op.t, &op.y})
      if (*t && !(*t)->isVirtual) wanted[(*t)->id] = **t;
  if (wanted.size() != ids.size()) return kCudnnBadParameter;
  std::vector<CudnnPlace> places;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = wanted.find(ids[i]);
    if (at == wanted.end() || !v.pointers[i]) return kCudnnBadParameter;
    const CudnnTensor& t = at->second;
    CudnnPlace place{ids[i], v.pointers[i]};
    if (t.byValue) {
      int32_t integer = 0;
      std::memcpy(&integer, place.at, sizeof integer);
      place.number = t.type == kCudnnI32 ? integer : static_cast<double>(std::bit_cast<float>(integer));
    } else {
      const int64_t bytes = (t.last() + 1) * (t.type == kCudnnF64 ? 8 : t.type == kCudnnF32 ? 4 : 2);
      if (reinterpret_cast<uintptr_t>(place.at) % static_cast<uintptr_t>(t.alignment) ||
          !stub::isDeviceMemory(place.at, static_cast<size_t>(bytes)))
        return kCudnnBadParameter;
    }
    places.push_back(place);
  }
  void* workspace = nullptr;
  std::memcpy(&workspace, &v.numbers.at(kCudnnPackWorkspace)[0], sizeof workspace);
  if (!stub::isDeviceMemory(workspace, kWorkspace) || reinterpret_cast<uintptr_t>(workspace) % 256)
    return kCudnnBadParameter;
  stub::Op op;
  op.work = [graph = p.graph, places, workspace]() -> std::string {
    std::memset(workspace, 0xff, kWorkspace);
    return runCudnnGraph(graph, places);
  };
  return stub::enqueue(*h.stream, std::move(op)) ? 5000 : 0;
}
