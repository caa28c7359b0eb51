// Matrix products, convolutions.
#include "aten/Aten.h"
#include "aten/Matrices.h"
#include "aten/Table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {
namespace aten::contractions {
namespace {

// matmul of any ranks, as torch.matmul.
Expr product(Expr a, Expr b) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row && column) return ops::sum(a * b);
  const Expr x = row ? withDim(a, 0) : a, y = column ? withDim(b, 1) : b;
  Expr z = ops::matmul(x, y);
  if (row) z = withoutDim(z, static_cast<int64_t>(z.rank()) - 2);
  if (column) z = withoutDim(z, static_cast<int64_t>(z.rank()) - 1);
  return z;
}

ImportResults matmul(ImportContext& c) {
  for (const char* second : {"mat2", "other", "vec", "tensor"})
    if (c.has(second)) return product(in(c, "self"), in(c, second));
  return product(in(c, "self"), in(c, "vec2"));
}

ImportResults intMatmul(ImportContext& c) { // of i8, summed in i32
  return product(c.tensor("self").as(DType::I32), c.tensor("mat2").as(DType::I32));
}

// beta * self + alpha * (a b): of addmm, addmv, baddbmm, addbmm.
ImportResults addProduct(ImportContext& c) {
  const DType d = c.result().dtype;
  const bool batch = c.has("batch1"), vector = c.has("mat");
  const Expr a = in(c,
                    batch    ? "batch1"
                    : vector ? "mat"
                             : "mat1",
                    d),
             b = in(c,
                    batch    ? "batch2"
                    : vector ? "vec"
                             : "mat2",
                    d);
  Expr y = product(a, b);
  if (c.node.target.starts_with("aten.addbmm")) {
    const std::vector<int64_t> first{0};
    y = ops::sum(y, {.dims = first});
  }
  if (c.has("alpha") && !isNumber(c, "alpha", 1)) y = y * in(c, "alpha", d);
  if (isNumber(c, "beta", 0)) return broadcastTo(y, resultDims(c));
  Expr x = in(c, "self");
  if (c.has("beta") && !isNumber(c, "beta", 1)) x = x * in(c, "beta", d);
  return x + y;
}

ImportResults activatedProduct(ImportContext& c) {
  const Expr y = addProduct(c).values.at(0);
  return c.flag("use_gelu", false) ? ops::gelu(y) : ops::relu(y);
}

ImportResults addr(ImportContext& c) {
  const DType d = c.result().dtype;
  const Expr a = withDim(in(c, "vec1", d), 1), b = withDim(in(c, "vec2", d), 0);
  const bool isBoolean = isBool(d);
  const auto times = [&](Expr v, Expr factor) { return isBoolean ? v & factor : v * factor; };
  Expr y = times(a, b);
  if (c.has("alpha") && !isNumber(c, "alpha", 1)) y = times(y, in(c, "alpha", d));
  if (isNumber(c, "beta", 0)) return y;
  Expr x = in(c, "self");
  if (c.has("beta") && !isNumber(c, "beta", 1)) x = times(x, in(c, "beta", d));
  return isBoolean ? x | y : x + y;
}

ImportResults outer(ImportContext& c) {
  const Expr a = withDim(in(c, "self"), 1), b = withDim(in(c, "vec2"), 0);
  return isBool(a.dtype()) ? a & b : a * b;
}

// Operands are converted to the declared dtype: in an export under torch.autocast, f32 operands have results in bf16 or
// f16, where PyTorch converts them.
Expr optionalIn(ImportContext& c, ArgumentKey key) {
  const Expr x = c.optional(key);
  return x.valid() ? x.as(c.result().dtype) : x;
}

ImportResults linear(ImportContext& c) {
  const Expr x = in(c, "input"), w = in(c, "weight"), bias = optionalIn(c, "bias");
  const Expr y = w.rank() == 1 ? product(x, w) : product(x, swapped(w, 0, 1));
  return bias.valid() ? y + bias : y;
}

ImportResults bilinear(ImportContext& c) {
  const Expr x1 = in(c, "input1"), x2 = in(c, "input2"), w = in(c, "weight");
  const Expr n1 =
      reshapeTo(x1, {elementsOf(c.b, Dims(x1.dims().begin(), x1.dims().end() - 1)), x1.dims().back()});
  const Expr n2 = reshapeTo(x2, {n1.dims().at(0), x2.dims().back()});
  Expr y = ops::einsum(c.b, std::vector<Expr>{n1, w, n2}, "bi,oij,bj->bo");
  if (c.has("bias")) y = y + in(c, "bias");
  return reshapeTo(y, resultDims(c));
}

ImportResults einsum(ImportContext& c) {
  std::string equation;
  for (char ch : c.text("equation", ""))
    if (ch != ' ') equation.push_back(ch);
  std::vector<Expr> xs;
  for (const Expr& x : c.tensors("tensors")) xs.push_back(x.as(c.result().dtype));
  const size_t arrow = equation.find("->");
  if (equation.find("...") == std::string::npos && arrow != std::string::npos)
    return ops::einsum(c.b, xs, equation);
  // Letters for the dims of `...`, and the implicit result: letters that occur once, in order.
  std::string inputs = equation.substr(0, arrow), letters;
  std::vector<std::string> terms;
  for (size_t at = 0; at <= inputs.size();) {
    const size_t end = std::min(inputs.find(',', at), inputs.size());
    terms.push_back(inputs.substr(at, end - at));
    at = end + 1;
  }
  if (terms.size() != xs.size()) c.fail("has an equation for another number of operands");
  for (char l = 'A'; l <= 'Z'; ++l)
    if (equation.find(l) == std::string::npos) letters.push_back(l);
  size_t most = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t dots = terms[i].find("...");
    if (dots == std::string::npos) continue;
    if (terms[i].size() - 3 > xs[i].rank()) c.fail("has an equation with more dims than its operand");
    most = std::max(most, xs[i].rank() - (terms[i].size() - 3));
  }
  if (most > letters.size()) c.fail("has too many dims in '...'");
  const auto spelled = [&](const std::string& term, size_t count) {
    const size_t dots = term.find("...");
    return dots == std::string::npos
               ? term
               : term.substr(0, dots) + letters.substr(most - count, count) + term.substr(dots + 3);
  };
  std::string text, result;
  std::vector<Expr> operands;
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool dots = terms[i].find("...") != std::string::npos;
    text += (i ? "," : "") + spelled(terms[i], dots ? xs[i].rank() - (terms[i].size() - 3) : 0);
  }
  if (arrow != std::string::npos) {
    result = spelled(equation.substr(arrow + 2), most);
  } else {
    result = letters.substr(0, most);
    std::string seen = text;
    std::ranges::sort(seen);
    for (char ch : seen)
      if (ch != ',' && result.find(ch) == std::string::npos && std::ranges::count(text, ch) == 1)
        result.push_back(ch);
  }
  return reshapeTo(ops::einsum(c.b, xs, text + "->" + result), resultDims(c));
}

ImportResults tensordot(ImportContext& c) {
  Expr a = in(c, "self"), b = in(c, "other");
  const std::vector<int64_t> da = dimsOf(c.b, c.ints("dims_self"), a.rank()),
                             db = dimsOf(c.b, c.ints("dims_other"), b.rank());
  if (da.size() != db.size() || a.rank() + b.rank() > 26) c.fail("contracts different numbers of dims");
  for (size_t i = 0; i < da.size(); ++i) { // a dim of size 1 sums the other's
    const auto p = static_cast<size_t>(da[i]), q = static_cast<size_t>(db[i]);
    const std::vector<int64_t> sa{da[i]}, sb{db[i]};
    if (a.dims().at(p) == b.dims().at(q)) continue;
    if (a.dims().at(p) == Dim(1))
      b = ops::sum(b, {.dims = sb, .keepdim = true});
    else if (b.dims().at(q) == Dim(1))
      a = ops::sum(a, {.dims = sa, .keepdim = true});
  }
  std::string ta, tb, out;
  char next = 'a';
  for (size_t i = 0; i < a.rank(); ++i) ta.push_back(next++);
  for (size_t i = 0; i < b.rank(); ++i) {
    const auto found = std::ranges::find(db, static_cast<int64_t>(i));
    tb.push_back(found == db.end() ? next++
                                   : ta[static_cast<size_t>(da[static_cast<size_t>(found - db.begin())])]);
  }
  for (char ch : ta + tb)
    if (std::ranges::count(ta + tb, ch) == 1) out.push_back(ch);
  return reshapeTo(ops::einsum(c.b, std::vector<Expr>{a, b}, ta + "," + tb + "->" + out), resultDims(c));
}

ImportResults kron(ImportContext& c) {
  const size_t r = c.result().rank();
  const Expr a = withRank(tensorOf(in(c, "self")), r), b = withRank(tensorOf(in(c, "other")), r);
  Dims da, db;
  for (size_t i = 0; i < r; ++i) {
    da.push_back(a.dims().at(i)), da.emplace_back(1);
    db.emplace_back(1), db.push_back(b.dims().at(i));
  }
  const Expr x = reshapeTo(a, da), y = reshapeTo(b, db);
  return reshapeTo(isBool(x.dtype()) ? x & y : x * y, resultDims(c));
}

ImportResults cross(ImportContext& c) {
  const Expr a = broadcastTo(in(c, "self"), resultDims(c)), b = broadcastTo(in(c, "other"), resultDims(c));
  int64_t d = -1;
  if (c.has("dim") || c.node.target.find("linalg") != std::string::npos)
    d = aten::dim(c, "dim", a.rank(), -1);
  else
    for (int64_t i : allDims(a.rank()))
      if (d < 0 && a.dims().at(static_cast<size_t>(i)) == Dim(3)) d = i;
  if (d < 0) c.fail("has no dim of size 3");
  const std::vector<int64_t> over{d}, one{-1}, two{-2};
  const auto turned = [&](Expr x, const std::vector<int64_t>& by) {
    return ops::roll(x, {.shifts = by, .dims = over});
  };
  const Expr first = turned(a, one) * turned(b, two), second = turned(a, two) * turned(b, one);
  return first - second;
}

ImportResults linalgDot(ImportContext& c) { // vdot, vecdot, inner
  Expr a = in(c, c.has("x") ? "x" : "self"), b = in(c, c.has("y") ? "y" : "other");
  const bool conjugates = isComplex(a.dtype()) && c.node.target.find("inner") == std::string::npos;
  if (conjugates) a = ops::conj(a);
  if (c.node.target.find("inner") != std::string::npos && a.rank() > 0 && b.rank() > 0 &&
      (a.rank() > 1 || b.rank() > 1)) {
    const Expr flat =
        reshapeTo(b, {elementsOf(c.b, Dims(b.dims().begin(), b.dims().end() - 1)), b.dims().back()});
    return reshapeTo(product(a, swapped(flat, 0, 1)), resultDims(c));
  }
  const Expr y = a * b;
  if (a.rank() == 0 || b.rank() == 0) return y;
  const std::vector<int64_t> over{c.has("dim") ? aten::dim(c, "dim", y.rank())
                                               : static_cast<int64_t>(y.rank()) - 1};
  return ops::sum(y, {.dims = over});
}

// --- convolutions ---

struct Convolution {
  std::vector<int64_t> stride, low, high, dilation, outputPadding;
  bool transposed = false;
};

void readPadding(ImportContext& c, Convolution& v, Expr w, size_t k) {
  const std::string word = c.is<std::string>("padding") ? c.text("padding", "valid") : "";
  if (word.empty() || word == "valid") {
    v.low = word.empty() ? perDim(c, "padding", k, 0) : std::vector<int64_t>(k, 0);
    v.high = v.low;
    return;
  }
  if (word != "same") c.fail("has the padding '" + word + "'");
  for (size_t i = 0; i < k; ++i) {
    const int64_t total = v.dilation[i] * (staticDims(c.b, {w.dims().at(i + 2)})[0] - 1);
    v.low.push_back(total / 2);
    v.high.push_back(total - total / 2);
  }
}

ImportResults convolution(ImportContext& c) {
  Expr x = in(c, "input");
  const Expr w = in(c, "weight"), bias = optionalIn(c, "bias");
  if (w.rank() < 3) c.fail("has a weight of rank " + std::to_string(w.rank()));
  const size_t k = w.rank() - 2;
  const bool single = x.rank() == k + 1; // without a batch
  if (single) x = withDim(x, 0);
  Convolution v;
  v.transposed = c.flag("transposed", false) || c.node.target.find("conv_transpose") != std::string::npos;
  v.stride = perDim(c, "stride", k, 1), v.dilation = perDim(c, "dilation", k, 1);
  v.outputPadding = perDim(c, "output_padding", k, 0);
  readPadding(c, v, w, k);
  ops::ConvArgs args{.b = bias,
                     .stride = v.stride,
                     .padding = paddingAttr(c.module, v.low, v.high),
                     .dilation = v.dilation,
                     .groups = c.integer("groups", 1)};
  if (v.transposed) args.transposed = true, args.output_padding = v.outputPadding;
  const Expr y = ops::conv(x, w, args);
  return single ? withoutDim(y, 0) : y;
}

ImportResults groupedMm(ImportContext& c) {
  if (!c.has("offs")) return product(c.tensor("self"), c.tensor("mat2"));
  return ops::grouped_matmul(c.tensor("self"), c.tensor("mat2"), c.tensor("offs").as(DType::I32));
}

ImportResults groupedMmBackward(ImportContext& c) {
  const Expr x = c.tensor("input"), w = c.tensor("weight"), dy = c.tensor("grad_output");
  const Expr offsets = c.tensor("offs").as(DType::I32);
  return {ops::grouped_matmul(dy, ops::transpose(w, {0, 2, 1}), offsets),
          ops::grouped_matmul(ops::transpose(x, {1, 0}), dy, offsets)};
}

ImportResults chainProduct(ImportContext& c) { // linalg_multi_dot, chain_matmul
  std::vector<Expr> xs = c.tensors(c.has("tensors") ? "tensors" : "matrices");
  for (Expr& x : xs) x = x.as(c.result().dtype);
  if (xs.empty()) c.fail("multiplies nothing");
  Expr y = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) y = product(y, xs[i]);
  return y;
}

ImportResults matrixPower(ImportContext& c) {
  Expr x = c.tensor("self");
  int64_t n = c.integer("n");
  if (n < -4096 || n > 4096) c.fail("has a power below -4096 or above 4096");
  if (n < 0) {
    const Dim k = x.dims().back();
    const auto f = ops::lu(x);
    const Expr identity = broadcastTo(linalg::eye(c.b, x.dtype(), {k, k}), x.dims());
    const auto last = static_cast<int64_t>(x.rank()) - 1;
    const Expr rows = ops::gather(identity, broadcastTo(withDim(f[2], last), x.dims()), {.dim = last - 1});
    x = ops::triangular_solve(f[0], ops::triangular_solve(f[0], rows, {.lower = true, .unit_diagonal = true}),
                              {.lower = false});
    n = -n;
  }
  if (n == 0) {
    const Dim k = x.dims().back();
    return broadcastTo(linalg::eye(c.b, x.dtype(), {k, k}), x.dims());
  }
  Expr square = x, out;
  for (; n > 0; n >>= 1) {
    if (n & 1) out = out.valid() ? product(out, square) : square;
    if (n > 1) square = product(square, square);
  }
  return out;
}

// sum of i1 * i2 * i3, each with further dims
ImportResults trilinear(ImportContext& c) {
  const auto expanded = [&](const char* x, const char* dims) {
    Expr e = c.tensor(x);
    for (int64_t d : c.ints(dims)) e = withDim(e, d);
    return e;
  };
  const Expr a = expanded("i1", "expand1"), b = expanded("i2", "expand2"), d = expanded("i3", "expand3");
  const Expr y = a * b * d;
  const std::vector<int64_t> over = c.ints("sumdim");
  return over.empty() ? y : ops::sum(y, {.dims = over});
}

const ImportRow kRows[] = {
    {"aten._trilinear", trilinear},
    {"aten.mm", matmul},
    {"aten._int_mm", intMatmul},
    {"aten.bmm", matmul},
    {"aten.mv", matmul},
    {"aten.dot", matmul},
    {"aten.matmul", matmul},
    {"aten.linalg_matmul", matmul},
    {"aten.__rmatmul__",
     [](ImportContext& c) { return ImportResults(product(in(c, "other"), in(c, "self"))); }},
    {"aten.addmm", addProduct},
    {"aten._addmm_activation", activatedProduct},
    {"aten.addmv", addProduct},
    {"aten.baddbmm", addProduct},
    {"aten.addbmm", addProduct},
    {"aten.addr", addr},
    {"aten.outer", outer},
    {"aten.ger", outer},
    {"aten.linear", linear},
    {"aten.bilinear", bilinear},
    {"aten.einsum", einsum},
    {"aten.tensordot", tensordot},
    {"aten.kron", kron},
    {"aten.cross", cross},
    {"aten.linalg_cross", cross},
    {"aten.vdot", linalgDot},
    {"aten.linalg_vecdot", linalgDot},
    {"aten.inner", linalgDot},
    {"aten.linalg_multi_dot", chainProduct},
    {"aten.chain_matmul", chainProduct},
    {"aten.linalg_matrix_power", matrixPower},
    {"aten.matrix_power", matrixPower},
    {"aten.convolution", convolution},
    {"aten._convolution", convolution},
    {"aten.conv1d", convolution},
    {"aten.conv2d", convolution},
    {"aten.conv3d", convolution},
    {"aten.conv_transpose1d", convolution},
    {"aten.conv_transpose2d", convolution},
    {"aten.conv_transpose3d", convolution},
    {"aten._grouped_mm", groupedMm},
    {"transformers.grouped_mm_fallback",
     [](ImportContext& c) {
       return ImportResults(
           ops::grouped_matmul(c.tensor("input"), c.tensor("weight"), c.tensor("offs").as(DType::I32)));
     }},
    {"transformers.grouped_mm_fallback_backward", groupedMmBackward},
};

} // namespace
} // namespace aten::contractions

ImportRows torchContractRows() { return aten::contractions::kRows; }

} // namespace dtc
