#include "DeviceCollectives.h"
#include "BlockKernel.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace dtc {
namespace {

constexpr size_t kMaxMembers =
    128; // pointers that fit a kernel's 4 KiB of parameters, operands and results together

std::string kernelName(DType dtype, DType wire, PendingKind op, size_t sources, size_t targets) {
  return "dtc_combine_" + std::string(dtypeName(dtype)) +
         (wire == dtype ? "" : "_" + std::string(dtypeName(wire))) + "_" +
         std::string(op == PendingKind::None ? "copy" : pendingName(op)) + "_" + std::to_string(sources) +
         "_" + std::to_string(targets);
}

const char* stepOf(PendingKind op) {
  switch (op) {
  case PendingKind::Prod: return "dtc_mul";
  case PendingKind::Max:
  case PendingKind::Any: return "dtc_max";
  case PendingKind::Min:
  case PendingKind::All: return "dtc_min";
  default: return "dtc_add";
  }
}

// Combines `sources` operands element by element, rounded to `wire` before and after, and writes the result to all targets.
BlockKernel combineBlocks(DType dtype, DType wire, PendingKind op, size_t sources, size_t targets) {
  const std::string type(dtypeName(dtype)), narrow(dtypeName(wire));
  const bool ordered = isFloat(dtype) && (op == PendingKind::Max || op == PendingKind::Min);
  const auto rounded = [&](const std::string& x) {
    return wire == dtype ? x : "dtc_convert<" + type + ">(dtc_convert<" + narrow + ">(" + x + "))";
  };
  const auto operand = [&](size_t k) {
    const std::string x = rounded("x" + std::to_string(k));
    return ordered ? "dtc_ordered(" + x + (op == PendingKind::Max ? ", true)" : ", false)") : x;
  };
  std::string lines = "    auto x = " + operand(0) + ";\n";
  for (size_t k = 1; k < sources; ++k)
    lines += "    x = " + std::string(stepOf(op)) + "(x, " + operand(k) + ");\n";
  if (op == PendingKind::Avg) lines += "    x = x / " + std::to_string(sources) + ";\n";
  lines += "    const auto y = " + (ordered ? std::string("dtc_of_ordered(x)") : rounded("x")) + ";\n";
  return {kernelName(dtype, wire, op, sources, targets), dtype, dtype, targets, sources, lines};
}

class DeviceCommunicator final : public Communicator {
public:
  explicit DeviceCommunicator(DeviceQueue& queue) : queue_(queue) {}
  std::string_view name() const override { return "local"; }

  Status prepare(const CollectivePlan& plan) override {
    for (const CollectiveGroup& g : plan.groups) {
      if (g.places.size() > kMaxMembers)
        return machineError("a collective among more than 128 devices is not supported");
      kernels_.insert_or_assign(&plan, makeKernel(plan, g)); // the groups of one collective are of one size
      if (Status s = reserve(plan, g); !s) return s;
      if (Status s = ensure(kernelOf(plan)); !s) return s;
    }
    return Ok{};
  }

  Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
               std::span<const std::byte* const> operands, std::span<std::byte* const> results) override {
    int64_t place = group.places[member];
    if (plan.meets())
      if (Status s = begin(group); !s) return s;
    const CollectiveMember& me = group.members[member];
    for (uint32_t k : me.zeroResults)
      if (Status s = queue_.clear(place, results[member * plan.numOperands + k],
                                  me.resultElements[k] * plan.widths[k]);
          !s)
        return s;
    if (plan.kind == CollectiveKind::AllReduce) return allReduce(plan, group, member, operands, results);
    if (plan.kind == CollectiveKind::ReduceScatter) {
      if (me.blocks.empty()) return Ok{};
      std::vector<Source> sources;
      for (const BlockCopy& c : me.blocks) sources.push_back({operands[c.from], group.places[c.from]});
      const Target target{results[member], place};
      return combine(plan, place, sources, std::span(&target, 1), me.blocks[0]);
    }
    for (const BlockCopy& c : me.blocks) {
      const Source source{operands[c.from * plan.numOperands + c.operand], group.places[c.from]};
      std::byte* target = results[member * plan.numOperands + c.operand];
      if (Status s = move(plan, place, source, target, c); !s) return s;
    }
    return Ok{};
  }

  Status settle(const CollectivePlan&, const CollectiveGroup& group) override {
    return queue_.meet(group.places);
  }

private:
  // The first share of a group has all members wait for each other's operands. Were each to wait by itself, a later one would wait for
  // the work of the shares before it, and the members' kernels would run one behind the other.
  Status begin(const CollectiveGroup& group) {
    const std::lock_guard lock(mutex_);
    size_t& shares = begun_[&group];
    const bool first = shares == 0;
    shares = (shares + 1) % group.places.size();
    return first ? queue_.meet(group.places) : Status(Ok{});
  }
  // The one kernel that a collective needs.
  static BlockKernel makeKernel(const CollectivePlan& plan, const CollectiveGroup& g) {
    const bool converts = plan.rounds();
    DType wire = converts ? plan.wire : plan.dtype;
    if (plan.kind == CollectiveKind::AllReduce)
      return combineBlocks(plan.dtype, wire, plan.op, g.places.size(), g.places.size());
    if (plan.kind == CollectiveKind::ReduceScatter)
      return combineBlocks(plan.dtype, wire, plan.op, g.places.size(), 1);
    if (converts) return combineBlocks(plan.dtype, wire, PendingKind::None, 1, 1);
    return moveBlocks(dtypeBytes(plan.dtype));
  }
  const BlockKernel& kernelOf(const CollectivePlan& plan) const { return kernels_.at(&plan); }
  Status ensure(const BlockKernel& k) {
    if (!compiled_.insert(k.name).second) return Ok{};
    return queue_.compile(k.unit());
  }

  struct Source {
    const std::byte* at;
    int64_t place;
  };
  struct Target {
    std::byte* at;
    int64_t place;
  };
  // Elements from the first that a block reads to its last.
  static int64_t sourceSpan(const BlockCopy& c) {
    return c.elements() == 0 ? 0 : (c.slabs - 1) * c.sourceSlab + (c.rows - 1) * c.sourceRow + c.length;
  }
  static int64_t alignedBytes(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  // What combine() keeps of the memory of others that it does not reach.
  Status reserve(const CollectivePlan& plan, const CollectiveGroup& g) {
    for (size_t m = 0; m < g.places.size(); ++m) {
      int64_t most = 0, width = dtypeBytes(plan.dtype), away = 0;
      for (int64_t p : g.places) away += queue_.reaches(g.places[m], p) ? 0 : 1;
      for (int64_t w : plan.widths) width = std::max(width, w);
      if (away == 0) continue;
      for (const BlockCopy& c : g.members[m].blocks) most = std::max(most, sourceSpan(c));
      if (plan.kind == CollectiveKind::AllReduce)
        most = std::max(most, g.members[m].resultElements[0] / static_cast<int64_t>(g.places.size()) + 1 +
                                  kernelOf(plan).pack());
      if (Status s = queue_.reserve(g.places[m], 2 * away * alignedBytes(most * width)); !s) return s;
    }
    return Ok{};
  }

  Status combine(const CollectivePlan& plan, int64_t place, std::span<const Source> sources,
                 std::span<const Target> targets, const BlockCopy& c) {
    if (c.elements() == 0) return Ok{};
    const int64_t width = dtypeBytes(plan.dtype), bytes = sourceSpan(c) * width;
    std::byte* room = queue_.reserved(place);
    std::vector<std::byte*> to;
    std::vector<const std::byte*> from;
    std::vector<std::pair<const Target*, const std::byte*>> away; // written here first: pieces in one stretch
    for (const Target& t : targets) {
      const bool reached = queue_.reaches(place, t.place);
      to.push_back(reached ? t.at + c.target * width : room);
      if (reached) continue;
      away.emplace_back(&t, room);
      room += alignedBytes(c.elements() * width);
    }
    for (const Source& s : sources) {
      const bool reached = queue_.reaches(place, s.place);
      from.push_back(reached ? s.at + c.source * width : room);
      if (reached) continue;
      if (Status done = queue_.copyBetween(place, room, place, s.at + c.source * width, s.place, bytes);
          !done)
        return done;
      room += alignedBytes(bytes);
    }
    Status done = launch(kernelOf(plan), place, c, to, from);
    for (const auto& [target, from] : away)
      if (done)
        done = queue_.copyBetween(place, target->at + c.target * width, target->place, from, place,
                                  c.elements() * width);
    return done;
  }

  Status launch(const BlockKernel& kernel, int64_t place, const BlockCopy& c, std::span<std::byte*> targets,
                std::span<const std::byte*> sources) {
    BlockLaunch how =
        launchOf(kernel, {c.length, c.rows, c.sourceRow, c.targetRow, c.slabs, c.sourceSlab, c.targetSlab},
                 targets, sources);
    const int64_t from = dtypeBytes(kernel.from), to = dtypeBytes(kernel.to);
    std::vector<void*> arguments;
    std::vector<DeviceBuffer> buffers;
    for (std::byte*& p : targets) {
      buffers.push_back({p, true, c.length * to, c.rows, c.targetRow * to, c.slabs, c.targetSlab * to});
      arguments.push_back(static_cast<void*>(&p));
    }
    for (const std::byte*& p : sources) {
      buffers.push_back(
          {p, false, c.length * from, c.rows, c.sourceRow * from, c.slabs, c.sourceSlab * from});
      arguments.push_back(static_cast<void*>(&p));
    }
    for (int64_t& n : how.numbers) arguments.push_back(&n);
    return queue_.launch(place, kernel.name, how.threads, arguments, buffers);
  }

  // Each member combines its part of the elements, whole packs of them, and writes it to all.
  Status allReduce(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                   std::span<const std::byte* const> operands, std::span<std::byte* const> results) {
    const int64_t elements = group.members[member].resultElements[0], pack = kernelOf(plan).pack();
    const Interval part = piece((elements + pack - 1) / pack, static_cast<int64_t>(group.places.size()),
                                static_cast<int64_t>(member));
    BlockCopy c;
    c.source = c.target = std::min(part.begin * pack, elements);
    c.length = std::min(part.end * pack, elements) - c.source;
    std::vector<Source> sources;
    std::vector<Target> targets;
    for (size_t i = 0; i < group.places.size(); ++i) {
      sources.push_back({operands[i], group.places[i]});
      targets.push_back({results[i], group.places[i]});
    }
    return combine(plan, group.places[member], sources, targets, c);
  }

  Status move(const CollectivePlan& plan, int64_t place, const Source& source, std::byte* target,
              const BlockCopy& c) {
    int64_t width = plan.widths[c.operand];
    const bool converts = plan.rounds();
    if (!converts && c.rows == 1 && c.slabs == 1)
      return queue_.copyBetween(place, target + c.target * width, place, source.at + c.source * width,
                                source.place, c.length * width);
    const Target to{target, place};
    return combine(plan, place, std::span(&source, 1), std::span(&to, 1), c);
  }

  DeviceQueue& queue_;
  std::set<std::string> compiled_;
  std::map<const CollectivePlan*, BlockKernel> kernels_; // of all that are prepared
  std::mutex mutex_;
  std::map<const CollectiveGroup*, size_t> begun_; // shares of the collective under way
};

} // namespace

BlockKernel moveBlocks(int64_t bytes) {
  const DType bits = bitsOf(bytes);
  return combineBlocks(bits, bits, PendingKind::None, 1, 1);
}

SourceUnit copyKernel(DType bits) {
  const std::string type(dtypeName(bits)), name = "dtc_copy_" + type;
  return {name, "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(" + type + "* t, const " +
                    type +
                    "* s, long long n, long long length, long long rows, long long sourceRow, "
                    "long long targetRow, long long sourceSlab, long long targetSlab) {\n"
                    "  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;\n"
                    "  if (i >= n) return;\n"
                    "  const i64 row = i / length, column = i % length;\n"
                    "  t[row / rows * targetSlab + row % rows * targetRow + column] =\n"
                    "      s[row / rows * sourceSlab + row % rows * sourceRow + column];\n"
                    "}\n"};
}

SourceUnit lookupKernel(DType bits) {
  const std::string type(dtypeName(bits)), name = "dtc_lookup_" + type;
  return {name, "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(" + type + "* t, const " +
                    type +
                    "* s, const void* index, long long wide, long long count, long long stride, "
                    "long long n, long long length, long long rows, long long sourceRow, "
                    "long long targetRow, long long sourceSlab, long long targetSlab) {\n"
                    "  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;\n"
                    "  if (i >= n) return;\n"
                    "  const i64 at = wide ? *(const i64*)index : (i64) * (const i32*)index;\n"
                    "  const i64 row = i / length, column = i % length;\n"
                    "  const i64 from = row / rows * sourceSlab + row % rows * sourceRow + column;\n"
                    "  const i64 to = row / rows * targetSlab + row % rows * targetRow + column;\n"
                    "  t[to] = at >= 0 && at < count ? s[at * stride + from] : 0;\n"
                    "}\n"};
}

SourceUnit stackKernel(DType bits) {
  const std::string type(dtypeName(bits)), name = "dtc_stack_" + type;
  return {name, "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(" + type + "* t, const " +
                    type +
                    "* s, const i32* index, long long first, long long n) {\n"
                    "  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;\n"
                    "  if (i < n) t[(*index - first) * n + i] = s[i];\n"
                    "}\n"};
}

DType bitsOf(int64_t bytes) {
  switch (bytes) {
  case 1: return DType::U8;
  case 2: return DType::U16;
  case 4: return DType::U32;
  default: return DType::U64;
  }
}

std::unique_ptr<Communicator> makeDeviceCommunicator(DeviceQueue& queue) {
  return std::make_unique<DeviceCommunicator>(queue);
}

} // namespace dtc
