#pragma once
// The location of an op in the user's original program, if the text was imported from another compiler (ir.md,
// `name` and `loc`). Reports show it before the location in the .dt text.
#include "dtc/IR/Module.h"

namespace dtc {

struct UserPlace {
  std::string file; // "model.py:12:9"
  std::string path; // "layers.0.attn", "jit(step)/mul"
  [[nodiscard]] bool empty() const { return file.empty() && path.empty(); }
};

// For an op with regions, the first location found inside. Empty if there is none.
[[nodiscard]] UserPlace userPlace(const Module&, OpId);
// "model.py:12:9 (jit(step)/mul)", "model.py:12:9" or "jit(step)/mul". "" if there is none.
[[nodiscard]] std::string userLocation(const Module&, OpId);

// The user's own name of an argument or a result, given by `{name = "…"}`: "layers.0.weight", or "".
[[nodiscard]] std::string userName(const Module&, const AttrList&);

} // namespace dtc
