// The rewrites of optimize-collectives, matched in a program that audit does not rewrite.
#include "audit/AuditGraph.h"
#include "dtc/Passes/trace/TraceCollectives.h"

#include <algorithm>
#include <map>

namespace dtc {

namespace {

CollectivePrice priceOf(CollectiveKind kind, int64_t groupSize, int64_t operandBytes) {
  if (operandBytes == 0 || groupSize < 2) return {};
  Mesh mesh;
  mesh.axes.push_back({StrId(0), groupSize});
  const AxisRef axis{StrId(0)};
  const auto gathered = static_cast<double>(operandBytes) * static_cast<double>(groupSize);
  const int64_t out = gathered > 9e18 ? INT64_MAX : operandBytes * groupSize;
  return priceOf(stepOf(kind), std::span(&axis, 1), operandBytes,
                 kind == CollectiveKind::AllGather ? out : operandBytes, mesh, {});
}

class Finder {
public:
  explicit Finder(AuditGraph& g) : g_(g), users_(g.nodes.size()) {
    for (uint32_t n = 0; n < g.nodes.size(); ++n)
      for (size_t i = 0; i < g.nodes[n].operands.size(); ++i)
        users_[g.nodes[n].operands[i]].push_back({n, i});
  }

  void run() {
    for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
      if (g_.nodes[n].collective == AuditNode::kNone) continue;
      duplicate(n);
      const CollectiveKind kind = collective(n).kind;
      if (kind == CollectiveKind::AllReduce) slicedReduction(n);
      if (kind == CollectiveKind::AllGather) slicedGather(n);
      if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter) followed(n);
    }
    findChains(g_);
    combine();
    total();
  }

private:
  struct Use {
    uint32_t node;
    size_t operand;
  };

  AuditCollective& collective(uint32_t n) { return g_.report.collectives[g_.nodes[n].collective]; }

  // The users of the value, through copies. False where it leaves the block, or there are too many. `part`:
  // of one of its results, where it has several.
  bool readers(uint32_t n, std::vector<Use>& out, std::optional<size_t> part = {}, int depth = 0) const {
    if (g_.nodes[n].escapes || depth > 16) return false;
    for (const Use& u : users_[n]) {
      const AuditNode& user = g_.nodes[u.node];
      if (user.forwards && u.operand == 0) {
        if (part && user.part && user.part != part) continue;
        if (!readers(u.node, out, user.part ? std::nullopt : part, depth + 1)) return false;
      } else {
        out.push_back(u);
      }
    }
    return !out.empty();
  }

  // The dim and the size of the shard, where every user reads only that part of the value, or of one of its
  // results.
  std::optional<AuditNode::Slice> onlySliced(uint32_t n, std::optional<size_t> part = {}) const {
    std::vector<Use> uses;
    if (!readers(n, uses, part)) return std::nullopt;
    std::optional<AuditNode::Slice> found;
    for (const Use& u : uses) {
      const auto& slices = g_.nodes[u.node].slices;
      auto it = std::ranges::find(slices, u.operand, &AuditNode::Slice::operand);
      if (it == slices.end() || (found && (found->dim != it->dim || found->size != it->size)))
        return std::nullopt;
      found = *it;
    }
    return found;
  }

  AuditFinding& add(const char* rule, std::vector<size_t> of, std::string why, std::string instead) {
    AuditFinding f{rule, std::move(of), std::move(why), std::move(instead)};
    for (size_t i : f.of) {
      f.bytesBefore += g_.report.collectives[i].bytesReceived;
      f.secondsBefore += g_.report.collectives[i].seconds;
    }
    return g_.report.findings.emplace_back(std::move(f));
  }
  static void costs(AuditFinding& f, const CollectivePrice& p) {
    f.bytesAfter = p.bytesReceived;
    f.secondsAfter = p.seconds;
  }

  static bool isShardOf(const AuditNode::Slice& s, const std::vector<int64_t>& dims, int64_t k) {
    return s.dim < dims.size() && k > 0 && s.size == (dims[s.dim] + k - 1) / k;
  }

  void slicedReduction(uint32_t n) {
    if (g_.nodes[n].operands.size() > 1) return slicedReductions(n);
    const AuditCollective& c = collective(n);
    const auto slice = onlySliced(n);
    if (!slice || !isShardOf(*slice, g_.nodes[n].dims, c.groupSize)) return;
    costs(add("slice-of-all-reduce", {g_.nodes[n].collective},
              "each device reads only its shard of the sum, along dim " + std::to_string(slice->dim),
              "reduce_scatter along dim " + std::to_string(slice->dim)),
          priceOf(CollectiveKind::ReduceScatter, c.groupSize, c.operandBytes));
  }

  // Several sums in one message, some of which are read only as shards.
  void slicedReductions(uint32_t n) {
    const AuditNode& node = g_.nodes[n];
    const AuditCollective& c = collective(n);
    int64_t scattered = 0;
    size_t count = 0;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const AuditNode& operand = g_.nodes[node.operands[i]];
      const auto slice = onlySliced(n, i);
      if (!slice || !isShardOf(*slice, operand.dims, c.groupSize)) continue;
      scattered += std::min(operand.bytes, c.operandBytes - scattered);
      ++count;
    }
    if (count == 0) return;
    const size_t rest = node.operands.size() - count;
    AuditFinding& f = add("slice-of-all-reduce", {node.collective},
                          "of " + (rest == 0 ? "its" : std::to_string(count) + " of its") + " " +
                              std::to_string(node.operands.size()) + " sums each device reads only its shard",
                          std::string("one reduce_scatter of ") + (count == 1 ? "that" : "those") +
                              (rest == 0 ? "" : ", and one all_reduce of the rest"));
    costs(f, priceOf(CollectiveKind::ReduceScatter, c.groupSize, scattered));
    if (rest == 0) return;
    const CollectivePrice allReduce =
        priceOf(CollectiveKind::AllReduce, c.groupSize, c.operandBytes - scattered);
    f.bytesAfter += allReduce.bytesReceived;
    f.secondsAfter += allReduce.seconds;
  }

  void slicedGather(uint32_t n) {
    const auto slice = onlySliced(n);
    const AuditCollective& c = collective(n);
    if (!slice || !isShardOf(*slice, g_.nodes[n].dims, c.groupSize) || !g_.nodes[n].dim) return;
    const size_t grown = *g_.nodes[n].dim;
    if (slice->dim == grown)
      costs(add("slice-of-all-gather", {g_.nodes[n].collective},
                "each device reads only a shard of the operand's size, along the dim that was "
                "gathered",
                "nothing if it is the device's own shard, else permute"),
            priceOf(CollectiveKind::Permute, c.groupSize, c.operandBytes));
    else
      costs(add("slice-of-all-gather", {g_.nodes[n].collective},
                "each device reads only its shard of the gathered tensor, along another dim",
                "all_to_all from dim " + std::to_string(grown) + " to dim " + std::to_string(slice->dim)),
            priceOf(CollectiveKind::AllToAll, c.groupSize, c.operandBytes));
  }

  // The only user is another collective over the same devices that continues or undoes it.
  void followed(uint32_t n) {
    std::vector<Use> uses;
    if (!readers(n, uses) || uses.size() != 1 || g_.nodes[uses[0].node].collective == AuditNode::kNone)
      return;
    const uint32_t next = uses[0].node;
    const AuditCollective &a = collective(n), &b = collective(next);
    const std::vector<size_t> both = {g_.nodes[n].collective, g_.nodes[next].collective};
    if (a.kind == CollectiveKind::ReduceScatter && b.kind == CollectiveKind::AllGather &&
        g_.nodes[n].devices == g_.nodes[next].devices && g_.nodes[n].dim == g_.nodes[next].dim)
      costs(add("gather-of-reduce-scatter", both, "the shards of the sum are gathered immediately",
                "one all_reduce"),
            priceOf(CollectiveKind::AllReduce, a.groupSize, a.operandBytes));
    if (a.kind == CollectiveKind::AllReduce && b.kind == CollectiveKind::AllReduce &&
        g_.nodes[n].devices != g_.nodes[next].devices && g_.nodes[n].reduction == g_.nodes[next].reduction)
      costs(add("all-reduce-of-all-reduce", both, "the second all_reduce continues the first",
                "one all_reduce over the devices of both"),
            priceOf(CollectiveKind::AllReduce, a.groupSize * b.groupSize, a.operandBytes));
  }

  void duplicate(uint32_t n) {
    const AuditNode& node = g_.nodes[n];
    if (node.repeats) return; // to save memory
    const AuditCollective& c = collective(n);
    std::string key = std::to_string(node.block) + " " + collectiveName(c.kind) + " " + node.reduction + " " +
                      c.dtype + " " + node.devices;
    for (uint32_t o : node.operands) key += " " + std::to_string(o);
    if (node.dim) key += " d" + std::to_string(*node.dim);
    if (node.split) key += " s" + std::to_string(*node.split);
    auto [it, isNew] = seen_.try_emplace(key, n);
    if (isNew) return;
    const AuditCollective& first = collective(it->second);
    AuditFinding& f = add("twice", {g_.nodes[it->second].collective, node.collective},
                          "the second computes the same result as the first", "one of the two");
    f.bytesAfter = first.bytesReceived, f.secondsAfter = first.seconds;
  }

  // Messages of one kind over the same devices, none of which is read between the first and the last.
  void combine() {
    std::map<std::string, std::vector<uint32_t>> open;
    std::vector<std::vector<uint32_t>> runs;
    auto keyOf = [&](uint32_t n) {
      const AuditCollective& c = collective(n);
      return std::to_string(g_.nodes[n].block) + collectiveName(c.kind) + c.dtype + g_.nodes[n].reduction +
             g_.nodes[n].devices;
    };
    for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
      for (uint32_t o : g_.nodes[n].operands) closeWith(o, open, runs);
      if (g_.nodes[n].collective == AuditNode::kNone) continue;
      const CollectiveKind kind = collective(n).kind;
      if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::AllGather ||
          kind == CollectiveKind::ReduceScatter)
        open[keyOf(n)].push_back(n);
    }
    for (auto& [key, run] : open) runs.push_back(std::move(run));
    std::ranges::sort(runs);
    for (const std::vector<uint32_t>& run : runs) reportRun(run);
  }

  void closeWith(uint32_t read, std::map<std::string, std::vector<uint32_t>>& open,
                 std::vector<std::vector<uint32_t>>& runs) const {
    while (g_.nodes[read].forwards && !g_.nodes[read].operands.empty()) read = g_.nodes[read].operands[0];
    if (g_.nodes[read].collective == AuditNode::kNone) return;
    for (auto it = open.begin(); it != open.end();) {
      if (std::ranges::find(it->second, read) == it->second.end()) {
        ++it;
        continue;
      }
      runs.push_back(std::move(it->second));
      it = open.erase(it);
    }
  }

  // The bytes received if all non-overlapping findings are applied, those that save most first.
  void total() {
    std::vector<const AuditFinding*> order;
    for (const AuditFinding& f : g_.report.findings) order.push_back(&f);
    std::ranges::sort(order, [](const AuditFinding* a, const AuditFinding* b) {
      const int64_t x = a->bytesBefore - a->bytesAfter, y = b->bytesBefore - b->bytesAfter;
      return x != y ? x > y : a < b;
    });
    std::vector<bool> used(g_.report.collectives.size());
    int64_t saved = 0;
    for (const AuditFinding* f : order) {
      const int64_t counted = g_.report.collectives[f->of[0]].counted;
      if (std::ranges::any_of(f->of, [&](size_t i) { return used[i]; })) continue;
      for (size_t i : f->of) used[i] = true;
      saved += (f->bytesBefore - f->bytesAfter) * counted;
    }
    g_.report.bytesSaved = saved;
  }

  // Fusing pays where latency is most of the time.
  void reportRun(const std::vector<uint32_t>& run) {
    std::vector<size_t> of;
    int64_t bytes = 0;
    for (uint32_t n : run) {
      const AuditCollective& c = collective(n);
      if (c.seconds - c.latencySeconds > c.latencySeconds || c.operandBytes == 0) continue;
      of.push_back(g_.nodes[n].collective);
      bytes += c.operandBytes;
    }
    if (of.size() < 2) return;
    const AuditCollective& c = collective(run[0]);
    costs(add("small-messages", of, "they are latency-bound and independent",
              "one " + std::string(collectiveName(c.kind)) + " of " + std::to_string(of.size()) + " parts"),
          priceOf(c.kind, c.groupSize, bytes));
  }

  AuditGraph& g_;
  std::vector<std::vector<Use>> users_;
  std::map<std::string, uint32_t> seen_;
};

} // namespace

void priceCollective(AuditCollective& c) {
  const CollectivePrice p =
      priceOf(c.kind, c.kind == CollectiveKind::Permute ? 2 : c.groupSize, c.operandBytes);
  c.bytesReceived = p.bytesReceived;
  c.seconds = p.seconds;
  c.latencySeconds = p.latencySeconds;
}

void findAlternatives(AuditGraph& g) { Finder(g).run(); }

} // namespace dtc
