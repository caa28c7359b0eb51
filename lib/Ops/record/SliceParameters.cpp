#include "record/SliceParameters.h"
#include "dtc/Support/Checked.h"
#include "record/Entries.h"

namespace dtc {

// Validates [start, limit) and the stride in dim d, which has `size` elements: a message, or "".
static std::string validateSlice(const SliceDim& s, int64_t limit, int64_t size, size_t d) {
  const std::string ofDim = " of dim " + std::to_string(d);
  auto text = [](int64_t n) { return std::to_string(n); };
  if (s.stride < 1)
    return "has stride " + text(s.stride) + " in dim " + std::to_string(d) + ": expected at least 1";
  if (s.start < 0)
    return "has start " + text(s.start) + " in dim " + std::to_string(d) + ": expected at least 0";
  if (limit > size)
    return "has limit " + text(limit) + ", which exceeds the size" + ofDim + ", " + text(size);
  if (s.start > limit) return "has start " + text(s.start) + " past limit " + text(limit) + ofDim;
  return "";
}

bool sliceDims(const OpQuery& q, std::vector<SliceDim>& out) {
  size_t rank = q.type(0).rank();
  std::vector<int64_t> starts = q.intsAttr("start"), strides = q.intsAttr("stride");
  std::vector<Dim> limits = *sizesAttr(q, "limit");
  if (!q.rawAttr("stride").valid()) strides.assign(rank, 1);
  if (starts.size() != rank) return reportEntries(q, "start", starts.size(), rank);
  if (limits.size() != rank) return reportEntries(q, "limit", limits.size(), rank);
  if (strides.size() != rank) return reportEntries(q, "stride", strides.size(), rank);
  for (size_t d = 0; d < rank; ++d) {
    Dim own = q.type(0).dims[d];
    SliceDim s{starts[d] == 0 && limits[d] == own && strides[d] == 1, starts[d], strides[d], 0};
    if (!s.full) {
      if (!own.isStatic() || !limits[d].isStatic())
        return reportShape(q, "cannot slice dim " + std::to_string(d) + ", whose size " + dimText(q, own) +
                                  " is symbolic: start must be 0 and limit " + dimText(q, own));
      int64_t limit = limits[d].value();
      if (std::string problem = validateSlice(s, limit, own.value(), d); !problem.empty())
        return reportShape(q, problem);
      s.size = (limit - s.start) / s.stride + ((limit - s.start) % s.stride != 0);
    }
    out.push_back(s);
  }
  return true;
}

PadMode padMode(const OpQuery& q) {
  const std::string_view mode = q.textAttr("mode");
  return mode == "reflect"     ? PadMode::Reflect
         : mode == "replicate" ? PadMode::Replicate
         : mode == "circular"  ? PadMode::Circular
                               : PadMode::Constant;
}

bool padDims(const OpQuery& q, std::vector<PadDim>& out) {
  size_t rank = q.type(0).rank();
  std::vector<int64_t> low = q.intsAttr("low"), high = q.intsAttr("high"), interior = q.intsAttr("interior");
  if (!q.rawAttr("interior").valid()) interior.assign(rank, 0);
  if (!textChoice(q, "mode", {"constant", "reflect", "replicate", "circular"})) return false;
  const PadMode mode = padMode(q);
  if (low.size() != rank) return reportEntries(q, "low", low.size(), rank);
  if (high.size() != rank) return reportEntries(q, "high", high.size(), rank);
  if (interior.size() != rank) return reportEntries(q, "interior", interior.size(), rank);
  for (size_t d = 0; d < rank; ++d) {
    PadDim p{low[d], high[d], interior[d], 0};
    Dim own = q.type(0).dims[d];
    if (!p.none()) {
      std::string where = " in dim " + std::to_string(d);
      if (!own.isStatic()) return reportShape(q, "cannot pad a symbolic size" + where);
      p.size = own.value();
      constexpr int64_t bound = int64_t(1) << 31;
      if (p.interior < 0 || std::max({p.low, p.high, p.interior, -p.low, -p.high}) >= bound)
        return reportShape(q, "needs low, high and interior below 2^31, and interior at least 0," + where);
      if (mode != PadMode::Constant && p.interior != 0)
        return reportShape(q, "has interior " + std::to_string(p.interior) + where +
                                  ", which only mode = \"constant\" can fill");
      if (mode == PadMode::Reflect && std::max(p.low, p.high) >= p.size)
        return reportShape(q, "reflects " + std::to_string(std::max(p.low, p.high)) + " elements" + where +
                                  ", which has " + std::to_string(p.size) + ": at most " +
                                  std::to_string(p.size - 1) + " can be reflected");
      if (mode == PadMode::Circular && std::max(p.low, p.high) > p.size)
        return reportShape(q, "repeats " + std::to_string(std::max(p.low, p.high)) + " elements" + where +
                                  ", which has " + std::to_string(p.size));
      if (mode == PadMode::Replicate && p.size == 0 && std::max(p.low, p.high) > 0)
        return reportShape(q, "cannot replicate elements of an empty dim" + where);
    }
    out.push_back(p);
  }
  return true;
}

bool shiftsOf(const OpQuery& q, std::vector<Shift>& out) {
  auto rank = static_cast<int64_t>(q.type(0).rank());
  std::vector<int64_t> shifts = q.intsAttr("shifts"), dims = q.intsAttr("dims");
  if (shifts.size() != dims.size())
    return reportEntries(q, "shifts", shifts.size(), dims.size(), "dim of 'dims'");
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t d = dims[i] < 0 ? dims[i] + rank : dims[i];
    if (d < 0 || d >= rank)
      return reportShape(q, "has no dim " + std::to_string(dims[i]) + ": its " + std::to_string(rank) +
                                " dims go from " + std::to_string(-rank) + " to " + std::to_string(rank - 1));
    auto same = std::find_if(out.begin(), out.end(), [&](const Shift& s) { return s.dim == d; });
    if (same == out.end()) same = out.insert(out.end(), {d, 0});
    auto sum = checkedAdd(same->by, shifts[i]);
    if (!sum) return reportShape(q, "has shifts whose sum is more than 2^63-1");
    same->by = *sum;
  }
  return true;
}

} // namespace dtc
