#include "report/Closed.h"

#include "dtc/Session/Session.h"

namespace dtc {

std::optional<Module> closedModule(Module m, FuncId entry, Diagnostics& diags,
                                   std::optional<Module>* written) {
  constexpr std::string_view kBefore = "decompose"; // the pass before canonicalize
  Session session(std::move(m), entry);
  if (written)
    session.hooks.after = [&](const PassStep& s, const Module& now, double) {
      if (std::string_view(s.pass->name) == kBefore) written->emplace(now);
    };
  if (!session.lower(Stage::Closed, diags) || diags.hasErrors()) return std::nullopt;
  return std::move(session.module());
}

} // namespace dtc
