#include "text/GivenSizes.h"

#include "dtc/IR/CallSizes.h"

#include <algorithm>
#include <utility>

namespace dtc {

void GivenSizes::scanCalls() {
  std::vector<std::pair<StrId, StrId>> calls;
  StrId current;
  for (size_t i = 1; i + 1 < tokens().size(); ++i) {
    if (tokens()[i].kind != Tok::Symbol) continue;
    const StrId name = m_.strings.intern(text(tokens()[i]).substr(1));
    const bool ofGradient = i > 1 && tokens()[i - 1].kind == Tok::Equal && text(tokens()[i - 2]) == "grad";
    if (text(tokens()[i - 1]) == "func")
      current = name;
    else if (current.valid() && (tokens()[i + 1].kind == Tok::LParen || ofGradient))
      calls.emplace_back(current, name);
  }
  const StrId entry = options_.entry.empty() ? StrId() : m_.strings.intern(options_.entry);
  for (const auto& [caller, callee] : calls)
    if (callee != entry) called_.insert(callee);
  for (bool progress = entry.valid(); progress;) {
    progress = false;
    for (const auto& [caller, callee] : calls)
      if (caller != entry && (callee == entry || skipped_.contains(callee)))
        progress = skipped_.insert(caller).second || progress;
  }
}

std::optional<int64_t> GivenSizes::of(StrId name) const {
  if (keep_ || (own_ && std::ranges::find(*own_, name) != own_->end())) return std::nullopt;
  const std::string_view text = m_.strings[name];
  if (options_.symbols) options_.symbols->emplace(text);
  for (const auto& [known, size] : options_.sizes)
    if (known == text) return size;
  return std::nullopt;
}

std::vector<StrId> GivenSizes::leaveSignature(Function& f, MeshId localMesh) {
  if (!std::exchange(keep_, false)) return {};
  const std::vector<StrId> own = ownSizes(m_, f);
  own_ = &own;
  SizeBinding given;
  auto bind = [&](TypeId& type) {
    if (!type.valid()) return;
    for (Dim d : std::vector<Dim>(m_.types[type].dims.begin(), m_.types[type].dims.end())) {
      if (d.isStatic()) continue;
      for (StrId s : std::vector<StrId>(m_.dims.dynamic(d).symbols))
        if (const auto size = of(s)) given.sizes.emplace_back(s, Dim(*size));
    }
    if (const TypeId bound = typeInCall(m_, type, given, localMesh); bound.valid()) type = bound;
  };
  for (FuncArg& a : f.args) bind(m_[a.value].type), bind(a.globalType);
  for (FuncResult& r : f.results) bind(r.type), bind(r.globalType);
  own_ = nullptr;
  return own;
}

} // namespace dtc
