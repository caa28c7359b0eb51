#include "sharding/DeviceNumber.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/OpName.h"
#include <algorithm>
#include <array>
#include <unordered_map>

namespace dtc {

namespace {

class Folder {
public:
  Folder(Module& m, const Mesh& mesh) : m_(m), mesh_(mesh), devices_(mesh.numDevices()) {}

  void block(BlockId b) {
    const std::vector<OpId> ops = m_[b].ops;
    std::vector<OpId> out;
    for (OpId o : ops) {
      look(o, b, out);
      out.push_back(o);
    }
    m_[b].ops = std::move(out);
  }

private:
  // The digit (device / stride) % size of a device's number.
  struct Digits {
    int64_t stride = 1, size = 1;
  };

  void look(OpId o, BlockId b, std::vector<OpId>& out) {
    if (m_[o].numResults != 1) return;
    const std::string_view name = m_.record(o).name;
    const uint32_t result = m_.result(o).index;
    if (m_.record(o).collective == CollectiveKind::AxisIndex) {
      const AttrId axes = m_.attr(o, "axes");
      const auto all = std::ranges::count_if(mesh_.axes, [](const MeshAxis& a) { return a.size > 1; });
      if (axes.valid() && std::ssize(m_.attrs[axes].list) == all) numbers_[result] = {1, devices_};
    } else if (const Attr* value = splatOf(m_, m_.result(o))) {
      if (value->kind == Attr::Int && m_.typeOf(m_.result(o)).rank() == 0) constants_[result] = value->i;
    } else if (name == "convert") {
      if (auto x = numbers_.find(m_.operand(o, 0).index);
          x != numbers_.end() && isInteger(m_.typeOf(m_.result(o)).dtype))
        numbers_[result] = Digits(x->second);
    } else if (name == "div" || name == "rem") {
      divide(o, name == "div", b, out);
    }
  }

  void divide(OpId o, bool quotient, BlockId b, std::vector<OpId>& out) {
    auto x = numbers_.find(m_.operand(o, 0).index);
    auto by = constants_.find(m_.operand(o, 1).index);
    if (x == numbers_.end() || by == constants_.end() || by->second < 1) return;
    Digits d = x->second;
    if (quotient ? d.size % by->second != 0 : (by->second < d.size && d.size % by->second != 0)) return;
    if (quotient)
      d = {d.stride * by->second, d.size / by->second};
    else
      d.size = std::min(d.size, by->second);
    numbers_[m_.result(o).index] = d;
    replace(o, axesOfDigits({devices_ / (d.stride * d.size), d.size}, mesh_), b, out); // along none: 0
  }

  // The op becomes a conversion of the index along `axes`, computed before it.
  void replace(OpId o, std::span<const AxisRef> axes, BlockId b, std::vector<OpId>& out) {
    const OpId index = m_.makeOp(m_.registry->find(CollectiveKind::AxisIndex), {}, 1,
                                 {{m_.strings.intern("axes"), axesAttr(m_, axes)}}, 0, m_[o].loc);
    m_[m_.result(index)].type = m_.tensorType(DType::I32, {});
    m_[index].parent = b;
    out.push_back(index);
    m_[o].kind = m_.registry->find(OpName("convert"));
    m_.setOperands(o, std::array{m_.result(index)});
    const DType dtype = m_.typeOf(m_.result(o)).dtype;
    m_.setAttr(o, "dtype", m_.attrs.word(m_.strings.intern(dtypeName(dtype))));
  }

  Module& m_;
  const Mesh& mesh_;
  int64_t devices_;
  std::unordered_map<uint32_t, Digits> numbers_; // by value
  std::unordered_map<uint32_t, int64_t> constants_;
};

} // namespace

void foldDeviceNumbers(Module& m, BlockId b, const Mesh& mesh) {
  if (mesh.devices.empty()) Folder(m, mesh).block(b);
}

} // namespace dtc
