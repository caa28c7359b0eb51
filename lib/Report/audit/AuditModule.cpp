// Builds the audit graph of local text.
#include "audit/AuditGraph.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/text/UserLocation.h"
#include "dtc/IR/verify/CommContract.h"
#include "dtc/Passes/analysis/Recomputes.h"
#include "dtc/Passes/trace/TraceCollectives.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr int64_t kMaxListed = 4096; // devices; the groups of a larger mesh are printed by their axes

class ModuleGraph {
public:
  explicit ModuleGraph(Module& m) : m_(m) {
    for (const TracedCollective& c : collectivesOf(m, {})) known_.emplace(c.op, c);
  }

  AuditGraph run() {
    g_.report.format = "dt";
    for (FuncId f : m_.order) {
      if (!m_[f].spmd) continue;
      mesh_ = meshValueOf(m_, f);
      recomputes_ = recomputes(m_, f);
      g_.report.devices = std::max(g_.report.devices, mesh_.numDevices());
      block(m_[f].body);
    }
    return std::move(g_);
  }

private:
  uint32_t nodeOf(ValueId v) const {
    auto it = nodes_.find(v);
    return it == nodes_.end() ? AuditNode::kNone : it->second;
  }

  uint32_t add(AuditNode n) {
    g_.nodes.push_back(std::move(n));
    varies_.push_back(false);
    return static_cast<uint32_t>(g_.nodes.size() - 1);
  }

  void block(BlockId b) {
    for (ValueId a : m_[b].args) {
      AuditNode n;
      n.block = b.index;
      n.dims = dimsOf(a);
      nodes_.emplace(a, add(std::move(n)));
    }
    for (OpId o : m_[b].ops) {
      op(o, b);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) block(m_.region(o, r));
    }
    for (ValueId v : m_[b].yields)
      if (uint32_t n = nodeOf(v); n != AuditNode::kNone) g_.nodes[n].escapes = true;
  }

  std::vector<int64_t> dimsOf(ValueId v) const {
    return largestShape(m_, m_[v].type, mesh_).value_or(std::vector<int64_t>());
  }

  void op(OpId o, BlockId b) {
    const OpRecord& rec = m_.record(o);
    AuditNode n;
    n.block = b.index;
    n.forwards = rec.async == AsyncForm::Done;
    std::vector<size_t> position; // index of the node's operands among the op's
    bool device = (rec.isCollective() && m_[o].numOperands == 0);
    for (size_t i = 0; i < m_[o].numOperands; ++i) {
      const uint32_t from = nodeOf(m_.operand(o, i));
      if (from == AuditNode::kNone) continue;
      n.operands.push_back(from);
      position.push_back(i);
      device = device || (!rec.isCollective() && varies_[from]);
    }
    if (m_[o].numResults > 0) n.dims = dimsOf(m_.result(o));
    if (m_[o].numOperands > 0 && !position.empty() && position[0] == 0) slices(o, n);
    if (known_.contains(o)) collective(o, n);
    const uint32_t id = add(std::move(n));
    varies_[id] = device && m_[o].numResults > 0;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) nodes_.emplace(m_.result(o, r), id);
  }

  // all_slice, and a dynamic slice at a device-dependent offset.
  void slices(OpId o, AuditNode& n) {
    if (m_[o].numResults != 1) return;
    const bool ownShard = m_.record(o).collective == CollectiveKind::AllSlice;
    bool byIndex = m_.record(o).name == std::string_view("dynamic_slice");
    if (!ownShard && !byIndex) return;
    const std::vector<int64_t> from = dimsOf(m_.operand(o, 0)), &to = n.dims;
    std::optional<size_t> dim;
    for (size_t d = 0; d < to.size() && d < from.size(); ++d) {
      if (from[d] == to[d]) continue;
      if (dim) return;
      dim = d;
      if (byIndex && (d + 1 >= n.operands.size() || !varies_[n.operands[d + 1]])) return;
    }
    if (dim) n.slices.push_back({0, *dim, to[*dim]}), n.onlySlices = true;
  }

  void collective(OpId o, AuditNode& n) {
    const TracedCollective& traced = known_.at(o);
    AuditCollective c;
    c.kind = m_.record(o).collective;
    c.name = m_[o].numResults > 0 ? printValueName(m_, m_.result(o)) : collectiveName(c.kind);
    c.dtype = dtypeName(m_.typeOf(m_.operand(o, 0)).dtype);
    c.count = traced.count, c.counted = traced.counted;
    const std::vector<AxisRef> axes = collectiveAxes(m_, o);
    for (const AxisRef& a : axes) n.devices += printAxis(a, m_.strings) + ",";
    if (AttrId pairs = m_.attr(o, "pairs"); pairs.valid()) n.devices += std::to_string(pairs.index);
    if (AttrId sends = m_.attr(o, "sends"); sends.valid()) n.devices += std::to_string(sends.index);
    const int64_t listed = mesh_.numDevices() <= kMaxListed ? mesh_.numDevices() : 0;
    std::vector<bool> seen(static_cast<size_t>(listed));
    for (int64_t p = 0; p < listed; ++p) {
      if (seen[static_cast<size_t>(p)]) continue;
      c.groups.push_back(mesh_.groupOf(axes, p));
      for (int64_t d : c.groups.back()) seen[static_cast<size_t>(d)] = true;
    }
    c.groupSize = mesh_.sizeOf(axes);
    for (ValueId v : m_.operands(o)) c.operandBytes += largestBytes(m_, m_[v].type, mesh_).value_or(0);
    priceCollective(c);
    if (traced.price) {
      c.bytesReceived = traced.price->bytesReceived;
      c.seconds = traced.price->seconds, c.latencySeconds = traced.price->latencySeconds;
    }
    for (auto [name, target] : {std::pair("dim", &n.dim), {"concat_dim", &n.dim}, {"split_dim", &n.split}})
      if (AttrId a = m_.attr(o, name); a.valid()) {
        const int64_t d = m_.attrs[a].i;
        *target = static_cast<size_t>(d < 0 ? d + static_cast<int64_t>(n.dims.size()) : d);
      }
    if (AttrId a = m_.attr(o, "op"); a.valid()) n.reduction = m_.strings[m_.attrs[a].text];
    c.op = userLocation(m_, o);
    c.line = placeText(m_.source, m_[o].loc, true);
    n.repeats = recomputes_;
    n.collective = static_cast<uint32_t>(g_.report.collectives.size());
    g_.report.collectives.push_back(std::move(c));
  }

  Module& m_;
  Mesh mesh_;
  bool recomputes_ = false; // of the function
  std::unordered_map<OpId, TracedCollective> known_;
  std::unordered_map<ValueId, uint32_t> nodes_;
  std::vector<bool> varies_; // by node: depends only on this device's index
  AuditGraph g_;
};

} // namespace

AuditReport auditModule(Module& local) {
  AuditGraph graph = ModuleGraph(local).run();
  findAlternatives(graph);
  return std::move(graph.report);
}

} // namespace dtc
