// Parses --parallel.
#include "dtc/Model/Model.h"

#include <algorithm>
#include <charconv>

namespace dtc {
constexpr std::string_view kAxes[] = {"dp", "fsdp", "ep", "cp", "tp", "pp"};

static Error wrong(std::string_view text, const std::string& why) {
  return usageError("--parallel " + std::string(text) + ": " + why +
                    " (dp, fsdp, ep, cp, tp and pp take a size, sp takes none: --parallel dp=2,tp=4,sp)");
}

bool ModelParallel::has(std::string_view name) const {
  for (const Axis& a : axes)
    if (a.name == name) return true;
  return false;
}

int64_t ModelParallel::size(std::string_view name) const {
  for (const Axis& a : axes)
    if (a.name == name) return a.size;
  return 1;
}

Result<ModelParallel> parseModelParallel(std::string_view text) {
  ModelParallel p;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one == "sp") {
      p.sequence = true;
      continue;
    }
    std::string name(one.substr(0, one.find('=')));
    if (std::find(std::begin(kAxes), std::end(kAxes), name) == std::end(kAxes))
      return wrong(text, "'" + name + "' is not a kind of parallelism");
    if (p.has(name)) return wrong(text, "'" + name + "' is given twice");
    std::string_view digits = one.substr(std::min(one.size(), name.size() + 1));
    int64_t size = 0;
    auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (digits.empty() || bad != std::errc() || end != digits.data() + digits.size() || size < 1 ||
        size > INT32_MAX)
      return wrong(text, "'" + std::string(one) + "' is not " + name + "=SIZE");
    p.axes.push_back({name, size});
  }
  if (p.sequence && !p.has("tp")) return wrong(text, "sp shards positions over tp, which is missing");
  return p;
}

} // namespace dtc
