// Sizes of buffers and launches as formulas over the symbolic sizes, evaluated when these are bound.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Support/Checked.h"

namespace dtc {

int64_t SizeFormula::operator()(std::span<const int64_t> sizes) const {
  int64_t sum = 0;
  for (const std::vector<Factor>& term : terms) {
    int64_t product = 1;
    for (const Factor& f : term) {
      int64_t extent = f.size < 0 ? f.number : sizes[static_cast<size_t>(f.size)];
      std::optional<int64_t> next = checkedMul(product, extent / f.per + (extent % f.per != 0));
      DTC_CHECK(next, "a kernel's size exceeds 2^63");
      product = *next;
    }
    std::optional<int64_t> next = checkedAdd(sum, product);
    DTC_CHECK(next, "a kernel's size exceeds 2^63");
    sum = *next;
  }
  return sum;
}

std::vector<SizeFormula::Factor> factorsOf(const loops::Size& s) {
  std::vector<SizeFormula::Factor> r;
  if (s.number != 1 || s.args.empty()) r.push_back({s.number, -1, 1});
  for (uint32_t a : s.args) r.push_back({1, static_cast<int32_t>(a), 1});
  return r;
}
SizeFormula formula(const loops::Size& s) { return s.is(0) ? SizeFormula{} : SizeFormula{{factorsOf(s)}}; }

} // namespace dtc
