#pragma once
// OpRecord::splitRows of softmax, norms, losses and variances of few, very long rows. A row kernel uses at most one
// cluster of blocks per row, and rereads the row in each pass if it does not fit on chip. Here every part of
// a row is a row of its own, so that the entire GPU is used; a small kernel combines the partial results, and
// one more pass writes the output: two reads in total.
#include "dtc/IR/OpRecord.h"

namespace dtc {

bool splitSoftmax(Builder&, OpId, RowSplit&, std::vector<ValueId>& results); // log_softmax, too
bool splitLogsumexp(Builder&, OpId, RowSplit&, std::vector<ValueId>& results);
bool splitMoment(Builder&, OpId, RowSplit&, std::vector<ValueId>& results);
bool splitNorm(Builder&, OpId, RowSplit&, std::vector<ValueId>& results);
bool splitCrossEntropy(Builder&, OpId, RowSplit&, std::vector<ValueId>& results);

} // namespace dtc
