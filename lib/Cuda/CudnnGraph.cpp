#include "CudnnGraph.h"
#include <algorithm>
#include <bit>
#include <utility>

namespace dtc {

CudnnLayout CudnnLayout::dense() const {
  CudnnLayout out = *this;
  out.strides.resize(dims.size());
  int64_t stride = 1;
  for (size_t d = out.dims.size(); d-- > 0;) out.strides[d] = stride, stride *= out.dims[d];
  return out;
}

CudnnLayout CudnnLayout::as(int dtype) const {
  CudnnLayout out = *this;
  out.type = dtype;
  return out;
}

CudnnLayout CudnnLayout::transposed() const {
  CudnnLayout out = strides.empty() ? dense() : *this;
  std::swap(out.dims[2], out.dims[3]);
  std::swap(out.strides[2], out.strides[3]);
  return out;
}

CudnnGraph::~CudnnGraph() {
  for (size_t i = made_.size(); i-- > 0;) (void)t_.descriptorDestroy(made_[i]);
}

void* CudnnGraph::create(int type) {
  void* out = nullptr;
  if (!status_) status_ = t_.descriptorCreate(type, &out);
  if (!status_) made_.push_back(out);
  return out;
}

void CudnnGraph::set(void* descriptor, int attribute, int type, int64_t count, const void* values) {
  if (!status_) status_ = t_.descriptorSet(descriptor, attribute, type, count, values);
}

void CudnnGraph::finalize(void* descriptor) {
  if (!status_) status_ = t_.descriptorFinalize(descriptor);
}

void CudnnGraph::add(void* operation) {
  finalize(operation);
  operations_.push_back(operation);
}

CudnnGraph::Tensor CudnnGraph::tensor(int64_t id, const CudnnLayout& layout, bool isVirtual, bool byValue) {
  const CudnnLayout l = layout.strides.empty() ? layout.dense() : layout;
  const auto rank = static_cast<int64_t>(l.dims.size());
  const int64_t alignment = byValue ? 4 : l.alignment;
  Tensor t = create(kCudnnTensor);
  set(t, kCudnnTensorType, kCudnnTypeDataType, l.type);
  set(t, kCudnnTensorDims, kCudnnTypeI64, rank, l.dims.data());
  set(t, kCudnnTensorStrides, kCudnnTypeI64, rank, l.strides.data());
  set(t, kCudnnTensorId, kCudnnTypeI64, 1, &id);
  set(t, kCudnnTensorAlignment, kCudnnTypeI64, 1, &alignment);
  if (isVirtual) set(t, kCudnnTensorVirtual, kCudnnTypeBoolean, 1, &isVirtual);
  if (byValue) set(t, kCudnnTensorByValue, kCudnnTypeBoolean, 1, &byValue);
  finalize(t);
  return t;
}

CudnnGraph::Tensor CudnnGraph::memory(size_t number, const CudnnLayout& layout) {
  const auto id = static_cast<int64_t>(number) + 1;
  ids_.push_back(id);
  numbers_.push_back(number);
  return tensor(id, layout, false, false);
}

CudnnGraph::Tensor CudnnGraph::between(const CudnnLayout& layout) {
  return tensor(nextVirtual_++, layout, true, false);
}

CudnnGraph::Tensor CudnnGraph::number(float value) {
  valueIds_.push_back(nextVirtual_);
  values_.push_back(std::bit_cast<std::array<std::byte, 4>>(value));
  return tensor(nextVirtual_++, {}, false, true);
}

CudnnGraph::Tensor CudnnGraph::integer(int32_t value) {
  valueIds_.push_back(nextVirtual_);
  values_.push_back(std::bit_cast<std::array<std::byte, 4>>(value));
  return tensor(nextVirtual_++, CudnnLayout{}.as(kCudnnI32), false, true);
}

void CudnnGraph::pointwise(int mode, Tensor x, Tensor y, Tensor b, Tensor t, int math) {
  void* how = create(kCudnnPointwise);
  set(how, kCudnnPointwiseMode, kCudnnTypePointwise, mode);
  set(how, kCudnnPointwiseMath, kCudnnTypeDataType, math);
  finalize(how);
  void* op = create(kCudnnPointwiseOp);
  set(op, kCudnnPointwiseOpHow, how);
  set(op, kCudnnPointwiseOpX, x);
  set(op, kCudnnPointwiseOpY, y);
  if (b) set(op, kCudnnPointwiseOpB, b);
  if (t) set(op, kCudnnPointwiseOpT, t);
  add(op);
}

void CudnnGraph::index(Tensor like, Tensor y, int64_t dim) {
  void* how = create(kCudnnPointwise);
  set(how, kCudnnPointwiseMode, kCudnnTypePointwise, kCudnnGenIndex);
  set(how, kCudnnPointwiseMath, kCudnnTypeDataType, kCudnnF32);
  set(how, kCudnnPointwiseAxis, kCudnnTypeI64, 1, &dim);
  finalize(how);
  void* op = create(kCudnnPointwiseOp);
  set(op, kCudnnPointwiseOpHow, how);
  set(op, kCudnnPointwiseOpX, like);
  set(op, kCudnnPointwiseOpY, y);
  add(op);
}

void CudnnGraph::reduce(int kind, Tensor x, Tensor y) {
  void* how = create(kCudnnReduction);
  set(how, kCudnnReductionKind, kCudnnTypeReduction, kind);
  set(how, kCudnnReductionMath, kCudnnTypeDataType, kCudnnF32);
  finalize(how);
  void* op = create(kCudnnReductionOp);
  set(op, kCudnnReductionOpHow, how);
  set(op, kCudnnReductionOpX, x);
  set(op, kCudnnReductionOpY, y);
  add(op);
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  void* how = create(kCudnnMatmul);
  set(how, kCudnnMatmulMath, kCudnnTypeDataType, kCudnnF32);
  finalize(how);
  void* op = create(kCudnnMatmulOp);
  set(op, kCudnnMatmulOpHow, how);
  set(op, kCudnnMatmulOpA, a);
  set(op, kCudnnMatmulOpB, b);
  set(op, kCudnnMatmulOpC, c);
  add(op);
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  void* op = create(kCudnnReshapeOp);
  set(op, kCudnnReshapeOpX, x);
  set(op, kCudnnReshapeOpY, y);
  add(op);
}

namespace {
struct ConvOp { // the attributes of the three convolution operations
  int op, how, image, window, result, alpha, beta;
};
constexpr ConvOp kConvOps[] = {{kCudnnConvOp, kCudnnConvOpHow, kCudnnConvOpX, kCudnnConvOpW, kCudnnConvOpY,
                                kCudnnConvOpAlpha, kCudnnConvOpBeta},
                               {kCudnnConvImageOp, kCudnnConvImageHow, kCudnnConvImageDx, kCudnnConvImageW,
                                kCudnnConvImageDy, kCudnnConvImageAlpha, kCudnnConvImageBeta},
                               {kCudnnConvWindowOp, kCudnnConvWindowHow, kCudnnConvWindowX,
                                kCudnnConvWindowDw, kCudnnConvWindowDy, kCudnnConvWindowAlpha,
                                kCudnnConvWindowBeta}}; // by ConvKind
} // namespace

void CudnnGraph::convolution(ConvKind kind, Tensor image, Tensor window, Tensor result,
                             const CudnnWindow& along, int math) {
  const auto rank = static_cast<int64_t>(along.stride.size());
  void* how = create(kCudnnConv);
  set(how, kCudnnConvMath, kCudnnTypeDataType, math);
  set(how, kCudnnConvMode, kCudnnTypeConvMode, kCudnnCrossCorrelation);
  set(how, kCudnnConvRank, kCudnnTypeI64, 1, &rank);
  set(how, kCudnnConvStrides, kCudnnTypeI64, rank, along.stride.data());
  set(how, kCudnnConvDilations, kCudnnTypeI64, rank, along.dilation.data());
  set(how, kCudnnConvBefore, kCudnnTypeI64, rank, along.before.data());
  set(how, kCudnnConvAfter, kCudnnTypeI64, rank, along.after.data());
  finalize(how);
  const ConvOp& names = kConvOps[static_cast<size_t>(kind)];
  void* op = create(names.op);
  set(op, names.how, how);
  set(op, names.image, image);
  set(op, names.window, window);
  set(op, names.result, result);
  const double one = 1, zero = 0;
  const float one32 = 1, zero32 = 0;
  const bool wide = math == kCudnnF64;
  const int scalar = wide ? kCudnnTypeF64 : kCudnnTypeF32;
  set(op, names.alpha, scalar, 1, wide ? static_cast<const void*>(&one) : &one32);
  set(op, names.beta, scalar, 1, wide ? static_cast<const void*>(&zero) : &zero32);
  add(op);
}

std::vector<void*> CudnnGraph::engines(void* graph, int mode) {
  void* heuristics = create(kCudnnHeuristics);
  set(heuristics, kCudnnHeuristicGraph, graph);
  set(heuristics, kCudnnHeuristicMode, kCudnnTypeHeuristic, mode);
  finalize(heuristics);
  int64_t count = 0;
  if (!status_)
    status_ = t_.descriptorGet(heuristics, kCudnnHeuristicResults, kCudnnTypeDescriptor, 0, &count, nullptr);
  std::vector<void*> configs;
  for (int64_t i = 0; i < count && !status_; ++i) configs.push_back(create(kCudnnEngineConfig));
  if (!status_ && count > 0)
    status_ = t_.descriptorGet(heuristics, kCudnnHeuristicResults, kCudnnTypeDescriptor, count, &count,
                               configs.data());
  configs.resize(status_ ? 0 : std::min(configs.size(), static_cast<size_t>(std::max<int64_t>(count, 0))));
  return configs;
}

// The engine's numerical notes as a set; all of them if they are unknown.
uint32_t CudnnGraph::notesOf(void* config) {
  void* engine = create(kCudnnEngine);
  int64_t count = 0;
  int notes[kCudnnNoteCount] = {};
  if (status_ || t_.descriptorGet(config, kCudnnConfigEngine, kCudnnTypeDescriptor, 1, &count, &engine) ||
      t_.descriptorGet(engine, kCudnnEngineNotes, kCudnnTypeNumericalNote, kCudnnNoteCount, &count, notes))
    return ~uint32_t{0};
  uint32_t set = 0;
  for (int64_t i = 0; i < std::min<int64_t>(count, kCudnnNoteCount); ++i) set |= 1u << notes[i];
  return set;
}

int CudnnGraph::planWith(void* config, void* handle, size_t workspaceBytes) {
  void* plan = create(kCudnnExecutionPlan);
  set(plan, kCudnnPlanHandle, kCudnnTypeHandle, 1, &handle);
  set(plan, kCudnnPlanConfig, config);
  finalize(plan);
  int64_t count = 0;
  if (!status_) status_ = t_.descriptorGet(plan, kCudnnPlanWorkspace, kCudnnTypeI64, 1, &count, &workspace_);
  if (!status_ && static_cast<size_t>(workspace_) <= workspaceBytes) {
    plan_ = plan;
    return 0;
  }
  const int refused = std::exchange(status_, 0); // another engine may support it
  return refused ? refused : int{kCudnnNotSupported};
}

int CudnnGraph::plan(void* handle, size_t workspaceBytes, uint32_t refusedNotes) {
  void* graph = create(kCudnnOperationGraph);
  set(graph, kCudnnGraphOps, kCudnnTypeDescriptor, static_cast<int64_t>(operations_.size()),
      operations_.data());
  set(graph, kCudnnGraphHandle, kCudnnTypeHandle, 1, &handle);
  finalize(graph);
  if (status_) return status_;
  int refused = kCudnnNotSupported;
  for (int mode : {kCudnnHeuristicA, kCudnnHeuristicFallback}) {
    for (void* config : engines(graph, mode)) {
      if (refusedNotes && (notesOf(config) & refusedNotes)) continue;
      const int status = planWith(config, handle, workspaceBytes);
      if (!status) return 0;
      refused = status;
    }
    status_ = 0; // of heuristics that know no engine
  }
  return refused;
}

int CudnnGraph::run(void* handle, std::span<void* const> pointers, void* workspace) {
  std::vector<int64_t> ids = ids_;
  std::vector<void*> at;
  for (size_t number : numbers_) at.push_back(pointers[number]);
  ids.insert(ids.end(), valueIds_.begin(), valueIds_.end());
  for (auto& v : values_) at.push_back(v.data());
  void* pack = nullptr;
  int status = t_.descriptorCreate(kCudnnVariantPack, &pack);
  if (status) return status;
  const auto count = static_cast<int64_t>(ids.size());
  status = t_.descriptorSet(pack, kCudnnPackPointers, kCudnnTypePointer, count, at.data());
  if (!status) status = t_.descriptorSet(pack, kCudnnPackIds, kCudnnTypeI64, count, ids.data());
  if (!status) status = t_.descriptorSet(pack, kCudnnPackWorkspace, kCudnnTypePointer, 1, &workspace);
  if (!status) status = t_.descriptorFinalize(pack);
  if (!status) status = t_.execute(handle, plan_, pack);
  (void)t_.descriptorDestroy(pack);
  return status;
}

} // namespace dtc
