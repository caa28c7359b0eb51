#include "text/ValueScope.h"

namespace dtc {

constexpr DiagKind kRedefined{"redefined-value", "%{0} is already defined"};

ValueScope::Mark ValueScope::enter(bool isolated) {
  Mark s{undo_.size(), visibleFrom_};
  if (isolated) visibleFrom_ = undo_.size();
  return s;
}

void ValueScope::leave(Mark s) {
  while (undo_.size() > s.undo) {
    auto [name, before] = undo_.back();
    slot(name) = before;
    undo_.pop_back();
  }
  visibleFrom_ = s.visibleFrom;
}

ValueScope::Binding& ValueScope::slot(StrId name) {
  if (in_.snippet) {
    for (auto& [known, binding] : few_)
      if (known == name) return binding;
    return few_.emplace_back(name, Binding()).second;
  }
  if (name.index >= bindings_.size()) bindings_.resize(name.index * size_t{2} + 64);
  return bindings_[name.index];
}

ValueId ValueScope::find(StrId name) const {
  Binding b;
  if (!in_.snippet && name.index < bindings_.size()) b = bindings_[name.index];
  for (const auto& [known, binding] : few_)
    if (known == name) b = binding;
  return b.value.valid() && b.serial >= visibleFrom_ ? b.value : ValueId();
}

bool ValueScope::isOutside(StrId name) const {
  return !in_.snippet && name.index < bindings_.size() && bindings_[name.index].value.valid() &&
         !find(name).valid();
}

bool ValueScope::define(const ParsedName& name, ValueId value) {
  if (!name.name.valid()) return true;
  if (ValueId before = find(name.name); before.valid()) {
    if (suppressed()) return false;
    diags_.error(kRedefined, name.range, m_.strings[name.name])
        .note(m_[before].loc, "%" + std::string(m_.strings[name.name]) + " is defined here");
    return false;
  }
  Binding& binding = slot(name.name);
  undo_.emplace_back(name.name, binding);
  binding = {value, static_cast<uint32_t>(undo_.size() - 1)};
  return true;
}

bool ValueScope::definePoisoned(const std::vector<ParsedName>& names) {
  for (const ParsedName& n : names) {
    if (!n.name.valid() || find(n.name).valid()) continue;
    ValueId v(static_cast<uint32_t>(m_.values.size()));
    Value& value = m_.values.emplace_back();
    value.kind = ValueKind::BlockArg;
    value.name = n.name;
    value.loc = n.range;
    define(n, v);
  }
  return true;
}

std::vector<std::string_view> ValueScope::visible() const {
  std::vector<std::string_view> names;
  for (size_t i = visibleFrom_; i < undo_.size(); ++i) {
    const ValueId value = find(undo_[i].first);
    if (!value.valid() || !isPoisoned(m_, value)) names.push_back(m_.strings[undo_[i].first]);
  }
  return names;
}

} // namespace dtc
