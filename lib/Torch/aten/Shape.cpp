// Views: reshape, permute, broadcast, concat.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>

namespace dtc {
namespace aten::shapes {
namespace {

ImportResults reshaped(ImportContext& c) { return reshapeTo(c.tensor("self"), resultDims(c)); }

ImportResults permute(ImportContext& c) {
  const Expr x = c.tensor("self");
  return permuted(x, dimsOf(c.b, c.ints("dims"), x.rank()));
}

ImportResults transposeLast(ImportContext& c) { // t, mT, adjoint
  const Expr x = c.tensor("self");
  const auto r = static_cast<int64_t>(x.rank());
  const Expr y = r < 2 ? x : swapped(x, r - 2, r - 1);
  const bool conjugates = c.node.target.find("mH") != std::string::npos ||
                          c.node.target.find("adjoint") != std::string::npos ||
                          c.node.target.find("matrix_H") != std::string::npos;
  return conjugates && isComplex(y.dtype()) ? ops::conj(y) : y;
}

ImportResults transpose(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return x;
  const char* names[][2] = {{"dim0", "dim1"}, {"axis0", "axis1"}};
  const auto* n = names[c.has("axis0") ? 1 : 0];
  return swapped(x, aten::dim(c, n[0], x.rank()), aten::dim(c, n[1], x.rank()));
}

ImportResults movedim(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> from = dimsOf(c.b, c.ints("source"), x.rank()),
                             to = dimsOf(c.b, c.ints("destination"), x.rank());
  if (from.size() != to.size()) c.fail("moves " + std::to_string(from.size()) + " dims to others");
  std::vector<int64_t> perm(x.rank(), -1), rest;
  for (size_t i = 0; i < from.size(); ++i) perm[static_cast<size_t>(to[i])] = from[i];
  for (int64_t d : allDims(x.rank()))
    if (std::ranges::find(from, d) == from.end()) rest.push_back(d);
  size_t at = 0;
  for (int64_t& p : perm)
    if (p < 0 && at < rest.size()) p = rest[at++];
  return permuted(x, perm);
}

ImportResults expand(ImportContext& c) { return broadcastTo(c.tensor("self"), resultDims(c)); }

ImportResults concat(ImportContext& c) {
  const Type& type = c.result();
  std::vector<Expr> parts;
  for (const Expr& x : c.tensors("tensors")) // an old rule: empty tensors of rank 1 are left out
    if (type.rank() == 1 || x.rank() != 1 || x.dims().at(0) != Dim(0)) parts.push_back(x.as(type.dtype));
  if (parts.empty()) return filled(c.b, type.dtype, type.dims, 0);
  return concatOf(c.b, parts, dimOf(c.b, c.integer("dim", 0), type.rank()));
}

ImportResults stack(ImportContext& c) {
  const Type& type = c.result();
  std::vector<Expr> parts;
  const int64_t d = dimOf(c.b, c.integer("dim", 0), type.rank());
  for (const Expr& x : c.tensors("tensors")) parts.push_back(x.as(type.dtype));
  return ops::stack(c.b, parts, d);
}

// hstack, vstack, dstack, column_stack: concat of tensors of at least some rank.
Expr atLeast(Expr x, size_t rank, bool column) {
  if (x.rank() >= rank) return x;
  if (rank == 1) return reshapeTo(x, {1});
  if (rank == 2) {
    if (x.rank() == 0) return reshapeTo(x, {1, 1});
    return column ? reshapeTo(x, {x.dims().at(0), 1}) : reshapeTo(x, {1, x.dims().at(0)});
  }
  if (x.rank() == 0) return reshapeTo(x, {1, 1, 1});
  if (x.rank() == 1) return reshapeTo(x, {1, x.dims().at(0), 1});
  return reshapeTo(x, {x.dims().at(0), x.dims().at(1), 1});
}

template <size_t rank, bool column> ImportResults joinedAlong(ImportContext& c) {
  std::vector<Expr> parts;
  for (const Expr& x : c.tensors("tensors")) parts.push_back(atLeast(x.as(c.result().dtype), rank, column));
  if (parts.empty()) c.fail("joins no tensors");
  const bool first = rank == 1 && parts[0].rank() == 1;
  return concatOf(c.b, parts, rank == 3 ? 2 : first || (rank == 2 && !column) ? 0 : 1);
}

ImportResults atLeastRank(ImportContext& c) {
  if (!c.has("tensors")) return reshapeTo(c.tensor("self"), resultDims(c));
  std::vector<Expr> out;
  for (const Expr& x : c.tensors("tensors")) out.push_back(reshapeTo(x, resultDims(c, out.size())));
  return out;
}

ImportResults flip(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return x;
  std::vector<int64_t> d = c.node.target.find("fliplr") != std::string::npos   ? std::vector<int64_t>{1}
                           : c.node.target.find("flipud") != std::string::npos ? std::vector<int64_t>{0}
                                                                               : c.ints("dims");
  d = dimsOf(c.b, d, x.rank());
  return d.empty() ? x : ops::flip(x, d);
}

ImportResults roll(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> shifts = c.ints("shifts"), d = c.ints("dims", {});
  if (x.rank() == 0) return x;
  if (!d.empty()) return ops::roll(x, {.shifts = shifts, .dims = dimsOf(c.b, d, x.rank())});
  const std::vector<int64_t> zero{0};
  const Expr flat = reshapeTo(x, {elementsOf(c.b, x.dims())});
  return reshapeTo(ops::roll(flat, {.shifts = shifts, .dims = zero}), x.dims());
}

ImportResults rot90(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> d = dimsOf(c.b, c.ints("dims", {0, 1}), x.rank());
  if (d.size() != 2) c.fail("needs two dims");
  const int64_t turns = ((c.integer("k", 1) % 4) + 4) % 4;
  const std::vector<int64_t> one{d[1]}, first{d[0]};
  if (turns == 0) return x;
  if (turns == 1) return swapped(ops::flip(x, one), d[0], d[1]);
  if (turns == 2) return ops::flip(x, d);
  return ops::flip(swapped(x, d[0], d[1]), one);
}

ImportResults repeat(ImportContext& c) {
  const Expr x = c.tensor("self");
  std::vector<ImportInt> repeats = c.sizes(c.has("repeats") ? "repeats" : "dims");
  Dims counts;
  for (const ImportInt& i : repeats) counts.push_back(c.size(i));
  while (counts.size() < x.rank()) counts.insert(counts.begin(), Dim(1)); // aten.tile
  const Expr wide = withRank(x, counts.size());
  if (counts.empty()) return wide;
  return ops::tile(wide, counts);
}

// Row i of each result is the last one whose repetitions begin at or before i.
ImportResults repeatInterleaveBy(ImportContext& c) {
  if (!c.has("output_size")) c.fail("repeats elements by a tensor, which makes a size that depends on data");
  const Expr repeats = c.tensor("repeats").as(DType::I32);
  const bool ofIndices = !c.has("self");
  const Expr x = ofIndices      ? repeats
                 : c.has("dim") ? c.tensor("self")
                                : reshapeTo(c.tensor("self"), {elementsOf(c.b, c.tensor("self").dims())});
  const int64_t d = c.has("dim") ? aten::dim(c, "dim", x.rank()) : 0;
  const Dim n = x.dims().at(static_cast<size_t>(d)), out = resultDims(c).at(static_cast<size_t>(d));
  const Expr ends = ops::cumsum(broadcastTo(repeats, {n}), {.dim = 0});
  const std::vector<int64_t> over{1};
  const Expr begun = withDim(ends, 0) <= withDim(counted(c.b, out, DType::I32), 1);
  const Expr rows = ops::sum(begun.as(DType::I32), {.dims = over});
  return ofIndices ? rows : ops::index_select(x, rows, {.dim = d});
}

ImportResults repeatInterleave(ImportContext& c) {
  if (c.isTensor("repeats")) return repeatInterleaveBy(c);
  const Expr x = c.tensor("self");
  const Dim times = c.size(c.sizes("repeats").at(0));
  const Expr source = c.has("dim") ? x : reshapeTo(x, {elementsOf(c.b, x.dims())});
  const int64_t d = c.has("dim") ? aten::dim(c, "dim", x.rank()) : 0;
  Dims wide = source.dims();
  wide.insert(wide.begin() + d + 1, times);
  const Expr spread = broadcastTo(withDim(source, d + 1), wide);
  return reshapeTo(spread, resultDims(c));
}

ImportResults lowerTriangle(ImportContext& c) {
  return ops::tril(c.tensor("self"), {.diagonal = c.integer("diagonal", 0)});
}
ImportResults upperTriangle(ImportContext& c) {
  return ops::triu(c.tensor("self"), {.diagonal = c.integer("diagonal", 0)});
}

ImportResults meshgrid(ImportContext& c) {
  std::vector<Expr> out;
  const std::vector<Expr> xs = c.tensors("tensors");
  const bool xy = c.text("indexing", "ij") == "xy" && xs.size() > 1;
  for (size_t i = 0; i < xs.size(); ++i) {
    const size_t at = xy && i < 2 ? 1 - i : i;
    Dims dims(xs.size(), Dim(1));
    dims[at] = elementsOf(c.b, xs[i].dims());
    out.push_back(broadcastTo(reshapeTo(xs[i], dims), resultDims(c, i)));
  }
  return out;
}

ImportResults broadcastTensors(ImportContext& c) {
  std::vector<Expr> out;
  const std::vector<Expr> xs = c.tensors("tensors");
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(broadcastTo(xs[i], resultDims(c, i)));
  return out;
}

ImportResults viewAsReal(ImportContext& c) {
  const Expr z = c.tensor("self");
  return ops::stack(c.b, std::vector<Expr>{ops::real(z), ops::imag(z)}, static_cast<int64_t>(z.rank()));
}

ImportResults viewAsComplex(ImportContext& c) {
  const Expr x = c.tensor("self");
  const auto d = static_cast<int64_t>(x.rank()) - 1;
  const Expr re = withoutDim(sliceOf(x, d, 0, 1), d), im = withoutDim(sliceOf(x, d, 1, 2), d);
  return ops::complex(re, im);
}

// The words of an integer dtype without a sign.
DType wordOf(int64_t bytes) {
  return bytes == 1 ? DType::U8 : bytes == 2 ? DType::U16 : bytes == 4 ? DType::U32 : DType::U64;
}

// Little-endian: the first of the narrow words has the low bits.
Expr splitWords(ImportContext& c, Expr wide, DType narrow) {
  const int64_t bits = dtypeBytes(narrow) * 8, count = dtypeBytes(wide.dtype()) / dtypeBytes(narrow);
  std::vector<Expr> parts;
  const Expr mask = c.literal(wrapToInt(wide.dtype(), (int64_t(1) << bits) - 1), wide.dtype());
  for (int64_t i = 0; i < count; ++i) parts.push_back((ops::shr(wide, i * bits) & mask).as(narrow));
  const Expr y = ops::stack(c.b, parts, static_cast<int64_t>(wide.rank()));
  Dims dims = wide.dims();
  dims.back() = elementsOf(c.b, {dims.back(), Dim(count)});
  return reshapeTo(y, dims);
}

Expr joinWords(ImportContext& c, Expr narrow, DType wide) {
  const int64_t bits = dtypeBytes(narrow.dtype()) * 8, count = dtypeBytes(wide) / dtypeBytes(narrow.dtype());
  Dims dims = narrow.dims();
  const auto each = c.module.dims.divExact(dims.back(), Dim(count));
  if (!each) c.fail("has a last dim that is not a whole number of elements of the other dtype");
  dims.back() = *each;
  dims.emplace_back(count);
  const Expr x = reshapeTo(narrow, dims);
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  Expr y;
  for (int64_t i = 0; i < count; ++i) {
    const Expr word = ops::shl(withoutDim(sliceOf(x, last, i, i + 1), last).as(wide), i * bits);
    y = y.valid() ? y | word : word;
  }
  return y;
}

// view(dtype): the same bytes as another dtype.
ImportResults viewBits(ImportContext& c) {
  Expr x = c.tensor("self");
  const DType to = c.result().dtype;
  if (x.dtype() == to) return x;
  if (isBool(x.dtype()) || isBool(to)) c.fail("views bytes as bool, or bool as bytes: use torch.ne");
  const auto realOf = [](DType d) {
    return d == DType::C64 ? DType::F32 : d == DType::C128 ? DType::F64 : d;
  };
  if (isComplex(x.dtype())) {
    Dims dims = x.dims();
    if (dims.empty()) c.fail("views a complex scalar as another dtype");
    dims.back() = elementsOf(c.b, {dims.back(), Dim(2)});
    x = reshapeTo(viewAsReal(c).values.at(0), dims);
  }
  const DType real = realOf(to);
  const int64_t from = dtypeBytes(x.dtype()), wanted = dtypeBytes(real);
  if (x.rank() == 0 && from != wanted) c.fail("views a scalar as a dtype of another size");
  if (x.dtype() != real) {
    if (x.dtype() != wordOf(from)) x = ops::bitcast(x, wordOf(from));
    if (from > wanted) x = splitWords(c, x, wordOf(wanted));
    if (from < wanted) x = joinWords(c, x, wordOf(wanted));
    if (x.dtype() != real) x = ops::bitcast(x, real);
  }
  if (!isComplex(to)) return x;
  Dims dims = resultDims(c);
  dims.emplace_back(2);
  x = reshapeTo(x, dims);
  const auto d = static_cast<int64_t>(x.rank()) - 1;
  const Expr re = withoutDim(sliceOf(x, d, 0, 1), d), im = withoutDim(sliceOf(x, d, 1, 2), d);
  return ops::complex(re, im);
}

// The elements whose indices are all equal; for a tall matrix with `wrap`, again below a row that is left out.
ImportResults fillDiagonal(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> sizes = staticDims(c.b, x.dims());
  if (sizes.size() < 2) c.fail("fills the diagonal of a tensor of less than two dims");
  int64_t step = 0, stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) step += stride;
  Expr at = reshapeTo(counted(c.b, Dim(stride), DType::I64), x.dims());
  Expr mask = eq(at % step, 0);
  if (sizes.size() == 2 && !c.flag("wrap", false)) mask = mask & (at < sizes[1] * sizes[1]);
  return ops::select(mask, in(c, "fill_value", x.dtype()), x);
}

ImportResults complexOf(ImportContext& c) {
  const Expr re = c.tensor("real"), im = c.tensor("imag");
  const Dims dims = resultDims(c);
  return ops::complex(broadcastTo(re, dims), broadcastTo(im, dims));
}

ImportResults polar(ImportContext& c) {
  const Expr r = c.tensor("abs"), angle = c.tensor("angle");
  const Expr re = r * ops::cos(angle), im = r * ops::sin(angle);
  return ops::complex(re, im);
}

ImportResults pixelShuffle(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Dims out = resultDims(c);
  const size_t r = x.rank();
  const Dim f = c.integer("upscale_factor");
  Dims wide(x.dims().begin(), x.dims().end() - 3);
  wide.insert(wide.end(), {out[r - 3], f, f, x.dims().at(r - 2), x.dims().at(r - 1)});
  std::vector<int64_t> perm = allDims(r - 3);
  const auto d = static_cast<int64_t>(r) - 3;
  perm.insert(perm.end(), {d, d + 3, d + 1, d + 4, d + 2});
  return reshapeTo(permuted(reshapeTo(x, wide), perm), out);
}

ImportResults pixelUnshuffle(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Dims out = resultDims(c);
  const size_t r = x.rank();
  const Dim f = c.integer("downscale_factor");
  Dims wide(x.dims().begin(), x.dims().end() - 3);
  wide.insert(wide.end(), {x.dims().at(r - 3), out[r - 2], f, out[r - 1], f});
  std::vector<int64_t> perm = allDims(r - 3);
  const auto d = static_cast<int64_t>(r) - 3;
  perm.insert(perm.end(), {d, d + 2, d + 4, d + 1, d + 3});
  return reshapeTo(permuted(reshapeTo(x, wide), perm), out);
}

ImportResults channelShuffle(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Dim groups = c.integer("groups");
  const auto each = c.module.dims.divExact(x.dims().at(1), groups);
  if (!each) c.fail("has channels that do not divide into its groups");
  Dims wide = x.dims();
  wide[1] = groups;
  wide.insert(wide.begin() + 2, *each);
  return reshapeTo(swapped(reshapeTo(x, wide), 1, 2), x.dims());
}

ImportResults padded(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> pad = c.ints(c.has("pad") ? "pad" : "padding");
  std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
  if (pad.size() % 2 != 0 || pad.size() / 2 > x.rank()) c.fail("pads more dims than its operand has");
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    low[x.rank() - 1 - i] = pad[2 * i];
    high[x.rank() - 1 - i] = pad[2 * i + 1];
  }
  std::string mode = c.text("mode", "constant");
  for (const char* other : {"reflect", "replicate", "circular"})
    if (c.node.target.find(other) != std::string::npos) mode = other;
  if (c.node.target.find("reflection") != std::string::npos) mode = "reflect";
  if (c.node.target.find("replication") != std::string::npos) mode = "replicate";
  if (mode == "constant") {
    const Expr value = c.has("value") ? in(c, "value", x.dtype()) : c.literal(0.0, x.dtype());
    return ops::pad(x, {.value = value, .low = low, .high = high});
  }
  return ops::pad(x, {.low = low, .high = high, .mode = mode});
}

ImportResults copied(ImportContext& c) {
  const Expr source = converted(c.tensor("src"), c.result().dtype);
  return broadcastTo(source, resultDims(c));
}

ImportResults none(ImportContext&) { return {}; }

// The file has the expressions of other sizes. The message is that of the operand, if that does not import.
ImportResults sizeOfData(ImportContext& c) {
  static_cast<void>(c.tensor("self"));
  c.fail("is a size that depends on data, and dtc has static sizes");
}

const ImportRow kRows[] = {
    {"aten.view", reshaped},
    {"aten.reshape", reshaped},
    {"aten._unsafe_view", reshaped},
    {"aten._reshape_alias", reshaped},
    {"aten._reshape_alias_copy", reshaped},
    {"aten._reshape_copy", reshaped},
    {"aten.view_copy", reshaped},
    {"aten.view.dtype", viewBits},
    {"aten.view_copy.dtype", viewBits},
    {"aten.view_as", reshaped},
    {"aten.reshape_as", reshaped},
    {"aten.unsqueeze", reshaped},
    {"aten.squeeze", reshaped},
    {"aten.flatten", reshaped},
    {"aten.ravel", reshaped},
    {"aten.unflatten", reshaped},
    {"aten.permute", permute},
    {"aten.permute_copy", permute},
    {"aten.unsqueeze_copy", reshaped},
    {"aten.squeeze_copy", reshaped},
    {"aten.transpose_copy", transpose},
    {"aten.t_copy", transposeLast},
    {"aten.t", transposeLast},
    {"aten.mT", transposeLast},
    {"aten.mH", transposeLast},
    {"aten.adjoint", transposeLast},
    {"aten.numpy_T",
     [](ImportContext& c) {
       const Expr x = c.tensor("self");
       std::vector<int64_t> perm = allDims(x.rank());
       std::ranges::reverse(perm);
       return ImportResults(permuted(x, perm));
     }},
    {"aten.transpose", transpose},
    {"aten.swapaxes", transpose},
    {"aten.swapdims", transpose},
    {"aten.movedim", movedim},
    {"aten.moveaxis", movedim},
    {"aten.expand", expand},
    {"aten.expand_as", expand},
    {"aten.broadcast_to", expand},
    {"aten.expand_copy", expand},
    {"aten.broadcast_tensors", broadcastTensors},
    {"aten.cat", concat},
    {"aten.concat", concat},
    {"aten.concatenate", concat},
    {"aten.stack", stack},
    {"aten.hstack", joinedAlong<1, false>},
    {"aten.vstack", joinedAlong<2, false>},
    {"aten.row_stack", joinedAlong<2, false>},
    {"aten.column_stack", joinedAlong<2, true>},
    {"aten.dstack", joinedAlong<3, false>},
    {"aten.atleast_1d", atLeastRank},
    {"aten.atleast_2d", atLeastRank},
    {"aten.atleast_3d", atLeastRank},
    {"aten.flip", flip},
    {"aten.fliplr", flip},
    {"aten.flipud", flip},
    {"aten.roll", roll},
    {"aten.rot90", rot90},
    {"aten.repeat", repeat},
    {"aten.tile", repeat},
    {"aten.repeat_interleave", repeatInterleave},
    {"aten.fill_diagonal", fillDiagonal},
    {"aten.tril", lowerTriangle},
    {"aten.triu", upperTriangle},
    {"aten.meshgrid", meshgrid},
    {"aten.view_as_real", viewAsReal},
    {"aten.view_as_real_copy", viewAsReal},
    {"aten.view_as_complex", viewAsComplex},
    {"aten.view_as_complex_copy", viewAsComplex},
    {"aten.complex", complexOf},
    {"aten.polar", polar},
    {"aten.pixel_shuffle", pixelShuffle},
    {"aten.pixel_unshuffle", pixelUnshuffle},
    {"aten.channel_shuffle", channelShuffle},
    {"aten.native_channel_shuffle", channelShuffle},
    {"aten.constant_pad_nd", padded},
    {"aten.pad", padded},
    {"aten.reflection_pad1d", padded},
    {"aten.reflection_pad2d", padded},
    {"aten.reflection_pad3d", padded},
    {"aten.replication_pad1d", padded},
    {"aten.replication_pad2d", padded},
    {"aten.replication_pad3d", padded},
    {"aten.copy", copied},
    // Checks of sizes and data, which hold for the sizes of the program.
    {"aten._assert_tensor_metadata", none},
    {"aten._assert_scalar", none},
    {"aten.can_cast", none}, // a bool and a dtype of Python, which the export has used
    {"aten.result_type", none},
    {"aten.sym_numel", sizeOfData},
    {"aten.sym_size", sizeOfData},
    {"aten._assert_async", none},
    {"aten.sym_constrain_range", none},
    {"aten.sym_constrain_range_for_size", none},
};

} // namespace
} // namespace aten::shapes

ImportRows torchShapeRows() { return aten::shapes::kRows; }

} // namespace dtc
