#include "comm/ProcessExchanges.h"

#include "comm/Reduction.h"

#include <map>
#include <tuple>

namespace dtc {

GroupExchange::GroupExchange(const CollectivePlan& plan, const CollectiveGroup& group,
                             GroupPlacement placement)
    : plan_(plan), group_(group), processes_(placement.processes), processOf_(std::move(placement.processOf)),
      fixedOrder_(placement.fixedOrder) {
  for (size_t m = 0; m < processOf_.size(); ++m) {
    if (isHere(m))
      here_.push_back(m);
    else
      peers_.push_back(processOf_[m]);
  }
  std::ranges::sort(peers_);
  peers_.erase(std::ranges::unique(peers_).begin(), peers_.end());
  exchange_.tag = placement.tag;
  exchange_.where = &plan.where;
  exchange_.done = &GroupExchange::done;
  exchange_.self = this;
}

// The last of the messages and of the work meanwhile goes on.
void GroupExchange::done(void* self) {
  auto& x = *static_cast<GroupExchange*>(self);
  const ExchangeWake wake = x.wake_;
  if (x.pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake.call(wake.self, wake.number);
}

Result<bool> GroupExchange::advance(std::span<const std::byte* const> operands,
                                    std::span<std::byte* const> results, const ExchangeWake& wake) {
  operands_ = operands;
  results_ = results;
  wake_ = wake;
  while (true) {
    if (Status s = processes_.failure(); !s) return s.error();
    messages().clear();
    if (!stage(stage_)) return stage_ = 0, true;
    pending_.store(2, std::memory_order_release);
    const int now = stage_++;
    processes_.start(exchange_);
    meanwhile(now);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  }
}

namespace {

constexpr int64_t kOwnMessage = 4096; // bytes of a contiguous block that is sent by itself, without a copy

bool isContiguous(const BlockCopy& c) { return c.slabs == 1 && c.rows == 1; }

// Blocks between two processes. Sender and receiver compute the same list from the plan.
struct BlockList {
  struct Target {
    size_t member = 0;
    BlockCopy block;
  };
  struct Entry {
    BlockCopy block; // the source
    int64_t bytes = 0, offset = 0;
    bool own = false; // a message of its own, in the order of the list; else part of the packed message
    std::vector<Target> targets; // of a receiver
  };
  int peer = 0;
  std::vector<Entry> entries;
  int64_t packedBytes = 0, ownBytes = 0;
};

// all_gather, all_to_all, permute, p2p, broadcast_from.
class MoveExchange final : public GroupExchange {
public:
  MoveExchange(const CollectivePlan& plan, const CollectiveGroup& group, GroupPlacement placement)
      : GroupExchange(plan, group, std::move(placement)) {
    for (int peer : peers_) {
      sends_.push_back(listOf(processes_.rank(), peer));
      receives_.push_back(listOf(peer, processes_.rank()));
    }
  }

private:
  BlockList listOf(int from, int to) const {
    BlockList list;
    list.peer = from == processes_.rank() ? to : from;
    using Key = std::tuple<uint32_t, uint32_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
    std::map<Key, size_t> known;
    for (size_t m = 0; m < group_.members.size(); ++m) {
      if (processOf_[m] != to) continue;
      for (const BlockCopy& c : group_.members[m].blocks) {
        if (processOf_[c.from] != from) continue;
        const Key key{c.from, c.operand, c.source, c.slabs, c.sourceSlab, c.rows, c.sourceRow, c.length};
        const auto [at, isNew] = known.try_emplace(key, list.entries.size());
        if (isNew) add(list, c);
        list.entries[at->second].targets.push_back({m, c});
      }
    }
    return list;
  }
  void add(BlockList& list, const BlockCopy& c) const {
    BlockList::Entry& e = list.entries.emplace_back(c);
    e.bytes = c.elements() * plan_.widths[c.operand];
    e.own = isContiguous(c) && e.bytes >= kOwnMessage;
    int64_t& total = e.own ? list.ownBytes : list.packedBytes;
    e.offset = total;
    total += e.bytes;
  }
  // An own message is received where its first target is, if nothing is rounded.
  bool inPlace(const BlockList::Entry& e) const { return e.own && !plan_.rounds(); }
  std::byte* targetOf(const BlockList::Target& t) const {
    return result(t.member, t.block.operand) + t.block.target * plan_.widths[t.block.operand];
  }

  bool stage(int number) override {
    if (number == 1) return unpack(), false;
    int64_t sent = 0, received = 0;
    for (const BlockList& l : sends_) sent += l.packedBytes;
    for (const BlockList& l : receives_) received += l.packedBytes + l.ownBytes;
    std::byte* to = received_.sized(received);
    for (const BlockList& l : receives_) {
      for (const BlockList::Entry& e : l.entries)
        if (e.own)
          receive(l.peer, inPlace(e) ? targetOf(e.targets[0]) : to + l.packedBytes + e.offset, e.bytes);
      receive(l.peer, to, l.packedBytes);
      to += l.packedBytes + l.ownBytes;
    }
    std::byte* from = sent_.sized(sent);
    for (const BlockList& l : sends_) {
      for (const BlockList::Entry& e : l.entries)
        if (e.own)
          send(l.peer,
               operand(e.block.from, e.block.operand) + e.block.source * plan_.widths[e.block.operand],
               e.bytes);
      for (const BlockList::Entry& e : l.entries)
        if (!e.own) pack(e, from + e.offset);
      send(l.peer, from, l.packedBytes);
      from += l.packedBytes;
    }
    return true;
  }

  void pack(const BlockList::Entry& e, std::byte* to) const {
    const int64_t width = plan_.widths[e.block.operand], bytes = e.block.length * width;
    const std::byte* source = operand(e.block.from, e.block.operand);
    forEachRow(e.block, width, [&](int64_t from, int64_t) {
      std::memcpy(to, source + from, static_cast<size_t>(bytes));
      to += bytes;
    });
  }

  // Blocks between devices of this process.
  void meanwhile(int) override {
    for (size_t m : here_) {
      for (uint32_t k : group_.members[m].zeroResults)
        if (std::byte* const to = result(m, k))
          std::memset(to, 0, static_cast<size_t>(group_.members[m].resultElements[k] * plan_.widths[k]));
      for (const BlockCopy& c : group_.members[m].blocks) {
        if (!isHere(c.from)) continue;
        const std::byte* source = operand(c.from, c.operand);
        std::byte* target = result(m, c.operand);
        forEachRow(c, plan_.widths[c.operand],
                   [&](int64_t from, int64_t to) { copyRow(plan_, c, source + from, target + to); });
      }
    }
  }

  void unpack() {
    const std::byte* from = received_.data();
    for (const BlockList& l : receives_) {
      for (const BlockList::Entry& e : l.entries)
        for (size_t i = 0; i < e.targets.size(); ++i) {
          if (inPlace(e) && i == 0) continue;
          const std::byte* source =
              inPlace(e) ? targetOf(e.targets[0]) : from + (e.own ? l.packedBytes : 0) + e.offset;
          const BlockCopy& c = e.targets[i].block;
          std::byte* target = result(e.targets[i].member, c.operand);
          const int64_t width = plan_.widths[c.operand];
          forEachRow(c, width, [&](int64_t, int64_t to) {
            copyRow(plan_, c, source, target + to);
            source += c.length * width;
          });
        }
      from += l.packedBytes + l.ownBytes;
    }
  }

  std::vector<BlockList> sends_, receives_; // by peer
  ExchangeBuffer sent_, received_;
};

// Whether operands of one process may be combined first: only the order of a sum changes, and no rounding.
bool combinesFirst(const CollectivePlan& plan, bool fixedOrder) {
  if (plan.rounds() || plan.op == PendingKind::Avg) return false;
  const bool ordered = plan.op == PendingKind::Max || plan.op == PendingKind::Min;
  if (!isFloat(plan.dtype) || ordered) return true;
  return !fixedOrder && (plan.dtype == DType::F32 || plan.dtype == DType::F64);
}

// What is combined, in this order: the operand of each member, or for each process the combination of its members.
struct Contribution {
  int process = 0;
  size_t member = 0; // the first of those combined
};

class ReductionExchange : public GroupExchange {
protected:
  ReductionExchange(const CollectivePlan& plan, const CollectiveGroup& group, GroupPlacement placement)
      : GroupExchange(plan, group, std::move(placement)), width_(dtypeBytes(plan.dtype)) {
    const std::span<const int> of = processOf_;
    combined_ = combinesFirst(plan, fixedOrder_);
    for (size_t m = 0; m < of.size(); ++m)
      if (!combined_ || std::ranges::count(of.first(m), of[m]) == 0) all_.push_back({of[m], m});
    combined_ = combined_ && here_.size() > 1;
    sources_.resize(std::max(all_.size(), here_.size()));
    for (const Contribution& c : all_) mine_ += c.process == processes_.rank();
  }
  [[nodiscard]] bool isMine(const Contribution& c) const { return c.process == processes_.rank(); }
  void reduce(size_t numSources, const ReductionTargets& targets, int64_t n) {
    reduceElements(plan_, {std::span(sources_).first(numSources), {}}, targets, n);
  }
  // The operands of this process at a byte offset, combined.
  void combine(int64_t offset, std::byte* to, int64_t n) {
    for (size_t i = 0; i < here_.size(); ++i) sources_[i] = operand(here_[i]) + offset;
    reduce(here_.size(), {std::span(&to, 1)}, n);
  }

  int64_t width_;
  bool combined_ = false; // those of this process are combined first
  std::vector<Contribution> all_;
  int64_t mine_ = 0;                      // number of those of this process
  std::vector<const std::byte*> sources_; // scratch
  ExchangeBuffer partial_, sent_, received_;
};

// Each process combines its range of the elements, and sends it to the others. Few elements go to all at once.
class AllReduceExchange final : public ReductionExchange {
public:
  AllReduceExchange(const CollectivePlan& plan, const CollectiveGroup& group, GroupPlacement placement)
      : ReductionExchange(plan, group, std::move(placement)), elements_(group.members[0].resultElements[0]) {
    constexpr int64_t kFewBytes = 32768;
    few_ = elements_ * width_ * std::ssize(all_) <= kFewBytes;
    processes = peers_;
    processes.push_back(processes_.rank());
    std::ranges::sort(processes);
  }

private:
  [[nodiscard]] Interval rangeOf(int process) const {
    if (few_) return {0, elements_};
    return shardInterval(elements_, std::ssize(processes),
                         std::ranges::lower_bound(processes, process) - processes.begin());
  }
  [[nodiscard]] const std::byte* contribution(const Contribution& c) const {
    return combined_ ? partial_.data() : operand(c.member);
  }

  bool stage(int number) override {
    const Interval own = rangeOf(processes_.rank());
    if (number == 0) return sendParts(own), true;
    if (number == 1) {
      combineRange(own);
      if (few_) return false;
      for (int peer : peers_) send(peer, result(here_[0]) + own.begin * width_, own.size() * width_);
      for (int peer : peers_)
        receive(peer, result(here_[0]) + rangeOf(peer).begin * width_, rangeOf(peer).size() * width_);
      return true;
    }
    for (size_t i = 1; i < here_.size(); ++i)
      for (int peer : peers_) {
        const Interval r = rangeOf(peer);
        std::memcpy(result(here_[i]) + r.begin * width_, result(here_[0]) + r.begin * width_,
                    static_cast<size_t>(r.size() * width_));
      }
    return false;
  }

  void sendParts(Interval own) {
    if (combined_) combine(0, partial_.sized(elements_ * width_), elements_);
    std::byte* to = received_.sized((std::ssize(all_) - mine_) * own.size() * width_);
    for (const Contribution& c : all_) {
      if (isMine(c)) {
        for (int peer : peers_)
          send(peer, contribution(c) + rangeOf(peer).begin * width_, rangeOf(peer).size() * width_);
        continue;
      }
      receive(c.process, to, own.size() * width_);
      to += own.size() * width_;
    }
  }

  void combineRange(Interval own) {
    const std::byte* from = received_.data();
    for (size_t i = 0; i < all_.size(); ++i) {
      sources_[i] = isMine(all_[i]) ? contribution(all_[i]) + own.begin * width_ : from;
      if (!isMine(all_[i])) from += own.size() * width_;
    }
    targets_.clear();
    for (size_t m : here_) targets_.push_back(result(m));
    reduce(all_.size(), {targets_, own.begin * width_}, own.size());
  }

  int64_t elements_;
  bool few_ = false;
  std::vector<int> processes; // ascending
  std::vector<std::byte*> targets_;
};

// Each process combines the blocks of its members.
class ReduceScatterExchange final : public ReductionExchange {
public:
  ReduceScatterExchange(const CollectivePlan& plan, const CollectiveGroup& group, GroupPlacement placement)
      : ReductionExchange(plan, group, std::move(placement)) {}

private:
  // The block of member m's result, as the sender `from` has it; null: an empty shard.
  [[nodiscard]] const BlockCopy* blockOf(size_t m, size_t from) const {
    for (const BlockCopy& c : group_.members[m].blocks)
      if (c.from == from) return &c;
    return nullptr;
  }
  [[nodiscard]] int64_t bytesOf(size_t m) const { return group_.members[m].resultElements[0] * width_; }

  bool stage(int number) override {
    if (number == 1) {
      const std::byte* from = received_.data();
      for (size_t m : here_) from = combineBlocks(m, from);
      return false;
    }
    int64_t sent = 0, received = 0, partial = 0;
    for (size_t m = 0; m < processOf_.size(); ++m) sent += isHere(m) ? 0 : mine_ * bytesOf(m);
    for (size_t m : here_) received += (std::ssize(all_) - mine_) * bytesOf(m), partial += bytesOf(m);
    std::byte* to = received_.sized(received);
    for (size_t m : here_)
      for (const Contribution& c : all_)
        if (!isMine(c)) receive(c.process, to, bytesOf(m)), to += bytesOf(m);
    std::byte* from = sent_.sized(sent);
    for (size_t m = 0; m < processOf_.size(); ++m)
      for (const Contribution& c : all_) {
        if (isHere(m) || !isMine(c)) continue;
        pack(m, c, from);
        send(processOf_[m], from, bytesOf(m));
        from += bytesOf(m);
      }
    if (combined_) partial_.sized(partial);
    return true;
  }

  // The part of this process in the result of member m, contiguous.
  void pack(size_t m, const Contribution& c, std::byte* to) {
    const BlockCopy* block = blockOf(m, c.member);
    if (!block) return;
    const int64_t bytes = block->length * width_;
    forEachRow(*block, width_, [&](int64_t from, int64_t) {
      if (combined_)
        combine(from, to, block->length);
      else
        std::memcpy(to, operand(c.member) + from, static_cast<size_t>(bytes));
      to += bytes;
    });
  }

  void meanwhile(int) override {
    std::byte* to = partial_.data();
    for (size_t m : here_)
      for (const Contribution& c : all_)
        if (combined_ && isMine(c)) pack(m, c, to), to += bytesOf(m);
  }

  // Returns the end of what was received for it.
  const std::byte* combineBlocks(size_t m, const std::byte* received) {
    if (group_.members[m].blocks.empty()) return received;
    const BlockCopy& any = group_.members[m].blocks[0];
    const std::byte* partial = partial_.data();
    for (size_t earlier : here_)
      if (earlier < m) partial += bytesOf(earlier);
    std::byte* target = result(m);
    int64_t at = 0; // in packed blocks
    forEachRow(any, width_, [&](int64_t from, int64_t to) {
      int64_t others = 0;
      for (size_t i = 0; i < all_.size(); ++i) {
        const Contribution& c = all_[i];
        sources_[i] = !isMine(c)  ? received + others++ * bytesOf(m) + at
                      : combined_ ? partial + at
                                  : operand(c.member) + from;
      }
      reduce(all_.size(), {std::span(&target, 1), to}, any.length);
      at += any.length * width_;
    });
    return received + (std::ssize(all_) - mine_) * bytesOf(m);
  }
};

} // namespace

std::unique_ptr<GroupExchange> makeGroupExchange(const CollectivePlan& plan, const CollectiveGroup& group,
                                                 GroupPlacement placement) {
  if (plan.kind == CollectiveKind::AllReduce)
    return std::make_unique<AllReduceExchange>(plan, group, std::move(placement));
  if (plan.kind == CollectiveKind::ReduceScatter)
    return std::make_unique<ReduceScatterExchange>(plan, group, std::move(placement));
  return std::make_unique<MoveExchange>(plan, group, std::move(placement));
}

} // namespace dtc
