// Horizontal fusion: small independent kernels, each of which would leave most of the device idle, share a launch.
#include "fuse/FusionSteps.h"
#include <algorithm>
#include <map>
#include <tuple>

namespace dtc {

namespace {

// A launch costs about as much as some thousand elements, and a kernel with few rows leaves cores idle.
// Larger groups are not fused horizontally: they gain nothing, and their operands and results would be live
// at the same time.
constexpr int64_t kSmallElements = 1 << 14;
constexpr size_t kMaxAxes =
    32; // each adds loops of its own, and the number of axes of a kernel is limited (LoopIr.h)
constexpr int64_t kMinColumns =
    8; // a GPU reduces fewer columns in another order if other rows are in the kernel

struct Small {
  uint32_t group = 0;
  // The number of elements that each result reduces; 0: it reduces none. Blocks of one launch take about the same
  // time if it is equal.
  int64_t reduced = 0;
  size_t axes = 0;
  int64_t bytes = 0; // of operands that other kernels write: they are live until this one has run
  uint32_t at = 0;   // its position
  uint32_t upto = 0; // the last position at which no reader waits for it
};

// Joins groups that may run later: each waits, in the order of the program, for others of its kind.
class Launches {
public:
  explicit Launches(FusionGroups& fusion) : fusion_(fusion) {}
  void run();

private:
  [[nodiscard]] bool describe(Small& s) const;
  [[nodiscard]] bool reducesColumns(Small& s) const;
  [[nodiscard]] int64_t operandBytes(const FusionGroup& group) const;
  void findReaders();
  [[nodiscard]] bool fits(const Small& open, const Small& s) const;
  void add(const Small& s);

  FusionGroups& fusion_;
  std::vector<Small> all_;
  std::vector<Small> open_; // the longest waiting first
};

} // namespace

static bool isElementwise(const FusionGroups& fusion, const FusionGroup& group) {
  return group.fusible && !group.closed && !group.rows && !group.ops.empty() && group.kind == "pointwise" &&
         group.elements.sizes.empty() && group.elements.number <= kSmallElements &&
         (group.ops.size() != 1 || !fusion.at(group.ops[0]).again);
}

static size_t axesOf(const FusionGroups& fusion, const FusionGroup& group) {
  size_t axes = 0;
  for (OpId o : group.ops) {
    for (uint32_t r = 0; r < fusion.m[o].numResults; ++r)
      axes = std::max(axes, fusion.m.typeOf(fusion.m.result(o, r)).rank());
    if (fusion.formOf(o).reduces) axes = std::max(axes, fusion.m.typeOf(fusion.m.operand(o, 0)).rank());
  }
  return axes;
}

// Groups of one level are independent.
static void joinLevels(FusionGroups& fusion) {
  // By level and part of a micro-batch: the group that others join, and its axes.
  std::map<std::tuple<int64_t, AttrId, AttrId, AttrId, bool>, std::pair<uint32_t, size_t>> open;
  for (uint32_t g = 0; g < fusion.numGroups(); ++g) {
    const FusionGroup& group = fusion.group(g);
    if (!isElementwise(fusion, group)) continue;
    const size_t axes = axesOf(fusion, group);
    const FusionSlot& slot = group.slot;
    auto [it, first] =
        open.try_emplace({group.level, slot.microbatch, slot.phase, slot.stage, slot.frozen}, g, axes);
    if (first) continue;
    auto& [into, taken] = it->second;
    if (taken + axes > kMaxAxes || fusion.group(into).ops.size() + group.ops.size() > fusion.limit) {
      it->second = {g, axes};
      continue;
    }
    fusion.merge(into, g);
    taken += axes;
  }
}

// True if each result is a small vector of reduced columns. The order of each reduction is then that of a kernel of
// its own, because all such have blocks of the same size.
bool Launches::reducesColumns(Small& s) const {
  const FusionGroup& group = fusion_.group(s.group);
  if (!group.fusible || group.closed || group.kind != "reduce" || !group.elements.sizes.empty()) return false;
  for (OpId o : group.ops) {
    const FusionForm& form = fusion_.formOf(o);
    for (ValueId v : fusion_.m.operands(o))
      if (!fusion_.sourceOf(v).aligned) return false;
    if (fusion_.at(o).unaligned || form.move || form.indexed) return false;
    if (!form.reduces) continue;
    const Type& rows = fusion_.m.typeOf(fusion_.m.operand(o, 0));
    const ElementCount columns = fusion_.elementsOf(fusion_.m.typeOf(fusion_.m.result(o)));
    if (form.reduced.back() || !rows.dims.back().isStatic() || rows.dims.back().value() < kMinColumns ||
        columns.number > kSmallElements)
      return false;
    s.reduced = group.elements.number / columns.number;
  }
  return s.reduced > 1;
}

int64_t Launches::operandBytes(const FusionGroup& group) const {
  std::vector<ValueId> read;
  for (OpId o : group.ops)
    for (ValueId operand : fusion_.m.operands(o)) {
      const ValueId v = fusion_.sourceOf(operand).value;
      const int from = fusion_.groupOf(v);
      if (from >= 0 && &fusion_.group(from) != &group && std::ranges::find(read, v) == read.end())
        read.push_back(v);
    }
  int64_t bytes = 0;
  for (ValueId v : read) {
    const Type& t = fusion_.m.typeOf(v);
    const auto n = t.isStatic() ? t.numElements() : std::nullopt;
    if (!n || *n > fusion_.waitingBytes) return fusion_.waitingBytes;
    bytes += *n * dtypeBytes(t.dtype);
  }
  return bytes;
}

bool Launches::describe(Small& s) const {
  const FusionGroup& group = fusion_.group(s.group);
  if (group.ops.empty() || (!isElementwise(fusion_, group) && !reducesColumns(s))) return false;
  s.axes = axesOf(fusion_, group);
  s.bytes = operandBytes(group);
  s.at = fusion_.position(fusion_.placeOf(group));
  s.upto = group.minUser == INT64_MAX ? UINT32_MAX : 0; // else findReaders() finds it
  return 2 * s.bytes <= fusion_.waitingBytes;
}

// A kernel runs before the first kernel that reads its results. What is not a kernel (communication, control flow)
// should start as early as it can: nothing that it reads waits.
void Launches::findReaders() {
  if (std::ranges::all_of(all_, [](const Small& s) { return s.upto != 0; })) return;
  std::vector<uint32_t> upto(fusion_.numGroups(), UINT32_MAX);
  for (OpId o : fusion_.m[fusion_.block].ops) {
    const int g = fusion_.at(o).group;
    if (g < 0) continue;
    const FusionGroup& reader = fusion_.group(g);
    const uint32_t at = fusion_.position(fusion_.placeOf(reader));
    fusion_.forEachRead(o, [&](ValueId v, bool, bool folded) {
      const int from = fusion_.groupOf(v);
      if (folded || from < 0 || from == g) return;
      uint32_t& last = upto[static_cast<size_t>(from)];
      last = reader.fusible && at > 0 ? std::min(last, at - 1) : 0;
    });
  }
  for (Small& s : all_) s.upto = upto[s.group];
}

bool Launches::fits(const Small& open, const Small& s) const {
  const FusionGroup &a = fusion_.group(open.group), &b = fusion_.group(s.group);
  return open.reduced == s.reduced && a.slot == b.slot && open.axes + s.axes <= kMaxAxes &&
         a.ops.size() + b.ops.size() <= fusion_.limit && open.bytes + s.bytes <= fusion_.waitingBytes &&
         std::max(a.level, b.level) < std::min(a.minUser, b.minUser);
}

void Launches::add(const Small& s) {
  std::erase_if(open_, [&](const Small& open) { return open.upto < s.at; });
  const auto like = std::ranges::find(open_, s.reduced, &Small::reduced);
  if (like != open_.end() && fits(*like, s)) {
    const OpId at = fusion_.placeOf(fusion_.group(s.group));
    if (s.reduced == 0)
      fusion_.merge(like->group, s.group);
    else
      fusion_.append(like->group, s.group);
    FusionGroup& joined = fusion_.group(like->group);
    joined.placedAt = at;
    if (s.reduced != 0) joined.kind = "reductions";
    like->axes += s.axes, like->bytes += s.bytes, like->upto = std::min(like->upto, s.upto);
    if (like->bytes + s.bytes > fusion_.waitingBytes) open_.erase(like); // full: it need not wait
  } else {
    if (like != open_.end()) open_.erase(like);
    if (s.upto > s.at) open_.push_back(s);
  }
  int64_t waiting = 0;
  for (const Small& open : open_) waiting += open.bytes;
  for (; waiting > fusion_.waitingBytes; open_.erase(open_.begin())) waiting -= open_.front().bytes;
}

void Launches::run() {
  for (uint32_t g = 0; g < fusion_.numGroups(); ++g) {
    Small s{.group = g};
    if (describe(s)) all_.push_back(s);
  }
  if (all_.size() < 2) return;
  findReaders();
  std::ranges::sort(all_, {}, &Small::at);
  for (const Small& s : all_) add(s);
}

void joinSmall(FusionGroups& fusion) {
  joinLevels(fusion);
  if (fusion.waitingBytes > 0) Launches(fusion).run();
}

} // namespace dtc
