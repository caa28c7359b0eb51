#include "Naming.h"

#include "dtc/IR/OpRecord.h"

#include <algorithm>
#include <charconv>

namespace dtc {

namespace {

// "12" as a number that the printer might give; nothing for other names ("012", "x").
std::optional<uint32_t> numberOf(std::string_view name) {
  uint32_t n = 0;
  auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), n);
  if (bad != std::errc() || end != name.data() + name.size() || n >= 0x80000000u) return std::nullopt;
  return n;
}

} // namespace

Naming::Naming(const Module& m, FuncId f) : m_(m) {
  if (!f.valid()) return;
  nameBlock(m[f].body);
  std::vector<uint32_t> taken;
  for (const auto& [value, name] : names_)
    if (auto n = numberOf(m.strings[StrId(name)])) taken.push_back(*n);
  std::sort(taken.begin(), taken.end());
  uint32_t next = 0;
  size_t t = 0;
  for (ValueId v : unnamed_) {
    for (; t < taken.size() && taken[t] <= next; ++t)
      if (taken[t] == next) ++next;
    names_[v] = kNumbered | next++;
  }
}

void Naming::keepOrPostpone(ValueId v) {
  StrId name = m_[v].name;
  if (name.valid()) {
    // How often the name stands within what this place can see.
    auto [it, isNew] = visibleCount_.try_emplace(name, 0);
    bool taken = false;
    if (it->second > 0) {
      auto from = visible_.begin() + static_cast<ptrdiff_t>(visibleFrom_);
      taken = visibleFrom_ == 0 || std::find(from, visible_.end(), name) != visible_.end();
    }
    if (!taken) {
      ++it->second;
      visible_.push_back(name);
      names_.emplace(v, name.index);
      return;
    }
  }
  unnamed_.push_back(v);
}

void Naming::nameBlock(BlockId b) {
  size_t mark = visible_.size();
  for (ValueId v : m_[b].args) keepOrPostpone(v);
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
  auto it = names_.find(v);
  if (it == names_.end())
    out += "?" + std::to_string(v.index);
  else if (it->second & kNumbered)
    out += std::to_string(it->second & ~kNumbered);
  else
    out += m_.strings[StrId(it->second)];
}

std::string Naming::operator()(ValueId v) const {
  std::string out;
  append(out, v);
  return out;
}

} // namespace dtc
