#include "CudaCommunicator.h"

#include <algorithm>

namespace dtc {
namespace {

// How many elements of each operand of each member are read: [member * numOperands + k].
std::vector<int64_t> operandElements(const CollectivePlan& plan, const CollectiveGroup& group) {
  std::vector<int64_t> out(group.members.size() * plan.numOperands);
  if (plan.kind == CollectiveKind::AllReduce) { // whole operands, as long as the results
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = group.members[i / plan.numOperands].resultElements[i % plan.numOperands];
    return out;
  }
  for (const CollectiveMember& member : group.members)
    for (const BlockCopy& b : member.blocks) {
      if (b.elements() == 0) continue;
      const int64_t end = b.source + (b.slabs - 1) * b.sourceSlab + (b.rows - 1) * b.sourceRow + b.length;
      int64_t& most = out[b.from * plan.numOperands + b.operand];
      most = std::max(most, end);
    }
  return out;
}

} // namespace

Result<CudaStream> CudaStreams::of(int64_t place) {
  std::lock_guard lock(mutex_);
  auto at = streams_.find(place);
  if (at != streams_.end()) return at->second;
  auto stream = device_.stream();
  if (stream) streams_.emplace(place, *stream);
  return stream;
}

Status CudaStreams::synchronize() {
  std::lock_guard lock(mutex_);
  for (auto& [place, stream] : streams_)
    if (auto s = device_.synchronize(stream); !s) return s;
  return Ok{};
}

Status CudaCommunicator::share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                               std::span<const std::byte* const> operands,
                               std::span<std::byte* const> results) {
  if (!plan.meets()) return carry(plan, group, member, member + 1, {operands, results});
  std::lock_guard lock(mutex_);
  waiting_[&group] = {operands, results};
  return Ok{};
}

Status CudaCommunicator::settle(const CollectivePlan& plan, const CollectiveGroup& group) {
  Buffers buffers;
  {
    std::lock_guard lock(mutex_);
    buffers = waiting_[&group];
    waiting_.erase(&group);
  }
  return carry(plan, group, 0, group.members.size(), buffers);
}

Status CudaCommunicator::carry(const CollectivePlan& plan, const CollectiveGroup& group, size_t first,
                               size_t last, Buffers buffers) {
  const size_t per = plan.numOperands;
  const std::vector<int64_t> elements = operandElements(plan, group);
  std::vector<std::vector<std::byte>> operands(elements.size()), results(elements.size());
  std::vector<const std::byte*> from(elements.size());
  std::vector<std::byte*> to(elements.size());
  std::vector<CudaStream> streams;
  for (size_t member = first; member < last; ++member) {
    auto stream = streams_.of(group.places[member]);
    if (!stream) return stream.error();
    streams.push_back(*stream);
    for (size_t k = 0; k < per; ++k) {
      const size_t i = member * per + k, width = static_cast<size_t>(plan.widths[k]);
      operands[i].resize(static_cast<size_t>(elements[i]) * width);
      results[i].resize(static_cast<size_t>(group.members[member].resultElements[k]) * width);
      from[i] = operands[i].data(), to[i] = results[i].data();
      if (auto s = device_.copyOut(operands[i].data(), buffers.operands[i], operands[i].size(), *stream); !s)
        return s;
    }
  }
  for (const CudaStream& stream : streams)
    if (auto s = device_.synchronize(stream); !s) return s;
  for (size_t member = first; member < last; ++member)
    if (auto s = local_->share(plan, group, member, from, to); !s) return s;
  if (auto s = local_->settle(plan, group); !s) return s;
  for (size_t i = first * per; i < last * per; ++i)
    if (auto s = device_.copyIn(buffers.results[i], results[i].data(), results[i].size(),
                                streams[i / per - first]);
        !s)
      return s;
  return Ok{};
}

} // namespace dtc
