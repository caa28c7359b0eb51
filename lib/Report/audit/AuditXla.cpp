// Builds the audit graph of XLA's HLO text.
#include "audit/AuditGraph.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Report/audit/XlaHlo.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <unordered_map>

namespace dtc {

namespace {

// The total number of devices in all group lists may exceed the size of the text by this much: a few
// characters may denote a million devices.
constexpr size_t kMaxListedGroups = 1 << 20;

constexpr DiagKind kGroups{"hlo-groups", "cannot parse '{0}' of '{1}': expected {2} of {3} devices"};
constexpr DiagKind kRecursion{"too-deep", "computations are nested more than {0} deep here"};
constexpr size_t kDeepestHlo = 256;

struct Known {
  const char* opcode;
  CollectiveKind kind;
};
constexpr Known kCollectives[] = {
    {"all-reduce", CollectiveKind::AllReduce},
    {"all-gather", CollectiveKind::AllGather},
    {"reduce-scatter", CollectiveKind::ReduceScatter},
    {"all-to-all", CollectiveKind::AllToAll},
    {"ragged-all-to-all", CollectiveKind::AllToAll},
    {"collective-permute", CollectiveKind::Permute},
    {"collective-broadcast", CollectiveKind::BroadcastFrom},
};

// The collective started here: its own opcode, or that with -start. None for all other ops.
CollectiveKind kindOf(std::string_view opcode) {
  if (opcode.ends_with("-start")) opcode.remove_suffix(6);
  for (const Known& k : kCollectives)
    if (opcode == k.opcode) return k.kind;
  return CollectiveKind::None;
}

// Forwards its (first) operand.
bool forwards(std::string_view opcode) {
  static constexpr std::string_view known[] = {
      "copy",      "bitcast",         "get-tuple-element", "opt-barrier", "copy-start",
      "copy-done", "all-reduce-done", "all-gather-done",   "async-done",  "async-update"};
  return std::ranges::find(known, opcode) != std::end(known) || opcode.ends_with("-done");
}

class XlaGraph {
public:
  XlaGraph(const XlaModule& m, Diagnostics& diags) : m_(m), diags_(diags), counts_(m.computations.size()) {}

  std::optional<AuditGraph> run() {
    g_.report.format = "hlo";
    g_.report.devices = m_.partitions * m_.replicas;
    for (size_t c = 0; c < m_.computations.size(); ++c) byName_.emplace(m_.computations[c].name, c);
    for (const XlaComputation& c : m_.computations)
      for (uint32_t i : c.instructions)
        if (m_.instructions[i].opcode == "parameter")
          parameters_[{c.instructions[0], m_.instructions[i].literal}] = i;
    for (uint32_t i = 0; i < m_.instructions.size(); ++i)
      if (m_.instructions[i].opcode == "while")
        for (uint32_t body : called(m_.instructions[i], "body")) loopOf_.emplace(body, i);
    if (!visit(m_.entry(), 1, 1, 0)) return std::nullopt;
    g_.nodes.resize(m_.instructions.size());
    for (uint32_t i = 0; i < m_.instructions.size(); ++i)
      if (!node(i)) return std::nullopt;
    return std::move(g_);
  }

private:
  struct Counted {
    bool reached = false;
    std::optional<int64_t> times = 0;
    int64_t inSums = 0; // an unknown iteration count counts once
  };

  uint32_t computationOf(std::string_view name) const {
    if (name.starts_with('%')) name.remove_prefix(1);
    auto it = byName_.find(name);
    return it == byName_.end() ? XlaInstruction::kUnknown : static_cast<uint32_t>(it->second);
  }

  // Adds the execution count of a computation, and of all that it calls. `depth` bounds recursion.
  bool visit(uint32_t c, std::optional<int64_t> times, int64_t inSums, size_t depth) {
    if (depth > kDeepestHlo || ++visits_ > 4 * m_.instructions.size() + 1024) {
      const auto& own = m_.computations[c].instructions;
      if (depth <= kDeepestHlo) return true; // called from very many sites: an incomplete count
      return diags_.fail(kRecursion, own.empty() ? SourceRange{0, 1} : m_.instructions[own[0]].loc,
                         kDeepestHlo);
    }
    Counted& counted = counts_[c];
    counted.reached = true;
    counted.times = counted.times && times ? checkedAdd(*counted.times, *times) : std::nullopt;
    counted.inSums = std::min(counted.inSums + inSums, kMostExecutions);
    for (uint32_t i : m_.computations[c].instructions) {
      const XlaInstruction& in = m_.instructions[i];
      for (const char* key :
           {"body", "condition", "calls", "true_computation", "false_computation", "branch_computations"})
        for (uint32_t callee : called(in, key)) {
          std::optional<int64_t> inner = times;
          int64_t innerInSums = inSums;
          if (in.opcode == "while") {
            const auto iterations = iterationsOf(in);
            inner = times && iterations ? checkedMul(*times, *iterations) : std::nullopt;
            innerInSums = std::min(checkedMul(inSums, iterations.value_or(1)).value_or(kMostExecutions),
                                   kMostExecutions);
          }
          if (!visit(callee, inner, innerInSums, depth + 1)) return false;
        }
      if (in.opcode == "call")
        for (uint32_t callee : called(in, "to_apply"))
          if (!visit(callee, times, inSums, depth + 1)) return false;
    }
    return true;
  }

  std::vector<uint32_t> called(const XlaInstruction& in, std::string_view key) const {
    std::vector<uint32_t> out;
    auto it = in.attributes.find(key);
    if (it == in.attributes.end()) return out;
    std::string_view list = it->second;
    if (list.starts_with('{')) list = list.substr(1, list.size() - 2);
    while (!list.empty()) {
      const size_t comma = list.find(',');
      std::string_view one = list.substr(0, comma);
      while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
      if (uint32_t c = computationOf(one); c != XlaInstruction::kUnknown) out.push_back(c);
      list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    }
    return out;
  }

  // backend_config={"known_trip_count":{"n":"12"}}
  static std::optional<int64_t> iterationsOf(const XlaInstruction& in) {
    auto it = in.attributes.find("backend_config");
    if (it == in.attributes.end()) return std::nullopt;
    size_t at = it->second.find("known_trip_count");
    if (at == std::string::npos) return std::nullopt;
    at = it->second.find_first_of("0123456789", at);
    if (at == std::string::npos) return std::nullopt;
    return leadingNumber<int64_t>(std::string_view(it->second).substr(at));
  }

  bool node(uint32_t i) {
    const XlaInstruction& in = m_.instructions[i];
    AuditNode& n = g_.nodes[i];
    n.operands = in.operands;
    n.block = in.computation;
    n.escapes = in.root;
    n.forwards = forwards(in.opcode);
    if (!in.shape.empty()) n.dims = in.shape.back().dims; // of a start: the result of its done
    for (const XlaArray& a : in.shape) n.bytes = checkedAdd(n.bytes, a.bytes).value_or(INT64_MAX);
    if (in.opcode == "get-tuple-element") n.part = tupleIndex(in);
    slices(in, n);
    const CollectiveKind kind = kindOf(in.opcode);
    return kind == CollectiveKind::None || !counts_[in.computation].reached || collective(i, kind);
  }

  static std::optional<size_t> tupleIndex(const XlaInstruction& in) {
    const auto index = in.attributes.find("index");
    return index == in.attributes.end() ? std::nullopt : leadingNumber<size_t>(index->second);
  }

  bool collective(uint32_t i, CollectiveKind kind) {
    const XlaInstruction& in = m_.instructions[i];
    AuditNode& n = g_.nodes[i];
    AuditCollective c;
    c.kind = kind;
    c.name = in.name;
    c.count = counts_[in.computation].times, c.counted = counts_[in.computation].inSums;
    for (uint32_t o : in.operands)
      for (const XlaArray& a : m_.instructions[o].shape) {
        c.dtype = a.dtype;
        c.operandBytes = checkedAdd(c.operandBytes, a.bytes).value_or(INT64_MAX);
      }
    if (!devicesOf(in, c)) return false;
    for (const char* key : {"replica_groups", "device_ids", "source_target_pairs"})
      if (auto it = in.attributes.find(key); it != in.attributes.end()) n.devices += it->second;
    auto dims = ints(in, "dimensions");
    if (!dims.empty() && dims[0] >= 0) n.dim = static_cast<size_t>(dims[0]);
    if (auto it = in.attributes.find("to_apply"); it != in.attributes.end())
      n.reduction = reducer(it->second);
    c.line = placeText(m_.source, in.loc, true);
    if (auto it = in.attributes.find("metadata"); it != in.attributes.end()) {
      c.op = xlaMember(it->second, "op_name");
      c.location = xlaMember(it->second, "source_file");
      const std::string line = xlaMember(it->second, "source_line");
      if (!c.location.empty() && !line.empty()) c.location += ":" + line;
      if (c.location.empty()) c.location = locationOfFrame(xlaMember(it->second, "stack_frame_id"));
    }
    priceCollective(c);
    n.collective = static_cast<uint32_t>(g_.report.collectives.size());
    g_.report.collectives.push_back(std::move(c));
    return true;
  }

  std::string locationOfFrame(const std::string& text) const {
    auto it = m_.frameLocations.find(leadingNumber<int64_t>(text).value_or(-1));
    return it == m_.frameLocations.end() ? "" : it->second;
  }

  bool devicesOf(const XlaInstruction& in, AuditCollective& c) {
    auto pairs = in.attributes.find("source_target_pairs");
    if (pairs != in.attributes.end()) {
      auto read = parseXlaPairs(pairs->second);
      if (!read) return bad(in, "source_target_pairs", "pairs");
      c.pairs = std::move(*read);
      c.groupSize = c.pairs.empty() ? 1 : 2;
      return true;
    }
    auto written = in.attributes.find("replica_groups");
    std::vector<std::vector<int64_t>> groups;
    if (written != in.attributes.end()) {
      std::string text = written->second;
      if (auto order = in.attributes.find("device_ids"); order != in.attributes.end())
        text += ", device_ids=" + order->second; // of "mesh[…], device_ids=(…) {…}"
      auto read = parseXlaGroups(text, g_.report.devices);
      if (!read) return bad(in, "replica_groups", "groups");
      groups = std::move(*read);
    }
    if (groups.empty()) { // all devices
      groups.emplace_back();
      for (int64_t d = 0; d < g_.report.devices; ++d) groups[0].push_back(d);
    }
    for (const auto& group : groups) c.groupSize = std::max(c.groupSize, static_cast<int64_t>(group.size()));
    listed_ += groups.size() * static_cast<size_t>(c.groupSize);
    if (listed_ <= kMaxListedGroups + m_.source.text.size()) c.groups = std::move(groups);
    return true;
  }
  bool bad(const XlaInstruction& in, const char* attribute, const char* what) {
    return diags_.fail(kGroups, in.loc, attribute, in.name, what, g_.report.devices);
  }

  std::vector<int64_t> ints(const XlaInstruction& in, std::string_view key) const {
    auto it = in.attributes.find(key);
    return it == in.attributes.end() ? std::vector<int64_t>()
                                     : parseXlaInts(it->second).value_or(std::vector<int64_t>());
  }

  // The reduction's name such as "add", if the computation consists of that op alone.
  std::string reducer(std::string_view name) const {
    const uint32_t c = computationOf(name);
    if (c == XlaInstruction::kUnknown) return std::string(name);
    std::string out;
    for (uint32_t i : m_.computations[c].instructions)
      if (m_.instructions[i].opcode != "parameter") out += m_.instructions[i].opcode + " ";
    return out;
  }

  // --- slices of operands ---

  void slices(const XlaInstruction& in, AuditNode& n) {
    if (in.opcode == "dynamic-slice" && !in.operands.empty()) {
      if (auto s = sliceOf(in, {})) n.slices.push_back({0, s->dim, s->size}), n.onlySlices = true;
      return;
    }
    if (in.opcode != "fusion") return;
    const std::vector<uint32_t> callee = called(in, "calls");
    if (callee.size() != 1 || m_.computations[callee[0]].instructions.empty()) return;
    for (size_t k = 0; k < in.operands.size(); ++k) {
      auto p = parameters_.find({m_.computations[callee[0]].instructions[0], std::to_string(k)});
      if (p == parameters_.end()) continue;
      auto s = slicedInside(callee[0], p->second, in);
      if (!s) continue;
      n.slices.push_back({k, s->dim, s->size});
      for (uint32_t i : m_.computations[callee[0]].instructions)
        n.onlySlices = n.onlySlices ||
                       (k == 0 && m_.instructions[i].root && m_.instructions[i].opcode == "dynamic-slice" &&
                        m_.instructions[i].operands[0] == p->second);
    }
  }

  // Set where every user of the parameter in the fused computation is such a slice.
  std::optional<AuditNode::Slice> slicedInside(uint32_t c, uint32_t parameter, const XlaInstruction& fusion) {
    std::optional<AuditNode::Slice> found;
    for (uint32_t i : m_.computations[c].instructions) {
      const XlaInstruction& in = m_.instructions[i];
      if (std::ranges::find(in.operands, parameter) == in.operands.end()) continue;
      if (in.opcode != "dynamic-slice" || in.operands[0] != parameter) return std::nullopt;
      auto s = sliceOf(in, fusion.operands);
      if (!s || (found && (found->dim != s->dim || found->size != s->size))) return std::nullopt;
      found = s;
    }
    return found;
  }

  // A dynamic-slice along one dim at a device-dependent offset. `outer`: the operands bound to the
  // parameters.
  std::optional<AuditNode::Slice> sliceOf(const XlaInstruction& in, const std::vector<uint32_t>& outer) {
    const XlaShape &from = m_.instructions[in.operands[0]].shape, &to = in.shape;
    if (from.size() != 1 || to.size() != 1 || from[0].dims.size() != to[0].dims.size() ||
        in.operands.size() != from[0].dims.size() + 1)
      return std::nullopt;
    std::optional<AuditNode::Slice> found;
    for (size_t d = 0; d < to[0].dims.size(); ++d) {
      if (to[0].dims[d] == from[0].dims[d]) continue;
      if (found || !dependsOnDevice(in.operands[d + 1], outer)) return std::nullopt;
      found = AuditNode::Slice{0, d, to[0].dims[d]};
    }
    return found;
  }

  bool dependsOnDevice(uint32_t i, const std::vector<uint32_t>& outer) {
    std::vector<std::pair<uint32_t, bool>> work = {{i, true}}; // and whether it is within the fusion
    std::vector<uint32_t> seen;
    while (!work.empty() && seen.size() < 256) {
      const auto [now, inside] = work.back();
      work.pop_back();
      if (std::ranges::find(seen, now) != seen.end()) continue;
      seen.push_back(now);
      const XlaInstruction& in = m_.instructions[now];
      if (in.opcode == "partition-id" || in.opcode == "replica-id") return true;
      if (in.opcode == "parameter" && inside)
        if (const auto k = leadingNumber<size_t>(in.literal); k && *k < outer.size())
          work.emplace_back(outer[*k], false);
      if (uint32_t start = startOf(in); start != XlaInstruction::kUnknown) work.emplace_back(start, false);
      for (uint32_t o : in.operands) work.emplace_back(o, inside);
    }
    return false;
  }

  // For a loop-invariant carried element of a `while`: its initial value.
  uint32_t startOf(const XlaInstruction& part) const {
    if (part.opcode != "get-tuple-element" || part.operands.size() != 1) return XlaInstruction::kUnknown;
    const XlaInstruction& carried = m_.instructions[part.operands[0]];
    auto loop = loopOf_.find(carried.computation);
    if (carried.opcode != "parameter" || loop == loopOf_.end()) return XlaInstruction::kUnknown;
    const std::optional<size_t> index = tupleIndex(part);
    if (!index) return XlaInstruction::kUnknown;
    const size_t k = *index;
    const XlaInstruction& root = m_.instructions[m_.computations[carried.computation].instructions.back()];
    const XlaInstruction& loopOp = m_.instructions[loop->second];
    if (loopOp.operands.size() != 1) return XlaInstruction::kUnknown;
    const XlaInstruction& start = m_.instructions[loopOp.operands[0]];
    if (root.opcode != "tuple" || start.opcode != "tuple" || k >= root.operands.size() ||
        k >= start.operands.size())
      return XlaInstruction::kUnknown;
    const XlaInstruction& given = m_.instructions[root.operands[k]];
    const bool same =
        given.opcode == part.opcode && given.operands == part.operands && tupleIndex(given) == index;
    return same ? start.operands[k] : XlaInstruction::kUnknown;
  }

  const XlaModule& m_;
  Diagnostics& diags_;
  std::vector<Counted> counts_;
  size_t visits_ = 0, listed_ = 0;
  std::unordered_map<std::string_view, size_t> byName_;
  std::unordered_map<uint32_t, uint32_t> loopOf_; // by a body's computation: its `while`
  std::map<std::pair<uint32_t, std::string>, uint32_t>
      parameters_; // by the computation's first instruction and number
  AuditGraph g_;
};

} // namespace

std::optional<AuditReport> auditXlaHlo(SourceText source, Diagnostics& diags) {
  XlaModule m;
  if (!readXlaHlo(std::move(source), m, diags)) return std::nullopt;
  auto graph = XlaGraph(m, diags).run();
  if (!graph) return std::nullopt;
  findAlternatives(*graph);
  return std::move(graph->report);
}

} // namespace dtc
