#include "dtc/IR/verify/RankSchedule.h"

#include "dtc/IR/LocalShape.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace dtc {

namespace {

class Rehearsal {
public:
  explicit Rehearsal(std::span<const RankSchedule> ranks) : ranks_(ranks), next_(ranks.size(), 0) {
    for (size_t p = ranks.size(); p-- > 0;) ready_.push_back(static_cast<int64_t>(p));
  }

  std::optional<RankMismatch> run() {
    while (!ready_.empty()) {
      const int64_t coordinate = ready_.back();
      ready_.pop_back();
      if (auto problem = arrive(coordinate)) return problem;
    }
    for (size_t p = 0; p < ranks_.size(); ++p)
      if (const RankRendezvous* at = current(static_cast<int64_t>(p)))
        return missing(static_cast<int64_t>(p), *at);
    return std::nullopt;
  }

private:
  const RankRendezvous* current(int64_t coordinate) const {
    const auto p = static_cast<size_t>(coordinate);
    return next_[p] < ranks_[p].size() ? &ranks_[p][next_[p]] : nullptr;
  }

  std::optional<RankMismatch> arrive(int64_t coordinate) {
    const RankRendezvous* at = current(coordinate);
    if (!at) return std::nullopt;
    if (std::ranges::find(at->coordinates, coordinate) == at->coordinates.end())
      return RankMismatch{RankMismatch::Stranger, coordinate, coordinate, at->op, at->op};
    auto [it, first] = waiting_.try_emplace(at->number, Waiting{at, coordinate, 0});
    const Waiting& w = it->second;
    if (!first &&
        (w.rendezvous->what != at->what || !std::ranges::equal(w.rendezvous->coordinates, at->coordinates)))
      return RankMismatch{RankMismatch::Differs, coordinate, w.coordinate, at->op, w.rendezvous->op};
    if (++it->second.arrived < at->coordinates.size()) return std::nullopt;
    for (int64_t p : at->coordinates) {
      ++next_[static_cast<size_t>(p)];
      ready_.push_back(p);
    }
    return std::nullopt;
  }

  RankMismatch missing(int64_t coordinate, const RankRendezvous& at) const {
    for (int64_t other : at.coordinates) {
      const RankRendezvous* there = current(other);
      if (!there || there->number != at.number)
        return {RankMismatch::Waits, coordinate, other, at.op, there ? there->op : OpId()};
    }
    return {RankMismatch::Stranger, coordinate, coordinate, at.op, at.op};
  }

  struct Waiting {
    const RankRendezvous* rendezvous; // of the first rank to arrive
    int64_t coordinate;               // of that rank
    size_t arrived;
  };
  std::span<const RankSchedule> ranks_;
  std::vector<size_t> next_;
  std::vector<int64_t> ready_; // ranks that may be able to advance
  std::unordered_map<uint32_t, Waiting> waiting_;
};

} // namespace

std::optional<RankMismatch> validateRanks(std::span<const RankSchedule> ranks) {
  return Rehearsal(ranks).run();
}

bool isRendezvous(const OpRecord& r) {
  const bool sends = hasGroups(r.collective) && r.collective != CollectiveKind::AllSlice;
  return sends || r.lowering == Lowering::Host;
}

RankReader::RankReader(const Module& m, FuncId entry)
    : m_(m), programs_(programsOf(m, entry)), mesh_(meshValueOf(m, entry)), ranks_(programs_.of.size()),
      issued_(programs_.of.size()) {}

std::optional<RankReader::Divergence> RankReader::read() {
  for (size_t i = 0; i < programs_.functions.size(); ++i) {
    func_ = programs_.functions[i];
    own_ = programs_.coordinatesOf(i);
    const Varying varying(m_, func_);
    varying_ = &varying;
    if (auto divergence = block(m_[func_].body)) return divergence;
  }
  return std::nullopt;
}

std::optional<RankReader::Divergence> RankReader::block(BlockId b) {
  for (OpId o : m_[b].ops) {
    const OpRecord& record = m_.record(o);
    std::optional<Divergence> divergence;
    if (record.isCall) {
      if (const FuncId callee = m_.findFunction(m_.strings[m_[o].callee]); callee.valid())
        divergence = block(m_[callee].body);
    } else if (record.regions != RegionKind::None && record.regions != RegionKind::Fused) {
      divergence = control(o);
    } else if (isRendezvous(record)) {
      divergence = rendezvous(o);
    }
    if (divergence) return divergence;
  }
  return std::nullopt;
}

std::vector<ValueId> RankReader::decisionsOf(OpId o) const {
  switch (m_.record(o).regions) {
  case RegionKind::Cond: return {m_.operand(o, 0)};
  case RegionKind::While: return {m_[m_.region(o, 0)].yields[0]};
  case RegionKind::For: return {m_.operand(o, 0), m_.operand(o, 1)};
  default: return {};
  }
}

std::optional<RankReader::Divergence> RankReader::control(OpId o) {
  OpId inner;
  const Coordinates members = partners(o, inner);
  const bool shared = members.size() > own_.size();
  const uint32_t group = shared ? numberOf(members) : 0;
  const std::vector<ValueId> values = decisionsOf(o);
  const size_t before = decisions_.size();
  std::string what = m_.record(o).name;
  for (ValueId v : values) {
    if (const AxisSet set = (*varying_)(v)) decisions_.push_back({o, v, varying_->axes(set)});
    const std::string constant = constantText(v);
    what += " " + constant;
    if (shared && constant.empty()) {
      const auto other = std::ranges::find_if(members, [&](int64_t p) { return programs_.at(p) != func_; });
      return Divergence{o, v, inner, {own_[0], *other}};
    }
  }
  std::optional<Divergence> out;
  for (uint32_t r = 0; r < m_[o].numRegions && !out; ++r) {
    for (int64_t p : own_)
      if (shared) add(p, group, what + ", block " + std::to_string(r), o);
    out = block(m_.region(o, r));
  }
  for (int64_t p : own_)
    if (shared) add(p, group, what + ", end", o);
  decisions_.resize(before);
  return out;
}

// A number that is the same in all functions of the program; empty if that is not known.
std::string RankReader::constantText(ValueId v) const {
  const Value& value = m_[v];
  if (value.kind == ValueKind::Literal) return std::to_string(m_.attrs[value.literal].i);
  if (value.kind == ValueKind::Symbol) return printDim(value.symbol, m_.dims, m_.strings);
  const std::vector<FuncArg>& args = m_[func_].args;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].value == v && !args[i].globalType.valid()) return "argument " + std::to_string(i);
  return "";
}

RankReader::Coordinates RankReader::partners(OpId o, OpId& rendezvous) {
  Coordinates all = own_;
  if (!programs_.differ()) return all;
  for (uint32_t r = 0; r < m_[o].numRegions; ++r) addPartners(m_.region(o, r), all, rendezvous);
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

void RankReader::addPartners(BlockId b, Coordinates& all, OpId& rendezvous) {
  forEachOp(m_, b, [&](OpId o) {
    if (m_.record(o).isCall)
      if (const FuncId callee = m_.findFunction(m_.strings[m_[o].callee]); callee.valid())
        addPartners(m_[callee].body, all, rendezvous);
    if (!isRendezvous(m_.record(o))) return;
    const std::vector<uint32_t>& groups = groupsOf(o);
    for (int64_t p : own_)
      for (int64_t other : *members_[groups[static_cast<size_t>(p)]]) {
        if (!rendezvous.valid() && programs_.at(other) != func_) rendezvous = o;
        all.push_back(other);
      }
  });
}

uint32_t RankReader::numberOf(const Coordinates& group) {
  const auto [at, isNew] = groups_.try_emplace(group, static_cast<uint32_t>(members_.size()));
  if (isNew) members_.push_back(&at->first);
  return at->second;
}

const std::vector<uint32_t>& RankReader::groupsOf(OpId o) {
  const bool host = m_.record(o).lowering == Lowering::Host; // `print` synchronizes all devices
  const bool p2p = m_.record(o).collective == CollectiveKind::P2p;
  auto [at, isNew] =
      groupsOfAxes_.try_emplace({host ? AttrId() : m_.attr(o, "axes"), p2p ? m_.attr(o, "sends") : AttrId()});
  if (!isNew) return at->second;
  constexpr uint32_t kNone = UINT32_MAX;
  Coordinates all(programs_.of.size());
  std::iota(all.begin(), all.end(), 0);
  at->second.assign(all.size(), kNone);
  for (int64_t p : all) {
    if (at->second[static_cast<size_t>(p)] != kNone) continue;
    const Coordinates group = host ? all : rendezvousOf(m_, o, mesh_, p);
    for (int64_t member : group) at->second[static_cast<size_t>(member)] = numberOf(group);
  }
  return at->second;
}

std::optional<RankReader::Divergence> RankReader::rendezvous(OpId o) {
  const OpRecord& record = m_.record(o);
  std::string what = record.name;
  for (const AttrSpec& a : record.attrs) what += " " + std::to_string(m_.attr(o, a.name).index);
  for (ValueId v : m_.operands(o)) what += " " + std::to_string(m_[v].type.index);
  for (uint32_t r = 0; r < m_[o].numResults; ++r)
    what += " -> " + std::to_string(m_[m_.result(o, r)].type.index);
  const std::vector<uint32_t>& groups = groupsOf(o);
  for (int64_t p : own_) {
    const uint32_t number = groups[static_cast<size_t>(p)];
    const Coordinates& group = *members_[number];
    if (group.size() == 1) continue;
    for (const Decision& d : decisions_)
      for (int64_t other : group)
        if (mesh_.indexAlong(d.axes, other) != mesh_.indexAlong(d.axes, group[0]))
          return Divergence{d.control, d.value, o, {group[0], other}};
    add(p, number, what, o);
  }
  return std::nullopt;
}

void RankReader::add(int64_t coordinate, uint32_t group, const std::string& what, OpId o) {
  const uint32_t count = issued_[static_cast<size_t>(coordinate)][group]++;
  const uint32_t number =
      numbers_.try_emplace({group, count}, static_cast<uint32_t>(numbers_.size())).first->second;
  ranks_[static_cast<size_t>(coordinate)].push_back({number, *members_[group], what, o});
}

} // namespace dtc
