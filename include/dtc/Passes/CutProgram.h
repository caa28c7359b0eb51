#pragma once
// Ops that communicate inside themselves (CutOp.h), as programs of their own: what they cost, and what the prover runs.
#include "dtc/IR/CutOp.h"
#include <map>

namespace dtc {

// Of one op on pieces: a module of its own with one spmd function, @cut, whose arguments and results are the op's.
struct CutProgram {
  Module module;
  FuncId func;
  bool written = false; // the record has a local program for these cuts
  std::string choice;   // as CutOp says them
  double seconds = 0;
};

// What the program receives on one device (of symbolic sizes: nominally), and how long that takes on the nominal machine.
struct CutPrice {
  bool possible = false;
  int64_t bytes = 0;
  double seconds = 0;      // of the messages
  double withWork = 0;     // of messages and work together, where the op says it; else 0
  std::string choice = {}; // what the op says of its program
};

// Prices and programs for the ops of one module, each made once.
class CutPrograms {
public:
  explicit CutPrograms(const Module& m) : m_(m) {}
  // `factors` by factor of the op's rule, disjoint.
  [[nodiscard]] CutPrice price(OpId, const Rule&, std::span<const PartList> factors, MeshId);
  std::optional<DType>
      reduceDType; // what sums of floats travel in; to be set before the first price is asked

private:
  [[nodiscard]] CutPrice priceOfProgram(const CutProgram&) const;
  const Module& m_;
  std::map<std::vector<uint64_t>, CutPrice> prices_;
};

// The op as it stands in `m`, cut so. The module has m's tables, so that ids of types, attributes, meshes mean the same.
[[nodiscard]] CutProgram cutProgram(const Module& m, OpId, const Rule&, std::span<const PartList> factors,
                                    MeshId, std::optional<DType> reduceDType = {});

} // namespace dtc
