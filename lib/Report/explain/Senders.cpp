#include "explain/Senders.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"

#include <algorithm>

namespace dtc {

static bool isMessage(const Module& m, OpId o) {
  return m.record(o).collective == CollectiveKind::P2p && m.record(o).async != AsyncForm::Done;
}

Senders::Senders(const Module& m, FuncId f) : m_(m), function_(f) {
  const FuncId entry = entryOfProgram(m, f);
  if (!entry.valid() || devicesOf(m, f).empty() || !meshOfFunction(m, f).valid()) return;
  programs_ = programsOf(m, entry);
  if (!programs_.differ()) return;
  mesh_ = meshValueOf(m, f);
  own_ = messagesOf(f);
}

// Of the attributes only what both ends have: not the memory offset of the result.
std::string Senders::keyOf(OpId o) const {
  std::string key;
  for (const AxisRef& a : axesOfOp(m_, o)) key += printAxis(a, m_.strings) + ";";
  for (const P2pSend& s : sendsOf(m_, o))
    key += std::to_string(s.operand) + ":" + std::to_string(s.from) + ">" + std::to_string(s.to) + ";";
  for (const char* name : {"stage", "microbatch"})
    if (const AttrId a = m_.attr(o, name); a.valid()) key += std::to_string(m_.attrs[a].i) + ";";
  if (const AttrId phase = m_.attr(o, "phase"); phase.valid())
    key += std::string(m_.strings[m_.attrs[phase].text]) + ";";
  for (ValueId v : m_.operands(o)) key += printType(m_, m_[v].type) + ";";
  return key;
}

Senders::Messages Senders::messagesOf(FuncId f) const {
  Messages out;
  forEachOp(m_, m_[f].body, [&](OpId o) {
    if (isMessage(m_, o)) out[keyOf(o)].push_back(o);
  });
  return out;
}

FuncId Senders::senderOf(OpId message, uint32_t operand) const {
  std::vector<AxisRef> axes = axesOfOp(m_, message);
  for (AxisRef& a : axes) a = mesh_.canonical(a);
  FuncId found;
  for (const P2pSend& s : sendsOf(m_, message)) {
    if (s.operand != operand) continue;
    for (size_t d = 0; d < programs_.of.size(); ++d) {
      if (mesh_.indexAlong(axes, static_cast<int64_t>(d)) != s.from) continue;
      const FuncId f = programs_.at(static_cast<int64_t>(d));
      if (f == function_) return {};
      if (!found.valid()) found = f;
    }
  }
  return found;
}

std::optional<Senders::Sender> Senders::of(OpId message, uint32_t operand) const {
  if (own_.empty() || !isMessage(m_, message)) return std::nullopt;
  const FuncId from = senderOf(message, operand);
  if (!from.valid()) return std::nullopt;
  const std::string key = keyOf(message);
  const auto own = own_.find(key);
  if (own == own_.end()) return std::nullopt;
  const auto [all, isNew] = others_.try_emplace(from);
  if (isNew) all->second = messagesOf(from);
  const auto at = all->second.find(key);
  const auto number = static_cast<size_t>(std::ranges::find(own->second, message) - own->second.begin());
  if (at == all->second.end() || number >= at->second.size()) return std::nullopt;
  return Sender{from, at->second[number]};
}

} // namespace dtc
