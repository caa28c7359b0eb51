#include "NcclExchange.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr int64_t kAlign = 256;
int64_t alignedBytes(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

bool reduces(const CollectivePlan& plan) {
  return plan.kind == CollectiveKind::AllReduce || plan.kind == CollectiveKind::ReduceScatter;
}

NcclOp opOf(PendingKind kind) {
  switch (kind) {
  case PendingKind::Prod: return NcclOp::Prod;
  case PendingKind::Max:
  case PendingKind::Any: return NcclOp::Max;
  case PendingKind::Min:
  case PendingKind::All: return NcclOp::Min;
  default: return NcclOp::Sum;
  }
}

std::string kernelName(const char* what, const CollectivePlan& plan, const NcclWire& wire) {
  std::string name =
      std::string(what) + "_" + std::string(dtypeName(plan.dtype)) + "_" + std::string(dtypeName(wire.type));
  if (plan.rounds()) name += "_by_" + std::string(dtypeName(plan.wire));
  if (wire.ordered) name += plan.op == PendingKind::Max ? "_max" : "_min";
  if (plan.op == PendingKind::Avg && reduces(plan))
    name += "_avg" + std::to_string(plan.groups[0].places.size());
  return name;
}
// x as it is after the way: rounded to a narrower float.
std::string rounding(const CollectivePlan& plan) {
  if (!plan.rounds()) return "";
  const std::string type(dtypeName(plan.dtype)), narrow(dtypeName(plan.wire));
  return "    x = dtc_convert<" + type + ">(dtc_convert<" + narrow + ">(x));\n";
}

BlockKernel packKernel(const CollectivePlan& plan, const NcclWire& wire) {
  const std::string to(dtypeName(wire.type));
  std::string lines = "    auto x = x0;\n" + rounding(plan);
  lines += wire.ordered ? std::string("    const auto y = dtc_ordered(x, ") +
                              (plan.op == PendingKind::Max ? "true" : "false") + ");\n"
                        : "    const auto y = dtc_convert<" + to + ">(x);\n";
  return {kernelName("dtc_pack", plan, wire), wire.type, plan.dtype, 1, 1, lines};
}

BlockKernel unpackKernel(const CollectivePlan& plan, const NcclWire& wire) {
  const std::string to(dtypeName(plan.dtype));
  std::string lines = "    auto x = x0;\n";
  if (wire.ordered) {
    lines += "    const auto y = dtc_of_ordered(x);\n";
  } else {
    if (plan.op == PendingKind::Avg && reduces(plan))
      lines += "    x = x / " + std::to_string(plan.groups[0].places.size()) + ";\n";
    lines += "    auto y = dtc_convert<" + to + ">(x);\n";
    if (plan.rounds() && reduces(plan))
      lines +=
          "    y = dtc_convert<" + to + ">(dtc_convert<" + std::string(dtypeName(plan.wire)) + ">(y));\n";
  }
  return {kernelName("dtc_unpack", plan, wire), plan.dtype, wire.type, 1, 1, lines};
}

// Do the rows of a block lie one after the other?
bool isPacked(const BlockCopy& b, int64_t row, int64_t slab) {
  return (b.rows == 1 || row == b.length) && (b.slabs == 1 || slab == b.rows * b.length);
}
bool sourceIsPacked(const BlockCopy& b) { return isPacked(b, b.sourceRow, b.sourceSlab); }
bool targetIsPacked(const BlockCopy& b) { return isPacked(b, b.targetRow, b.targetSlab); }

int64_t largestBlock(const CollectiveGroup& g) {
  int64_t most = 0;
  for (const CollectiveMember& m : g.members)
    for (const BlockCopy& b : m.blocks) most = std::max(most, b.elements());
  return most;
}

} // namespace

NcclWire ncclWire(const CollectivePlan& plan) {
  NcclWire wire;
  if (!reduces(plan)) {
    wire.type = plan.rounds() ? plan.wire : bitsOf(plan.widths[0]);
    wire.packs = wire.unpacks = plan.rounds();
    return wire;
  }
  wire.type = plan.dtype;
  if (isFloat(plan.dtype)) {
    wire.ordered = plan.op == PendingKind::Max || plan.op == PendingKind::Min;
    if (wire.ordered)
      wire.type = plan.dtype == DType::F64 ? DType::I64 : DType::I32;
    else if (isFloat(plan.wire))
      wire.type = plan.wire;
    if (!Nccl::reduces(wire.type)) wire.type = DType::F32; // f8: rounded to it, and summed in f32
  } else if (!Nccl::reduces(wire.type)) {
    wire.type = DType::I32; // 16-bit integers: the low bits of sums and products are the same
  }
  wire.packs = wire.unpacks = wire.type != plan.dtype || plan.rounds();
  wire.unpacks = wire.unpacks || plan.op == PendingKind::Avg;
  return wire;
}

std::vector<SourceUnit> ncclKernels(const CollectivePlan& plan) {
  std::vector<SourceUnit> out;
  const NcclWire wire = ncclWire(plan);
  if (wire.packs) out.push_back(packKernel(plan, wire).unit());
  if (wire.unpacks) out.push_back(unpackKernel(plan, wire).unit());
  std::vector<int64_t> widths = plan.widths;
  if (reduces(plan)) widths.push_back(dtypeBytes(wire.type));
  for (int64_t width : widths) out.push_back(moveBlocks(width).unit());
  return out;
}

int64_t ncclStageBytes(const CollectivePlan& plan, const CollectiveGroup& group) {
  int64_t width = dtypeBytes(ncclWire(plan).type);
  for (int64_t w : plan.widths) width = std::max(width, w);
  const auto n = static_cast<int64_t>(group.places.size());
  switch (plan.kind) {
  case CollectiveKind::AllReduce: return alignedBytes(group.members[0].resultElements[0] * width);
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather: return alignedBytes(n * largestBlock(group) * width);
  default: break;
  }
  int64_t most = 0; // of what one member sends or receives
  std::vector<int64_t> sent(group.members.size(), 0), received = sent;
  for (size_t m = 0; m < group.members.size(); ++m)
    for (const BlockCopy& b : group.members[m].blocks) {
      sent[b.from] += alignedBytes(b.elements() * width);
      received[m] += alignedBytes(b.elements() * width);
      most = std::max({most, sent[b.from], received[m]});
    }
  return most;
}

int64_t NcclExchange::wireBytes(const BlockCopy& b) const {
  return reduces(plan_) || plan_.rounds() ? dtypeBytes(wire_.type) : plan_.widths[b.operand];
}

template <class Call> Status NcclExchange::inGroup(const Call& call) {
  if (Status s = nccl_.beginGroup(); !s) return s;
  Status done = Ok{};
  for (size_t m = 0; m < members() && done; ++m)
    done = places_.start(place(m), [&](const CudaDevice&, const CudaStream& stream) {
      return Status(call(m, ranks_[m], stream));
    });
  const Status ended = nccl_.endGroup(); // always: the group is this thread's
  return done ? ended : done;
}

Status NcclExchange::rearrange(size_t member, const BlockKernel& kernel, std::byte* to, const std::byte* from,
                               const BlockCopy& b) {
  if (b.elements() == 0) return Ok{};
  BlockLaunch how =
      launchOf(kernel, {b.length, b.rows, b.sourceRow, b.targetRow, b.slabs, b.sourceSlab, b.targetSlab},
               {&to, 1}, {&from, 1});
  std::vector<void*> arguments = {static_cast<void*>(&to), static_cast<void*>(&from)};
  for (int64_t& n : how.numbers) arguments.push_back(&n);
  return places_.launch(place(member), kernel.name, how.threads, arguments);
}

Status NcclExchange::pack(size_t member, const BlockCopy& b, std::byte* to) {
  BlockCopy packed = b;
  packed.targetRow = b.length, packed.targetSlab = b.rows * b.length;
  const int64_t width = plan_.widths[b.operand];
  return rearrange(member, wire_.packs ? packKernel(plan_, wire_) : moveBlocks(width), to,
                   operand(b) + b.source * width, packed);
}

Status NcclExchange::unpack(size_t member, const BlockCopy& b, const std::byte* from) {
  BlockCopy packed = b;
  packed.sourceRow = b.length, packed.sourceSlab = b.rows * b.length;
  const int64_t width = plan_.widths[b.operand];
  return rearrange(member, wire_.unpacks ? unpackKernel(plan_, wire_) : moveBlocks(width),
                   result(member, b) + b.target * width, from, packed);
}

Status NcclExchange::allReduce() {
  BlockCopy whole;
  whole.length = group_.members[0].resultElements[0];
  if (whole.length == 0) return Ok{};
  for (size_t m = 0; m < members() && wire_.packs; ++m) {
    whole.from = static_cast<uint32_t>(m);
    if (Status s = pack(m, whole, buffers_.sent[m]); !s) return s;
  }
  auto called = inGroup([&](size_t m, const NcclRank& rank, const CudaStream& stream) {
    const std::byte* from = wire_.packs ? buffers_.sent[m] : buffers_.operands[m];
    std::byte* to = wire_.unpacks ? buffers_.received[m] : buffers_.results[m];
    return nccl_.allReduce(rank, from, to, static_cast<size_t>(whole.length), wire_.type, opOf(plan_.op),
                           stream);
  });
  for (size_t m = 0; m < members() && wire_.unpacks && called; ++m)
    called = unpack(m, whole, buffers_.received[m]);
  return called;
}

// Pieces are packed one after the other, each as long as the longest: what is behind a shorter one is summed for nothing.
Status NcclExchange::reduceScatter() {
  const int64_t chunk = largestBlock(group_), bytes = chunk * dtypeBytes(wire_.type);
  if (chunk == 0) return Ok{};
  bool plain = !wire_.packs;
  for (size_t m = 0; m < members(); ++m) {
    const auto& blocks = group_.members[m].blocks;
    plain = plain && !blocks.empty() && blocks[0].elements() == chunk && sourceIsPacked(blocks[0]) &&
            blocks[0].source == static_cast<int64_t>(m) * chunk;
  }
  for (size_t m = 0; m < members() && !plain; ++m)
    for (const BlockCopy& b : group_.members[m].blocks)
      if (Status s = pack(b.from, b, buffers_.sent[b.from] + static_cast<int64_t>(m) * bytes); !s) return s;
  auto called = inGroup([&](size_t m, const NcclRank& rank, const CudaStream& stream) {
    const std::byte* from = plain ? buffers_.operands[m] : buffers_.sent[m];
    return nccl_.reduceScatter(rank, from, buffers_.received[m], static_cast<size_t>(chunk), wire_.type,
                               opOf(plan_.op), stream);
  });
  for (size_t m = 0; m < members() && called; ++m)
    if (!group_.members[m].blocks.empty())
      called = unpack(m, group_.members[m].blocks[0], buffers_.received[m]);
  return called;
}

Status NcclExchange::allGather() {
  const int64_t chunk = largestBlock(group_);
  if (chunk == 0) return Ok{};
  BlockCopy first;
  const int64_t bytes = chunk * wireBytes(first);
  std::vector<int64_t> own(members(), 0); // elements of each member's piece
  bool even = !wire_.packs, plain = true;
  for (const CollectiveMember& member : group_.members)
    for (const BlockCopy& b : member.blocks) {
      own[b.from] = b.elements();
      even = even && sourceIsPacked(b);
      plain = plain && targetIsPacked(b) && b.target == static_cast<int64_t>(b.from) * chunk;
    }
  for (int64_t n : own) even = even && n == chunk;
  plain = plain && even;
  std::vector<bool> ready(members(), false);
  for (const CollectiveMember& member : group_.members)
    for (const BlockCopy& b : member.blocks) {
      if (even || ready[b.from]) continue;
      ready[b.from] = true;
      if (Status s = pack(b.from, b, buffers_.sent[b.from]); !s) return s;
    }
  auto called = inGroup([&](size_t m, const NcclRank& rank, const CudaStream& stream) {
    return nccl_.allGather(rank, even ? buffers_.operands[m] : buffers_.sent[m],
                           plain ? buffers_.results[m] : buffers_.received[m], static_cast<size_t>(bytes),
                           stream);
  });
  for (size_t m = 0; m < members() && !plain; ++m)
    for (const BlockCopy& b : group_.members[m].blocks)
      if (called) called = unpack(m, b, buffers_.received[m] + b.from * bytes);
  return called;
}

Status NcclExchange::broadcast() {
  const auto& blocks = group_.members[0].blocks;
  if (blocks.empty()) return Ok{};
  const BlockCopy& b = blocks[0];
  if (wire_.packs)
    if (Status s = pack(b.from, b, buffers_.sent[b.from]); !s) return s;
  auto called = inGroup([&](size_t m, const NcclRank& rank, const CudaStream& stream) {
    const std::byte* from = wire_.packs ? buffers_.sent[m] : buffers_.operands[m];
    std::byte* to = wire_.unpacks ? buffers_.received[m] : buffers_.results[m];
    return nccl_.broadcast(rank, from, to, static_cast<size_t>(b.elements() * wireBytes(b)),
                           static_cast<int>(b.from), stream);
  });
  for (size_t m = 0; m < members() && wire_.unpacks && called; ++m)
    called = unpack(m, b, buffers_.received[m]);
  return called;
}

Status NcclExchange::moves() {
  struct Move {
    size_t to;
    const BlockCopy* block;
    const std::byte* source;
    std::byte* target;
    int64_t bytes;
    bool unpack;
  };
  std::vector<Move> list;
  std::vector<int64_t> sent(members(), 0), received(members(), 0);
  for (size_t m = 0; m < members(); ++m) {
    for (uint32_t k : group_.members[m].zeroResults)
      if (Status s = places_.clear(place(m), buffers_.results[m * plan_.numOperands + k],
                                   group_.members[m].resultElements[k] * plan_.widths[k]);
          !s)
        return s;
    for (const BlockCopy& b : group_.members[m].blocks) {
      if (b.elements() == 0) continue;
      const int64_t width = plan_.widths[b.operand], bytes = b.elements() * wireBytes(b);
      Move move{m, &b, operand(b) + b.source * width, result(m, b) + b.target * width, bytes, false};
      if (wire_.packs || !sourceIsPacked(b)) {
        std::byte* to = buffers_.sent[b.from] + sent[b.from];
        sent[b.from] += alignedBytes(bytes);
        if (Status s = pack(b.from, b, to); !s) return s;
        move.source = to;
      }
      if (wire_.unpacks || !targetIsPacked(b)) {
        move.target = buffers_.received[m] + received[m];
        received[m] += alignedBytes(bytes);
        move.unpack = true;
      }
      list.push_back(move);
    }
  }
  // A piece for oneself stays: it is no message.
  for (const Move& v : list)
    if (v.block->from == v.to)
      if (Status s = places_.copy(place(v.to), v.target, v.source, v.bytes); !s) return s;
  auto called = inGroup([&](size_t m, const NcclRank& rank, const CudaStream& stream) {
    for (const Move& v : list) {
      if (v.block->from == v.to) continue;
      Status done = Ok{};
      if (v.block->from == m)
        done = nccl_.send(rank, v.source, static_cast<size_t>(v.bytes), static_cast<int>(v.to), stream);
      else if (v.to == m)
        done = nccl_.receive(rank, v.target, static_cast<size_t>(v.bytes), static_cast<int>(v.block->from),
                             stream);
      if (!done) return done;
    }
    return Status(Ok{});
  });
  for (const Move& v : list)
    if (called && v.unpack) called = unpack(v.to, *v.block, v.target);
  return called;
}

Status NcclExchange::start() {
  switch (plan_.kind) {
  case CollectiveKind::AllReduce: return allReduce();
  case CollectiveKind::ReduceScatter: return reduceScatter();
  case CollectiveKind::AllGather: return allGather();
  case CollectiveKind::BroadcastFrom: return broadcast();
  default: return moves();
  }
}

} // namespace dtc
