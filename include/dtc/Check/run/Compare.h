#pragma once
// The rule of --check (cli.md): a result passes if its error against R64 is at most 4 times that of Rd, per
// tensor, in the maximum and in the root mean square, plus 4 ulp of its dtype and one ulp of the
// communication dtype per hop. An element that is beyond this and sensitive to rounding may be off by 4 times
// its own spread.
#include "dtc/Support/Tensor.h"
#include <optional>
#include <string>
#include <vector>

namespace dtc {

struct CommHops {
  int64_t hops = 0;         // the number of roundings between devices on the way to this value …
  DType dtype = DType::F32; // … and their dtype
};
// The effect on a result if every collective on the way to it is perturbed by the rounding of its hops
// (addCommErrors).
struct CommErrors {
  double max = 0, rms = 0;
};
struct CompareOptions {
  std::vector<CommHops> commHops; // one per dtype
  // Hops in a dtype coarser than the result's round values that may be far larger or smaller than the result:
  // not counted, or with `measured` at most these.
  bool coarseHops = true;
  std::optional<CommErrors> measured;
  // rd with NaN where infinities and NaN are not promised (docs/sharding.md, "Infinities and NaN"); may be
  // null. Where it differs from rd, an element may be NaN, or of the kind that either has; the others are
  // held to the rule.
  const Tensor* unpromised = nullptr;
  // Evaluations like rd's with perturbed operands (addPerturbed): the spread of an element is its largest
  // error in them. Empty: no element is sensitive.
  std::vector<const Tensor*> perturbed;
};

struct CompareReport {
  bool pass = true;
  std::string reason;     // "" where it passes; else the failure, with the element and both values
  int64_t elements = 0;   // compared
  int64_t unpromised = 0; // of these, that differ where nothing is promised
  int64_t sensitive = 0;  // of these, that pass by their own spread; the errors below are of the others
  double maxAbs = 0, maxRel = 0;        // largest errors against R64, over elements that are finite in both
  int64_t whereAbs = -1, whereRel = -1; // their row-major indices; -1: no element differs
  double rms = 0;                       // of the error
  double allowedMax = 0, allowedRms = 0;
  int64_t whereFailed = -1; // row-major index of the element named in `reason`, or -1
};

// `got` in its own dtype; `r64` of dtype f64 (integers and bools: their dtype); `rd` of got's dtype. Shapes
// must be equal, else the report states the difference. Integers and bools must equal one of the references,
// element by element. ulp: the spacing of the dtype at the largest |r64| (for the maximum error) and at its
// root mean square (for the rms).
//
// NaN and infinities: an element must be of the kind (finite, +inf, -inf, NaN) that R64 or Rd has there; a
// NaN that neither has never passes. Elements that are not finite in all three are excluded from the errors.
[[nodiscard]] CompareReport compareTensors(const Tensor& got, const Tensor& r64, const Tensor& rd,
                                           const CompareOptions& = {});

// "[3, 4]" of a row-major index; "[]" of a scalar.
[[nodiscard]] std::string indexText(int64_t flat, const std::vector<int64_t>& shape);

// The spacing of the floats of `dtype` at |v| (subnormals: the smallest one); 0 for integers and bools.
[[nodiscard]] double ulpAt(DType dtype, double v);

} // namespace dtc
