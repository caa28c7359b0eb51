#pragma once
// An ONNX model as read (onnx.proto, IR versions 7 and later): what an import needs of each message. Names are
// those of onnx.proto. `offset` is the byte offset of the message in the file, for errors.
#include "dtc/Support/Result.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::onnx {

// TensorProto.DataType
enum ElementType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
};

struct TensorProto {
  std::string name;
  int32_t dataType = kUndefined;
  std::vector<int64_t> dims;
  // The elements: in one of these, or in an external file.
  std::optional<std::string_view> raw; // little-endian
  int64_t rawOffset = 0;               // in the file of the model
  std::vector<float> floats;           // also complex64
  std::vector<double> doubles;         // also complex128
  std::vector<int64_t> integers;       // int32_data, int64_data, uint64_data
  bool external = false;
  std::string location;
  int64_t externalOffset = 0, externalLength = -1; // -1: to the end of the file
  int64_t offset = 0;
};

struct GraphProto;

struct AttributeProto {
  enum Type : int32_t {
    Undefined = 0,
    Float = 1,
    Int = 2,
    String = 3,
    Tensor = 4,
    Graph = 5,
    Floats = 6,
    Ints = 7,
    Strings = 8
  };
  std::string name, refAttrName;
  int32_t type = Undefined;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::shared_ptr<const TensorProto> t;
  std::shared_ptr<const GraphProto> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  int64_t offset = 0;
};

struct ShardedDim {
  int64_t axis = 0;
  std::vector<int64_t> numShards; // of each part of the dim, in order
};

struct ShardingSpec {
  std::string tensorName;
  std::vector<int64_t> devices;
  std::vector<std::pair<int64_t, std::vector<int64_t>>> groups; // index_to_device_group_map
  std::vector<ShardedDim> dims;
  int64_t offset = 0;
};

struct NodeDeviceConfiguration {
  std::string configuration;
  std::vector<ShardingSpec> shardings;
  std::optional<int64_t> pipelineStage;
};

struct NodeProto {
  std::vector<std::string> inputs, outputs;
  std::string name, opType, domain, overload;
  std::vector<AttributeProto> attributes;
  std::vector<NodeDeviceConfiguration> devices;
  int64_t offset = 0;
};

struct DimProto {
  int64_t value = -1; // -1: unknown, or the symbol
  std::string param;
};

struct ValueInfo {
  std::string name;
  // What the type is; only tensors have an element type and a shape.
  enum Kind : uint8_t { None, Tensor, Sequence, Optional, Map, Sparse, Opaque } kind = None;
  int32_t elementType = kUndefined;
  std::optional<std::vector<DimProto>> shape;
  int64_t offset = 0;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
  int64_t sparseInitializer = -1; // the offset of the first one
  int64_t offset = 0;
};

struct OpsetId {
  std::string domain;
  int64_t version = 0;
};

struct FunctionProto {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<AttributeProto> defaults; // attribute_proto
  std::vector<NodeProto> nodes;
  std::vector<OpsetId> opsets;
};

struct DeviceConfiguration {
  std::string name;
  int64_t numDevices = 0;
};

struct ModelProto {
  int64_t irVersion = 0;
  std::vector<OpsetId> opsets;
  std::string producer;
  std::optional<GraphProto> graph;
  std::vector<FunctionProto> functions;
  std::vector<DeviceConfiguration> configurations;
};

// Reads a model from the bytes of its file; string views refer to them. Errors (Input) begin with a byte
// offset.
[[nodiscard]] Result<ModelProto> readModel(std::string_view bytes);
// A TensorProto alone (.pb files of test suites hold one).
[[nodiscard]] Result<TensorProto> readTensorProto(std::string_view bytes);

} // namespace dtc::onnx
