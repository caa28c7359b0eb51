#pragma once
// Which keys a part of attention_parts has, and how many parts are worth it. Private to lib/Ops.
#include "AttentionParts.h"

namespace dtc {

inline constexpr int64_t kPartTile = 64; // keys: parts are whole tiles of what is seen

struct KeyPart {
  int64_t begin, end;
};
// The keys [begin, end) of part `part`: those that any of the queries sees by its place, cut into tiles, and these into parts that
// differ by a tile at most. `offset`: where the queries begin.
[[nodiscard]] KeyPart attentionPart(const OpQuery&, int64_t queries, int64_t keys, int64_t offset,
                                    int64_t part);
// OpRecord::derive "key parts" of attention: of how many parts a large GPU is kept busy, 1: it is anyway. Follows from the shape
// alone, so that results are the same on every GPU; reasoned, not measured. Less than half of 132 processors would have a
// block, and each part has at least four tiles, so that what is merged is a small part of what is read.
[[nodiscard]] double attentionKeyParts(const OpQuery&);

[[nodiscard]] bool attentionPartsEval(const OpQuery&, std::span<const Tensor* const> operands,
                                      std::span<Tensor* const> results);
void addAttentionPartsOp(OpRegistry&); // of the family `attention`
void addAttentionMergeOp(OpRegistry&); // the same

} // namespace dtc
