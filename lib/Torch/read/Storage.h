#pragma once
// Weights that share a storage: a write to the one changes the other.
#include "dtc/Files/Pt2.h"
#include "dtc/Import/graph/Graph.h"

namespace dtc {

struct SharedWeight {
  ImportValueRef weight, base; // inputs of the program
  // The views that compute the weight from the base; the last returns it. Empty: the two overlap, and no view of
  // the base has the weight's elements.
  std::vector<ImportNode> views;
};

// The weights of the program that share memory with another one, which is not in the list itself unless they
// overlap.
[[nodiscard]] std::vector<SharedWeight> sharedWeights(ImportFile&, const Pt2Archive&);

} // namespace dtc
