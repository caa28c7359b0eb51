// The CUDA driver and cuBLASLt: their declarations against NVIDIA's headers, and, where a GPU is, that they work.
#include "../../../lib/Cuda/CublasTable.h"
#include "../../../lib/Cuda/CudaTable.h"
#include "../../../lib/Cuda/CudnnGraphTable.h"
#include "../../../lib/Cuda/CudnnTable.h"
#include "../../../lib/Cuda/NcclTable.h"
#include "dtc/Cuda/CublasLt.h"
#include "dtc/Cuda/Nvrtc.h"
#include <cmath>
#include <type_traits>
#ifdef DTC_HAVE_CUDA_HEADERS
#include <cublasLt.h>
#include <cuda.h>
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define DTC_HAVE_CUDNN_HEADER
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#define DTC_HAVE_NCCL_HEADER
#endif
#endif

namespace dtc {
namespace {

#ifdef DTC_HAVE_CUDA_HEADERS
// Two parameters are passed alike: pointers both, or integers (enums) of one size.
// NOLINTBEGIN(bugprone-sizeof-expression,misc-redundant-expression)
template <class A, class B>
constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
                       std::is_floating_point_v<A> == std::is_floating_point_v<B>;
// NOLINTEND(bugprone-sizeof-expression,misc-redundant-expression)
template <class A, class B> struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B> struct SameCall<R (*)(A...), S (*)(B...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return sizeof(R) == sizeof(S) && (alike<A, B> && ...);
  }
  static constexpr bool value = compare();
};
#define DTC_COMPARE(member, symbol, parameters)                                                              \
  static_assert(SameCall<decltype(CudaTable::member), decltype(&::symbol)>::value, #symbol);
DTC_CUDA_FUNCTIONS(DTC_COMPARE)
DTC_CUDA_CONDITIONALS(DTC_COMPARE)
DTC_CUDA_OPTIONAL(DTC_COMPARE)
#undef DTC_COMPARE
static_assert(int(kAttributeMultiprocessors) == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              int(kAttributeMajor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              int(kAttributeMinor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              int(kAttributeSharedOptIn) == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN &&
              int(kAttributePciBus) == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID &&
              int(kAttributePciDevice) == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID &&
              int(kAttributePciDomain) == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
static_assert(int(kFunctionDynamicShared) == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
              int(kStreamNonBlocking) == CU_STREAM_NON_BLOCKING &&
              int(kGraphNodePriorities) == CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY &&
              int(kEventNoTiming) == CU_EVENT_DISABLE_TIMING);
static_assert(int(kCaptureThreadLocal) == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
              int(kCaptureSetDependencies) == CU_STREAM_SET_CAPTURE_DEPENDENCIES &&
              int(kConditionalNode) == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
              int(kConditionalIf) == CU_GRAPH_COND_TYPE_IF &&
              int(kConditionalWhile) == CU_GRAPH_COND_TYPE_WHILE);
static_assert(int(kCudaStubLibrary) == CUDA_ERROR_STUB_LIBRARY &&
              int(kCudaDeviceUnavailable) == CUDA_ERROR_DEVICE_UNAVAILABLE &&
              int(kCudaNoDevice) == CUDA_ERROR_NO_DEVICE &&
              int(kCudaInvalidImage) == CUDA_ERROR_INVALID_IMAGE &&
              int(kCudaNoBinary) == CUDA_ERROR_NO_BINARY_FOR_GPU &&
              int(kCudaUnsupportedPtx) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION &&
              int(kCudaOperatingSystem) == CUDA_ERROR_OPERATING_SYSTEM &&
              int(kCudaNotReady) == CUDA_ERROR_NOT_READY &&
              int(kCudaPeerAlready) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED &&
              int(kCudaSystemNotReady) == CUDA_ERROR_SYSTEM_NOT_READY &&
              int(kCudaDriverMismatch) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH &&
              int(kCudaCompatNotSupported) == CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE &&
              int(kCudaUnknown) == CUDA_ERROR_UNKNOWN);
static_assert(int(kMemsetNode) == CU_GRAPH_NODE_TYPE_MEMSET &&
              offsetof(CudaMemsetParams, to) == offsetof(CUgraphNodeParams, memset.dst) &&
              offsetof(CudaMemsetParams, value) == offsetof(CUgraphNodeParams, memset.value) &&
              offsetof(CudaMemsetParams, elementBytes) == offsetof(CUgraphNodeParams, memset.elementSize) &&
              offsetof(CudaMemsetParams, width) == offsetof(CUgraphNodeParams, memset.width) &&
              offsetof(CudaMemsetParams, height) == offsetof(CUgraphNodeParams, memset.height) &&
              offsetof(CudaMemsetParams, context) == offsetof(CUgraphNodeParams, memset.ctx));
static_assert(sizeof(CudaNodeParams) == sizeof(CUgraphNodeParams) &&
              offsetof(CudaNodeParams, handle) == offsetof(CUgraphNodeParams, conditional.handle) &&
              offsetof(CudaNodeParams, kind) == offsetof(CUgraphNodeParams, conditional.type) &&
              offsetof(CudaNodeParams, size) == offsetof(CUgraphNodeParams, conditional.size) &&
              offsetof(CudaNodeParams, bodies) == offsetof(CUgraphNodeParams, conditional.phGraph_out) &&
              offsetof(CudaNodeParams, context) == offsetof(CUgraphNodeParams, conditional.ctx));
#define DTC_COMPARE(member, symbol, parameters)                                                              \
  static_assert(SameCall<decltype(CublasTable::member), decltype(&::symbol)>::value, #symbol);
DTC_CUBLAS_FUNCTIONS(DTC_COMPARE)
#undef DTC_COMPARE
#ifdef DTC_HAVE_NCCL_HEADER
template <class... A> struct SameCall<int (*)(NcclUniqueId*), ncclResult_t (*)(A...)> : std::true_type {};
template <>
struct SameCall<int (*)(void**, int, NcclUniqueId, int),
                ncclResult_t (*)(ncclComm_t*, int, ncclUniqueId, int)>
    : std::bool_constant<sizeof(NcclUniqueId) == sizeof(ncclUniqueId)> {};
#define DTC_COMPARE(member, symbol, parameters)                                                              \
  static_assert(SameCall<decltype(NcclTable::member), decltype(&::symbol)>::value, #symbol);
DTC_NCCL_FUNCTIONS(DTC_COMPARE)
DTC_NCCL_TEXTS(DTC_COMPARE)
#undef DTC_COMPARE
static_assert(int(kNcclInt8) == ncclInt8 && int(kNcclUint8) == ncclUint8 && int(kNcclInt32) == ncclInt32 &&
              int(kNcclUint32) == ncclUint32 && int(kNcclInt64) == ncclInt64 &&
              int(kNcclUint64) == ncclUint64);
static_assert(int(kNcclFloat16) == ncclFloat16 && int(kNcclFloat32) == ncclFloat32 &&
              int(kNcclFloat64) == ncclFloat64 && int(kNcclBfloat16) == ncclBfloat16);
static_assert(int(kNcclSum) == ncclSum && int(kNcclProd) == ncclProd && int(kNcclMax) == ncclMax &&
              int(kNcclMin) == ncclMin && int(kNcclInProgress) == ncclInProgress);
#endif
#ifdef DTC_HAVE_CUDNN_HEADER
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
#define DTC_COMPARE(member, symbol, parameters)                                                              \
  static_assert(SameCall<decltype(CudnnTable::member), decltype(&::symbol)>::value, #symbol);
DTC_CUDNN_FUNCTIONS(DTC_COMPARE)
#undef DTC_COMPARE
static_assert(int(kCudnnF32) == CUDNN_DATA_FLOAT && int(kCudnnF64) == CUDNN_DATA_DOUBLE &&
              int(kCudnnF16) == CUDNN_DATA_HALF && int(kCudnnBf16) == CUDNN_DATA_BFLOAT16);
static_assert(int(kCudnnCrossCorrelation) == CUDNN_CROSS_CORRELATION);
static_assert(int(kCudnnBadParameter) == CUDNN_STATUS_BAD_PARAM &&
              int(kCudnnNotSupported) == CUDNN_STATUS_NOT_SUPPORTED);
static_assert(int(kCudnnI32) == CUDNN_DATA_INT32);
static_assert(int(kCudnnBool) == CUDNN_DATA_BOOLEAN);
static_assert(int(kCudnnPointwise) == CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
static_assert(int(kCudnnEngine) == CUDNN_BACKEND_ENGINE_DESCRIPTOR);
static_assert(int(kCudnnEngineConfig) == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
static_assert(int(kCudnnHeuristics) == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
static_assert(int(kCudnnExecutionPlan) == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
static_assert(int(kCudnnPointwiseOp) == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
static_assert(int(kCudnnOperationGraph) == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
static_assert(int(kCudnnVariantPack) == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
static_assert(int(kCudnnTensor) == CUDNN_BACKEND_TENSOR_DESCRIPTOR);
static_assert(int(kCudnnMatmul) == CUDNN_BACKEND_MATMUL_DESCRIPTOR);
static_assert(int(kCudnnMatmulOp) == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
static_assert(int(kCudnnReduction) == CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
static_assert(int(kCudnnReductionOp) == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
static_assert(int(kCudnnReshapeOp) == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
static_assert(int(kCudnnTypeHandle) == CUDNN_TYPE_HANDLE);
static_assert(int(kCudnnTypeDataType) == CUDNN_TYPE_DATA_TYPE);
static_assert(int(kCudnnTypeBoolean) == CUDNN_TYPE_BOOLEAN);
static_assert(int(kCudnnTypeI64) == CUDNN_TYPE_INT64);
static_assert(int(kCudnnTypePointer) == CUDNN_TYPE_VOID_PTR);
static_assert(int(kCudnnTypeHeuristic) == CUDNN_TYPE_HEUR_MODE);
static_assert(int(kCudnnTypeNumericalNote) == CUDNN_TYPE_NUMERICAL_NOTE);
static_assert(int(kCudnnTypePointwise) == CUDNN_TYPE_POINTWISE_MODE);
static_assert(int(kCudnnTypeDescriptor) == CUDNN_TYPE_BACKEND_DESCRIPTOR);
static_assert(int(kCudnnTypeReduction) == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
static_assert(int(kCudnnAdd) == CUDNN_POINTWISE_ADD);
static_assert(int(kCudnnMul) == CUDNN_POINTWISE_MUL);
static_assert(int(kCudnnDiv) == CUDNN_POINTWISE_DIV);
static_assert(int(kCudnnSub) == CUDNN_POINTWISE_SUB);
static_assert(int(kCudnnExp) == CUDNN_POINTWISE_EXP);
static_assert(int(kCudnnLog) == CUDNN_POINTWISE_LOG);
static_assert(int(kCudnnIdentity) == CUDNN_POINTWISE_IDENTITY);
static_assert(int(kCudnnGreater) == CUDNN_POINTWISE_CMP_GT);
static_assert(int(kCudnnGreaterEqual) == CUDNN_POINTWISE_CMP_GE);
static_assert(int(kCudnnGenIndex) == CUDNN_POINTWISE_GEN_INDEX);
static_assert(int(kCudnnSelect) == CUDNN_POINTWISE_BINARY_SELECT);
static_assert(int(kCudnnReduceAdd) == CUDNN_REDUCE_TENSOR_ADD);
static_assert(int(kCudnnReduceMax) == CUDNN_REDUCE_TENSOR_MAX);
static_assert(int(kCudnnHeuristicA) == CUDNN_HEUR_MODE_A);
static_assert(int(kCudnnConv) == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
static_assert(int(kCudnnConvOp) == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
static_assert(int(kCudnnConvWindowOp) == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
static_assert(int(kCudnnConvImageOp) == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
static_assert(int(kCudnnTypeF32) == CUDNN_TYPE_FLOAT && int(kCudnnTypeF64) == CUDNN_TYPE_DOUBLE);
static_assert(int(kCudnnTypeConvMode) == CUDNN_TYPE_CONVOLUTION_MODE);
static_assert(int(kCudnnHeuristicFallback) == CUDNN_HEUR_MODE_FALLBACK);
static_assert(int(kCudnnNoteTensorCore) == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
static_assert(int(kCudnnNoteNarrowsInputs) == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
static_assert(int(kCudnnNoteNarrowSums) == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
static_assert(int(kCudnnNoteFft) == CUDNN_NUMERICAL_NOTE_FFT);
static_assert(int(kCudnnNoteWinograd) == CUDNN_NUMERICAL_NOTE_WINOGRAD);
static_assert(int(kCudnnNoteWinograd4) == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4);
static_assert(int(kCudnnNoteWinograd6) == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6);
static_assert(int(kCudnnNoteWinograd13) == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
static_assert(int(kCudnnConvMath) == CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
static_assert(int(kCudnnConvMode) == CUDNN_ATTR_CONVOLUTION_CONV_MODE);
static_assert(int(kCudnnConvDilations) == CUDNN_ATTR_CONVOLUTION_DILATIONS);
static_assert(int(kCudnnConvStrides) == CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
static_assert(int(kCudnnConvAfter) == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
static_assert(int(kCudnnConvBefore) == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
static_assert(int(kCudnnConvRank) == CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
static_assert(int(kCudnnConvOpAlpha) == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
static_assert(int(kCudnnConvOpBeta) == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
static_assert(int(kCudnnConvOpHow) == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
static_assert(int(kCudnnConvOpW) == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
static_assert(int(kCudnnConvOpX) == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
static_assert(int(kCudnnConvOpY) == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
static_assert(int(kCudnnConvImageAlpha) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
static_assert(int(kCudnnConvImageBeta) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
static_assert(int(kCudnnConvImageHow) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
static_assert(int(kCudnnConvImageW) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
static_assert(int(kCudnnConvImageDx) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
static_assert(int(kCudnnConvImageDy) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
static_assert(int(kCudnnConvWindowAlpha) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
static_assert(int(kCudnnConvWindowBeta) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
static_assert(int(kCudnnConvWindowHow) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
static_assert(int(kCudnnConvWindowDw) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
static_assert(int(kCudnnConvWindowX) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
static_assert(int(kCudnnConvWindowDy) == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
static_assert(int(kCudnnNoteNondeterministic) == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
static_assert(int(kCudnnPointwiseMode) == CUDNN_ATTR_POINTWISE_MODE);
static_assert(int(kCudnnPointwiseMath) == CUDNN_ATTR_POINTWISE_MATH_PREC);
static_assert(int(kCudnnPointwiseAxis) == CUDNN_ATTR_POINTWISE_AXIS);
static_assert(int(kCudnnHeuristicMode) == CUDNN_ATTR_ENGINEHEUR_MODE);
static_assert(int(kCudnnHeuristicGraph) == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
static_assert(int(kCudnnHeuristicResults) == CUDNN_ATTR_ENGINEHEUR_RESULTS);
static_assert(int(kCudnnConfigEngine) == CUDNN_ATTR_ENGINECFG_ENGINE);
static_assert(int(kCudnnPlanHandle) == CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
static_assert(int(kCudnnPlanConfig) == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
static_assert(int(kCudnnPlanWorkspace) == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
static_assert(int(kCudnnPointwiseOpHow) == CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
static_assert(int(kCudnnPointwiseOpX) == CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
static_assert(int(kCudnnPointwiseOpB) == CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
static_assert(int(kCudnnPointwiseOpY) == CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
static_assert(int(kCudnnPointwiseOpT) == CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
static_assert(int(kCudnnGraphHandle) == CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
static_assert(int(kCudnnGraphOps) == CUDNN_ATTR_OPERATIONGRAPH_OPS);
static_assert(int(kCudnnTensorAlignment) == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
static_assert(int(kCudnnTensorType) == CUDNN_ATTR_TENSOR_DATA_TYPE);
static_assert(int(kCudnnTensorDims) == CUDNN_ATTR_TENSOR_DIMENSIONS);
static_assert(int(kCudnnTensorStrides) == CUDNN_ATTR_TENSOR_STRIDES);
static_assert(int(kCudnnTensorId) == CUDNN_ATTR_TENSOR_UNIQUE_ID);
static_assert(int(kCudnnTensorVirtual) == CUDNN_ATTR_TENSOR_IS_VIRTUAL);
static_assert(int(kCudnnTensorByValue) == CUDNN_ATTR_TENSOR_IS_BY_VALUE);
static_assert(int(kCudnnPackIds) == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
static_assert(int(kCudnnPackPointers) == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
static_assert(int(kCudnnPackWorkspace) == CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
static_assert(int(kCudnnEngineNotes) == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
static_assert(int(kCudnnMatmulMath) == CUDNN_ATTR_MATMUL_COMP_TYPE);
static_assert(int(kCudnnMatmulOpA) == CUDNN_ATTR_OPERATION_MATMUL_ADESC);
static_assert(int(kCudnnMatmulOpB) == CUDNN_ATTR_OPERATION_MATMUL_BDESC);
static_assert(int(kCudnnMatmulOpC) == CUDNN_ATTR_OPERATION_MATMUL_CDESC);
static_assert(int(kCudnnMatmulOpHow) == CUDNN_ATTR_OPERATION_MATMUL_DESC);
static_assert(int(kCudnnReductionKind) == CUDNN_ATTR_REDUCTION_OPERATOR);
static_assert(int(kCudnnReductionMath) == CUDNN_ATTR_REDUCTION_COMP_TYPE);
static_assert(int(kCudnnReductionOpX) == CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
static_assert(int(kCudnnReductionOpY) == CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
static_assert(int(kCudnnReductionOpHow) == CUDNN_ATTR_OPERATION_REDUCTION_DESC);
static_assert(int(kCudnnReshapeOpX) == CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
static_assert(int(kCudnnReshapeOpY) == CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
#pragma clang diagnostic pop
#endif
static_assert(sizeof(CublasHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CublasHeuristic, workspaceBytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(CublasHeuristic, status) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(int(kCudaF32) == CUDA_R_32F && int(kCudaF64) == CUDA_R_64F && int(kCudaF16) == CUDA_R_16F &&
              int(kCudaBf16) == CUDA_R_16BF && int(kCudaF8E4M3) == CUDA_R_8F_E4M3 &&
              int(kCudaF8E5M2) == CUDA_R_8F_E5M2);
static_assert(int(kComputeF32) == CUBLAS_COMPUTE_32F && int(kComputeF64) == CUBLAS_COMPUTE_64F &&
              int(kComputeTf32) == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(int(kDescTransA) == CUBLASLT_MATMUL_DESC_TRANSA &&
              int(kDescTransB) == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(int(kDescEpilogue) == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              int(kDescBias) == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(int(kDescBiasType) == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE &&
              int(kEpilogueBias) == CUBLASLT_EPILOGUE_BIAS);
static_assert(int(kDescPointerMode) == CUBLASLT_MATMUL_DESC_POINTER_MODE &&
              int(kPointersOfDevice) == CUBLASLT_POINTER_MODE_DEVICE &&
              int(kDescScaleA) == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER &&
              int(kDescScaleB) == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(int(kEpilogueDefault) == CUBLASLT_EPILOGUE_DEFAULT &&
              int(kEpilogueGelu) == CUBLASLT_EPILOGUE_GELU &&
              int(kEpilogueGelu | kEpilogueAux) == CUBLASLT_EPILOGUE_GELU_AUX &&
              int(kEpilogueGelu | kEpilogueAux | kEpilogueBias) == CUBLASLT_EPILOGUE_GELU_AUX_BIAS &&
              int(kEpilogueGeluGradient | kEpilogueAux) == CUBLASLT_EPILOGUE_DGELU &&
              int(kDescAux) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER &&
              int(kDescAuxLead) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD &&
              int(kDescAuxBatchStride) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE &&
              int(kEpilogueGelu | kEpilogueBias) == CUBLASLT_EPILOGUE_GELU_BIAS &&
              int(kEpilogueRelu) == CUBLASLT_EPILOGUE_RELU &&
              int(kEpilogueRelu | kEpilogueBias) == CUBLASLT_EPILOGUE_RELU_BIAS &&
              int(kPreferReductions) == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(int(kLayoutBatch) == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              int(kLayoutBatchStride) == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(int(kPreferAlignmentA) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              int(kPreferAlignmentD) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(int(kPreferWorkspace) == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
              int(kTransposed) == CUBLAS_OP_T);
#endif

TEST(CudaDriver, AMissingDriverIsAnErrorThatSaysSo) {
  auto driver = CudaDriver::open("libno-such-driver.so.1");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().kind, Error::Machine);
  EXPECT_NE(driver.error().message.find("libno-such-driver.so.1"), std::string::npos);
}

TEST(CudaDriver, TargetsAreNamedAfterTheDevice) {
  CudaDeviceInfo info;
  info.major = 8, info.minor = 0;
  EXPECT_EQ(info.arch(), "sm_80");
  info.major = 9;
  EXPECT_EQ(info.arch(), "sm_90a");
  info.major = 10, info.minor = 3;
  EXPECT_EQ(info.arch(), "sm_103a");
}

class Gpu : public ::testing::Test {
protected:
  void SetUp() override {
    auto driver = CudaDriver::open();
    if (!driver) GTEST_SKIP() << "no GPU: skipped (" << driver.error().message << ")";
    auto device = CudaDevice::open(*driver, 0);
    ASSERT_TRUE(device.ok()) << device.error().message;
    device_.emplace(*device);
  }
  template <class T> T get(Result<T> result) {
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return *result;
  }
  std::optional<CudaDevice> device_;
};

TEST_F(Gpu, AKernelRunsByItselfAndInAGraph) {
  const SourceUnit unit{"twice", "extern \"C\" __global__ void twice(f32* x, i32 n) { const i32 i = "
                                 "blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }"};
  auto binaries = Nvrtc().compile({&unit, 1}, device_->info().arch(), CudaImage::Cubin);
  if (!binaries) GTEST_SKIP() << binaries.error().message;
  const CudaModule module = get(device_->load((*binaries)[0].image));
  const CudaFunction twice = get(device_->function(module, "twice"));
  const CudaStream stream = get(device_->stream());
  int n = 1000;
  std::vector<float> x(static_cast<size_t>(n), 1.5f);
  const size_t bytes = x.size() * sizeof(float);
  const CudaMemory memory = get(device_->allocate(bytes));
  void* p = memory.get;
  void* args[] = {&p, &n};
  ASSERT_TRUE(device_->copyIn(p, x.data(), bytes, stream).ok());
  ASSERT_TRUE(device_->launch(twice, {8}, {128}, 0, args, stream).ok());
  ASSERT_TRUE(device_->beginCapture(stream).ok());
  ASSERT_TRUE(device_->launch(twice, {8}, {128}, 0, args, stream).ok());
  const CudaGraph graph = get(device_->instantiate(get(device_->endCapture(stream)), stream));
  ASSERT_TRUE(device_->launch(graph, stream).ok());
  ASSERT_TRUE(device_->copyOut(x.data(), p, bytes, stream).ok());
  ASSERT_TRUE(device_->synchronize(stream).ok());
  EXPECT_EQ(x[999], 6.0f);
  EXPECT_FALSE(device_->function(module, "thrice").ok());
}

TEST_F(Gpu, ProductsOfEveryStorageOrderAreRight) {
  auto library = CublasLt::open(*device_);
  if (!library) GTEST_SKIP() << library.error().message;
  const CudaStream stream = get(device_->stream());
  const int64_t batch = 2, m = 5, n = 8, k = 16;
  std::vector<float> a(batch * m * k), b(batch * k * n), bias(n), y(batch * m * n), residual(batch * m * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i);
  auto put = [&](const std::vector<float>& v) {
    CudaMemory memory = get(device_->allocate(v.size() * 4));
    EXPECT_TRUE(device_->copyIn(memory.get, v.data(), v.size() * 4, stream).ok());
    return memory;
  };
  for (size_t i = 0; i < residual.size(); ++i) residual[i] = static_cast<float>(i % 3);
  const CudaMemory da = put(a), db = put(b), dbias = put(bias), dresidual = put(residual), dy = put(y);
  for (int way = 0; way < 4; ++way) {
    const bool ta = way & 1, tb = way & 2;
    CublasGemm gemm{DType::F32,        batch,    m, n, k, {ta ? m : k, m * k, ta}, {tb ? k : n, k * n, tb},
                    {n, m * n, false}, dbias.get};
    if (ta) gemm.residual = {n, m * n, false}, gemm.beta = -2;
    if (tb) gemm.alpha = 0.5;
    gemm.deterministic = tb;
    const CublasPlan plan = get(library->plan(gemm));
    const CudaMemory workspace = get(device_->allocate(plan.workspaceBytes()));
    auto ran = library->run(plan, {da.get, db.get, dresidual.get, dy.get}, workspace.get, stream);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    ASSERT_TRUE(device_->copyOut(y.data(), dy.get, y.size() * 4, stream).ok());
    ASSERT_TRUE(device_->synchronize(stream).ok());
    for (int64_t q = 0; q < batch; ++q)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float want = bias[static_cast<size_t>(j)];
          if (ta) want -= 2 * residual[static_cast<size_t>((q * m + i) * n + j)];
          for (int64_t l = 0; l < k; ++l)
            want += (tb ? 0.5F : 1) * a[static_cast<size_t>(q * m * k + (ta ? l * m + i : i * k + l))] *
                    b[static_cast<size_t>(q * k * n + (tb ? j * k + l : l * n + j))];
          ASSERT_EQ(y[static_cast<size_t>((q * m + i) * n + j)], want)
              << way << " " << q << " " << i << " " << j;
        }
  }
}

} // namespace
} // namespace dtc
