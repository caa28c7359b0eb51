#include "dtc/Passes/OptimizeCollectives.h"
#include "Collectives.h"
#include "dtc/Passes/CommContracts.h"
#include <charconv>
#include <map>
#include <numeric>

namespace dtc {

static constexpr DiagKind kBadOption{"pass-option", "optimize-collectives: expected {0} to be {2}, got {1}"};

int64_t mostReceived(const Module& m, OpId o, std::span<const int64_t> operandBytes) {
  const AttrId sends = m.attr(o, "sends");
  if (!sends.valid()) return std::reduce(operandBytes.begin(), operandBytes.end());
  std::map<int64_t, int64_t> byDevice;
  for (AttrId entry : m.attrs[sends].list) {
    const std::vector<AttrId>& n = m.attrs[entry].list;
    const int64_t from = m.attrs[n[1]].i, to = m.attrs[n[2]].i;
    if (from != to) byDevice[to] += operandBytes[static_cast<size_t>(m.attrs[n[0]].i)];
  }
  int64_t most = 0;
  for (auto [device, bytes] : byDevice) most = std::max(most, bytes);
  return most;
}

std::vector<AxisRef> axesOf(const Module& m, OpId o) {
  std::vector<AxisRef> axes;
  for (AttrId id : m.attrs[m.attr(o, "axes")].list) {
    const Attr& a = m.attrs[id];
    axes.push_back(a.kind == Attr::Axis ? a.axis : AxisRef{a.text});
  }
  return axes;
}

int64_t dimOf(const Module& m, OpId o, std::string_view name) {
  const int64_t d = m.attrs[m.attr(o, name)].i;
  return d < 0 ? d + static_cast<int64_t>(m.typeOf(m.operand(o, 0)).rank()) : d;
}

AttrId reductionOf(Module& m, OpId o) {
  const AttrId written = m.attr(o, "op");
  return written ? written : m.attrs.string(m.strings.intern("sum"));
}

bool optimizeCollectives(Module& m, Diagnostics& diags, const OptimizeCollectivesOptions& options) {
  std::vector<FuncId> functions;
  for (FuncId f : m.order)
    if (m[f].spmd) functions.push_back(f);
  if (options.hoist) hoistCollectives(m, functions, diags);
  while (joinCollectives(m, functions, diags)) {}
  if (options.bucket)
    for (FuncId f : functions) bucketCollectives(m, f, options, diags);
  return !diags.hasErrors();
}

bool optimizeCollectivesPass(Module& m, const PassOptions& written, Diagnostics& diags) {
  OptimizeCollectivesOptions options;
  auto value = [&](const char* name) {
    auto it = written.values.find(name);
    return it == written.values.end() ? std::string() : it->second;
  };
  const std::string hoist = value("hoist"), bucket = value("bucket");
  if (!hoist.empty() && hoist != "true" && hoist != "false") {
    diags.error(kBadOption, {}, "hoist", hoist, "true or false");
    return false;
  }
  options.hoist = hoist != "false";
  if (bucket == "off") {
    options.bucket = false;
  } else if (!bucket.empty() && bucket != "auto") {
    const char* end = bucket.data() + bucket.size();
    auto [at, problem] = std::from_chars(bucket.data(), end, options.bucketBytes);
    if (problem != std::errc() || at != end || options.bucketBytes <= 0) {
      diags.error(kBadOption, {}, "bucket", bucket, "auto, off or a number of bytes");
      return false;
    }
  }
  if (!optimizeCollectives(m, diags, options)) return false;
  return checkCommContracts(m, options, written.unpropagated, diags);
}

PassInfo optimizeCollectivesInfo() {
  return {
      .name = "optimize-collectives",
      .summary = "joins, shares, moves and drops collectives, so that fewer and smaller messages travel",
      .why =
          "After partition, which plans each change of sharding by itself; before fuse, so that kernels "
          "are built "
          "around what really travels, and before communication contracts are counted. First what a loop "
          "repeats "
          "for nothing leaves it: collectives that no iteration changes go before it, the reduction of a sum "
          "that it "
          "adds up goes after it. Then equal collectives become one, a slice of a reduction a "
          "reduce_scatter, a "
          "gather of a reduce_scatter an all_reduce, a slice of a gather an all_to_all or nothing, "
          "neighbours of "
          "one kind one, a sum of reduced values the reduction of a sum, a gathered constant a constant. "
          "Last, small messages of one kind become one where the messages saved cost more "
          "than the "
          "copies, on the nominal machine; the message goes where the last of them stood, and nothing "
          "that reads "
          "one of them waits longer than it did.",
      .needs = Level::Local,
      .gives = Level::Local,
      .run = optimizeCollectivesPass,
      .before = R"(mesh @pod = [tp=4]

spmd func @main(%x: f32[8, 16] of f32[8, 16] @pod{_, _ | sum(tp)})
    -> (%y: f32[2, 16] of f32[8, 16] @pod{tp, _}) {
  %0 = all_reduce %x {axes = [tp]} : f32[8, 16]
  %y = all_slice %0 {axes = [tp], dim = 0} : f32[2, 16]
  return %y
}
)",
      .after = R"(mesh @pod = [tp=4]

spmd func @main(%x: f32[8, 16] of f32[8, 16] @pod{_, _ | sum(tp)})
    -> (%y: f32[2, 16] of f32[8, 16] @pod{tp, _}) {
  %y = reduce_scatter %x {axes = [tp], dim = 0} : f32[2, 16]
  return %y
}
)",
      .options =
          {{"bucket", "auto",
            "bytes at which a bucket of small messages is full; auto: where the nominal machine needs eight "
            "times as long for them as for an empty message; off: no buckets"},
           {"hoist", "true", "moves collectives out of loops"}},
      .more = optimizeCollectivesExamples()};
}

} // namespace dtc
