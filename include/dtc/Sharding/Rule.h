#pragma once
// The index rule of an op: maps the dims of operands and results to shared factors (sharding.md). Shape
// inference, propagation, partition, evaluation, autodiff of contractions and kernels all use it.
#include "dtc/Sharding/Sharding.h"
#include <string>

namespace dtc {

enum class FactorKind : uint8_t {
  Pass,   // sharded alike in all operands that have it; no communication
  Reduce, // in operands only: the result is pending P(reduce) if it is sharded
  Place,  // sharded alike, and the local op gets the offset of its shard
  Permute,
  Merge,
  Prefix,
  Select,
  Window,
  Owner,
  Exchange,
  Whole, // must be unsharded: gathered first
};

struct Factor {
  std::string name; // the letter in the rule text, for diagnostics and explain; "" for a batch dim
  Dim size;
  FactorKind kind = FactorKind::Pass;
  PendingKind reduce = PendingKind::None; // of Reduce
  // The local op gets the offset of its shard of the factor (OpRecord::offsetOperand). True for every Place
  // factor, and for a Reduce factor whose op looks elements up by index (embedding's vocabulary).
  bool placed = false;
  // The factor that may be sharded by the same axes as this one, although the op has both and no tensor does.
  // -1: none. For a communicating kind: shards of this factor circulate among the shards of the other (a ring
  // of keys past the queries). For a Reduce or Place factor with indexed positions: the other factor
  // enumerates the indices, and rows are exchanged between the devices that index them and those that hold
  // them (experts and their tokens). These axes may be a subset of the other factor's.
  int alongside = -1;
  [[nodiscard]] bool needsOffset() const { return placed || kind == FactorKind::Place; }
  // If it is sharded, the op itself communicates (OpRecord::shard).
  [[nodiscard]] bool communicates() const {
    return kind >= FactorKind::Permute && kind <= FactorKind::Exchange;
  }
};

// contribution to the coordinate: stride * the factor's coordinate
struct Term {
  uint16_t factor = 0;
  int64_t stride = 1;
};

// How factors index one dim.
//  Compound  (i j k), major to minor, mixed radix: index = (i*|j| + j)*|k| + k. A plain dim is a compound of
//    one factor, a dim of size 1 a compound of none.
//  Affine    index = sum stride*factor + offset (slice, window, flip with stride -1).
//  Free      handled by the op itself (data-dependent or irregular: gather's indexed dim, concat's dim); its
//    factor, if `terms` has one, carries the kind.
struct DimMap {
  enum Form : uint8_t { Compound, Affine, Free } form = Compound;
  SmallVector<Term, 2> terms;
  int64_t offset = 0;
  // For an Affine or Free dim that may be sharded: the factor of a communicating kind that represents it in
  // shardings. Each tensor shards the dim by its own size (a window's input dim, the inputs of concat).
  SmallVector<Term, 1> shardedAs = {};
  // The factors of the dim in shardings, major to minor; none: the dim is gathered first.
  [[nodiscard]] std::span<const Term> sharded() const {
    if (!shardedAs.empty()) return {shardedAs.data(), shardedAs.size()};
    return form == Affine ? std::span<const Term>() : std::span<const Term>(terms.data(), terms.size());
  }
  [[nodiscard]] bool plain() const { return form == Compound && terms.size() == 1; }
};

struct TensorMap {
  std::vector<DimMap> dims;
};

// Operand `operand` lacks the reduce factor but is added to the result, so that it must also be pending if
// that factor is sharded (bias of linear, x of scatter, c of fma). Under max/min/any/all it may stay
// replicated.
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
