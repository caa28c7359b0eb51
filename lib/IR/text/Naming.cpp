#include "dtc/IR/text/Naming.h"

#include "dtc/IR/OpRecord.h"

#include <algorithm>
#include <charconv>

namespace dtc {

// "12" as a number that the printer may assign; nothing for other names ("012", "x").
static std::optional<uint32_t> numberOf(std::string_view name) {
  uint32_t n = 0;
  auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), n);
  if (bad != std::errc() || end != name.data() + name.size() || n >= 0x80000000u) return std::nullopt;
  return n;
}

Naming::Naming(const Module& m, FuncId f) : m_(m) {
  if (!f.valid()) return;
  coverBlock(m[f].body);
  names_.allocate(kUnknown);
  visibleCount_.allocate(0);
  nameBlock(m[f].body);
  std::sort(taken_.begin(), taken_.end());
  uint32_t next = 0;
  size_t t = 0;
  for (ValueId v : unnamed_) {
    for (; t < taken_.size() && taken_[t] <= next; ++t)
      if (taken_[t] == next) ++next;
    names_[v] = kNumbered | next++;
  }
  for (auto [v, first] : sameAs_) names_[v] = names_[first];
}

void Naming::coverBlock(BlockId b) {
  auto cover = [&](ValueId v) {
    names_.cover(v);
    visibleCount_.cover(m_[v].name);
  };
  for (ValueId v : m_[b].args) cover(v);
  for (OpId o : m_[b].ops) {
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) coverBlock(m_.region(o, r));
    for (uint32_t i = 0; i < m_[o].numResults; ++i) cover(m_.result(o, i));
  }
}

void Naming::keepOrPostpone(ValueId v) {
  StrId name = m_[v].name;
  if (name.valid()) {
    // The number of definitions of the name that are visible here.
    uint32_t& count = visibleCount_[name];
    bool taken = false;
    if (count > 0) {
      auto from = visible_.begin() + static_cast<ptrdiff_t>(visibleFrom_);
      taken = visibleFrom_ == 0 || std::find(from, visible_.end(), name) != visible_.end();
    }
    if (!taken) {
      ++count;
      visible_.push_back(name);
      names_[v] = name.index;
      if (auto n = numberOf(m_.strings[name])) taken_.push_back(*n);
      return;
    }
  }
  unnamed_.push_back(v);
}

// The two blocks of a `while` share one list of arguments, which is written once.
void Naming::nameArguments(BlockId b) {
  const OpId around = m_[b].parentOp;
  const bool second =
      around.valid() && m_.record(around).regions == RegionKind::While && b == m_.region(around, 1);
  const std::vector<ValueId>& args = m_[b].args;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!second || i >= m_[m_.region(around)].args.size()) {
      keepOrPostpone(args[i]);
      continue;
    }
    const ValueId first = m_[m_.region(around)].args[i];
    sameAs_.emplace_back(args[i], first);
    if (names_[first] == kUnknown) continue;
    const StrId name(names_[first]);
    ++visibleCount_[name];
    visible_.push_back(name);
  }
}

void Naming::nameBlock(BlockId b) {
  size_t mark = visible_.size();
  nameArguments(b);
  for (OpId o : m_[b].ops) {
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
      size_t from = visibleFrom_;
      if (isIsolated(m_.record(o).regions)) visibleFrom_ = visible_.size();
      nameBlock(m_.region(o, r));
      visibleFrom_ = from;
    }
    for (uint32_t i = 0; i < m_[o].numResults; ++i) keepOrPostpone(m_.result(o, i));
  }
  for (; visible_.size() > mark; visible_.pop_back()) --visibleCount_[visible_.back()];
}

void Naming::append(std::string& out, ValueId v) const {
  out += '%';
  uint32_t name = names_.covers(v) ? names_[v] : kUnknown;
  if (name == kUnknown)
    out += "?" + std::to_string(v.index);
  else if (name & kNumbered)
    out += std::to_string(name & ~kNumbered);
  else
    out += m_.strings[StrId(name)];
}

std::string Naming::operator()(ValueId v) const {
  std::string out;
  append(out, v);
  return out;
}

} // namespace dtc
