#include "export/ExportWriter.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Support/Tensor.h"
#include "dtc/Support/Words.h"
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

namespace dtc {

std::string_view hloElementType(DType d) {
  switch (d) {
  case DType::Bool: return "i1";
  case DType::U8: return "ui8";
  case DType::U16: return "ui16";
  case DType::U32: return "ui32";
  case DType::U64: return "ui64";
  case DType::F8E4M3: return "f8E4M3FN";
  case DType::F8E5M2: return "f8E5M2";
  case DType::C64: return "complex<f32>";
  case DType::C128: return "complex<f64>";
  default: return dtypeName(d);
  }
}

std::string hloType(DType d, const Dims& shape) {
  std::string text = "tensor<";
  for (int64_t n : shape) text += std::to_string(n) + "x";
  return text + std::string(hloElementType(d)) + ">";
}

std::string hloTypes(std::span<const ExportValue> values) {
  return joined(values, ", ", [](const ExportValue& v) { return hloType(v); });
}

std::string hloList(const Dims& list) { return "[" + joined(list) + "]"; }

std::string hloNumber(DType d, double v) {
  if (isBool(d)) return v != 0 ? "true" : "false";
  char text[48];
  if (isInteger(d)) {
    Tensor t(d, {});
    t.setFloat(0, v);
    if (isUnsignedInt(d)) return std::to_string(static_cast<uint64_t>(t.getInt(0)));
    return std::to_string(t.getInt(0));
  }
  if (std::isfinite(v)) {
    // The shortest decimal that reads back exactly; MLIR requires a point, with or without an exponent.
    std::string number = printFloat(v, d);
    const size_t exponent = number.find('e');
    if (number.find('.') == std::string::npos)
      number.insert(exponent == std::string::npos ? number.size() : exponent, ".0");
    return number;
  }
  Tensor t(d, {});
  t.setFloat(0, v);
  uint64_t bits = 0;
  for (size_t i = t.bytes().size(); i-- > 0;) bits = bits << 8 | std::to_integer<uint64_t>(t.bytes()[i]);
  std::snprintf(text, sizeof text, "0x%0*llX", 2 * dtypeBytes(d), static_cast<unsigned long long>(bits));
  return text;
}

void ExportWriter::line(std::string_view text) { text_.append(indent_).append(text) += '\n'; }

ExportWriter::ExportWriter(std::string indent) : indent_(std::move(indent)) {
  for (const char* name : {"%lhs", "%rhs", "%lhs_at", "%rhs_at", "%out", "%out_at"}) used_.insert(name);
}

std::string ExportWriter::fresh(std::string_view wish) {
  if (wish.empty() || (wish[0] >= '0' && wish[0] <= '9')) return "%" + std::to_string(next_++);
  std::string name = "%" + std::string(wish);
  for (int n = 0; !used_.insert(name).second; ++n) name = "%" + std::string(wish) + "_" + std::to_string(n);
  return name;
}

void ExportWriter::call(ExportValue& v, std::string_view wish) {
  const bool numbered = v.name.size() > 1 && std::isdigit(static_cast<unsigned char>(v.name[1]));
  if (!numbered || wish.empty() || std::isdigit(static_cast<unsigned char>(wish[0]))) return;
  renamed_.try_emplace(v.name, fresh(wish));
}

std::string ExportWriter::take() {
  std::string out;
  uint64_t next = 0;
  for (size_t i = 0; i < text_.size();) {
    size_t end = i + 1;
    if (text_[i] == '%')
      while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) ++end;
    if (end == i + 1) {
      out += text_[i++];
      continue;
    }
    auto [it, isNew] = renamed_.try_emplace(text_.substr(i, end - i));
    if (isNew) it->second = "%" + std::to_string(next++);
    out += it->second;
    i = end;
  }
  text_.clear();
  return out;
}

ExportValue ExportWriter::define(std::string_view text, std::string_view types, DType d, Dims shape) {
  ExportValue r{fresh(), d, std::move(shape)};
  line(r.name + " = " + std::string(text) + " : " + std::string(types));
  return r;
}

std::string namesOf(std::span<const ExportValue> values) {
  return joined(values, ", ", [](const ExportValue& v) { return v.name; });
}

// chlo ops have one form with both types; StableHLO ops that keep the type print it once.
ExportValue ExportWriter::elementwise(std::string_view name, std::span<const ExportValue> operands,
                                      DType result) {
  const bool chlo = name.starts_with("chlo."), same = operands[0].dtype == result && !chlo;
  const std::string types = same   ? hloType(operands[0])
                            : chlo ? hloTypes(operands) + " -> " + hloType(result, operands[0].shape)
                                   : "(" + hloTypes(operands) + ") -> " + hloType(result, operands[0].shape);
  return define((chlo ? "" : "stablehlo.") + std::string(name) + " " + namesOf(operands), types, result,
                operands[0].shape);
}

ExportValue ExportWriter::binary(std::string_view name, const ExportValue& x, const ExportValue& y) {
  const ExportValue both[] = {x, y};
  return elementwise(name, both, x.dtype);
}

ExportValue ExportWriter::typed(std::string_view name, std::span<const ExportValue> operands,
                                std::string_view rest, DType d, Dims shape) {
  const std::string types = "(" + hloTypes(operands) + ") -> " + hloType(d, shape);
  return define("stablehlo." + std::string(name) + " " + namesOf(operands) + std::string(rest), types, d,
                std::move(shape));
}

ExportValue ExportWriter::plain(std::string_view name, std::span<const ExportValue> operands,
                                std::string_view types, DType d, Dims shape) {
  return define("stablehlo." + std::string(name) + " " + namesOf(operands), types, d, std::move(shape));
}

ExportValue ExportWriter::generic(std::string_view name, std::span<const ExportValue> operands,
                                  std::string_view properties, DType d, Dims shape,
                                  const std::vector<std::string>& region) {
  const std::string types = "(" + hloTypes(operands) + ") -> " + hloType(d, shape);
  std::string text =
      "\"" + std::string(name) + "\"(" + namesOf(operands) + ") <{" + std::string(properties) + "}>";
  if (region.empty()) return define(text, types, d, std::move(shape));
  ExportValue r{fresh(), d, std::move(shape)};
  open(r.name + " = " + text + " ({");
  for (const std::string& l : region) line(l);
  close("}) : " + types);
  return r;
}

ExportValue ExportWriter::compare(std::string_view direction, const ExportValue& x, const ExportValue& y) {
  const std::string_view kind = isFloat(x.dtype)                            ? "FLOAT"
                                : isUnsignedInt(x.dtype) || isBool(x.dtype) ? "UNSIGNED"
                                                                            : "SIGNED";
  const ExportValue both[] = {x, y};
  return define("stablehlo.compare " + std::string(direction) + ", " + namesOf(both) + ", " +
                    std::string(kind),
                "(" + hloTypes(both) + ") -> " + hloType(DType::Bool, x.shape), DType::Bool, x.shape);
}

ExportValue ExportWriter::select(const ExportValue& p, const ExportValue& x, const ExportValue& y) {
  const ExportValue all[] = {p, x, y};
  return define("stablehlo.select " + namesOf(all), hloType(p) + ", " + hloType(x), x.dtype, x.shape);
}

ExportValue ExportWriter::convert(const ExportValue& x, DType to) {
  if (x.dtype == to) return x;
  if (isBool(to)) return compare("NE", x, splat(0, x.dtype, x.shape));
  return typed("convert", {&x, 1}, "", to, x.shape);
}

ExportValue ExportWriter::dense(std::string_view elements, DType d, Dims shape) {
  const std::string type = hloType(d, shape);
  return define("stablehlo.constant dense<" + std::string(elements) + ">", type, d, std::move(shape));
}

ExportValue ExportWriter::splat(double value, DType d, Dims shape) {
  return dense(hloNumber(d, value), d, std::move(shape));
}

ExportValue ExportWriter::iota(int64_t dim, DType d, Dims shape) {
  const std::string type = hloType(d, shape);
  return define("stablehlo.iota dim = " + std::to_string(dim), type, d, std::move(shape));
}

ExportValue ExportWriter::broadcast(const ExportValue& x, const Dims& dims, Dims shape) {
  bool same = x.shape == shape;
  for (size_t i = 0; i < dims.size(); ++i) same &= dims[i] == static_cast<int64_t>(i);
  if (same) return x;
  return typed("broadcast_in_dim", {&x, 1}, ", dims = " + hloList(dims), x.dtype, std::move(shape));
}

ExportValue ExportWriter::reshape(const ExportValue& x, Dims shape) {
  if (x.shape == shape) return x;
  return typed("reshape", {&x, 1}, "", x.dtype, std::move(shape));
}

ExportValue ExportWriter::transpose(const ExportValue& x, const Dims& perm) {
  Dims shape;
  bool same = true;
  for (size_t i = 0; i < perm.size(); ++i) {
    shape.push_back(x.shape[static_cast<size_t>(perm[i])]);
    same &= perm[i] == static_cast<int64_t>(i);
  }
  if (same) return x;
  return typed("transpose", {&x, 1}, ", dims = " + hloList(perm), x.dtype, std::move(shape));
}

ExportValue ExportWriter::slice(const ExportValue& x, const Dims& start, const Dims& limit,
                                const Dims& stride) {
  Dims shape;
  std::string ranges = " [";
  for (size_t i = 0; i < start.size(); ++i) {
    shape.push_back(limit[i] > start[i] ? (limit[i] - start[i] + stride[i] - 1) / stride[i] : 0);
    ranges += (i ? ", " : "") + std::to_string(start[i]) + ":" + std::to_string(limit[i]);
    if (stride[i] != 1) ranges += ":" + std::to_string(stride[i]);
  }
  return typed("slice", {&x, 1}, ranges + "]", x.dtype, std::move(shape));
}

ExportValue ExportWriter::concatenate(std::span<const ExportValue> xs, int64_t dim) {
  Dims shape = xs[0].shape;
  for (size_t i = 1; i < xs.size(); ++i)
    shape[static_cast<size_t>(dim)] += xs[i].shape[static_cast<size_t>(dim)];
  return typed("concatenate", xs, ", dim = " + std::to_string(dim), xs[0].dtype, std::move(shape));
}

ExportValue ExportWriter::pad(const ExportValue& x, const ExportValue& value, const Dims& low,
                              const Dims& high, const Dims& interior) {
  Dims shape;
  for (size_t i = 0; i < low.size(); ++i)
    shape.push_back(low[i] + x.shape[i] + std::max<int64_t>(0, x.shape[i] - 1) * interior[i] + high[i]);
  const ExportValue both[] = {x, value};
  return typed("pad", both,
               ", low = " + hloList(low) + ", high = " + hloList(high) + ", interior = " + hloList(interior),
               x.dtype, std::move(shape));
}

ExportValue ExportWriter::reverse(const ExportValue& x, const Dims& dims) {
  return define("stablehlo.reverse " + x.name + ", dims = " + hloList(dims), hloType(x), x.dtype, x.shape);
}

ExportValue ExportWriter::reduce(const ExportValue& x, const ExportValue& start, std::string_view op,
                                 const Dims& dims) {
  if (dims.empty()) return x;
  Dims shape;
  for (size_t i = 0; i < x.rank(); ++i)
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) == dims.end())
      shape.push_back(x.shape[i]);
  const std::string types = "(" + hloType(x) + ", " + hloType(start) + ") -> " + hloType(x.dtype, shape);
  return define("stablehlo.reduce(" + x.name + " init: " + start.name + ") applies stablehlo." +
                    std::string(op) + " across dimensions = " + hloList(dims),
                types, x.dtype, std::move(shape));
}

} // namespace dtc
