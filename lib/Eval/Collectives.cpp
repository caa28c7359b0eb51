// The semantics of collectives: each takes the tensors of all devices of a group and returns one for each
// device (ir.md).
#include "Interpreter.h"
#include "Runs.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/Sharding/CommDType.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace dtc {
namespace {

using Run = Interpreter::OpRun;

class Collective {
public:
  Collective(Interpreter& in, const Run& run)
      : in_(in), run_(run), m_(in.module()), query_(queryOf(m_, run.op, diags_)) {}
  [[nodiscard]] Status readAxes();
  [[nodiscard]] Status perGroup(Status (Collective::*body)(const std::vector<int64_t>& group));
  [[nodiscard]] Status perDevice(Status (Collective::*body)(int64_t device));

  [[nodiscard]] Status allReduce(const std::vector<int64_t>& group);
  [[nodiscard]] Status allGather(const std::vector<int64_t>& group);
  [[nodiscard]] Status allSlice(const std::vector<int64_t>& group);
  [[nodiscard]] Status reduceScatter(const std::vector<int64_t>& group);
  [[nodiscard]] Status allToAll(const std::vector<int64_t>& group);
  [[nodiscard]] Status permute(const std::vector<int64_t>& group);
  [[nodiscard]] Status broadcastFrom(const std::vector<int64_t>& group);
  [[nodiscard]] Status pointToPoint(const std::vector<int64_t>& group);
  [[nodiscard]] Status axisIndex(int64_t device);
  [[nodiscard]] Status shardOffset(int64_t device);
  [[nodiscard]] Status shardSize(int64_t device);
  [[nodiscard]] Status fillShard(int64_t device);
  [[nodiscard]] Status trimShard(int64_t device);
  [[nodiscard]] Status done(int64_t device);

private:
  [[nodiscard]] const TensorRef& operand(int64_t device, size_t i = 0) const {
    return in_.value(m_.operand(run_.op, i), device);
  }
  [[nodiscard]] Status setResult(int64_t device, Tensor t, size_t result = 0);
  [[nodiscard]] Status setResult(int64_t device, TensorRef t, size_t result = 0);
  [[nodiscard]] Error error(std::string_view what) const { return in_.errorAt(run_.op, what); }
  [[nodiscard]] std::optional<DType> narrowCommDType(DType held) const;
  [[nodiscard]] TensorRef sent(int64_t device) const;
  [[nodiscard]] Result<Tensor> reduced(const std::vector<int64_t>& group);
  [[nodiscard]] Result<Tensor> concatenated(std::span<const TensorRef> parts, int64_t dim);
  [[nodiscard]] Interval sliceOf(int64_t dim, int64_t device, int64_t size) const;
  [[nodiscard]] Result<int64_t> dimOf(const char* name);
  [[nodiscard]] Result<TensorRef> zerosFor(int64_t device, size_t result);
  [[nodiscard]] std::optional<Interval> shardOfAttr(int64_t device) const;

  Interpreter& in_;
  const Run& run_;
  Module& m_;
  Diagnostics diags_;
  OpQuery query_;
  std::vector<AxisRef> axes_;
};

Tensor sliceAlong(const Tensor& t, int64_t dim, Interval part) {
  std::vector<std::vector<Interval>> intervals;
  std::vector<int64_t> shape = t.shape();
  for (size_t d = 0; d < t.rank(); ++d) intervals.push_back({{0, shape[d]}});
  intervals[static_cast<size_t>(dim)] = {part};
  shape[static_cast<size_t>(dim)] = part.size();
  Tensor result(t.dtype(), shape);
  auto bytes = static_cast<size_t>(dtypeBytes(t.dtype()));
  forEachRun(t.shape(), intervals, [&](int64_t from, int64_t to, int64_t length) {
    std::memcpy(result.bytes().data() + to * bytes, t.bytes().data() + from * bytes, length * bytes);
  });
  return result;
}

Status Collective::readAxes() {
  AttrId list = query_.rawAttr("axes");
  if (!list.valid()) return Ok{};
  if (!run_.context.mesh) return error("needs a mesh, but this program runs on one device");
  for (AttrId a : m_.attrs[list].list) {
    const Attr& attr = m_.attrs[a];
    AxisRef ref = attr.kind == Attr::Axis ? attr.axis : AxisRef{attr.text};
    if (run_.context.mesh->axisIndex(ref.name) < 0)
      return error("the mesh has no axis '" + std::string(m_.strings[ref.name]) + "'");
    axes_.push_back(run_.context.mesh->canonical(ref));
  }
  return Ok{};
}

Status Collective::perGroup(Status (Collective::*body)(const std::vector<int64_t>&)) {
  std::vector<bool> active(static_cast<size_t>(run_.context.numDevices)), seen(active.size());
  for (int64_t d : run_.devices) active[d] = true;
  for (int64_t d : run_.devices) {
    if (seen[d]) continue;
    std::vector<int64_t> group =
        run_.context.mesh ? rendezvousOf(m_, run_.op, *run_.context.mesh, d) : std::vector<int64_t>{d};
    for (int64_t member : group) {
      if (!active[member]) return error("some devices of a group do not reach it");
      seen[member] = true;
    }
    if (Status s = (this->*body)(group); !s) return s;
  }
  return Ok{};
}

Status Collective::perDevice(Status (Collective::*body)(int64_t)) {
  for (int64_t d : run_.devices)
    if (Status s = (this->*body)(d); !s) return s;
  return Ok{};
}

// A result must have the shape of its type on the device; a wrong shard would otherwise be noticed much
// later.
Status Collective::setResult(int64_t device, TensorRef t, size_t result) {
  ValueId v = m_.result(run_.op, result);
  DTC_TRY(auto shape, in_.shapeOn(run_.op, v, run_.context, device));
  if (shape != t->shape()) {
    std::string got, want;
    for (int64_t n : t->shape()) got += (got.empty() ? "" : ", ") + std::to_string(n);
    for (int64_t n : shape) want += (want.empty() ? "" : ", ") + std::to_string(n);
    return error("device " + std::to_string(device) + " gets a shard of shape [" + got + "], expected [" +
                 want + "]");
  }
  in_.setValue(v, device, std::move(t));
  return Ok{};
}
Status Collective::setResult(int64_t device, Tensor t, size_t result) {
  return setResult(device, std::make_shared<const Tensor>(std::move(t)), result);
}

Result<int64_t> Collective::dimOf(const char* name) {
  auto dim = query_.dimAttr(name, operand(run_.devices[0])->rank());
  if (!dim) return error(std::string("'") + name + "' is not a dim of its operand");
  return *dim;
}

Result<Tensor> Collective::reduced(const std::vector<int64_t>& group) {
  auto kind = parsePendingKind(query_.has("op") ? query_.textAttr("op") : "sum");
  if (!kind || *kind == PendingKind::None) return error("its op is not one of sum avg prod max min any all");
  std::vector<TensorRef> terms; // for complex numbers their parts
  for (int64_t device : group) {
    const TensorRef& t = operand(device);
    terms.push_back(isComplex(t->dtype()) ? std::make_shared<const Tensor>(t->parts()) : t);
  }
  Tensor sum = *terms[0];
  const bool floats = isFloat(sum.dtype());
  const auto commDType = floats ? narrowCommDType(sum.dtype()) : std::nullopt;
  int64_t n = sum.numElements();
  std::vector<double> real(floats ? static_cast<size_t>(n) : 0);
  for (size_t g = 0; g < group.size(); ++g) {
    const Tensor& t = *terms[g];
    if (t.shape() != sum.shape()) return error("its operand has different sizes on the devices of a group");
    for (int64_t i = 0; i < n; ++i) {
      if (!floats) {
        if (g) sum.setInt(i, combineInt(sum.dtype(), *kind, sum.getInt(i), t.getInt(i)));
        continue;
      }
      // Each partial sum is rounded where it is sent.
      const double v = commDType ? roundToFloat(*commDType, t.getFloat(i)) : t.getFloat(i);
      real[i] = g ? combineFloat(*kind, real[i], v) : v;
      if (commDType) real[i] = roundToFloat(*commDType, real[i]);
    }
  }
  double divisor = *kind == PendingKind::Avg ? static_cast<double>(group.size()) : 1;
  for (int64_t i = 0; i < n && floats; ++i) sum.setFloat(i, divisor == 1 ? real[i] : real[i] / divisor);
  if (isComplex(operand(group[0])->dtype())) return Tensor::fromParts(sum);
  return sum;
}

// The dtype to which values are rounded when sent, if it is narrower than their own.
std::optional<DType> Collective::narrowCommDType(DType held) const {
  auto commDType = query_.dtypeAttr("wire");
  if (!commDType || in_.r64() || !isFloat(held) || !isFloat(*commDType) || holdsAll(*commDType, held))
    return std::nullopt;
  return commDType;
}

// What a device sends. A data-movement collective also rounds the data that stays, so that all devices have
// the same values.
TensorRef Collective::sent(int64_t device) const {
  const TensorRef& t = operand(device);
  const auto commDType = narrowCommDType(partType(t->dtype()));
  if (!commDType) return t;
  const bool complex = isComplex(t->dtype());
  Tensor rounded = complex ? t->parts() : *t;
  for (int64_t i = 0; i < rounded.numElements(); ++i)
    rounded.setFloat(i, roundToFloat(*commDType, rounded.getFloat(i)));
  return std::make_shared<const Tensor>(complex ? Tensor::fromParts(rounded) : std::move(rounded));
}

Result<Tensor> Collective::concatenated(std::span<const TensorRef> parts, int64_t dim) {
  auto d = static_cast<size_t>(dim);
  std::vector<int64_t> shape = parts[0]->shape();
  shape[d] = 0;
  for (const TensorRef& t : parts) {
    std::vector<int64_t> other = t->shape();
    shape[d] += other[d];
    other[d] = shape[d];
    if (other != shape) return error("the gathered shards differ in another dim");
  }
  Tensor result(parts[0]->dtype(), shape);
  auto bytes = static_cast<size_t>(dtypeBytes(result.dtype()));
  int64_t offset = 0;
  for (const TensorRef& t : parts) {
    std::vector<std::vector<Interval>> intervals;
    for (int64_t n : shape) intervals.push_back({{0, n}});
    intervals[d] = {{offset, offset + t->shape()[d]}};
    forEachRun(shape, intervals, [&](int64_t to, int64_t from, int64_t length) {
      std::memcpy(result.bytes().data() + to * bytes, t->bytes().data() + from * bytes, length * bytes);
    });
    offset += t->shape()[d];
  }
  return result;
}

// The part of a dim (of local size `size`) that a device keeps when the dim is further sharded along the op's
// axes. The types determine the global dim that is sharded, not the local one.
Interval Collective::sliceOf(int64_t dim, int64_t device, int64_t size) const {
  const Mesh& mesh = *run_.context.mesh;
  Env env = in_.envOf(run_.context, device);
  // Uses only the operand's axes: the result's may have the same axes joined (a for a:(1)2, a:(2)2).
  const DimExpr coarse = m_.dims.expr(m_.typeOf(m_.operand(run_.op, 0)).dims[static_cast<size_t>(dim)]);
  if (coarse.axes.empty()) return shardInterval(size, mesh.sizeOf(axes_), mesh.indexAlong(axes_, device));
  DimExpr fine = coarse;
  fine.axes.insert(fine.axes.end(), axes_.begin(), axes_.end());
  auto outer = env.intervalOf(coarse), inner = env.intervalOf(fine);
  if (!outer || !inner) return {0, 0};
  return {inner->begin - outer->begin, inner->end - outer->begin};
}

Status Collective::allReduce(const std::vector<int64_t>& group) {
  DTC_TRY(auto sum, reduced(group));
  auto shared = std::make_shared<const Tensor>(std::move(sum));
  for (int64_t d : group)
    if (Status s = setResult(d, shared); !s) return s;
  return Ok{};
}

Status Collective::allGather(const std::vector<int64_t>& group) {
  DTC_TRY(auto dim, dimOf("dim"));
  std::vector<TensorRef> parts;
  for (int64_t d : group) parts.push_back(sent(d));
  DTC_TRY(auto joined, concatenated(parts, dim));
  auto shared = std::make_shared<const Tensor>(std::move(joined));
  for (int64_t d : group)
    if (Status s = setResult(d, shared); !s) return s;
  return Ok{};
}

Status Collective::allSlice(const std::vector<int64_t>& group) {
  DTC_TRY(auto dim, dimOf("dim"));
  for (int64_t d : group) {
    const Tensor& t = *operand(d);
    Interval part = sliceOf(dim, d, t.shape()[static_cast<size_t>(dim)]);
    if (part.end > t.shape()[static_cast<size_t>(dim)]) return error("its operand is shorter than its type");
    if (Status s = setResult(d, sliceAlong(t, dim, part)); !s) return s;
  }
  return Ok{};
}

Status Collective::reduceScatter(const std::vector<int64_t>& group) {
  DTC_TRY(auto dim, dimOf("dim"));
  DTC_TRY(auto sum, reduced(group));
  for (int64_t d : group) {
    Interval part = sliceOf(dim, d, sum.shape()[static_cast<size_t>(dim)]);
    if (part.end > sum.shape()[static_cast<size_t>(dim)])
      return error("its operand is shorter than its type");
    if (Status s = setResult(d, sliceAlong(sum, dim, part)); !s) return s;
  }
  return Ok{};
}

Status Collective::allToAll(const std::vector<int64_t>& group) {
  auto split = dimOf("split_dim"), concat = dimOf("concat_dim");
  if (!split) return split.error();
  if (!concat) return concat.error();
  for (int64_t d : group) {
    std::vector<TensorRef> parts;
    for (int64_t from : group) {
      const TensorRef all = sent(from);
      const Tensor& t = *all;
      Interval part = sliceOf(*split, d, t.shape()[static_cast<size_t>(*split)]);
      if (part.end > t.shape()[static_cast<size_t>(*split)])
        return error("its operand is shorter than its type");
      parts.push_back(std::make_shared<const Tensor>(sliceAlong(t, *split, part)));
    }
    DTC_TRY(auto joined, concatenated(parts, *concat));
    if (Status s = setResult(d, std::move(joined)); !s) return s;
  }
  return Ok{};
}

Result<TensorRef> Collective::zerosFor(int64_t device, size_t result) {
  ValueId v = m_.result(run_.op, result);
  DTC_TRY(auto shape, in_.shapeOn(run_.op, v, run_.context, device));
  return TensorRef(std::make_shared<const Tensor>(Tensor(in_.heldDType(m_.typeOf(v).dtype), shape)));
}

// The integers of one entry of a list of lists.
std::vector<int64_t> integersOf(const Module& m, AttrId list) {
  std::vector<int64_t> out;
  for (AttrId a : m.attrs[list].list) out.push_back(m.attrs[a].i);
  return out;
}

Status Collective::permute(const std::vector<int64_t>& group) {
  std::vector<int64_t> source(group.size(), -1);
  AttrId pairs = query_.rawAttr("pairs");
  if (!pairs.valid()) return error("it needs pairs");
  for (AttrId entry : m_.attrs[pairs].list) {
    auto pair = integersOf(m_, entry);
    auto inGroup = [&](int64_t i) { return i >= 0 && i < static_cast<int64_t>(group.size()); };
    if (pair.size() != 2 || !inGroup(pair[0]) || !inGroup(pair[1]))
      return error("a pair is not of two indices along its axes");
    if (source[pair[1]] >= 0) return error("a device receives twice");
    source[pair[1]] = pair[0];
  }
  for (size_t i = 0; i < group.size(); ++i) {
    TensorRef t;
    if (source[i] >= 0) {
      t = sent(group[source[i]]);
    } else {
      DTC_TRY(t, zerosFor(group[i], 0));
    }
    if (Status s = setResult(group[i], std::move(t)); !s) return s;
  }
  return Ok{};
}

Status Collective::broadcastFrom(const std::vector<int64_t>& group) {
  int64_t root = query_.intAttr("root");
  if (root < 0 || root >= static_cast<int64_t>(group.size()))
    return error("its root is not an index along its axes");
  for (int64_t d : group)
    if (Status s = setResult(d, sent(group[root])); !s) return s;
  return Ok{};
}

Status Collective::pointToPoint(const std::vector<int64_t>& group) {
  size_t count = m_[run_.op].numOperands;
  // By operand and index along the axes: the index of the sender. The group has the devices that the op names.
  const int64_t size = run_.context.mesh ? run_.context.mesh->sizeOf(axes_) : 1;
  const auto indexOf = [&](int64_t device) {
    return run_.context.mesh ? run_.context.mesh->indexAlong(axes_, device) : 0;
  };
  std::map<int64_t, int64_t> deviceAt;
  for (int64_t device : group) deviceAt[indexOf(device)] = device;
  std::vector<std::vector<int64_t>> source(count, std::vector<int64_t>(static_cast<size_t>(size), -1));
  AttrId sends = query_.rawAttr("sends");
  if (!sends.valid()) return error("it needs sends");
  for (AttrId entry : m_.attrs[sends].list) {
    auto send = integersOf(m_, entry);
    if (send.size() != 3 || send[0] < 0 || send[0] >= static_cast<int64_t>(count) || send[1] < 0 ||
        send[1] >= size || send[2] < 0 || send[2] >= size)
      return error("a send is not [operand, from, to] with indices along its axes");
    if (source[send[0]][send[2]] >= 0) return error("a device receives the same operand twice");
    source[send[0]][send[2]] = send[1];
  }
  for (size_t k = 0; k < count; ++k) {
    for (int64_t device : group) {
      const int64_t from = source[k][static_cast<size_t>(indexOf(device))];
      TensorRef t;
      if (from >= 0) {
        t = operand(deviceAt[from], k);
      } else {
        DTC_TRY(t, zerosFor(device, k));
      }
      if (Status s = setResult(device, std::move(t), k); !s) return s;
    }
  }
  return Ok{};
}

Status setInteger(Interpreter& in, const Run& run, int64_t device, int64_t value) {
  Tensor t(DType::I32, {});
  t.setInt(0, value);
  in.setValue(in.module().result(run.op), device, in.hold(std::move(t)));
  return Ok{};
}

Status Collective::axisIndex(int64_t device) {
  return setInteger(in_, run_, device, run_.context.mesh->indexAlong(axes_, device));
}

// The shard of attribute `size` on a device along the op's axes.
std::optional<Interval> Collective::shardOfAttr(int64_t device) const {
  auto n = in_.envOf(run_.context, device).sizeOf(query_.sizeAttr("size"));
  if (!n) return std::nullopt;
  return shardInterval(*n, run_.context.mesh->sizeOf(axes_), run_.context.mesh->indexAlong(axes_, device));
}

Status Collective::shardOffset(int64_t device) {
  auto part = shardOfAttr(device);
  return part ? setInteger(in_, run_, device, part->begin) : Status(error("its size is unbound"));
}

Status Collective::shardSize(int64_t device) {
  auto part = shardOfAttr(device);
  return part ? setInteger(in_, run_, device, part->size()) : Status(error("its size is unbound"));
}

Status Collective::fillShard(int64_t device) {
  DTC_TRY(auto dim, dimOf("dim"));
  auto d = static_cast<size_t>(dim);
  DTC_TRY(auto shape, in_.shapeOn(run_.op, m_.result(run_.op), run_.context, device));
  const TensorRef& t = operand(device);
  if (shape[d] < t->shape()[d]) return error("its result is shorter than its operand");
  std::vector<int64_t> tail = t->shape();
  tail[d] = shape[d] - tail[d];
  Tensor rest(t->dtype(), tail);
  AttrId value = query_.rawAttr("value");
  for (int64_t i = 0; value.valid() && i < rest.numElements(); ++i) {
    const Attr& a = m_.attrs[value];
    if (a.kind == Attr::Float)
      rest.setFloat(i, a.f);
    else
      rest.setInt(i, a.i);
  }
  TensorRef parts[] = {t, std::make_shared<const Tensor>(std::move(rest))};
  auto joined = concatenated(parts, dim);
  return joined ? setResult(device, std::move(*joined)) : Status(joined.error());
}

Status Collective::trimShard(int64_t device) {
  DTC_TRY(auto dim, dimOf("dim"));
  auto part = shardOfAttr(device);
  if (!part) return error("its size is unbound");
  const Tensor& t = *operand(device);
  if (part->size() > t.shape()[static_cast<size_t>(dim)])
    return error("its operand is shorter than the shard");
  return setResult(device, sliceAlong(t, dim, {0, part->size()}));
}

// `NAME_start` has moved the data already: the evaluator overlaps nothing.
Status Collective::done(int64_t device) {
  for (uint32_t r = 0; r < m_[run_.op].numResults; ++r)
    if (Status s = setResult(device, operand(device, r), r); !s) return s;
  return Ok{};
}

using PerGroup = Status (Collective::*)(const std::vector<int64_t>&);
using PerDevice = Status (Collective::*)(int64_t);

// By CollectiveKind.
constexpr PerGroup kPerGroup[] = {nullptr,
                                  &Collective::allReduce,
                                  &Collective::allGather,
                                  &Collective::allSlice,
                                  &Collective::reduceScatter,
                                  &Collective::allToAll,
                                  &Collective::permute,
                                  &Collective::broadcastFrom,
                                  &Collective::pointToPoint};
constexpr PerDevice kPerDevice[] = {&Collective::axisIndex, &Collective::shardOffset, &Collective::shardSize,
                                    &Collective::fillShard, &Collective::trimShard};

} // namespace

Status runCollective(Interpreter& interpreter, const Interpreter::OpRun& run) {
  const OpRecord& record = interpreter.module().record(run.op);
  const auto kind = static_cast<size_t>(record.collective);
  Collective collective(interpreter, run);
  if (Status s = collective.readAxes(); !s) return s;
  if (record.async == AsyncForm::Done) return collective.perDevice(&Collective::done);
  if (hasGroups(record.collective)) return collective.perGroup(kPerGroup[kind]);
  DTC_CHECK(kind != 0, "an op without devices");
  return collective.perDevice(kPerDevice[kind - std::size(kPerGroup)]);
}

} // namespace dtc
