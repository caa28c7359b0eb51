#include "aten/Aten.h"

#include <algorithm>
#include <limits>

namespace dtc::aten {

Expr in(const ImportContext& c, ArgumentKey key, DType dtype) {
  const ImportAttribute* a = c.attribute(key);
  if (a && std::holds_alternative<ImportInt>(*a)) {
    const ImportInt& i = std::get<ImportInt>(*a);
    if (i.isNumber() && !isInteger(dtype)) return c.literal(static_cast<double>(i.number), dtype);
    if (i.isNumber()) return c.literal(wrapToInt(dtype, i.number), dtype);
    return c.integerOperand(i, dtype);
  }
  if (a && std::holds_alternative<bool>(*a)) return c.literal(std::get<bool>(*a) ? 1.0 : 0.0, dtype);
  if (a && std::holds_alternative<double>(*a)) return c.literal(std::get<double>(*a), dtype);
  return converted(c.tensor(key), dtype);
}

Expr converted(Expr x, DType d) {
  if (d != DType::F8E4M3 || x.dtype() == d || isBool(x.dtype()) || isComplex(x.dtype())) return x.as(d);
  constexpr double largest = 448;
  const Expr wide = x.dtype() == DType::F64 ? x : x.as(DType::F32);
  return ops::min(ops::max(wide, -largest), largest).as(d);
}

Expr in(const ImportContext& c, ArgumentKey key) { return in(c, key, c.result().dtype); }

bool isNumber(const ImportContext& c, ArgumentKey key, double value) {
  if (!c.has(key) || c.is<ImportValueRef>(key)) return false;
  const Tensor* number = c.is<Tensor>(key) ? c.constant(key) : nullptr;
  if (number && isComplex(number->dtype()))
    return number->numElements() == 1 && number->getComplex(0) == value;
  return c.real(key) == value;
}

namespace {

// bool, integer, float, complex
int category(DType d) { return isComplex(d) ? 3 : isFloat(d) ? 2 : isBool(d) ? 0 : 1; }

int bits(DType d) { return dtypeBytes(d) * 8; }

DType wider(DType a, DType b) { return dtypeBytes(a) >= dtypeBytes(b) ? a : b; }

} // namespace

DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) {
    const DType high = category(a) > category(b) ? a : b, low = high == a ? b : a;
    // complex with a wide float
    return high == DType::C64 && low == DType::F64 ? DType::C128 : high;
  }
  if (isFloat(a)) return bits(a) == bits(b) ? DType::F32 : wider(a, b);
  if (isComplex(a)) return wider(a, b);
  if (isSignedInt(a) == isSignedInt(b)) return wider(a, b);
  const DType plain = isSignedInt(a) ? a : b, positive = plain == a ? b : a;
  if (bits(plain) > bits(positive)) return plain;
  constexpr DType next[] = {DType::I16, DType::I32, DType::I64};
  for (DType d : next)
    if (bits(d) > bits(positive)) return d;
  return DType::I64;
}

DType promoted(const ImportContext& c, std::initializer_list<ArgumentKey> keys) {
  std::optional<DType> found[3]; // of tensors, of scalars, of numbers
  for (ArgumentKey key : keys) {
    const ImportAttribute* a = c.attribute(key);
    if (!a) continue;
    size_t rank = 2;
    DType dtype = DType::I64;
    if (std::holds_alternative<double>(*a)) {
      dtype = DType::F32;
    } else if (std::holds_alternative<bool>(*a)) {
      dtype = DType::Bool;
    } else if (std::holds_alternative<Tensor>(*a)) {
      dtype = DType::C64;
    } else if (!std::holds_alternative<ImportInt>(*a)) {
      const Expr x = c.tensor(key);
      dtype = x.dtype(), rank = x.rank() == 0 ? 1 : 0;
    }
    found[rank] = found[rank] ? promoted(*found[rank], dtype) : dtype;
  }
  std::optional<DType> out;
  for (const std::optional<DType>& d : found) {
    if (!d) continue;
    if (!out)
      out = d;
    else if (category(*d) > category(*out))
      out = promoted(*out, *d);
  }
  return out.value_or(DType::F32);
}

Expr indices(Expr i, Dim size) { return wrappedIndices(i.as(DType::I32), size); }

Expr neutralOf(const ImportContext& c, std::string_view how, DType d) {
  const bool largest = how == "amin", smallest = how == "amax";
  if (isBool(d) || !(largest || smallest)) return c.literal(how == "prod" || largest ? 1.0 : 0.0, d);
  if (isInteger(d)) return c.literal(smallest ? intMin(d) : intMax(d), d);
  const double infinity = std::numeric_limits<double>::infinity();
  return c.literal(smallest ? -infinity : infinity, d);
}

Expr occurrences(Expr index, Dim size) {
  Builder& b = index.builder();
  const Expr zeros = filled(b, DType::I32, {size}, 0), ones = filled(b, DType::I32, index.dims(), 1);
  const Expr counts = ops::scatter(zeros, index, ones, {.dim = 0, .reduce = "sum"});
  return ops::index_select(counts, index, {.dim = 0});
}

int64_t dim(const ImportContext& c, ArgumentKey key, size_t rank, std::optional<int64_t> fallback) {
  return dimOf(c.b, fallback ? c.integer(key, *fallback) : c.integer(key), rank);
}

std::vector<int64_t> dims(const ImportContext& c, ArgumentKey key, size_t rank) {
  if (rank == 0) return {};
  const std::vector<int64_t> given = c.ints(key, {});
  return given.empty() ? allDims(rank) : dimsOf(c.b, given, rank);
}

const Dims& resultDims(const ImportContext& c, size_t i) { return c.result(i).dims; }

DType floatOf(DType d) { return isFloat(d) || isComplex(d) ? d : DType::F32; }

Expr asResult(const ImportContext& c, Expr x, size_t i) {
  return converted(reshapeTo(materialized(x), c.result(i).dims), c.result(i).dtype);
}

std::vector<int64_t> perDim(const ImportContext& c, ArgumentKey key, size_t count,
                            std::optional<int64_t> fallback) {
  std::vector<int64_t> list = fallback ? c.ints(key, {*fallback}) : c.ints(key);
  if (list.empty() && fallback) list = {*fallback};
  if (list.size() == 1) list.resize(count, list[0]);
  if (list.size() != count)
    c.fail("has the " + key.text() + ", which must have " + std::to_string(count) + " elements");
  return list;
}

AttrId paddingAttr(Module& m, const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
  std::vector<AttrId> list;
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t pair[] = {low[i], high[i]};
    list.push_back(m.attrs.integers(pair));
  }
  return m.attrs.list(std::move(list));
}

int64_t countOf(const ImportContext& c, Expr x, const std::vector<int64_t>& dims) {
  Dims sizes;
  for (int64_t d : dims) sizes.push_back(x.dims().at(static_cast<size_t>(d)));
  return staticDims(c.b, {elementsOf(c.b, sizes)})[0];
}

bool isRowMajor(const ImportContext& c, const char* name) {
  const ImportAttribute* given = c.attribute(name);
  const auto* ref = given ? std::get_if<ImportValueRef>(given) : nullptr;
  return !ref || !ref->valid() || c.file.values[ref->index].rowMajor;
}

Expr normOperand(ImportContext& c, Expr x) {
  for (const char* name : {"weight", "bias", "running_mean", "save_mean", "mean"})
    if (const Expr other = c.optional(name); other.valid() && other.dtype() == DType::F32)
      return x.as(DType::F32);
  return x;
}

ImportResults asDeclared(const ImportContext& c, ImportResults results) {
  for (size_t i = 0; i < results.values.size(); ++i)
    if (const Type* declared = c.declared(i); declared && results.values[i].valid())
      results.values[i] = converted(results.values[i], declared->dtype);
  return results;
}

Expr seedOf(const ImportContext& c) {
  if (!c.has("dtc.seed")) c.fail("draws random numbers in a nested graph");
  const Expr seed = c.tensor("dtc.seed");
  Tensor stream(DType::U64, {2});
  stream.setInt(1, c.integer("dtc.stream"));
  return seed + constantOf(c.b, stream);
}

} // namespace dtc::aten
