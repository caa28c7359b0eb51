#pragma once
// The typed rule of an op: how the dims of operands and results are made of shared factors (sharding.md §2). Shape
// inference, propagation, partition, evaluation, autodiff of contractions and kernels all read this one object.
#include "dtc/Sharding/Sharding.h"
#include <string>

namespace dtc {

enum class FactorKind : uint8_t {
  Pass,   // operands that have it are cut alike; no communication
  Reduce, // in operands only: the result is pending P(reduce) where it is cut
  Place,  // cut alike, and the local op is told its piece's offset
  Permute,
  Merge,
  Prefix,
  Select,
  Window,
  Owner,
  Exchange,
  Whole, // gathered first
};

struct Factor {
  std::string name; // the letter of the rule text, for diagnostics and explain; "" for a batch dim's
  Dim size;
  FactorKind kind = FactorKind::Pass;
  PendingKind reduce = PendingKind::None; // of Reduce
  // The local op is told where its piece of the factor begins (OpRecord::offsetOperand). So of every Place factor, and of a
  // Reduce factor whose op looks its elements up by number (embedding's vocabulary).
  bool placed = false;
  // The factor that may be cut by the very axes that cut this one, though both are the op's; no tensor has both. -1: none. Of a
  // communicating kind: pieces of the one go round by the pieces of the other (a ring of keys past the queries). Of a Reduce or
  // Place factor: places that the op finds by number; what the other factor counts names them, and rows are exchanged between
  // the devices that name them and those that have them (experts and their tokens). These axes may be a part of the other's.
  int alongside = -1;
  [[nodiscard]] bool needsOffset() const { return placed || kind == FactorKind::Place; }
  // Where it is cut, the op communicates inside itself (OpRecord::cut).
  [[nodiscard]] bool communicates() const {
    return kind >= FactorKind::Permute && kind <= FactorKind::Exchange;
  }
};

// coordinate contribution: stride * factor's coordinate.
struct Term {
  uint16_t factor = 0;
  int64_t stride = 1;
};

// How one dim is indexed by factors.
//  Compound  (i j k), major to minor, mixed radix: index = (i*|j| + j)*|k| + k. A plain dim is a compound of one factor,
//            a dim of size 1 a compound of none.
//  Affine    index = sum stride*factor + offset (slice, window, flip with stride -1).
//  Free      the op's own business (data-dependent or irregular: gather's indexed dim, concat's dim); its factor, if it has
//            one in `terms`, carries the kind.
struct DimMap {
  enum Form : uint8_t { Compound, Affine, Free } form = Compound;
  SmallVector<Term, 2> terms;
  int64_t offset = 0;
  // What stands for an Affine or Free dim in shardings, where it may be cut: the factor of a communicating kind as whose piece
  // the dim is cut, each tensor by its own size (of a window's input dim the output's, of what concat joins the result's).
  SmallVector<Term, 1> cutAs = {};
  // The factors that shardings of the dim speak of, major to minor; none: it is gathered first.
  [[nodiscard]] std::span<const Term> sharded() const {
    if (!cutAs.empty()) return {cutAs.data(), cutAs.size()};
    return form == Affine ? std::span<const Term>() : std::span<const Term>(terms.data(), terms.size());
  }
  [[nodiscard]] bool plain() const { return form == Compound && terms.size() == 1; }
};

struct TensorMap {
  std::vector<DimMap> dims;
};

// Operand `operand` lacks the reduce factor but enters additively: it must be pending too wherever that factor is cut
// (bias of linear, x of scatter, c of fma). Under max/min/any/all it may stay replicated.
struct Join {
  uint16_t operand = 0;
  uint16_t factor = Term{}.factor;
};

struct Rule {
  std::vector<Factor> factors;
  std::vector<TensorMap> operands; // one per operand
  std::vector<TensorMap> results;  // one per result
  std::vector<Join> joins;
  // The factor that a plain dim maps to, or -1.
  [[nodiscard]] int factorOf(const TensorMap& t, size_t dim) const {
    return t.dims[dim].plain() ? t.dims[dim].terms[0].factor : -1;
  }
};

} // namespace dtc
