#pragma once
// Multi-device annotations (IR version 11): which devices hold which shards of a tensor. They have no mesh axes: the
// mesh is found from the lists of devices.
#include "dtc/Sharding/DeviceDigits.h"
#include "import/OnnxContext.h"

namespace dtc::onnx {

class Shardings {
public:
  Shardings(Module& m, const Program& p) : m_(m), program_(p) {}
  // The mesh that all annotations imply; none where there are none. Errors (Input) name the tensor.
  [[nodiscard]] Status declareMesh();
  // Annotates the results, and the operands that have no sharding yet, of a node.
  void annotate(const OnnxContext&, const ImportResults&);

private:
  // The digits of a device's number that each dim of a tensor is sharded along.
  struct Layout {
    std::vector<std::pair<int64_t, std::vector<DigitRange>>> dims; // (axis, digits)
  };
  [[nodiscard]] Result<Layout> layoutOf(const ShardingSpec&, int64_t& devices) const;

  Module& m_;
  const Program& program_;
  MeshId mesh_;
  std::vector<Layout> layouts_; // of Program::annotations
  std::unordered_multimap<const ImportNode*, size_t> ofNode_;
};

} // namespace dtc::onnx
