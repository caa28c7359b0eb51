#include "dtc/Files/OnnxModel.h"
#include "dtc/Support/ProtoWire.h"
#include "dtc/Support/Words.h"

namespace dtc::onnx {

namespace {

// Calls `visit` for each field of a message.
template <class Visit> Status eachField(ProtoReader reader, Visit&& visit) {
  ProtoField field;
  for (;;) {
    DTC_TRY(const bool more, reader.next(field));
    if (!more) return Ok{};
    if (Status good = visit(field); !good) return good;
  }
}

template <class T> Status put(T& target, Result<T> value) {
  if (!value) return value.error();
  target = *std::move(value);
  return Ok{};
}

template <class T> Status append(std::vector<T>& target, Result<T> value) {
  if (!value) return value.error();
  target.push_back(*std::move(value));
  return Ok{};
}

// A field that is a message.
template <class T> Status put(T& target, const ProtoField& f, Status (*read)(ProtoReader, T&)) {
  DTC_TRY(auto message, f.message());
  if constexpr (requires { target.offset; }) target.offset = f.offset();
  return read(message, target);
}

template <class T>
Status append(std::vector<T>& target, const ProtoField& f, Status (*read)(ProtoReader, T&)) {
  return put(target.emplace_back(), f, read);
}

struct Entry { // StringStringEntryProto
  std::string key, value;
};

Status readEntry(ProtoReader reader, Entry& e) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(e.key, f.text());
    case 2: return put(e.value, f.text());
    default: return Ok{};
    }
  });
}

Status readExternal(const ProtoField& f, TensorProto& t) {
  Entry e;
  if (auto good = put(e, f, readEntry); !good) return good;
  if (e.key == "location") t.location = e.value;
  if (e.key != "offset" && e.key != "length") return Ok{};
  const auto number = parseNumber<int64_t>(e.value);
  if (!number || *number < 0)
    return f.error("expected a number of bytes as " + e.key + ", got '" + e.value + "'");
  (e.key == "offset" ? t.externalOffset : t.externalLength) = *number;
  return Ok{};
}

Status readTensor(ProtoReader reader, TensorProto& t) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return f.appendIntegers(t.dims);
    case 2: {
      DTC_TRY(const int64_t type, f.integer());
      t.dataType = type < 0 || type > 1000 ? 1000 : static_cast<int32_t>(type);
      return Ok{};
    }
    case 3: return f.error("segmented tensors are not supported");
    case 4: return f.appendF32(t.floats);
    case 5:
    case 7:
    case 11: return f.appendIntegers(t.integers);
    case 8: return put(t.name, f.text());
    case 9: {
      DTC_TRY(t.raw, f.bytes());
      t.rawOffset = f.payloadOffset();
      return Ok{};
    }
    case 10: return f.appendF64(t.doubles);
    case 13: return readExternal(f, t);
    case 14: {
      DTC_TRY(const int64_t location, f.integer());
      t.external = location == 1;
      return Ok{};
    }
    default: return Ok{};
    }
  });
}

Status readGraph(ProtoReader reader, GraphProto& g);

template <class T>
Status shared(std::shared_ptr<const T>& target, const ProtoField& f, Status (*read)(ProtoReader, T&)) {
  auto made = std::make_shared<T>();
  if (auto good = put(*made, f, read); !good) return good;
  target = std::move(made);
  return Ok{};
}

Status readAttribute(ProtoReader reader, AttributeProto& a) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(a.name, f.text());
    case 2: return put(a.f, f.f32());
    case 3: return put(a.i, f.integer());
    case 4: {
      DTC_TRY(const auto bytes, f.bytes());
      a.s = bytes;
      return Ok{};
    }
    case 5: return shared(a.t, f, readTensor);
    case 6: return shared(a.g, f, readGraph);
    case 7: return f.appendF32(a.floats);
    case 8: return f.appendIntegers(a.ints);
    case 9: {
      DTC_TRY(const auto bytes, f.bytes());
      a.strings.emplace_back(bytes);
      return Ok{};
    }
    case 20: {
      DTC_TRY(const int64_t type, f.integer());
      a.type = type < 0 || type > 100 ? 100 : static_cast<int32_t>(type);
      return Ok{};
    }
    case 21: return put(a.refAttrName, f.text());
    default: return Ok{};
    }
  });
}

// --- multi-device annotations ---

Status readSimpleSharding(ProtoReader reader, int64_t& numShards) {
  numShards = 1;
  return eachField(reader, [&](const ProtoField& f) -> Status {
    return f.number() == 3 ? put(numShards, f.integer()) : Status(Ok{});
  });
}

Status readShardedDim(ProtoReader reader, ShardedDim& d) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(d.axis, f.integer());
    case 2: return append(d.numShards, f, readSimpleSharding);
    default: return Ok{};
    }
  });
}

Status readGroup(ProtoReader reader, std::pair<int64_t, std::vector<int64_t>>& group) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(group.first, f.integer());
    case 2: return f.appendIntegers(group.second);
    default: return Ok{};
    }
  });
}

Status readSharding(ProtoReader reader, ShardingSpec& s) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(s.tensorName, f.text());
    case 2: return f.appendIntegers(s.devices);
    case 3: return append(s.groups, f, readGroup);
    case 4: return append(s.dims, f, readShardedDim);
    default: return Ok{};
    }
  });
}

Status readNodeDevices(ProtoReader reader, NodeDeviceConfiguration& d) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(d.configuration, f.text());
    case 2: return append(d.shardings, f, readSharding);
    case 3: {
      DTC_TRY(d.pipelineStage, f.integer());
      return Ok{};
    }
    default: return Ok{};
    }
  });
}

Status readConfiguration(ProtoReader reader, DeviceConfiguration& c) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(c.name, f.text());
    case 2: return put(c.numDevices, f.integer());
    default: return Ok{};
    }
  });
}

// --- graphs ---

Status readNode(ProtoReader reader, NodeProto& n) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return append(n.inputs, f.text());
    case 2: return append(n.outputs, f.text());
    case 3: return put(n.name, f.text());
    case 4: return put(n.opType, f.text());
    case 5: return append(n.attributes, f, readAttribute);
    case 7: return put(n.domain, f.text());
    case 8: return put(n.overload, f.text());
    case 10: return append(n.devices, f, readNodeDevices);
    default: return Ok{};
    }
  });
}

Status readDim(ProtoReader reader, DimProto& d) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(d.value, f.integer());
    case 2: return put(d.param, f.text());
    default: return Ok{};
    }
  });
}

Status readShape(ProtoReader reader, std::vector<DimProto>& dims) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    return f.number() == 1 ? append(dims, f, readDim) : Status(Ok{});
  });
}

Status readTensorType(ProtoReader reader, ValueInfo& v) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: {
      DTC_TRY(const int64_t type, f.integer());
      v.elementType = type < 0 || type > 1000 ? 1000 : static_cast<int32_t>(type);
      return Ok{};
    }
    case 2: return put(v.shape.emplace(), f, readShape);
    default: return Ok{};
    }
  });
}

Status readType(ProtoReader reader, ValueInfo& v) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: v.kind = ValueInfo::Tensor; break;
    case 4: v.kind = ValueInfo::Sequence; return Ok{};
    case 5: v.kind = ValueInfo::Map; return Ok{};
    case 7: v.kind = ValueInfo::Opaque; return Ok{};
    case 8: v.kind = ValueInfo::Sparse; return Ok{};
    case 9: v.kind = ValueInfo::Optional; return Ok{};
    default: return Ok{};
    }
    DTC_TRY(auto message, f.message());
    return readTensorType(message, v);
  });
}

Status readValueInfo(ProtoReader reader, ValueInfo& v) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(v.name, f.text());
    case 2: {
      DTC_TRY(auto message, f.message());
      return readType(message, v);
    }
    default: return Ok{};
    }
  });
}

Status readGraph(ProtoReader reader, GraphProto& g) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return append(g.nodes, f, readNode);
    case 2: return put(g.name, f.text());
    case 5: return append(g.initializers, f, readTensor);
    case 11: return append(g.inputs, f, readValueInfo);
    case 12: return append(g.outputs, f, readValueInfo);
    case 13: return append(g.values, f, readValueInfo);
    case 15:
      if (g.sparseInitializer < 0) g.sparseInitializer = f.offset();
      return Ok{};
    default: return Ok{};
    }
  });
}

Status readOpset(ProtoReader reader, OpsetId& o) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(o.domain, f.text());
    case 2: return put(o.version, f.integer());
    default: return Ok{};
    }
  });
}

Status readFunction(ProtoReader reader, FunctionProto& p) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(p.name, f.text());
    case 4: return append(p.inputs, f.text());
    case 5: return append(p.outputs, f.text());
    case 6: return append(p.attributes, f.text());
    case 7: return append(p.nodes, f, readNode);
    case 9: return append(p.opsets, f, readOpset);
    case 10: return put(p.domain, f.text());
    case 11: return append(p.defaults, f, readAttribute);
    case 13: return put(p.overload, f.text());
    default: return Ok{};
    }
  });
}

Status readModelFields(ProtoReader reader, ModelProto& m) {
  return eachField(reader, [&](const ProtoField& f) -> Status {
    switch (f.number()) {
    case 1: return put(m.irVersion, f.integer());
    case 2: return put(m.producer, f.text());
    case 7: return put(m.graph.emplace(), f, readGraph);
    case 8: return append(m.opsets, f, readOpset);
    case 25: return append(m.functions, f, readFunction);
    case 26: return append(m.configurations, f, readConfiguration);
    default: return Ok{};
    }
  });
}

} // namespace

Result<ModelProto> readModel(std::string_view bytes) {
  ModelProto m;
  if (auto good = readModelFields(ProtoReader(bytes), m); !good) return good.error();
  return m;
}

Result<TensorProto> readTensorProto(std::string_view bytes) {
  TensorProto t;
  if (auto good = readTensor(ProtoReader(bytes), t); !good) return good.error();
  return t;
}

} // namespace dtc::onnx
