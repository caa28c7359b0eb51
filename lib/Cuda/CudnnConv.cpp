// Convolutions and their gradients as graphs of cuDNN operations.
#include "CudnnLibrary.h"

namespace dtc {

static std::string describe(const CudnnConv& c) {
  constexpr const char* kMade[] = {"convolution", "convolution's gradient with respect to the image",
                                   "convolution's gradient with respect to the window"};
  const CudnnConv::Tensor &image = c.tensors[CudnnConv::Image], &window = c.tensors[CudnnConv::Window],
                          &result = c.tensors[CudnnConv::Result];
  const auto n = [](int64_t v) { return std::to_string(v); };
  std::string text = std::string("a ") + std::string(dtypeName(c.dtype)) + " " +
                     kMade[static_cast<size_t>(c.kind)] + (c.bias ? " with a bias, " : ", ") +
                     n(image.dims[0]) + " x " + n(image.dims[1]) + " channels to " + n(result.dims[1]) +
                     " in " + n(image.dims[1] / window.dims[1]) + " group(s), along";
  for (size_t d = 2; d < image.dims.size(); ++d) text += " " + n(image.dims[d]) + "/" + n(window.dims[d]);
  if (c.before != c.after) text += ", with uneven padding";
  return text;
}

// The result of the operation is not rounded before the bias is added.
static void write(CudnnGraph& graph, const CudnnConv& c) {
  const int type = cudnnType(c.dtype), math = c.dtype == DType::F64 ? kCudnnF64 : kCudnnF32;
  const auto layout = [&](CudnnConv::Which which) {
    const CudnnConv::Tensor& t = c.tensors[which];
    return CudnnLayout{t.dims, t.strides, type, t.alignment};
  };
  CudnnGraph::Tensor tensors[CudnnConv::kTensors] = {};
  const CudnnConv::Which made = c.kind == ConvKind::Forward ? CudnnConv::Result
                                : c.kind == ConvKind::Image ? CudnnConv::Image
                                                            : CudnnConv::Window;
  for (CudnnConv::Which which : {CudnnConv::Image, CudnnConv::Window, CudnnConv::Result})
    tensors[which] =
        which == made && c.bias ? graph.between(layout(which).as(math)) : graph.memory(which, layout(which));
  graph.convolution(c.kind, tensors[CudnnConv::Image], tensors[CudnnConv::Window], tensors[CudnnConv::Result],
                    {c.stride, c.dilation, c.before, c.after}, math);
  if (c.bias)
    graph.pointwise(kCudnnAdd, tensors[made], graph.memory(made, layout(made)),
                    graph.memory(CudnnConv::Bias, layout(CudnnConv::Bias)), nullptr, math);
}

// Sums are direct (no FFT, no Winograd), of the operands themselves, and not rounded on the way. Engines on
// tensor cores round f32 to tf32.
static uint32_t refusedNotes(const CudnnConv& c) {
  uint32_t refused = 1u << kCudnnNoteNarrowsInputs | 1u << kCudnnNoteNarrowSums | 1u << kCudnnNoteFft |
                     1u << kCudnnNoteWinograd | 1u << kCudnnNoteWinograd4 | 1u << kCudnnNoteWinograd6 |
                     1u << kCudnnNoteWinograd13;
  if (c.dtype == DType::F32 && !c.tf32) refused |= 1u << kCudnnNoteTensorCore;
  if (c.deterministic) refused |= 1u << kCudnnNoteNondeterministic;
  return refused;
}

CudnnRequest requestOf(const CudnnConv& conv) {
  return {describe(conv), refusedNotes(conv), [conv](CudnnGraph& graph) { write(graph, conv); }};
}

} // namespace dtc
