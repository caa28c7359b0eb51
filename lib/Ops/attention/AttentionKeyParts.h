#pragma once
// Which keys a part of attention_parts covers, and how many parts are profitable.
#include "attention/AttentionParts.h"

namespace dtc {

inline constexpr int64_t kPartTile = 64; // keys: parts are multiples of a tile

struct KeyPart {
  int64_t begin, end;
};
// The keys [begin, end) of part `part`: the keys visible to any query by position are divided into tiles, and
// these into parts that differ by at most one tile. `offset`: the offset of the queries.
[[nodiscard]] KeyPart attentionPart(const OpQuery&, int64_t queries, int64_t keys, int64_t offset,
                                    int64_t part);
// OpRecord::derive "key parts" of attention: the number of parts that occupies a large GPU, or 1 if that is
// not needed. Depends only on the shape, so that results are the same on every GPU. A model, not measured:
// split if fewer than half of 132 processors would have a block, with at least four tiles per part, so that
// the merge reads little compared to the keys.
[[nodiscard]] double attentionKeyParts(const OpQuery&);

[[nodiscard]] bool attentionPartsEval(const OpQuery&, std::span<const Tensor* const> operands,
                                      std::span<Tensor* const> results);
void addAttentionPartsOp(OpRegistry&); // of the family `attention`
void addAttentionMergeOp(OpRegistry&); // of the family `attention`
void addRopeOp(OpRegistry&);           // of the family `attention`

} // namespace dtc
