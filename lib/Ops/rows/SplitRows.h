#pragma once
// OpRecord::splitRows of scans, argmax, argmin, topk and argsort: few long rows are split into parts, whose
// results are combined, so that they use all cores, or the entire GPU. The split depends on the shapes alone.
#include "dtc/IR/OpRecord.h"

namespace dtc {

bool splitScan(Builder&, OpId, RowSplit&, std::vector<ValueId>& results);
bool splitArg(Builder&, OpId, RowSplit&, std::vector<ValueId>& results);
bool splitTopk(Builder&, OpId, RowSplit&, std::vector<ValueId>& results);
// If only the first elements of rows are read, these.
bool splitArgsort(Builder&, OpId, RowSplit&, std::vector<ValueId>& results);

} // namespace dtc
