#include "dtc/IR/text/TextNames.h"

#include <algorithm>

namespace dtc {

static bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The name after the sign at `sign`, with the sign; "" if there is none.
static std::string wordAt(std::string_view text, size_t sign) {
  size_t end = sign + 1;
  while (end < text.size() && isNameChar(text[end])) ++end;
  return end == sign + 1 ? "" : std::string(text.substr(sign, end - sign));
}

std::string nameAt(const SourceText& source, SourceRange at) {
  const std::string_view text = source.text;
  return at.valid() && at.begin < text.size() && text[at.begin] == '%' ? wordAt(text, at.begin) : "";
}

// Where it begins; nothing if there is none.
static std::optional<size_t> statementBegin(const SourceText& source, SourceRange op) {
  const std::string_view text = source.text;
  if (!op.valid() || op.end > text.size()) return std::nullopt;
  size_t begin = op.begin;
  while (begin > 0 && text[begin - 1] != '\n' && text[begin - 1] != '{') --begin;
  begin = text.find('%', begin);
  if (begin >= op.begin) return std::nullopt;
  const size_t next = text.find_first_not_of(' ', begin + wordAt(text, begin).size());
  if (next == text.npos || text[next] != ':') return begin;
  return text[op.begin] == '%' ? std::optional<size_t>(op.begin) // one of several arguments of a line
                               : std::nullopt;
}

std::string statementAt(const SourceText& source, SourceRange op) {
  const auto begin = statementBegin(source, op);
  return begin ? wordAt(source.text, *begin) : "";
}

// The name of the function whose text contains the offset.
std::string TextNames::functionAt(uint32_t offset) const {
  const std::string_view text = m_.source.text;
  if (!functions_) {
    functions_.emplace();
    for (size_t at = text.find("func"); at != std::string_view::npos; at = text.find("func", at + 1)) {
      const size_t line = text.rfind('\n', at) + 1, open = text.find_first_of("@\n", at);
      if (text.substr(line, at - line).find_first_not_of(' ') != std::string_view::npos) continue;
      if (open == std::string_view::npos || text[open] != '@') continue;
      if (std::string name = wordAt(text, open); !name.empty()) functions_->emplace_back(at, name.substr(1));
    }
  }
  const auto after =
      std::ranges::upper_bound(*functions_, offset, {}, &std::pair<size_t, std::string>::first);
  return after == functions_->begin() ? "" : std::prev(after)->second;
}

// The function that contains the value.
static FuncId functionOf(const Module& m, ValueId v) {
  BlockId b;
  if (m[v].kind == ValueKind::BlockArg) b = BlockId(m[v].owner);
  if (const OpId o = m.definingOp(v); o.valid()) b = m[o].parent;
  while (b.valid() && m[b].parentOp.valid()) b = m[m[b].parentOp].parent;
  return b.valid() ? m[b].parentFunc : FuncId();
}

std::string TextNames::written(ValueId v) const {
  const SourceRange at = m_[v].loc;
  const std::string name = nameAt(m_.source, at);
  const std::string own = m_[v].name.valid() ? names_(v) : "";
  return name.empty() ? own : qualified(name, own, v, at.begin);
}

// The name of the value of the statement whose name is written there, in functions that were inlined.
std::string TextNames::instanceAt(FuncId in, uint32_t offset) const {
  const auto keyOf = [](FuncId f, uint32_t at) { return uint64_t{f.index} << 32 | at; };
  if (!instances_) {
    instances_.emplace();
    for (uint32_t i = 0; i < m_.values.size(); ++i) {
      const ValueId v(i);
      if (!m_[v].name.valid() || nameAt(m_.source, m_[v].loc).empty()) continue;
      const FuncId f = functionOf(m_, v);
      if (!f.valid() || m_.strings[m_[f].name] == functionAt(m_[v].loc.begin)) continue; // not inlined
      const auto [it, isNew] = instances_->try_emplace(keyOf(f, m_[v].loc.begin), names_(v));
      if (!isNew && it->second != names_(v)) it->second.clear();
    }
  }
  const auto it = instances_->find(keyOf(in, offset));
  return it == instances_->end() ? "" : it->second;
}

// An inlined value keeps its name in the caller; an unnamed one has that of its statement, otherwise "@f:%3".
std::string TextNames::qualified(const std::string& name, const std::string& own, ValueId v,
                                 uint32_t at) const {
  const FuncId f = functionOf(m_, v);
  const std::string function = functionAt(at);
  if (!f.valid() || function.empty() || m_.strings[m_[f].name] == function) return name;
  const std::string named = own.empty() ? instanceAt(f, at) : own;
  return named.empty() ? "@" + function + ":" + name : named;
}

std::string TextNames::statement(ValueId v) const {
  const OpId o = m_.definingOp(v);
  SourceRange at = o.valid() ? m_[o].loc : m_[v].loc;
  if (!at.valid() && m_[v].kind == ValueKind::BlockArg) // of a loop that a pass made
    if (const OpId around = m_[BlockId(m_[v].owner)].parentOp; around.valid()) at = m_[around].loc;
  const auto begin = statementBegin(m_.source, at);
  return begin ? qualified(wordAt(m_.source.text, *begin), "", v, static_cast<uint32_t>(*begin)) : "";
}

bool TextNames::isGenerated(ValueId v) const { return written(v).empty() && !statement(v).empty(); }

std::string TextNames::operator()(ValueId v) const {
  if (std::string name = written(v); !name.empty()) return name;
  if (std::string name = statement(v); !name.empty()) return name;
  return names_(v);
}

} // namespace dtc
