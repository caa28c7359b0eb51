#include "AttentionGradient.h"
#include <cmath>
#include <cstdio>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kRows = 64; // lib/Jit/Device/attention_gradient.h
constexpr int kThreads = 128;
constexpr size_t kMask = 6; // the operand's number

class GradientMatcher {
public:
  GradientMatcher(Module& m, OpId fused) : m_(m), block_(m[m.region(fused)]) {}

  std::optional<Lowered> run() {
    if (block_.ops.size() != 1 || m_.record(block_.ops[0]).name != std::string_view("attention_grad"))
      return {};
    op_ = block_.ops[0];
    Diagnostics quiet;
    const OpQuery q = queryOf(m_, op_, quiet);
    readSizes(q);
    for (uint32_t i = 0; i < block_.args.size(); ++i)
      addBuffer(block_.args[i], false), l_.inputs.push_back(i);
    l_.kernel.numInputs = static_cast<uint32_t>(block_.args.size());
    for (uint32_t i = 0; i < 3; ++i) {
      if (block_.yields.size() != 3 || block_.yields[i] != m_.result(op_, i)) return {};
      addBuffer(block_.yields[i], true), l_.outputs.push_back(i);
    }
    for (size_t i = 0; i < kMask; ++i) {
      const auto number = bufferOf(m_.operand(op_, i));
      if (!number) return {};
      g_.operands[i] = *number;
    }
    if (!readRest(q)) return {};
    l_.kernel.attentionGradient = g_;
    return std::move(l_);
  }

private:
  void addBuffer(ValueId v, bool output) { l_.kernel.buffers.push_back({m_.typeOf(v).dtype, output}); }
  std::optional<uint32_t> bufferOf(ValueId v) const {
    for (uint32_t i = 0; i < block_.args.size(); ++i)
      if (block_.args[i] == v) return i;
    return {};
  }
  void readSizes(const OpQuery& q) {
    auto size = [&](size_t operand, size_t dim) { return q.type(operand).dims[dim].value(); };
    g_.batch = size(0, 0), g_.heads = size(0, 1), g_.keyHeads = size(1, 1);
    g_.rows = size(0, 2), g_.keys = size(1, 2), g_.depth = size(0, 3), g_.width = size(2, 3);
    g_.causal = q.boolAttr("causal"), g_.window = q.intAttr("window");
    g_.scale =
        q.rawAttr("scale").valid() ? q.floatAttr("scale") : 1 / std::sqrt(static_cast<double>(g_.depth));
  }
  // A mask, and where the queries begin.
  bool readRest(const OpQuery& q) {
    for (size_t i = kMask; i < q.operandTypes.size(); ++i) {
      const Type& t = q.type(i);
      const auto number = bufferOf(m_.operand(op_, i));
      if (t.dtype == DType::I32 && t.rank() == 0) {
        const Value& v = m_[m_.operand(op_, i)];
        if (!number && v.kind != ValueKind::Literal) return false;
        if (number)
          g_.offset = static_cast<int32_t>(*number);
        else
          g_.offsetNumber = m_.attrs[v.literal].i;
        continue;
      }
      if (!number) return false;
      g_.mask = static_cast<int32_t>(*number);
      int64_t stride = 1;
      for (size_t d = t.rank(); d-- > 0;) {
        const int64_t size = t.dims[d].value();
        g_.maskStrides[4 - t.rank() + d] = size == 1 ? 0 : stride;
        stride *= size;
      }
    }
    return true;
  }

  Module& m_;
  const Block& block_;
  OpId op_;
  AttentionGradient g_;
  Lowered l_;
};

std::string number(int64_t v) { return std::to_string(v); }

std::string floatText(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9ef", v);
  return text;
}

// "[&](i64 i) { return text; }"
std::string lambda(const std::string& parameters, const std::string& text) {
  return "    [&](" + parameters + ") { return " + text + "; },\n";
}

// What a query sees and what sees a key, from the place of the first query on.
std::string boundsText(const AttentionGradient& g, const std::string& offset) {
  const std::string w = number(g.window), rows = number(g.rows), keys = number(g.keys);
  const std::string from = g.window ? "dtc_greatest(i64(0), i + (" + offset + ") - " + w + " + 1)" : "i64(0)";
  std::string to = "i64(" + keys + ")", first = "i64(0)", last = "i64(" + rows + ")";
  if (g.causal)
    to = "dtc_least(i64(" + keys + "), i + (" + offset + ") + 1)",
    first = "dtc_greatest(i64(0), j - (" + offset + "))";
  else if (g.window)
    to = "dtc_least(i64(" + keys + "), i + (" + offset + ") + " + w + ")",
    first = "dtc_greatest(i64(0), j - (" + offset + ") - " + w + " + 1)";
  if (g.window) last = "dtc_least(i64(" + rows + "), j - (" + offset + ") + " + w + ")";
  return lambda("i64 i", from) + lambda("i64 i", to) + lambda("i64 j", first) + lambda("i64 j", last);
}

std::string scoreText(const Kernel& k, const AttentionGradient& g) {
  std::string x = "s * " + floatText(g.scale);
  if (g.mask >= 0) {
    const std::string heads = number(g.heads);
    const int64_t* s = g.maskStrides;
    const std::string at = "in" + number(g.mask) + " + n / " + heads + " * " + number(s[0]) + " + n % " +
                           heads + " * " + number(s[1]) + " + i * " + number(s[2]) + " + j * " + number(s[3]);
    x = isFloat(k.buffers[static_cast<size_t>(g.mask)].dtype)
            ? x + " + dtc_load(" + at + ")"
            : "dtc_load(" + at + ") ? " + x + " : -dtc_infinity<f32>()";
  }
  return "    [&](f32 s, i64 n, i64 i, i64 j) { return " + x + "; }";
}

} // namespace

std::optional<Lowered> matchAttentionGradient(Module& m, OpId fused) {
  return GradientMatcher(m, fused).run();
}

PrintedKernel printAttentionGradient(const Kernel& k) {
  const AttentionGradient& g = *k.attentionGradient;
  PrintedKernel out;
  const std::string type(dtypeName(k.buffers[g.operands[0]].dtype));
  std::string operands;
  for (uint32_t b : g.operands) operands += (operands.empty() ? "in" : ", in") + std::to_string(b);
  std::string offset = number(g.offsetNumber);
  if (g.offset >= 0) {
    out.body += "  const i64 offset = in" + number(g.offset) + "[0];\n";
    offset = "offset";
  }
  const int64_t heads = g.batch * g.keyHeads, groups = g.keyHeads ? g.heads / g.keyHeads : 1;
  out.body += "  dtc_attention_gradient<" + type + ", " + number(g.depth) + ", " + number(g.width) + ">(" +
              number(heads) + ", " + number(groups) + ", " + number(g.rows) + ", " + number(g.keys) +
              ",\n    {" + operands + "}, out0, out1, out2, " + floatText(g.scale) + ",\n" +
              boundsText(g, offset) + scoreText(k, g) + ");\n";
  out.threadsPerBlock = kThreads;
  const auto blocks = [](int64_t n) { return (n + kRows - 1) / kRows; };
  out.blocks.terms = {{{heads * (blocks(g.keys) + groups * blocks(g.rows)), -1, 1}}};
  out.units = out.blocks;
  return out;
}

std::vector<SizeFormula::Factor> flopsOf(const AttentionGradient& g) {
  return {{g.batch * g.heads, -1, 1}, {g.rows, -1, 1}, {g.keys, -1, 1}, {6 * g.depth + 4 * g.width, -1, 1}};
}

} // namespace dtc
