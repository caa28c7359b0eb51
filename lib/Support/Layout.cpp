#include "dtc/Support/Layout.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Result.h"
#include <algorithm>

namespace dtc {
namespace {

struct Leaf {
  int64_t shape = 1, stride = 0;
};

int64_t times(int64_t a, int64_t b) {
  std::optional<int64_t> r = checkedMul(a, b);
  DTC_CHECK(r, "a layout exceeds 2^63");
  return *r;
}
int64_t plus(int64_t a, int64_t b) {
  std::optional<int64_t> r = checkedAdd(a, b);
  DTC_CHECK(r, "a layout exceeds 2^63");
  return *r;
}

void collectLeaves(const Layout& l, std::vector<Leaf>& out) {
  if (l.isLeaf()) return out.push_back({l.shape(), l.stride()});
  for (const Layout& m : l.modes()) collectLeaves(m, out);
}
std::vector<Leaf> leavesOf(const Layout& l) { // slowest first
  std::vector<Leaf> leaves;
  collectLeaves(l, leaves);
  return leaves;
}

// Removes modes of one element and merges contiguous neighbors; slowest first.
std::vector<Leaf> coalescedLeaves(const Layout& l) {
  std::vector<Leaf> out;
  for (const Leaf& x : leavesOf(l)) {
    if (x.shape == 1) continue;
    if (!out.empty() && out.back().stride == times(x.shape, x.stride)) {
      out.back() = {times(out.back().shape, x.shape), x.stride};
      continue;
    }
    out.push_back(x);
  }
  return out;
}

Layout fromLeaves(std::span<const Leaf> leaves) { // slowest first
  if (leaves.empty()) return {1, 0};
  if (leaves.size() == 1) return {leaves[0].shape, leaves[0].stride};
  std::vector<Layout> modes;
  for (const Leaf& x : leaves) modes.emplace_back(x.shape, x.stride);
  return Layout(std::move(modes));
}

// Extracts leaves of b from the digits of a's linear index. A digit may be used once: used twice, it would
// carry.
class Composer {
public:
  explicit Composer(const Layout& a) : a_(coalescedLeaves(a)), taken_(a_.size()) {
    std::reverse(a_.begin(), a_.end());
    if (a_.empty()) a_.push_back({1, 0}), taken_.emplace_back();
  }
  std::optional<Layout> compose(const Layout& b) {
    if (b.isLeaf()) return leaf({b.shape(), b.stride()});
    std::vector<Layout> modes;
    for (const Layout& m : b.modes()) {
      std::optional<Layout> made = compose(m);
      if (!made) return std::nullopt;
      modes.push_back(std::move(*made));
    }
    return Layout(std::move(modes));
  }

private:
  struct Digits { // of one leaf of a: the multiples of `from` below `to`
    int64_t from, to;
  };

  std::optional<Layout> leaf(Leaf b) {
    if (b.shape == 1 || b.stride == 0) return Layout(b.shape, 0);
    if (b.stride < 0) return std::nullopt;
    if (a_.size() == 1) return Layout(b.shape, times(b.stride, a_[0].stride)); // linear: nothing carries
    std::vector<Leaf> made;
    for (size_t i = 0; i < a_.size() && b.shape > 1; ++i) {
      const bool last = i + 1 == a_.size();
      if (!last && b.stride % a_[i].shape == 0) {
        b.stride /= a_[i].shape;
        continue;
      }
      if (!last && a_[i].shape % b.stride != 0) return std::nullopt;
      const int64_t room = last ? b.shape : a_[i].shape / b.stride, count = std::min(room, b.shape);
      if (b.shape % count != 0 || !take(i, b.stride, times(b.stride, count))) return std::nullopt;
      made.insert(made.begin(), {count, times(b.stride, a_[i].stride)});
      b.shape /= count;
      b.stride = 1;
    }
    return fromLeaves(made);
  }
  bool take(size_t i, int64_t from, int64_t to) {
    if (to > a_[i].shape) return false;
    for (const Digits& d : taken_[i])
      if (!(from % d.to == 0 || d.from % to == 0)) return false;
    taken_[i].push_back({from, to});
    return true;
  }

  std::vector<Leaf> a_; // fastest first
  std::vector<std::vector<Digits>> taken_;
};

bool empty(const Layout& l) { return l.size() == 0; }

} // namespace

int64_t Layout::size() const {
  if (leaf_) return shape_;
  int64_t n = 1;
  for (const Layout& m : modes_) n = times(n, m.size());
  return n;
}

int64_t Layout::cosize() const {
  if (size() == 0) return 0;
  int64_t last = 0;
  for (const Leaf& x : leavesOf(*this)) last = plus(last, times(x.shape - 1, x.stride));
  return plus(last, 1);
}

int64_t Layout::operator()(int64_t index) const {
  if (leaf_) return times(index, stride_);
  int64_t offset = 0;
  for (size_t i = modes_.size(); i-- > 0;) {
    const int64_t n = modes_[i].size();
    offset = plus(offset, modes_[i](i == 0 ? index : index % n));
    if (i != 0) index /= n;
  }
  return offset;
}

int64_t Layout::operator()(std::span<const int64_t> coordinates) const {
  int64_t offset = 0;
  for (size_t i = 0; i < rank(); ++i) offset = plus(offset, mode(i)(coordinates[i]));
  return offset;
}

Layout rowMajor(std::span<const int64_t> shape) {
  std::vector<Layout> modes(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    modes[i] = Layout(shape[i], stride);
    stride = times(stride, std::max<int64_t>(shape[i], 1));
  }
  return Layout(std::move(modes));
}

static std::string partText(const Layout& l, bool strides) {
  if (l.isLeaf()) return std::to_string(strides ? l.stride() : l.shape());
  std::string text = "(";
  for (const Layout& m : l.modes()) text += (text.size() > 1 ? ", " : "") + partText(m, strides);
  return text + ")";
}
std::string layoutText(const Layout& l) { return partText(l, false) + ":" + partText(l, true); }

Layout coalesce(const Layout& l) {
  if (empty(l)) return {0, 0};
  return fromLeaves(coalescedLeaves(l));
}

std::optional<Layout> composition(const Layout& a, const Layout& b) {
  for (const Leaf& x : leavesOf(b))
    if (x.stride < 0) return std::nullopt;
  if (b.cosize() > a.size()) return std::nullopt;
  if (empty(b)) return b;
  return Composer(a).compose(b);
}

std::optional<Layout> reshaped(const Layout& l, std::span<const int64_t> shape) {
  const Layout order = rowMajor(shape);
  if (order.size() != l.size()) return std::nullopt;
  return composition(l, order);
}

static Layout withMode(const Layout& l, size_t dim, Layout mode) {
  std::vector<Layout> modes;
  for (size_t i = 0; i < l.rank(); ++i) modes.push_back(i == dim ? mode : l.mode(i));
  return Layout(std::move(modes));
}

std::optional<LayoutPart> sliceOf(const Layout& l, size_t dim, int64_t begin, int64_t count, int64_t step) {
  const Layout& mode = l.mode(dim);
  if (begin < 0 || count < 0 || step <= 0) return std::nullopt;
  if (count == 0) return LayoutPart{withMode(l, dim, Layout(0, 0)), 0};
  if (plus(begin, times(count - 1, step)) >= mode.size()) return std::nullopt;
  // Splits a hierarchical mode at its digits into runs of equal length, of which the slice is one.
  const Layout flat = coalesce(mode);
  if (flat.isLeaf())
    return LayoutPart{withMode(l, dim, Layout(count, times(step, flat.stride()))),
                      times(begin, flat.stride())};
  const int64_t run = times(count, step);
  if (mode.size() % run != 0 || begin % run != 0) return std::nullopt;
  std::optional<Layout> runs =
      composition(flat, Layout({Layout(mode.size() / run, run), Layout(count, step)}));
  if (!runs) return std::nullopt;
  return LayoutPart{withMode(l, dim, runs->mode(1)), flat(begin)};
}

} // namespace dtc
