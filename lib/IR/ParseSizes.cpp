// Sizes that the command line gives (--dim B=64): of the module, not of functions whose calls bind them.
#include "Parser.h"
#include "dtc/IR/CallSizes.h"

#include <algorithm>

namespace dtc {

// Who calls whom, read ahead of the types: `@g(` in a body, `grad = @g` behind a head.
void Parser::scanCalls() {
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

bool Parser::inSkippedFunction() const {
  const Token& name = tok(atWord("spmd") ? 2 : 1);
  if (skipped_.empty() || name.kind != Tok::Symbol) return false;
  return skipped_.contains(m_.strings.find(text(name).substr(1)));
}

// The number that the command line gives for a name; nothing where each call binds it, or nobody does.
std::optional<int64_t> Parser::boundSize(StrId name) {
  if (keepSizes_ || (ownSizes_ && std::ranges::find(*ownSizes_, name) != ownSizes_->end()))
    return std::nullopt;
  const std::string_view text = m_.strings[name];
  if (options_.symbols) options_.symbols->emplace(text);
  for (const auto& [known, size] : options_.sizes)
    if (known == text) return size;
  return std::nullopt;
}

// A called function's own sizes stay names; others in its head are the module's.
void Parser::bindModuleSizes(Function& f, Body& body) {
  body.own = ownSizes(m_, f);
  ownSizes_ = &body.own;
  SizeBinding given;
  auto bind = [&](TypeId& type) {
    if (!type.valid()) return;
    for (Dim d : std::vector<Dim>(m_.types[type].dims.begin(), m_.types[type].dims.end())) {
      if (d.isStatic()) continue;
      for (StrId s : std::vector<StrId>(m_.dims.dynamic(d).symbols))
        if (const auto size = boundSize(s)) given.sizes.emplace_back(s, Dim(*size));
    }
    if (const TypeId bound = typeInCall(m_, type, given, localMesh_); bound.valid()) type = bound;
  };
  for (FuncArg& a : f.args) bind(m_[a.value].type), bind(a.globalType);
  for (FuncResult& r : f.results) bind(r.type), bind(r.globalType);
  ownSizes_ = nullptr;
}

} // namespace dtc
