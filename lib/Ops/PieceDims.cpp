#include "PieceDims.h"
#include "dtc/Support/Checked.h"

namespace dtc {

bool sliceDims(const OpQuery& q, std::vector<SliceDim>& out) {
  size_t rank = q.type(0).rank();
  std::vector<int64_t> starts = q.intsAttr("start"), strides = q.intsAttr("stride");
  std::vector<Dim> limits = *sizesAttr(q, "limit");
  if (!q.rawAttr("stride").valid()) strides.assign(rank, 1);
  if (starts.size() != rank || limits.size() != rank || strides.size() != rank)
    return reportShape(q, "needs start, limit and stride with one entry per dim, " + std::to_string(rank) +
                              " in all");
  for (size_t d = 0; d < rank; ++d) {
    Dim own = q.type(0).dims[d];
    SliceDim s{starts[d] == 0 && limits[d] == own && strides[d] == 1, starts[d], strides[d], 0};
    if (!s.whole) {
      if (!own.isStatic() || !limits[d].isStatic())
        return reportShape(q, "cannot cut dim " + std::to_string(d) + ", whose size " + dimText(q, own) +
                                  " is no number; only [0, " + dimText(q, own) + ") is allowed there");
      int64_t limit = limits[d].value();
      if (s.start < 0 || s.start > limit || limit > own.value() || s.stride < 1)
        return reportShape(q, "needs 0 <= start <= limit <= " + dimText(q, own) +
                                  " and a stride of at least 1 in dim " + std::to_string(d));
      s.size = (limit - s.start) / s.stride + ((limit - s.start) % s.stride != 0);
    }
    out.push_back(s);
  }
  return true;
}

static std::optional<PadMode> readPadMode(const OpQuery& q) {
  const std::string_view mode = q.textAttr("mode");
  if (mode == "constant") return PadMode::Constant;
  if (mode == "reflect") return PadMode::Reflect;
  if (mode == "replicate") return PadMode::Replicate;
  if (mode == "circular") return PadMode::Circular;
  return std::nullopt;
}

PadMode padMode(const OpQuery& q) { return readPadMode(q).value_or(PadMode::Constant); }

bool padDims(const OpQuery& q, std::vector<PadDim>& out) {
  size_t rank = q.type(0).rank();
  std::vector<int64_t> low = q.intsAttr("low"), high = q.intsAttr("high"), interior = q.intsAttr("interior");
  if (!q.rawAttr("interior").valid()) interior.assign(rank, 0);
  const std::optional<PadMode> mode = readPadMode(q);
  if (!mode) return reportShape(q, "has the modes \"constant\", \"reflect\", \"replicate\" and \"circular\"");
  if (low.size() != rank || high.size() != rank || interior.size() != rank)
    return reportShape(q, "needs low, high and interior with one entry per dim, " + std::to_string(rank) +
                              " in all");
  for (size_t d = 0; d < rank; ++d) {
    PadDim p{low[d], high[d], interior[d], 0};
    Dim own = q.type(0).dims[d];
    if (!p.none()) {
      std::string where = " in dim " + std::to_string(d);
      if (!own.isStatic()) return reportShape(q, "cannot lengthen a size that is no number" + where);
      p.size = own.value();
      constexpr int64_t bound = int64_t(1) << 31;
      if (p.interior < 0 || std::max({p.low, p.high, p.interior, -p.low, -p.high}) >= bound)
        return reportShape(q, "needs sizes below 2^31, and no negative interior," + where);
      if (*mode != PadMode::Constant && p.interior != 0)
        return reportShape(q, "fills between elements with a constant only");
      if (*mode == PadMode::Reflect && std::max(p.low, p.high) >= p.size)
        return reportShape(q, "reflects at most " + std::to_string(p.size - 1) + " elements" + where);
      if (*mode == PadMode::Circular && std::max(p.low, p.high) > p.size)
        return reportShape(q, "goes round at most " + std::to_string(p.size) + " elements" + where);
      if (*mode == PadMode::Replicate && p.size == 0 && std::max(p.low, p.high) > 0)
        return reportShape(q, "has nothing to replicate" + where);
    }
    out.push_back(p);
  }
  return true;
}

bool shiftsOf(const OpQuery& q, std::vector<Shift>& out) {
  auto rank = static_cast<int64_t>(q.type(0).rank());
  std::vector<int64_t> shifts = q.intsAttr("shifts"), dims = q.intsAttr("dims");
  if (shifts.size() != dims.size()) return reportShape(q, "needs one shift per dim that it names");
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t d = dims[i] < 0 ? dims[i] + rank : dims[i];
    if (d < 0 || d >= rank) return reportShape(q, "has no dim " + std::to_string(dims[i]));
    auto same = std::find_if(out.begin(), out.end(), [&](const Shift& s) { return s.dim == d; });
    if (same == out.end()) same = out.insert(out.end(), {d, 0});
    auto sum = checkedAdd(same->by, shifts[i]);
    if (!sum) return reportShape(q, "has shifts that pass 2^63");
    same->by = *sum;
  }
  return true;
}

} // namespace dtc
