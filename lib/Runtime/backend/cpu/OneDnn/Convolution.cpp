// oneDNN convolutions, forward and both gradients, on tensors with any strides: if no fast implementation
// supports the strides, tensors are reordered to a supported layout.
#include "Engine.h"

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace dtc::onednn {

using dnnl::memory;

namespace {

enum Which : uint8_t { Image, Window, Result, kTensors };

using Descs = std::array<memory::desc, kTensors>;

struct Tensor {
  int name = 0;          // DNNL_ARG_…
  memory argument;       // in the primitive's layout
  memory user;           // in the program's layout
  dnnl::reorder reorder; // between the two layouts, if they differ
  size_t offset = 0;     // of the argument in the scratch, if they differ
  bool moved = false;    // the layouts differ
};

struct Conv {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  std::array<Tensor, kTensors> tensors;
  std::array<void*, kTensors> addresses; // of the tensors, as created
  void* bias = nullptr;                  // likewise; null: none
  Which made = Result;
  void* packed = nullptr; // the window in the primitive's layout, if the caller keeps one
  memory scratchpad;
  size_t scratchpadOffset = 0, scratchBytes = 0;
};

struct Geometry {
  memory::dims strides, dilations, low, high;
};

Geometry geometryOf(const DtcConv& c) {
  Geometry g;
  for (int d = 0; d < c.spatial; ++d) {
    const DtcConv::Spatial& s = c.dims[d];
    g.strides.push_back(s.stride), g.dilations.push_back(s.dilation - 1);
    g.low.push_back(s.low), g.high.push_back(s.high);
  }
  return g;
}

// Merges groups and channels into one dim.
bool joins(const DtcConv& c, const int64_t* strides, int64_t channels) {
  return c.groups == 1 || channels == 1 || strides[1] == channels * strides[2];
}

memory::desc dense(const DtcConv& c, const int64_t* strides, int64_t channels,
                   int64_t DtcConv::Spatial::* size) {
  memory::dims sizes = {c.n, c.groups * channels},
               dimStrides = {strides[0], channels == 1 ? strides[1] : strides[2]};
  for (int d = 0; d < c.spatial; ++d) sizes.push_back(c.dims[d].*size), dimStrides.push_back(strides[3 + d]);
  return describe(dataType(c.type), sizes, dimStrides);
}

// `swapped`: a deconvolution, whose weights have their two channel dims exchanged.
memory::desc window(const DtcConv& c, bool swapped) {
  memory::dims sizes, dimStrides;
  if (c.groups > 1) sizes.push_back(c.groups), dimStrides.push_back(c.windowStrides[0]);
  memory::dims channels = {c.o, c.c}, steps = {c.windowStrides[1], c.windowStrides[2]};
  if (swapped) std::swap(channels[0], channels[1]), std::swap(steps[0], steps[1]);
  sizes.insert(sizes.end(), channels.begin(), channels.end());
  dimStrides.insert(dimStrides.end(), steps.begin(), steps.end());
  for (int d = 0; d < c.spatial; ++d)
    sizes.push_back(c.dims[d].length), dimStrides.push_back(c.windowStrides[3 + d]);
  return describe(dataType(c.type), sizes, dimStrides);
}

// A primitive and the memory descriptors that it chose.
struct Chosen {
  dnnl::primitive primitive;
  std::string implementation;
  Descs descs;
  memory::desc scratchpad;
  std::array<int, kTensors> names;
};

template <typename Primitive, typename Desc>
Chosen chosenFrom(const Desc& pd, std::array<int, kTensors> names) {
  const auto at = [&](int name) { return pd.query_md(dnnl::query::exec_arg_md, name); };
  return {Primitive(pd),
          pd.impl_info_str(),
          {at(names[Image]), at(names[Window]), at(names[Result])},
          pd.scratchpad_desc(),
          names};
}

Chosen choose(const DtcConv& c, const Descs& t) {
  const auto direct = dnnl::algorithm::convolution_direct;
  const Geometry g = geometryOf(c);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto forward = [&](const memory::desc* bias) {
    const auto kind = dnnl::prop_kind::forward_training;
    using P = dnnl::convolution_forward;
    const P::desc op =
        bias ? P::desc(kind, direct, t[Image], t[Window], *bias, t[Result], g.strides, g.dilations, g.low,
                       g.high)
             : P::desc(kind, direct, t[Image], t[Window], t[Result], g.strides, g.dilations, g.low, g.high);
    return P::primitive_desc(op, attributes, engine());
  };
  const auto channels = [&](int64_t each) {
    return memory::desc({c.groups * each}, dataType(c.type), memory::format_tag::a);
  };
  if (c.kind == DtcConvForward) {
    const memory::desc bias = channels(c.o);
    return chosenFrom<dnnl::convolution_forward>(forward(c.bias ? &bias : nullptr),
                                                 {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
  }
  if (c.kind == DtcConvWindow) {
    using P = dnnl::convolution_backward_weights;
    const P::desc op(direct, t[Image], t[Window], t[Result], g.strides, g.dilations, g.low, g.high);
    return chosenFrom<P>(P::primitive_desc(op, attributes, engine(), forward(nullptr)),
                         {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST});
  }
  if (!c.bias) {
    using P = dnnl::convolution_backward_data;
    const P::desc op(direct, t[Image], t[Window], t[Result], g.strides, g.dilations, g.low, g.high);
    return chosenFrom<P>(P::primitive_desc(op, attributes, engine(), forward(nullptr)),
                         {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST});
  }
  using P = dnnl::deconvolution_forward;
  const P::desc op(dnnl::prop_kind::forward_training, dnnl::algorithm::deconvolution_direct, t[Result],
                   t[Window], channels(c.c), t[Image], g.strides, g.dilations, g.low, g.high);
  return chosenFrom<P>(P::primitive_desc(op, attributes, engine()),
                       {DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_SRC});
}

// Whether the implementation is JIT-compiled for these layouts: "gemm" materializes the image once per window
// element, and "ref" is about a hundred times slower.
bool isFast(const Chosen& c) {
  return c.implementation.find("gemm") == std::string::npos &&
         c.implementation.find("ref") == std::string::npos;
}

memory::desc anyLayout(const memory::desc& d) { return {d.dims(), d.data_type(), memory::format_tag::any}; }

// The dense layout whose last dim is the channels.
memory::desc channelsLast(const memory::desc& d) {
  const memory::dims sizes = d.dims();
  memory::dims strides(sizes.size());
  strides[1] = 1;
  int64_t dense = sizes[1];
  for (size_t i = sizes.size(); i-- > 2;) strides[i] = dense, dense *= sizes[i];
  strides[0] = dense;
  return describe(d.data_type(), sizes, strides);
}

// Channels-last tensors keep their layout if a fast implementation supports it; a dense copy is made of those that
// are part of a larger one.
Chosen fastest(const DtcConv& c, const Descs& user) {
  // A matmul: the copy is a small part of its time.
  const bool product = c.spatial == 1 && c.dims[0].length == 1 && c.dims[0].stride == 1;
  if ((c.imageStrides[2] == 1 || product) && c.resultStrides[2] == 1) {
    try {
      Chosen unchanged =
          choose(c, {channelsLast(user[Image]), anyLayout(user[Window]), channelsLast(user[Result])});
      if (isFast(unchanged)) return unchanged;
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented) throw;
    }
  }
  return choose(c, {anyLayout(user[Image]), anyLayout(user[Window]), anyLayout(user[Result])});
}

} // namespace

void* createConv(const DtcConv* given, char* error, size_t errorSize) {
  return guarded(error, errorSize, dnnl_unimplemented, [&]() -> void* {
    const DtcConv& c = *given;
    if (!joins(c, c.imageStrides, c.c) || !joins(c, c.resultStrides, c.o)) return nullptr;
    const Descs user = {dense(c, c.imageStrides, c.c, &DtcConv::Spatial::size),
                        window(c, c.kind == DtcConvImage && c.bias),
                        dense(c, c.resultStrides, c.o, &DtcConv::Spatial::result)};
    const Chosen chosen = fastest(c, user);
    auto conv = std::make_unique<Conv>();
    conv->primitive = chosen.primitive;
    conv->made = c.kind == DtcConvForward ? Result : c.kind == DtcConvImage ? Image : Window;
    conv->addresses = {c.image, c.window, c.result};
    conv->bias = const_cast<void*>(c.bias);
    for (size_t i = 0; i < kTensors; ++i) {
      Tensor& t = conv->tensors[i];
      t.name = chosen.names[i];
      t.moved = chosen.descs[i] != user[i];
      t.user = memory(user[i], engine(), conv->addresses[i]);
      t.argument = t.moved ? memory(chosen.descs[i], engine(), DNNL_MEMORY_NONE) : t.user;
      if (t.moved) {
        t.offset =
            std::exchange(conv->scratchBytes, conv->scratchBytes + rounded(chosen.descs[i].get_size()));
        t.reorder = i == conv->made ? dnnl::reorder(t.argument, t.user) : dnnl::reorder(t.user, t.argument);
      }
      conv->arguments.emplace(t.name, t.argument);
    }
    if (c.bias) {
      const int64_t each = c.kind == DtcConvForward ? c.o : c.c;
      const memory::desc bias({c.groups * each}, dataType(c.type), memory::format_tag::a);
      conv->arguments.emplace(DNNL_ARG_BIAS, memory(bias, engine(), const_cast<void*>(c.bias)));
    }
    conv->scratchpad = memory(chosen.scratchpad, engine(), DNNL_MEMORY_NONE);
    conv->scratchpadOffset =
        std::exchange(conv->scratchBytes, conv->scratchBytes + rounded(chosen.scratchpad.get_size()));
    conv->arguments.emplace(DNNL_ARG_SCRATCHPAD, conv->scratchpad);
    return conv.release();
  });
}

size_t convScratchBytes(void* conv) { return static_cast<Conv*>(conv)->scratchBytes; }

int runConv(void* conv, void* scratch) {
  const OneThread alone;
  try {
    thread_local dnnl::stream stream(engine());
    Conv& c = *static_cast<Conv*>(conv);
    auto* base = static_cast<std::byte*>(scratch);
    c.scratchpad.set_data_handle(base + c.scratchpadOffset);
    for (size_t i = 0; i < kTensors; ++i) {
      Tensor& t = c.tensors[i];
      if (!t.moved) continue;
      const bool packed = i == Window && c.packed;
      t.argument.set_data_handle(packed ? c.packed : base + t.offset);
      if (i != c.made && !packed) t.reorder.execute(stream, t.user, t.argument);
    }
    c.primitive.execute(stream, c.arguments);
    if (Tensor& t = c.tensors[c.made]; t.moved) t.reorder.execute(stream, t.argument, t.user);
    stream.wait();
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

void rebindConv(void* conv, const void* from, size_t bytes, void* to) {
  Conv& c = *static_cast<Conv*>(conv);
  for (size_t i = 0; i < kTensors; ++i)
    if (std::byte* now = rebound(c.addresses[i], from, bytes, to))
      c.tensors[i].user.set_data_handle(now); // shared with the argument, unless the layouts differ
  if (std::byte* now = c.bias ? rebound(c.bias, from, bytes, to) : nullptr)
    c.arguments.at(DNNL_ARG_BIAS).set_data_handle(now);
}

size_t packedBytes(void* conv) {
  const Conv& c = *static_cast<Conv*>(conv);
  const Tensor& window = c.tensors[Window];
  return c.made == Window || !window.moved ? 0 : window.argument.get_desc().get_size();
}

bool packAlike(void* conv, void* other) {
  const auto window = [](void* of) -> const Tensor& { return static_cast<Conv*>(of)->tensors[Window]; };
  return window(conv).argument.get_desc() == window(other).argument.get_desc() &&
         window(conv).user.get_desc() == window(other).user.get_desc();
}

int packWindow(void* conv, void* to) {
  const OneThread alone;
  try {
    thread_local dnnl::stream stream(engine());
    Tensor& window = static_cast<Conv*>(conv)->tensors[Window];
    window.argument.set_data_handle(to);
    window.reorder.execute(stream, window.user, window.argument);
    stream.wait();
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

void usePacked(void* conv, void* packed) { static_cast<Conv*>(conv)->packed = packed; }

void destroyConv(void* conv) { delete static_cast<Conv*>(conv); }

} // namespace dtc::onednn
