#include "backend/DeviceCollectives.h"
#include "backend/BlockKernel.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace dtc {
namespace {

constexpr size_t kMaxMembers =
    128; // limited by a kernel's 4 KiB of parameters, for operands and results together

std::string kernelName(DType dtype, DType commDType, PendingKind op, size_t sources, size_t targets) {
  return "dtc_combine_" + std::string(dtypeName(dtype)) +
         (commDType == dtype ? "" : "_" + std::string(dtypeName(commDType))) + "_" +
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

// Combines `sources` operands elementwise, rounds operands and result to `commDType`, and writes to all
// targets.
BlockKernel combineBlocks(DType dtype, DType commDType, PendingKind op, size_t sources, size_t targets) {
  const std::string type(dtypeName(dtype)), narrow(dtypeName(commDType));
  const bool ordered = isFloat(dtype) && (op == PendingKind::Max || op == PendingKind::Min);
  const auto rounded = [&](const std::string& x) {
    return commDType == dtype ? x : "dtc_convert<" + type + ">(dtc_convert<" + narrow + ">(" + x + "))";
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
  return {kernelName(dtype, commDType, op, sources, targets), dtype, dtype, targets, sources, lines};
}

class DeviceCommunicator final : public Communicator {
public:
  explicit DeviceCommunicator(DeviceQueue& queue) : queue_(queue) {}
  std::string_view name() const override { return "local"; }

  Status prepare(const CollectivePlan& plan) override {
    for (const CollectiveGroup& g : plan.groups) {
      if (g.coordinates.size() > kMaxMembers)
        return machineError("a collective among more than 128 devices is not supported");
      kernels_.insert_or_assign(&plan, makeKernel(plan, g)); // all groups of a collective have the same size
      if (Status s = reserve(plan, g); !s) return s;
      if (Status s = ensure(kernelOf(plan)); !s) return s;
    }
    return Ok{};
  }

  Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
               std::span<const std::byte* const> operands, std::span<std::byte* const> results) override {
    int64_t coordinate = group.coordinates[member];
    if (plan.synchronizes())
      if (Status s = begin(group); !s) return s;
    const CollectiveMember& me = group.members[member];
    for (uint32_t k : me.zeroResults)
      if (std::byte* const result = results[member * plan.numOperands + k]; result) // else it has no memory
        if (Status s = queue_.clear(coordinate, result, me.resultElements[k] * plan.widths[k]); !s) return s;
    if (plan.kind == CollectiveKind::AllReduce) return allReduce(plan, group, member, operands, results);
    if (plan.kind == CollectiveKind::ReduceScatter) {
      if (me.blocks.empty()) return Ok{};
      std::vector<Source> sources;
      for (const BlockCopy& c : me.blocks) sources.push_back({operands[c.from], group.coordinates[c.from]});
      const Target target{results[member], coordinate};
      return combine(plan, coordinate, sources, std::span(&target, 1), me.blocks[0]);
    }
    for (const BlockCopy& c : me.blocks) {
      const Source source{operands[c.from * plan.numOperands + c.operand], group.coordinates[c.from]};
      std::byte* target = results[member * plan.numOperands + c.operand];
      if (Status s = move(plan, coordinate, source, target, c); !s) return s;
    }
    return Ok{};
  }

  Status settle(const CollectivePlan&, const CollectiveGroup& group) override {
    return queue_.rendezvous(group.coordinates);
  }

private:
  // The first part of a group makes all members wait for each other's operands. If each member waited
  // separately, later members would wait for the kernels of earlier ones, which would serialize them.
  Status begin(const CollectiveGroup& group) {
    const std::lock_guard lock(mutex_);
    size_t& shares = begun_[&group];
    const bool first = shares == 0;
    shares = (shares + 1) % group.coordinates.size();
    return first ? queue_.rendezvous(group.coordinates) : Status(Ok{});
  }
  // The kernel of a collective.
  static BlockKernel makeKernel(const CollectivePlan& plan, const CollectiveGroup& g) {
    const bool converts = plan.rounds();
    DType commDType = converts ? plan.commDType : plan.dtype;
    if (plan.kind == CollectiveKind::AllReduce)
      return combineBlocks(plan.dtype, commDType, plan.op, g.coordinates.size(), g.coordinates.size());
    if (plan.kind == CollectiveKind::ReduceScatter)
      return combineBlocks(plan.dtype, commDType, plan.op, g.coordinates.size(), 1);
    if (converts) return combineBlocks(plan.dtype, commDType, PendingKind::None, 1, 1);
    return moveBlocks(dtypeBytes(plan.dtype));
  }
  const BlockKernel& kernelOf(const CollectivePlan& plan) const { return kernels_.at(&plan); }
  Status ensure(const BlockKernel& k) {
    if (!compiled_.insert(k.name).second) return Ok{};
    return queue_.compile(k.unit());
  }

  struct Source {
    const std::byte* at;
    int64_t coordinate;
  };
  struct Target {
    std::byte* at;
    int64_t coordinate;
  };
  // The extent in elements from the first to the last element that a block reads.
  static int64_t sourceSpan(const BlockCopy& c) {
    return c.elements() == 0 ? 0 : (c.slabs - 1) * c.sourceSlab + (c.rows - 1) * c.sourceRow + c.length;
  }
  static int64_t alignedBytes(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  // Bytes of staging memory that combine() needs for unreachable devices.
  Status reserve(const CollectivePlan& plan, const CollectiveGroup& g) {
    for (size_t m = 0; m < g.coordinates.size(); ++m) {
      int64_t maxElements = 0, width = dtypeBytes(plan.dtype), away = 0;
      for (int64_t p : g.coordinates) away += queue_.reaches(g.coordinates[m], p) ? 0 : 1;
      for (int64_t w : plan.widths) width = std::max(width, w);
      if (away == 0) continue;
      for (const BlockCopy& c : g.members[m].blocks) maxElements = std::max(maxElements, sourceSpan(c));
      if (plan.kind == CollectiveKind::AllReduce)
        maxElements = std::max(maxElements,
                               g.members[m].resultElements[0] / static_cast<int64_t>(g.coordinates.size()) +
                                   1 + kernelOf(plan).pack());
      if (Status s = queue_.reserve(g.coordinates[m], 2 * away * alignedBytes(maxElements * width)); !s)
        return s;
    }
    return Ok{};
  }

  Status combine(const CollectivePlan& plan, int64_t coordinate, std::span<const Source> sources,
                 std::span<const Target> targets, const BlockCopy& c) {
    if (c.elements() == 0) return Ok{};
    const int64_t width = dtypeBytes(plan.dtype), bytes = sourceSpan(c) * width;
    std::byte* room = queue_.reserved(coordinate);
    std::vector<std::byte*> to;
    std::vector<const std::byte*> from;
    std::vector<std::pair<const Target*, const std::byte*>> away; // staged locally first, contiguous
    for (const Target& t : targets) {
      const bool reached = queue_.reaches(coordinate, t.coordinate);
      to.push_back(reached ? t.at + c.target * width : room);
      if (reached) continue;
      away.emplace_back(&t, room);
      room += alignedBytes(c.elements() * width);
    }
    for (const Source& s : sources) {
      const bool reached = queue_.reaches(coordinate, s.coordinate);
      from.push_back(reached ? s.at + c.source * width : room);
      if (reached) continue;
      if (Status done =
              queue_.copyBetween(coordinate, room, coordinate, s.at + c.source * width, s.coordinate, bytes);
          !done)
        return done;
      room += alignedBytes(bytes);
    }
    Status done = launch(kernelOf(plan), coordinate, c, to, from);
    for (const auto& [target, from] : away)
      if (done)
        done = queue_.copyBetween(coordinate, target->at + c.target * width, target->coordinate, from,
                                  coordinate, c.elements() * width);
    return done;
  }

  Status launch(const BlockKernel& kernel, int64_t coordinate, const BlockCopy& c,
                std::span<std::byte*> targets, std::span<const std::byte*> sources) {
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
    return queue_.launch(coordinate, kernel.name, how.threads, arguments, buffers);
  }

  // Each member combines its range of elements, in whole packs, and writes it to all.
  Status allReduce(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                   std::span<const std::byte* const> operands, std::span<std::byte* const> results) {
    const int64_t elements = group.members[member].resultElements[0], pack = kernelOf(plan).pack();
    const Interval part =
        shardInterval((elements + pack - 1) / pack, static_cast<int64_t>(group.coordinates.size()),
                      static_cast<int64_t>(member));
    BlockCopy c;
    c.source = c.target = std::min(part.begin * pack, elements);
    c.length = std::min(part.end * pack, elements) - c.source;
    std::vector<Source> sources;
    std::vector<Target> targets;
    for (size_t i = 0; i < group.coordinates.size(); ++i) {
      sources.push_back({operands[i], group.coordinates[i]});
      targets.push_back({results[i], group.coordinates[i]});
    }
    return combine(plan, group.coordinates[member], sources, targets, c);
  }

  Status move(const CollectivePlan& plan, int64_t coordinate, const Source& source, std::byte* target,
              const BlockCopy& c) {
    int64_t width = plan.widths[c.operand];
    const bool converts = plan.rounds();
    if (!converts && c.rows == 1 && c.slabs == 1)
      return queue_.copyBetween(coordinate, target + c.target * width, coordinate,
                                source.at + c.source * width, source.coordinate, c.length * width);
    const Target to{target, coordinate};
    return combine(plan, coordinate, std::span(&source, 1), std::span(&to, 1), c);
  }

  DeviceQueue& queue_;
  std::set<std::string> compiled_;
  std::map<const CollectivePlan*, BlockKernel> kernels_; // of prepared collectives
  std::mutex mutex_;
  std::map<const CollectiveGroup*, size_t> begun_; // parts of the current collective enqueued so far
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
