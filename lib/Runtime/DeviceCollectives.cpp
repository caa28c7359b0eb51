#include "DeviceCollectives.h"

#include <algorithm>

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

class DeviceCommunicator final : public Communicator {
public:
  explicit DeviceCommunicator(DeviceQueue& queue) : queue_(queue) {}
  std::string_view name() const override { return "local"; }

  Status prepare(const CollectivePlan& plan) override {
    for (const CollectiveGroup& g : plan.groups) {
      if (g.places.size() > kMaxMembers)
        return machineError("a collective among more than 128 devices is not supported");
      if (Status s = reserve(plan, g); !s) return s;
      if (Status s = ensure(kernelOf(plan, g)); !s) return s;
    }
    return Ok{};
  }

  Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
               std::span<const std::byte* const> operands, std::span<std::byte* const> results) override {
    int64_t place = group.places[member];
    if (plan.meets())
      if (Status s = queue_.waitFor(place, group.places); !s) return s;
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
      return combine(plan, group, place, sources, std::span(&target, 1), me.blocks[0]);
    }
    for (const BlockCopy& c : me.blocks) {
      const Source source{operands[c.from * plan.numOperands + c.operand], group.places[c.from]};
      std::byte* target = results[member * plan.numOperands + c.operand];
      if (Status s = move(plan, group, place, source, target, c); !s) return s;
    }
    return Ok{};
  }

  Status settle(const CollectivePlan&, const CollectiveGroup& group) override {
    return queue_.meet(group.places);
  }

private:
  struct Kernel {
    DType dtype, wire;
    PendingKind op;
    size_t sources, targets;
  };
  // The one kernel that a collective needs.
  static Kernel kernelOf(const CollectivePlan& plan, const CollectiveGroup& g) {
    const bool converts = plan.rounds();
    DType wire = converts ? plan.wire : plan.dtype;
    if (plan.kind == CollectiveKind::AllReduce)
      return {plan.dtype, wire, plan.op, g.places.size(), g.places.size()};
    if (plan.kind == CollectiveKind::ReduceScatter) return {plan.dtype, wire, plan.op, g.places.size(), 1};
    if (converts) return {plan.dtype, wire, PendingKind::None, 1, 1};
    const DType bits = bitsOf(dtypeBytes(plan.dtype));
    return {bits, bits, PendingKind::None, 1, 1};
  }
  Status ensure(const Kernel& k) {
    std::string name = kernelName(k.dtype, k.wire, k.op, k.sources, k.targets);
    if (!compiled_.insert(name).second) return Ok{};
    return queue_.compile(combineKernel(k.dtype, k.wire, k.op, k.sources, k.targets));
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
        most = std::max(most, g.members[m].resultElements[0] / static_cast<int64_t>(g.places.size()) + 1);
      if (Status s = queue_.reserve(g.places[m], 2 * away * alignedBytes(most * width)); !s) return s;
    }
    return Ok{};
  }

  Status combine(const CollectivePlan& plan, const CollectiveGroup& group, int64_t place,
                 std::span<const Source> sources, std::span<const Target> targets, const BlockCopy& c) {
    if (c.elements() == 0) return Ok{};
    const int64_t width = dtypeBytes(plan.dtype), bytes = sourceSpan(c) * width;
    std::byte* room = queue_.reserved(place);
    std::vector<const std::byte*> pointers;
    std::vector<std::pair<const Target*, const std::byte*>> away; // written here first: pieces in one stretch
    for (const Target& t : targets) {
      const bool reached = queue_.reaches(place, t.place);
      pointers.push_back(reached ? t.at + c.target * width : room);
      if (reached) continue;
      away.emplace_back(&t, room);
      room += alignedBytes(c.elements() * width);
    }
    for (const Source& s : sources) {
      const bool reached = queue_.reaches(place, s.place);
      pointers.push_back(reached ? s.at + c.source * width : room);
      if (reached) continue;
      if (Status done = queue_.copyBetween(place, room, place, s.at + c.source * width, s.place, bytes);
          !done)
        return done;
      room += alignedBytes(bytes);
    }
    int64_t numbers[] = {c.elements(), c.length,     c.rows,      c.sourceRow,
                         c.targetRow,  c.sourceSlab, c.targetSlab};
    std::vector<void*> arguments;
    std::vector<DeviceBuffer> buffers;
    for (const std::byte*& p : pointers) {
      const bool written = arguments.size() < targets.size();
      buffers.push_back({p, written, c.length * width, c.rows, (written ? c.targetRow : c.sourceRow) * width,
                         c.slabs, (written ? c.targetSlab : c.sourceSlab) * width});
      arguments.push_back(&p);
    }
    for (int64_t& n : numbers) arguments.push_back(&n);
    Kernel k = kernelOf(plan, group);
    Status done = queue_.launch(place, kernelName(k.dtype, k.wire, k.op, k.sources, k.targets), c.elements(),
                                arguments, buffers);
    for (const auto& [target, from] : away)
      if (done)
        done = queue_.copyBetween(place, target->at + c.target * width, target->place, from, place,
                                  c.elements() * width);
    return done;
  }

  // Each member combines its part of the elements and writes it to all.
  Status allReduce(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                   std::span<const std::byte* const> operands, std::span<std::byte* const> results) {
    Interval part = piece(group.members[member].resultElements[0], static_cast<int64_t>(group.places.size()),
                          static_cast<int64_t>(member));
    BlockCopy c;
    c.source = c.target = part.begin;
    c.length = part.size();
    std::vector<Source> sources;
    std::vector<Target> targets;
    for (size_t i = 0; i < group.places.size(); ++i) {
      sources.push_back({operands[i], group.places[i]});
      targets.push_back({results[i], group.places[i]});
    }
    return combine(plan, group, group.places[member], sources, targets, c);
  }

  Status move(const CollectivePlan& plan, const CollectiveGroup& group, int64_t place, const Source& source,
              std::byte* target, const BlockCopy& c) {
    int64_t width = plan.widths[c.operand];
    const bool converts = plan.rounds();
    if (!converts && c.rows == 1 && c.slabs == 1)
      return queue_.copyBetween(place, target + c.target * width, place, source.at + c.source * width,
                                source.place, c.length * width);
    const Target to{target, place};
    return combine(plan, group, place, std::span(&source, 1), std::span(&to, 1), c);
  }

  DeviceQueue& queue_;
  std::set<std::string> compiled_;
};

} // namespace

SourceUnit combineKernel(DType dtype, DType wire, PendingKind op, size_t sources, size_t targets) {
  std::string type(dtypeName(dtype)), name = kernelName(dtype, wire, op, sources, targets);
  std::string text = "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(";
  for (size_t i = 0; i < targets; ++i) text += type + "* t" + std::to_string(i) + ", ";
  for (size_t i = 0; i < sources; ++i) text += "const " + type + "* s" + std::to_string(i) + ", ";
  text += "long long n, long long length, long long rows, long long sourceRow, long long targetRow, "
          "long long sourceSlab, long long targetSlab) {\n"
          "  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;\n"
          "  if (i >= n) return;\n"
          "  const i64 row = i / length, column = i % length;\n"
          "  const i64 from = row / rows * sourceSlab + row % rows * sourceRow + column;\n"
          "  const i64 to = row / rows * targetSlab + row % rows * targetRow + column;\n";
  const bool ordered = isFloat(dtype) && (op == PendingKind::Max || op == PendingKind::Min);
  auto load = [&](size_t k) {
    std::string value = "dtc_load(s" + std::to_string(k) + " + from)";
    if (wire != dtype)
      value = "dtc_convert<" + type + ">(dtc_convert<" + std::string(dtypeName(wire)) + ">(" + value + "))";
    if (ordered) value = "dtc_ordered(" + value + (op == PendingKind::Max ? ", true)" : ", false)");
    return value;
  };
  text += "  auto x = " + load(0) + ";\n";
  for (size_t k = 1; k < sources; ++k) text += "  x = " + std::string(stepOf(op)) + "(x, " + load(k) + ");\n";
  if (op == PendingKind::Avg) text += "  x = x / " + std::to_string(sources) + ";\n";
  if (ordered) text += "  auto y = dtc_of_ordered(x);\n";
  if (wire != dtype && !ordered)
    text += "  x = dtc_convert<" + type + ">(dtc_convert<" + std::string(dtypeName(wire)) + ">(x));\n";
  for (size_t k = 0; k < targets; ++k)
    text += "  dtc_store(t" + std::to_string(k) + " + to, " + (ordered ? "y" : "x") + ");\n";
  return {name, text + "}\n"};
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
