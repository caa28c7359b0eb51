// Lowers each `fused` region: to a library call where one matches, else to loops, which are scheduled and printed.
#include "dtc/IR/text/Text.h"
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/schedule/Schedule.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include "dtc/Ops/window/Convolution.h"
#include "lower/Lower.h"
#include "match/Attention.h"
#include "match/AttentionCall.h"
#include "match/AttentionGradient.h"
#include "match/Convolution.h"
#include "match/Gemm.h"
#include "match/Grouped.h"
#include "match/Join.h"
#include "print/PrintCpp.h"
#include "print/PrintCuda.h"
#include "print/Text.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

// The region as bytes: equal for regions with the same ops, types and operands.
std::string regionKey(const Module& m, OpId fused) {
  std::string key;
  auto put = [&](uint64_t v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); };
  std::unordered_map<uint32_t, uint32_t> number;
  const Block& block = m[m.region(fused)];
  auto value = [&](ValueId v) {
    const Value& val = m[v];
    put(static_cast<uint64_t>(val.kind));
    put(val.type.index);
    if (val.kind == ValueKind::Literal)
      put(val.literal.index);
    else if (val.kind == ValueKind::Symbol)
      put(val.symbol.isStatic() ? 0 : val.symbol.tableIndex());
    else
      put(number.at(v.index));
  };
  for (ValueId a : block.args) {
    put(m[a].type.index);
    number.emplace(a.index, static_cast<uint32_t>(number.size()));
  }
  for (OpId o : block.ops) {
    put(m[o].kind);
    for (ValueId v : m.operands(o)) value(v);
    for (const NamedAttr& a : m[o].attrs) put(a.name.index), put(a.value.index);
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      put(m[m.result(o, r)].type.index);
      number.emplace(m.result(o, r).index, static_cast<uint32_t>(number.size()));
    }
  }
  for (ValueId v : block.yields) value(v);
  for (const char* name : {"kind", "order", "gelu"}) {
    const AttrId attr = m.attr(fused, name);
    put(attr.valid() ? attr.index : ~0u);
  }
  return key;
}

// Named after the ops that compute something, else after the data-movement ops: "k_exp_mul". `epilogue`: the
// epilogue of a matrix product, without the product.
std::string baseName(const Module& m, OpId fused, bool epilogue) {
  std::vector<std::string_view> computing, moving;
  for (OpId o : m[m.region(fused)].ops) {
    const OpRecord& r = m.record(o);
    if (r.lowering == Lowering::Decompose || r.stores)
      return "k_" + std::string(r.name); // one kernel, with what it reads
    if (epilogue && r.lowering == Lowering::Library) continue;
    std::vector<std::string_view>& list =
        r.scalar || r.lowering != Lowering::Loops || r.element ? computing : moving;
    if (std::find(list.begin(), list.end(), r.name) == list.end()) list.push_back(r.name);
  }
  const std::vector<std::string_view>& names = computing.empty() ? moving : computing;
  std::string name = "k";
  for (size_t i = 0; i < names.size() && i < 3; ++i) name.append("_").append(names[i]);
  if (names.size() > 3) name += "_more";
  return names.empty() ? "k_copy" : name;
}

// Makes a text safe within a `//` comment: no line ends, no backslash that would join lines.
std::string commentText(std::string_view text) {
  std::string r;
  for (char c : text.substr(0, 160)) r += (static_cast<unsigned char>(c) < 32 || c == '\\') ? '?' : c;
  return r;
}

std::string commentsOf(const Module& m, OpId fused) {
  std::string text;
  for (OpId o : m[m.region(fused)].ops) {
    std::string statement = "//   " + commentText(printOp(m, o));
    const SourceRange loc = m[o].loc;
    if (loc.valid() && loc.begin <= m.source.text.size()) {
      statement.resize(std::max<size_t>(statement.size(), 72), ' ');
      statement += "  " + commentText(placeText(m.source, loc));
    }
    text += statement + "\n";
  }
  return text;
}

// The bytes of a matmul operand that are read: no more than its view of the buffer.
std::vector<SizeFormula::Factor> viewedBytes(const GemmCall& g, SizeFormula GemmCall::Axis::* stride) {
  const DType dtype = !g.narrow ? g.dtype : stride == &GemmCall::Axis::a ? g.narrow->a : g.narrow->b;
  std::vector<SizeFormula::Factor> bytes = {{dtypeBytes(dtype), -1, 1}};
  std::vector<GemmCall::Axis> axes = g.batch;
  axes.insert(axes.end(), {g.m, g.n, g.k});
  for (const GemmCall::Axis& a : axes) {
    if ((a.*stride).terms.empty()) continue;
    if (a.extent.terms.empty()) return {{0, -1, 1}};
    bytes.insert(bytes.end(), a.extent.terms[0].begin(), a.extent.terms[0].end());
  }
  return bytes;
}

// Operations as the records count them: per point of each op's iteration space. `gemm`: the matched matrix
// product, or null.
void countWork(Module& m, OpId fused, const Lowered& l, const GemmCall* gemm, SizeFormula& bytes,
               SizeFormula& flops) {
  SizeArgs args(m, fused);
  args.list = l.sizes;
  auto elements = [&](const Type& t, int64_t times) {
    Size s{times, {}};
    for (Dim d : t.dims) s = s * args.of(d);
    return factorsOf(s);
  };
  const Block& block = m[m.region(fused)];
  for (uint32_t i : l.inputs) {
    const Type& t = m.typeOf(block.args[i]);
    if (gemm && (i == gemm->a || i == gemm->b)) {
      bytes.terms.push_back(viewedBytes(*gemm, i == gemm->a ? &GemmCall::Axis::a : &GemmCall::Axis::b));
      continue;
    }
    bytes.terms.push_back(elements(t, dtypeBytes(t.dtype)));
  }
  for (ValueId v : block.yields) bytes.terms.push_back(elements(m.typeOf(v), dtypeBytes(m.typeOf(v).dtype)));
  Diagnostics diags;
  for (OpId o : std::vector<OpId>(block.ops)) {
    const OpRecord& record = m.record(o);
    const int64_t per = static_cast<int64_t>(record.flopsPerPoint);
    Rule rule;
    if (isConvolution(record)) { // each element of the result, or of the transposed operand, times its window
      const bool transposed = queryOf(m, o, diags).boolAttr("transposed");
      Size s{per, {}};
      for (Dim d : m.typeOf(transposed ? m.operand(o, 0) : m.result(o)).dims) s = s * args.of(d);
      const std::vector<Dim>& window = m.typeOf(m.operand(o, 1)).dims;
      for (size_t d = 1; d < window.size(); ++d) s = s * args.of(window[d]);
      flops.terms.push_back(factorsOf(s));
      continue;
    }
    if (per == 0 || !record.scalar || !ruleOf(queryOf(m, o, diags), rule)) continue;
    Size s{per, {}};
    for (const Factor& f : rule.factors) s = s * args.of(f.size);
    flops.terms.push_back(factorsOf(s));
  }
  DTC_CHECK(args.list.size() == l.sizes.size(),
            "a kernel's work depends on a size that is not one of its arguments");
}

std::string cppSignature(const Kernel& k, const std::string& name) {
  std::string text = "extern \"C\" void " + name +
                     "(void* const* buffers, const i64* sizes, i64 begin, i64 end, void* scratch) {\n";
  for (uint32_t b = 0; b < k.buffers.size(); ++b) {
    const std::string type(dtypeName(k.buffers[b].dtype));
    const bool out = b >= k.numInputs;
    text += out ? "  " + type + "* const out" + std::to_string(b - k.numInputs) + " = (" + type +
                      "*)buffers[" + std::to_string(b) + "];\n"
                : "  const " + type + "* const in" + std::to_string(b) + " = (const " + type + "*)buffers[" +
                      std::to_string(b) + "];\n";
  }
  for (uint32_t s = 0; s < k.numSizes; ++s)
    text += "  const i64 n" + std::to_string(s) + " = sizes[" + std::to_string(s) + "];\n";
  return text;
}

std::string cudaSignature(const Kernel& k, const std::string& name, const PrintedKernel& printed) {
  std::string text = "extern \"C\" __global__ void __launch_bounds__(" +
                     std::to_string(printed.threadsPerBlock) +
                     (printed.minBlocks ? ", " + std::to_string(printed.minBlocks) : "") + ")";
  if (printed.cluster > 1) text += " __cluster_dims__(" + std::to_string(printed.cluster) + ", 1, 1)";
  text += "\n" + name + "(";
  for (uint32_t b = 0; b < k.buffers.size(); ++b) {
    const std::string type(dtypeName(k.buffers[b].dtype));
    const bool out = b >= k.numInputs;
    text += (b ? ", " : "") + (out ? type + "* out" + std::to_string(b - k.numInputs)
                                   : "const " + type + "* in" + std::to_string(b));
  }
  for (uint32_t s = 0; s < k.numSizes; ++s) text += ", i64 n" + std::to_string(s);
  return text + ") {\n";
}

constexpr size_t kCudaSchedules = 6; // for the measurement of a run at -O3, and for fallbacks

// The statements before `source.cpp`, which still lacks its signature.
void addOtherSchedules(const Kernel& k, int vectorBytes, KernelSource& source) {
  constexpr CpuSchedule schedules[] = {
      {.prefetch = false}, {.streamBytes = INT64_MAX}, {.streamBytes = int64_t(1) << 20}};
  std::vector<std::string> bodies = {source.cpp};
  for (const CpuSchedule& s : schedules) {
    std::string body = printCpp(k, vectorBytes, s).body;
    if (std::find(bodies.begin(), bodies.end(), body) != bodies.end()) continue;
    const std::string name = source.name + "_" + std::to_string(bodies.size());
    source.otherCpp.push_back(cppSignature(k, name) + body + "}\n");
    bodies.push_back(std::move(body));
  }
}

} // namespace

static std::string formulaKey(const SizeFormula& f) {
  std::string key = ";";
  for (const auto& term : f.terms) {
    key += "+";
    for (const SizeFormula::Factor& x : term)
      key += std::to_string(x.number) + "," + std::to_string(x.size) + "/" + std::to_string(x.per) + "*";
  }
  return key;
}

static bool isKind(const Module& m, OpId fused, std::string_view name) {
  const AttrId kind = m.attr(fused, "kind");
  return kind.valid() && m.strings[m.attrs[kind].text] == name;
}

// A region of one op that a library computes in its own layout.
static std::optional<FactorizationCall> factorizationCall(Module& m, OpId fused) {
  const Block& block = m[m.region(fused)];
  if (block.ops.size() != 1) return std::nullopt;
  Diagnostics quiet;
  const OpQuery q = queryOf(m, block.ops[0], quiet);
  const std::optional<Factorization> what = factorizationOf(q);
  if (!what) return std::nullopt;
  SizeArgs sizes(m, fused);
  Size batch;
  for (size_t d = 0; d + (what->complex() ? 3 : 2) < q.type(0).rank(); ++d)
    batch = batch * sizes.of(q.type(0).dims[d]);
  return FactorizationCall{*what, formula(batch), sizes.list};
}

// The gradient of attention, which is one kernel.
std::optional<FusedCall> KernelSet::addGradient(Module& m, OpId fused) {
  std::optional<Lowered> gradient = matchAttentionGradient(m, fused);
  if (!gradient) return std::nullopt;
  const auto [number, made] =
      keep(gradient->kernel, baseName(m, fused, false), [&] { return commentsOf(m, fused); });
  if (made) {
    countWork(m, fused, *gradient, nullptr, kernels_[number].bytes, kernels_[number].flops);
    kernels_[number].flops.terms.push_back(flopsOf(*gradient->kernel.attentionGradient));
  }
  KernelCall call{number, gradient->inputs, gradient->outputs, gradient->sizes};
  std::optional<AttentionCall> library = attentionGradientCall(*gradient, options_.target.attentionDTypes);
  kernels_[number].standby = library && (made || kernels_[number].standby);
  if (!library) return call;
  library->own = std::move(call);
  return std::move(*library);
}

// A concatenation that copies without computing.
std::optional<FusedCall> KernelSet::addJoined(Module& m, OpId fused) {
  const std::optional<Lowered> joined = matchJoin(m, fused);
  if (!joined) return std::nullopt;
  const auto [number, made] =
      keep(joined->kernel, baseName(m, fused, false), [&] { return commentsOf(m, fused); });
  if (made) countWork(m, fused, *joined, nullptr, kernels_[number].bytes, kernels_[number].flops);
  return KernelCall{number, joined->inputs, joined->outputs, joined->sizes};
}

Result<FusedCall> KernelSet::add(Module& m, OpId fused) {
  if (module_ != &m) byRegion_.clear();
  module_ = &m;
  const std::string key = regionKey(m, fused);
  if (auto it = byRegion_.find(key); it != byRegion_.end()) return it->second;
  if (std::optional<FactorizationCall> factors = factorizationCall(m, fused))
    return byRegion_.emplace(key, std::move(*factors)).first->second;
  if (options_.target.gpu && isKind(m, fused, "whole")) {
    std::optional<FusedCall> gradient = addGradient(m, fused);
    if (!gradient) return Error{Error::Bug, "a region of the kind 'whole' has no kernel"};
    return byRegion_.emplace(key, std::move(*gradient)).first->second;
  }
  if (std::optional<FusedCall> joined = addJoined(m, fused))
    return byRegion_.emplace(key, std::move(*joined)).first->second;
  std::optional<Lowered> attention;
  if (isKind(m, fused, "attention")) attention = lowerAttention(m, fused);
  Result<Lowered> lowered = attention ? std::move(*attention) : RegionLowering(m, fused).run();
  if (!lowered) return lowered.error();
  Kernel& k = lowered->kernel;
  if (!k.attention) splitDividedAxes(k);
  if (!k.attention && options_.target.gpu) shareAxes(k); // the C++ form has not been tested with it
  if (!k.attention) joinAxes(k);
  if (isKind(m, fused, "columns")) walkRows(k);
  k.fixedOrder = m.attr(fused, "order").valid();
  if (options_.target.gpu && !k.fixedOrder) k.grouped = matchGrouped(m, fused, *lowered);
  if (isKind(m, fused, "gemm") && !k.fixedOrder) // a library has its own order of summation
    if (std::optional<GemmMatch> gemm = matchGemm(*lowered, options_, m.attr(fused, "gelu").valid())) {
      const std::function<void(GemmMatch&, bool)> finish = [&](GemmMatch& match, bool standby) {
        countWork(m, fused, *lowered, &match.call, match.call.bytes, match.call.flops);
        if (match.scales) {
          const auto [number, made] = keep(*match.scales, "k_scales", [] { return std::string(); });
          kernels_[number].standby = made || kernels_[number].standby; // a library may read them as they are
          match.call.narrow->scales = KernelCall{number, match.scaleInputs, {}, lowered->sizes};
        }
        if (match.epilogue) {
          const auto [number, made] =
              keep(*match.epilogue, baseName(m, fused, true), [&] { return commentsOf(m, fused); });
          kernels_[number].standby = standby && (made || kernels_[number].standby);
          match.call.epilogue = {number, match.inputs, match.outputs, !options_.target.gpu};
        }
        if (!match.plain) return;
        finish(*match.plain, true);
        match.call.plain = std::make_shared<GemmCall>(std::move(match.plain->call));
      };
      finish(*gemm, false);
      return byRegion_.emplace(key, std::move(gemm->call)).first->second;
    }
  if (std::optional<ViewCall> view = k.inOrder ? std::nullopt : matchView(*lowered)) {
    SizeFormula flops;
    countWork(m, fused, *lowered, nullptr, view->bytes, flops);
    return byRegion_.emplace(key, std::move(*view)).first->second;
  }
  const auto [number, made] = keep(k, baseName(m, fused, false), [&] { return commentsOf(m, fused); });
  std::optional<ConvCall> conv;
  if (!k.fixedOrder) conv = matchConvolution(m, fused, options_.target.convDTypes);
  std::optional<AttentionCall> library;
  if (!k.fixedOrder) library = attentionCall(*lowered, options_.target.attentionDTypes);
  kernels_[number].standby = (conv || library) && (made || kernels_[number].standby);
  if (made) {
    countWork(m, fused, *lowered, nullptr, kernels_[number].bytes, kernels_[number].flops);
    if (k.attention) countAttention(k, *k.attention, kernels_[number].flops);
  }
  KernelCall call{number, lowered->inputs, lowered->outputs, lowered->sizes};
  if (conv) {
    conv->own = std::move(call);
    return byRegion_.emplace(key, std::move(*conv)).first->second;
  }
  if (library) {
    library->own = std::move(call);
    return byRegion_.emplace(key, std::move(*library)).first->second;
  }
  return byRegion_.emplace(key, std::move(call)).first->second;
}

// The kernel's number in the set, and whether it is new.
std::pair<uint32_t, bool> KernelSet::keep(const Kernel& k, const std::string& base,
                                          const std::function<std::string()>& comments) {
  KernelSource source;
  std::string text;
  for (const Buffer& b : k.buffers)
    source.buffers.push_back({b.dtype, b.output}), text += dtypeName(b.dtype), text += ' ';
  for (const Nest& nest : k.nests)
    for (const Store& store : nest.stores)
      if (store.copied) source.buffers[store.buffer].updates = store.copied;
  source.numInputs = k.numInputs;
  source.numSizes = k.numSizes;
  if (!options_.target.gpu) {
    PrintedKernel printed = printCpp(k, options_.target.vectorBytes);
    source.units = printed.units, source.unitElements = printed.unitElements,
    source.scratchBytes = printed.scratchBytes;
    source.cpp = printed.body;
    text += printed.body;
  }
  std::vector<PrintedKernel> cuda;
  if (options_.target.gpu) {
    cuda = printCuda(k, options_.target, options_.otherSchedules ? kCudaSchedules : 1);
    source.blocks = cuda[0].blocks, source.threadsPerBlock = cuda[0].threadsPerBlock;
    text += cuda[0].body;
  }
  // The same text over another number of rows is another kernel: its execution count is part of its key.
  for (const SizeFormula* f : {&source.units, &source.unitElements, &source.scratchBytes, &source.blocks})
    text += formulaKey(*f);
  text += std::to_string(source.threadsPerBlock);
  auto [it, made] = byText_.try_emplace(text, static_cast<uint32_t>(kernels_.size()));
  if (!made) return {it->second, false};
  const uint32_t count = ++nameCount_[base];
  source.name = count == 1 ? base : base + "_" + std::to_string(count);
  const std::string said = options_.comments ? comments() : "";
  if (!options_.target.gpu && options_.otherSchedules)
    addOtherSchedules(k, options_.target.vectorBytes, source);
  if (!options_.target.gpu) source.cpp = said + cppSignature(k, source.name) + source.cpp + "}\n";
  for (size_t i = 0; i < cuda.size(); ++i) {
    const PrintedKernel& p = cuda[i];
    std::string all = said + cudaSignature(k, source.name, p) + p.body + "}\n";
    if (i == 0)
      source.cuda = std::move(all), source.sharedBytes = p.sharedBytes, source.schedule = p.schedule;
    else
      source.otherCuda.push_back({std::move(all), p.blocks, p.threadsPerBlock, p.sharedBytes, p.schedule});
  }
  kernels_.push_back(std::move(source));
  return {it->second, true};
}

} // namespace dtc
