// Names of values: what is visible where (ir.md §2.2).
#include "Parser.h"

namespace dtc {

namespace {

constexpr DiagKind kRedefined{"redefined-value", "%{0} is already defined"};

} // namespace

Parser::Scope Parser::enterScope(bool isolated) {
  Scope s{undo_.size(), visibleFrom_};
  if (isolated) visibleFrom_ = undo_.size();
  return s;
}

void Parser::leaveScope(Scope s) {
  while (undo_.size() > s.undo) {
    auto [name, before] = undo_.back();
    slot(name) = before;
    undo_.pop_back();
  }
  visibleFrom_ = s.visibleFrom;
}

Parser::Binding& Parser::slot(StrId name) {
  if (inSnippet_) {
    for (auto& [known, binding] : fewNames_)
      if (known == name) return binding;
    return fewNames_.emplace_back(name, Binding()).second;
  }
  if (name.index >= scope_.size()) scope_.resize(name.index * size_t{2} + 64);
  return scope_[name.index];
}

ValueId Parser::lookup(StrId name) const {
  Binding b;
  if (!inSnippet_ && name.index < scope_.size()) b = scope_[name.index];
  for (const auto& [known, binding] : fewNames_)
    if (known == name) b = binding;
  return b.value.valid() && b.serial >= visibleFrom_ ? b.value : ValueId();
}

// Is it a value around a block that sees only its own arguments?
bool Parser::isOutside(StrId name) const {
  return !inSnippet_ && name.index < scope_.size() && scope_[name.index].value.valid() &&
         !lookup(name).valid();
}

bool Parser::define(const ParsedName& name, ValueId value) {
  if (!name.name.valid()) return true;
  if (ValueId before = lookup(name.name); before.valid()) {
    if (suppressed()) return false;
    report(kRedefined, name.range, m_.strings[name.name])
        .note(m_[before].loc, "%" + std::string(m_.strings[name.name]) + " is defined here");
    return false;
  }
  Binding& binding = slot(name.name);
  undo_.emplace_back(name.name, binding);
  binding = {value, static_cast<uint32_t>(undo_.size() - 1)};
  return true;
}

void Parser::definePoisoned(const std::vector<ParsedName>& names) {
  for (const ParsedName& n : names) {
    if (!n.name.valid() || lookup(n.name).valid()) continue;
    ValueId v(static_cast<uint32_t>(m_.values.size()));
    Value& value = m_.values.emplace_back();
    value.kind = ValueKind::BlockArg;
    value.name = n.name;
    value.loc = n.range;
    define(n, v);
  }
}

std::vector<std::string_view> Parser::visibleNames() const {
  std::vector<std::string_view> names;
  for (size_t i = visibleFrom_; i < undo_.size(); ++i) {
    const ValueId value = lookup(undo_[i].first);
    if (!value.valid() || !poisoned(value)) names.push_back(m_.strings[undo_[i].first]);
  }
  return names;
}

} // namespace dtc
