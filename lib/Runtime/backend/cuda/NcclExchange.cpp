#include "backend/cuda/NcclExchange.h"

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

std::string kernelName(const char* what, const CollectivePlan& plan, const NcclCommDType& comm) {
  std::string name =
      std::string(what) + "_" + std::string(dtypeName(plan.dtype)) + "_" + std::string(dtypeName(comm.type));
  if (plan.rounds()) name += "_by_" + std::string(dtypeName(plan.commDType));
  if (comm.ordered) name += plan.op == PendingKind::Max ? "_max" : "_min";
  if (plan.op == PendingKind::Avg && reduces(plan))
    name += "_avg" + std::to_string(plan.groups[0].coordinates.size());
  return name;
}
// Rounds x to the communication dtype.
std::string rounding(const CollectivePlan& plan) {
  if (!plan.rounds()) return "";
  const std::string type(dtypeName(plan.dtype)), narrow(dtypeName(plan.commDType));
  return "    x = dtc_convert<" + type + ">(dtc_convert<" + narrow + ">(x));\n";
}

BlockKernel packKernel(const CollectivePlan& plan, const NcclCommDType& comm) {
  const std::string to(dtypeName(comm.type));
  std::string lines = "    auto x = x0;\n" + rounding(plan);
  lines += comm.ordered ? std::string("    const auto y = dtc_ordered(x, ") +
                              (plan.op == PendingKind::Max ? "true" : "false") + ");\n"
                        : "    const auto y = dtc_convert<" + to + ">(x);\n";
  return {kernelName("dtc_pack", plan, comm), comm.type, plan.dtype, 1, 1, lines};
}

BlockKernel unpackKernel(const CollectivePlan& plan, const NcclCommDType& comm) {
  const std::string to(dtypeName(plan.dtype));
  std::string lines = "    auto x = x0;\n";
  if (comm.ordered) {
    lines += "    const auto y = dtc_of_ordered(x);\n";
  } else {
    if (plan.op == PendingKind::Avg && reduces(plan))
      lines += "    x = x / " + std::to_string(plan.groups[0].coordinates.size()) + ";\n";
    lines += "    auto y = dtc_convert<" + to + ">(x);\n";
    if (plan.rounds() && reduces(plan))
      lines += "    y = dtc_convert<" + to + ">(dtc_convert<" + std::string(dtypeName(plan.commDType)) +
               ">(y));\n";
  }
  return {kernelName("dtc_unpack", plan, comm), plan.dtype, comm.type, 1, 1, lines};
}

// Whether a block is contiguous.
bool isPacked(const BlockCopy& b, int64_t row, int64_t slab) {
  return (b.rows == 1 || row == b.length) && (b.slabs == 1 || slab == b.rows * b.length);
}
bool sourceIsPacked(const BlockCopy& b) { return isPacked(b, b.sourceRow, b.sourceSlab); }
bool targetIsPacked(const BlockCopy& b) { return isPacked(b, b.targetRow, b.targetSlab); }

int64_t largestBlock(const CollectiveGroup& g) {
  int64_t max = 0;
  for (const CollectiveMember& m : g.members)
    for (const BlockCopy& b : m.blocks) max = std::max(max, b.elements());
  return max;
}

} // namespace

NcclCommDType ncclCommDType(const CollectivePlan& plan) {
  NcclCommDType comm;
  if (!reduces(plan)) {
    comm.type = plan.rounds() ? plan.commDType : bitsOf(plan.widths[0]);
    comm.packs = comm.unpacks = plan.rounds();
    return comm;
  }
  comm.type = plan.dtype;
  if (isFloat(plan.dtype)) {
    comm.ordered = plan.op == PendingKind::Max || plan.op == PendingKind::Min;
    if (comm.ordered)
      comm.type = plan.dtype == DType::F64 ? DType::I64 : DType::I32;
    else if (isFloat(plan.commDType))
      comm.type = plan.commDType;
    if (!Nccl::reduces(comm.type)) comm.type = DType::F32; // f8: rounded to it, summed in f32
  } else if (!Nccl::reduces(comm.type)) {
    comm.type = DType::I32; // 16-bit integers: the low bits of sums and products are the same in 32 bits
  }
  comm.packs = comm.unpacks = comm.type != plan.dtype || plan.rounds();
  comm.unpacks = comm.unpacks || plan.op == PendingKind::Avg;
  return comm;
}

std::vector<SourceUnit> ncclKernels(const CollectivePlan& plan) {
  std::vector<SourceUnit> out;
  const NcclCommDType comm = ncclCommDType(plan);
  if (comm.packs) out.push_back(packKernel(plan, comm).unit());
  if (comm.unpacks) out.push_back(unpackKernel(plan, comm).unit());
  std::vector<int64_t> widths = plan.widths;
  if (reduces(plan)) widths.push_back(dtypeBytes(comm.type));
  for (int64_t width : widths) out.push_back(moveBlocks(width).unit());
  return out;
}

int64_t ncclStageBytes(const CollectivePlan& plan, const CollectiveGroup& group) {
  int64_t width = dtypeBytes(ncclCommDType(plan).type);
  for (int64_t w : plan.widths) width = std::max(width, w);
  const auto n = static_cast<int64_t>(group.coordinates.size());
  switch (plan.kind) {
  case CollectiveKind::AllReduce: return alignedBytes(group.members[0].resultElements[0] * width);
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather: return alignedBytes(n * largestBlock(group) * width);
  default: break;
  }
  int64_t max = 0; // max bytes that one member sends or receives
  std::vector<int64_t> sent(group.members.size(), 0), received = sent;
  for (size_t m = 0; m < group.members.size(); ++m)
    for (const BlockCopy& b : group.members[m].blocks) {
      sent[b.from] += alignedBytes(b.elements() * width);
      received[m] += alignedBytes(b.elements() * width);
      max = std::max({max, sent[b.from], received[m]});
    }
  return max;
}

int64_t NcclExchange::commBytes(const BlockCopy& b) const {
  return reduces(plan_) || plan_.rounds() ? dtypeBytes(comm_.type) : plan_.widths[b.operand];
}

template <class Call> Status NcclExchange::inGroup(const Call& call) {
  if (Status s = nccl_.beginGroup(); !s) return s;
  Status done = Ok{};
  for (size_t m = 0; m < members() && done; ++m)
    if (isHere(m))
      done = queue_.start(coordinate(m), [&](const CudaDevice&, const CudaStream& stream) {
        return Status(call(m, ranks_[m], stream));
      });
  const Status ended = nccl_.endGroup(); // also after an error: groups are per thread
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
  return queue_.launch(coordinate(member), kernel.name, how.threads, arguments);
}

Status NcclExchange::pack(size_t member, const BlockCopy& b, std::byte* to) {
  if (!isHere(member)) return Ok{};
  BlockCopy packed = b;
  packed.targetRow = b.length, packed.targetSlab = b.rows * b.length;
  const int64_t width = plan_.widths[b.operand];
  return rearrange(member, comm_.packs ? packKernel(plan_, comm_) : moveBlocks(width), to,
                   operand(b) + b.source * width, packed);
}

Status NcclExchange::unpack(size_t member, const BlockCopy& b, const std::byte* from) {
  if (!isHere(member)) return Ok{};
  BlockCopy packed = b;
  packed.sourceRow = b.length, packed.sourceSlab = b.rows * b.length;
  const int64_t width = plan_.widths[b.operand];
  return rearrange(member, comm_.unpacks ? unpackKernel(plan_, comm_) : moveBlocks(width),
                   result(member, b) + b.target * width, from, packed);
}

Status NcclExchange::allReduce() {
  BlockCopy full;
  full.length = group_.members[0].resultElements[0];
  if (full.length == 0) return Ok{};
  for (size_t m = 0; m < members() && comm_.packs; ++m) {
    full.from = static_cast<uint32_t>(m);
    if (Status s = pack(m, full, buffers_.sent[m]); !s) return s;
  }
  auto called = inGroup([&](size_t m, const NcclRank& rank, const CudaStream& stream) {
    const std::byte* from = comm_.packs ? buffers_.sent[m] : buffers_.operands[m];
    std::byte* to = comm_.unpacks ? buffers_.received[m] : buffers_.results[m];
    return nccl_.allReduce(rank, from, to, static_cast<size_t>(full.length), comm_.type, opOf(plan_.op),
                           stream);
  });
  for (size_t m = 0; m < members() && comm_.unpacks && called; ++m)
    called = unpack(m, full, buffers_.received[m]);
  return called;
}

// Packs shards consecutively, padded to the longest one; padding is reduced too and ignored. A contiguous shard of
// that length is received in place.
Status NcclExchange::reduceScatter() {
  const int64_t chunk = largestBlock(group_), bytes = chunk * dtypeBytes(comm_.type);
  if (chunk == 0) return Ok{};
  bool plain = !comm_.packs;
  std::vector<bool> direct(members(), false);
  const auto directTarget = [&](size_t m) {
    const BlockCopy& b = group_.members[m].blocks[0];
    return result(m, b) + b.target * plan_.widths[b.operand];
  };
  for (size_t m = 0; m < members(); ++m) {
    const auto& blocks = group_.members[m].blocks;
    plain = plain && !blocks.empty() && blocks[0].elements() == chunk && sourceIsPacked(blocks[0]) &&
            blocks[0].source == static_cast<int64_t>(m) * chunk;
    direct[m] =
        !comm_.unpacks && !blocks.empty() && blocks[0].elements() == chunk && targetIsPacked(blocks[0]);
  }
  for (size_t m = 0; m < members() && !plain; ++m)
    for (const BlockCopy& b : group_.members[m].blocks)
      if (Status s = pack(b.from, b, buffers_.sent[b.from] + static_cast<int64_t>(m) * bytes); !s) return s;
  auto called = inGroup([&](size_t m, const NcclRank& rank, const CudaStream& stream) {
    const std::byte* from = plain ? buffers_.operands[m] : buffers_.sent[m];
    std::byte* to = direct[m] ? directTarget(m) : buffers_.received[m];
    return nccl_.reduceScatter(rank, from, to, static_cast<size_t>(chunk), comm_.type, opOf(plan_.op),
                               stream);
  });
  for (size_t m = 0; m < members() && called; ++m)
    if (!direct[m] && !group_.members[m].blocks.empty())
      called = unpack(m, group_.members[m].blocks[0], buffers_.received[m]);
  return called;
}

Status NcclExchange::allGather() {
  const int64_t chunk = largestBlock(group_);
  if (chunk == 0) return Ok{};
  BlockCopy first;
  const int64_t bytes = chunk * commBytes(first);
  std::vector<int64_t> own(members(), 0); // elements of each member's shard
  bool even = !comm_.packs, plain = true;
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
  if (comm_.packs)
    if (Status s = pack(b.from, b, buffers_.sent[b.from]); !s) return s;
  auto called = inGroup([&](size_t m, const NcclRank& rank, const CudaStream& stream) {
    const std::byte* from = comm_.packs ? buffers_.sent[m] : buffers_.operands[m];
    std::byte* to = comm_.unpacks ? buffers_.received[m] : buffers_.results[m];
    return nccl_.broadcast(rank, from, to, static_cast<size_t>(b.elements() * commBytes(b)),
                           static_cast<int>(b.from), stream);
  });
  for (size_t m = 0; m < members() && comm_.unpacks && called; ++m)
    called = unpack(m, b, buffers_.received[m]);
  return called;
}

Status NcclExchange::moveData() {
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
      if (std::byte* const to = buffers_.results[m * plan_.numOperands + k]; to) // else it has no memory
        if (Status s = queue_.clear(coordinate(m), to, group_.members[m].resultElements[k] * plan_.widths[k]);
            !s)
          return s;
    for (const BlockCopy& b : group_.members[m].blocks) {
      if (b.elements() == 0 || (!isHere(m) && !isHere(b.from))) continue;
      const int64_t width = plan_.widths[b.operand], bytes = b.elements() * commBytes(b);
      if (b.from == m && !comm_.packs && !comm_.unpacks && !(sourceIsPacked(b) && targetIsPacked(b))) {
        // A member's own shard is copied once, between its two layouts.
        if (Status s = rearrange(m, moveBlocks(width), result(m, b) + b.target * width,
                                 operand(b) + b.source * width, b);
            !s)
          return s;
        continue;
      }
      Move move{m, &b, operand(b) + b.source * width, result(m, b) + b.target * width, bytes, false};
      if (comm_.packs || !sourceIsPacked(b)) {
        std::byte* to = buffers_.sent[b.from] + sent[b.from];
        sent[b.from] += alignedBytes(bytes);
        if (Status s = pack(b.from, b, to); !s) return s;
        move.source = to;
      }
      if (comm_.unpacks || !targetIsPacked(b)) {
        move.target = buffers_.received[m] + received[m];
        received[m] += alignedBytes(bytes);
        move.unpack = true;
      }
      list.push_back(move);
    }
  }
  // A member's own shard is copied locally.
  for (const Move& v : list)
    if (v.block->from == v.to && isHere(v.to))
      if (Status s = queue_.copy(coordinate(v.to), v.target, v.source, v.bytes); !s) return s;
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
  default: return moveData();
  }
}

} // namespace dtc
