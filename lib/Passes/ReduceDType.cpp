#include "ReduceDType.h"

namespace dtc {

namespace {
constexpr DiagKind kReduceDType{"pass-option",
                                "reduce-dtype: expected a float dtype such as bf16 or f32, got '{0}'"};
} // namespace

const PassOption kReduceDTypeOption{
    "reduce-dtype", "",
    "the float dtype that sums between devices travel in, whatever the values are of: a narrower one rounds"};

bool readReduceDType(const PassOptions& options, std::optional<DType>& out, Diagnostics& diags) {
  const auto written = options.values.find("reduce-dtype");
  if (written == options.values.end() || written->second.empty()) return true;
  out = parseDType(written->second);
  if (out && isFloat(*out)) return true;
  diags.error(kReduceDType, {}, written->second);
  return false;
}

} // namespace dtc
